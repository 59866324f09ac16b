//! The advice of a scan applied to the cluster: server-side, under a manager of our own, on the user's word. Everything is
//! tried without effect first; nothing is changed if any of that is refused. What was set before is written to a script
//! that puts it back. (To apply less by the same manager would not do: what the manager alone owns stays where another
//! owns the empty `resources` around it.)

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, Error};
use serde_json::{Map, Value, json};

use crate::command::target::Target;
use crate::kinds::ApiKind;
use crate::output::Exit;
use crate::scan::change;
use crate::scan::report::{ContainerRow, Report, Row};

/// Whom the API server knows as the owner of what is set.
const MANAGER: &str = "kubectl-headroom";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Changing the cluster")]
pub struct Patching {
    /// Set the recommended requests and memory limits in the cluster, by server-side apply; asks before it does
    #[arg(long, conflicts_with_all = ["fail_above", "write"])]
    pub patch: bool,
    /// Do not ask
    #[arg(long, requires = "patch")]
    yes: bool,
    /// Take fields over from whoever manages them, such as Helm or kubectl
    #[arg(long, requires = "patch")]
    force_conflicts: bool,
    /// Script that puts back what was set before
    #[arg(long, value_name = "FILE", default_value = "headroom-rollback.sh", requires = "patch")]
    rollback: PathBuf,
}

/// One workload's change.
struct Change<'r> {
    row: &'r Row,
    patch: Value,
    api: Api<DynamicObject>,
}

pub async fn run(args: &Patching, report: &Report, client: Client, kubectl: &str) -> anyhow::Result<Exit> {
    if args.rollback.exists() {
        bail!("`{}` exists already: choose another file with --rollback", args.rollback.display());
    }
    let changes: Vec<Change<'_>> = report
        .workloads
        .iter()
        .filter_map(|row| Some(Change { row, patch: change::patch(row)?, api: api(row, &client) }))
        .collect();
    if changes.is_empty() {
        eprintln!("nothing to change: the workloads request what is recommended, or cannot be patched");
        return Ok(Exit::Fine);
    }
    let mut rollback = Vec::new();
    let mut refused = 0;
    for change in &changes {
        let before = change.api.get(&change.row.name).await;
        let before = before.map_err(|error| anyhow!("{}: {}", told(change.row), worded(&error)))?;
        let back = put_back(change.row, &change.patch, &serde_json::to_value(&before)?);
        rollback.extend(back.map(|back| command(kubectl, change.row, &back)));
        if let Err(error) = change.apply(args, true).await {
            eprintln!("error: {}: {}", told(change.row), worded(&error));
            refused += 1;
        }
    }
    if refused > 0 {
        eprintln!("nothing was changed: {refused} of {} changes would be refused", changes.len());
        return Ok(Exit::Refused);
    }
    if !args.yes && !is_wanted(changes.len())? {
        eprintln!("nothing was changed");
        return Ok(Exit::Fine);
    }
    keep(&args.rollback, &rollback)?;
    eprintln!("wrote {0}: `sh {0}` puts back what is set now", args.rollback.display());
    for (done, change) in changes.iter().enumerate() {
        if let Err(error) = change.apply(args, false).await {
            eprintln!("error: {}: {}", told(change.row), worded(&error));
            eprintln!("{done} of {} changes were made, the others were not", changes.len());
            return Ok(Exit::Refused);
        }
        eprintln!("patched {}", told(change.row));
    }
    Ok(Exit::Fine)
}

impl Change<'_> {
    async fn apply(&self, args: &Patching, dry_run: bool) -> Result<(), Error> {
        let mut params = PatchParams::apply(MANAGER);
        params.force = args.force_conflicts;
        params.dry_run = dry_run;
        self.api.patch(&self.row.name, &params, &Patch::Apply(&self.patch)).await.map(|_| ())
    }
}

fn api(row: &Row, client: &Client) -> Api<DynamicObject> {
    let kind = ApiKind::new(&row.api_version, &row.kind);
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural);
    Api::namespaced_with(client.clone(), &row.namespace, &resource)
}

fn told(row: &Row) -> String {
    format!("{} {}", row.namespace, row.told())
}

fn worded(error: &Error) -> String {
    match error {
        Error::Api(status) if status.code == 409 => {
            format!("{}; --force-conflicts takes the fields over", status.message)
        }
        Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

/// Only on a terminal can anybody be asked.
fn is_wanted(changes: usize) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        eprintln!("{changes} workloads would be changed, and the API server would accept that: give --yes to do it");
        return Ok(false);
    }
    eprint!("Change {changes} workloads? Their pods will be replaced. [y/N] ");
    io::stderr().flush().context("cannot ask")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Never over another file, which may be what an earlier run has to be put back with.
fn keep(file: &Path, commands: &[String]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", file.display());
    let text = format!(
        "#!/bin/sh\n# Puts back the requests and limits that were set before `kubectl headroom scan --patch`.\nset -e\n{}\n",
        commands.join("\n")
    );
    let mut created = OpenOptions::new().write(true).create_new(true).open(file).with_context(cannot)?;
    created.write_all(text.as_bytes()).with_context(cannot)
}

/// `kubectl` with the words that lead to the same cluster.
pub fn kubectl(target: &Target) -> String {
    let words = target.cluster.arguments().into_iter().map(|(name, value)| format!(" {name} {}", quoted(&value)));
    "kubectl".to_owned() + &words.collect::<String>()
}

fn command(kubectl: &str, row: &Row, patch: &Value) -> String {
    let object = ApiKind::new(&row.api_version, &row.kind).told(&row.name);
    let [object, namespace, patch] = [&object, &row.namespace, &patch.to_string()].map(|text| quoted(text));
    format!("{kubectl} patch {object} --namespace {namespace} --type strategic --patch {patch}")
}

/// As a shell reads it back, whatever it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A patch that sets what the workload had before, and takes away what it had not.
fn put_back(row: &Row, patch: &Value, before: &Value) -> Option<Value> {
    let mut back = change::with_resources(row, |container: &ContainerRow| {
        let list = if container.is_init { "initContainers" } else { "containers" };
        let changed = of_container(row, list, &container.name, patch)?.get("resources")?;
        let was = of_container(row, list, &container.name, before).and_then(|container| container.get("resources"));
        let mut resources = Map::new();
        for (bound, amounts) in changed.as_object()? {
            let had = |name: &String| was?.get(bound)?.get(name).cloned();
            let amounts = amounts.as_object()?.keys().map(|name| (name.clone(), had(name).unwrap_or(Value::Null)));
            resources.insert(bound.clone(), Value::Object(amounts.collect()));
        }
        Some(Value::Object(resources))
    })?;
    // The command names the object.
    if let Value::Object(fields) = &mut back {
        fields.retain(|field, _| field == "spec");
    }
    Some(back)
}

fn of_container<'v>(row: &Row, list: &str, name: &str, object: &'v Value) -> Option<&'v Value> {
    let path: String = row.path.iter().chain(&["spec", list]).map(|key| format!("/{key}")).collect();
    let containers = object.pointer(&path)?.as_array()?;
    containers.iter().find(|container| container.get("name") == Some(&json!(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubeconfig::Chosen;

    #[test]
    fn no_name_ends_its_quotes() {
        assert_eq!(quoted("a'; rm -rf /"), r"'a'\''; rm -rf /'");
        let cluster = Chosen { context: Some("it's".to_owned()), user: Some("eve".to_owned()), ..Chosen::default() };
        let target = Target { cluster, ..Target::default() };
        assert_eq!(kubectl(&target), r"kubectl --context 'it'\''s' --as 'eve'");
    }
}
