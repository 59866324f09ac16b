//! Snapshots of every output.

use std::fs;

use serde_json::Value;

use super::program::run;
use crate::support::{Said, snapshot};

/// Files instead of a cluster.
const WORLD: &str = "-n shop --cluster-dir world --cluster-dir profiles";
const AS_OF: &str = "--settings settings.yaml";

#[track_caller]
fn check(name: &str, arguments: &str) {
    let Said { code, out, err } = run(arguments);
    let said = format!("$ kubectl headroom {arguments}\n# exit code {code}\n{out}{err}");
    snapshot(&format!("describe/{name}"), &said);
}

#[test]
fn limits_are_described_as_by_kubectl_and_in_effect() {
    check("limits.txt", &format!("describe limits {WORLD} {AS_OF}"));
    check("limits-named.txt", &format!("describe limits tight {WORLD} {AS_OF}"));
    check("limits-missing.txt", &format!("describe limits nope {WORLD} {AS_OF}"));
    check("limits-json.txt", &format!("describe limits {WORLD} {AS_OF} -o json"));
    check("limits-yaml.txt", &format!("describe limits {WORLD} {AS_OF} -o yaml"));
    check("limits-image.txt", &format!("describe limits {WORLD} --image nginx:1.27 --settings settings-rules.yaml"));
    check("limits-off.txt", &format!("describe limits {WORLD} --image nginx:1.27 --settings settings-never.yaml"));
    check("limits-nowhere.txt", &format!("describe limits -n empty --cluster-dir world {AS_OF}"));
    check("limits-all.txt", &format!("describe limitranges -A --cluster-dir world {AS_OF}"));
}

#[test]
fn quotas_are_described_with_available_amounts_consumers_and_drift() {
    check("quota.txt", &format!("describe quota {WORLD} {AS_OF}"));
    check("quota-json.txt", &format!("describe quota team {WORLD} {AS_OF} -o json"));
    check("quota-top.txt", &format!("describe resourcequota {WORLD} {AS_OF} --top 1"));
    check("quota-missing.txt", &format!("describe quota nope {WORLD} {AS_OF}"));
    check("quota-devices.txt", "describe quota -n lab --cluster-dir devices");
    check("quota-nowhere.txt", &format!("describe quota -n empty --cluster-dir world {AS_OF}"));
}

#[test]
fn usage_is_described_by_image_with_its_distribution() {
    check("usage.txt", &format!("describe usage {WORLD} {AS_OF}"));
    check("usage-one.txt", &format!("describe usage postgres {WORLD} {AS_OF} --window 30d"));
    check("usage-all.txt", &format!("describe usage -A --cluster-dir profiles {AS_OF}"));
    check("usage-json.txt", &format!("describe usage postgres {WORLD} {AS_OF} -o json"));
    check("usage-unknown.txt", &format!("describe usage mysql {WORLD} {AS_OF}"));
    check("usage-none.txt", &format!("describe usage -n shop --cluster-dir world {AS_OF}"));
}

#[test]
fn requests_are_recommended_with_their_evidence() {
    check("recommend.txt", &format!("recommend {WORLD} {AS_OF}"));
    check("recommend-one.txt", &format!("recommend deployment/web {WORLD} {AS_OF}"));
    check("recommend-json.txt", &format!("recommend sts/db {WORLD} {AS_OF} -o json"));
    check("recommend-yaml.txt", &format!("recommend sts/db {WORLD} {AS_OF} -o yaml"));
    check("recommend-kustomize.txt", &format!("recommend {WORLD} {AS_OF} -o kustomize"));
    check("recommend-helm.txt", &format!("recommend {WORLD} {AS_OF} -o helm"));
    check("recommend-helm-path.txt", &format!("recommend sts/db {WORLD} {AS_OF} -o helm --values-path resources"));
    check("recommend-helm-clash.txt", &format!("recommend {WORLD} {AS_OF} -o helm --values-path resources"));
    check("recommend-image.txt", &format!("recommend --image nginx:1.26 {WORLD} {AS_OF}"));
    check("recommend-image-nobody-knows.txt", &format!("recommend --image example.com/app:1 {WORLD} {AS_OF}"));
    check("recommend-well-known.txt", &format!("recommend --image redis:8 {WORLD} {AS_OF}"));
    check("recommend-bounded.txt", &format!("recommend sts/db {WORLD} --settings settings-rules.yaml"));
    check("recommend-new.txt", &format!("recommend -f new.yaml {WORLD} {AS_OF}"));
    check("recommend-off.txt", &format!("recommend -f new.yaml {WORLD} --settings settings-never.yaml"));
    check("recommend-all.txt", &format!("recommend -A --cluster-dir world --cluster-dir profiles {AS_OF}"));
}

#[test]
fn a_snapshot_has_the_same_recommendations_for_the_page() {
    let json = |arguments: String| serde_json::from_str::<Value>(&run(&arguments).out).unwrap();
    let snapshot = json(format!("snapshot {WORLD} {AS_OF}"));
    let item = snapshot["items"].as_array().unwrap().iter().find(|item| item["kind"] == "Snapshot").unwrap();
    let carried = &item["spec"]["advice"];
    let advice = json(format!("recommend {WORLD} {AS_OF} --sort-by name -o json"));
    let mut expected = Vec::new();
    for workload in advice["workloads"].as_array().unwrap() {
        for container in workload["containers"].as_array().unwrap() {
            for resource in container["resources"].as_array().unwrap() {
                let peak = &resource["used"]["peak"];
                let amounts = ["recommended", "recommendedLimit"].map(|field| resource[field].clone());
                expected.push((&workload["namespace"], &container["name"], amounts, !peak.is_null()));
            }
        }
    }
    let lines = carried["lines"].as_array().unwrap().iter();
    let has_usage = |line: &Value| !line["usage"].as_array().unwrap().is_empty();
    let amounts = |line: &Value| ["recommended", "recommendedLimit"].map(|field| line[field]["text"].clone());
    let lines = lines.map(|line| (&line["namespace"], &line["container"], amounts(line), has_usage(line)));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    assert!(expected.iter().any(|line| line.3) && expected.iter().any(|line| !line.3));
    assert_eq!(carried["quotas"], advice["quotas"]);
    let peak =
        |line: &&Value| line["usage"].as_array().is_some_and(|usage| usage.last().is_some_and(|of| of["at"] == "peak"));
    let memory =
        carried["lines"].as_array().unwrap().iter().filter(|line| line["resource"] == "memory").find(peak).unwrap();
    assert_eq!(memory["usage"][4]["text"].as_str().map(|text| text.ends_with("Mi")), Some(true), "{memory:#}");
}

/// Nothing is known of the database's usage, and its requests are the author's.
#[test]
fn what_nobody_measured_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db.yaml");
    let manifest = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: shop}\nspec:\n  replicas: 1\n  \
                    template:\n    spec:\n      containers:\n      - name: postgres\n        image: postgres:16\n        \
                    resources: {requests: {cpu: 2, memory: 8Gi}}\n      - name: proxy\n        image: nginx\n";
    fs::write(&file, manifest).unwrap();
    let path = file.display();
    let said = run(&format!("recommend -f {path} --offline"));
    snapshot("describe/recommend-unmeasured.txt", &said.out.replace(&path.to_string(), "db.yaml"));
    let said = run(&format!("recommend -f {path} --offline --write"));
    assert_eq!((said.code, fs::read_to_string(&file).unwrap().as_str()), (0, manifest));
    for (output, expected) in [("kustomize", ""), ("helm", "{}\n")] {
        let said = run(&format!("recommend -f {path} --offline -o {output}"));
        assert_eq!((said.code, said.out.as_str()), (0, expected));
        assert!(said.err.contains("no usage data for 2 of 2 containers"), "{}", said.err);
    }
    let report: Value = serde_json::from_str(&run(&format!("recommend -f {path} --offline -o json")).out).unwrap();
    assert_eq!(report["total"]["withoutUsage"], 2);
    let memory = |container: usize| &report["workloads"][0]["containers"][container]["resources"][1];
    assert_eq!((&memory(0)["typical"], &memory(0)["unknown"]), (&Value::Null, &"no usage data".into()));
    assert!(memory(1)["typical"].is_string() && memory(1)["recommended"].is_null(), "{}", memory(1));
}

#[test]
fn missing_recommendations_are_explained() {
    check("recommend-missing.txt", &format!("recommend deployment/wbe {WORLD} {AS_OF}"));
    check("recommend-no-pods.txt", &format!("recommend service/web {WORLD} {AS_OF}"));
    check("recommend-nothing.txt", &format!("recommend -n empty --cluster-dir world {AS_OF}"));
    check("recommend-names-of-all.txt", &format!("recommend deployment/web -A --cluster-dir world {AS_OF}"));
    check("recommend-bad-image.txt", &format!("recommend --image UPPER {WORLD} {AS_OF}"));
    check("recommend-image-patch.txt", &format!("recommend --image nginx {WORLD} {AS_OF} -o kustomize"));
    check("recommend-no-cluster.txt", "recommend deployment/web");
}

#[test]
fn the_distribution_is_drawn_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.svg");
    let said = run(&format!("recommend sts/db {WORLD} {AS_OF} --plot {}", file.display()));
    assert_eq!(said.code, 0, "{}", said.err);
    let svg = fs::read_to_string(&file).unwrap();
    for text in ["cpu of statefulset/db postgres", "memory of statefulset/db postgres", "recommended 658m", "now 500m"]
    {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    let said = run(&format!("recommend pod/debug {WORLD} {AS_OF} --plot {}", file.display()));
    assert_eq!(said.code, 2);
    assert!(said.err.starts_with("error: there is no history to draw into `"), "{}", said.err);
}
