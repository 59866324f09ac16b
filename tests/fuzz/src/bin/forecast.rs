//! The forecast for workloads against controllers that run step by step, as the core's own test compares them. Here the
//! bytes choose the workload, its update and the quotas.

#![no_main]

use headroom_core::cluster::lookup::Lookup;
use headroom_core::json::Document;
use headroom_core::{FetchedObjects, Request, Settings, evaluate};
use headroom_fixtures::rollouts::{Random, Tally, compare};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    if let Err(difference) = compare(&mut Random::new(1, bytes), &mut Tally::default(), warnings_of) {
        panic!("{difference}");
    }
});

fn warnings_of(payload: &Value, lists: &Value) -> Vec<String> {
    let [request, settings] = ["request", "settings"].map(|part| payload[part].to_string());
    let documents = [&request, &settings].map(|text| Document::read(text).expect("JSON"));
    let request = Request::read(documents[0].root()).expect("a request");
    let settings = Settings::read(Some(documents[1].root())).expect("settings");
    let fetched = FetchedObjects::default();
    let answer = |lookup: &Lookup<'_>| match lookup {
        Lookup::Scaled { .. } => Ok(lists["Scaled"].to_string().into_bytes()),
        _ => Ok(lists.get(lookup.call().kind).map_or_else(|| r#"{"items": []}"#.into(), Value::to_string).into_bytes()),
    };
    let fetch = |lookups: &[Lookup<'_>]| lookups.iter().map(answer).collect();
    let decision = evaluate(&request, &settings, &fetched, fetch, || None).decision;
    decision.warnings.iter().map(|warning| warning.text.clone()).collect()
}
