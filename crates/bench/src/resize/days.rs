//! A set of recordings, split by day.

use std::collections::BTreeMap;

use headroom_resizer::decision::Amounts;
use headroom_usage::DAY;

use crate::Result;
use crate::replay::public::write;
use crate::replay::traces::{Set, time};

pub struct Pod {
    pub image: String,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    pub at: i64,
    pub used: Amounts,
}

pub fn split(set: &Set) -> Result<Set> {
    let mut days: BTreeMap<i64, String> = BTreeMap::new();
    for file in &set.files {
        let lines = file.lines()?;
        let (head, lines) = lines.split_once('\n').unwrap_or_default();
        for line in lines.lines() {
            let day = time(line)?.div_euclid(DAY) * DAY;
            let text = days.entry(day).or_insert_with(|| format!("{head}\n"));
            text.push_str(line);
            text.push('\n');
        }
    }
    let folder = tempfile::tempdir()?;
    write(&days, folder.path())?;
    Ok(Set::open(set.name.clone(), folder.path(), Some(set.pods.clone()))?.within(folder))
}

pub fn usage(set: &Set) -> Result<Vec<Pod>> {
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    for file in &set.files {
        for line in file.lines()?.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [_, namespace, name, container, image, cpu, memory] = fields.as_slice() else { continue };
            let amount = |text: &str, factor: f64| text.parse::<f64>().ok().map(|amount| (amount * factor) as u64);
            let used = Amounts { cpu: amount(cpu, 1000.0), memory: amount(memory, 1.0) };
            let sample = Sample { at: time(line)?, used };
            let pod = pods
                .entry(format!("{namespace}/{name}/{container}"))
                .or_insert_with(|| Pod { image: (*image).to_owned(), samples: Vec::new() });
            pod.samples.push(sample);
        }
    }
    Ok(pods.into_values().collect())
}
