//! The steps of a release that are not one command of another tool. `.github/workflows/release.yml` has their order.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde_json::{Value, json};

use crate::chart::{CHART, MANIFESTS, render_manifests};
use crate::{Faults, read, run, setup, sha256, text, yaml};

pub const METADATA: &str = "policy-metadata.yaml";
const KREW: &str = "deploy/krew/headroom.yaml";
/// The program of the image: its package and its name.
pub const PROGRAM: (&str, &str) = ("headroom-cli", "headroom-controller");
/// Platforms of the image, with the targets of Rust.
pub const IMAGE_PLATFORMS: [(&str, &str); 2] =
    [("linux-amd64", "x86_64-unknown-linux-gnu"), ("linux-arm64", "aarch64-unknown-linux-gnu")];
/// The program for people, which krew installs, and where it runs.
const PLUGIN: &str = "kubectl-headroom";
const PLATFORMS: [&str; 4] = ["linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"];

pub fn dispatch(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["version", tag @ ..] if tag.len() <= 1 => println!("{}", check_version(tag.first().copied())?),
        ["identity"] => return check_identity(),
        ["identity", name] => println!("{}", identity(name)?),
        ["notes", version] => println!("{}", notes(version)?),
        ["build", program, target] => println!("{}", build(program, target)?),
        ["package", binary, platform, folder] => package(binary, platform, folder)?,
        ["sbom", package, target] => println!("{:#}", sbom(package, target)?),
        ["manifests", folder] => render_manifests(folder)?,
        ["assemble", folder, url] => assemble(folder, url)?,
        ["check-assets", folder] => check_assets(folder)?,
        ["artifacthub-branch", commit @ ..] if commit.len() <= 1 => {
            println!("artifacthub: {}", artifacthub_branch(commit.first().copied().unwrap_or("HEAD"))?);
        }
        _ => bail!("unknown command: release {}", arguments.join(" ")),
    }
    Ok(())
}

// --- version and identity -----------------------------------------------------------------------------------

/// Places with the version. The changelog has older versions after it.
const VERSIONS: &[(&str, &str)] = &[
    ("Cargo.toml", r#"(?m)^\[workspace\.package\]\nversion = "([^"]+)""#),
    (METADATA, r"(?m)^  io\.kubewarden\.policy\.version: (\S+)$"),
    ("artifacthub-pkg.yml", r"(?m)^version: (\S+)$"),
    ("deploy/charts/headroom/Chart.yaml", r"(?m)^(?:version|appVersion|      image): (?:\S+:v)?(\S+)$"),
    ("deploy/charts/headroom/files/policies.yaml", r"(?m)^  module: registry://\S+:v(\S+)$"),
    (KREW, r"(?m)^  version: v(\S+)$"),
    ("docs/src/tasks/deploy-the-policies.md", r"(?m)^  module: registry://\S+:v(\S+)$"),
    ("docs/src/tasks/check-in-ci.md", r"(?m)(?:headroom@|rev: )v(\S+)$"),
    ("docs/src/tasks/collect-usage.md", r"releases/download/v([^/\s]+)/"),
];

pub fn version() -> Result<String> {
    check_version(None)
}

fn check_version(tag: Option<&str>) -> Result<String> {
    let mut found = Vec::new();
    for (path, pattern) in VERSIONS {
        let text = read(path)?;
        let before = found.len();
        found.extend(Regex::new(pattern)?.captures_iter(&text).map(|version| (*path, version[1].to_owned())));
        if found.len() == before {
            bail!("{path} names no version");
        }
    }
    let changelog = read("CHANGELOG.md")?;
    let newest = Regex::new(r"(?m)^## (\d\S*?)[,\s]")?;
    found.push(("CHANGELOG.md", newest.captures(&changelog).context("CHANGELOG.md names no version")?[1].to_owned()));
    let version = found[0].1.clone();
    let mut faults = Faults::default();
    for (path, other) in found {
        faults.check(other == version, || format!("{path} says {other}, and Cargo.toml {version}"));
    }
    let is_version = Regex::new(r"^\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$")?.is_match(&version);
    faults.check(is_version, || format!("{version} is no version such as 1.2.3 or 1.2.3-rc.1"));
    if let Some(tag) = tag {
        faults.check(tag == format!("v{version}"), || format!("the tag is {tag}, and must be v{version}"));
        let is_released = !changelog.contains(&format!("\n## {version}, unreleased"));
        faults.check(is_released, || format!("CHANGELOG.md marks {version} as unreleased; set its release date"));
    }
    if !faults.0.is_empty() {
        bail!("{}", faults.0.join("; "));
    }
    Ok(version)
}

/// A version's section of the changelog.
fn notes(version: &str) -> Result<String> {
    let changelog = read("CHANGELOG.md")?;
    let mut sections = changelog.split("\n## ").skip(1);
    let section = sections.find(|section| section.split([',', ' ', '\n']).next() == Some(version));
    let body = section.and_then(|section| section.split_once('\n')).map(|(_, body)| body.trim().to_owned());
    body.filter(|body| !body.is_empty()).with_context(|| format!("CHANGELOG.md has no section for {version}"))
}

/// Owner, registry and e-mail, as the policy's metadata has them.
fn identities() -> Result<BTreeMap<&'static str, String>> {
    let metadata = yaml(&read(METADATA)?)?;
    let annotation = |name: &str| text(&metadata["annotations"][format!("io.kubewarden.policy.{name}")]).to_owned();
    let (url, policy, author) = (annotation("url"), annotation("ociUrl"), annotation("author"));
    let repository = url.strip_prefix("https://github.com/").context("the metadata's url is not on GitHub")?.to_owned();
    let (owner, _) = repository.split_once('/').context("the metadata's url has no owner")?;
    let (registry, _) = policy.split_once('/').context("the metadata's ociUrl has no registry")?;
    let (base, _) = policy.split_once("/policies/").context("the metadata's ociUrl has no /policies/")?;
    let (authors, email) =
        author.trim_end_matches('>').split_once(" <").context("the metadata's author has no address")?;
    Ok(BTreeMap::from([
        ("OWNER", owner.to_owned()),
        ("REGISTRY", registry.to_owned()),
        ("IMAGE", format!("{base}/{}", PROGRAM.1)),
        ("CHARTS", format!("{base}/charts")),
        ("AUTHORS", authors.to_owned()),
        ("EMAIL", email.to_owned()),
        ("REPOSITORY", repository),
        ("URL", url),
        ("POLICY", policy),
    ]))
}

pub fn identity(name: &str) -> Result<String> {
    identities()?.remove(name).with_context(|| format!("{name} is none of the names of an identity"))
}

/// Texts that repeat the identity, wherever it stands in documentation, deployment and GitHub's files.
const REPEATED: &[(&str, &str)] = &[
    (r"github\.com/([\w-]+)/headroom\b", "OWNER"),
    (r"--repo ([\w-]+)/headroom\b", "OWNER"),
    (r"(?m)^repository=([\w-]+)/headroom$", "OWNER"),
    (r"@([\w-]+)/maintainers\b", "OWNER"),
    (r"repository: ([\w-]+)/(?:policies/headroom|headroom-controller)\b", "OWNER"),
    (r"[\w-]+\.[\w.-]+/([\w-]+)/(?:policies|charts|headroom-controller)\b", "OWNER"),
    (r"([\w-]+\.[\w.-]+)/[\w-]+/(?:policies|charts|headroom-controller)\b", "REGISTRY"),
    (r"(?m)^    registry: (\S+)$", "REGISTRY"),
    (r"(?m)^  - name: (.+)\n    email: ", "AUTHORS"),
    (r"(?m)^    email: (\S+)$", "EMAIL"),
    (r"<mailto:([^>]+)>", "EMAIL"),
];

fn check_identity() -> Result<()> {
    let known = identities()?;
    let files = run("git", &["ls-files", "*.md", "*.yaml", "*.yml", "*.toml", "*.txt", "*.sh", ".github/CODEOWNERS"])?;
    let is_searched = |file: &&str| {
        let is_test = ["crates/", "tests/", "test_data/", "playground/", "docs/examples/"];
        !is_test.iter().any(|folder| file.starts_with(folder)) && !file.contains("/charts/headroom/ci/")
    };
    let texts: Vec<(&str, String)> =
        files.lines().filter(is_searched).map(|file| Ok((file, read(file)?))).collect::<Result<_>>()?;
    let mut faults = Faults::default();
    for (pattern, name) in REPEATED {
        let (pattern, wanted, mut count) = (Regex::new(pattern)?, &known[name], 0);
        for (file, text) in &texts {
            for found in pattern.captures_iter(text).filter(|found| !found[0].contains("example.com")) {
                count += 1;
                faults.check(found[1] == **wanted, || format!("{file} says {}, and {METADATA} {wanted}", &found[1]));
            }
        }
        faults.check(count > 0, || format!("nothing is like {pattern}"));
    }
    faults.end("identity: all places agree")
}

// --- programs -----------------------------------------------------------------------------------------------

/// Builds a program for a release. Paths of this machine stay out of it, so that two machines can make the same. For the
/// other architecture of Linux it takes Debian's cross compiler.
fn build(program: &str, target: &str) -> Result<String> {
    let sysroot = run("rustc", &["--print", "sysroot"])?;
    if !Path::new(&sysroot).join("lib/rustlib").join(target).exists() {
        run("rustup", &["target", "add", target])?;
    }
    let mut cargo = Command::new("cargo");
    let (machine, _) = target.split_once('-').context("a target such as x86_64-unknown-linux-gnu")?;
    if machine != env::consts::ARCH && target.ends_with("-linux-gnu") {
        let (compiler, name) = (format!("{machine}-linux-gnu-gcc"), target.replace('-', "_"));
        cargo.env(format!("CC_{name}"), &compiler);
        cargo.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), &compiler);
    }
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| format!("{home}/.cargo")))?;
    let root = env::current_dir()?;
    let mut flags = format!("--remap-path-prefix={}=/headroom --remap-path-prefix={home}=/cargo", root.display());
    if program == PROGRAM.1 {
        // Nothing else is in its image. Since 2.34, glibc resolves names without libraries loaded at run time.
        flags += " -C target-feature=+crt-static";
    }
    cargo.args(["build", "--locked", "--profile", "native", "--package", PROGRAM.0, "--bin", program]);
    // A folder of its own: the same package may be built with other flags.
    let folder = format!("{}/release-{program}", env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned()));
    let status = cargo
        .args(["--target", target, "--target-dir", &folder])
        .env("RUSTFLAGS", flags)
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("building {program} failed");
    }
    Ok(format!("{folder}/{target}/native/{program}"))
}

/// The archives of the programs: krew's for each of its platforms, and the image's program.
fn archives() -> impl Iterator<Item = String> {
    let plugins = PLATFORMS.iter().map(|platform| format!("{PLUGIN}-{platform}.tar.gz"));
    plugins.chain(IMAGE_PLATFORMS.iter().map(|(platform, _)| format!("{}-{platform}.tar.gz", PROGRAM.1)))
}

/// Packs a program. The same binary gives the same archive.
fn package(binary: &str, platform: &str, folder: &str) -> Result<()> {
    let program = Path::new(binary).file_name().and_then(|name| name.to_str()).context("a program")?;
    let archive = format!("{program}-{platform}.tar.gz");
    if !archives().any(|known| known == archive) {
        bail!("a release has no {archive}");
    }
    let work = format!("{folder}/.{program}-{platform}");
    fs::create_dir_all(&work)?;
    fs::copy(binary, format!("{work}/{program}")).with_context(|| format!("{binary} is missing: build it first"))?;
    fs::copy("LICENSE", format!("{work}/LICENSE"))?;
    run("chmod", &["755", &format!("{work}/{program}")])?;
    run("chmod", &["644", &format!("{work}/LICENSE")])?;
    tar(&work, &format!("{folder}/{archive}"))?;
    Ok(fs::remove_dir_all(work)?)
}

/// Packs a folder, the same bytes for the same files: all of root, with the time of the commit.
pub fn tar(folder: &str, archive: &str) -> Result<()> {
    // macOS has its tar as bsdtar.
    let program = if run("sh", &["-c", "command -v gtar"]).is_ok() { "gtar" } else { "tar" };
    let (time, uncompressed) = (format!("--mtime=@{}", epoch()?), format!("{archive}.tar"));
    let owner = ["--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--format=ustar", &time];
    let names: BTreeSet<String> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    run(program, &[&owner[..], &["-C", folder, "-cf", &uncompressed], &names].concat())?;
    let compressed = Command::new("gzip").args(["-9nc", &uncompressed]).output()?;
    fs::write(archive, compressed.stdout)?;
    Ok(fs::remove_file(uncompressed)?)
}

/// The time of the commit, or SOURCE_DATE_EPOCH: the same sources give the same files.
pub fn epoch() -> Result<String> {
    env::var("SOURCE_DATE_EPOCH").or_else(|_| run("git", &["log", "-1", "--format=%ct"]))
}

pub fn created() -> Result<String> {
    run("date", &["-u", "-d", &format!("@{}", epoch()?), "+%Y-%m-%dT%H:%M:%SZ"])
}

// --- bills of materials -------------------------------------------------------------------------------------

/// The crates that are linked into a package for a target, with their licences and checksums, as SPDX 2.3.
pub fn sbom(package: &str, target: &str) -> Result<Value> {
    let scope = ["--package", package, "--target", target, "--edges", "normal,no-proc-macro"];
    let format = ["--prefix", "none", "--no-dedupe", "--format", "{p}\t{l}\t{r}"];
    let tree = run("cargo", &[&["tree", "--locked"], &scope[..], &format[..]].concat())?;
    let lock = read("Cargo.lock")?;
    let checksum = Regex::new(r#"name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)""#)?;
    let checksums: BTreeMap<_, _> = checksum
        .captures_iter(&lock)
        .map(|found| found.extract::<3>().1)
        .map(|[name, version, sum]| ((name.to_owned(), version.to_owned()), sum.to_owned()))
        .collect();
    let (mut packages, mut relations) = (BTreeMap::new(), Vec::new());
    for line in tree.lines() {
        let [crate_of, licence, repository] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { bail!("{line}") };
        let mut words = crate_of.split(' ');
        let (name, version) =
            (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim_start_matches('v'));
        // Old crates write `MIT/Apache-2.0`.
        let licence = licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
        let mut entry = spdx_package(name, version, &licence, &format!("pkg:cargo/{name}@{version}"));
        if !repository.is_empty() {
            entry["downloadLocation"] = json!(repository);
        }
        if let Some(sum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            entry["checksums"] = json!([{"algorithm": "SHA256", "checksumValue": sum}]);
        }
        packages.insert((name.to_owned(), version.to_owned()), entry);
    }
    let root = packages.iter().find(|((name, _), _)| name == package).context("cargo tree lists the package")?;
    let (root_id, version) = (text(&root.1["SPDXID"]).to_owned(), root.0.1.clone());
    for entry in packages.values() {
        relations.push(if entry["SPDXID"] == *root_id {
            json!({"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": root_id})
        } else {
            json!({"spdxElementId": root_id, "relationshipType": "CONTAINS", "relatedSpdxElement": entry["SPDXID"]})
        });
    }
    let packages: Vec<&Value> = packages.values().collect();
    let (name, sum) = (format!("{package}-{version}-{target}"), sha256(json!(packages).to_string().as_bytes()));
    Ok(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": format!("{}/sbom/{name}-{}", identity("URL")?, &sum[..16]),
        "creationInfo": {"created": created()?, "creators": ["Tool: headroom-xtask"]},
        "packages": packages,
        "relationships": relations,
    }))
}

pub fn spdx_package(name: &str, version: &str, licence: &str, url: &str) -> Value {
    let id: String =
        format!("{name}-{version}").replace(|letter: char| !letter.is_alphanumeric() && letter != '.', "-");
    json!({
        "SPDXID": format!("SPDXRef-Package-{id}"),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
    })
}

// --- files of a release -------------------------------------------------------------------------------------

/// Adds to the built files what a release has beside them, and checks all.
fn assemble(folder: &str, url: &str) -> Result<()> {
    let write = |file: &str, content: String| fs::write(format!("{folder}/{file}"), content);
    write("policy-sbom.spdx.json", format!("{:#}\n", sbom("headroom-policy", "wasm32-wasip1")?))?;
    write("programs-sbom.spdx.json", format!("{:#}\n", sbom(PROGRAM.0, "x86_64-unknown-linux-gnu")?))?;
    let mut krew = read(KREW)?.replace("${HOMEPAGE}", &identity("URL")?).replace("${RELEASE}", url);
    for platform in PLATFORMS {
        let archive = format!("{folder}/{PLUGIN}-{platform}.tar.gz");
        let sum = sha256(&fs::read(&archive).with_context(|| format!("{archive} is missing"))?);
        krew = krew.replace(&format!("${{SHA256_{}}}", platform.to_uppercase().replace('-', "_")), &sum);
    }
    write("headroom.yaml", krew)?;
    run(&setup(&["helm"])?, &["package", "--destination", folder, CHART])?;
    render_manifests(folder)?;
    let mut sums = String::new();
    for file in files(folder)?.into_iter().filter(|file| file != "SHA256SUMS") {
        sums += &format!("{}  {file}\n", sha256(&fs::read(format!("{folder}/{file}"))?));
    }
    write("SHA256SUMS", sums)?;
    check_assets(folder)
}

fn files(folder: &str) -> Result<BTreeSet<String>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Runs before anything is published, so that half a release is never public.
fn check_assets(folder: &str) -> Result<()> {
    let chart = format!("headroom-{}.tgz", version()?);
    let single = [
        "policy.wasm",
        "annotated-policy.wasm",
        "policy-sbom.spdx.json",
        "programs-sbom.spdx.json",
        "headroom.yaml",
        &chart,
    ];
    let mut wanted: Vec<String> = single.map(str::to_owned).to_vec();
    wanted.extend(MANIFESTS.map(|(file, _)| file.to_owned()));
    wanted.extend(archives());
    let sums = read(format!("{folder}/SHA256SUMS"))?;
    let mut faults = Faults::default();
    for file in &wanted {
        let content = fs::read(format!("{folder}/{file}")).unwrap_or_default();
        let is_listed = sums.contains(&format!("{}  {file}\n", sha256(&content)));
        faults.check(!content.is_empty(), || format!("{file} is missing or empty"));
        faults.check(content.is_empty() || is_listed, || format!("{file} is not the file of SHA256SUMS"));
    }
    let is_filled = !read(format!("{folder}/headroom.yaml")).unwrap_or_default().contains("${");
    faults.check(is_filled, || "the krew manifest has placeholders left".to_owned());
    faults.end(&format!("{} files", wanted.len() + 1))
}

/// Commits what Artifact Hub reads to the local branch `artifacthub`, which has nothing else and keeps its history. The
/// work tree is left alone.
fn artifacthub_branch(commit: &str) -> Result<String> {
    let show = |path: &str| run("git", &["show", &format!("{commit}:{path}")]);
    let blob = |content: &str| git_write(&["hash-object", "-w", "--stdin"], content);
    let tree = |entries: &str| git_write(&["mktree"], entries);
    let package = show("artifacthub-pkg.yml")?;
    let version = package.lines().find_map(|line| line.strip_prefix("version: ")).context("a version")?;
    // Links of the README lead from elsewhere to the files of this release.
    let (readme, url) = (show("README.md")?, identity("URL")?);
    let image = Regex::new(r#"(!\[[^\]]*\]\(|<img src=")([A-Za-z][A-Za-z0-9_./-]*)"#)?;
    let readme = image.replace_all(&readme, format!("${{1}}{url}/raw/v{version}/$2"));
    let link = Regex::new(r"\]\(([A-Za-z][A-Za-z0-9_./-]*)\)")?;
    let readme = blob(&format!("{}\n", link.replace_all(&readme, format!("]({url}/blob/v{version}/$1)"))))?;
    let (package, repository) =
        (blob(&format!("{package}\n"))?, blob(&format!("{}\n", show("deploy/artifacthub-repo.yml")?))?);
    // The repository's file at the top, each package in a folder of its own.
    let headroom = tree(&format!("100644 blob {package}\tartifacthub-pkg.yml\n100644 blob {readme}\tREADME.md\n"))?;
    let policies = tree(&format!("040000 tree {headroom}\theadroom\n"))?;
    let made = tree(&format!("100644 blob {repository}\tartifacthub-repo.yml\n040000 tree {policies}\tpolicies\n"))?;

    let resolve = |name: &str| run("git", &["rev-parse", "--verify", "--quiet", name]);
    let parent = resolve("refs/heads/artifacthub").or_else(|_| resolve("refs/remotes/origin/artifacthub")).ok();
    let message = format!("Publish version {version} to Artifact Hub");
    let new = match &parent {
        Some(parent) if resolve(&format!("{parent}^{{tree}}"))? == made => None,
        Some(parent) => Some(run("git", &["commit-tree", &made, "-p", parent, "-m", &message])?),
        None => Some(run("git", &["commit-tree", &made, "-m", &message])?),
    };
    let head = new.as_ref().or(parent.as_ref()).context("a commit")?;
    run("git", &["update-ref", "refs/heads/artifacthub", head])?;
    Ok(if new.is_some() { message } else { "unchanged".to_owned() })
}

fn git_write(arguments: &[&str], content: &str) -> Result<String> {
    let mut git = Command::new("git").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    git.stdin.take().context("a pipe")?.write_all(content.as_bytes())?;
    let output = git.wait_with_output()?;
    output.status.success().then_some(()).with_context(|| format!("git {} failed", arguments.join(" ")))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
