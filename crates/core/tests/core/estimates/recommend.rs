//! Recommended requests: for every container, the same amounts as for one without requests.

use headroom_core::json::Document;
use headroom_core::timestamp::Timestamp;
use headroom_core::{FetchedObjects, Request, Settings, recommend};
use serde_json::{Value, json};

use super::situation::{NOW, Situation, history, own, window};

const NGINX: &str = "docker,io/library/nginx";

fn known() -> Value {
    let usage = json!({"7d": window(10_080, "120m", "200Mi")});
    own(json!({NGINX: {"all": history(json!({})), "tags": {"1,27": history(usage)}}}))
}

fn pod(resources: Value) -> Situation {
    let containers = json!([{"name": "web", "image": "nginx:1.27", "resources": resources}]);
    let mut situation = Situation::of_pod(json!({"metadata": {"name": "web"}, "spec": {"containers": containers}}))
        .with_profile(known());
    situation.settings = json!({"estimates": {"namespace": "headroom"}});
    situation
}

/// Each recommendation as text, then the unknowns, then the notes.
fn advice(situation: &Situation) -> Vec<String> {
    let texts = [situation.request.to_string(), situation.settings.to_string()];
    let [request, settings] = texts.each_ref().map(|text| Document::read(text).unwrap());
    let request = Request::read(request.root()).unwrap();
    let settings = Settings::read(Some(settings.root())).unwrap();
    let (fetched, now) = (FetchedObjects::default(), || Some(NOW.parse::<Timestamp>().unwrap()));
    let found = recommend(
        &request,
        &settings,
        &fetched,
        |lookups| {
            let answers = lookups.iter().map(|lookup| {
                let call = lookup.call();
                let name = call.name.unwrap_or_default();
                situation.answer(call.kind, call.namespace.unwrap_or_default(), &name).map(String::into_bytes)
            });
            answers.collect()
        },
        now,
    );
    let found = found.unwrap().unwrap().recommendation;
    let mut words = Vec::new();
    for estimate in &found.estimates.estimates {
        let name = estimate.target.resource.name();
        let adjustments: Vec<String> = estimate.adjustments.iter().map(ToString::to_string).collect();
        words.push(format!("web {name} {}: {} {adjustments:?}", estimate.quantity, estimate.basis));
    }
    for unknown in &found.unknown {
        words.push(format!("{} unknown: {}", unknown.resource.name(), unknown.why));
    }
    words.extend(found.estimates.notes.clone());
    words
}

const CPU: &str = "web cpu 157m: p80 of 7d nginx:1.27 in this namespace, 10080 samples, 1h old [\"120m + 10% + 25m\"]";
const MEMORY: &str =
    "web memory 284Mi: p99.9 of 7d nginx:1.27 in this namespace, 10080 samples, 1h old [\"200Mi + 10% + 64Mi\"]";

#[test]
fn the_authors_requests_do_not_matter() {
    assert_eq!(advice(&pod(json!({}))), [CPU, MEMORY]);
    assert_eq!(advice(&pod(json!({"requests": {"cpu": "2", "memory": "4Gi"}}))), [CPU, MEMORY]);
    let mut settings_off = pod(json!({"requests": {"cpu": "2"}}));
    settings_off.settings = json!({"estimates": {"mode": "never", "namespace": "headroom"}});
    assert_eq!(advice(&settings_off), [CPU, MEMORY]);
}

#[test]
fn no_recommendation_exceeds_the_authors_limit() {
    let lines = advice(&pod(json!({"limits": {"memory": "128Mi", "cpu": "1"}})));
    assert_eq!(lines[0], CPU);
    assert!(lines[1].starts_with("web memory 128Mi: "), "{}", lines[1]);
    assert!(lines[1].ends_with(r#"["200Mi + 10% + 64Mi", "lowered from 284Mi to the limit"]"#), "{}", lines[1]);
}

#[test]
fn recommendations_satisfy_container_and_pod_limit_ranges() {
    let bounded = pod(json!({})).with_limits(json!([{"type": "Container", "min": {"cpu": "200m"}}]));
    let lines = advice(&bounded);
    assert!(
        lines[0].contains("web cpu 200m") && lines[0].contains("to the min of LimitRange limits-0"),
        "{}",
        lines[0]
    );
    let of_pod =
        pod(json!({"limits": {"memory": "1Gi"}})).with_limits(json!([{"type": "Pod", "max": {"memory": "1Gi"}}]));
    assert_eq!(advice(&of_pod)[1], MEMORY);
}

#[test]
fn missing_history_is_reported() {
    let mut unknown = pod(json!({}));
    unknown.profiles.clear();
    unknown.request["object"]["spec"]["containers"][0]["image"] = json!("example.com/own:1");
    assert_eq!(advice(&unknown), ["cpu unknown: no usage data", "memory unknown: no usage data"]);
    unknown.request["object"]["spec"]["containers"][0]["image"] = json!("UPPER");
    assert!(
        advice(&unknown)[0].starts_with("cpu unknown: the image `UPPER` cannot be read: "),
        "{:?}",
        advice(&unknown)
    );
}

#[test]
fn pod_level_resources_are_left_alone() {
    let mut whole = pod(json!({}));
    whole.request["object"]["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(advice(&whole), [MEMORY, "cpu unknown: the pod sets pod-level resources, which its containers share"]);
}
