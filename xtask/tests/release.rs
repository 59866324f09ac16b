//! The steps of a release, without building or publishing: the registry is one on loopback, and the branch for Artifact Hub
//! is made in a clone. `make test-deploy` builds what they need and runs them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const IGNORED: &str = "make test-deploy";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
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

fn xtask(folder: &Path, arguments: &str) -> (bool, String, String) {
    let words = arguments.split(' ');
    output(Command::new(env!("CARGO_BIN_EXE_xtask")).current_dir(folder).env_remove("CARGO_MANIFEST_DIR").args(words))
}

/// Output of a command that has to succeed.
fn done(folder: &Path, arguments: &str) -> String {
    let (is_success, out, err) = xtask(folder, arguments);
    assert!(is_success, "{arguments}: {err}");
    out.trim().to_owned()
}

fn refused(folder: &Path, arguments: &str, expected: &str) {
    let (is_success, _, err) = xtask(folder, arguments);
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
    let (_, _, err) = xtask(copy.path(), "release identity");
    for file in
        [".github/SECURITY.md", ".github/CODEOWNERS", "Chart.yaml", "values.yaml", "docs/book.toml", "README.md"]
    {
        assert!(err.contains(&format!("{file} says headroom-dev")), "{file}: {err}");
    }
    // What CONTRIBUTING.md says to do.
    run(
        "bash",
        copy.path(),
        &["-c", "git grep -lz headroom-dev | xargs -0 sed -i s/headroom-dev/kubewarden-friends/g"],
    );
    done(copy.path(), "release identity");
    change(&copy, ".github/SECURITY.md", "mailto:maintainers@", "mailto:somebody@");
    refused(copy.path(), "release identity", ".github/SECURITY.md says somebody@");
}

#[test]
fn the_branch_for_artifact_hub_has_only_its_files_and_keeps_its_history() {
    let copy = copy();
    let git = |arguments: &[&str]| run("git", copy.path(), arguments);
    done(copy.path(), "release artifacthub-branch");
    let files = git(&["ls-tree", "-r", "--name-only", "artifacthub"]);
    assert_eq!(files, "artifacthub-repo.yml\npolicies/headroom/README.md\npolicies/headroom/artifacthub-pkg.yml");
    let readme = git(&["show", "artifacthub:policies/headroom/README.md"]);
    for link in readme.split("](").skip(1) {
        assert!(link.starts_with("https://") || link.starts_with("oci://"), "a link leads nowhere: {link:.80}");
    }
    for image in readme.split("<img src=\"").skip(1).chain(readme.split("![").skip(1)) {
        assert!(image.contains("/raw/v"), "a picture is not shown: {image:.120}");
    }
    assert_eq!(done(copy.path(), "release artifacthub-branch"), "artifacthub: unchanged");
    change(&copy, "README.md", "**Headroom right-sizes", "**Headroom again right-sizes");
    git(&["commit", "-qam", "Another README"]);
    done(copy.path(), "release artifacthub-branch");
    assert_eq!(git(&["rev-list", "--count", "artifacthub"]), "2");
    assert_eq!(git(&["status", "--porcelain"]), "");
}

/// The files of a release, with stand-ins for what is built.
fn assets(folder: &Path, version: &str) {
    let text = |file: &str| fs::write(folder.join(file), format!("not really {file}")).unwrap();
    text("policy.wasm");
    text("annotated-policy.wasm");
    let (root, folder) = (root(), folder.display());
    for (program, systems) in [("kubectl-headroom", &["linux", "darwin"][..]), ("headroom-controller", &["linux"])] {
        text(program);
        for platform in systems.iter().flat_map(|system| [format!("{system}-amd64"), format!("{system}-arm64")]) {
            done(&root, &format!("release package {folder}/{program} {platform} {folder}"));
        }
        fs::remove_file(format!("{folder}/{program}")).unwrap();
    }
    done(&root, &format!("release assemble {folder} https://example.com/releases/v{version}"));
}

#[test]
#[ignore = "takes helm: make test-deploy"]
fn a_release_has_all_files_or_none() {
    let work = tempfile::tempdir().unwrap();
    let (root, folder) = (root(), work.path().display());
    let version = done(&root, "release version");
    let plugin = format!("release package {folder}/kubectl-headroom");
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
    for (program, inside, outside) in
        [("policy", "headroom-core", "wasmtime"), ("programs", "kube-client", "headroom-policy")]
    {
        let bill = fs::read(work.path().join(format!("{program}-sbom.spdx.json"))).unwrap();
        check_bill(&serde_json::from_slice(&bill).unwrap(), &[inside], &[outside, "proptest"]);
    }
    run("sha256sum", work.path(), &["--quiet", "-c", "SHA256SUMS"]);
    fs::write(work.path().join("policy.wasm"), "tampered with").unwrap();
    refused(&root, &format!("release check-assets {folder}"), "policy.wasm is not the file of SHA256SUMS");
    fs::remove_file(work.path().join("policy.wasm")).unwrap();
    refused(&root, &format!("release check-assets {folder}"), "policy.wasm is missing or empty");
}

fn check_bill(bill: &Value, inside: &[&str], outside: &[&str]) {
    let packages = bill["packages"].as_array().unwrap();
    let names: Vec<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    assert!(inside.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!outside.iter().any(|name| names.contains(name)), "{names:?}");
    let mut known: Vec<&Value> = packages.iter().map(|package| &package["SPDXID"]).collect();
    known.sort_by_key(|id| id.as_str());
    known.dedup();
    assert_eq!(known.len(), packages.len(), "an SPDX id is used twice");
    for relation in bill["relationships"].as_array().unwrap() {
        assert!(known.contains(&&relation["relatedSpdxElement"]), "{relation}");
    }
    for package in packages {
        let licence = package["licenseDeclared"].as_str().unwrap();
        assert!(!licence.is_empty() && licence != "NOASSERTION" && !licence.contains('/'), "{package}");
    }
}

/// Debian's docker-registry on loopback.
struct Registry {
    process: Child,
    host: String,
    work: TempDir,
}

impl Registry {
    fn start() -> Self {
        run("scripts/setup-debian.sh", &root(), &["registry", "helm"]);
        let work = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (host, config) = (format!("127.0.0.1:{port}"), work.path().join("config.yml"));
        let data = work.path().join("data");
        let text = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nhttp: {{addr: \"{host}\"}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}}}\n",
            data.display()
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new("docker-registry");
        let process = command.arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let registry = Self { process, host, work };
        for _ in 0..100 {
            if output(Command::new("curl").args(["-fsS", &registry.url("")])).0 {
                return registry;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("the registry does not start");
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v2/{path}", self.host)
    }

    fn get(&self, path: &str) -> String {
        let accept = "Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
        run("curl", self.work.path(), &["-fsS", "-H", accept, &self.url(path)])
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    fn folder(&self, name: &str) -> String {
        self.work.path().join(name).display().to_string()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
#[ignore = "installs a registry: make test-deploy"]
fn tags_are_given_to_all_artifacts_or_to_none() {
    let (registry, root) = (Registry::start(), root());
    let policies = format!("{}/policies/headroom", registry.host);
    let push = |content: &str, tag: &str| {
        let (wasm, layout) = (registry.folder(tag), registry.folder(&format!("{tag}-layout")));
        fs::write(&wasm, format!("io.kubewarden.metadata {content}")).unwrap();
        done(&root, &format!("oci policy {wasm} {layout}"));
        done(&root, &format!("oci push {layout} {policies} {tag}"))
    };
    let tags = || registry.json("policies/headroom/tags/list")["tags"].as_array().unwrap().len();
    let (one, two) = (push("one", "staged-1"), push("two", "staged-2"));
    done(&root, &format!("oci tag {one} v1.0.0"));
    assert_eq!(tags(), 3);
    assert_eq!(
        registry.json("policies/headroom/manifests/v1.0.0"),
        registry.json("policies/headroom/manifests/staged-1")
    );
    assert!(done(&root, &format!("oci tag {one} v1.0.0")).ends_with("is that artifact already"));
    refused(&root, &format!("oci tag {two} v1.0.0"), "is another artifact already");
    // Of several tags none is given if one is refused.
    refused(&root, &format!("oci tag {one} v2.0.0 {two} v1.0.0"), "is another artifact already");
    assert_eq!(tags(), 3);
    done(&root, &format!("oci tag {one} v1.0.0 {two} v2.0.0"));
    assert_eq!(tags(), 4);
    refused(&root, &format!("oci tag {policies}@sha256:{} v3.0.0", "0".repeat(64)), "is not there");
    fs::write(registry.folder("no-policy"), "\0asm").unwrap();
    refused(&root, &format!("oci policy {} {}", registry.folder("no-policy"), registry.folder("x")), "has no metadata");
}

#[test]
#[ignore = "installs a registry: make test-deploy"]
fn the_chart_is_what_helm_would_have_pushed() {
    let (registry, root) = (Registry::start(), root());
    let version = done(&root, "release version");
    let helm = run("scripts/setup-debian.sh", &root, &["helm"]);
    let (work, charts) = (registry.work.path(), format!("{}/charts", registry.host));
    run(&helm, &root, &["package", "--destination", work.to_str().unwrap(), "deploy/charts/headroom"]);
    let (archive, layout) = (registry.folder(&format!("headroom-{version}.tgz")), registry.folder("chart"));
    refused(&root, &format!("oci chart {} {layout}", registry.folder("config.yml")), "is no packed chart");
    done(&root, &format!("oci chart {archive} {layout}"));
    let pushed = done(&root, &format!("oci push {layout} {charts}/headroom staged-1"));

    // helm finds it only under its version.
    let (chart, pulled) = (format!("oci://{charts}/headroom"), registry.folder("pulled"));
    fs::create_dir(&pulled).unwrap();
    let pull = ["pull", &chart, "--version", &version, "--plain-http", "--destination", &pulled];
    assert!(!output(Command::new(&helm).args(pull)).0);
    done(&root, &format!("oci tag {pushed} {version}"));
    run(&helm, &root, &pull);
    assert_eq!(fs::read(format!("{pulled}/headroom-{version}.tgz")).unwrap(), fs::read(&archive).unwrap());

    run(&helm, &root, &["push", &archive, &format!("oci://{charts}/by-helm"), "--plain-http"]);
    let described = |repository: &str| {
        let mut manifest = registry.json(&format!("charts/{repository}/manifests/{version}"));
        let digest = manifest["config"]["digest"].take();
        manifest["config"]["size"].take();
        manifest["annotations"]["org.opencontainers.image.created"].take();
        manifest["mediaType"].take();
        (manifest, registry.json(&format!("charts/{repository}/blobs/{}", digest.as_str().unwrap())))
    };
    assert_eq!(described("headroom"), described("by-helm/headroom"));

    let owners = registry.folder("owners");
    done(&root, &format!("oci artifacthub {owners}"));
    done(&root, &format!("oci push {owners} {charts}/headroom artifacthub.io"));
    let layer = &registry.json("charts/headroom/manifests/artifacthub.io")["layers"][0];
    assert_eq!(layer["mediaType"], "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml");
    let blob = registry.get(&format!("charts/headroom/blobs/{}", layer["digest"].as_str().unwrap()));
    assert_eq!(blob, fs::read_to_string(root.join("deploy/charts/artifacthub-repo.yml")).unwrap().trim());
}

/// Stands in for the program of the image, which would take minutes to link statically.
const PROGRAM: &str = r#"
fn main() {
    use std::net::ToSocketAddrs;
    let name = std::env::args().nth(1).unwrap();
    println!("{:?}", (name.as_str(), 80).to_socket_addrs().unwrap().collect::<Vec<_>>());
}
"#;

/// Needs HEADROOM_HOST and HEADROOM_POLICY, built, and root, for chroot.
#[test]
#[ignore = "installs a registry: make test-deploy"]
fn image_and_policy_run_as_they_are_pulled() {
    let (registry, root) = (Registry::start(), root());
    let built = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: {IGNORED}"));
    let version = done(&root, "release version");
    let (binary, name) = (registry.folder("program"), "headroom-controller");
    fs::write(registry.folder("program.rs"), PROGRAM).unwrap();
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let flags = ["--edition=2024", "-Ctarget-feature=+crt-static", "--target", &target, "-o", &binary];
    run("rustc", &root, &[&flags[..], &[&registry.folder("program.rs")]].concat());
    let (platform, other) = match std::env::consts::ARCH {
        "aarch64" => ("linux-arm64", "linux-amd64"),
        _ => ("linux-amd64", "linux-arm64"),
    };
    let (layout, again, x) = (registry.folder("image"), registry.folder("again"), registry.folder("x"));
    let digest = done(&root, &format!("oci image {layout} {platform}={binary}"));
    assert_eq!(done(&root, &format!("oci image {again} {platform}={binary}")), digest, "a second image differs");
    refused(&root, &format!("oci image {x} {platform}={x}/nothing"), "is missing: build it first");
    refused(&root, &format!("oci image {x} plan9-amd64={binary}"), "is none of linux-amd64");
    refused(&root, &format!("oci image {x} {other}={binary}"), "is not built for");
    refused(&root, &format!("oci image {x} {platform}={binary} {platform}={binary}"), "there are two programs");
    refused(&root, &format!("oci image {x} {platform}=/bin/true"), "is not linked statically");

    let repository = format!("{}/{name}", registry.host);
    assert_eq!(done(&root, &format!("oci push {layout} {repository}")), format!("{repository}@{digest}"));
    let index = registry.json(&format!("{name}/manifests/v{version}"));
    assert_eq!(format!("linux-{}", index["manifests"][0]["platform"]["architecture"].as_str().unwrap()), platform);
    let from = format!("docker://{repository}:v{version}");
    let pulled = format!("oci:{}:pulled", registry.folder("pulled"));
    run("skopeo", &root, &["copy", "--quiet", "--src-tls-verify=false", &from, &pulled]);
    let bundle = registry.folder("bundle");
    run("umoci", &root, &["unpack", "--image", pulled.trim_start_matches("oci:"), &bundle]);
    let config: Value = serde_json::from_slice(&fs::read(format!("{bundle}/config.json")).unwrap()).unwrap();
    assert_eq!((&config["process"]["user"]["uid"], &config["process"]["user"]["gid"]), (&65532.into(), &65532.into()));
    assert_eq!(config["process"]["args"], serde_json::json!([format!("/usr/bin/{name}"), "--help"]));

    let filesystem = PathBuf::from(format!("{bundle}/rootfs"));
    let bill = fs::read(filesystem.join(format!("usr/share/doc/{name}/sbom.spdx.json"))).unwrap();
    let inside = ["kube-client", "libc6-dev", "ca-certificates"];
    check_bill(&serde_json::from_slice(&bill).unwrap(), &inside, &["wasmtime", "headroom-policy"]);
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
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg("--userspec=65532:65532").arg(&filesystem).arg(format!("/usr/bin/{name}"));
        output(command.args(arguments))
    };
    // Names are resolved without libraries.
    fs::write(filesystem.join("etc/hosts"), "192.0.2.1 prometheus.monitoring\n").unwrap();
    assert_eq!(inside(&["prometheus.monitoring"]).1, "[192.0.2.1:80]\n");

    // The policy, as the policy server pulls it: the manifest by its tag, and the one layer.
    let (policy, layout) = (built("HEADROOM_POLICY"), registry.folder("policy"));
    let digest = done(&root, &format!("oci policy {policy} {layout}"));
    let repository = format!("{}/policies/headroom", registry.host);
    assert_eq!(done(&root, &format!("oci push {layout} {repository}")), format!("{repository}@{digest}"));
    let manifest = registry.json(&format!("policies/headroom/manifests/v{version}"));
    let [layer] = manifest["layers"].as_array().unwrap().as_slice() else { panic!("{manifest}") };
    assert_eq!(layer["mediaType"], "application/vnd.wasm.content.layer.v1+wasm");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v1+json");
    let annotations = manifest["annotations"].as_object().unwrap();
    assert_eq!(annotations["io.kubewarden.policy.title"], "headroom");
    assert_eq!(annotations["org.opencontainers.image.source"], annotations["io.kubewarden.policy.source"]);
    assert!(annotations.values().all(|value| value.as_str().is_some_and(|text| !text.contains('\n'))));
    let wasm = registry.folder("pulled.wasm");
    let blob = registry.url(&format!("policies/headroom/blobs/{}", layer["digest"].as_str().unwrap()));
    run("curl", &root, &["-fsS", "-o", &wasm, &blob]);
    assert_eq!(fs::read(&wasm).unwrap(), fs::read(&policy).unwrap());
    let session = "test_data/sessions/pod-create-plain.yml";
    let request =
        ["-r", "test_data/requests/pod-create-plain.json", "--replay-host-capabilities-interactions", session];
    let answer =
        run(&built("HEADROOM_HOST"), &root, &[&["run", "--allow-context-aware"], &request[..], &[&wasm]].concat());
    assert!(answer.contains(r#""allowed":true"#), "{answer}");
}
