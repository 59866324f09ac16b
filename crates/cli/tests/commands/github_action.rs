//! The GitHub Action's step: its script with a runner's environment, and `curl` and `gh` that answer from files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use expect_test::expect;
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

/// Lists the comments of the file `comments` and the pull request of the file `pulls`, and keeps what is written.
const GH: &str = r#"#!/bin/sh
echo "gh $*" >>requests
case "$*" in
  "api repos/team/shop/pulls?head=team:headroom/recommend&"*) cat pulls ;;
  "api "*/pulls*)
    cp "${*##*body=@}" body
    printf '7\topen\tfalse\t%s\n' "$(head -n 1 body)" >pulls
    ;;
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
        .envs([("GITHUB_STEP_SUMMARY", "summary"), ("PULL_REQUEST", "7"), ("GH_TOKEN", "token")])
        .envs([("INPUT_COMMENT", "true"), ("INPUT_VERSION", ""), ("INPUT_SHA256", ""), ("INPUT_PROGRAM", "")])
        .envs([("INPUT_MODE", "check"), ("INPUT_BRANCH", "headroom/recommend"), ("GITHUB_REF_NAME", "main")])
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

/// A checkout of a bare repository, with a manifest whose name is a command.
const MANIFEST: &str = "deploy/$(touch PWNED);-x web.yaml";

fn repository() -> TempDir {
    let folder = runner();
    let path = folder.path();
    fs::create_dir(path.join("deploy")).unwrap();
    let resources = "{requests: {cpu: \"1\", memory: 1Gi}, limits: {memory: 2Gi}}";
    let web = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  replicas: 2\n  template:\n    \
         spec:\n      containers:\n        - name: nginx\n          image: nginx:1.27\n          resources: {resources}\n"
    );
    fs::write(path.join(MANIFEST), web).unwrap();
    fs::write(path.join("pulls"), "").unwrap();
    git(path, "init -q -b main");
    git(path, "init -q --bare origin.git");
    git(path, "remote add origin origin.git");
    git(path, "config user.email team@example.com");
    git(path, "config user.name team");
    git(path, "add deploy");
    git(path, "commit -q -m begin");
    git(path, "push -q origin main");
    folder
}

fn git(folder: &Path, arguments: &str) -> String {
    let output = Command::new("git").args(arguments.split(' ')).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the step in mode `recommend`, in a fresh checkout of the branch.
fn recommend(folder: &Path, inputs: &[(&str, &str)]) -> Said {
    git(folder, "checkout -q -f main");
    fs::write(folder.join("requests"), "").unwrap();
    let of_tests = root().join("crates/cli/tests/commands/describe");
    let of_tests = of_tests.display();
    let arguments = format!(
        "-f deploy -n shop --settings {of_tests}/settings.yaml --cluster-dir {of_tests}/world\n--cluster-dir {of_tests}/profiles"
    );
    let all = [("INPUT_MODE", "recommend"), ("INPUT_ARGUMENTS", arguments.as_str()), ("PULL_REQUEST", "")];
    step(folder, &[&all, inputs].concat())
}

fn head_of_branch(folder: &Path) -> String {
    git(folder, "--git-dir origin.git rev-parse headroom/recommend")
}

/// The writes to the forge since the last run.
fn writes(folder: &Path) -> Vec<String> {
    let requests = read(folder, "requests");
    let writes = requests.lines().filter(|line| line.contains("--method"));
    writes.map(|line| line.split(' ').skip(3).take(3).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn recommendations_are_one_pull_request_that_a_second_run_leaves_as_it_is() {
    let folder = repository();
    let path = folder.path();
    fs::create_dir(path.join("hooks")).unwrap();
    for hook in ["post-index-change", "reference-transaction", "pre-push"] {
        let hook = path.join("hooks").join(hook);
        fs::write(&hook, "#!/bin/sh\nif [ \"$GH_TOKEN\" ]; then touch PWNED; fi\n").unwrap();
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    git(path, &format!("config core.hooksPath {}", path.join("hooks").display()));
    let said = recommend(path, &[]);
    git(path, "config --unset core.hooksPath");
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert_eq!(writes(path), ["--method POST repos/team/shop/pulls"], "{}{}", said.out, said.err);
    assert!(!path.join("PWNED").exists());
    let (first, body) = (head_of_branch(path), read(path, "body"));
    let changed = git(path, "--git-dir origin.git diff --unified=0 main headroom/recommend");
    let lines: Vec<&str> = changed.lines().filter(|line| line.starts_with(['-', '+'])).skip(2).collect();
    expect![[r#"
        -          resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 2Gi}}
        +          resources: {requests: {cpu: "155m", memory: 283Mi}, limits: {memory: 2Gi}}"#]]
    .assert_eq(&lines.join("\n"));
    let (mark, text) = body.split_once('\n').unwrap();
    assert!(mark.starts_with("<!-- headroom recommend "), "{mark}");
    let changes = text.lines().filter(|line| line.starts_with("| shop deployment/web | nginx | "));
    assert!(text.starts_with("**Changes**\n") && changes.count() == 2, "{text}");

    assert_eq!(recommend(path, &[]).code, 0);
    assert_eq!((writes(path), head_of_branch(path)), (Vec::new(), first.clone()));

    // The branch is made anew on what others committed, and the pull request stays.
    git(path, "checkout -q -f main");
    fs::write(path.join("deploy/other.yaml"), "# nothing\n").unwrap();
    git(path, "add deploy");
    git(path, "commit -q -m other");
    assert_eq!(recommend(path, &[]).code, 0);
    assert_eq!(writes(path), ["--method PATCH repos/team/shop/pulls/7"]);
    assert_ne!(head_of_branch(path), first);
    assert_eq!(git(path, "--git-dir origin.git rev-list --count main..headroom/recommend"), "2\n");
}

#[test]
fn what_a_person_declined_stays_declined() {
    let folder = repository();
    let path = folder.path();
    recommend(path, &[]);
    let body = read(path, "body");
    // A pull request that was closed is not opened again with the same changes.
    let mark = body.lines().next().unwrap();
    fs::write(path.join("pulls"), format!("7\tclosed\tfalse\t{mark}\n")).unwrap();
    let said = recommend(path, &[]);
    assert!(said.out.contains("pull request #7 with these changes was closed"), "{}{}", said.out, said.err);
    assert_eq!(writes(path), Vec::<String>::new());
    // One with other changes keeps none from being opened.
    fs::write(path.join("pulls"), "7\tclosed\tfalse\tother\n").unwrap();
    recommend(path, &[]);
    assert_eq!(writes(path), ["--method POST repos/team/shop/pulls"]);
}

#[test]
fn branches_of_others_and_pull_requests_are_left_alone() {
    let folder = repository();
    let path = folder.path();
    git(path, "push -q origin main:headroom/recommend");
    let said = recommend(path, &[]);
    assert!(said.out.contains("branch headroom/recommend has commits of others"), "{}{}", said.out, said.err);
    assert_eq!(writes(path), Vec::<String>::new());
    for (inputs, problem) in [
        ([("PULL_REQUEST", "7")], "mode recommend writes to the repository"),
        ([("INPUT_BRANCH", "--mirror")], "the branch must have a plain name"),
        ([("INPUT_BRANCH", "main")], "the branch must have a plain name"),
        ([("INPUT_MODE", "apply")], "the mode is check or recommend"),
    ] {
        let said = recommend(path, &inputs);
        assert!(said.code == 2 && said.out.contains(problem), "{inputs:?}: {}{}", said.out, said.err);
    }
}
