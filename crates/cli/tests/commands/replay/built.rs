//! Sets built from recordings of machines, for what they do not show: replicas that differ and that are alike, growth, weeks
//! with idle days, batches, short Jobs. Nobody else's requests are known for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Result;
use super::traces::{Set, time};

/// Rewrites a recording.
pub type Build = fn(&str) -> String;

const BUILDS: [(&str, Build); 6] =
    [("differ", differ), ("alike", alike), ("growth", growth), ("weekly", weekly), ("batch", batch), ("jobs", jobs)];
const DAY: i64 = 86_400;
/// Columns.
const CPU: usize = 5;
const MEMORY: usize = 6;
/// So many machines are the replicas of one image.
const REPLICAS: usize = 8;

/// The sets to build from one; none if its images have several pods already.
pub fn of(set: &Set) -> Result<Vec<Set>> {
    let Some(first) = set.files.first() else { return Ok(Vec::new()) };
    let lines = first.lines()?;
    let names: BTreeSet<(&str, &str)> =
        fields(&lines).filter_map(|line| Some((*line.get(4)?, *line.get(2)?))).collect();
    let images: BTreeSet<&str> = names.iter().map(|(image, _)| *image).collect();
    if images.len() < REPLICAS || images.len() < names.len() {
        return Ok(Vec::new());
    }
    Ok(BUILDS.map(|(name, build)| built(set, name, build)).into())
}

fn built(set: &Set, name: &str, build: Build) -> Set {
    let files = set.files.iter().map(|file| file.built(build));
    Set { name: format!("{}-{name}", set.name), files: files.collect() }
}

/// A pod of each image, as YAML.
pub fn pods(set: &Set) -> Result<String> {
    let mut pods = BTreeMap::new();
    for file in &set.files {
        for line in fields(&file.lines()?) {
            if let [_, namespace, _, container, image, ..] = line.as_slice() {
                pods.insert(
                    (*image).to_owned(),
                    format!("{{name: {container}, image: \"{image}\"}}]}}\nmetadata: {{namespace: {namespace}, "),
                );
            }
        }
    }
    Ok(pods.values().enumerate().fold(String::new(), |text, (number, pod)| {
        text + &format!("---\napiVersion: v1\nkind: Pod\nspec: {{containers: [{pod}name: pod-{number}}}\n")
    }))
}

fn fields(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect())
}

/// Each line with other fields; dropped if `change` says so.
fn rewritten(text: &str, mut change: impl FnMut(&mut Vec<String>) -> bool) -> String {
    let mut out = text.lines().next().unwrap_or_default().to_owned() + "\n";
    for line in fields(text) {
        let mut fields: Vec<String> = line.into_iter().map(str::to_owned).collect();
        if change(&mut fields) {
            let _ = writeln!(out, "{}", fields.join(","));
        }
    }
    out
}

/// Eight machines are the pods of one image.
fn differ(text: &str) -> String {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for line in fields(text) {
        known.extend(line.get(2).map(|pod| ((*pod).to_owned(), 0)));
    }
    known.values_mut().enumerate().for_each(|(number, of)| *of = number / REPLICAS);
    rewritten(text, |line| {
        let group = line.get(2).and_then(|pod| known.get(pod)).copied().unwrap_or_default();
        set_field(line, 4, format!("example.com/differ-{group}:1"))
    })
}

/// Each machine is four pods that take turns at its load.
fn alike(text: &str) -> String {
    let mut out = text.lines().next().unwrap_or_default().to_owned() + "\n";
    let mut machines: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
    for line in fields(text) {
        machines.entry(line.get(2).copied().unwrap_or_default()).or_default().push(line);
    }
    for (machine, lines) in machines.into_iter().step_by(4) {
        for pod in 0..4 {
            let loads = lines.iter().cycle().skip(pod * 7);
            for (line, load) in lines.iter().zip(loads) {
                if let ([time, namespace, _, container, image, ..], [.., cpu, memory]) =
                    (line.as_slice(), load.as_slice())
                {
                    let _ = writeln!(out, "{time},{namespace},{machine}-{pod},{container},{image},{cpu},{memory}");
                }
            }
        }
    }
    out
}

/// Everything grows by a fiftieth a day.
fn growth(text: &str) -> String {
    let first = fields(text).next().and_then(|line| time(&line).ok()).unwrap_or_default();
    // The recordings begin in different months: growth is counted from a fixed day.
    let days = |time: i64| (time.max(first) % (64 * DAY)) as f64 / DAY as f64;
    scaled(text, &[CPU, MEMORY], move |time| 1.02_f64.powf(days(time)))
}

/// Next to nothing happens at weekends; memory stays in use.
fn weekly(text: &str) -> String {
    // 1970 began on a Thursday.
    scaled(text, &[CPU], |time| if (time.div_euclid(DAY) + 3) % 7 >= 5 { 0.05 } else { 1.0 })
}

/// Machines run for four days of each fortnight.
fn batch(text: &str) -> String {
    scaled(text, &[CPU], |time| if time.div_euclid(DAY) % 14 < 4 { 1.0 } else { 0.05 })
}

/// Keeps the first ten minutes of each hour, each as a separate pod.
fn jobs(text: &str) -> String {
    rewritten(text, |line| {
        let fields: Vec<&str> = line.iter().map(String::as_str).collect();
        let time = time(&fields).unwrap_or_default();
        let pod = format!("{}-{}", line.get(2).cloned().unwrap_or_default(), time / 3_600);
        time % 3_600 < 600 && set_field(line, 2, pod)
    })
}

fn scaled(text: &str, columns: &[usize], by: impl Fn(i64) -> f64) -> String {
    rewritten(text, |line| {
        let fields: Vec<&str> = line.iter().map(String::as_str).collect();
        let by = by(time(&fields).unwrap_or_default());
        let scaled = |column: &usize| Some((*column, fields.get(*column)?.parse::<f64>().ok()? * by));
        let scaled: Vec<(usize, f64)> = columns.iter().filter_map(scaled).collect();
        let text = |column, amount| if column == CPU { format!("{amount:.4}") } else { format!("{amount:.0}") };
        scaled.into_iter().all(|(column, amount)| set_field(line, column, text(column, amount)))
    })
}

/// True if there is such a field.
fn set_field(line: &mut [String], column: usize, text: String) -> bool {
    line.get_mut(column).map(|field| *field = text).is_some()
}
