//! The forecast for workloads against controllers that run step by step, as the core's own test compares them. Here the
//! bytes choose the workload, its update and the quotas.

#![no_main]
#![allow(dead_code, unreachable_pub, reason = "the modules belong to the core's tests")]

use libfuzzer_sys::fuzz_target;

#[path = "../../../../crates/core/tests/core/entry.rs"]
mod entry;
#[path = "../../../../crates/core/tests/core/harness.rs"]
mod harness;
#[path = "../../../../crates/core/tests/core/quota/rollouts"]
mod rollouts {
    pub mod comparison;
    pub mod deployment;
    pub mod stateful;
    pub mod world;
}

use rollouts::comparison::{Tally, compare};
use rollouts::world::Random;

fuzz_target!(|bytes: &[u8]| {
    if let Err(difference) = compare(&mut Random::new(1, bytes), &mut Tally::default()) {
        panic!("{difference}");
    }
});
