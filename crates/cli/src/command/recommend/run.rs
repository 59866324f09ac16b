//! Recommends for every workload of an inventory.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use headroom_admission::cluster::usage::Resource;
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::admission::PolicySource;
use headroom_dry_run::evaluate::problems;
use headroom_dry_run::settings::ParsedSettings;
use headroom_objects::cluster_reader::ReadError;
use headroom_output::progress::Progress;
use headroom_recommend::advice::workload::Workload;
use headroom_recommend::bounds::quota::Past;
use headroom_recommend::engine::declined::Declined;
use headroom_recommend::engine::{Engine, kept, nodes};
use headroom_recommend::history::Histories;
use headroom_recommend::report::{Order, Recommendations, ReportSource, rule};
use headroom_recommend::write::trial;
use headroom_workloads::inventory::{Inventory, WorkloadEntry};
use headroom_workloads::owner::WorkloadRef;
use headroom_workloads::program::ConfigMaps;
use serde_json::{Value, json};

use super::arguments::{From, UsageArgs};
use super::store::{self, StoreHistory};
use crate::command::cluster_args::{Opened, TargetArgs, advised, profiles_namespace};
use crate::command::manifests::ErrorList;

/// So many containers without a recommendation are named in a note.
const MAX_NAMED: usize = 5;

pub struct Recommended {
    /// None of its changes was tried.
    pub report: Recommendations,
    /// The workloads that it is about, to try them.
    pub entries: Vec<WorkloadEntry>,
    /// The growth of quotas, and their peaks where those are asked for, as far as a metrics store knows them.
    pub past: Vec<Past>,
    /// False if usage was read from UsageProfiles.
    pub is_of_store: bool,
    /// The reason why UsageProfiles may not be read, if so.
    pub refusal: Option<String>,
}

impl Recommended {
    pub fn tried(mut self, opened: &mut Opened) -> Recommendations {
        opened.on_run(|run| trial::check(&mut self.report, &self.entries, run, |_| true));
        self.report
    }
}

#[derive(Default)]
pub struct Choices<'a> {
    pub usage: Option<&'a UsageArgs>,
    pub order: Order,
    pub lowers_limits: bool,
    /// Containers without a recommendation are named in a note.
    pub names_skipped: bool,
    /// Nodes are large objects, and the page asks again and again, so it does not read them.
    pub reads_nodes: bool,
    pub declined: Option<&'a Declined>,
}

/// Recommends for everything that runs: from UsageProfiles, or from the source in `usage`.
pub fn recommend_inventory(
    opened: &mut Opened,
    mut inventory: Inventory,
    target: &TargetArgs,
    usage: Option<&UsageArgs>,
    progress: &Progress,
) -> anyhow::Result<Recommended> {
    let history = usage.map(|usage| history_of(usage, opened, &mut inventory, target, progress)).transpose()?;
    let choices = Choices { usage, order: Order::Name, reads_nodes: true, ..Choices::default() };
    recommend(opened, inventory, history.flatten(), &choices, progress)
}

/// The same also where the store cannot be read: then with the reason, and what runs without its usage.
pub fn recommend_what_is_known(
    opened: &mut Opened,
    mut inventory: Inventory,
    target: &TargetArgs,
    usage: Option<&UsageArgs>,
    progress: &Progress,
) -> anyhow::Result<(Recommended, Option<anyhow::Error>)> {
    let read = usage.map(|usage| history_of(usage, opened, &mut inventory, target, progress)).transpose();
    let (history, problem) = read.map_or_else(|problem| (None, Some(problem)), |read| (read.flatten(), None));
    let choices = Choices { usage, order: Order::Name, ..Choices::default() };
    Ok((recommend(opened, inventory, history, &choices, progress)?, problem))
}

/// Reads the history of a metrics store, unless UsageProfiles are read instead.
fn history_of(
    usage: &UsageArgs,
    opened: &mut Opened,
    inventory: &mut Inventory,
    target: &TargetArgs,
    progress: &Progress,
) -> anyhow::Result<Option<StoreHistory>> {
    // Only a store's reader asks whose pods are whose, and a large cluster has many.
    let pods = std::mem::take(&mut inventory.pods);
    Ok(match usage.source(opened, inventory, target.wants_cluster())? {
        From::Profiles => None,
        _ => Some(store::read(usage, target, opened, &inventory.namespaces(), pods, progress)?),
    })
}

/// Recommends for some workloads of the namespaces of `target`.
pub fn recommend_workloads(
    target: &TargetArgs,
    usage: &UsageArgs,
    workloads: &[WorkloadRef],
) -> anyhow::Result<Recommendations> {
    let mut opened = target.open()?;
    let advised = |problem| advised(problem, false);
    let mut inventory =
        Inventory::read(&mut opened.cluster, &opened.scope.parts(), advised).map_err(|problem| anyhow!(problem))?;
    let is_it = |key: &WorkloadRef, wanted: &WorkloadRef| {
        key.namespace == wanted.namespace && key.to_string() == wanted.to_string()
    };
    let is_wanted = |entry: &&WorkloadEntry| workloads.iter().any(|wanted| is_it(&entry.key, wanted));
    let wanted = inventory.entries.iter().filter(is_wanted).cloned().collect();
    inventory.keep(wanted);
    inventory.renumber();
    if inventory.entries.is_empty() {
        bail!("these workloads are not in the cluster any more");
    }
    Ok(recommend_inventory(&mut opened, inventory, target, Some(usage), &Progress::hidden())?.tried(&mut opened))
}

/// Recommends for an inventory from the history of a metrics store, or else from UsageProfiles. A workload that cannot be
/// evaluated becomes a note.
pub fn recommend(
    opened: &mut Opened,
    mut inventory: Inventory,
    history: Option<StoreHistory>,
    choices: &Choices<'_>,
    progress: &Progress,
) -> anyhow::Result<Recommended> {
    let Choices { usage, order, lowers_limits, names_skipped, reads_nodes, declined } = *choices;
    let reads_storage = usage.map(|usage| usage.file()).transpose()?.is_some_and(|file| file.ephemeral_storage);
    let settings = with_history(opened, reads_storage);
    let is_admission = opened.admission.is_by(&settings);
    let settings = ParsedSettings::of(&settings);
    let (mut source, histories, mut notes, past) = match history {
        Some(StoreHistory { source, histories, notes, past }) => (source, Some(histories), notes, past),
        None => {
            let name = format!("UsageProfiles in namespace {}", profiles_namespace(&opened.settings));
            (ReportSource { name, ..ReportSource::default() }, None, Vec::new(), Vec::new())
        }
    };
    let configs = configs(opened, &mut inventory);
    let engine = Engine {
        usage: histories.as_ref(),
        autoscalers: &inventory.autoscalers,
        settings: &settings,
        admission: (!is_admission).then_some(&opened.admission),
        now: settings.now().ok_or_else(|| anyhow!("this machine's clock is not set"))?,
        lowers_limits,
        declined,
        configs: &configs,
        kept: BTreeMap::new(),
    };
    // Objects that could not be read.
    let mut unread = Vec::new();
    let mut workloads = evaluate(engine, &inventory, &mut opened.cluster, (&mut unread, &mut notes), progress)?;
    if reads_nodes {
        nodes::flag_beyond_nodes(&mut workloads, &inventory.entries, &mut opened.cluster);
    }
    // Nothing is recommended by settings that cannot be read.
    let is_without_settings = settings.read().is_err();
    source.is_partial |= inventory.is_partial || is_without_settings || !unread.is_empty() || !opened.unread.is_empty();
    notes.extend(opened.unread.iter().map(|problem| format!("not read: {problem}")));
    let admission = opened.admission.describe();
    notes.extend((admission.source != PolicySource::Settings).then(|| format!("admission: {admission}")));
    notes.extend(histories.as_ref().and_then(|_| unmeasured(&workloads)));
    notes.extend(without_advice(&workloads, histories.as_ref()).filter(|_| names_skipped));
    notes.extend(inventory.notes);
    let is_refusal =
        |error: &&ReadError| matches!(error, ReadError::Forbidden { resource, .. } if resource == "usageprofiles");
    let refusal = unread.iter().find(is_refusal).map(|error| advised(error.clone(), false));
    notes.extend(unread.into_iter().map(|error| advised(error, opened.scope.is_all())));
    let prices = usage.and_then(|usage| usage.price.clone()).unwrap_or_default();
    let source = (source, rule::of(&settings, histories.is_some()));
    let mut report = Recommendations::new(source, workloads, notes, prices, order);
    report.cluster.clone_from(&opened.context);
    Ok(Recommended { report, entries: inventory.entries, past, is_of_store: histories.is_some(), refusal })
}

/// The policy's settings with the namespace of UsageProfiles: recommendations read history even if the policy reads none.
fn with_history(opened: &Opened, reads_storage: bool) -> Value {
    let mut settings = opened.settings.clone();
    let namespace = profiles_namespace(&settings);
    let estimates = settings.as_object_mut().map(|settings| settings.entry("estimates").or_insert_with(|| json!({})));
    if let Some(Value::Object(estimates)) = estimates {
        estimates.entry("namespace").or_insert_with(|| json!(namespace));
        if reads_storage {
            estimates.entry("resources").or_insert_with(|| json!(Resource::ALL.map(Resource::name)));
        }
    }
    settings
}

/// ConfigMaps with settings of programs. It is said if they may not be read.
fn configs(opened: &mut Opened, inventory: &mut Inventory) -> ConfigMaps {
    let namespaces = inventory.namespaces();
    let all = opened.scope.is_all();
    let parts = if all { vec![None] } else { namespaces.iter().map(|name| Some(name.as_str())).collect() };
    let (configs, problem) = ConfigMaps::read(&mut opened.cluster, &parts);
    let without = "settings of programs in ConfigMaps are not looked at";
    inventory.notes.extend(problem.map(|problem| advised(problem.context(without), all)));
    configs
}

fn evaluate(
    engine: Engine<'_>,
    Inventory { entries, peers, .. }: &Inventory,
    cluster: &mut Overlay,
    (unread, notes): (&mut Vec<ReadError>, &mut Vec<String>),
    progress: &Progress,
) -> anyhow::Result<Vec<Workload>> {
    let (mut workloads, mut unreadable) = (Vec::with_capacity(entries.len()), Vec::new());
    progress.begin(entries.len() as u64, "Recommending");
    for (number, entry) in entries.iter().enumerate() {
        match (engine.recommend(number, entry, cluster, unread), &entry.origin) {
            (Ok(workload), _) => workloads.extend(workload),
            (Err(problem), Some(origin)) => {
                // Kubernetes' own words, if its validation knows the problem too.
                let object = entry.object.value();
                let problems = problems(&object, &object, None, None, &[]);
                let problem = if problems.is_empty() { problem } else { problems.join("; ") };
                unreadable.push(format!("{origin}: {problem}"));
            }
            // Its author's affair, such as an amount that the API server stores and nothing reads.
            (Err(problem), None) => {
                notes.push(format!("no recommendation for {} {}: {problem}", entry.key.namespace, entry.key));
            }
        }
        progress.advance(1);
    }
    progress.end();
    if !unreadable.is_empty() {
        return Err(ErrorList(unreadable).into());
    }
    // Peers are known once all are.
    let engine = Engine { kept: kept::by_peers(&workloads, entries, cluster, unread), ..engine };
    for workload in &mut workloads {
        let entry = entries.get(workload.entry).filter(|_| engine.kept.contains_key(&workload.entry));
        if let Some(Ok(Some(again))) = entry.map(|entry| engine.recommend(workload.entry, entry, cluster, unread)) {
            *workload = again;
        }
        trial::put_off(workload);
    }
    workloads.retain(|of| !peers.contains(&of.key));
    Ok(workloads)
}

/// Names a resource that the store has of no container, although it has the other: its metric is read wrongly.
fn unmeasured(workloads: &[Workload]) -> Option<String> {
    let has = |resource: Resource| {
        let mut advice = workloads.iter().flat_map(|of| &of.containers).filter_map(|of| of.resource(resource));
        advice.any(|advice| advice.used.is_some())
    };
    let missing = match (has(Resource::Cpu), has(Resource::Memory)) {
        (false, true) => Resource::Cpu,
        (true, false) => Resource::Memory,
        _ => return None,
    };
    Some(format!(
        "no {} usage of any container: `kubectl headroom doctor` checks its metric; in the file of --source, a recording rule needs \
         `step`, and `cpuIsRate` if it is one of CPU",
        missing.name()
    ))
}

fn without_advice(workloads: &[Workload], histories: Option<&Histories>) -> Option<String> {
    let containers = || workloads.iter().flat_map(|of| of.containers.iter().map(move |container| (of, container)));
    let without = || containers().filter(|(_, container)| container.is_without_advice() && !container.runs_at_start);
    let count = without().count();
    let are_unmeasured =
        count > 0 && containers().all(|(_, container)| container.is_without_usage() || container.runs_at_start);
    if histories.is_none() && are_unmeasured {
        return Some(
            "no usage data for any container here: `headroom-controller collect` gathers it, and `kubectl headroom doctor` \
             checks its source; --prometheus names a metrics store to read instead"
                .to_owned(),
        );
    }
    let named: Vec<String> = without()
        .take(MAX_NAMED)
        .map(|(of, container)| format!("{} {} {}", of.key.namespace, of.key, container.name))
        .collect();
    let more = count.saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more (all of them in -o csv)") } else { String::new() };
    (count > 0).then(|| format!("no recommendation for: {}{more}", named.join(", ")))
}
