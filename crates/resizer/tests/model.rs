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
    let [none, one, two, three] = [0, 1, 2, 3].map(|quarters| Left { quarters, ..Left::default() });
    let day = Left { days: 1, ..one };
    let deferred = Left { defers: 2, ..none };
    let always_deferred = Left { defers: u8::MAX, ..one };
    let refused = Left { refusals: 2, ..one };
    let undone = Left { undos: 1, ..one };
    let undone_soon = Left { undos: 1, ..none };
    let silent = Left { silences: 1, ..three };
    vec![
        calm(),
        Scenario { name: "days", left: Left { days: 2, ..one }, leaders: 1, ..calm() },
        Scenario { name: "usage rises", pods: vec![(8, 12)], rises: vec![7, 10], ..calm() },
        Scenario {
            name: "usage rises often",
            pods: vec![(3, 30)],
            rises: vec![6, 9, 14],
            left: three,
            leaders: 1,
            ..calm()
        },
        Scenario { name: "usage rises day by day", pods: vec![(8, 12)], rises: vec![7, 11], left: day, ..calm() },
        Scenario { name: "kills", pods: vec![(4, 6)], rises: vec![7, 9], ..calm() },
        Scenario { name: "kills in two pods", pods: vec![(4, 6), (4, 6)], rises: vec![7, 9], leaders: 1, ..calm() },
        Scenario { name: "limits move", pods: vec![(4, 6)], rises: vec![6, 9], scales: true, ..calm() },
        Scenario { name: "a bound", pods: vec![(4, 12), (4, 12)], bound: 12, rises: vec![6, 6], ..calm() },
        Scenario { name: "suffers", needs: 7, left: two, ..calm() },
        Scenario { name: "suffers again", needs: 7, left: Left { days: 2, ..two }, leaders: 1, ..calm() },
        Scenario { name: "deferred", pods: vec![(4, 12), (4, 12)], rises: vec![5], left: deferred, ..calm() },
        Scenario { name: "deferred after a kill", pods: vec![(4, 6)], rises: vec![7], left: deferred, ..calm() },
        Scenario { name: "always deferred", pods: vec![(4, 12)], rises: vec![5], left: always_deferred, ..calm() },
        Scenario { name: "refused", pods: vec![(8, 12)], rises: vec![7, 10], left: refused, ..calm() },
        Scenario { name: "undone", pods: vec![(8, 12)], left: Left { undos: 2, ..day }, ..calm() },
        Scenario { name: "undone in two pods", left: Left { undos: 1, ..day }, leaders: 1, ..calm() },
        Scenario { name: "a raise is undone", pods: vec![(4, 12)], rises: vec![7, 10], left: undone, ..calm() },
        Scenario { name: "undone after a kill", pods: vec![(4, 6)], rises: vec![7], left: undone_soon, ..calm() },
        Scenario { name: "undone while deferred", pods: vec![(8, 12)], left: Left { defers: 1, ..undone }, ..calm() },
        Scenario { name: "not heard of", left: silent, leaders: 1, ..calm() },
        Scenario { name: "suffers where nobody hears of it", needs: 7, left: silent, leaders: 1, ..calm() },
        Scenario { name: "deleted", left: Left { deletions: 1, ..day }, leaders: 1, ..calm() },
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
        (Flaw::NoCompareAndSwap, "calm", "ONE"),
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
        (Flaw::LateRaiseIsNotSeen, "deferred after a kill", "LIMIT"),
    ] {
        let scenario = scenarios.iter().find(|of| of.name == name).unwrap();
        search::breaks(flaw, name, searched(scenario, flaw), property);
    }
}
