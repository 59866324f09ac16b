//! The forecast for random updates of workloads, against controllers that run step by step under the same quotas.
//! `HEADROOM_ROLLOUTS=100000` compares so many updates, `HEADROOM_ROLLOUT_SEED` others.

use std::time::{Duration, Instant};

use headroom_fixtures::rollouts::{Random, Tally, compare};
use serde_json::Value;

use crate::harness::answer;

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the number of comparisons is chosen by whoever runs them, and bounded in time"
)]
fn the_forecast_agrees_with_controllers_that_run_step_by_step() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (wanted, seed) = (number("HEADROOM_ROLLOUTS"), number("HEADROOM_ROLLOUT_SEED").unwrap_or(1));
    let started = Instant::now();
    let mut tally = Tally::default();
    let warnings_of = |payload: &Value, lists: &Value| answer(payload, lists, None).warnings;
    let is_enough = |updates: u64| match wanted {
        Some(wanted) => updates >= wanted,
        // At least so many, however slow the machine is.
        None => updates >= 500 && started.elapsed() > Duration::from_secs(4),
    };
    while !is_enough(tally.updates) {
        let case = seed.wrapping_mul(1_000_003).wrapping_add(tally.updates);
        if let Err(difference) = compare(&mut Random::new(case, &[]), &mut tally, warnings_of) {
            panic!("update {} of seed {seed}: {difference}", tally.updates - 1);
        }
    }
    eprintln!("{tally:?} in {:?}", started.elapsed());
    for (what, count) in
        [("silent", tally.silent), ("slower", tally.slower), ("stops", tally.stops), ("fits", tally.fits)]
    {
        assert!(count * 100 > tally.updates, "only {count} of {} are {what}", tally.updates);
    }
}
