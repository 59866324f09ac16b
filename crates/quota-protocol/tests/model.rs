//! An exhaustive search of the ledger's protocol: every interleaving of the steps of its [`model`](headroom_quota_protocol::model).
//!
//! `HEADROOM_MODEL=full` also searches the large scenarios (some minutes).

#![expect(clippy::panic, reason = "a test may stop")]

use headroom_fixtures::search::{self, Outcome, Space};
use headroom_quota_protocol::model::{Flaw, Model, Scenario, Step, World, flaws, large, small, sweep};

struct Ledgers<'s>(Model<'s>);

impl Space for Ledgers<'_> {
    type State = World;
    type Step = Step;

    fn start(&mut self) -> World {
        self.0.start()
    }

    fn next(&mut self, world: &World) -> Vec<(Step, World)> {
        self.0.next(world)
    }

    fn violation(&mut self, world: &World) -> Option<&'static str> {
        self.0.violation(world)
    }
}

fn search(scenario: &Scenario, flaw: Flaw) -> Outcome {
    search::search(&mut Ledgers(Model::new(scenario, flaw)))
}

#[track_caller]
fn holds(scenarios: impl IntoIterator<Item = Scenario>) {
    let (mut states, mut count) = (0, 0);
    for scenario in scenarios {
        let outcome = search(&scenario, Flaw::None);
        println!("{:10} states  {}", outcome.states, scenario.name);
        if let Some((problem, trace)) = outcome.violation {
            panic!("{}: {problem}\n    {}", scenario.name, trace.join("\n    "));
        }
        states += outcome.states;
        count += 1;
    }
    println!("{states:10} states in {count} scenarios");
}

#[test]
fn the_protocol_holds() {
    holds(small());
}

#[test]
fn the_protocol_holds_for_every_three_writes_of_a_key() {
    holds(sweep(is_full()));
}

#[test]
fn the_protocol_holds_in_large_scenarios() {
    if is_full() {
        holds(large());
    }
}

/// Checks the search itself: it must find the violation if a rule of the protocol is missing.
#[test]
fn every_naive_variant_breaks() {
    for (flaw, scenario, property) in flaws() {
        let outcome = search(&scenario, flaw);
        let (problem, trace) = outcome.violation.unwrap_or_else(|| panic!("{flaw:?} holds in {}", scenario.name));
        println!("{problem} in {} steps ({} states): {flaw:?}", trace.len(), outcome.states);
        assert!(problem.starts_with(property), "{flaw:?}: {problem}\n    {}", trace.join("\n    "));
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment chooses how much is searched")]
fn is_full() -> bool {
    std::env::var("HEADROOM_MODEL").is_ok_and(|size| size == "full")
}
