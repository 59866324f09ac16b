//! Chores of this repository that are more than one command. The Makefile calls them.

#![expect(clippy::disallowed_methods, reason = "a tool of developers, which writes to the repository")]

mod apis;
mod chart;
mod release;
mod tidy;
mod workflows;

mod docs;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

const USAGE: &str = "\
cargo xtask COMMAND, in the root of the repository:

apis REPOSITORY TAG...        writes the table of Kubernetes' kinds by release, from a clone of kubernetes/api
bindgen MODULE FOLDER         writes the JavaScript and the TypeScript declarations around the wasm of the playground
codegen [--check]             writes the chart's generated files, or fails if one is out of date
check chart HOST POLICY CONTROLLER   the Helm chart, its schema, and the rendered manifests
check docs HOST POLICY        links, commands and quoted messages of README.md and the book
check workflows               the GitHub workflows
tidy                          the order of modules and crates, comments, links: what the documents promise

release version [TAG]         compares all places with the version, and with the tag; prints the version
release identity [NAME]       compares all places with owner, registry and e-mail; prints OWNER, URL, POLICY, …
release notes VERSION         prints a version's section of the changelog
release manifests FOLDER      renders the chart as plain manifests

Targets of make, beside those of `make help`:

test-docs                     links, commands and examples of the documentation
test-deploy, e2e-chart        the Helm chart, workflows, and the steps of a release; the chart at a real API server
manifests                     the chart as plain manifests, for kubectl apply and kustomize
image, push REGISTRY=...      the controller's OCI image, without a container runtime; it and the policy in a registry
e2e-node                      running pods resized by a real kubelet on the node in HEADROOM_NODE, for a quarter of an hour
test-yaml                     our YAML reader beside a real kubectl over random snippets
fuzz                          coverage-guided random inputs, FUZZ_SECONDS=60 in total
bench, budgets                fuel, time, page faults and size, with AGAINST=other.wasm beside another module; only the budgets
bench-recommend               cost and quality of recommendations for 600 workloads with a real Prometheus
bench-estimates, bench-resize estimates, and resizes of running pods, on recorded usage: TRACES=folder
bench-policy-server           a request in Kubewarden's own policy server: POLICY_SERVER=path
bench-ledger                  latency and CPU of the ledger at a real API server, beside the in-tree plugin
sizing                        cost in clusters of up to 1,000 nodes, and a model of 5,000: writes the table of the book
";

fn main() -> ExitCode {
    // `cargo xtask` works in any folder of the repository.
    if let Some(manifest) = env::var_os("CARGO_MANIFEST_DIR") {
        env::set_current_dir(Path::new(&manifest).join("../..")).expect("the repository is there");
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    match dispatch(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["apis", repository, tags @ ..] => apis::generate(repository, tags),
        ["bindgen", module, folder] => bindgen(module, folder),
        ["codegen"] => chart::generate(true),
        ["codegen", "--check"] => chart::generate(false),
        ["check", "chart", host, policy, controller] => chart::check(host, policy, controller),
        ["check", "docs", host, policy] => docs::check(host, policy),
        ["check", "workflows"] => workflows::check(),
        ["tidy"] => tidy::check(),
        ["release", rest @ ..] => release::dispatch(rest),
        ["--help"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown command\n\n{USAGE}"),
    }
}

/// Runs the library of the command `wasm-bindgen`, without its test runner, which brings a web server.
fn bindgen(module: &str, folder: &str) -> Result<()> {
    let mut bindgen = wasm_bindgen_cli_support::Bindgen::new();
    bindgen.input_path(module).out_name("engine").web(true)?.typescript(true);
    bindgen.remove_name_section(true).remove_producers_section(true).generate(folder)
}

/// Faults that a check has found, all of which are printed at its end.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn check(&mut self, is_right: bool, fault: impl FnOnce() -> String) {
        if !is_right {
            self.0.push(fault());
        }
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, expected: T) {
        self.check(found == expected, || format!("{what}: found {found:?}, expected {expected:?}"));
    }

    fn tried(&mut self, place: &str, tried: Result<()>) {
        self.0.extend(tried.err().map(|error| format!("{place}: {error:#}")));
    }

    fn end(self, summary: &str) -> Result<()> {
        if self.0.is_empty() {
            println!("{summary}");
            return Ok(());
        }
        bail!("{} faults\n  {}", self.0.len(), self.0.join("\n  "))
    }
}

fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn yaml(text: &str) -> Result<Value> {
    Ok(serde_saphyr::from_str(text)?)
}

fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

struct Output {
    is_success: bool,
    out: String,
    err: String,
}

fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Output { is_success: output.status.success(), out: text(output.stdout), err: text(output.stderr) })
}

/// Runs a program that has to succeed, and returns its output without the last line break.
fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let Output { is_success, out, err } = output(Command::new(program).args(arguments))?;
    if !is_success {
        bail!("{program} {}: {}", arguments.join(" "), if err.is_empty() { out } else { err }.trim());
    }
    Ok(out.trim_end_matches('\n').to_owned())
}

/// Installs tools where they are missing; prints the path of those that are not installed in PATH.
fn setup(tools: &[&str]) -> Result<String> {
    run("scripts/setup-debian.sh", tools)
}

/// Elements of a JSON array, none of anything else.
fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn sorted_files(folder: &str, extension: &str) -> Result<Vec<String>> {
    let files = headroom_fixtures::files_below(Path::new(folder)).map_err(anyhow::Error::msg)?;
    let wanted = files.into_iter().filter(|path| path.extension().is_some_and(|found| found == extension));
    Ok(wanted.map(|path| path.to_string_lossy().into_owned()).collect())
}
