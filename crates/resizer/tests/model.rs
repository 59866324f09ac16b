//! An exhaustive search of the loop: every interleaving of two leaders, deaths, late metrics, resizes that fail, kills.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a model of known size")]

#[path = "model/world.rs"]
mod world;

use headroom_fixtures::search::{Outcome, search};
use world::{Flaw, Model, Scenario};

/// Two pods that could be smaller, and nothing happens to them.
fn calm() -> Scenario {
    let pods = vec![(8, 12), (8, 12)];
    Scenario { name: "calm", pods, wanted: 3, peak: 4, bound: 100, quarters: 1, leaders: 2, ..Scenario::default() }
}

fn scenarios() -> Vec<Scenario> {
    vec![
        calm(),
        Scenario { name: "days", days: 2, leaders: 1, ..calm() },
        Scenario { name: "usage rises", pods: vec![(8, 12)], rises: vec![7, 10], ..calm() },
        Scenario {
            name: "usage rises often",
            pods: vec![(3, 30)],
            rises: vec![6, 9, 14],
            quarters: 3,
            leaders: 1,
            ..calm()
        },
        Scenario { name: "usage rises day by day", pods: vec![(8, 12)], rises: vec![7, 11], days: 1, ..calm() },
        Scenario { name: "kills", pods: vec![(4, 6)], rises: vec![7, 9], ..calm() },
        Scenario { name: "kills in two pods", pods: vec![(4, 6), (4, 6)], rises: vec![7, 9], leaders: 1, ..calm() },
        Scenario { name: "limits move", pods: vec![(4, 6)], rises: vec![6, 9], scales: true, ..calm() },
        Scenario { name: "a bound", pods: vec![(4, 12), (4, 12)], bound: 12, rises: vec![6, 6], ..calm() },
        Scenario { name: "suffers", needs: 7, quarters: 2, ..calm() },
        Scenario { name: "suffers again", needs: 7, quarters: 2, days: 2, leaders: 1, ..calm() },
        Scenario { name: "deferred", pods: vec![(4, 12), (4, 12)], rises: vec![5], defers: 2, quarters: 0, ..calm() },
        Scenario { name: "always deferred", pods: vec![(4, 12)], rises: vec![5], defers: u8::MAX, ..calm() },
        Scenario { name: "refused", pods: vec![(8, 12)], rises: vec![7, 10], refusals: 2, ..calm() },
        Scenario { name: "undone", pods: vec![(8, 12)], undos: 2, days: 1, ..calm() },
        Scenario { name: "undone in two pods", undos: 1, leaders: 1, days: 1, ..calm() },
        Scenario { name: "a raise is undone", pods: vec![(4, 12)], rises: vec![7, 10], undos: 1, ..calm() },
        Scenario { name: "undone after a kill", pods: vec![(4, 6)], rises: vec![7], undos: 1, quarters: 0, ..calm() },
        Scenario { name: "undone while deferred", pods: vec![(8, 12)], defers: 1, undos: 1, ..calm() },
        Scenario { name: "not heard of", silences: 1, quarters: 3, leaders: 1, ..calm() },
        Scenario { name: "suffers where nobody hears of it", needs: 7, silences: 1, quarters: 3, leaders: 1, ..calm() },
        Scenario { name: "deleted", deletions: 1, days: 1, leaders: 1, ..calm() },
    ]
}

fn named(name: &str) -> Scenario {
    scenarios().into_iter().find(|scenario| scenario.name == name).unwrap()
}

fn searched(scenario: &Scenario, flaw: Flaw) -> Outcome {
    search(&mut Model { scenario, flaw })
}

#[test]
fn the_loop_holds() {
    let mut states = 0;
    for scenario in scenarios() {
        let outcome = searched(&scenario, Flaw::None);
        println!("{:10} states  {}", outcome.states, scenario.name);
        if let Some((problem, trace)) = outcome.violation {
            panic!("{}: {problem}\n    {}", scenario.name, trace.join("\n    "));
        }
        states += outcome.states;
    }
    println!("{states:10} states");
}

/// Checks the search itself: it must find the violation if a rule is missing.
#[test]
fn every_naive_variant_breaks() {
    let mut failed = Vec::new();
    for (flaw, scenario, property) in [
        (Flaw::NoCompareAndSwap, "calm", "DAILY"),
        (Flaw::NoPodVersion, "suffers", "ONE"),
        (Flaw::SentBeforeStored, "calm", "ONE"),
        (Flaw::PodsReadBeforeRecord, "usage rises", "ONE"),
        (Flaw::UnsentIsDropped, "usage rises", "ONE"),
        (Flaw::UnderWayIsNotReserved, "a bound", "BOUND"),
        (Flaw::BelowPeak, "calm", "PEAK"),
        (Flaw::StaleUsage, "usage rises day by day", "PEAK"),
        (Flaw::NothingLeftAlone, "suffers", "LOOP"),
        (Flaw::NothingLeftAlone, "always deferred", "LOOP"),
        (Flaw::NoDailyLimit, "usage rises often", "DAILY"),
        (Flaw::NotWatched, "suffers", "UNDO"),
        (Flaw::NoCanary, "suffers", "CANARY"),
        (Flaw::UndoneIsMadeAgain, "undone", "PERSON"),
        (Flaw::SilenceHasNoEnd, "not heard of", "END"),
    ] {
        let outcome = searched(&named(scenario), flaw);
        match outcome.violation {
            Some((problem, trace)) => {
                println!("{problem} in {} steps ({} states): {flaw:?}", trace.len(), outcome.states);
                if !problem.starts_with(property) {
                    failed.push(format!("{flaw:?}: {problem}\n    {}", trace.join("\n    ")));
                }
            }
            None => failed.push(format!("{flaw:?} holds in {scenario}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
