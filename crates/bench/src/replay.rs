//! Replays recorded usage: at times in the past the program estimates from the usage before, and later usage shows how
//! accurate the estimates were.
//!
//! A folder of traces has a folder for each set of recordings: one of the public sets as it was downloaded (`public`), or a file for
//! each period in the format of `collect files`, named by its first day (`2026-11-01.csv`, optionally compressed with gzip), with a
//! pod of each image in `pods/SET.yaml`. VPA and KRR would have requested what `rule` computes. Where the folder has
//! `requests/NAME.json` with what real recommenders requested, by time and image, those are shown too. All are compared with VPA.
//!
//! Defaults are chosen by one half of the pods of a set; the other half, by a hash of their names, shows whether the choice holds.

pub mod public;

pub mod traces;

pub mod requests;

mod rule;

mod accuracy;
pub mod product;

use std::path::Path;

use headroom_recommend::engine::memory_limit;
use headroom_resizer::decision::ComputeResource;

use crate::Result;
use product::Ours;
use requests::Requests;
use traces::{Set, Used};

/// The tables of all sets in the folder.
pub fn run(folder: &Path) -> Result<String> {
    let written = folder.join("requests");
    let of_others = if written.is_dir() { requests::of_others(&written)? } else { Vec::new() };
    let mut text = String::new();
    for set in traces::open(folder)? {
        let by_rule = rule::requests(&set)?;
        let others: Vec<&Requests> = by_rule.iter().chain(&of_others).collect();
        text.push_str(&measured(&set, &others)?);
    }
    Ok(text)
}

/// The tables of one set.
fn measured(set: &Set, others: &[&Requests]) -> Result<String> {
    let mut text = String::new();
    let ours = product::estimate(set, [""])?.remove("").ok_or("no estimates")?;
    let columns: Vec<&Requests> = others.iter().copied().chain([&ours.admission, &ours.manifests]).collect();
    for resource in ComputeResource::ALL {
        let (choosing, others): (Vec<Used>, Vec<Used>) =
            set.used_after(resource)?.into_iter().partition(|one| one.chooses);
        for (half, used) in [("pods that choose defaults", choosing), ("pods that choose none", others)] {
            let name = format!("{} ({half})", set.name);
            text.push_str(&accuracy::table(&name, &used, &columns, resource));
            if resource == ComputeResource::Memory {
                text.push_str(&killed(&used, &ours));
            }
        }
    }
    Ok(text)
}

/// Counts the pods that would be killed for memory at the limit that `recommend` sets where the author has one.
fn killed(used: &[Used], ours: &Ours) -> String {
    let of = |requests: &Requests, one: &Used| requests.of(&one.moment, &one.image, ComputeResource::Memory);
    let limits = used.iter().filter_map(|one| {
        let limit = memory_limit::of_usage(of(&ours.peaks, one)? as u64, None, 0).value() as f64;
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
