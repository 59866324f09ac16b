//! What containers used, read into memory and kept by workload and container, however often the pods have changed since.
//!
//! `pieces` cuts what is to be read, `read` reads the pieces of a metrics store, and `now` looks once at the metrics API.

mod now;
mod pieces;
mod read;

use std::collections::{BTreeMap, HashMap};

use headroom_core::cluster::usage::{self, Window as Span};
use headroom_usage::cardinality;
use headroom_usage::observed::Observed;
use headroom_usage::window_merge::OpenHistory;

use crate::source::prometheus::survey::Throttling;

pub use now::look;
pub use read::{Reading, makers, read};

/// What is known of one container of a workload.
#[derive(Debug, Default)]
pub struct Kept {
    pub usage: OpenHistory,
    pub throttling: Throttling,
    pub kills: u64,
}

impl Kept {
    /// The days of the whole reading, whatever their number.
    pub fn sketch(&self, resource: usage::Resource) -> &headroom_usage::sketch::Sketch {
        self.usage.sketch(Span::MONTH, resource)
    }
}

/// What was read, by the number of the workload and the name of the container.
#[derive(Debug, Default)]
pub struct Histories {
    kept: HashMap<(usize, String), Kept>,
}

impl Histories {
    pub fn get(&self, workload: usize, container: &str) -> Option<&Kept> {
        // A map of pairs cannot be asked with a borrowed half.
        self.kept.get(&(workload, container.to_owned()))
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Adds what was observed on one day.
    pub fn observe(&mut self, workload: usize, container: &str, age: u32, observed: &Observed) {
        let kept = self.kept.entry((workload, container.to_owned())).or_default();
        kept.kills += observed.kills().len() as u64;
        kept.usage.add_observed(age, observed);
    }

    fn add(&mut self, part: Part, today: u32) {
        for ((workload, container), days) in part.usage {
            for (day, observed) in days {
                self.observe(workload, &container, today.saturating_sub(day), &observed);
            }
        }
        for (place, counted) in part.throttling {
            let throttling = &mut self.kept.entry(place).or_default().throttling;
            throttling.periods += counted.periods;
            throttling.throttled += counted.throttled;
        }
    }
}

/// What came of one piece.
#[derive(Debug, Default)]
struct Part {
    usage: HashMap<(usize, String), BTreeMap<u32, Observed>>,
    throttling: HashMap<(usize, String), Throttling>,
    /// Pods whose workload is gone.
    strangers: cardinality::Distinct,
}

impl Part {
    fn day(&mut self, workload: usize, container: &str, day: u32) -> &mut Observed {
        self.usage.entry((workload, container.to_owned())).or_default().entry(day).or_default()
    }
}
