//! `kubectl headroom snapshot`: the objects of a cluster that the commands read as one file, for the UI, for `--cluster-dir`, and
//! for bug reports.
//!
//! Secrets are not read at all, and of ConfigMaps only settings of CPU and memory reach recommendations. Other confidential data
//! is left out too.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use headroom_admission::cluster::usage::profile_layout::{API_VERSION, KIND};
use headroom_admission::truncate::count_of;
use headroom_api_server::clock;
use headroom_dry_run::Overlay;
use headroom_dry_run::overlay::tenants::TENANT_QUOTA;
use headroom_dry_run::redact::Redaction;
use headroom_dry_run::simulate::unread;
use headroom_objects::cluster_reader::{ClusterReader, List, ReadError};
use headroom_objects::kinds::{ApiKind, PRIORITY_CLASS, RUNTIME_CLASS, SNAPSHOT, STORAGE_CLASS, metadata};
use headroom_output::list_writer::{Form, ListWriter, is_enough};
use headroom_output::progress::Progress;
use headroom_output::{Exit, Page, WholeFile, complain};
use headroom_recommend::bounds::quota::Past;
use headroom_recommend::output::rejections;
use headroom_recommend::output::summary::{self, RecommendationSummary};
use headroom_recommend::write::trial;
use headroom_workloads::inventory::{Inventory, WorkloadEntry};
use headroom_workloads::kinds::{self, POD_KINDS, REPLICA_SET};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster_args::{Opened, Scope, TargetArgs, advised, elsewhere, profiles_namespace};
use super::memory::ChangedRequest;
use super::recommend::{self, Recommended, UsageArgs};
use super::resize::changes::Resizes;

const EXAMPLES: &str = "\
Examples:
  # The whole cluster, for the UI
  kubectl headroom snapshot -A -o cluster.json

  # One namespace, to check manifests against later
  kubectl headroom snapshot -n shop -o shop.json
  kubectl headroom check -f app/ --cluster-dir shop.json

The snapshot has no Secrets, no ConfigMaps, and no values of probes and annotations; of those of environment variables it has only \
settings of CPU and memory, such as -Xmx6g. Review it before you share it: it contains names, labels, images and container arguments.

Exit codes: 0 it is complete, 2 something could not be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File to write to, as YAML if its name ends with .yaml or .yml, otherwise as JSON; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    target: TargetArgs,
}

/// The kinds besides workloads. Those that the cluster does not have are skipped.
const KINDS: [(&str, &str); 14] = [
    ("v1", "Namespace"),
    TENANT_QUOTA,
    DEVICE_CLASS,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    STORAGE_CLASS,
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("v1", "LimitRange"),
    ("v1", "ResourceQuota"),
    (API_VERSION, KIND),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
];

const DEVICE_CLASS: (&str, &str) = ("resource.k8s.io/v1", "DeviceClass");

/// Kinds in no namespace that are for administrators: other users' snapshots are complete without.
const OF_ADMINISTRATORS: [(&str, &str); 5] = [TENANT_QUOTA, DEVICE_CLASS, PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS];

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let form = match args.output.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml") => Form::Yaml,
        _ => Form::Json,
    };
    let is_printed = args.output.as_os_str() == "-";
    let unwritable = || format!("cannot write `{}`", args.output.display());
    let mut file = None;
    #[expect(clippy::disallowed_methods, reason = "the list writer escapes what is hidden")]
    let to: Box<dyn Write + '_> = match is_printed {
        true => Box::new(BufWriter::new(io::stdout())),
        false => Box::new(file.insert(WholeFile::create(&args.output).with_context(unwritable)?)),
    };
    let advise = |opened: &mut Opened, inventory| {
        // OK because errors of listing are in `missed` already.
        let (mut advice, entries, _) = advice(opened, inventory, &args.target, None).unwrap_or_default();
        advice.try_in(opened, &entries, |_| true);
        Ok(advice)
    };
    let snapshot = take(&args.target, ListWriter::new(to, form), SnapshotFields::Whole, advise)?;
    let (count, elsewhere) = (snapshot.objects(), snapshot.elsewhere.clone());
    let (missed, notes) = (snapshot.missed.clone(), snapshot.notes.clone());
    if let (0, [problem, ..]) = (count, missed.as_slice()) {
        bail!("nothing could be read, so nothing was written: {problem}");
    }
    match snapshot.finish() {
        Err(error) if !(is_printed && is_enough(&error)) => return Err(error.context(unwritable())),
        _ => {}
    }
    if let Some(file) = file {
        file.finish().with_context(unwritable)?;
    }
    if let Some(advice) = elsewhere {
        complain!("warning: the snapshot is empty: {advice}");
    }
    if !is_printed {
        let mut page = Page::new();
        writeln!(page, "{}: {}", args.output.display(), count_of(count, "object"));
        headroom_output::print(&page)?;
    }
    missed.iter().for_each(|problem| complain!("warning: {problem}; the snapshot is incomplete"));
    notes.iter().for_each(|problem| complain!("note: {problem}; the snapshot is without them"));
    Ok(if missed.is_empty() { Exit::Ok } else { Exit::Error })
}

/// Recommended requests and the trends of quotas, as the UI reads them.
#[derive(Debug, Clone, Default)]
pub struct Advice {
    pub advice: Option<Arc<RecommendationSummary>>,
    past: Vec<Past>,
    /// The containers whose requests changed since yesterday, as far as that is known.
    pub changes: Vec<ChangedRequest>,
    /// The changes that `headroom-controller resize` made and would make; none where it was not asked for, or does not run.
    pub resizes: Option<Resizes>,
    /// The reason that nothing is known of usage: then nothing is known to be at risk or not.
    pub unknown: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotFields {
    /// All fields that are not confidential.
    Whole,
    /// The objects of [`VIEWED`], for the views of the UI: a browser keeps in memory what it gets.
    ForViews,
    /// The fields that the UI evaluates for "What if".
    ForWhatIf,
}

/// The kinds whose objects the UI shows.
const VIEWED: [&str; 4] = ["Namespace", TENANT_QUOTA.1, "LimitRange", "ResourceQuota"];

impl Advice {
    pub fn try_in(&mut self, opened: &mut Opened, entries: &[WorkloadEntry], is_asked: impl Fn(&str) -> bool) {
        if let Some(summary) = &mut self.advice {
            opened.on_run(|run| trial::check(&mut Arc::make_mut(summary).0, entries, run, is_asked));
        }
    }
}

/// Recommendations for all workloads that nobody has tried, with the workloads to try them; and true if they are based on a metrics
/// store, which should not be read too often.
pub fn advice(
    opened: &mut Opened,
    inventory: Inventory,
    target: &TargetArgs,
    usage: Option<&UsageArgs>,
) -> anyhow::Result<(Advice, Vec<WorkloadEntry>, bool)> {
    let (advised, problem) =
        recommend::recommend_what_is_known(opened, inventory, target, usage, &Progress::for_people())?;
    let Recommended { report, entries, past, is_of_store, .. } = advised;
    let unknown = problem.map(|problem| format!("{problem:#}"));
    Ok((Advice { advice: summary::of(report).map(Arc::new), past, unknown, ..Advice::default() }, entries, is_of_store))
}

/// Writes the objects of the cluster, then recommendations for them. Objects that may not be read are left out.
pub fn take<W: Write>(
    target: &TargetArgs,
    to: ListWriter<W>,
    written: SnapshotFields,
    advise: impl FnOnce(&mut Opened, Inventory) -> anyhow::Result<Advice>,
) -> anyhow::Result<Snapshot<W>> {
    let mut opened = target.open_partly()?;
    let progress = Progress::for_people();
    // For some namespaces, these are read one by one.
    let is_listed = |kind: &(&str, &str)| {
        opened.scope.is_all() || kind.1 != "Namespace" && kind.1 != KIND && !OF_ADMINISTRATORS.contains(kind)
    };
    let listed: Vec<_> =
        KINDS.into_iter().filter(is_listed).chain(POD_KINDS.iter().map(|kind| (kind.api_version, kind.kind))).collect();
    opened.prefetch(&listed, &progress);
    let mut snapshot = Snapshot {
        list: to,
        written,
        left_out: 0,
        cluster: opened.context.clone(),
        settings: Value::Null,
        advice: Advice::default(),
        rejections: rejections::RejectionSummary::default(),
        missed: opened.unread.clone(),
        notes: Vec::new(),
        elsewhere: None,
        tenant_quotas: BTreeSet::new(),
        redaction: Redaction::default(),
    };
    let of_namespaces = opened.scope.parts().len() as u64 * POD_KINDS.len() as u64;
    progress.begin(KINDS.len() as u64 + of_namespaces, "Reading");
    opened.admission.objects().cloned().for_each(|mut policy| snapshot.add(&mut policy));
    for kind in KINDS {
        progress.name(&format!("Reading {}", ApiKind::new(kind.0, kind.1).plural));
        snapshot.take(kind, &mut opened);
        progress.advance(1);
    }
    // One pass both writes the workloads and takes the inventory.
    let Opened { cluster, scope, .. } = &mut opened;
    let inventory = Inventory::read(
        &mut Copying { cluster, snapshot: &mut snapshot, progress: &progress },
        &scope.parts(),
        |problem| advised(problem, scope.is_all()),
    );
    progress.end();
    if snapshot.objects() == 0 && snapshot.missed.is_empty() {
        snapshot.elsewhere = elsewhere(&opened.scope, &mut opened.cluster);
    }
    // If nothing could be listed, the errors are in `missed` already.
    if let Ok(mut inventory) = inventory {
        let advised = |problem| advised(problem, opened.scope.is_all());
        let events = inventory.read_events(&mut opened.cluster, &opened.scope.parts(), advised);
        snapshot.rejections = rejections::RejectionSummary::of_inventory(&inventory, events);
        snapshot.notes.extend(snapshot.rejections.problem.clone());
        match advise(&mut opened, inventory) {
            Ok(advice) => snapshot.advice = advice,
            Err(problem) => snapshot.advice.unknown = Some(format!("{problem:#}")),
        }
    }
    // A metrics store has quotas that this user may not read.
    let Snapshot { advice, tenant_quotas, .. } = &mut snapshot;
    advice.past.retain(|past| !past.namespace.is_empty() || tenant_quotas.contains(&past.quota));
    snapshot.settings = opened.admission.deciding_settings().clone();
    Ok(snapshot)
}

/// A TenantQuota without the usage of each namespace, which readers of this snapshot should not see.
fn without_other_namespaces(object: &mut Value) {
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.remove("namespaces");
    }
}

/// A profile without the usage of other namespaces, which readers of this snapshot should not see.
fn only_of(profile: &mut Value, namespaces: &[String]) {
    let images = profile.pointer_mut("/spec/images").and_then(Value::as_object_mut);
    for image in images.into_iter().flat_map(|images| images.values_mut()) {
        if let Some(own) = image.get_mut("own").and_then(Value::as_object_mut) {
            own.retain(|of, _| namespaces.contains(of));
        }
    }
}

/// The part of a snapshot besides the objects.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About<'s> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Value,
    spec: Spec<'s>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'s> {
    advice: Option<&'s RecommendationSummary>,
    #[serde(skip_serializing_if = "<[ChangedRequest]>::is_empty")]
    changes: &'s [ChangedRequest],
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'s str>,
    /// The number of objects of the cluster, if they are not all written.
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<u64>,
    /// The time at which the views were made, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    made_at: Option<i64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    missed: &'s [String],
    rejections: &'s rejections::RejectionSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    resizes: Option<&'s Resizes>,
    settings: &'s Value,
    trends: Vec<Trend<'s>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<&'s str>,
}

/// The recent growth of a quota's usage.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trend<'s> {
    /// Empty for a TenantQuota.
    namespace: &'s str,
    quota: &'s str,
    resource: &'s str,
    /// In thousandths; less than nothing where it shrinks.
    per_day: i64,
}

/// A snapshot while it is written.
pub struct Snapshot<W> {
    list: ListWriter<W>,
    written: SnapshotFields,
    /// The number of objects of the cluster that were not written.
    left_out: u64,
    cluster: Option<String>,
    /// The policy's settings, by which recommendations were made.
    settings: Value,
    advice: Advice,
    /// Errors of reads, without which the snapshot is incomplete.
    pub missed: Vec<String>,
    /// Errors of reading objects for administrators, and Events.
    notes: Vec<String>,
    /// The reason why it is empty, if a namespace does not exist.
    pub elsewhere: Option<String>,
    /// The names of those that were read.
    tenant_quotas: BTreeSet<String>,
    rejections: rejections::RejectionSummary,
    redaction: Redaction,
}

impl<W: Write> Snapshot<W> {
    pub fn objects(&self) -> u64 {
        self.list.objects() + self.left_out
    }

    pub fn finish(mut self) -> anyhow::Result<W> {
        let (api_version, kind) = SNAPSHOT;
        let Advice { advice, past, changes, resizes, unknown } = &self.advice;
        let trends = past.iter().map(|past| Trend {
            namespace: &past.namespace,
            quota: &past.quota,
            resource: &past.name,
            per_day: past.per_day.milli_value(),
        });
        let trends = trends.collect();
        let (rejections, settings) = (&self.rejections, &self.settings);
        let (advice, cluster, resizes) = (advice.as_deref(), self.cluster.as_deref(), resizes.as_ref());
        let is_for_views = self.written == SnapshotFields::ForViews;
        let (objects, made_at) = (is_for_views.then(|| self.objects()), is_for_views.then(clock::now));
        let (missed, unknown) = (self.missed.as_slice(), unknown.as_deref());
        let spec =
            Spec { advice, changes, cluster, objects, made_at, missed, rejections, resizes, settings, trends, unknown };
        self.list.add(&About { api_version, kind, metadata: json!({"name": "snapshot"}), spec });
        self.list.finish()
    }

    /// Reads and writes one of [`KINDS`].
    fn take(&mut self, kind: (&str, &str), opened: &mut Opened) {
        let Opened { cluster, scope, settings, .. } = opened;
        let (api_version, name) = kind;
        let read = match (name, &*scope) {
            ("Namespace", Scope::In(names)) => names.iter().try_for_each(|namespace| {
                let found = cluster.get((api_version, name, None), namespace)?;
                found.into_iter().for_each(|mut object| self.add(&mut object));
                Ok(())
            }),
            // Those of all namespaces take longer than the rest of one, and no view shows them.
            (KIND, Scope::In(_)) if self.written == SnapshotFields::ForViews => Ok(()),
            (KIND, Scope::In(namespaces)) => {
                let of_all = profiles_namespace(settings);
                cluster.visit((api_version, name, Some(&of_all)), &mut |mut profile| {
                    only_of(&mut profile, namespaces);
                    self.add(&mut profile);
                })
            }
            (_, scope) if OF_ADMINISTRATORS.contains(&kind) => {
                let read = cluster.list((api_version, name, None)).map(|found| {
                    for mut object in found {
                        if !scope.is_all() {
                            without_other_namespaces(&mut object);
                        }
                        if kind == TENANT_QUOTA {
                            self.tenant_quotas.insert(metadata(&object, "name").to_owned());
                        }
                        self.add(&mut object);
                    }
                });
                match read {
                    Err(error) if !error.is_unknown_kind() => return self.notes.push(error.to_string()),
                    read => read,
                }
            }
            // Nobody shows them.
            (_, Scope::All) if self.written == SnapshotFields::ForViews && !VIEWED.contains(&name) => {
                cluster.visit_compressed((api_version, name, None), &mut |_, _, _| self.left_out += 1)
            }
            (_, Scope::All) => cluster.visit((api_version, name, None), &mut |mut object| self.add(&mut object)),
            (_, scope) => scope.parts().into_iter().try_for_each(|namespace| {
                let found = cluster.list((api_version, name, namespace))?;
                found.into_iter().for_each(|mut object| self.add(&mut object));
                Ok(())
            }),
        };
        self.miss(&read);
    }

    fn miss(&mut self, read: &Result<(), ReadError>) {
        if let Err(error) = read
            && !error.is_unknown_kind()
        {
            self.missed.push(error.to_string());
        }
    }

    /// Leaves out of an object what may be confidential, and writes it.
    fn add(&mut self, object: &mut Value) {
        let is_viewed = VIEWED.contains(&object.get("kind").and_then(Value::as_str).unwrap_or_default());
        if self.written == SnapshotFields::ForViews && !is_viewed {
            self.left_out += u64::from(is_running(object));
            return;
        }
        self.redaction.redact(object);
        match self.written {
            _ if !is_running(object) => {}
            SnapshotFields::Whole | SnapshotFields::ForViews => self.list.add(object),
            SnapshotFields::ForWhatIf => {
                let mut read = object.clone();
                unread::leave_out(&mut read);
                self.list.add(&read);
            }
        }
    }
}

/// Writes the visited objects of a cluster into a snapshot too.
struct Copying<'s, W> {
    cluster: &'s mut Overlay,
    snapshot: &'s mut Snapshot<W>,
    progress: &'s Progress,
}

impl<W: Write> ClusterReader for Copying<'_, W> {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        self.cluster.list(list)
    }

    fn visit(&mut self, list: List<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        self.progress.name(&format!("Reading {}", ApiKind::new(list.0, list.1).plural));
        let read = self.cluster.visit(list, &mut |mut object| {
            self.snapshot.add(&mut object);
            each(object);
        });
        self.snapshot.miss(&read);
        self.progress.advance(1);
        read
    }

    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        self.cluster.get(list, name)
    }

    fn kind(&mut self, api_version: &str, kind: &str) -> ApiKind {
        self.cluster.kind(api_version, kind)
    }
}

/// False for old ReplicaSets, which are most objects of many clusters.
fn is_running(object: &Value) -> bool {
    kinds::of(object) != Some(&REPLICA_SET) || object.pointer("/spec/replicas") != Some(&json!(0))
}
