//! Conventions for kubectl plugins.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use headroom_fixtures::workspace_file;
use serde_json::Value;

use super::{here, run};
use crate::support::said;

#[test]
fn usage_errors_exit_with_2() {
    for arguments in
        ["", "recomend", "describe", "recommend -o xml", "resize --yes", "describe quota --top", "completion tcsh"]
    {
        let said = run(arguments);
        assert_eq!(said.code, 2, "{arguments}");
        assert!(said.err.contains("--help") || said.err.contains("Usage:"), "{arguments}: {}", said.err);
    }
}

/// Lets the shell check its script, if the shell is installed.
#[track_caller]
fn check_script(shell: &str, program_of: &str, check: &[&str]) {
    let script = run(&format!("completion {shell}"));
    assert_eq!(script.code, 0);
    for word in ["recommend", "describe", "--cluster-dir", "kustomize"] {
        assert!(script.out.contains(word), "{shell} completes {word}");
    }
    let Ok(mut child) =
        Command::new(program_of).args(check).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    else {
        return;
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.out.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn completion_scripts_are_valid() {
    check_script("bash", "bash", &["-n"]);
    check_script("zsh", "zsh", &["-n"]);
    check_script("fish", "fish", &["--no-execute"]);
    check_script("powershell", "pwsh", &["-NoProfile", "-Command", "-"]);
}

#[test]
fn kubectl_completes_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("kubectl_complete-headroom");
    fs::write(&script, run("completion kubectl").out).unwrap();
    let folder_of_program = Path::new(env!("CARGO_BIN_EXE_kubectl-headroom")).parent().unwrap();
    let asked = |words: &[&str]| {
        let path = format!("{}:{}", folder_of_program.display(), std::env::var("PATH").unwrap());
        said(Command::new("sh").arg(&script).args(words).env("PATH", path).current_dir(here())).out
    };
    let all = asked(&[""]);
    assert!(all.contains("recommend\tRecommend requests for running workloads, based on collected history or your existing metrics store\n"), "{all}");
    assert!(!all.contains("__complete"), "{all}");
    assert!(all.ends_with(":4\n"), "{all}");
    assert_eq!(asked(&["recommend", "-o", "ku"]), "kustomize\tA patch for each workload\n:4\n");
    assert_eq!(asked(&["describe", "quota", "--sel"]).split('\t').next(), Some("--selector"));
    assert_eq!(asked(&["describe", "limits", "--cluster-dir", "wor"]), "world/\n:6\n");
}

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn the_krew_manifest_has_this_version_and_no_host() {
    let text = fs::read_to_string(workspace_file("deploy/krew/headroom.yaml")).unwrap();
    let manifest = read(&text);
    assert_eq!(manifest["spec"]["version"], format!("v{}", env!("CARGO_PKG_VERSION")));
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&"Plugin".into(), &"headroom".into()));
    assert!(!text.contains("://"), "the place of a release is filled in");
    assert!(manifest["spec"]["shortDescription"].as_str().unwrap().len() <= 50);
}

#[test]
fn the_roles_for_users_are_read_only_and_exclude_secrets() {
    for file in ["reader.yaml", "pool-reader.yaml", "tenants.yaml"] {
        let role = read(&fs::read_to_string(workspace_file("deploy/charts/headroom/files/people").join(file)).unwrap());
        for rule in role["rules"].as_array().unwrap() {
            let has = |field: &str, word: &str| rule[field].as_array().unwrap().iter().any(|have| have == word);
            let only_reads =
                rule["verbs"].as_array().unwrap().iter().all(|verb| verb == "get" || verb == "list" || verb == "watch");
            assert!(only_reads && !has("resources", "secrets") && !has("resources", "*"), "{file}: {rule}");
        }
    }
}
