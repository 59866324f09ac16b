//! What a collection costs: `cargo bench --profile native -p headroom-cli`, or `make bench-collect`.
//!
//! Writes a month of one-minute samples of 1,000 containers as CSV, once as a scraper would (minute by minute) and once
//! as an export would (container by container), and lets the real program import them. Reports samples a second, peak
//! memory, the size of store and profiles, and what one more hour costs; and holds the published percentiles of one
//! image to exact ones computed here. `HEADROOM_BENCH_DAYS` and `HEADROOM_BENCH_CONTAINERS` make it smaller.

#![expect(clippy::indexing_slicing, reason = "a benchmark may stop where something is not as it made it")]

#[expect(dead_code, reason = "this one makes its own usage, and reads it from files")]
mod measure;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use headroom_core::cluster::usage::{Percentile, ProfileKey};
use headroom_usage_profile::Usage;
use measure::{Cost, Result, setting};

/// 2026-10-22, so that the thirty days end with the day before `AS_OF`.
const FIRST_DAY: i64 = 1_792_627_200;
const AS_OF: &str = "2026-11-21T00:00:00Z";
const IMAGES: u64 = 50;
const TAGS: u64 = 4;
const NAMESPACES: u64 = 20;
/// The image whose percentiles are computed exactly, in the namespace of the same number.
const WATCHED: u64 = 7;

fn main() -> Result<()> {
    if !measure::is_asked_for() {
        return Ok(());
    }
    let days = setting("HEADROOM_BENCH_DAYS", 30)?;
    let containers = setting("HEADROOM_BENCH_CONTAINERS", 1_000)?;
    let folder = tempfile::tempdir()?;
    println!("{containers} containers, {days} days, one sample of cpu and one of memory a minute");
    println!(
        "{:24}{:>14}{:>10}{:>16}{:>10}{:>10}{:>12}",
        "", "samples", "seconds", "samples/s", "peak MB", "store MB", "profiles MB"
    );
    for order in [Order::ByTime, Order::ByContainer] {
        let csv = folder.path().join("usage.csv");
        let mut exact = Exact::default();
        let begun = Instant::now();
        write_csv(&csv, order, containers, 0..days * 1440, &mut exact)?;
        let wrote = begun.elapsed();
        let run = Run::new(folder.path());
        let cost = run.collect(&csv)?;
        run.report(order.name(), 2 * containers * days * 1440, &cost)?;
        let more = Instant::now();
        write_csv(&csv, Order::ByTime, containers, days * 1440..days * 1440 + 60, &mut exact)?;
        let cost = run.collect(&csv)?;
        run.report("  one more hour", 2 * containers * 60, &cost)?;
        run.compare(&mut exact)?;
        println!(
            "  (the file: {} MB, written in {:.1} s + {:.1} s)",
            fs::metadata(&csv)?.len() >> 20,
            wrote.as_secs_f64(),
            (more.elapsed() - cost.time).as_secs_f64()
        );
        fs::remove_file(&csv)?;
        run.clear()?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Order {
    ByTime,
    ByContainer,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::ByTime => "minute by minute",
            Self::ByContainer => "container by container",
        }
    }
}

/// Every sample of the watched image.
#[derive(Default)]
struct Exact {
    nanocores: Vec<u64>,
    bytes: Vec<u64>,
}

struct Container {
    name: String,
    image: u64,
    namespace: u64,
    random: u64,
    millicores: u64,
    kibibytes: u64,
}

impl Container {
    fn new(number: u64) -> Self {
        let (image, tag, namespace) = (number % IMAGES, number / IMAGES % TAGS, number % NAMESPACES);
        let name = format!("team-{namespace},app-{image}-{number},main,registry.example/shop/app-{image}:1.{tag}");
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { name, image, namespace, random, millicores: 5 << (number % 8), kibibytes: (20 + number % 400) << 10 }
    }

    /// Xorshift; mostly near the usual, now and then far above.
    fn next(&mut self) -> (u64, u64) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let burst = if self.random & 63 == 0 { 1 + (self.random >> 8 & 15) } else { 1 };
        let micros = self.millicores * (500 + (self.random >> 16) % 1000) * burst;
        let bytes = self.kibibytes * (900 + (self.random >> 32) % 200) * burst.min(3);
        (micros, bytes)
    }
}

/// Appends, with a header if the file is new.
fn write_csv(
    path: &Path,
    order: Order,
    containers: u64,
    minutes: std::ops::Range<u64>,
    exact: &mut Exact,
) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::options().create(true).append(true).open(path)?);
    if fs::metadata(path)?.len() == 0 {
        writeln!(file, "time,namespace,pod,container,image,cpu,memory")?;
    }
    let mut all: Vec<Container> = (0..containers).map(Container::new).collect();
    let mut line = |minute: u64, container: &mut Container| -> Result<()> {
        let (micros, bytes) = container.next();
        if container.image == WATCHED && container.namespace == WATCHED {
            exact.nanocores.push(micros * 1_000);
            exact.bytes.push(bytes);
        }
        let (cores, rest) = (micros / 1_000_000, micros % 1_000_000);
        writeln!(file, "{},{},{cores}.{rest:06},{bytes}", FIRST_DAY as u64 + minute * 60, container.name)?;
        Ok(())
    };
    match order {
        Order::ByTime => {
            minutes.into_iter().try_for_each(|minute| all.iter_mut().try_for_each(|one| line(minute, one)))?
        }
        Order::ByContainer => {
            all.iter_mut().try_for_each(|one| minutes.clone().try_for_each(|minute| line(minute, one)))?;
        }
    }
    file.flush()?;
    Ok(())
}

struct Run {
    store: PathBuf,
    profiles: PathBuf,
}

impl Run {
    fn new(folder: &Path) -> Self {
        Self { store: folder.join("usage.redb"), profiles: folder.join("profiles") }
    }

    fn collect(&self, csv: &Path) -> Result<Cost> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom-controller"));
        command
            .args(["collect", "--format", "json", "--as-of", AS_OF, "--store"])
            .arg(&self.store)
            .arg("--output")
            .arg(&self.profiles)
            .arg("files")
            .arg(csv)
            .stderr(Stdio::null());
        measure::run(&mut command)
    }

    fn report(&self, what: &str, samples: u64, cost: &Cost) -> Result<()> {
        let seconds = cost.time.as_secs_f64();
        println!(
            "{what:24}{samples:>14}{seconds:>10.2}{:>16.0}{:>10}{:>10.1}{:>12.2}",
            samples as f64 / seconds,
            cost.peak_kib >> 10,
            fs::metadata(&self.store)?.len() as f64 / 1e6,
            size(&self.profiles)? as f64 / 1e6,
        );
        Ok(())
    }

    /// Holds what was published of the watched image, over all its tags, to the samples themselves.
    fn compare(&self, exact: &mut Exact) -> Result<()> {
        exact.nanocores.sort_unstable();
        exact.bytes.sort_unstable();
        let image = format!("registry.example/shop/app-{WATCHED}");
        let window = self.published(&image)?;
        let mut worst = 0.0_f64;
        for (resource, unit, samples) in [("cpu", 1e9, &exact.nanocores), ("memory", 1.0, &exact.bytes)] {
            let published: Usage = serde_json::from_value(window[resource].clone())?;
            let found = published.samples;
            if found != samples.len() as u64 {
                return Err(format!("{found} samples of {resource} were published, {} written", samples.len()).into());
            }
            for percentile in Percentile::PUBLISHED {
                let wanted = samples[(samples.len() * usize::from(percentile.permille())).div_ceil(1000) - 1] as f64;
                let found =
                    quantity(&published.percentiles.get(percentile).ok_or("no percentile")?.to_string())? * unit;
                worst = worst.max((found - wanted).abs() / wanted);
            }
        }
        println!("  percentiles of {image}, {} samples each: at most {:.3} % off", exact.bytes.len(), worst * 100.0);
        if worst > 0.01 { Err("a percentile is more than 1 % off".into()) } else { Ok(()) }
    }

    /// The month of one image in its namespace, in whichever object it is.
    fn published(&self, image: &str) -> Result<serde_json::Value> {
        let ProfileKey { key, .. } = ProfileKey::of(image);
        for entry in fs::read_dir(self.profiles.join("headroom"))? {
            let profile: serde_json::Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
            let all = &profile["spec"]["images"][key.as_str()]["own"][format!("team-{WATCHED}")]["all"];
            if !all.is_null() {
                return Ok(all["windows"]["30d"].clone());
            }
        }
        Err(format!("{image} was not published").into())
    }

    fn clear(&self) -> Result<()> {
        fs::remove_file(&self.store)?;
        Ok(fs::remove_dir_all(&self.profiles)?)
    }
}

/// By floats and by hand: nothing of what it checks.
fn quantity(text: &str) -> Result<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("unknown suffix {other}").into()),
    };
    Ok(number.parse::<f64>()? * unit)
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
