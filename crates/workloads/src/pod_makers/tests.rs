use serde_json::Map;

use super::*;

fn template(cpu: Value) -> Value {
    json!({"spec": {"containers": [{"name": "a", "image": "app", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// Puts a template in place of each `T`.
fn filled(value: Value) -> Value {
    match value {
        Value::String(text) if text == "T" => template(json!(1)),
        Value::Array(items) => items.into_iter().map(filled).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, filled(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

fn pods(kind: &str, spec: Value, rows: &[PodMaker]) -> MadePods {
    let (kind, group) = kind.split_once('.').unwrap();
    let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": filled(spec)});
    let mut find = |kind: &str, name: &str| {
        (kind == "SandboxTemplate" && name == "python").then(|| json!({"spec": {"podTemplate": template(json!(2))}}))
    };
    of(&object, rows, &mut find)
}

#[test]
fn objects_of_operators_make_the_pods_that_their_sources_say() {
    let cases: Vec<Vec<Value>> = serde_json::from_value(documents::parse(include_str!("cases.yaml")).unwrap()).unwrap();
    for case in cases {
        let [kind, spec, expected, requests @ ..] = case.as_slice() else { panic!("{case:?}") };
        let made = pods(kind.as_str().unwrap(), spec.clone(), &[]);
        let number = |pods: &PodTemplate| pods.most.map_or(json!(pods.replicas), |most| json!([pods.replicas, most]));
        let counted: Map<_, _> = made.templates.iter().map(|pods| (pods.path.clone(), number(pods))).collect();
        let told = match &made.doubt {
            Some(why) => json!(why.strip_prefix("its pods are not counted: ").unwrap()),
            None => Value::Object(counted),
        };
        assert_eq!((&told, made.is_known), (expected, expected.is_object()), "{kind} {spec}");
        for expected in requests {
            let containers = made.templates[0].template.pointer("/spec/containers").and_then(Value::as_array).unwrap();
            let found: Vec<&Value> = containers.iter().map(|container| &container["resources"]["requests"]).collect();
            assert_eq!(&json!(found), expected, "{kind} {spec}");
        }
    }
}

#[test]
fn claims_of_custom_resources_are_those_of_each_pod() {
    let check = |kind: &str, spec: Value, expected: &[(&str, &str, Value)]| {
        let made = pods(kind, spec, &[]);
        let claims: Vec<_> = made.templates.iter().flat_map(|pods| &pods.claims).collect();
        let found = claims.iter().map(|claim| {
            let size = claim.pointer("/spec/resources/requests/storage").and_then(Value::as_str).unwrap();
            (metadata(claim, "name"), size, claim["spec"]["storageClassName"].clone())
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{kind}");
    };
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "9Gi"}}}}]);
    let template = json!({"size": 2, "workerTemplate": "T", "volumeClaimTemplates": claims});
    let data = ("data", "9Gi", Value::Null);
    check(
        "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        json!({"leaderWorkerTemplate": template}),
        &[data.clone(), data.clone()],
    );
    let sets = json!([{"count": 1, "volumeClaimTemplates": claims}, {"count": 2}]);
    let default = ("data", "1Gi", Value::Null);
    check("Elasticsearch.elasticsearch.k8s.elastic.co", json!({"nodeSets": sets}), &[data, default]);
    let storage = json!({"size": "5Gi", "storageClass": "fast"});
    let wal = json!({"pvcTemplate": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "slow"}});
    check(
        "Cluster.postgresql.cnpg.io",
        json!({"instances": 3, "storage": storage, "walStorage": wal}),
        &[("storage", "5Gi", json!("fast")), ("walStorage", "1Gi", json!("slow"))],
    );
    let volumes = json!([{"type": "persistent-claim", "size": "7Gi"}, {"type": "ephemeral"}]);
    let jbod = json!({"replicas": 3, "storage": {"type": "jbod", "volumes": volumes}});
    check("KafkaNodePool.kafka.strimzi.io", jbod, &[("volumes", "7Gi", Value::Null)]);
}

#[test]
fn every_row_of_the_table_is_read_and_has_its_source_and_a_case() {
    let table = include_str!("../pod_makers.yaml");
    let rows = PodMaker::rows(table).unwrap();
    assert_eq!(rows.len(), table.matches("\n- kinds: ").count());
    for row in rows {
        assert!(row._source.is_some_and(|source| source.contains('/')), "{:?}", row.kinds);
        assert!(row.kinds.iter().all(|kind| kind.contains('.')), "{:?}", row.kinds);
    }
}

#[test]
fn a_kind_in_no_row_is_searched_and_said_to_be_unknown() {
    let groups = json!({"groups": [{"replicas": 2, "pod": {"spec": {"containers": [{"image": "a"}]}}}]});
    let made = pods("Widget.example.com", groups, &[]);
    assert_eq!(made.templates[0].replicas, 2);
    assert_eq!(
        made.doubt.as_deref(),
        Some(
            "Widget is not a known kind: it is assumed to make 2 pods of spec.groups[0].pod, by spec.groups[0].replicas; --pods-at names other places"
        )
    );
    // A description, patches, and a kind of Kubernetes itself.
    for (kind, containers) in [
        ("WidgetTemplate.example.com", json!([{"image": "a"}])),
        ("Widget.example.com", json!([{"name": "patched"}])),
        ("Widget.example.com", json!("none")),
        ("ReplicaSet.apps", json!([{"image": "a"}])),
    ] {
        let made = pods(kind, json!({"template": {"spec": {"containers": containers}}}), &[]);
        assert_eq!(made, MadePods::default(), "{kind}");
    }
}

#[test]
fn a_row_of_a_user_stands_before_the_table() {
    let check = |row: PodMaker, expected: &[(&str, u64)], doubt: Option<&str>| {
        let spec = json!({"groups": [{"replicas": 2, "pod": {"containers": [{"name": "a"}]}}]});
        let made = pods("Sandbox.agents.x-k8s.io", spec, &[row]);
        let found: Vec<_> = made.templates.iter().map(|pods| (pods.path.as_str(), pods.replicas)).collect();
        assert_eq!((found.as_slice(), made.doubt.as_deref()), (expected, doubt));
    };
    check("sandbox=spec.groups.*.pod".parse().unwrap(), &[("spec.groups[0].pod", 2)], None);
    let nothing = "its pods are not counted: there is no pod template at spec.pod";
    check("Sandbox=spec.pod".parse().unwrap(), &[], Some(nothing));
    let row = |text: &str| PodMaker::rows(text).map(|mut rows| rows.remove(0));
    check(
        row("- {kinds: [Sandbox], pods: [{at: spec.groups.*.pod, times: [.replicas, .size=3]}]}").unwrap(),
        &[("spec.groups[0].pod", 6)],
        None,
    );
    assert!("Sandbox".parse::<PodMaker>().is_err() && "Sandbox=".parse::<PodMaker>().is_err());
    for factor in [".replicas + 1", ".size - .replicas", ".replicas <= .most - 1"] {
        let text = format!("- {{kinds: [A], pods: [{{at: spec.pod, times: [{factor}]}}]}}");
        assert!(row(&text).unwrap_err().contains(&format!("`{factor}`")), "{factor}");
    }
    assert!(row("- {kinds: [A], pod: []}").unwrap_err().contains("unknown field `pod`"));
}
