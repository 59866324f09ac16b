//! A dry run of each scenario decides like the policy: a test for each file of `tests/scenarios`.

#![expect(clippy::unwrap_used, reason = "a test may stop on data it cannot read")]

#[path = "policy/comparison.rs"]
mod comparison;

use std::process::ExitCode;

use headroom_fixtures::scenario::test_each;

fn main() -> ExitCode {
    test_each(&[("as_a_dry_run", |scenario| {
        comparison::check(&scenario.name, &scenario.request(), &scenario.settings(), &scenario.cluster());
    })])
}
