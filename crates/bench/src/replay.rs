//! Replays recorded usage: at times in the past the program estimates from the usage before, and later usage shows how
//! accurate the estimates were.
//!
//! A folder of traces has a folder for each set of recordings, with a file for each period in the format of `collect
//! files`, named by its first day (`2026-11-01.csv`, optionally compressed with gzip); `pods/SET.yaml` with a pod of
//! each image; and `requests/NAME.json` with the requests of other recommenders, by time and image. One of those is
//! `vpa`, with which all are compared.

pub mod traces;

pub mod requests;

mod accuracy;
pub mod product;

mod table;

use std::path::Path;

use headroom_recommend::engine::memory_limit;

use crate::Result;
use accuracy::Accuracy;
use product::Ours;
use requests::Requests;
use traces::{Set, TraceColumn, Traces, Used};

const YARDSTICK: &str = "vpa";

/// The tables of all sets in the folder.
pub fn run(folder: &Path) -> Result<String> {
    let traces = Traces::open(folder)?;
    let mut all = requests::of_others(&folder.join("requests"))?;
    let yardstick = all.iter().position(|one| one.name == YARDSTICK);
    all.swap(0, yardstick.ok_or("requests/vpa.json is missing: all are compared with it")?);
    let mut text = String::new();
    for set in &traces.sets {
        text.push_str(&measured(set, &folder.join("pods").join(format!("{}.yaml", set.name)), &all)?);
    }
    Ok(text)
}

/// The tables of one set.
fn measured(set: &Set, pods: &Path, others: &[Requests]) -> Result<String> {
    let mut text = String::new();
    let ours = product::estimate(set, pods)?;
    let columns: Vec<&Requests> = others.iter().chain([&ours.admission, &ours.manifests]).collect();
    for resource in TraceColumn::ALL {
        let used = set.used_after(resource)?;
        text.push_str(&table::text(&set.name, resource, &Accuracy::of(&used, &columns, resource)));
        if resource == TraceColumn::Memory {
            text.push_str(&killed(&used, &ours));
        }
    }
    Ok(text)
}

/// Counts the pods that would be killed for memory at the limit that `recommend` sets where the author has one.
fn killed(used: &[Used], ours: &Ours) -> String {
    let of = |requests: &Requests, one: &Used| requests.of(&one.moment, &one.image, TraceColumn::Memory);
    let limits = used.iter().filter_map(|one| {
        let limit = memory_limit::of_usage(of(&ours.peaks, one)? as u64, None).value() as f64;
        Some((one, limit.max(of(&ours.manifests, one)?)))
    });
    let limited: Vec<(&Used, f64)> = limits.collect();
    let peak = |one: &Used| one.amounts.iter().copied().fold(0.0, f64::max);
    let killed = limited.iter().filter(|(one, limit)| peak(one) > *limit).count();
    if limited.is_empty() {
        String::new()
    } else {
        format!("killed at the recommended limit: {killed} of {} pods\n", limited.len())
    }
}

#[cfg(test)]
mod tests;
