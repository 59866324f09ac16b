//! `kubectl headroom snapshot`: what the commands read of a cluster as one file, for the page, for `--cluster-dir`, and to be
//! shown to others.
//!
//! Secrets and ConfigMaps are not read at all. What else is left out is the same as in recordings.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail};
use headroom_core::cluster::usage::profile_layout::{API_VERSION, KIND};
use headroom_core::truncate::count_of;
use headroom_dryrun::cluster_reader::{ClusterReader, ReadError};
use headroom_dryrun::evaluate::tenant_quotas::TENANT_QUOTA;
use headroom_dryrun::kinds::SNAPSHOT;
use headroom_dryrun::recording::redact::Redaction;
use headroom_report::progress::Progress;
use headroom_report::{Exit, Page, complain};
use headroom_rightsize::rejections::{self, Rejections};
use headroom_rightsize::summary;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::cluster_args::{Opened, Scope, Target, elsewhere, profiles_namespace};
use super::rbac_hint::advised;
use super::recommend::{self, Advised, Trend, UsageArgs};

const EXAMPLES: &str = "\
Examples:
  # The whole cluster, for the UI
  kubectl headroom snapshot -A -o cluster.json

  # One namespace, to check manifests against later
  kubectl headroom snapshot -n shop -o shop.json
  kubectl headroom check -f app/ --cluster-dir shop.json

The snapshot has no Secrets, no ConfigMaps, and no values of environment variables, probes and annotations. Review it before \
you share it: it contains names, labels, images and container arguments.

Exit codes: 0 it is complete, 2 something could not be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File to write to, as YAML if its name ends with .yaml or .yml, otherwise as JSON; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// What surrounds objects, and what runs. Kinds that a cluster does not have are skipped.
const KINDS: [(&str, &str); 18] = [
    ("v1", "Namespace"),
    TENANT_QUOTA,
    DEVICE_CLASS,
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("v1", "LimitRange"),
    ("v1", "ResourceQuota"),
    (API_VERSION, KIND),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
];

pub fn run(args: Args) -> anyhow::Result<Exit> {
    // OK because what cannot be listed for it was missed already.
    let snapshot = take(&args.target, |opened| Ok(advice(opened, &args.target, None).unwrap_or_default().0))?;
    if let ([], [problem, ..]) = (&*snapshot.items, &*snapshot.missed) {
        // An earlier snapshot in that file is worth more than an empty one.
        bail!("nothing could be read, so nothing was written: {problem}");
    }
    let document = match args.output.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml") => Page::yaml(&snapshot.list())?,
        _ => Page::json(&snapshot.list())?,
    };
    if let Some(advice) = &snapshot.elsewhere {
        complain!("warning: the snapshot is empty: {advice}");
    }
    if args.output.as_os_str() == "-" {
        headroom_report::print(&document)?;
    } else {
        let written = File::create(&args.output).and_then(|mut file| write!(file, "{document}"));
        written.with_context(|| format!("cannot write `{}`", args.output.display()))?;
        let mut page = Page::new();
        writeln!(page, "{}: {}", args.output.display(), count_of(snapshot.items.len() as u64, "object"));
        headroom_report::print(&page)?;
    }
    snapshot.missed.iter().for_each(|problem| complain!("warning: {problem}; the snapshot is without them"));
    snapshot.notes.iter().for_each(|problem| complain!("note: {problem}; the snapshot is without them"));
    Ok(if snapshot.missed.is_empty() { Exit::Fine } else { Exit::Error })
}

const DEVICE_CLASS: (&str, &str) = ("resource.k8s.io/v1", "DeviceClass");

/// Kinds in no namespace that are for administrators: other users' snapshots are complete without.
const OF_ADMINISTRATORS: [(&str, &str); 2] = [TENANT_QUOTA, DEVICE_CLASS];

/// What containers should request, and the trends of quotas, as the page reads them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Advice {
    advice: Value,
    trends: Vec<Trend>,
}

/// Advice on everything that runs, and whether it is of a metrics store, which should not be read too often.
pub fn advice(opened: &mut Opened, target: &Target, usage: Option<&UsageArgs>) -> anyhow::Result<(Advice, bool)> {
    let Advised { report, trends, is_of_store } = recommend::on_all(opened, target, usage, &Progress::for_people())?;
    Ok((Advice { advice: json!(summary::of(&report)), trends }, is_of_store))
}

/// A snapshot of what is there now, with advice on it. What may not be read is left out.
pub fn take(target: &Target, advise: impl FnOnce(&mut Opened) -> anyhow::Result<Advice>) -> anyhow::Result<Snapshot> {
    let mut opened = target.open()?;
    // Of some namespaces, those are read otherwise.
    let is_listed = |kind: (&str, &str)| {
        opened.scope.is_all() || kind.1 != "Namespace" && kind.1 != KIND && !OF_ADMINISTRATORS.contains(&kind)
    };
    let listed: Vec<_> = KINDS.into_iter().filter(|kind| is_listed(*kind)).collect();
    opened.prefetch(&listed, &Progress::for_people());
    let mut snapshot = Snapshot::default();
    for (api_version, kind) in KINDS {
        match (kind, &opened.scope) {
            ("Namespace", Scope::In(names)) => {
                for name in names {
                    let found = opened.cluster.get((api_version, kind, None), name);
                    snapshot.take(found.map(|found| found.into_iter().collect()));
                }
            }
            (KIND, Scope::In(namespaces)) => {
                let profiles = opened.cluster.list((api_version, kind, Some(&profiles_namespace(&opened.settings))));
                snapshot
                    .take(profiles.map(|profiles| profiles.into_iter().map(|it| only_of(it, namespaces)).collect()));
            }
            (_, scope) if OF_ADMINISTRATORS.contains(&(api_version, kind)) => {
                let is_of_all = scope.is_all();
                match opened.cluster.list((api_version, kind, None)) {
                    Ok(found) if is_of_all => snapshot.take(Ok(found)),
                    Ok(found) => snapshot.take(Ok(found.into_iter().map(without_other_namespaces).collect())),
                    Err(error) if error.is_unknown_kind() => {}
                    Err(error) => snapshot.notes.push(error.to_string()),
                }
            }
            (_, scope) => snapshot.take(scope.list(&mut opened.cluster, api_version, kind)),
        }
    }
    if snapshot.items.is_empty() && snapshot.missed.is_empty() {
        snapshot.elsewhere = elsewhere(&opened.scope, &mut opened.cluster);
    }
    let mut advice = advise(&mut opened).unwrap_or_else(|problem| {
        snapshot.missed.push(format!("no recommendations: {problem:#}"));
        Advice::default()
    });
    // A metrics store knows quotas that this user may not read.
    let is_there = |trend: &Trend| !trend.namespace.is_empty() || snapshot.tenant_quotas.contains(&trend.quota);
    advice.trends.retain(is_there);
    let (api_version, kind) = SNAPSHOT;
    let rejections = with_events(std::mem::take(&mut snapshot.rejections), &mut opened);
    snapshot.notes.extend(rejections.problem.clone());
    let spec = json!({
        "settings": opened.settings, "advice": advice.advice, "trends": advice.trends, "rejections": rejections,
    });
    let about = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "snapshot"}, "spec": spec});
    snapshot.about = Some(Kept(about.to_string()));
    Ok(snapshot)
}

/// So many Events are read of one namespace, or of all together.
const EVENTS: usize = 10_000;
/// Where all together have more, most of them may be of one namespace: so these many are read of each, in these many namespaces.
const EVENTS_OF_EACH: usize = 500;
const NAMESPACES: usize = 1_000;

/// What Events add to the rejections that conditions tell of.
fn with_events(conditions: Rejections, opened: &mut Opened) -> rejections::Summary {
    let mut rejections = conditions.clone();
    let read = match read_events(&mut rejections, &mut opened.cluster, &opened.scope.parts(), EVENTS) {
        Ok(()) if rejections.is_cut && opened.scope.is_all() => {
            let namespaces = opened.cluster.namespaces();
            let parts: Vec<_> = namespaces.iter().take(NAMESPACES).map(|name| Some(name.as_str())).collect();
            rejections = conditions.clone();
            rejections.is_cut = namespaces.len() > NAMESPACES;
            read_events(&mut rejections, &mut opened.cluster, &parts, EVENTS_OF_EACH)
        }
        read => read,
    };
    match read {
        Ok(()) => rejections.summary(None),
        Err(error) if error.is_unknown_kind() => conditions.summary(None),
        Err(error) => conditions.summary(Some(advised(error, opened.scope.is_all()))),
    }
}

fn read_events(
    rejections: &mut Rejections,
    cluster: &mut dyn ClusterReader,
    parts: &[Option<&str>],
    most: usize,
) -> Result<(), ReadError> {
    for namespace in parts {
        let mut count = 0;
        let mut add = |event: Value| {
            count += 1;
            rejections.add_event(&event);
        };
        cluster.visit_events(*namespace, rejections::EVENT_REASON, most, &mut add)?;
        rejections.is_cut |= count >= most;
    }
    Ok(())
}

/// A TenantQuota without the usage of each namespace, which readers of this snapshot should not see.
fn without_other_namespaces(mut object: Value) -> Value {
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.remove("namespaces");
    }
    object
}

/// A profile without the usage of other namespaces, which readers of this snapshot should not see.
fn only_of(mut profile: Value, namespaces: &[String]) -> Value {
    let images = profile.pointer_mut("/spec/images").and_then(Value::as_object_mut);
    for image in images.into_iter().flat_map(|images| images.values_mut()) {
        if let Some(own) = image.get_mut("own").and_then(Value::as_object_mut) {
            own.retain(|of, _| namespaces.contains(of));
        }
    }
    profile
}

/// Objects as kubectl writes several.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'s> {
    api_version: &'static str,
    items: Vec<&'s Kept>,
    kind: &'static str,
    metadata: Value,
}

/// An object as text, which takes a tenth of the memory.
pub struct Kept(String);

impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As a value, so that it is indented like what is around it.
        let object: Value = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        object.serialize(serializer)
    }
}

#[derive(Default)]
pub struct Snapshot {
    pub items: Vec<Kept>,
    /// The policy's settings, and what containers should request by what they used.
    about: Option<Kept>,
    /// Why something is not in it.
    pub missed: Vec<String>,
    /// The same of what is for administrators, and of Events.
    notes: Vec<String>,
    /// Why it is empty, if a namespace does not exist.
    pub elsewhere: Option<String>,
    /// The names of those that were read.
    tenant_quotas: BTreeSet<String>,
    /// As conditions tell of them.
    rejections: Rejections,
    redaction: Redaction,
}

impl Snapshot {
    /// As the page reads it.
    pub fn text(&self) -> anyhow::Result<String> {
        headroom_report::compact_json(&self.list())
    }

    fn list(&self) -> List<'_> {
        let items = self.items.iter().chain(&self.about).collect();
        List { api_version: "v1", items, kind: "List", metadata: json!({}) }
    }

    fn take(&mut self, read: Result<Vec<Value>, ReadError>) {
        match read {
            Ok(objects) => {
                for mut object in objects {
                    self.rejections.add_object(&object);
                    self.redaction.redact(&mut object);
                    if is_running(&object) {
                        if object.get("kind").and_then(Value::as_str) == Some(TENANT_QUOTA.1) {
                            let name = object.pointer("/metadata/name").and_then(Value::as_str);
                            self.tenant_quotas.extend(name.map(str::to_owned));
                        }
                        self.items.push(Kept(object.to_string()));
                    }
                }
            }
            Err(error) if error.is_unknown_kind() => {}
            Err(error) => self.missed.push(error.to_string()),
        }
    }
}

/// Whether an object is more than the history of another: old ReplicaSets are most of what many clusters hold.
fn is_running(object: &Value) -> bool {
    object.get("kind") != Some(&json!("ReplicaSet")) || object.pointer("/spec/replicas") != Some(&json!(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_dryrun::cluster_reader::{Folder, List, Overlay};

    /// A cluster in which the namespace `evil` has any number of Events, which the API server lists before those of `shop`.
    struct Flooded;

    impl ClusterReader for Flooded {
        fn list(&mut self, (_, kind, _): List<'_>) -> Result<Vec<Value>, ReadError> {
            let names: &[&str] = if kind == "Namespace" { &["evil", "shop"] } else { &[] };
            Ok(names.iter().map(|name| json!({"kind": "Namespace", "metadata": {"name": name}})).collect())
        }

        fn visit_events(
            &mut self,
            namespace: Option<&str>,
            _: &str,
            most: usize,
            each: &mut dyn FnMut(Value),
        ) -> Result<(), ReadError> {
            let of = namespace.unwrap_or("evil");
            let event = |index: usize| {
                json!({"metadata": {"namespace": of}, "involvedObject": {"kind": "Job", "name": "a"},
                    "message": format!("pods \"a\" is forbidden: {index}")})
            };
            (0..if of == "evil" { most } else { 1 }).map(event).for_each(each);
            Ok(())
        }
    }

    #[test]
    fn a_namespace_with_more_events_than_are_read_hides_no_other() {
        let mut opened = Opened {
            cluster: Overlay::new(Folder::default(), Some(Box::new(Flooded))),
            namespace: "default".to_owned(),
            scope: Scope::All,
            settings: json!({}),
        };
        let summary = with_events(Rejections::default(), &mut opened);
        let namespaces: BTreeSet<&str> = summary.groups.iter().map(|of| of.namespace.as_str()).collect();
        assert_eq!((Vec::from_iter(namespaces), summary.is_cut), (vec!["evil", "shop"], true));
    }
}
