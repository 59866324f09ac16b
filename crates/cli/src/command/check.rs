//! `kubectl headroom check`: what would be admitted, changed or rejected if these manifests were applied in their order.
//!
//! [`headroom_dry_run::evaluate::Run`] evaluates them; here they are read, and the verdicts become outputs and an exit code.

mod render;

mod against_running;

use headroom_admission::cluster::label_selector::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::{ArgGroup, ValueEnum};
use headroom_admission::nearest::nearest;
use headroom_admission::truncate::count_of;
use headroom_api_server::shell::ShellCommand;
use headroom_dry_run::evaluate::admission::Description;
use headroom_dry_run::evaluate::{Admission, ObjectDecision, Topic, Verdict, in_order};
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{ApiKind, labels_of, metadata, text};
use headroom_objects::manifest::Manifest;
use headroom_output::progress::Progress;
use headroom_output::{Exit, LONGEST_TEXT, Page, Paint, complain, github, junit, sarif};
use headroom_workloads::kinds::CRON_JOB;
use headroom_workloads::pod_makers::PodMaker;
use serde_json::Value;

use super::cluster_args::{About, OfflineFlag, Opened, TargetArgs, add_admission};
use super::manifests::{self, Manifests, unreadable};
use render::CheckedObject;

const EXAMPLES: &str = "\
Examples:
  # Against the current cluster, as `kubectl apply -f` would send it
  kubectl headroom check -f app.yaml

  # A kustomization, and the output of Helm
  kubectl headroom check -k overlays/prod
  helm template shop charts/shop --skip-tests | kubectl headroom check -n shop -f -

  # In CI, without a cluster: LimitRanges and quotas from files
  kubectl headroom check -R -f deploy/ -n shop --cluster-dir cluster/ -o github

  # With the settings of your policy
  kubectl headroom check -f app.yaml --settings cluster-admission-policy.yaml

  # What a new LimitRange would do to what runs in the namespace it names; in every namespace it must name none
  kubectl headroom check --against-running -f new-limits.yaml
  kubectl headroom check --against-running -A -f new-limits.yaml

  # A policy with other settings, before it is rolled out
  kubectl headroom check --against-running -A -f new-policy.yaml

Verdicts: `rejected` by a LimitRange, a quota or the policy; `invalid` for the API server; `pods blocked`: stored, but not \
all of its pods can be created; `changed`: admitted with values filled in; `admitted`; `not checked`: a kind that \
Headroom does not evaluate, or no namespace to check it in; `error`: could not be evaluated.

LimitRanges, ResourceQuotas, TenantQuotas and Namespaces among the objects are evaluated first, autoscalers last. The \
others follow in order, each against the quota left by those before it. Existing objects are evaluated as updates.

Exit codes: 0 if nothing fails the check, 1 if anything is rejected, invalid or has its pods blocked (see --fail-on), 2 on \
error. With --against-running, 1 only if something that is admitted today would be rejected.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("given").args(["paths", "files", "kustomizations"]).required(true).multiple(true))]
pub struct Args {
    /// Files or folders, the same as with -f
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    manifests: Manifests,
    /// Show what LimitRanges, quotas, Namespaces, policies and settings among the manifests would do to everything that runs; those of the
    /// same name are replaced. --settings are today's
    #[arg(long, conflicts_with_all = ["fail_on", "pods_at"])]
    against_running: bool,
    /// Only objects with these labels, such as `app=web,tier!=cache`, as for `kubectl apply -l`; with --against-running only what runs with
    /// them
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<LabelSelector<'static>>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = CheckFormat::Table)]
    output: CheckFormat,
    /// The least serious result that fails the check with exit code 1
    #[arg(long, value_enum, value_name = "RESULT", default_value_t = FailOn::PodsBlocked)]
    fail_on: FailOn,
    /// The pod template or pod spec in a kind of custom resource, such as `Sandbox=spec.pod`, or a file with rows of such kinds
    #[arg(long, value_name = "KIND=PATH|FILE", value_parser = pod_makers)]
    pods_at: Vec<Vec<PodMaker>>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    offline: OfflineFlag,
}

/// From lenient to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum FailOn {
    /// Only errors, with exit code 2
    Never,
    /// Objects that are rejected or invalid
    Rejected,
    /// Also objects whose pods would be rejected, and those without a namespace to check them in
    PodsBlocked,
    /// Also objects with warnings
    Warning,
    /// Also objects that are not checked
    NotChecked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    Table,
    Json,
    Yaml,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations for GitHub workflows
    Github,
    /// Markdown, for a job summary or a comment
    Markdown,
    /// A JUnit report
    Junit,
}

pub fn run(mut args: Args) -> anyhow::Result<Exit> {
    args.manifests.of_files.files.append(&mut args.paths);
    args.target.offline = Some(args.offline.is_given);
    if args.against_running {
        return against_running::run(&args);
    }
    if args.target.all_namespaces {
        bail!(
            "--all-namespaces is only supported with --against-running: manifests name their namespaces; use -n for those \
             that do not"
        );
    }
    args.target.check_single()?;
    let mut read = args.manifests.read_all();
    let mut problem = args.manifests.require_objects(&read, "check").err();
    if let Some(selector) = &args.selector {
        read.retain(|read| read.as_ref().map_or(true, |manifest| selector.matches(&labels_of(&manifest.object))));
    }
    if read.is_empty() {
        problem = problem.or(Some(anyhow!("nothing to check: no object in the files has these labels")));
    } else if read.iter().all(Result::is_err) {
        problem = manifests::all(read.iter().map(Result::as_ref)).err();
    }
    if let Some(problem) = problem {
        if !matches!(args.output, CheckFormat::Table | CheckFormat::Markdown) {
            // Programs that read the output still get a valid document.
            let problems: Vec<CheckedObject> =
                read.into_iter().filter_map(Result::err).map(CheckedObject::of_problem).collect();
            headroom_output::print(&page(&problems, &Admission::assumed().describe(), args.output)?)?;
        }
        return Err(problem);
    }
    if let Some(namespace) = args.target.namespaces.first() {
        read.iter().flatten().try_for_each(|manifest| is_of(manifest, namespace))?;
    }
    let mut opened = args.target.open()?;
    let cluster_wide: Vec<String> = read.iter().flatten().filter_map(defined_cluster_wide).collect();
    let sets_no_namespace = |object: &Value| sets_no_namespace(object, &cluster_wide);
    let without = read.iter().flatten().filter(|manifest| sets_no_namespace(&manifest.object)).count() as u64;
    let warning = without_bounds(read.iter().flatten(), without, &mut opened, &args.target);
    let objects = read.iter().flatten().map(|manifest| &manifest.object);
    let gone =
        if args.target.wants_cluster() { gone(objects, sets_no_namespace, &mut opened) } else { BTreeMap::new() };
    warning.iter().chain(gone.values()).for_each(|warning| complain!("warning: {warning}"));
    let admission = opened.admission.describe();
    let is_known = !args.target.namespaces.is_empty() && opened.cluster.namespaces().contains(&opened.namespace);
    let is_misplaced = warning.is_some() && !is_known;
    let progress = Progress::for_people();
    progress.begin(read.len() as u64, "Checking");
    let mut run = opened.into_run();
    run.pod_makers = args.pods_at.iter().flatten().cloned().collect();
    // All or nothing is explained.
    let are_read = read.iter().all(Result::is_ok);
    let mut took = Vec::new();
    let entry = |read: Result<Manifest, _>| {
        progress.advance(1);
        let Manifest { origin, object } = match read {
            Ok(manifest) => manifest,
            Err(problem) => return CheckedObject::of_problem(problem),
        };
        let mut decision = run.evaluate(&object);
        name_earlier(&mut decision, &mut took);
        let why = why(&args, &decision).filter(|_| are_read);
        let is_lost = gone.contains_key(&decision.namespace) || is_misplaced && sets_no_namespace(&object);
        let entry = CheckedObject { decision, origin, why };
        if is_lost { entry.unless_admitted() } else { entry }
    };
    let entries = in_order(read, |read| read.as_ref().ok().map(|manifest| &manifest.object), entry);
    progress.end();
    headroom_output::print(&page(&entries, &admission, args.output)?)?;
    let least = if is_misplaced || !gone.is_empty() { FailOn::PodsBlocked } else { FailOn::Warning };
    let is_warned = warning.is_some() || !gone.is_empty();
    let of_warning = if is_warned && args.fail_on >= least { Exit::Refused } else { Exit::Ok };
    Ok(entries.iter().map(|entry| exit(entry, args.fail_on)).max().unwrap_or(Exit::Ok).max(of_warning))
}

/// Reads `KIND=PATH`, or a file in the form of the table of kinds that make pods.
fn pod_makers(text: &str) -> Result<Vec<PodMaker>, String> {
    if text.contains('=') {
        return Ok(vec![text.parse()?]);
    }
    let path = Path::new(text);
    PodMaker::rows(&headroom_output::read_bounded(path, LONGEST_TEXT).map_err(|cause| unreadable(path, &cause))?)
}

fn page(entries: &[CheckedObject], admission: &Description, format: CheckFormat) -> anyhow::Result<Page> {
    Ok(match format {
        CheckFormat::Table => {
            let mut page = render::page(entries, Paint::for_stdout());
            add_admission(&mut page, admission);
            page
        }
        CheckFormat::Json => Page::json(&About { admission, output: render::report(entries) })?,
        CheckFormat::Yaml => Page::yaml(&About { admission, output: render::report(entries) })?,
        CheckFormat::Sarif => {
            Page::json(&sarif::log(&render::RULES, &render::findings(entries), render::not_checked(entries)))?
        }
        CheckFormat::Github => {
            let notice = render::not_checked(entries);
            github::annotations(&render::findings(entries), "kubectl headroom check", notice.as_deref())
        }
        CheckFormat::Markdown => Page::document(&format!("{}\nadmission: {admission}\n", render::markdown(entries))),
        CheckFormat::Junit => Page::document(&junit::report("kubectl headroom check", &render::cases(entries))),
    })
}

/// The command that explains a decision, which depends on all that was decided before it; none if `why` would not read the same
/// again, or could not name the object.
fn why(args: &Args, decision: &ObjectDecision) -> Option<ShellCommand> {
    let Manifests { of_files, kustomizations } = &args.manifests;
    let is_named = !text(decision.request.get("object")?, "/metadata/name").is_empty();
    let is_same = is_named && args.selector.is_none() && args.pods_at.is_empty();
    if !is_same || !of_files.files.iter().all(|path| path.is_file() || path.is_dir()) {
        return None;
    }
    let paths = |flag: &'static str, paths: &[PathBuf]| {
        paths.iter().flat_map(|path| [flag.to_owned(), path.display().to_string()]).collect::<Vec<_>>()
    };
    let namespace = args.target.namespaces.first().map(|name| ["-n", name]);
    let command = ShellCommand::of("kubectl headroom").words(["why", &decision.object]);
    let command = command.words(of_files.recursive.then_some("-R"));
    let command = command.words(paths("-f", &of_files.files)).words(paths("-k", kustomizations));
    Some(command.words(namespace.into_iter().flatten()).ending(&args.target.suffixes().headroom))
}

/// Names the objects of this run that took room in the same quotas, where pods of another one lack it.
fn name_earlier(decision: &mut ObjectDecision, took: &mut Vec<(String, String)>) {
    let namespace = &decision.namespace;
    let charges = decision.charges.iter().chain(&decision.pod_charges);
    let quotas: BTreeSet<String> = charges.map(|charge| format!("{namespace}/{}", charge.quota)).collect();
    let mut lacking = decision.warnings.iter_mut().filter(|warning| warning.blocks_pods == Some(Topic::Quota));
    let mut earlier: Vec<&String> = took.iter().filter(|(quota, _)| quotas.contains(quota)).map(|(_, of)| of).collect();
    earlier.dedup();
    if let (Some(warning), [first, others @ ..]) = (lacking.next(), earlier.as_slice()) {
        let and = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        warning.text.push_str(&format!(" (after {first}{and} in this run)"));
    }
    // The pods of a CronJob come and go.
    if !matches!(decision.verdict, Verdict::Rejected | Verdict::Invalid) && decision.kind.kind != CRON_JOB.kind {
        let object = decision.object.clone();
        took.extend(quotas.into_iter().map(|quota| (quota, object.clone())));
    }
}

fn exit(entry: &CheckedObject, fail_on: FailOn) -> Exit {
    let least = match entry.decision.verdict {
        Verdict::Error => return Exit::Error,
        Verdict::Rejected | Verdict::Invalid => FailOn::Rejected,
        Verdict::PodsBlocked => FailOn::PodsBlocked,
        _ if entry.warnings().next().is_some() => FailOn::Warning,
        Verdict::NotChecked => FailOn::NotChecked,
        Verdict::Admitted | Verdict::Changed => return Exit::Ok,
    };
    if fail_on >= least { Exit::Refused } else { Exit::Ok }
}

/// A warning if `count` objects set no namespace and the files of --cluster-dir have nothing for the one assumed.
fn without_bounds<'m>(
    manifests: impl Iterator<Item = &'m Manifest>,
    count: u64,
    opened: &mut Opened,
    target: &TargetArgs,
) -> Option<String> {
    if target.cluster_dir.is_empty() || target.wants_cluster() {
        return None;
    }
    let is_bound = |object: &&Value| BOUNDS.contains(&text(object, "/kind"));
    let of_files =
        manifests.map(|manifest| &manifest.object).filter(is_bound).map(|object| match metadata(object, "namespace") {
            "" => opened.namespace.clone(),
            own => own.to_owned(),
        });
    let mut bounded: BTreeSet<String> = of_files.collect();
    for kind in BOUNDS {
        // OK because files can be listed.
        let objects = opened.cluster.list(("v1", kind, None)).unwrap_or_default();
        bounded.extend(objects.iter().map(|object| metadata(object, "namespace").to_owned()));
    }
    if count == 0 || bounded.is_empty() || bounded.contains(&opened.namespace) {
        return None;
    }
    let found = bounded.into_iter().collect::<Vec<_>>().join(", ");
    let set = if count == 1 { "sets" } else { "set" };
    let advice = if target.namespaces.is_empty() { "pass -n" } else { "is -n right?" };
    Some(format!(
        "{} {set} no namespace, and \"{}\" has no LimitRange or ResourceQuota in --cluster-dir (found: {found}); {advice}",
        count_of(count, "object"),
        opened.namespace
    ))
}

/// The namespaces of these objects in which the API server creates nothing, each with the reason.
fn gone<'m>(
    objects: impl Iterator<Item = &'m Value> + Clone,
    sets_no_namespace: impl Fn(&Value) -> bool,
    opened: &mut Opened,
) -> BTreeMap<String, String> {
    let Opened { cluster, namespace, .. } = opened;
    let own = |object| if sets_no_namespace(object) { &**namespace } else { metadata(object, "namespace") };
    let created = objects.clone().filter(|object| text(object, "/kind") == "Namespace");
    let created: BTreeSet<&str> = created.map(|object| metadata(object, "name")).chain([""]).collect();
    let namespaces: BTreeSet<&str> = objects.map(own).filter(|name| !created.contains(name)).collect();
    let of = |namespace: &str| {
        // OK because without permission to read it, the namespace is taken to exist.
        let reason = match cluster.get(("v1", "Namespace", None), namespace).ok()? {
            Some(found) if metadata(&found, "deletionTimestamp").is_empty() => return None,
            Some(_) => format!("namespace \"{namespace}\" is being deleted: nothing can be created in it"),
            None => {
                let known = cluster.namespaces();
                let meant = nearest(namespace, known.iter().map(String::as_str));
                let advice = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
                // Files may have something in it.
                (!known.contains(namespace)).then(|| format!("there is no namespace \"{namespace}\"{advice}"))?
            }
        };
        Some((namespace.to_owned(), reason))
    };
    namespaces.into_iter().filter_map(of).collect()
}

fn sets_no_namespace(object: &Value, cluster_wide: &[String]) -> bool {
    let kind = ApiKind::of(object);
    let is_defined = || cluster_wide.contains(&format!("{}.{}", kind.kind, kind.group));
    kind.is_namespaced && metadata(object, "namespace").is_empty() && !is_defined()
}

/// The `KIND.GROUP` that a CustomResourceDefinition of the manifests has in no namespace.
fn defined_cluster_wide(manifest: &Manifest) -> Option<String> {
    let text = |path: &str| manifest.object.pointer(path).and_then(Value::as_str);
    let is_it = text("/kind") == Some("CustomResourceDefinition") && text("/spec/scope") == Some("Cluster");
    is_it.then(|| Some(format!("{}.{}", text("/spec/names/kind")?, text("/spec/group")?)))?
}

const BOUNDS: [&str; 2] = ["LimitRange", "ResourceQuota"];

/// As kubectl has it, -n is no way to move an object to another namespace.
fn is_of(manifest: &Manifest, namespace: &str) -> anyhow::Result<()> {
    let own = metadata(&manifest.object, "namespace");
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    let name = metadata(&manifest.object, "name");
    bail!(
        "{}: `{name}` is in namespace `{own}`, but -n says `{namespace}`: leave -n out, or change the manifest",
        manifest.origin
    )
}
