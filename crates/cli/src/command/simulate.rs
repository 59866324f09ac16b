//! `kubectl headroom simulate`: the effect of other settings, LimitRanges or quotas on all workloads, see
//! [`headroom_dryrun::simulate`].

mod groups;
mod render;

use headroom_core::cluster::label_selector::LabelSelector;
use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{ArgGroup, ValueEnum};
use headroom_dryrun::evaluate::{self, Admission};
use headroom_dryrun::simulate::{Change, Effects, Simulation, Subjects, put, report};
use headroom_objects::cluster_reader::folder::in_namespace;
use headroom_objects::kinds::{labels_of, metadata};
use headroom_objects::manifest::Manifest;
use headroom_report::progress::Progress;
use headroom_report::{Exit, Page, Paint};
use serde_json::Value;

use super::cluster_args::{About, Opened, Scope, Target, add_admission, read_settings, warn_if_elsewhere};
use super::manifests::{self, Manifests};

const EXAMPLES: &str = "\
Examples:
  # A new LimitRange, in the namespace it names
  kubectl headroom simulate -f new-limits.yaml

  # The same in every namespace: it must name none
  kubectl headroom simulate -A -f new-limits.yaml

  # The policy with other settings, before they are rolled out
  kubectl headroom simulate -A --current-settings policy.yaml --settings new-policy.yaml

Exit codes: 0 nothing gets worse, 1 something would be newly rejected or a quota newly exceeded, 2 not everything could be \
read.";

/// The help of `--filename`.
const CHANGES: &str =
    "LimitRanges, ResourceQuotas and Namespaces as they would be; those of the same name are replaced";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("files", |argument| argument.help(CHANGES)))]
#[command(group = ArgGroup::new("given").args(["files", "kustomizations", "settings"]).required(true).multiple(true))]
pub struct Args {
    #[command(flatten)]
    manifests: Manifests,
    /// Only workloads, pods and claims with these labels, such as `app=web,tier!=cache`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<LabelSelector<'static>>,
    /// The policy's current settings, if they differ from --settings
    #[arg(long, value_name = "FILE")]
    current_settings: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let changes = args.manifests.read(args.target.is_strict)?;
    manifests::all(changes.iter().map(check))?;
    args.manifests.require_objects(&changes, "simulate")?;
    let mut opened = args.target.open()?;
    let now = match (&args.current_settings, &args.target.settings) {
        (Some(path), _) => Some(Admission::of_settings(&read_settings(path)?)),
        // Without files it is the settings that are tried out, against what the cluster has.
        (None, Some(_)) if !args.manifests.is_given() => {
            Some(args.target.admission_of(&mut opened.cluster, &opened.scope))
        }
        (None, _) => None,
    };
    let namespaces = namespaces(&args, &opened, &changes);
    if namespaces.is_none() || !args.target.namespaces.is_empty() {
        opened.prefetch(&headroom_dryrun::simulate::listed().collect::<Vec<_>>(), &Progress::for_people());
    }
    let Opened { mut cluster, namespace, scope, admission: then, .. } = opened;
    let now = now.as_ref().unwrap_or(&then);
    let admission = now.describe();
    let is_wanted = |object: &Value| args.selector.as_ref().is_none_or(|selector| selector.matches(&labels_of(object)));
    let subjects = Subjects::find(&mut cluster, namespaces.as_deref(), &is_wanted, now);
    let simulation = Simulation::begin(subjects, now, &mut cluster);
    let everywhere = simulation.namespaces();
    for Manifest { object, .. } in changes {
        for object in placed(object, &namespace, &scope, &everywhere) {
            put(object, &mut cluster).map_err(|problem| anyhow!(problem))?;
        }
    }
    let effects = simulation.end(&then, &mut cluster);
    if effects.subjects.is_empty() {
        warn_if_elsewhere(&scope, &mut cluster);
    }
    headroom_report::print(&match args.output {
        Format::Table => {
            let mut page = render::page(&effects, Paint::for_stdout());
            page.gap();
            add_admission(&mut page, &admission);
            page
        }
        Format::Json => Page::json(&About { admission: &admission, output: report::report(&effects) })?,
        Format::Yaml => Page::yaml(&About { admission: &admission, output: report::report(&effects) })?,
    })?;
    Ok(exit(&effects))
}

/// Only what surrounds objects can be tried out.
fn check(manifest: &Manifest) -> anyhow::Result<()> {
    let Manifest { origin, object } = manifest;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if !matches!(kind, "LimitRange" | "ResourceQuota" | "Namespace") {
        bail!(
            "{origin}: {kind} is not supported: simulate takes LimitRanges, ResourceQuotas and Namespaces; use `check` for other kinds"
        );
    }
    match evaluate::problems_of_bounds(object).as_slice() {
        [] => Ok(()),
        problems => bail!("{origin}: the {kind} is invalid: {}", problems.join(", ")),
    }
}

/// The namespaces to look at: all, the one asked for, or those that the changes are about.
fn namespaces(args: &Args, opened: &Opened, changes: &[Manifest]) -> Option<Vec<String>> {
    let asked = match &opened.scope {
        Scope::All => return None,
        Scope::In(namespaces) => namespaces,
    };
    let named = changes.iter().map(|change| match change.object.get("kind").and_then(Value::as_str) {
        Some("Namespace") => metadata(&change.object, "name"),
        _ => metadata(&change.object, "namespace"),
    });
    let default = opened.namespace.as_str();
    let named: BTreeSet<&str> = named.map(|name| if name.is_empty() { default } else { name }).collect();
    if !args.target.namespaces.is_empty() || named.is_empty() {
        return Some(asked.clone());
    }
    Some(named.into_iter().map(str::to_owned).collect())
}

/// A change in its namespace; one that names none is tried in every namespace that is looked at.
fn placed(object: Value, default: &str, scope: &Scope, everywhere: &[String]) -> Vec<Value> {
    let namespaces = match scope {
        _ if !metadata(&object, "namespace").is_empty() => return vec![object],
        Scope::All => everywhere,
        Scope::In(namespaces) if namespaces.len() > 1 => namespaces,
        Scope::In(_) => return vec![in_namespace(object, default)],
    };
    namespaces.iter().map(|namespace| in_namespace(object.clone(), namespace)).collect()
}

fn exit(effects: &Effects) -> Exit {
    if !effects.missed.is_empty() || effects.count(Change::NotEvaluated) > 0 {
        Exit::Error
    } else if effects.count(Change::NewlyRejected) > 0 || effects.quotas.iter().any(|quota| quota.is_newly_exceeded) {
        Exit::Refused
    } else {
        Exit::Ok
    }
}
