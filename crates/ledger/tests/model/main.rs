//! An exhaustive search over the ledger's protocol: every interleaving of requests, their handlers on any number of
//! replicas, the API server, deletions, and leaders that settle, by the very functions that the program calls.
//!
//! Checked in every state that can be reached:
//!
//! - SAFE: what is stored never exceeds a bound, and the ledger never holds less than what is stored;
//! - CLEAN: without further requests, every leader in office and a new one end with no claim and the true count;
//! - PROMPT: a claim does not outlive the sight of its object.
//!
//! Storage keys hold (uid, version, charge). A create is stored only where its key is free, an update only where the
//! version is still the one that was reviewed: so an API server writes. Handlers crash, are asked twice, lose the answer
//! to a write, and go on after the API server has given up. An admitted request may still fail. Leaders take office at
//! any time, also beside another, list, and watch with any delay. Time is one rule: a claim is released only when its
//! request is over and its key, read live, is as the leader's cache has it.
//!
//! `HEADROOM_MODEL=full` searches the large scenarios too (some minutes).

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a model of known size")]

mod ledgers;
mod scenarios;
mod world;

use std::collections::{HashMap, HashSet, VecDeque};

use ledgers::Ledgers;
use scenarios::{Scenario, flaws, large, small, sweep};
use world::{Flaw, Model, World};

/// How a search ended.
struct Outcome {
    states: usize,
    /// What was violated, and the steps that led to it.
    violation: Option<(&'static str, Vec<String>)>,
}

fn search(scenario: &Scenario, flaw: Flaw) -> Outcome {
    let mut model = Model { scenario, flaw, ledgers: Ledgers::new(scenario, flaw) };
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

/// Searches again for a state, remembering the way.
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

/// What the protocol leaves out if one of its rules is missing: the search must find it, or it would find nothing.
#[test]
fn every_naive_variant_breaks() {
    for (flaw, scenario, promise) in flaws() {
        let outcome = search(&scenario, flaw);
        let (problem, trace) = outcome.violation.unwrap_or_else(|| panic!("{flaw:?} holds in {}", scenario.name));
        println!("{problem} in {} steps ({} states): {flaw:?}", trace.len(), outcome.states);
        assert!(problem.starts_with(promise), "{flaw:?}: {problem}\n    {}", trace.join("\n    "));
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever tests chooses how much")]
fn is_full() -> bool {
    std::env::var("HEADROOM_MODEL").is_ok_and(|size| size == "full")
}
