//! An exhaustive search of the ledger's protocol: every interleaving of the steps of its [`model`](headroom_quota_protocol::model).
//!
//! `HEADROOM_MODEL=full` also searches the large scenarios (some minutes).

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

fn hold(scenarios: Vec<Scenario>) {
    search::hold(scenarios.into_iter().map(|scenario| (scenario.name.clone(), search(&scenario, Flaw::None))));
}

#[test]
fn the_protocol_holds() {
    hold(small());
}

#[test]
fn the_protocol_holds_for_every_three_writes_of_a_key() {
    hold(sweep(is_full()));
}

#[test]
fn the_protocol_holds_in_large_scenarios() {
    if is_full() {
        hold(large());
    }
}

#[test]
fn every_naive_variant_breaks() {
    for (flaw, scenario, property) in flaws() {
        search::breaks(flaw, &scenario.name, search(&scenario, flaw), property);
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment chooses how much is searched")]
fn is_full() -> bool {
    std::env::var("HEADROOM_MODEL").is_ok_and(|size| size == "full")
}
