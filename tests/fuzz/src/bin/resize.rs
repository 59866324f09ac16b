//! Resizes of pods, nodes that follow them or cannot, and counts, in any order: nodes allocate no more than the quota.

#![no_main]
#![allow(dead_code, unreachable_pub, reason = "the modules belong to the core's tests")]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

#[path = "../../../../crates/core/tests/core/entry.rs"]
mod entry;
#[path = "../../../../crates/core/tests/core/harness.rs"]
mod harness;
#[path = "../../../../crates/core/tests/core/quota/resizes/world.rs"]
mod world;

use world::Step;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let mut steps = Vec::new();
    while !bytes.is_empty()
        && let Ok(step) = step(&mut bytes)
    {
        steps.push(step);
    }
    if let Err(excess) = world::run(&steps) {
        panic!("{excess}");
    }
});

fn step(bytes: &mut Unstructured<'_>) -> Result<Step> {
    let pod = bytes.choose_index(2)?;
    Ok(match bytes.int_in_range(0..=7)? {
        0..=2 => Step::Resize { pod, cpu: bytes.int_in_range(0..=6)?, memory: bytes.int_in_range(1..=9)? },
        3 => Step::ChangeImage { pod },
        4..=5 => Step::Sync { pod },
        _ => Step::Recount,
    })
}
