//! `kubectl headroom snapshot`: what the desk reads of a cluster as one file, for the page, for `--cluster-dir`, and to be
//! shown to others.
//!
//! Secrets and ConfigMaps are not read at all. The values of environment variables are left out, as from recordings.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use headroom_core::cluster::usage::address::{API_VERSION, KIND};
use headroom_desk::recording::redact::Redaction;
use serde_json::{Value, json};

use super::recommend;
use super::target::{Scope, Target, profiles_namespace};
use crate::output::{self, Exit};
use crate::progress::Progress;
use crate::recommend::summary;
use crate::surroundings::{Surroundings, is_of_unknown_kind};

const EXAMPLES: &str = "\
Examples:
  # The whole cluster, to be opened in the page
  kubectl headroom snapshot -A -o cluster.json

  # One namespace, and a question about it later
  kubectl headroom snapshot -n shop -o shop.json
  kubectl headroom check -f app/ --cluster-dir shop.json

The snapshot has no Secrets, no ConfigMaps and no values of environment variables. Look at it before you show it to \
others all the same: names, images and arguments of containers are in it.

Exit codes: 0 it is complete, 2 something could not be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File to write to; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// What surrounds objects, and what runs. Kinds that a cluster does not have are skipped.
const KINDS: [(&str, &str); 15] = [
    ("v1", "Namespace"),
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
    let snapshot = take(&args.target)?;
    if let ([], [problem, ..]) = (&*snapshot.items, &*snapshot.missed) {
        // An earlier snapshot in that file is worth more than an empty one.
        bail!("nothing could be read, so nothing was written: {problem}");
    }
    let text = snapshot.text()?;
    if args.output.as_os_str() == "-" {
        output::print(&text)?;
    } else {
        fs::write(&args.output, text).with_context(|| format!("cannot write `{}`", args.output.display()))?;
        output::print(&format!("{}: {} objects\n", args.output.display(), snapshot.items.len()))?;
    }
    snapshot.missed.iter().for_each(|problem| eprintln!("warning: {problem}; the snapshot is without them"));
    Ok(if snapshot.missed.is_empty() { Exit::Fine } else { Exit::NotJudged })
}

/// A snapshot of what is there now. What may not be read is left out.
pub fn take(target: &Target) -> anyhow::Result<Snapshot> {
    let mut opened = target.open()?;
    // Of some namespaces, those two are read otherwise.
    let is_listed = |kind: &str| opened.scope.is_all() || kind != "Namespace" && kind != KIND;
    let listed: Vec<_> = KINDS.into_iter().filter(|(_, kind)| is_listed(kind)).collect();
    opened.prefetch(&listed, &Progress::for_people());
    let mut snapshot = Snapshot::default();
    for (api_version, kind) in KINDS {
        match (kind, &opened.scope) {
            ("Namespace", Scope::In(names)) => {
                for name in names {
                    let found = opened.around.get(api_version, kind, None, name);
                    snapshot.take(found.map(|found| found.into_iter().collect()));
                }
            }
            (KIND, Scope::In(namespaces)) => {
                let profiles = opened.around.list(api_version, kind, Some(&profiles_namespace(&opened.settings)));
                snapshot
                    .take(profiles.map(|profiles| profiles.into_iter().map(|it| only_of(it, namespaces)).collect()));
            }
            (_, scope) => snapshot.take(scope.list(&mut opened.around, api_version, kind)),
        }
    }
    // OK because what cannot be listed for it was missed above.
    let advice = recommend::on_all(&mut opened, &Progress::for_people()).unwrap_or_default();
    snapshot.advice = summary::item(&advice);
    Ok(snapshot)
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

#[derive(Default)]
pub struct Snapshot {
    pub items: Vec<Value>,
    /// What the containers should request, by what they used.
    advice: Option<Value>,
    /// Why something is not in it.
    pub missed: Vec<String>,
    redaction: Redaction,
}

impl Snapshot {
    pub fn text(&self) -> anyhow::Result<String> {
        let items: Vec<&Value> = self.items.iter().chain(&self.advice).collect();
        output::json(&json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
    }

    fn take(&mut self, read: Result<Vec<Value>, String>) {
        match read {
            Ok(objects) => {
                for mut object in objects {
                    self.redaction.redact(&mut object);
                    if is_running(&object) {
                        self.items.push(object);
                    }
                }
            }
            Err(problem) if is_of_unknown_kind(&problem) => {}
            Err(problem) => self.missed.push(problem),
        }
    }
}

/// Whether an object is more than the history of another: old ReplicaSets are most of what many clusters hold.
fn is_running(object: &Value) -> bool {
    object.get("kind") != Some(&json!("ReplicaSet")) || object.pointer("/spec/replicas") != Some(&json!(0))
}
