//! Fields that the API server resets do not affect the outcome, whatever a client writes into them: not the verdict,
//! the messages, the charges or the values.
//!
//! Each request is evaluated as an honest client would send it, and with some such fields forged. `admission_request.rs`
//! decides which fields are trusted; the forgeries here are independent of it.

mod forgeries;
mod requests;

use std::cell::Cell;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use self::requests::Sent;
use crate::harness::{Outcome, answer};

const CASES: u32 = 2_000;

/// The lists of `data.yaml`.
static DATA: LazyLock<Value> = LazyLock::new(|| serde_saphyr::from_str(include_str!("trust/data.yaml")).unwrap());

/// The values of a list of [`DATA`], by its JSON pointer.
fn listed(pointer: &str) -> Vec<Value> {
    DATA.pointer(pointer).and_then(Value::as_array).unwrap().clone()
}

/// The host's answers, by kind.
fn cluster() -> impl Strategy<Value = Value> {
    let quotas: Vec<_> = listed("/quotas").into_iter().map(|spec| (Just(spec), any::<bool>(), 0..3_u32)).collect();
    ([any::<bool>(), any::<bool>()], quotas).prop_map(|(has_ranges, quotas)| {
        let ranges = listed("/limitRanges").into_iter().zip(has_ranges);
        let ranges: Vec<Value> = ranges.filter_map(|(range, is_there)| is_there.then_some(range)).collect();
        let chosen = quotas.into_iter().filter(|(_, is_there, _)| *is_there);
        let quotas: Vec<Value> =
            chosen.enumerate().map(|(number, (spec, _, level))| quota(number, spec, level)).collect();
        let mut lists = DATA["objects"].clone();
        lists["LimitRange"] = json!({"items": ranges});
        lists["ResourceQuota"] = json!({"items": quotas});
        lists["Fresh"] = lists["ResourceQuota"].clone();
        lists
    })
}

fn quota(number: usize, spec: Value, level: u32) -> Value {
    let names = spec["hard"].as_object().unwrap().keys();
    let used: Map<String, Value> = names.map(|name| (name.clone(), json!(level.to_string()))).collect();
    let status = json!({"hard": spec["hard"], "used": used});
    json!({"metadata": {"name": format!("q{number:02}")}, "spec": spec, "status": status})
}

/// The outcome of a request, whatever was read for it; of a changed object only the spec, which has the values that we set.
fn outcome(sent: &Sent, settings: &Value, cluster: &Value) -> Outcome {
    let now = "2026-11-21T06:00:00Z".parse().unwrap();
    let found = answer(&sent.review(), settings, cluster, Some(now));
    let object = if found.changed { found.object["spec"].clone() } else { Value::Null };
    Outcome { object, reads: Vec::new(), ..found }
}

#[test]
fn a_forged_field_changes_nothing() {
    let sent = requests::requests().prop_flat_map(|honest| {
        let forgeries = forgeries::of(&honest);
        (Just(honest), prop::collection::vec(prop::sample::select(forgeries), 1..4))
    });
    let [admitted, refused] = [Cell::new(0), Cell::new(0)];
    let config = Config { cases: CASES, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let evaluated = TestRunner::new(config).run(
        &(sent, prop::sample::select(listed("/settings")), cluster()),
        |((honest, forgeries), settings, cluster)| {
            let expected = outcome(&honest, &settings, &cluster);
            let count = if expected.admitted { &admitted } else { &refused };
            count.set(count.get() + 1);
            let forged = forgeries.iter().fold(honest, Sent::with);
            prop_assert_eq!(outcome(&forged, &settings, &cluster), expected, "of {}", forged.review());
            Ok(())
        },
    );
    evaluated.unwrap();
    // If all requests were admitted, or all refused, the test would prove nothing.
    let [admitted, refused] = [admitted, refused].map(Cell::into_inner);
    assert!(admitted.min(refused) > CASES / 5, "{admitted} admitted, {refused} refused");
}
