//! Recommendations: for every container, the same amounts as for one without requests.

use headroom_core::cluster::lookup::Lookup;
use headroom_core::json::Document;
use headroom_core::request::Requirement;
use headroom_core::timestamp::Timestamp;
use headroom_core::{Context, Request, Settings};
use headroom_rightsize::recommendation::{lookups, recommend};
use serde_json::{Value, json};

use crate::describe::program::here;
use crate::situation::{NOW, Situation, history, own, window};
use crate::support::{folder, headroom};

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
    let text = situation.request.to_string();
    let document = Document::read(&text).unwrap();
    let request = Request::read(document.root()).unwrap();
    let settings_text = situation.settings.to_string();
    let settings_document = Document::read(&settings_text).unwrap();
    let settings = Settings::read(Some(settings_document.root())).unwrap();
    let mut context = Context { now: Some(NOW.parse::<Timestamp>().unwrap()), ..Context::default() };
    let lookups = lookups(&request, &settings).unwrap();
    let answers: Vec<_> = lookups.iter().map(|lookup| answer(situation, lookup)).collect();
    let documents: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().map_err(Clone::clone).map(|text| Document::read(text).unwrap()))
        .collect();
    context.add_all(&lookups, &documents);
    let found = recommend(&request, &context, &settings).unwrap().unwrap();
    let mut words = Vec::new();
    for evidence in &found.advice.estimates.estimates {
        let name = evidence.target.resource.name();
        let container = &found.after.containers[evidence.target.container];
        let set = container.resources.quantity(Requirement::Request, name).unwrap();
        assert_eq!(*set, evidence.quantity, "the pod does not have the recommended request");
        let adjustments: Vec<String> = evidence.adjustments.iter().map(ToString::to_string).collect();
        words.push(format!("{} {name} {}: {} {adjustments:?}", container.name, evidence.quantity, evidence.basis));
    }
    for unknown in &found.advice.unknown {
        words.push(format!("{} unknown: {}", unknown.resource.name(), unknown.why));
    }
    words.extend(found.advice.estimates.notes.clone());
    words
}

fn answer(situation: &Situation, lookup: &Lookup<'_>) -> Result<String, String> {
    let call = lookup.call();
    situation.answer(call.kind, call.namespace.unwrap_or_default(), &call.name.unwrap_or_default())
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

#[test]
fn no_sums_are_shown_without_any_recommendation() {
    let deployment = |name: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{selector: {{matchLabels: \
             {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: app, image: \
             example.com/app, resources: {{requests: {{cpu: 250m}}}}}}]}}}}}}\n"
        )
    };
    let both = deployment("a") + "---\n" + &deployment("b");
    let folder = folder(&[("cluster/all.yaml", &both)]);
    let said = headroom(folder.path(), &["recommend", "-n", "shop", "--cluster-dir", "cluster"]);
    assert!(said.out.contains("no usage data for 2 of 2 containers"), "{}{}", said.out, said.err);
    assert!(!said.out.contains("TOTAL"), "{}", said.out);
}

#[test]
fn what_admission_sets_is_as_the_policys_own_settings_have_it() {
    let settings = |estimates: &str| format!("estimates: {{replayTime: '2026-11-21T05:00:00Z'{estimates}}}\n");
    let folder = folder(&[("history.yaml", &settings(", namespace: headroom")), ("no-history.yaml", &settings(""))]);
    let cpu = |file: &str| {
        let settings = folder.path().join(file);
        let command = "recommend -f new.yaml -n shop --cluster-dir world --cluster-dir profiles -o json --settings";
        let arguments: Vec<&str> = command.split(' ').chain([settings.to_str().unwrap()]).collect();
        let said = headroom(&here(), &arguments);
        let report: Value = serde_json::from_str(&said.out).expect(&said.err);
        let cpu = &report["workloads"][0]["containers"][0]["resources"][0];
        [&cpu["recommended"], &cpu["request"]["value"], &cpu["request"]["from"]]
            .map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(cpu("history.yaml"), ["155m", "155m", "estimated at admission"]);
    assert_eq!(cpu("no-history.yaml"), ["155m", "100m", "typical for this image, set at admission"]);
}
