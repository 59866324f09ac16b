//! Other limits, quotas and settings tried on everything in a snapshot.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may stop where something is not as it made it"
)]

use std::collections::{BTreeSet, HashMap};

use headroom_dry_run::simulate::unread;
use headroom_playground::memo::Memo;
use headroom_playground::play::{Panel, Play};
use headroom_playground::whatif::OpenedSnapshot;
use serde_json::{Value, json};

/// A cluster of some namespaces with ten Deployments each, and nine pods of each.
fn snapshot(namespaces: usize) -> String {
    let mut items = Vec::new();
    for namespace in (0..namespaces).map(|index| format!("team-{index}")) {
        items.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        items.push(json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": namespace},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "2Gi"}, "default": {"memory": "1Gi"}, "defaultRequest": {"memory": "512Mi"}}]}}));
        items.push(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": namespace},
            "spec": {"hard": {"requests.cpu": "20", "pods": "120"}},
            "status": {"hard": {"requests.cpu": "20", "pods": "120"}, "used": {"requests.cpu": "9", "pods": "90"}}}),
        );
        for deployment in (0..10).map(|index| format!("web-{index}")) {
            let spec = json!({"containers": [{"name": "web", "image": "example/web:1", "resources":
                {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}}]});
            items.push(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": deployment, "namespace": namespace},
                "spec": {"replicas": 9, "template": {"metadata": {"labels": {"app": deployment}}, "spec": spec}}}));
            for pod in 0..9 {
                items.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{deployment}-5d4-{pod}"), "namespace": namespace,
                    "labels": {"app": deployment, "pod-template-hash": "5d4"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{deployment}-5d4"), "controller": true}]},
                    "spec": spec, "status": {"phase": "Running"}}));
            }
        }
    }
    items.push(json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "Snapshot", "metadata": {"name": "snapshot"},
        "spec": {"settings": {"estimates": {"mode": "never"}}, "advice": {"lines": [{"object": "deployment/web-0"}]}}}));
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn open(snapshot: String) -> (OpenedSnapshot, Value) {
    let (cluster, overview) = OpenedSnapshot::open(&snapshot).unwrap();
    (cluster, serde_json::to_value(overview).unwrap())
}

fn trial(cluster: &OpenedSnapshot, panels: &[(Panel, &str)]) -> Value {
    let mut panels: HashMap<Panel, String> = panels.iter().map(|(panel, text)| (*panel, (*text).to_owned())).collect();
    panels.entry(Panel::Settings).or_insert_with(|| "estimates: {mode: never}".to_owned());
    serde_json::to_value(cluster.evaluate(&Play { panels, ..Play::default() }, &mut Memo::default())).unwrap()
}

#[test]
fn unchanged_panels_change_nothing() {
    let (cluster, overview) = open(snapshot(2));
    // The snapshot's settings and advice are no object of it.
    assert_eq!((&overview["objects"], &overview["namespaces"]), (&json!(206), &json!(["team-0", "team-1"])));
    let text = |field: &str| overview[field].as_str().unwrap().to_owned();
    let trial =
        trial(&cluster, &[(Panel::LimitRanges, &text("limitRanges")), (Panel::Quotas, &text("quotaManifests"))]);
    assert_eq!(trial["problems"], json!([]));
    assert_eq!(trial["report"]["summary"]["objects"], 20);
    assert_eq!(trial["report"]["summary"]["same"], 20, "{trial:#}");
    assert_eq!(trial["report"]["quotas"], json!([]));
}

#[test]
fn a_lower_maximum_refuses_and_a_smaller_quota_overflows() {
    let (cluster, _) = open(snapshot(2));
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: limits, namespace: team-1}\nspec: {limits: [{type: Container, max: {memory: 512Mi}}]}\n";
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: team, namespace: team-0}\nspec: {hard: {requests.cpu: 8, pods: 120}}\n";
    let trial = trial(&cluster, &[(Panel::LimitRanges, range), (Panel::Quotas, quota)]);
    assert_eq!(trial["report"]["summary"]["newlyRejected"], 10, "{trial:#}");
    let quota = &trial["report"]["quotas"][0];
    assert_eq!(
        (&quota["namespace"], &quota["resource"], &quota["newHard"]),
        (&json!("team-0"), &json!("requests.cpu"), &json!("8"))
    );
}

#[test]
fn what_is_deleted_from_a_panel_is_gone_but_not_while_it_is_written() {
    let (cluster, overview) = open(snapshot(2));
    assert_eq!(overview["settings"], "estimates:\n  mode: never\n");
    let ranges = overview["limitRanges"].as_str().unwrap();
    let quotas = overview["quotaManifests"].as_str().unwrap();
    let changed = |quotas: &str| {
        trial(&cluster, &[(Panel::LimitRanges, ranges), (Panel::Quotas, quotas)])["report"]["quotas"].clone()
    };
    // Nothing of these pods depends on the LimitRange but its maximum, which nothing reaches.
    let gone = changed(quotas.split("---\n").next().unwrap());
    let told: Vec<_> = gone.as_array().unwrap().iter().map(|quota| (&quota["namespace"], &quota["newHard"])).collect();
    assert_eq!(told, [(&json!("team-1"), &Value::Null); 2]);
    assert_eq!(changed(&format!("{quotas}---\nkind: [")), json!([]));
    let without = trial(&cluster, &[(Panel::Quotas, quotas)]);
    let bounds = |trial: &Value| trial["namespaces"][0]["story"]["containers"][0]["values"].to_string().contains("2Gi");
    assert!(!bounds(&without), "{:#}", without["namespaces"]);
    assert!(bounds(&trial(&cluster, &[(Panel::LimitRanges, ranges), (Panel::Quotas, quotas)])));
}

#[test]
fn requests_that_change_are_summed() {
    let (cluster, _) = open(snapshot(1));
    let defaults = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: limits, namespace: team-0}\n\
        spec: {limits: [{type: Container, defaultRequest: {ephemeral-storage: 1Gi}}]}\n";
    let trial = trial(&cluster, &[(Panel::LimitRanges, defaults)]);
    assert_eq!(trial["report"]["requests"], json!({"ephemeral-storage": "90Gi"}), "{:#}", trial["report"]["summary"]);
}

#[test]
fn an_object_without_a_namespace_is_tried_everywhere() {
    let (cluster, _) = open(snapshot(3));
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: new}\nspec: {limits: [{type: Container, max: {memory: 512Mi}}]}\n";
    assert_eq!(trial(&cluster, &[(Panel::LimitRanges, range)])["report"]["summary"]["newlyRejected"], 30);
}

#[test]
fn what_is_no_snapshot_says_so() {
    let open = |snapshot: &str| OpenedSnapshot::open(snapshot).map(|_| ()).unwrap_err();
    assert!(open("").starts_with("the file holds no objects"));
    assert!(open("kind: Pod").starts_with("snapshot:1: `apiVersion` is missing"));
    let wrong = snapshot(1).replace(r#"{"mode":"never"}"#, "3");
    assert!(open(&wrong).starts_with("invalid settings: `estimates`"), "{}", open(&wrong));
}

/// The pods of `pods.yaml`, and workloads with them as templates.
fn rich_snapshot() -> Vec<Value> {
    let parts: Value = serde_saphyr::from_str(include_str!("pods.yaml")).unwrap();
    let with = |object: &mut Value, rest: &Value| {
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    };
    let specs = parts["specs"].as_array().unwrap().iter().cloned().map(|mut spec| {
        for containers in ["containers", "initContainers"] {
            let containers = spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten();
            containers.for_each(|container| with(container, &parts["unread"]["container"]));
        }
        with(&mut spec, &parts["unread"]["spec"]);
        spec
    });
    let object = |api_version: &str, kind: &str, name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": "shop"});
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    };
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}}),
        object("v1", "LimitRange", "limits", json!({"limits": parts["limits"]})),
    ];
    for (index, spec) in specs.enumerate() {
        let mut pod = object("v1", "Pod", &format!("pod-{index}"), spec.clone());
        with(&mut pod["metadata"], &parts["metadata"]);
        pod["status"] = parts["statuses"][index % 2].clone();
        let mut ended = object("v1", "Pod", &format!("ended-{index}"), spec.clone());
        ended["status"] = json!({"phase": "Succeeded", "message": "done"});
        let template =
            json!({"metadata": {"labels": {"app": "web"}, "annotations": {"other": "left out (2)"}}, "spec": spec});
        let job = json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}});
        let deployment = json!({"replicas": 2, "template": template});
        objects.extend([pod, ended]);
        objects.push(object("apps/v1", "Deployment", &format!("web-{index}"), deployment));
        objects.push(object("batch/v1", "CronJob", &format!("job-{index}"), job));
    }
    objects
}

#[test]
fn what_the_page_is_not_sent_of_pods_changes_no_result() {
    let whole = rich_snapshot();
    let mut reduced = whole.clone();
    reduced.iter_mut().for_each(unread::leave_out);
    let text = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    assert!(text(&reduced).len() * 2 < text(&whole).len(), "{} of {}", text(&reduced).len(), text(&whole).len());
    let ((of_whole, overview), (of_reduced, overview_of_reduced)) = (open(text(&whole)), open(text(&reduced)));
    assert_eq!(overview, overview_of_reduced);
    let ranges = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: limits, namespace: shop}\n\
        spec: {limits: [{type: Container, max: {memory: 512Mi}, defaultRequest: {cpu: 50m}}, {type: Pod, max: {cpu: 2}}]}\n";
    // The usage of these is counted from the pods.
    let of_namespace = |name: &str, spec: &str| {
        format!("apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: {name}, namespace: shop}}\nspec: {spec}\n")
    };
    let quota = [
        of_namespace("all", "{hard: {requests.cpu: 1, limits.memory: 90Gi, pods: 90}}"),
        of_namespace("terminating", "{hard: {pods: 9}, scopes: [Terminating]}"),
        of_namespace("best-effort", "{hard: {pods: 9}, scopes: [NotBestEffort]}"),
        of_namespace("affine", "{hard: {pods: 9}, scopes: [CrossNamespacePodAffinity]}"),
        of_namespace(
            "high",
            "{hard: {requests.cpu: 9}, scopeSelector: {matchExpressions: \
            [{scopeName: PriorityClass, operator: In, values: [high]}]}}",
        ),
        "apiVersion: headroom.dev/v1alpha1\nkind: TenantQuota\nmetadata: {name: acme}\nspec: {namespaces: {selector: \
            {matchLabels: {team: a}}}, quota: {hard: {requests.cpu: 50}}}\n"
            .to_owned(),
    ]
    .join("---\n");
    let settings = "{limitRanges: {workloadMode: enforce, rules: [{name: web, podLabels: {matchLabels: {app: web}}, \
        limits: [{type: Container, min: {cpu: 200m}}]}]}, estimates: {mode: always}}";
    let text_of = |value: &Value| value.as_str().unwrap().to_owned();
    let (mut verdicts, mut used) = (BTreeSet::<String>::new(), BTreeSet::<String>::new());
    for panels in [
        vec![],
        vec![(Panel::LimitRanges, ranges)],
        vec![(Panel::Quotas, &*quota)],
        vec![(Panel::Settings, settings)],
        vec![(Panel::LimitRanges, ranges), (Panel::Quotas, &*quota), (Panel::Settings, settings)],
    ] {
        let (one, other) = (trial(&of_whole, &panels), trial(&of_reduced, &panels));
        assert_eq!(one, other, "{panels:?}");
        assert_eq!(one["problems"], json!([]));
        used.extend(
            one["report"]["quotas"]
                .as_array()
                .unwrap()
                .iter()
                .map(|of| text_of(&of["quota"]) + " " + &text_of(&of["used"])),
        );
        verdicts.extend(one["report"]["objects"].as_array().unwrap().iter().map(|of| text_of(&of["change"])));
    }
    assert_eq!(Vec::from_iter(verdicts), ["changed", "newly rejected"]);
    let expected =
        ["acme 8950m", "affine 1", "all 5", "all 8950m", "all 8Gi", "best-effort 5", "high 900m", "terminating 1"];
    assert_eq!(Vec::from_iter(used), expected);
}
