//! Measures the resizing of running pods on recorded usage.
//!
//! The programs estimate anew every day. Pods are created with the estimate, and their usage is replayed: through the loop, and through a
//! VerticalPodAutoscaler that resizes in place. A kernel kills above the memory limit, which is twice the first request.

mod days;

mod rules;

mod simulation;

use std::collections::BTreeSet;
use std::path::Path;

use crate::Result;
use crate::replay::{product, traces::Traces};

pub fn run(folder: &Path) -> Result<()> {
    for set in Traces::open(folder)?.sets {
        let days = days::split(&set)?;
        let settings: BTreeSet<&str> = simulation::VARIANTS.iter().map(|variant| variant.settings).collect();
        let settings: Vec<&str> = settings.into_iter().collect();
        let estimates = product::estimate_with(&days, &days.pods, &settings)?;
        let estimates =
            settings.into_iter().zip(estimates).map(|(settings, ours)| (settings, ours.admission)).collect();
        print!("{}", simulation::table(&set.name, &days::usage(&days)?, &estimates));
    }
    Ok(())
}
