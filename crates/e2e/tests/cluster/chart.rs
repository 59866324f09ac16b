//! The objects of the Helm chart.

use std::process::Command;

use headroom_testkit::built::workspace_file;
use serde::Deserialize;
use serde_json::Value;

/// Renders the chart with these arguments of `helm template`, in the namespace `headroom`.
pub fn render(arguments: &[&str]) -> Vec<Value> {
    let helm = output(Command::new(workspace_file("scripts/setup-debian.sh")).arg("helm"));
    let mut template = Command::new(helm.trim());
    template.args(["template", "headroom", "--namespace=headroom"]).arg(workspace_file("deploy/charts/headroom"));
    let text = output(template.args(arguments));
    let documents = serde_yaml::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap());
    documents.filter(Value::is_object).collect()
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
