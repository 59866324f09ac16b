//! A cluster's snapshot, and what other LimitRanges, quotas and settings would do to everything that runs in it.

use std::path::Path;
use std::rc::Rc;

use headroom_desk::kinds::{ADVICE, ApiKind, metadata};
use headroom_desk::manifest::{self, Manifest, yaml};
use headroom_desk::settings;
use headroom_desk::simulate::report::{Report, report};
use headroom_desk::simulate::{Simulation, Subjects, put};
use headroom_desk::surroundings::folder::in_namespace;
use headroom_desk::surroundings::{Folder, Overlay, Surroundings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::play::{Level, Panel, Play, Problem, levels, quotas};

/// A snapshot that was opened, and everything in it judged as things are.
pub struct Cluster {
    objects: Rc<Folder>,
    simulation: Simulation,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// The file that `kubectl headroom snapshot` wrote, or any objects.
    pub snapshot: String,
    /// The settings that the cluster's policy has now.
    pub settings: String,
}

/// A summary of a snapshot, when it is opened.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub objects: usize,
    pub namespaces: Vec<String>,
    pub quotas: Vec<Level>,
    /// As panels, to be changed.
    pub limit_ranges: String,
    pub quota_manifests: String,
    /// As `kubectl headroom snapshot` wrote it, by the settings and LimitRanges of then.
    pub advice: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    pub report: Report,
    pub problems: Vec<Problem>,
}

impl Cluster {
    pub fn open(opening: &Opening) -> Result<(Self, Overview), String> {
        let mut manifests =
            manifest::read_text(Path::new("snapshot"), &opening.snapshot).map_err(|error| error.to_string())?;
        let is_advice = |manifest: &Manifest| manifest.object.get("kind").and_then(Value::as_str) == Some(ADVICE.1);
        let advice = manifests.extract_if(.., |manifest| is_advice(manifest)).last();
        let advice = advice.and_then(|mut advice| advice.object.get_mut("spec").map(Value::take));
        if manifests.is_empty() {
            return Err(
                "the file holds no objects: write one with `kubectl headroom snapshot -A -o cluster.json`".to_owned()
            );
        }
        let objects = manifests.len();
        let settings = settings::in_text(Path::new("settings"), &opening.settings)?;
        settings::check(&settings).map_err(|error| error.to_string())?;
        // Where an object names no namespace, the file was not read from a cluster; kubectl's default is as good as any.
        let folder = Rc::new(Folder::of(manifests, "default").map_err(|error| error.to_string())?);
        let mut around = Overlay::new(Folder::default(), Some(Box::new(Rc::clone(&folder))));
        let subjects = Subjects::find(&mut around, None, &|_| true, &settings.to_string());
        let simulation = Simulation::begin(subjects, &settings.to_string(), &mut around);
        let full = levels(&mut around);
        let mut list = |kind: &str| around.list("v1", kind, None).unwrap_or_default();
        let overview = Overview {
            objects,
            namespaces: simulation.namespaces(),
            quotas: quotas(&full, &full),
            limit_ranges: written(list("LimitRange")),
            quota_manifests: written(list("ResourceQuota")),
            advice,
        };
        Ok((Self { objects: folder, simulation }, overview))
    }

    /// Judges everything as the panels would have it.
    pub fn judge(&self, play: &Play) -> Trial {
        let mut problems = Vec::new();
        let settings = play.settings(&mut problems);
        let mut around = Overlay::new(Folder::default(), Some(Box::new(Rc::clone(&self.objects))));
        let namespaces = self.simulation.namespaces();
        for panel in [Panel::Namespaces, Panel::LimitRanges, Panel::Quotas] {
            for Manifest { origin, object } in play.read_sound(panel, &mut problems) {
                for object in placed(object, &namespaces) {
                    if let Err(text) = put(object, &mut around) {
                        problems.push(Problem { panel, line: origin.line, text });
                    }
                }
            }
        }
        let effects = self.simulation.end(&settings.to_string(), &mut around);
        Trial { report: report(&effects), problems }
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
                metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace" | "labels"));
            }
        }
        yaml::write(&object)
    });
    texts.collect::<Vec<_>>().join("---\n")
}
