//! Names and images of others act on no terminal and no CI log, whatever command prints them.

use headroom_output::clean::is_hidden;

use crate::support::*;

/// In YAML and JSON: an escape sequence, a line of its own, commands to CI runners, and writing from right to left.
const HOSTILE: &str = r"a\u001b]0;x\u0007\nINJECTED\n::add-mask::b\r##[error]\u009b2K\u202e";

fn files() -> tempfile::TempDir {
    let object = |kind: &str, more: &str| {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: \"{HOSTILE}\", namespace: shop}}\n{more}\n---\n")
    };
    let container = format!("{{name: \"{HOSTILE}\", image: \"{HOSTILE}\", resources: {{limits: {{memory: 2Gi}}}}}}");
    let pod = object("Pod", &format!("spec: {{containers: [{container}]}}"));
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: \"{HOSTILE}\", namespace: shop}}\n\
         spec: {{replicas: 2, template: {{spec: {{containers: [{container}]}}}}}}\n---\n"
    );
    let limits = object("LimitRange", "spec: {limits: [{type: Container, max: {memory: 1Gi}}]}");
    let quota =
        object("ResourceQuota", "spec: {hard: {pods: \"1\"}}\nstatus: {hard: {pods: \"1\"}, used: {pods: \"1\"}}");
    folder(&[
        ("app.yaml", &(pod.clone() + &deployment)),
        ("cluster/limits.yaml", &limits),
        ("cluster/quota.yaml", &quota),
        ("running/pods.yaml", &(pod + &deployment)),
        ("new/limits.yaml", &limits.replace("1Gi", "512Mi")),
    ])
}

#[test]
fn no_name_acts_on_a_terminal_or_a_log() {
    let folder = files();
    let commands = [
        ("snapshot -n shop --cluster-dir cluster --cluster-dir running", "-"),
        ("recommend deployment/web -n shop --cluster-dir cluster --cluster-dir running", "table"),
        ("recommend -f app.yaml --cluster-dir cluster", "table wide json csv markdown pull-request kustomize helm"),
        ("why web -n shop --cluster-dir cluster --cluster-dir running", "text"),
        ("why -f app.yaml --cluster-dir cluster", "text json yaml"),
        ("check -f app.yaml --cluster-dir cluster", "table json yaml sarif github junit"),
        ("check --against-running -f new -n shop --cluster-dir cluster --cluster-dir running", "table json yaml"),
        ("describe limits -n shop --cluster-dir cluster", "table json yaml"),
        ("describe quota -n shop --cluster-dir cluster --cluster-dir running", "table json yaml"),
    ];
    let in_formats = |(command, formats): (&str, &str)| -> Vec<String> {
        formats.split(' ').map(|format| format!("{command} -o {format}")).collect()
    };
    for command in &commands.map(in_formats).concat() {
        let said = headroom(folder.path(), command);
        let text = format!("{}{}", said.out, said.err);
        assert!(!text.is_empty(), "{command}");
        let hidden = text.replace("\r\n", "\n").chars().find(|character| *character != '\n' && is_hidden(*character));
        assert_eq!(hidden, None, "{command}: {text}");
        for line in text.lines().map(str::trim_start) {
            let is_ours = ["::error ", "::warning ", "::notice "].iter().any(|own| line.starts_with(own));
            let is_injected = line.starts_with("INJECTED") && !command.ends_with("yaml");
            assert!((is_ours || !line.starts_with("::")) && !is_injected && !line.contains("##["), "{command}: {line}");
        }
    }
}
