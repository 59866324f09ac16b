//! The GitHub Action's step: its script with a runner's environment, and `curl` and `gh` that answer from files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::*;

/// Copies what is asked for from the folder `release`.
const CURL: &str = r#"#!/bin/sh
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && to=$2
  shift
done
echo "$1" >>requests
cp "release/${1##*/}" "$to"
"#;

/// Lists the comments of the file `comments`, and keeps what is written.
const GH: &str = r#"#!/bin/sh
echo "gh $*" >>requests
case "$*" in
  "attestation verify "*) [ ! -e forged ] ;;
  "api --paginate "*) cat comments ;;
  *) [ ! -e forbidden ] && cp "${*##*body=@}" comment ;;
esac
"#;

/// A checkout with manifests, and a release whose program is the one under test.
fn runner() -> TempDir {
    let cluster = limit_range("limits", "max: {memory: 1Gi}");
    let program = format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_kubectl-headroom"));
    let folder = folder(&[
        ("app.yaml", &pod("web", "{limits: {memory: 2Gi}}")),
        ("cluster/bounds.yaml", &cluster),
        ("bin/curl", CURL),
        ("bin/gh", GH),
        ("release/kubectl-headroom", &program),
        ("comments", ""),
        ("requests", ""),
    ]);
    for program in ["bin/curl", "bin/gh", "release/kubectl-headroom"] {
        fs::set_permissions(folder.path().join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let pack =
        "cd release && tar -czf kubectl-headroom-linux-amd64.tar.gz kubectl-headroom && sha256sum *.gz >SHA256SUMS";
    assert!(Command::new("sh").args(["-c", pack]).current_dir(folder.path()).status().unwrap().success());
    folder
}

/// Runs the step with more variables than a runner sets.
fn step(folder: &Path, inputs: &[(&str, &str)]) -> Said {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .arg(root().join("scripts/github-action.sh"))
        .current_dir(folder)
        .env("PATH", path)
        .envs([("RUNNER_OS", "Linux"), ("RUNNER_ARCH", "X64"), ("GITHUB_REPOSITORY", "team/shop")])
        .envs([
            ("GITHUB_STEP_SUMMARY", "summary"),
            ("PULL_REQUEST", "7"),
            ("GH_TOKEN", "token"),
            ("INPUT_COMMENT", "true"),
        ])
        .envs([("INPUT_VERSION", ""), ("INPUT_SHA256", ""), ("INPUT_PROGRAM", "")])
        .env("INPUT_ARGUMENTS", "-f app.yaml\n--cluster-dir cluster")
        .env("GITHUB_ACTION_PATH", root())
        .envs(inputs.iter().copied())
        .output()
        .unwrap();
    output.into()
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

#[test]
fn it_annotates_summarizes_and_comments() {
    let folder = runner();
    let said = step(folder.path(), &[]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.out.starts_with("::error file=app.yaml,line=1,title=shop/pod/web%3A rejected::"), "{}", said.out);
    let [summary, comment, requests] = ["summary", "comment", "requests"].map(|name| read(folder.path(), name));
    assert!(summary.starts_with("## Headroom\n\n**1 object: 1 rejected**\n"), "{summary}");
    assert!(comment.starts_with("<!-- headroom check -->\n### Headroom\n\n**1 object: 1 rejected**\n"), "{comment}");
    let version = env!("CARGO_PKG_VERSION");
    let url = format!(
        "https://github.com/headroom-dev/headroom/releases/download/v{version}/kubectl-headroom-linux-amd64.tar.gz\n"
    );
    assert!(requests.starts_with(&url), "{requests}");
    assert!(requests.contains("kubectl-headroom-linux-amd64.tar.gz --repo headroom-dev/headroom\n"), "{requests}");
    assert!(
        requests.contains("gh api --silent --method POST repos/team/shop/issues/7/comments -F body=@"),
        "{requests}"
    );
}

#[test]
fn a_later_run_updates_its_comment() {
    let folder = runner();
    fs::write(folder.path().join("comments"), "41\n42\n").unwrap();
    step(folder.path(), &[]);
    let requests = read(folder.path(), "requests");
    assert!(
        requests.contains("gh api --silent --method PATCH repos/team/shop/issues/comments/41 -F body=@"),
        "{requests}"
    );
    assert!(!requests.contains("POST"), "{requests}");
}

#[test]
fn without_a_pull_request_or_the_permission_there_is_no_comment() {
    let folder = runner();
    for inputs in [[("PULL_REQUEST", "")], [("INPUT_COMMENT", "false")]] {
        assert_eq!(step(folder.path(), &inputs).code, 1);
        assert!(!read(folder.path(), "requests").contains("gh api"));
    }
    fs::write(folder.path().join("forbidden"), "").unwrap();
    let said = step(folder.path(), &[]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("::notice title=Headroom::the comment was not written: give the job"), "{}", said.out);
}

#[test]
fn an_archive_that_was_replaced_is_not_run() {
    let expected = "::error title=Headroom::kubectl-headroom-linux-amd64.tar.gz has";
    let check = |spoil: &dyn Fn(&Path), inputs: &[(&str, &str)], expected: &str| {
        let folder = runner();
        spoil(folder.path());
        let said = step(folder.path(), inputs);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{expected}: {}", said.err);
        assert!(said.err.contains(expected), "{}", said.err);
        assert!(!folder.path().join("summary").exists());
    };
    let write = |name: &'static str| move |folder: &Path| fs::write(folder.join(name), "0000  other.tar.gz\n").unwrap();
    check(&write("release/SHA256SUMS"), &[], expected);
    check(&write("forged"), &[], &format!("{expected} no valid build provenance of headroom-dev/headroom"));
    check(&write("unused"), &[("INPUT_SHA256", "0000")], expected);
    check(
        &write("unused"),
        &[("INPUT_VERSION", "v9"), ("RUNNER_OS", "Windows")],
        "there is no kubectl-headroom for Windows on X64",
    );
}

#[test]
fn a_digest_needs_no_provenance_and_a_program_no_download() {
    let folder = runner();
    let digest = read(folder.path(), "release/SHA256SUMS");
    let digest = digest.split_once(' ').unwrap().0;
    assert_eq!(step(folder.path(), &[("INPUT_SHA256", digest)]).code, 1);
    assert!(!read(folder.path(), "requests").contains("attestation"));
    fs::remove_file(folder.path().join("requests")).unwrap();
    let program = env!("CARGO_BIN_EXE_kubectl-headroom");
    assert_eq!(step(folder.path(), &[("INPUT_PROGRAM", program), ("PULL_REQUEST", "")]).code, 1);
    assert!(!folder.path().join("requests").exists());
}

#[test]
fn what_cannot_be_checked_is_in_the_summary() {
    let folder = runner();
    let said = step(folder.path(), &[("INPUT_ARGUMENTS", "-f missing.yaml --offline")]);
    assert_eq!(said.code, 2, "{}", said.out);
    let summary = read(folder.path(), "summary");
    assert!(summary.contains("**Nothing was checked**") && summary.contains("missing.yaml"), "{summary}");
}

/// GitHub's reader ends a key at a colon with a space, also in the middle of a text without quotes; ours does not mind.
#[test]
fn texts_of_the_action_with_a_colon_are_quoted() {
    for file in ["action.yml", ".pre-commit-hooks.yaml", "deploy/k9s/plugins.yaml"] {
        for line in fs::read_to_string(root().join(file)).unwrap().lines() {
            let value = line.split_once(": ").map_or("", |(_, value)| value);
            assert!(value.starts_with(['"', '\'', '{', '[', '#']) || !value.contains(": "), "{file}: {line}");
        }
    }
}
