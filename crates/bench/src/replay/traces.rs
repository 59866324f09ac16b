//! Recorded usage in a folder: sets in our own format, or public ones as anybody can download them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headroom_admission::timestamp::Timestamp;
use headroom_resizer::decision::ComputeResource;
use headroom_usage::DAY;
use tempfile::TempDir;

use super::public;
use crate::Result;

pub struct Set {
    pub name: String,
    /// A file with a pod of each image.
    pub pods: PathBuf,
    /// Sorted by day.
    pub files: Vec<Recording>,
    /// The folder of a set that was converted, deleted with it.
    _folder: Option<TempDir>,
}

pub struct Recording {
    pub path: PathBuf,
    /// The day in its name, `2026-11-01`.
    pub day: String,
    pub begins: i64,
}

/// The usage of a pod after its request was made.
#[derive(Debug)]
pub struct Used {
    pub moment: String,
    pub image: String,
    pub amounts: Vec<f64>,
    /// True for the half of the pods by whose usage defaults may be chosen.
    pub chooses: bool,
}

/// The sets in a folder of traces, by name.
pub fn open(folder: &Path) -> Result<Vec<Set>> {
    let mut sets = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("cannot read `{}`: {error}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "pods" && name != "requests" {
            sets.push(match public::converted(&path)? {
                Some((name, converted)) => Set::open(name, converted.path(), None)?.within(converted),
                None => Set::open(name.clone(), &path, Some(folder.join("pods").join(format!("{name}.yaml"))))?,
            });
        }
    }
    sets.retain(|set| set.files.len() > 1);
    sets.sort_by(|one, other| one.name.cmp(&other.name));
    if sets.is_empty() { Err(format!("`{}` has no traces", folder.display()).into()) } else { Ok(sets) }
}

impl Set {
    /// Opens the recordings in a folder, which has `pods.yaml` unless that is elsewhere.
    pub fn open(name: String, folder: &Path, pods: Option<PathBuf>) -> Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let day = file.strip_suffix(".gz").unwrap_or(&file).strip_suffix(".csv").map(str::to_owned);
            if let Some(day) = day {
                let midnight = format!("{day}T00:00:00Z").parse::<Timestamp>();
                let midnight = midnight.map_err(|error| format!("the name of `{day}.csv` is not a day: {error}"))?;
                files.push(Recording { path, day, begins: midnight.unix_seconds() });
            }
        }
        files.sort_by_key(|file| file.begins);
        Ok(Self { name, pods: pods.unwrap_or_else(|| folder.join("pods.yaml")), files, _folder: None })
    }

    pub fn within(self, folder: TempDir) -> Self {
        Self { _folder: Some(folder), ..self }
    }

    /// The time for which a request is compared: a week if the set's machines run on, else its first day.
    fn horizon(&self) -> i64 {
        if self.name.starts_with("bitbrains") { 7 * DAY } else { DAY }
    }

    /// The seconds between lines, from the first two lines of a pod.
    pub fn step(&self) -> Result<i64> {
        let first = self.files.first().ok_or("no recording")?.lines()?;
        let mut lines = first.lines().skip(1);
        match (lines.next(), lines.next()) {
            (Some(one), Some(other)) => Ok(time(other)? - time(one)?),
            _ => Err(format!("the first recording of {} has fewer than two lines", self.name).into()),
        }
    }

    /// The usage of each pod after the start of each recording except the first.
    pub fn used_after(&self, resource: ComputeResource) -> Result<Vec<Used>> {
        let mut pods: BTreeMap<(i64, String), Used> = BTreeMap::new();
        for (place, file) in self.files.iter().enumerate() {
            let ends = self.files.get(place + 1).map_or(i64::MAX, |next| next.begins);
            let moments: Vec<&Recording> = self.files.iter().skip(1).filter(|moment| moment.begins < ends).collect();
            for line in file.lines()?.lines().skip(1) {
                let fields: Vec<&str> = line.split(',').collect();
                let (Some(image), Some(amount)) = (fields.get(4), fields.get(5 + resource as usize)) else { continue };
                let Ok(amount) = amount.parse::<f64>() else { continue };
                let (time, whose) = (time(line)?, fields.get(1..5).unwrap_or_default().join(","));
                let is_compared =
                    |moment: &&&Recording| (moment.begins..moment.begins + self.horizon()).contains(&time);
                for moment in moments.iter().filter(is_compared) {
                    let used = pods.entry((moment.begins, whose.clone())).or_insert_with(|| Used {
                        moment: moment.moment(),
                        image: (*image).to_owned(),
                        amounts: Vec::new(),
                        chooses: chooses(&whose),
                    });
                    used.amounts.push(amount);
                }
            }
        }
        Ok(pods.into_values().collect())
    }
}

impl Recording {
    /// The start time, in the format of requests.
    pub fn moment(&self) -> String {
        format!("{}T00:00:00Z", self.day)
    }

    pub fn lines(&self) -> Result<String> {
        if self.path.extension().is_none_or(|extension| extension != "gz") {
            return Ok(fs::read_to_string(&self.path)?);
        }
        let unpacked = Command::new("gzip").arg("--decompress").arg("--stdout").arg(&self.path).output()?;
        if !unpacked.status.success() {
            return Err(format!("cannot unpack `{}`", self.path.display()).into());
        }
        Ok(String::from_utf8(unpacked.stdout)?)
    }
}

/// Half of the pods, whatever their order.
fn chooses(pod: &str) -> bool {
    let mut crc = flate2::Crc::new();
    crc.update(pod.as_bytes());
    crc.sum() & 1 == 0
}

/// The time of a line, in Unix seconds.
pub fn time(line: &str) -> Result<i64> {
    let text = line.split(',').next().unwrap_or_default();
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is no time in seconds"))?;
    Ok(seconds as i64)
}
