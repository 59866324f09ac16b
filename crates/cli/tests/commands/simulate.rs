//! `simulate`: what would change, and what would not.

use serde_json::Value;

use crate::support::*;

#[test]
fn tighter_limits_are_shown_in_every_output_format() {
    for form in ["table", "json", "yaml"] {
        let said = headroom(
            &root(),
            &[
                "simulate",
                "-f",
                "docs/examples/shop/tighter.yaml",
                "--cluster-dir",
                "docs/examples/shop/cluster",
                "-o",
                form,
            ],
        );
        assert_eq!((said.code, said.err.as_str()), (1, ""), "{form}");
        snapshot(&format!("simulate.{form}"), &said.out);
    }
}

#[test]
fn objects_rejected_for_one_reason_share_a_row() {
    let in_lab = |name, limit: &str| {
        pod(name, &format!("{{limits: {{memory: {limit}}}}}"))
            .replace("namespace: shop", "namespace: lab")
            .replace("name: app,", "name: side-1,")
    };
    let cluster = [
        pod("a", "{limits: {memory: 2Gi}}"),
        pod("b", "{limits: {memory: 2Gi}}"),
        in_lab("c", "3Gi"),
        in_lab("d", "512Mi"),
    ]
    .join("---\n");
    let range = limit_range("limits", "max: {memory: 1Gi}").replace(", namespace: shop", "");
    let folder = folder(&[("cluster/all.yaml", cluster.as_str()), ("new.yaml", &range)]);
    let said = headroom(folder.path(), &["simulate", "-A", "-f", "new.yaml", "--cluster-dir", "cluster"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    snapshot("simulate-grouped", &said.out);
}

#[test]
fn files_without_objects_are_an_error() {
    let folder = folder(&[("empty.yaml", "# nothing\n")]);
    let said = headroom(folder.path(), &["simulate", "-f", "empty.yaml", "--offline"]);
    assert_eq!((said.code, said.err.trim_end()), (2, "error: nothing to simulate: the files hold no objects"));
}

fn report(arguments: &[&str], files: &[(&str, &str)]) -> (i32, Value) {
    let folder = folder(files);
    let said = headroom(folder.path(), &[&["simulate", "-o", "json"], arguments].concat());
    (said.code, serde_json::from_str(&said.out).expect(&said.err))
}

#[test]
fn a_change_without_effect_is_reported_as_such() {
    let cluster = pod("a", "{requests: {cpu: 1}}") + "---\n" + &limit_range("limits", "max: {cpu: 2}");
    let files = [("cluster/all.yaml", cluster.as_str()), ("same.yaml", &limit_range("limits", "max: {cpu: 2}"))];
    let (code, report) = report(&["-f", "same.yaml", "--cluster-dir", "cluster"], &files);
    assert_eq!((code, &report["summary"]["same"], &report["objects"]), (0, &1.into(), &Value::Array(Vec::new())));
}

#[test]
fn defaults_that_were_filled_in_are_replaced_by_new_ones() {
    let running = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop, annotations: {kubernetes.io/limit-ranger: \"LimitRanger \
                   plugin set: cpu request for container app; cpu limit for container app\"}}\nspec: {containers: [{name: app, \
                   resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 500m}}}]}\n";
    let old = limit_range("limits", "default: {cpu: 500m}, defaultRequest: {cpu: 100m}");
    let new = limit_range("limits", "default: {cpu: 400m}, defaultRequest: {cpu: 200m}");
    let cluster = [running, &old, &quota("team", "{requests.cpu: 150m, requests.memory: 2Gi}")].join("---\n");
    let files = [("cluster/all.yaml", cluster.as_str()), ("new.yaml", &new)];
    let (code, report) = report(&["-f", "new.yaml", "--cluster-dir", "cluster"], &files);
    let values: Vec<String> = report["objects"][0]["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| {
            format!(
                "{} {}->{}",
                value["field"].as_str().unwrap(),
                value["now"].as_str().unwrap(),
                value["then"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(values, ["limits.cpu 500m->400m", "requests.cpu 100m->200m"]);
    // The quota has not changed, but has no room for the pod with its new defaults.
    let quota = &report["quotas"][0];
    assert_eq!(
        (&quota["name"], &quota["remade"], &quota["left"]),
        (&"requests.cpu".into(), &"200m".into(), &"-50m".into())
    );
    assert_eq!(code, 1);
}

#[test]
fn a_new_quota_counts_running_pods_and_requires_its_resources() {
    let cluster = pod("told", "{requests: {cpu: 1}}") + "---\n" + &pod("silent", "{}");
    let files = [("cluster/all.yaml", cluster.as_str()), ("new.yaml", &quota("new", "{requests.cpu: 4, pods: 1}"))];
    let (code, report) = report(&["-f", "new.yaml", "--cluster-dir", "cluster"], &files);
    assert_eq!(code, 1);
    assert_eq!(report["objects"][0]["object"], "pod/silent");
    let reason = report["objects"][0]["reasons"][0].as_str().unwrap();
    assert!(reason.contains("failed quota: new: must specify requests.cpu for: app"), "{reason}");
    let pods = &report["quotas"][0];
    assert_eq!(
        (&pods["name"], &pods["used"], &pods["hard"], &pods["newHard"]),
        (&"pods".into(), &"2".into(), &Value::Null, &"1".into())
    );
    assert_eq!(pods["newlyExceeded"], true);
}

#[test]
fn settings_are_simulated_in_all_namespaces() {
    let other = pod("b", "{limits: {memory: 2Gi}}").replace("namespace: shop", "namespace: lab");
    let cluster = pod("a", "{limits: {memory: 2Gi}}") + "---\n" + &other;
    let rule =
        "limitRanges: {rules: [{name: house, limits: [{type: Container, max: {memory: 1Gi}}], namespaces: [lab]}]}";
    let files = [("cluster/all.yaml", cluster.as_str()), ("new.yaml", rule)];
    let (code, outcome) = report(&["-A", "--settings", "new.yaml", "--cluster-dir", "cluster"], &files);
    assert_eq!(
        (code, &outcome["summary"]["newlyRejected"], &outcome["objects"][0]["namespace"]),
        (1, &1.into(), &"lab".into())
    );
    let arguments = ["-A", "--settings", "old.yaml", "--current-settings", "new.yaml", "--cluster-dir", "cluster"];
    let (code, outcome) = report(&arguments, &[&files[..], &[("old.yaml", "{}")]].concat());
    assert_eq!((code, &outcome["summary"]["noLongerRejected"]), (0, &1.into()));
}

#[test]
fn a_limit_range_without_a_namespace_is_simulated_in_each() {
    let other = pod("b", "{limits: {memory: 2Gi}}").replace("namespace: shop", "namespace: lab");
    let cluster = pod("a", "{limits: {memory: 2Gi}}") + "---\n" + &other;
    let range = limit_range("limits", "max: {memory: 1Gi}").replace(", namespace: shop", "");
    let files = [("cluster/all.yaml", cluster.as_str()), ("new.yaml", &range)];
    let (_, outcome) = report(&["-A", "-f", "new.yaml", "--cluster-dir", "cluster"], &files);
    assert_eq!(outcome["summary"]["newlyRejected"], 2);
}

#[test]
fn only_limit_ranges_quotas_and_namespaces_can_be_simulated() {
    let folder = folder(&[
        ("pod.yaml", &pod("a", "{}")),
        ("wrong.yaml", &limit_range("limits", "max: {cpu: 1}, min: {cpu: 2}")),
    ]);
    let said = headroom(folder.path(), &["simulate", "-f", "pod.yaml", "--offline"]);
    let expected = "error: pod.yaml:1: Pod is not supported: simulate takes LimitRanges, ResourceQuotas and Namespaces; use `check` for \
                    other kinds\n";
    assert_eq!((said.code, said.err.as_str()), (2, expected));
    let said = headroom(folder.path(), &["simulate", "-f", "wrong.yaml", "--offline"]);
    assert!(said.code == 2 && said.err.contains("the LimitRange is invalid: spec.limits[0]"), "{}", said.err);
}
