//! An exhaustive search of the ledger's protocol: every interleaving of the steps of its [`model`](headroom_tenant_quota::model).
//!
//! `HEADROOM_MODEL=full` also searches the large scenarios (some minutes).

#![expect(clippy::panic, reason = "a test may stop")]

use std::collections::{HashMap, HashSet, VecDeque};

use headroom_tenant_quota::model::{Flaw, Model, Scenario, World, flaws, large, small, sweep};

/// The result of a search.
struct Outcome {
    states: usize,
    /// The violated property, and the steps that lead to it.
    violation: Option<(&'static str, Vec<String>)>,
}

fn search(scenario: &Scenario, flaw: Flaw) -> Outcome {
    let mut model = Model::new(scenario, flaw);
    let start = model.start();
    let mut seen = HashSet::from([start.fingerprint()]);
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        if let Some(problem) = model.violation(&world) {
            let trace = trace(&mut model, &world);
            return Outcome { states: seen.len(), violation: Some((problem, trace)) };
        }
        for (_, next) in model.next(&world) {
            if seen.insert(next.fingerprint()) {
                queue.push_back(next);
            }
        }
    }
    Outcome { states: seen.len(), violation: None }
}

/// Searches for a state again and returns the steps to it.
fn trace(model: &mut Model<'_>, to: &World) -> Vec<String> {
    let (start, to) = (model.start(), to.fingerprint());
    let mut from = HashMap::from([(start.fingerprint(), (0, String::new()))]);
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        let here = world.fingerprint();
        if here == to {
            break;
        }
        for (step, next) in model.next(&world) {
            from.entry(next.fingerprint()).or_insert_with(|| {
                queue.push_back(next);
                (here, step.to_string())
            });
        }
    }
    let (mut steps, mut at) = (Vec::new(), to);
    while let Some((before, step)) = from.get(&at).filter(|(_, step)| !step.is_empty()) {
        steps.push(step.clone());
        at = *before;
    }
    steps.reverse();
    steps
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
