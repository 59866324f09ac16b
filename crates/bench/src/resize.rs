//! Measures the resizing of running pods on recorded usage.
//!
//! The programs estimate anew every day. Pods are created with the estimate, and their usage is replayed: through the loop, and through a
//! VerticalPodAutoscaler that resizes in place. A kernel kills above the memory limit, which is twice the first request.

mod days;

mod rules;

mod simulation;

use std::path::Path;

use crate::Result;
use crate::replay::{product, traces};

pub fn run(folder: &Path) -> Result<()> {
    for set in traces::open(folder)? {
        let days = days::split(&set)?;
        let estimates = product::estimate(&days, simulation::VARIANTS.iter().map(|(_, settings, _)| *settings))?;
        print!("{}", simulation::table(&set.name, &days::usage(&days)?, &estimates));
    }
    Ok(())
}
