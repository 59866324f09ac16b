//! Measures how good estimates are, and the resizing of running pods by them: `make bench-estimates TRACES=folder`, `make bench-resize
//! TRACES=folder`.
//!
//! The program collects recorded usage, and recommends requests at moments of the past; what was used afterwards measures
//! them, beside what others would have requested. What a folder of traces has to hold, and what the columns mean, say
//! `tests/commands/replay` and its `accuracy`.
//!
//! For resizing, the programs estimate anew every day. Pods are created with the estimate, and their usage is replayed:
//! through the loop, through a VerticalPodAutoscaler that resizes in place, with what KRR recommends once, and with the
//! estimate as it was. A kernel kills above the memory limit, which is twice the first request.

use std::collections::BTreeSet;
use std::path::Path;

#[path = "../tests/commands/replay/mod.rs"]
mod replay;

#[path = "resize/days.rs"]
mod days;
#[path = "resize/rules.rs"]
mod rules;
#[path = "resize/simulation.rs"]
mod simulation;
#[path = "resize/vpa.rs"]
mod vpa;

fn main() -> replay::Result<()> {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let folder = std::env::var("TRACES").map_err(|_| "which traces? make bench-estimates TRACES=folder")?;
    let folder = Path::new(&folder);
    if std::env::var_os("RESIZE").is_none() {
        print!("{}", replay::run(folder)?);
        return Ok(());
    }
    for set in replay::traces::Traces::open(folder)?.sets {
        let pods = folder.join("pods").join(format!("{}.yaml", set.name));
        let days = days::split(&set)?;
        let settings: BTreeSet<&str> = simulation::VARIANTS.iter().map(|variant| variant.settings).collect();
        let settings: Vec<&str> = settings.into_iter().collect();
        let estimates = replay::product::estimate_with(&days.set, &pods, &settings)?;
        let estimates =
            settings.into_iter().zip(estimates).map(|(settings, ours)| (settings, ours.admission)).collect();
        print!("{}", simulation::table(&set.name, &days.usage()?, &estimates));
    }
    Ok(())
}
