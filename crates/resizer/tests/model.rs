//! An exhaustive search of the loop: every interleaving of two leaders, deaths, late metrics, resizes that fail, kills.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a model of known size")]

#[path = "model/world.rs"]
mod world;

use headroom_fixtures::search::{self, Outcome};
use world::{Flaw, Left, Model, Scenario};

/// Two pods that could be smaller, and nothing happens to them.
fn calm() -> Scenario {
    let (pods, left) = (vec![(8, 12), (8, 12)], Left { quarters: 1, ..Left::default() });
    Scenario { name: "calm", pods, wanted: 3, peak: 4, bound: 100, left, leaders: 2, ..Scenario::default() }
}

fn scenarios() -> Vec<Scenario> {
    let quarters = |quarters| Left { quarters, ..Left::default() };
    let days = |days| Left { days, ..quarters(1) };
    let refusals = |refusals| Left { refusals, ..quarters(1) };
    let undos = |undos, count, days| Left { undos, days, ..quarters(count) };
    let defers = |defers, undos, count| Left { defers, undos, ..quarters(count) };
    let always = defers(u8::MAX, 0, 1);
    let silent = Left { silences: 1, ..quarters(3) };
    vec![
        calm(),
        Scenario { name: "days", left: days(2), leaders: 1, ..calm() },
        Scenario { name: "usage rises", pods: vec![(8, 12)], rises: vec![7, 10], ..calm() },
        Scenario {
            name: "usage rises often",
            pods: vec![(3, 30)],
            rises: vec![6, 9, 14],
            left: quarters(3),
            leaders: 1,
            ..calm()
        },
        Scenario { name: "usage rises day by day", pods: vec![(8, 12)], rises: vec![7, 11], left: days(1), ..calm() },
        Scenario { name: "kills", pods: vec![(4, 6)], rises: vec![7, 9], ..calm() },
        Scenario { name: "kills in two pods", pods: vec![(4, 6), (4, 6)], rises: vec![7, 9], leaders: 1, ..calm() },
        Scenario { name: "limits move", pods: vec![(4, 6)], rises: vec![6, 9], scales: true, ..calm() },
        Scenario { name: "a bound", pods: vec![(4, 12), (4, 12)], bound: 12, rises: vec![6, 6], ..calm() },
        Scenario { name: "suffers", needs: 7, left: quarters(2), ..calm() },
        Scenario { name: "suffers again", needs: 7, left: Left { days: 2, ..quarters(2) }, leaders: 1, ..calm() },
        Scenario { name: "deferred", pods: vec![(4, 12), (4, 12)], rises: vec![5], left: defers(2, 0, 0), ..calm() },
        Scenario { name: "always deferred", pods: vec![(4, 12)], rises: vec![5], left: always, ..calm() },
        Scenario { name: "refused", pods: vec![(8, 12)], rises: vec![7, 10], left: refusals(2), ..calm() },
        Scenario { name: "undone", pods: vec![(8, 12)], left: undos(2, 1, 1), ..calm() },
        Scenario { name: "undone in two pods", left: undos(1, 1, 1), leaders: 1, ..calm() },
        Scenario { name: "a raise is undone", pods: vec![(4, 12)], rises: vec![7, 10], left: undos(1, 1, 0), ..calm() },
        Scenario { name: "undone after a kill", pods: vec![(4, 6)], rises: vec![7], left: undos(1, 0, 0), ..calm() },
        Scenario { name: "undone while deferred", pods: vec![(8, 12)], left: defers(1, 1, 1), ..calm() },
        Scenario { name: "not heard of", left: silent, leaders: 1, ..calm() },
        Scenario { name: "suffers where nobody hears of it", needs: 7, left: silent, leaders: 1, ..calm() },
        Scenario { name: "deleted", left: Left { deletions: 1, ..days(1) }, leaders: 1, ..calm() },
    ]
}

fn searched(scenario: &Scenario, flaw: Flaw) -> Outcome {
    search::search(&mut Model { scenario, flaw })
}

#[test]
fn the_loop_holds() {
    search::hold(scenarios().iter().map(|of| (of.name.to_owned(), searched(of, Flaw::None))));
}

#[test]
fn every_naive_variant_breaks() {
    let scenarios = scenarios();
    for (flaw, name, property) in [
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
        let scenario = scenarios.iter().find(|of| of.name == name).unwrap();
        search::breaks(flaw, name, searched(scenario, flaw), property);
    }
}
