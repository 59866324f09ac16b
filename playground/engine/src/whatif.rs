//! A cluster's snapshot, and what other LimitRanges, quotas and settings would do to everything that runs in it.

use std::collections::BTreeSet;
use std::path::Path;

use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, ObjectDecision, request};
use headroom_dry_run::overlay::tenants::TENANT_QUOTA;
use headroom_dry_run::settings;
use headroom_dry_run::simulate::report::{Report, report};
use headroom_dry_run::simulate::{Simulation, Subjects, put};
use headroom_objects::cluster_reader::folder::in_namespace;
use headroom_objects::cluster_reader::{ClusterReader, Folder};
use headroom_objects::kinds::{ApiKind, SNAPSHOT, keep, metadata, text};
use headroom_objects::manifest::{self, Manifest, yaml};
use serde::Serialize;
use serde_json::{Value, json};

use crate::memo::Memo;
use crate::play::{Panel, Play, Problem, QuotaChange, levels, quotas};

/// A snapshot that was opened, and everything in it evaluated as things are.
pub struct OpenedSnapshot {
    objects: Folder,
    /// Those that are there, and those in which something is.
    namespaces: Vec<String>,
    simulation: Simulation,
}

/// A summary of a snapshot, when it is opened.
#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub objects: usize,
    pub namespaces: Vec<String>,
    pub quotas: Vec<QuotaChange>,
    /// As panels, to be changed. Everything is evaluated now by these settings; by the defaults if there are none.
    pub limit_ranges: String,
    pub quota_manifests: String,
    pub settings: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    pub report: Report,
    pub namespaces: Vec<Limits>,
    pub problems: Vec<Problem>,
}

/// The effect of LimitRanges and settings together in a namespace, shown by a container that sets nothing.
#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Limits {
    pub namespace: String,
    pub story: ObjectDecision,
}

/// The most namespaces whose limits are worked out: nobody reads more.
const MOST_NAMESPACES: usize = 100;

impl OpenedSnapshot {
    /// Opens what `kubectl headroom snapshot` wrote, or any objects.
    pub fn open(snapshot: &str) -> Result<(Self, Overview), String> {
        let mut manifests = manifest::read_text(Path::new("snapshot"), snapshot).map_err(|error| error.to_string())?;
        let about = manifests.extract_if(.., |of| text(&of.object, "/kind") == SNAPSHOT.1).last();
        let settings = about.and_then(|mut about| about.object.pointer_mut("/spec/settings").map(Value::take));
        let settings = settings.filter(|settings| !settings.is_null()).unwrap_or_else(|| json!({}));
        if manifests.is_empty() {
            return Err(
                "the file holds no objects: write one with `kubectl headroom snapshot -A -o cluster.json`".to_owned()
            );
        }
        let objects = manifests.len();
        settings::check(&settings).map_err(|error| error.to_string())?;
        // Where an object names no namespace, the file was not read from a cluster; kubectl's default is as good as any.
        let folder = Folder::of(manifests, "default").map_err(|error| error.to_string())?;
        let mut around = Overlay::new(Folder::default(), Some(Box::new(folder.clone())));
        let admission = Admission::of_settings(&settings);
        let subjects = Subjects::find(&mut around, None, &|_| true, &admission);
        let simulation = Simulation::begin(subjects, &admission, &mut around);
        let full = levels(&mut around);
        let of_tenants = around.list((TENANT_QUOTA.0, TENANT_QUOTA.1, None)).unwrap_or_default();
        let mut list = |kind: &str| around.list(("v1", kind, None)).unwrap_or_default();
        let there = list("Namespace");
        let names = there.iter().map(|namespace| metadata(namespace, "name").to_owned());
        let namespaces: BTreeSet<String> = names.chain(simulation.namespaces()).collect();
        let namespaces = Vec::from_iter(namespaces);
        let overview = Overview {
            objects,
            namespaces: namespaces.clone(),
            quotas: quotas(&full, &full),
            limit_ranges: written(list("LimitRange")),
            quota_manifests: written([list("ResourceQuota"), of_tenants].concat()),
            settings: if settings == json!({}) { String::new() } else { yaml::write(&settings) },
        };
        Ok((Self { objects: folder, namespaces, simulation }, overview))
    }

    /// Evaluates everything as the panels would have it.
    pub fn evaluate(&self, play: &Play, memo: &mut Memo) -> Trial {
        memo.begin();
        let mut problems = Vec::new();
        let settings = play.settings(&mut problems);
        let mut around = Overlay::new(Folder::default(), Some(Box::new(self.objects.clone())));
        let replaced: [(Panel, &[(&str, &str)]); 3] = [
            (Panel::Namespaces, &[]),
            (Panel::LimitRanges, &[("v1", "LimitRange")]),
            (Panel::Quotas, &[("v1", "ResourceQuota"), TENANT_QUOTA]),
        ];
        for (panel, kinds) in replaced {
            let before = problems.len();
            for Manifest { origin, object } in play.read_sound(panel, memo, &mut problems) {
                for object in placed(object, &self.namespaces) {
                    if let Err(text) = put(object, &mut around) {
                        problems.push(Problem { panel, line: origin.line, text });
                    }
                }
            }
            // Such a panel has all that there is, and what is deleted from it is gone; but not while it is being written.
            if problems.len() == before {
                kinds.iter().for_each(|(api_version, kind)| around.replace_all(api_version, kind));
            }
        }
        let admission = Admission::of_settings(&settings);
        let effects = self.simulation.end(&admission, &mut around);
        let some = self.namespaces.iter().take(MOST_NAMESPACES);
        let namespaces = some.map(|namespace| Limits::of(namespace, &admission, &mut around)).collect();
        Trial { report: report(&effects), namespaces, problems }
    }
}

impl Limits {
    fn of(namespace: &str, admission: &Admission, around: &mut Overlay) -> Self {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any", "namespace": namespace},
            "spec": {"containers": [{"name": "any", "image": "any"}]}});
        // As one that is counted already: quotas are shown by themselves.
        let decision = admission.evaluate(request::audit(pod.clone(), &ApiKind::of(&pod)), around);
        Self { namespace: namespace.to_owned(), story: decision.explained(None, &pod) }
    }
}

/// An object in its namespace, or in every one if it names none.
fn placed(object: Value, namespaces: &[String]) -> Vec<Value> {
    if !ApiKind::of(&object).is_namespaced || !metadata(&object, "namespace").is_empty() {
        return vec![object];
    }
    namespaces.iter().map(|namespace| in_namespace(object.clone(), namespace)).collect()
}

/// Objects as people write them: without what the cluster adds.
fn written(objects: Vec<Value>) -> String {
    let texts = objects.into_iter().map(|mut object| {
        if let Value::Object(fields) = &mut object {
            fields.remove("status");
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                keep(metadata, &mut |name, _| matches!(name, "name" | "namespace" | "labels"));
            }
        }
        yaml::write(&object)
    });
    texts.collect::<Vec<_>>().join("---\n")
}
