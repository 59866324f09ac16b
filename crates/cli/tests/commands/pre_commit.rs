//! The hook of `.pre-commit-hooks.yaml`, run by pre-commit itself over a repository whose files others named.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::*;

/// A kubeconfig whose credentials come from a program, which leaves a file behind.
const EVIL: &str = "apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]
users:
- name: u
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, touch ran], interactiveMode: Never}}
";

#[test]
fn the_name_of_a_file_is_no_option_and_files_of_other_tools_are_skipped() {
    let hook = fs::read_to_string(root().join(".pre-commit-hooks.yaml")).unwrap();
    let mut hook: Vec<serde_json::Value> = serde_saphyr::from_str(&hook).unwrap();
    hook[0]["args"] = serde_json::json!(["--offline", "-f", "."]);
    let config = serde_json::json!({"repos": [{"repo": "local", "hooks": hook}]}).to_string();
    let repository = folder(&[
        (".pre-commit-config.yaml", &config),
        ("pod.yaml", &pod("web", "{}")),
        ("values.yaml", "replicas: 2\n"),
        ("--kubeconfig=evil.yaml", EVIL),
        ("evil.yaml", EVIL),
    ]);
    let run = |program: &str, arguments: &[&str]| {
        let binaries = Path::new(env!("CARGO_BIN_EXE_kubectl-headroom")).parent().unwrap();
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(repository.path()).env("PATH", path).env("HOME", repository.path());
        said(command.env("PRE_COMMIT_HOME", repository.path().join(".cache")).env("KUBECONFIG", "/dev/null"))
    };
    assert_eq!(run("git", &["init", "--quiet"]).code, 0);
    assert_eq!(run("git", &["add", "--all"]).code, 0);
    let hook = run("pre-commit", &["run", "--all-files", "--verbose"]);
    assert!(hook.out.contains("skipped 2 documents") && hook.out.contains("admitted   pod/web"), "{hook:?}");
    let named = headroom(repository.path(), "check --offline --kubeconfig=evil.yaml");
    let refusal = "error: `--kubeconfig=evil.yaml` is the name of a file and reads like an option: write `./--kubeconfig=evil.yaml`";
    assert!(named.code == 2 && named.err.contains(refusal), "{named:?}");
    assert!(!repository.path().join("ran").exists(), "the program of the kubeconfig ran");
    // A name behind `--` is one.
    let read = headroom(repository.path(), "check --offline -- --kubeconfig=evil.yaml");
    assert!(read.out.contains("--kubeconfig=evil.yaml:1") && read.err.is_empty(), "{read:?}");
}
