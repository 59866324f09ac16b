//! The scenarios to search.

/// The difference between a naive variant and the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    NoFence,
    NoCompareAndSwap,
    FailurePolicyIgnore,
    ReleasedEarly,
    ReleasedBlindly,
    SettledByName,
    ClaimedByUid,
    UpdatesSettledByUid,
    VersionsOnlyDiffer,
    BaseOfFirstEntry,
    DecreasesCredited,
    UndoneByReview,
    NoShares,
    SpareReleasedBlindly,
    SpareTakenLate,
    SpareNotReplaced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
}
use Verb::{Create, Update};

#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: String,
    /// By ledger and node.
    pub hard: Vec<Vec<u8>>,
    /// By ledger: the parent of each node.
    pub parents: Vec<Vec<Option<usize>>>,
    /// By key: the ledgers that it is charged to, each with its node, in the order of reservation.
    pub places: Vec<Vec<(usize, usize)>>,
    /// By key: the charge of the object that is stored at the start; 0 if there is none.
    pub objects: Vec<u8>,
    /// Verb, key and charge.
    pub requests: Vec<(Verb, usize, u8)>,
    /// Keys that may be deleted, once each.
    pub deletes: Vec<usize>,
    pub leaders: usize,
    /// The number of times that a leader starts, in total.
    pub terms: u8,
    /// The number of times that each request may be reviewed.
    pub deliveries: Vec<u8>,
    /// True if responses to writes can be lost.
    pub lost: bool,
    pub max_entries: usize,
    pub max_claims: usize,
    /// Keys of tenants that must never wait for the claims of others.
    pub never_waiting: Vec<usize>,
    /// The key and the charge of the creates that may take the spare, if there is one.
    pub spare: Option<(usize, u8)>,
    /// True if leaders may list from an API server that lags behind.
    pub lagging: bool,
}

/// A scenario with one quota and two leaders, without deletions and lost responses.
pub fn scenario(name: &str, hard: u8, objects: &[u8], requests: &[(Verb, usize, u8)]) -> Scenario {
    Scenario {
        name: name.to_owned(),
        hard: vec![vec![hard]],
        parents: vec![vec![None]],
        places: vec![vec![(0, 0)]; objects.len()],
        objects: objects.to_vec(),
        requests: requests.to_vec(),
        deletes: Vec::new(),
        leaders: 2,
        terms: 2,
        deliveries: vec![1; requests.len()],
        lost: false,
        max_entries: 4,
        max_claims: usize::MAX,
        never_waiting: Vec::new(),
        spare: None,
        lagging: false,
    }
}

/// The same with one leader that starts once.
fn one_leader(name: &str, hard: u8, objects: &[u8], requests: &[(Verb, usize, u8)]) -> Scenario {
    led_once(scenario(name, hard, objects, requests))
}

fn led_once(scenario: Scenario) -> Scenario {
    Scenario { leaders: 1, terms: 1, ..scenario }
}

/// Creates that fail, crash and are late, with a concurrent deletion and overlapping leaders.
fn creates() -> Scenario {
    Scenario { deletes: vec![0], ..scenario("creates", 2, &[1, 0, 0], &[(Create, 1, 1), (Create, 2, 1)]) }
}

fn three_creates() -> Scenario {
    scenario("three creates", 1, &[0, 0, 0], &[(Create, 0, 1), (Create, 1, 1), (Create, 2, 1)])
}

fn replaced() -> Scenario {
    let requests = [(Create, 0, 1), (Create, 1, 1), (Create, 2, 1)];
    Scenario { deletes: vec![0], ..one_leader("replaced", 2, &[1, 0, 0], &requests) }
}

/// Updates that raise and lower the charge, reviewed at the same version, with a concurrent create.
fn updates() -> Scenario {
    scenario("updates", 3, &[1, 0], &[(Update, 0, 3), (Update, 0, 2), (Create, 1, 1)])
}

fn lowering() -> Scenario {
    scenario("lowering", 3, &[2, 0], &[(Update, 0, 1), (Update, 0, 3), (Create, 1, 1)])
}

/// A handler that is late: its object was lowered and the ledger recounted before.
fn late() -> Scenario {
    let requests = [(Update, 0, 1), (Update, 0, 3), (Update, 0, 3), (Create, 1, 1)];
    one_leader("late", 3, &[2, 0], &requests)
}

/// Two overlapping quotas, each in its own ledger: handlers reserve in order, and take back.
fn overlap() -> Scenario {
    Scenario {
        hard: vec![vec![1], vec![1]],
        parents: vec![vec![None], vec![None]],
        places: vec![vec![(0, 0), (1, 0)], vec![(1, 0)], vec![(0, 0)]],
        deliveries: vec![2, 1, 1],
        ..one_leader("overlap", 1, &[0, 0, 0], &[(Create, 0, 1), (Create, 1, 1), (Create, 2, 1)])
    }
}

/// Two children of a root that has less room than both together.
fn tree() -> Scenario {
    Scenario {
        hard: vec![vec![2, 1, 2]],
        parents: vec![vec![None, Some(0), Some(0)]],
        places: vec![vec![(0, 1)], vec![(0, 2)], vec![(0, 2)], vec![(0, 1)]],
        deletes: vec![3],
        ..scenario("tree", 2, &[0, 0, 0, 1], &[(Create, 0, 1), (Create, 1, 1), (Create, 2, 1)])
    }
}

/// A tenant whose requests fail or are late, and another, below one root in a ledger with room for two claims.
fn hostile_writer() -> Scenario {
    let requests: Vec<(Verb, usize, u8)> = (0..3).map(|key| (Create, key, 1)).collect();
    Scenario {
        hard: vec![vec![9, 9, 9]],
        parents: vec![vec![None, Some(0), Some(0)]],
        places: vec![vec![(0, 1)], vec![(0, 1)], vec![(0, 2)]],
        max_claims: 2,
        never_waiting: vec![2],
        ..one_leader("hostile writer", 9, &[0; 3], &requests)
    }
}

/// A spare that a create may take, beside another create that wants its room.
fn spare() -> Scenario {
    Scenario {
        spare: Some((0, 1)),
        deletes: vec![0],
        deliveries: vec![2, 1],
        lost: true,
        ..one_leader("spare", 1, &[0, 0], &[(Create, 0, 1), (Create, 1, 1)])
    }
}

/// A spare for a name that is used again.
fn spare_of_one_name() -> Scenario {
    let requests = [(Create, 0, 1), (Create, 0, 1), (Create, 1, 1)];
    Scenario { spare: Some((0, 1)), deletes: vec![0], ..one_leader("spare of one name", 2, &[1, 0], &requests) }
}

fn one_name(max_entries: usize) -> Scenario {
    let name = if max_entries == 1 { "one name, merged" } else { "one name" };
    let requests = [(Create, 0, 2), (Create, 0, 1), (Create, 1, 1)];
    Scenario { deletes: vec![0], max_entries, ..scenario(name, 2, &[1, 0], &requests) }
}

pub fn small() -> Vec<Scenario> {
    vec![
        Scenario { name: "one leader".to_owned(), ..led_once(creates()) },
        Scenario { name: "lagging list".to_owned(), lagging: true, leaders: 1, ..creates() },
        led_once(one_name(1)),
        led_once(updates()),
        Scenario {
            deletes: vec![0],
            deliveries: vec![2, 2],
            ..one_leader("conflicts", 4, &[1], &[(Update, 0, 3), (Update, 0, 2)])
        },
        Scenario {
            deliveries: vec![2, 1],
            lost: true,
            leaders: 1,
            ..scenario("delivered twice", 1, &[0, 0], &[(Create, 0, 1), (Create, 1, 1)])
        },
        led_once(tree()),
        Scenario {
            places: vec![vec![(0, 0), (1, 0)], vec![(1, 0)]],
            objects: vec![0, 0],
            requests: vec![(Create, 0, 1), (Create, 1, 1)],
            deliveries: vec![2, 1],
            ..overlap()
        },
        led_once(lowering()),
        hostile_writer(),
        spare(),
    ]
}

pub fn large() -> Vec<Scenario> {
    vec![
        creates(),
        Scenario { name: "three leaders".to_owned(), leaders: 3, terms: 3, ..creates() },
        Scenario { name: "lagging list, two leaders".to_owned(), lagging: true, ..creates() },
        three_creates(),
        scenario("four creates", 2, &[0; 4], &[(Create, 0, 1), (Create, 1, 1), (Create, 2, 1), (Create, 3, 1)]),
        one_name(4),
        one_name(1),
        replaced(),
        updates(),
        lowering(),
        late(),
        led_once(Scenario {
            deletes: vec![0],
            ..scenario("late, replaced", 3, &[2, 0], &[(Update, 0, 3), (Create, 0, 1), (Update, 0, 2), (Create, 1, 1)])
        }),
        Scenario {
            deletes: vec![1],
            ..one_leader("mixed", 4, &[2, 1, 0], &[(Update, 0, 3), (Update, 0, 1), (Create, 2, 1), (Create, 1, 2)])
        },
        Scenario {
            deliveries: vec![2, 2],
            lost: true,
            ..scenario("delivered twice", 1, &[0, 0], &[(Create, 0, 1), (Create, 1, 1)])
        },
        tree(),
        overlap(),
        Scenario {
            name: "spare, two leaders".to_owned(),
            deliveries: vec![1, 1],
            lost: false,
            leaders: 2,
            terms: 2,
            lagging: true,
            ..spare()
        },
        spare_of_one_name(),
        Scenario {
            name: "spare of overlapping quotas".to_owned(),
            spare: Some((0, 1)),
            deliveries: vec![1; 3],
            ..overlap()
        },
    ]
}

/// All combinations of three writes to one key, from every initial charge, with a deletion and a leader that lags.
/// Unless `full`: from one initial charge, with three of the five writes.
pub fn sweep(full: bool) -> Vec<Scenario> {
    let writes: &[(Verb, usize, u8)] = if full {
        &[(Create, 0, 1), (Create, 0, 2), (Update, 0, 1), (Update, 0, 2), (Update, 0, 3)]
    } else {
        &[(Create, 0, 2), (Update, 0, 1), (Update, 0, 3)]
    };
    let initial_charges: &[u8] = if full { &[0, 1, 2] } else { &[2] };
    let mut scenarios = Vec::new();
    for first in initial_charges {
        for (a, one) in writes.iter().enumerate() {
            for (b, two) in writes.iter().enumerate().skip(a) {
                for three in writes.iter().skip(b) {
                    let name = format!("{first}: {one:?}, {two:?}, {three:?}");
                    let requests = [*one, *two, *three];
                    scenarios.push(Scenario { deletes: vec![0], ..one_leader(&name, 4, &[*first], &requests) });
                }
            }
        }
    }
    scenarios
}

/// Flawed variants of the protocol, with the property that each violates.
pub fn flaws() -> Vec<(Flaw, Scenario, &'static str)> {
    vec![
        (Flaw::NoFence, creates(), "SAFE"),
        (Flaw::NoCompareAndSwap, three_creates(), "SAFE"),
        (Flaw::FailurePolicyIgnore, three_creates(), "SAFE"),
        (Flaw::ReleasedEarly, creates(), "SAFE"),
        (Flaw::ReleasedBlindly, creates(), "SAFE"),
        (Flaw::SettledByName, replaced(), "SAFE"),
        (Flaw::ClaimedByUid, updates(), "SAFE"),
        (Flaw::UpdatesSettledByUid, updates(), "SAFE"),
        (Flaw::VersionsOnlyDiffer, updates(), "SAFE"),
        (Flaw::BaseOfFirstEntry, late(), "SAFE"),
        (Flaw::DecreasesCredited, lowering(), "SAFE"),
        (Flaw::UndoneByReview, overlap(), "SAFE"),
        (Flaw::NoShares, hostile_writer(), "FAIR"),
        (Flaw::SpareReleasedBlindly, spare(), "SAFE"),
        (Flaw::SpareTakenLate, spare(), "SAFE"),
        (Flaw::SpareNotReplaced, spare(), "SAFE"),
    ]
}
