//! A snapshot has what questions need and nothing confidential.

use serde_json::Value;

use crate::support::{folder, headroom, limit_range, pod, quota};

const CONFIDENTIAL: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: shop}\ndata: {password: c2VjcmV0}\n---\n\
    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, namespace: shop}\ndata: {a: secret}\n---\n\
    apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, annotations: {kapp.k14s.io/original: secret}}\n\
    spec: {containers: [{name: app, image: app, env: [{name: PASSWORD, value: secret}]}]}\n";

#[test]
fn confidential_data_is_left_out_and_the_rest_answers_like_the_cluster() {
    let files = folder(&[
        ("cluster/limits.yaml", &limit_range("limits", "max: {memory: 1Gi}")),
        ("cluster/quota.yaml", &quota("team", "{pods: 3}")),
        ("cluster/others.yaml", CONFIDENTIAL),
        ("app.yaml", &pod("db", "{limits: {memory: 2Gi}}")),
    ]);
    let taken = headroom(files.path(), &["snapshot", "-A", "--cluster-dir", "cluster", "-o", "cluster.json"]);
    assert_eq!((taken.code, taken.out.as_str()), (0, "cluster.json: 3 objects\n"), "{taken:?}");
    let text = std::fs::read_to_string(files.path().join("cluster.json")).unwrap();
    assert!(!text.contains("secret") && !text.contains("c2VjcmV0"), "{text}");
    let snapshot: Value = serde_json::from_str(&text).unwrap();
    let kinds: Vec<&Value> = snapshot["items"].as_array().unwrap().iter().map(|item| &item["kind"]).collect();
    assert_eq!(kinds, ["LimitRange", "ResourceQuota", "Pod", "Snapshot"]);
    let check = |from: &str| headroom(files.path(), &["check", "-f", "app.yaml", "--cluster-dir", from, "-o", "json"]);
    let (of_cluster, of_snapshot) = (check("cluster"), check("cluster.json"));
    assert_eq!(of_cluster.code, 1);
    assert_eq!(of_snapshot.out, of_cluster.out);
}

#[test]
fn tenant_quotas_and_the_settings_are_in_it() {
    let tenant = "apiVersion: headroom.dev/v1alpha1\nkind: TenantQuota\nmetadata: {name: payments}\n\
        spec: {namespaces: {names: [shop, bank]}, quota: {hard: {pods: 0}}}\n\
        status: {hard: {pods: 0}, used: {pods: 0}, namespaces: [{name: bank, used: {pods: 0}}]}\n";
    let files = folder(&[
        ("cluster/tenant.yaml", tenant),
        ("settings.yaml", "mutateTemplates: true\n"),
        ("app.yaml", &pod("db", "{}")),
    ]);
    for scope in [&["-A"][..], &["-n", "shop"]] {
        let taken = ["snapshot", "--cluster-dir", "cluster", "--settings", "settings.yaml", "-o", "cluster.json"];
        let taken = headroom(files.path(), &[&taken[..], scope].concat());
        assert_eq!((taken.code, taken.out.as_str()), (0, "cluster.json: 1 object\n"), "{taken:?}");
        let text = std::fs::read_to_string(files.path().join("cluster.json")).unwrap();
        let snapshot: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(snapshot.pointer("/items/1/spec/settings/mutateTemplates"), Some(&Value::Bool(true)), "{text}");
        // Usage of other namespaces is for those who may read all.
        let tells = snapshot.pointer("/items/0/status/namespaces").is_some();
        assert_eq!(tells, scope == ["-A"]);
        let check =
            |from: &str| headroom(files.path(), &["check", "-f", "app.yaml", "-n", "shop", "--cluster-dir", from]);
        let (of_cluster, of_snapshot) = (check("cluster"), check("cluster.json"));
        assert_eq!((of_cluster.code, &of_cluster.out), (1, &of_snapshot.out));
    }
}

#[test]
fn a_snapshot_of_one_namespace_has_only_its_objects() {
    let files = folder(&[(
        "cluster.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n---\n\
         apiVersion: v1\nkind: LimitRange\nmetadata: {name: a, namespace: lab}\nspec: {limits: []}\n---\n\
         apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: old, namespace: shop}\nspec: {replicas: 0}\n",
    )]);
    let taken = headroom(files.path(), &["snapshot", "-n", "shop", "--cluster-dir", "cluster.yaml"]);
    let snapshot: Value = serde_json::from_str(&taken.out).unwrap();
    let names: Vec<&Value> =
        snapshot["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["shop", "snapshot"]);
    // The same as YAML.
    headroom(files.path(), &["snapshot", "-n", "shop", "--cluster-dir", "cluster.yaml", "-o", "shop.yaml"]);
    let text = std::fs::read_to_string(files.path().join("shop.yaml")).unwrap();
    assert!(text.starts_with("apiVersion: v1\n"), "{text}");
    let yaml: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(yaml["items"][0], snapshot["items"][0]);
}

#[test]
fn what_events_say_of_rejected_pods_is_grouped_in_it() {
    let event = |namespace: &str, name: &str, reason: &str, kind: &str, of: &str, message: &str| {
        format!(
            "---\napiVersion: v1\nkind: Event\nmetadata: {{name: {name}, namespace: {namespace}}}\nreason: {reason}\ncount: 2\n\
             lastTimestamp: 2026-11-25T09:00:00Z\ninvolvedObject: {{kind: {kind}, name: {of}}}\nmessage: '{message}'\n"
        )
    };
    let over = "Error creating: pods \"web-5d-\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0";
    let owned = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web-5d, namespace: shop, ownerReferences: \
        [{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]}\nspec: {replicas: 0}\n";
    let events = [
        event("shop", "a", "FailedCreate", "ReplicaSet", "web-5d", over),
        event("shop", "b", "FailedCreate", "Job", "report", over),
        event("shop", "c", "Created", "Pod", "web-5d-abcde", "is forbidden: "),
        event("bank", "d", "FailedCreate", "Job", "report", over),
    ];
    let files = folder(&[("cluster.yaml", &(owned.to_owned() + &events.concat()))]);
    let rejections = |scope: &[&str]| {
        let taken = headroom(files.path(), &[&["snapshot", "--cluster-dir", "cluster.yaml"], scope].concat());
        assert_eq!(taken.code, 0, "{taken:?}");
        let snapshot: Value = serde_json::from_str(&taken.out).unwrap();
        let items = snapshot["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["kind"] != "Event"), "{snapshot}");
        items.last().unwrap()["spec"]["rejections"]["groups"].clone()
    };
    let groups = rejections(&["-n", "shop"]);
    assert_eq!(groups.as_array().unwrap().len(), 1, "{groups}");
    assert_eq!(groups[0]["workloads"], serde_json::json!(["deployment/web", "job/report"]));
    assert_eq!(groups[0]["count"], 4);
    assert_eq!(rejections(&["-A"]).as_array().unwrap().len(), 2);
}
