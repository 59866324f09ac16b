//! Public sets of recorded usage, as anybody can download them, converted to our own format.
//!
//! - Bitbrains, GWA-T-12 of the Grid Workloads Archive: a file for each virtual machine, in a folder a month.
//! - PlanetLab, in the examples of CloudSim: a folder a day, with a file for each sliver: the percentage of a CPU each five minutes.
//! - Nezha, of IntelligentDDS: `POD_metric.csv` in folders by day.

#![expect(clippy::disallowed_methods, reason = "the programs read these files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use headroom_admission::timestamp::Timestamp;
use headroom_fixtures::files_below;
use headroom_usage::DAY;
use tempfile::TempDir;

use crate::Result;
use crate::measure::MIB;

/// The history of machines that run on before the first request is made, and the time between requests.
const FIRST: i64 = 14 * DAY;
const BETWEEN: i64 = 8 * DAY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Bitbrains,
    PlanetLab,
    Nezha,
}

/// Pods as they will be written, `NAMESPACE,POD,CONTAINER,IMAGE`, and their usage by time: a set may hold the same lines twice.
type Pods = BTreeMap<String, BTreeMap<i64, Sample>>;

struct Sample {
    cores: f64,
    bytes: Option<f64>,
}

/// The name of a public set and a folder with it in our format; none if the folder holds something else.
pub fn converted(folder: &Path) -> Result<Option<(String, TempDir)>> {
    let (mut format, mut pods) = (None, Pods::new());
    for file in &files_below(folder)? {
        // Other files of the set may be anything.
        let Ok(text) = fs::read_to_string(file) else { continue };
        let Some(found) = Format::of(file, &text).filter(|found| format.is_none_or(|format| format == *found)) else {
            continue;
        };
        format = Some(found);
        let (pod, samples) = found.read(file, &text).ok_or_else(|| format!("cannot read `{}`", file.display()))?;
        pods.entry(pod).or_default().extend(samples);
    }
    let Some(format) = format else { return Ok(None) };
    let into = tempfile::tempdir()?;
    format.write(&pods, into.path())?;
    Ok(Some((format!("{format:?}").to_lowercase(), into)))
}

impl Format {
    fn of(file: &Path, text: &str) -> Option<Self> {
        let head = text.lines().next()?;
        if head.starts_with("Timestamp [ms];") {
            Some(Self::Bitbrains)
        } else if head.contains(",CpuUsage(m),") {
            Some(Self::Nezha)
        } else {
            day_of(file).filter(|_| head.trim().parse::<u8>().is_ok()).map(|_| Self::PlanetLab)
        }
    }

    /// A pod and its samples; none if the file is not in the format that its first line promises.
    fn read(self, file: &Path, text: &str) -> Option<(String, Vec<(i64, Sample)>)> {
        match self {
            Self::Bitbrains => {
                let vm = file.file_stem()?.to_str()?;
                let samples = text.lines().skip(1).filter_map(|line| {
                    let field = |place: usize| line.split(';').nth(place)?.trim().parse::<f64>().ok();
                    let at = field(0)?;
                    // Its description says milliseconds; the files have seconds.
                    let at = if at > 1e11 { at / 1000.0 } else { at };
                    let bytes = Some(field(6)? * 1024.0);
                    Some((at as i64, Sample { cores: field(1)? * field(4)? / 100.0, bytes }))
                });
                Some((format!("bitbrains,vm-{vm},vm,bitbrains/vm-{vm}:1"), samples.collect()))
            }
            Self::PlanetLab => {
                let (begins, name) = (day_of(file)?, file.file_name()?.to_str()?);
                let (host, slice) = host_and_slice(name);
                let site = host.split_once('_').map_or(host, |(_, site)| site);
                let pod = format!("{name}-{}", file.parent()?.file_name()?.to_str()?);
                let samples = text.lines().enumerate().filter_map(|(place, line)| {
                    let percent = line.trim().parse::<f64>().ok()?;
                    Some((begins + 300 * place as i64, Sample { cores: percent / 100.0, bytes: None }))
                });
                let image = slice.to_lowercase();
                Some((format!("{},{},sliver,planetlab/{image}:1", label(site), label(&pod)), samples.collect()))
            }
            Self::Nezha => {
                let head: Vec<&str> = text.lines().next()?.split(',').collect();
                let column = |name: &str| head.iter().position(|column| *column == name);
                // `TimeStamp` is six years ahead in some files.
                let [time, cpu, memory] = [column("Time")?, column("CpuUsage(m)")?, column("MemoryUsage(Mi)")?];
                let pod = file.file_stem()?.to_str()?.trim_end_matches("_metric");
                let samples = text.lines().skip(1).filter_map(|line| {
                    let fields: Vec<&str> = line.split(',').collect();
                    let field = |place: usize| fields.get(place)?.parse::<f64>().ok();
                    let at = format!("{}Z", fields.get(time)?.get(..19)?.replace(' ', "T"));
                    let bytes = field(memory).map(|mib| mib * MIB);
                    let sample = Sample { cores: field(cpu)? / 1000.0, bytes };
                    Some((at.parse::<Timestamp>().ok()?.unix_seconds(), sample))
                });
                let deployment = pod.rsplitn(3, '-').last()?;
                Some((format!("nezha,{pod},{deployment},nezha/{deployment}:1"), samples.collect()))
            }
        }
    }

    /// Writes a file for each period, and a pod of each image.
    fn write(self, pods: &Pods, into: &Path) -> Result<()> {
        let times = || pods.values().flat_map(BTreeMap::keys).copied();
        let begins = times().min().unwrap_or(0).div_euclid(DAY) * DAY;
        let ends = times().max().unwrap_or(0);
        let period = |at: i64| match self {
            // Requests are compared with the week after.
            Self::Bitbrains if at - begins >= FIRST => {
                let last = (ends - 7 * DAY - begins - FIRST).div_euclid(BETWEEN).max(0);
                begins + FIRST + BETWEEN * ((at - begins - FIRST) / BETWEEN).min(last)
            }
            Self::Bitbrains => begins,
            Self::PlanetLab | Self::Nezha => at.div_euclid(DAY) * DAY,
        };
        let mut files: BTreeMap<i64, String> = BTreeMap::new();
        let mut images = BTreeSet::new();
        for (pod, samples) in pods {
            let mut fields = pod.split(',');
            let (namespace, _, container, image) = (fields.next(), fields.next(), fields.next(), fields.next());
            // A sliver runs on a host for a day, so its namespace has no history of it.
            let namespace = if self == Self::PlanetLab { Some("newcomer") } else { namespace };
            images.extend(namespace.zip(container).zip(image));
            for (at, Sample { cores, bytes }) in samples {
                let text = files
                    .entry(period(*at))
                    .or_insert_with(|| "time,namespace,pod,container,image,cpu,memory\n".to_owned());
                let bytes = bytes.map(|bytes| format!("{bytes:.0}")).unwrap_or_default();
                writeln!(text, "{at},{pod},{cores:.4},{bytes}")?;
            }
        }
        write(&files, into)?;
        let mut text = String::new();
        for ((namespace, container), image) in images {
            let name = label(image.split_once('/').map_or(image, |(_, name)| name.trim_end_matches(":1")));
            writeln!(
                text,
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{containers: [{{name: \
                 {container}, image: \"{image}\"}}]}}"
            )?;
        }
        Ok(fs::write(into.join("pods.yaml"), text)?)
    }
}

/// Writes recordings, each by the time at which it begins.
pub fn write(recordings: &BTreeMap<i64, String>, into: &Path) -> Result<()> {
    for (begins, text) in recordings {
        let begins = Timestamp::from_unix_seconds(*begins).ok_or("a day that there is not")?.to_string();
        fs::write(into.join(format!("{}.csv", begins.split('T').next().unwrap_or_default())), text)?;
    }
    Ok(())
}

/// The midnight by which the folder of a file is named, such as `20110303`.
fn day_of(file: &Path) -> Option<i64> {
    let name = file.parent()?.file_name()?.to_str().filter(|name| name.len() == 8)?;
    let day = format!("{}-{}-{}T00:00:00Z", name.get(..4)?, name.get(4..6)?, name.get(6..)?);
    Some(day.parse::<Timestamp>().ok()?.unix_seconds())
}

/// The host and the slice of a sliver, in whose name all dots are underscores: `host_cs_example_edu_princeton_codeen`.
fn host_and_slice(name: &str) -> (&str, &str) {
    if let Some(found) = name.split_once("_ ") {
        return found;
    }
    let mut places = name.rmatch_indices('_').map(|(place, _)| place);
    let (last, before) = (places.next(), places.next());
    let place = if name.ends_with("_root") { last } else { before };
    place.and_then(|place| Some((name.get(..place)?, name.get(place + 1..)?))).unwrap_or((name, name))
}

/// A text as Kubernetes allows it for a name.
fn label(text: &str) -> String {
    let allowed = text.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    allowed.trim_matches('-').to_owned()
}
