//! The findings of `doctor` about a file to import. The store is not touched.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use headroom_admission::timestamp::Timestamp;
use headroom_usage::DAY;
use headroom_usage::batch::{Gathered, Impossible};

use super::{FileFormat, LineReader, MAX_GATHERED_BYTES, MAX_LINE_BYTES};
use crate::diagnosis::{self, SourceFinding};

/// The content that was read so far.
#[derive(Default)]
struct Contents {
    samples: u64,
    namespaces: BTreeSet<String>,
    images: BTreeSet<String>,
    days: BTreeSet<u32>,
    unreadable: BTreeSet<String>,
    impossible: Impossible,
}

pub fn diagnose(path: &Path, step_seconds: u32, our_clock: i64) -> Vec<SourceFinding> {
    let mut findings = Vec::new();
    if let Err(error) = read(path, step_seconds, our_clock, &mut findings) {
        let found = match error.kind() {
            io::ErrorKind::NotFound => "it does not exist".to_owned(),
            _ => error.to_string(),
        };
        findings.push(SourceFinding::bad("file", found, "name a file that can be read"));
    }
    findings
}

fn read(path: &Path, step_seconds: u32, our_clock: i64, findings: &mut Vec<SourceFinding>) -> io::Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let mut first = Vec::new();
    next_line(&mut file, &mut first)?;
    let format = match FileFormat::of(&first) {
        Ok(format) => format,
        Err(error) => {
            findings.push(SourceFinding::bad("format", error.to_string(), FORMATS));
            return Ok(());
        }
    };
    findings.push(SourceFinding::good("format", format.name()));
    let times = 0..=our_clock.saturating_add(DAY);
    let mut lines = LineReader { steps: Some(HashMap::new()), ..LineReader::new(&format, step_seconds, times) };
    let (mut gathered, mut contents) = (Gathered::default(), Contents::default());
    let (mut line, mut number) = (first, 1);
    if format.has_header() {
        next_line(&mut file, &mut line)?;
        number += 1;
    }
    while line.ends_with(b"\n") {
        if let Err((_, error)) = lines.read(&line, &mut gathered) {
            findings.push(SourceFinding::bad("lines", format!("line {number}: {error}"), FORMATS));
            return Ok(());
        }
        if gathered.bytes() + lines.bytes() > MAX_GATHERED_BYTES {
            lines.finish(&mut gathered);
            contents.take(&std::mem::take(&mut gathered));
        }
        next_line(&mut file, &mut line)?;
        number += 1;
    }
    if line.len() >= MAX_LINE_BYTES {
        let found = format!("line {number} is longer than {MAX_LINE_BYTES} bytes");
        findings.push(SourceFinding::bad("lines", found, FORMATS));
        return Ok(());
    }
    contents.take(&gathered);
    findings.extend(contents.findings());
    findings.extend(step(&lines, step_seconds));
    if !line.is_empty() {
        let found = format!("line {number} does not end with a line break");
        findings.push(SourceFinding::doubtful("last line", found, "it is read once a line break ends it"));
    }
    Ok(())
}

/// Warns if samples are not as far apart as each is said to stand for: how long was measured would be wrong by as much.
fn step(lines: &LineReader<'_>, step_seconds: u32) -> Option<SourceFinding> {
    let (usual, _) = lines.steps.iter().flatten().max_by_key(|(step, count)| (**count, **step))?;
    if *usual == i64::from(step_seconds) {
        return Some(SourceFinding::good("step", format!("{usual} s")));
    }
    let found = format!("most samples of a container are {usual} s apart, and each counts for {step_seconds} s");
    let advice = format!("pass --step {usual}s to `headroom-controller collect files`");
    Some(SourceFinding::doubtful("step", found, advice))
}

const FORMATS: &str = "give CSV with a header, or JSON lines, with the columns that the documentation lists";

/// The next line, or as much of it as a line may have.
fn next_line(file: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    file.take(MAX_LINE_BYTES as u64).read_until(b'\n', line).map(|_| ())
}

impl Contents {
    fn take(&mut self, gathered: &Gathered) {
        self.samples += gathered.samples;
        self.impossible.add(gathered.impossible.clone());
        self.unreadable.extend(gathered.unreadable.iter().cloned());
        for (place, row) in gathered.rows() {
            if !self.namespaces.contains(&place.namespace) {
                self.namespaces.insert(place.namespace.clone());
            }
            self.images.insert(place.image());
            self.days.insert(row.day);
        }
    }

    fn findings(&self) -> Vec<SourceFinding> {
        let day = |day: Option<&u32>| day.and_then(|day| Timestamp::from_unix_seconds(i64::from(*day) * DAY));
        let mut findings = Vec::new();
        let (first, last) = (day(self.days.first()), day(self.days.last()));
        findings.push(match first.zip(last) {
            Some((first, last)) if self.samples > 0 => {
                let days = self.days.len();
                let found = format!("{} samples on {days} days, {first} to {last}", self.samples);
                SourceFinding::good("samples", found)
            }
            _ => SourceFinding::bad("samples", "none", "write usage into the columns `cpu` and `memory`"),
        });
        let found = format!("{} images in {} namespaces", self.images.len(), self.namespaces.len());
        findings.push(match self.unreadable.first() {
            Some(image) => SourceFinding::doubtful(
                "images",
                format!("{found}; `{image}` is not an image name"),
                "no request can be matched with it, so its usage is left out",
            ),
            None => SourceFinding::good("images", found),
        });
        findings.extend(diagnosis::impossible(&self.impossible));
        findings
    }
}
