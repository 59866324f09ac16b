//! The objects of the Helm chart.

use std::collections::BTreeMap;
use std::process::Command;

use headroom_e2e::cluster::Cluster;
use headroom_e2e::policy_server::Deployment;
use headroom_wasm_host::built::workspace_file;
use serde::Deserialize;
use serde_json::{Value, json};

/// Renders the chart with these arguments of `helm template`, in the namespace `headroom`.
pub fn render(arguments: &[&str]) -> Vec<Value> {
    let helm = output(Command::new(workspace_file("scripts/setup-debian.sh")).arg("helm"));
    let mut template = Command::new(helm.trim());
    template.args(["template", "headroom", "--namespace=headroom"]).arg(workspace_file("deploy/charts/headroom"));
    let text = output(template.args(arguments));
    let documents = serde_yaml::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap());
    documents.filter(Value::is_object).collect()
}

/// The policies among objects, by name.
pub fn policies(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Deployment> {
    let policies = objects.into_iter().filter(|object| object["kind"] == "ClusterAdmissionPolicy");
    let named = |policy: Value| {
        (policy["metadata"]["name"].as_str().unwrap().to_owned(), Deployment::from_manifest(&policy).unwrap())
    };
    policies.map(named).collect()
}

/// Applies some of the objects that the Helm chart makes with these arguments of `helm template`.
pub fn apply(cluster: &Cluster, arguments: &[&str], is_wanted: impl Fn(&Value) -> bool) -> usize {
    let objects: Vec<Value> = render(arguments).into_iter().filter(is_wanted).collect();
    let list = tempfile::NamedTempFile::new().unwrap();
    let mut text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    // Before 1.21 these two kinds had other versions.
    for (kind, version, older) in
        [("CronJob", "batch/v1", "batch/v1beta1"), ("PodDisruptionBudget", "policy/v1", "policy/v1beta1")]
    {
        if !cluster.serves(version, kind) {
            let typed = |version| format!(r#""{version}","kind":"{kind}""#);
            text = text.replace(&typed(version), &typed(older));
        }
    }
    std::fs::write(list.path(), text).unwrap();
    cluster.run_kubectl(&["apply", "-f", list.path().to_str().unwrap()]).unwrap();
    objects.len()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
