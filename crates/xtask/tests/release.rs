//! The steps of a release that are ours (`scripts/release.sh`), without building or publishing: the registry is one on loopback,
//! and the branch for Artifact Hub is made in a clone. `make test-deploy` runs those that install tools.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use headroom_fixtures::process::Running;
use serde_json::Value;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn output(command: &mut Command) -> (bool, String, String) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn run(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let (is_success, out, err) = output(Command::new(program).current_dir(folder).args(arguments));
    assert!(is_success, "{program} {arguments:?}: {err}{out}");
    out.trim().to_owned()
}

/// A step of `scripts/release.sh`, or a command of `cargo xtask`.
fn step(folder: &Path, arguments: &str) -> (bool, String, String) {
    let xtask = env!("CARGO_BIN_EXE_xtask");
    let program = if arguments.starts_with("release ") { xtask } else { "scripts/release.sh" };
    let mut command = Command::new(program);
    command.current_dir(folder).env("XTASK", xtask).env_remove("CARGO_MANIFEST_DIR");
    output(command.args(arguments.split(' ')))
}

/// Output of a step that has to succeed.
fn done(folder: &Path, arguments: &str) -> String {
    let (is_success, out, err) = step(folder, arguments);
    assert!(is_success, "{arguments}: {err}");
    out.trim().to_owned()
}

fn refused(folder: &Path, arguments: &str, expected: &str) {
    let (is_success, _, err) = step(folder, arguments);
    assert!(!is_success && err.contains(expected), "{arguments} does not say `{expected}`: {err}");
}

/// A clone with the files of the work tree, in which things can be wrong.
fn copy() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let (root, to) = (root(), copy.path().to_str().unwrap());
    run("git", &root, &["clone", "-q", "--no-hardlinks", ".", to]);
    let script = format!(
        "git ls-files -z --cached --others --exclude-standard --deduplicate | xargs -0 ls -d 2>/dev/null | xargs cp -P --parents -t '{to}'"
    );
    run("bash", &root, &["-c", &script]);
    run("git", copy.path(), &["config", "user.name", "test"]);
    run("git", copy.path(), &["config", "user.email", "test@localhost"]);
    run("git", copy.path(), &["add", "-A"]);
    run("git", copy.path(), &["commit", "-q", "--allow-empty", "-m", "As it is"]);
    copy
}

fn change(copy: &TempDir, file: &str, from: &str, to: &str) {
    let path = copy.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn versions_agree_and_a_tag_is_the_versions() {
    let copy = copy();
    let version = done(copy.path(), "release version");
    refused(copy.path(), "release version v9.9.9", &format!("the tag is v9.9.9, and must be v{version}"));
    let changelog = fs::read_to_string(copy.path().join("CHANGELOG.md")).unwrap();
    if changelog.contains(&format!("\n## {version}, unreleased")) {
        refused(copy.path(), &format!("release version v{version}"), "set its release date");
        change(&copy, "CHANGELOG.md", &format!("\n## {version}, unreleased"), &format!("\n## {version}, 2026-12-01"));
    }
    assert_eq!(done(copy.path(), &format!("release version v{version}")), version);
    change(&copy, "deploy/charts/headroom/Chart.yaml", &format!("appVersion: {version}"), "appVersion: 0.0.9");
    refused(copy.path(), "release version", "deploy/charts/headroom/Chart.yaml says 0.0.9");
    assert!(!done(copy.path(), &format!("release notes {version}")).is_empty());
    refused(copy.path(), "release notes 9.9.9", "CHANGELOG.md has no section for 9.9.9");
}

#[test]
fn the_owner_is_changed_everywhere_or_the_place_is_named() {
    let copy = copy();
    done(copy.path(), "release identity");
    change(&copy, "policy-metadata.yaml", "headroom-dev", "kubewarden-friends");
    let (_, _, err) = step(copy.path(), "release identity");
    for file in [".github/CODEOWNERS", "Chart.yaml", "values.yaml", "policies.yaml", "scripts/github-action.sh"] {
        assert!(err.contains(&format!("{file} says headroom-dev")), "{file}: {err}");
    }
    // What CONTRIBUTING.md says to do.
    run(
        "bash",
        copy.path(),
        &["-c", "git grep -lz headroom-dev | xargs -0 sed -i s/headroom-dev/kubewarden-friends/g"],
    );
    done(copy.path(), "release identity");
    change(&copy, "deploy/artifacthub-repo.yml", "maintainers@", "somebody@");
    refused(copy.path(), "release identity", "deploy/artifacthub-repo.yml says somebody@");
    change(&copy, "README.md", "Not released yet", "Released by kubewarden-friends");
    refused(copy.path(), "release identity", "README.md says kubewarden-friends");
}

#[test]
fn the_branch_for_artifact_hub_has_only_its_files_and_keeps_its_history() {
    let copy = copy();
    let git = |arguments: &[&str]| run("git", copy.path(), arguments);
    done(copy.path(), "artifacthub");
    let files = git(&["ls-tree", "-r", "--name-only", "artifacthub"]);
    assert_eq!(files, "artifacthub-repo.yml\npolicies/headroom/README.md\npolicies/headroom/artifacthub-pkg.yml");
    let readme = git(&["show", "artifacthub:policies/headroom/README.md"]);
    for link in readme.split("](").skip(1) {
        assert!(link.starts_with("https://") || link.starts_with('#'), "a link leads nowhere: {link:.80}");
    }
    for image in readme.split("<img src=\"").skip(1).chain(readme.split("![").skip(1)) {
        assert!(image.contains("/raw/v"), "a picture is not shown: {image:.120}");
    }
    assert_eq!(done(copy.path(), "artifacthub"), "artifacthub: unchanged");
    change(&copy, "README.md", "**Headroom right-sizes", "**Headroom again right-sizes");
    git(&["commit", "-qam", "Another README"]);
    done(copy.path(), "artifacthub");
    assert_eq!(git(&["rev-list", "--count", "artifacthub"]), "2");
    assert_eq!(git(&["status", "--porcelain"]), "");
}

/// The files of a release, with stand-ins for what is built.
fn assets(folder: &Path, version: &str) {
    let text = |file: &str| fs::write(folder.join(file), format!("not really {file}")).unwrap();
    for file in ["policy.wasm", "annotated-policy.wasm", "policy-sbom.cdx.json", "programs-sbom.cdx.json"] {
        text(file);
    }
    let (root, folder) = (root(), folder.display());
    for (program, systems) in [("kubectl-headroom", &["linux", "darwin"][..]), ("headroom-controller", &["linux"])] {
        text(program);
        for platform in systems.iter().flat_map(|system| [format!("{system}-amd64"), format!("{system}-arm64")]) {
            done(&root, &format!("package {folder}/{program} {platform} {folder}"));
        }
        fs::remove_file(format!("{folder}/{program}")).unwrap();
    }
    done(&root, &format!("assemble {folder} https://example.com/releases/v{version}"));
}

#[test]
#[ignore = "takes helm: make test-deploy"]
fn a_release_has_all_files_or_none() {
    let work = tempfile::tempdir().unwrap();
    let (root, folder) = (root(), work.path().display());
    let version = done(&root, "release version");
    let plugin = format!("package {folder}/kubectl-headroom");
    refused(&root, &format!("{plugin} plan9-amd64 {folder}"), "a release has no kubectl-headroom-plan9-amd64.tar.gz");
    refused(&root, &format!("{plugin} linux-amd64 {folder}"), "is missing: build it first");
    assets(work.path(), &version);
    let archive = work.path().join("kubectl-headroom-linux-amd64.tar.gz");
    assert_eq!(run("tar", work.path(), &["-tzf", archive.to_str().unwrap()]), "LICENSE\nkubectl-headroom");
    let again = tempfile::tempdir().unwrap();
    assets(again.path(), &version);
    for entry in fs::read_dir(&work).unwrap() {
        // A packed chart has the times of its files.
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_same = fs::read(work.path().join(&name)).unwrap() == fs::read(again.path().join(&name)).unwrap();
        assert!(is_same || name.ends_with(".tgz") || name == "SHA256SUMS", "{name} differs when made again");
    }

    let krew = fs::read_to_string(work.path().join("headroom.yaml")).unwrap();
    let krew: Value = serde_saphyr::from_str(&krew).unwrap();
    let sums = fs::read_to_string(work.path().join("SHA256SUMS")).unwrap();
    for offered in krew["spec"]["platforms"].as_array().unwrap() {
        let (uri, sum) = (offered["uri"].as_str().unwrap(), offered["sha256"].as_str().unwrap());
        let file = uri.strip_prefix(&format!("https://example.com/releases/v{version}/")).unwrap();
        assert!(sums.contains(&format!("{sum}  {file}\n")), "{offered}");
        let labels = &offered["selector"]["matchLabels"];
        let [os, architecture] = ["os", "arch"].map(|key| labels[key].as_str().unwrap());
        assert_eq!(file, format!("kubectl-headroom-{os}-{architecture}.tar.gz"));
    }
    fs::write(work.path().join("policy.wasm"), "tampered with").unwrap();
    refused(&root, &format!("check {folder}"), "policy.wasm: FAILED");
    fs::remove_file(work.path().join("policy.wasm")).unwrap();
    refused(&root, &format!("check {folder}"), "policy.wasm is missing or empty");
}

/// Debian's docker-registry on loopback.
struct Registry {
    _process: Running,
    host: String,
    work: TempDir,
}

impl Registry {
    fn start() -> Self {
        run("scripts/setup-debian.sh", &root(), &["registry"]);
        let work = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (host, config) = (format!("127.0.0.1:{port}"), work.path().join("config.yml"));
        let text = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nhttp: {{addr: \"{host}\"}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\n",
            work.path().join("data").display()
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new("docker-registry");
        let process = command.arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let registry = Self { _process: Running(process), host, work };
        let answers = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(200));
            std::net::TcpStream::connect(&registry.host).is_ok()
        });
        assert!(answers, "the registry does not start");
        registry
    }

    /// Pushes an OCI layout, and returns the reference by digest.
    fn push(&self, layout: &str, place: &str) -> String {
        let place = format!("{}/{place}", self.host);
        let (from, to) = (format!("oci:{layout}"), format!("docker://{place}"));
        run("skopeo", self.work.path(), &["copy", "--all", "--quiet", "--dest-tls-verify=false", &from, &to]);
        let manifest =
            Command::new("skopeo").args(["inspect", "--raw", "--tls-verify=false", &to]).output().unwrap().stdout;
        fs::write(self.work.path().join("manifest"), manifest).unwrap();
        let sum = run("sha256sum", self.work.path(), &["manifest"]);
        format!("{}@sha256:{}", place.rsplit_once(':').unwrap().0, sum.split(' ').next().unwrap())
    }

    fn folder(&self, name: &str) -> String {
        self.work.path().join(name).display().to_string()
    }
}

/// Stands in for the program of the image, which would take minutes to link statically.
const PROGRAM: &str = r#"
fn main() {
    use std::net::ToSocketAddrs;
    let name = std::env::args().nth(1).unwrap();
    println!("{:?}", (name.as_str(), 80).to_socket_addrs().unwrap().collect::<Vec<_>>());
}
"#;

/// Needs root, for chroot.
#[test]
#[ignore = "installs a registry: make test-deploy"]
fn the_image_runs_as_it_is_pulled_and_gets_all_tags_or_none() {
    let (registry, root) = (Registry::start(), root());
    let (version, binary) = (done(&root, "release version"), registry.folder("program"));
    fs::write(registry.folder("program.rs"), PROGRAM).unwrap();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let flags = ["--edition=2024", "-Ctarget-feature=+crt-static", "--target", &target, "-o", &binary];
    run("rustc", &root, &[&flags[..], &[&registry.folder("program.rs")]].concat());
    let (platform, other) = match std::env::consts::ARCH {
        "aarch64" => ("linux-arm64", "linux-amd64"),
        _ => ("linux-amd64", "linux-arm64"),
    };
    let (layout, again, x) = (registry.folder("image"), registry.folder("again"), registry.folder("x"));
    let digest = done(&root, &format!("image {layout} {platform}={binary}"));
    assert_eq!(done(&root, &format!("image {again} {platform}={binary}")), digest, "a second image differs");
    for (arguments, expected) in [
        (format!("{platform}={x}/nothing"), "is missing: build it first"),
        (format!("plan9-amd64={binary}"), "is none of linux-amd64"),
        (format!("{other}={binary}"), "is not built for"),
        (format!("{platform}={binary} {platform}={binary}"), "there are two programs"),
        (format!("{platform}=/bin/true"), "is not linked statically"),
    ] {
        refused(&root, &format!("image {x} {arguments}"), expected);
    }

    let one = registry.push(&format!("{layout}:v{version}"), "headroom-controller:staged-1");
    assert!(one.ends_with(&digest), "{one} {digest}");
    let bundle = registry.folder("bundle");
    let (from, pulled) = (format!("docker://{one}"), format!("oci:{}:pulled", registry.folder("pulled")));
    run("skopeo", &root, &["copy", "--quiet", "--src-tls-verify=false", &from, &pulled]);
    run("umoci", &root, &["unpack", "--image", pulled.trim_start_matches("oci:"), &bundle]);
    let config: Value = serde_json::from_slice(&fs::read(format!("{bundle}/config.json")).unwrap()).unwrap();
    assert_eq!((&config["process"]["user"]["uid"], &config["process"]["user"]["gid"]), (&65532.into(), &65532.into()));
    assert_eq!(config["process"]["args"], serde_json::json!(["/usr/bin/headroom-controller", "--help"]));

    let filesystem = PathBuf::from(format!("{bundle}/rootfs"));
    let authorities = fs::read_to_string(filesystem.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert!(authorities.matches("BEGIN CERTIFICATE").count() > 100);
    let mut waiting = vec![filesystem.clone()];
    while let Some(path) = waiting.pop() {
        let found = path.symlink_metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (0, 0), "{}", path.display());
        assert!(path.ends_with("tmp") || found.mode() & 0o6002 == 0, "{}", path.display());
        assert!(!path.to_string_lossy().ends_with("sh"), "a shell? {}", path.display());
        if found.is_dir() {
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    // Names are resolved without libraries.
    fs::write(filesystem.join("etc/hosts"), "192.0.2.1 prometheus.monitoring\n").unwrap();
    let mut inside = Command::new("chroot");
    inside
        .arg("--userspec=65532:65532")
        .arg(&filesystem)
        .args(["/usr/bin/headroom-controller", "prometheus.monitoring"]);
    assert_eq!(output(&mut inside).1, "[192.0.2.1:80]\n");

    // Another image: the program with a byte more.
    fs::write(&binary, [fs::read(&binary).unwrap(), vec![0]].concat()).unwrap();
    let second = registry.folder("second");
    done(&root, &format!("image {second} {platform}={binary}"));
    let two = registry.push(&format!("{second}:v{version}"), "headroom-controller:staged-2");
    let tags = || {
        let place = format!("docker://{}/headroom-controller", registry.host);
        let listed = run("skopeo", &root, &["list-tags", &place, "--tls-verify=false"]);
        serde_json::from_str::<Value>(&listed).unwrap()["Tags"].as_array().unwrap().len()
    };
    // The registry has no TLS.
    let config = registry.work.path().join(".config/containers");
    fs::create_dir_all(&config).unwrap();
    let insecure = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", registry.host);
    fs::write(config.join("registries.conf"), insecure).unwrap();
    let tag = |arguments: String| {
        let mut command = Command::new("scripts/release.sh");
        command.current_dir(&root).env("HOME", registry.work.path());
        output(command.args(format!("tag {arguments}").split(' ')))
    };
    let (is_success, _, err) = tag(format!("{one} v1.0.0"));
    assert!(is_success, "{err}");
    assert_eq!(tags(), 3);
    assert!(tag(format!("{one} v1.0.0")).1.ends_with("is that artifact already\n"));
    // If one tag is refused, no other is set.
    for refused in [format!("{two} v1.0.0"), format!("{one} v2.0.0 {two} v1.0.0")] {
        let (is_success, _, err) = tag(refused);
        assert!(!is_success && err.contains("is another artifact already"), "{err}");
    }
    assert_eq!(tags(), 3);
    assert!(tag(format!("{one} v1.0.0 {two} v2.0.0")).0);
    assert_eq!(tags(), 4);
    let nowhere = one.split('@').next().unwrap();
    assert!(tag(format!("{nowhere}@sha256:{} v3.0.0", "0".repeat(64))).2.contains("is not there"));
}
