//! Settings, and the objects of a cluster.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::listed;

pub fn settings() -> impl Strategy<Value = Value> {
    prop::sample::select(listed("/settings"))
}

/// The host's answers, by kind.
pub fn cluster() -> impl Strategy<Value = Value> {
    let quotas: Vec<_> = listed("/quotas").into_iter().map(|spec| (Just(spec), any::<bool>(), 0..3_u32)).collect();
    ([any::<bool>(), any::<bool>()], quotas).prop_map(|(has_ranges, quotas)| {
        let ranges = listed("/limitRanges").into_iter().zip(has_ranges);
        let ranges: Vec<Value> = ranges.filter_map(|(range, is_there)| is_there.then_some(range)).collect();
        let chosen = quotas.into_iter().filter(|(_, is_there, _)| *is_there);
        let quotas: Vec<Value> =
            chosen.enumerate().map(|(number, (spec, _, level))| quota(number, spec, level)).collect();
        let mut lists = super::DATA["objects"].clone();
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
