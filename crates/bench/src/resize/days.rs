//! A set of recordings, split by day.

#![expect(clippy::disallowed_methods, reason = "the programs read these files")]

use std::collections::BTreeMap;
use std::fs;

use headroom_admission::timestamp::Timestamp;
use headroom_usage::DAY;

use crate::Result;
use crate::replay::traces::{Set, time};

/// The usage of a pod.
pub struct Pod {
    pub image: String,
    pub samples: Vec<Sample>,
}

/// The usage at one time, in millicores and bytes.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub at: i64,
    pub cpu: Option<u64>,
    pub memory: Option<u64>,
}

pub fn split(set: &Set) -> Result<Set> {
    let mut days: BTreeMap<i64, String> = BTreeMap::new();
    for file in &set.files {
        let lines = file.lines()?;
        let (head, lines) = lines.split_once('\n').unwrap_or_default();
        for line in lines.lines() {
            let day = time(&line.split(',').collect::<Vec<&str>>())?.div_euclid(DAY);
            let text = days.entry(day).or_insert_with(|| format!("{head}\n"));
            text.push_str(line);
            text.push('\n');
        }
    }
    let folder = tempfile::tempdir()?;
    for (day, text) in days {
        let begins = Timestamp::from_unix_seconds(day * DAY).ok_or("a day that there is not")?.to_string();
        let name = begins.split('T').next().unwrap_or_default();
        fs::write(folder.path().join(format!("{name}.csv")), text)?;
    }
    Ok(Set::open(set.name.clone(), folder.path(), Some(set.pods.clone()))?.within(folder))
}

pub fn usage(set: &Set) -> Result<Vec<Pod>> {
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    for file in &set.files {
        for line in file.lines()?.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [_, namespace, name, container, image, cpu, memory] = fields.as_slice() else { continue };
            let amount = |text: &str, factor: f64| text.parse::<f64>().ok().map(|amount| (amount * factor) as u64);
            let sample = Sample { at: time(&fields)?, cpu: amount(cpu, 1000.0), memory: amount(memory, 1.0) };
            let pod = pods
                .entry(format!("{namespace}/{name}/{container}"))
                .or_insert_with(|| Pod { image: (*image).to_owned(), samples: Vec::new() });
            pod.samples.push(sample);
        }
    }
    Ok(pods.into_values().collect())
}
