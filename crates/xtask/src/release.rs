//! Compares and reads the parts of the tree that a release needs: version, identity, notes, manifests. `scripts/release.sh` has
//! the steps, and calls other tools.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use regex::Regex;

use crate::chart::render_manifests;
use crate::{Faults, read, run, text, yaml};

const METADATA: &str = "policy-metadata.yaml";

pub fn dispatch(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["version", tag @ ..] if tag.len() <= 1 => println!("{}", check_version(tag.first().copied())?),
        ["identity"] => return check_identity(),
        ["identity", name] => println!("{}", identity(name)?),
        ["notes", version] => println!("{}", notes(version)?),
        ["manifests", folder] => render_manifests(folder)?,
        _ => bail!("unknown command: release {}", arguments.join(" ")),
    }
    Ok(())
}

/// Places with the version. The changelog has older versions after it.
const VERSIONS: &[(&str, &str)] = &[
    ("Cargo.toml", r#"(?m)^\[workspace\.package\]\nversion = "([^"]+)""#),
    (METADATA, r"(?m)^  io\.kubewarden\.policy\.version: (\S+)$"),
    ("artifacthub-pkg.yml", r"(?m)^version: (\S+)$"),
    ("deploy/charts/headroom/Chart.yaml", r"(?m)^(?:version|appVersion|      image): (?:\S+:v)?(\S+)$"),
    ("deploy/charts/headroom/files/policies.yaml", r"(?m)^  module: registry://\S+:v(\S+)$"),
    ("deploy/krew/headroom.yaml", r"(?m)^  version: v(\S+)$"),
    ("docs/src/tasks/deploy-the-policies.md", r"(?m)^  module: registry://\S+:v(\S+)$"),
    ("docs/src/tasks/check-in-ci.md", r"(?m)(?:headroom@v|rev: v|generic/headroom/)(\S+)$"),
];

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
        ("IMAGE", format!("{base}/headroom-controller")),
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

/// Texts that repeat the identity in deployment and GitHub's files. Documentation refers to files.
const REPEATED: &[(&str, &str)] = &[
    (r"github\.com/([\w-]+)/headroom\b", "OWNER"),
    (r"(?m)^repository=([\w-]+)/headroom$", "OWNER"),
    (r"@([\w-]+)/maintainers\b", "OWNER"),
    (r"repository: ([\w-]+)/(?:policies/headroom|headroom-controller)\b", "OWNER"),
    (r"[\w-]+\.[\w.-]+/([\w-]+)/(?:policies|charts|headroom-controller)\b", "OWNER"),
    (r"([\w-]+\.[\w.-]+)/[\w-]+/(?:policies|charts|headroom-controller)\b", "REGISTRY"),
    (r"(?m)^    registry: (\S+)$", "REGISTRY"),
    (r"(?m)^  - name: (.+)\n    email: ", "AUTHORS"),
    (r"(?m)^    email: (\S+)$", "EMAIL"),
];

fn check_identity() -> Result<()> {
    let known = identities()?;
    let files = run("git", &["ls-files", "*.md", "*.yaml", "*.yml", "*.toml", "*.txt", "*.sh", ".github/CODEOWNERS"])?;
    let is_searched = |file: &&str| {
        let is_test = ["crates/", "tests/", "playground/", "docs/examples/"];
        !is_test.iter().any(|folder| file.starts_with(folder)) && !file.contains("/charts/headroom/ci/")
    };
    let texts: Vec<(&str, String)> =
        files.lines().filter(is_searched).map(|file| Ok((file, read(file)?))).collect::<Result<_>>()?;
    let mut faults = Faults::default();
    let prose = texts.iter().filter(|(file, _)| !file.starts_with("deploy/") && file.ends_with(".md"));
    for (file, _) in prose.filter(|(_, text)| text.contains(&known["OWNER"])) {
        faults.check(false, || format!("{file} says {}: refer to {METADATA}, or to a file", known["OWNER"]));
    }
    for (pattern, name) in REPEATED {
        let (pattern, wanted, mut count) = (Regex::new(pattern)?, &known[name], 0);
        for (file, text) in &texts {
            for found in
                pattern.captures_iter(text).filter(|found| !found[0].contains("example.com") && &found[1] != "OWNER")
            {
                count += 1;
                faults.check(found[1] == **wanted, || format!("{file} says {}, and {METADATA} {wanted}", &found[1]));
            }
        }
        faults.check(count > 0, || format!("nothing is like {pattern}"));
    }
    faults.end("identity: all places agree")
}
