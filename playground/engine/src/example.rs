//! The scenarios of the repository as examples of the page: each with the sentence of what it shows.
//!
//! Made when the page is built; the module of wasm has none of this.

#![expect(clippy::disallowed_methods, reason = "a tool of the build reads the repository")]

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use headroom_objects::manifest::{self, yaml};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::play::{Panel, Play};

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Example {
    /// The name of the scenario's file.
    pub name: String,
    pub title: String,
    pub group: &'static str,
    pub shows: String,
    pub namespace: String,
    pub panels: BTreeMap<Panel, String>,
}

/// The parts of a scenario that make an example. Its expectations are for the tests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scenario {
    shows: String,
    #[serde(default)]
    settings: Value,
    object: Option<Value>,
    old_object: Option<Value>,
    #[serde(default)]
    cluster: Vec<Value>,
    /// Parts that no panel can show: a recorded request, a subresource, a cluster that cannot be read.
    request: Option<Value>,
    subresource: Option<Value>,
    unreadable: Option<Value>,
}

impl Example {
    /// None for a scenario that the page cannot show.
    pub fn of_scenario(name: &str, scenario: &str) -> Result<Option<Self>, String> {
        let scenario = yaml::read(scenario, scenario.len()).map_err(|(_, problem)| problem)?;
        let scenario = Scenario::deserialize(scenario).map_err(|error| error.to_string())?;
        let Scenario { shows, settings, object: Some(object), old_object, cluster, .. } = &scenario else {
            return Ok(None);
        };
        let is_shown =
            [&scenario.request, &scenario.subresource, &scenario.unreadable].iter().all(|part| part.is_none());
        if !is_shown || object.get("kind").is_none() {
            return Ok(None);
        }
        let mut panels: BTreeMap<Panel, Vec<&Value>> = BTreeMap::new();
        panels.insert(Panel::Objects, vec![object]);
        cluster.iter().for_each(|object| panels.entry(panel_of(object)).or_default().push(object));
        panels.entry(Panel::Existing).or_default().extend(old_object);
        let mut panels: BTreeMap<Panel, String> =
            panels.into_iter().map(|(panel, objects)| (panel, documents(&objects))).collect();
        let mut settings = if settings.is_null() { json!({}) } else { settings.clone() };
        if let Some(fields) = settings.as_object_mut() {
            // Most scenarios are not about estimates; they would all warn about well-known images.
            fields.entry("estimates").or_insert_with(|| json!({"mode": "never"}));
        }
        panels.insert(Panel::Settings, yaml::write(&settings));
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("shop").to_owned();
        let story = STORIES.iter().find(|(scenario, _)| *scenario == name);
        let (title, group) =
            story.map_or_else(|| (title_of(name), group_of(name)), |(_, title)| ((*title).to_owned(), GROUPS[0]));
        Ok(Some(Self { name: name.to_owned(), title, group, shows: shows.clone(), namespace, panels }))
    }

    /// The input that the page gives to the engine for this example, with all of its objects in detail.
    pub fn play(&self) -> Play {
        Play {
            panels: self.panels.clone().into_iter().collect(),
            namespace: self.namespace.clone(),
            from: 0,
            count: usize::MAX,
        }
    }
}

/// The panel in which people look for an object.
fn panel_of(object: &Value) -> Panel {
    match object.get("kind").and_then(Value::as_str) {
        Some("LimitRange") => Panel::LimitRanges,
        Some("ResourceQuota") => Panel::Quotas,
        Some("UsageProfile") => Panel::Usage,
        Some("Namespace") => Panel::Namespaces,
        _ => Panel::Existing,
    }
}

fn documents(objects: &[&Value]) -> String {
    objects.iter().map(|object| yaml::write(object)).collect::<Vec<_>>().join("---\n")
}

/// `quota-names-every-quota` as `Quota names every quota`.
fn title_of(name: &str) -> String {
    let text = name.replace('-', " ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn group_of(name: &str) -> &'static str {
    match name.split('-').next() {
        Some("estimate") => "Estimates",
        Some("quota" | "limited") => "Quotas",
        Some("rule" | "exempt" | "wrong" | "template") => "Settings",
        _ => "LimitRanges",
    }
}

/// All examples of a repository: the shop first, then the scenarios that the page can show.
pub fn all(repository: &Path) -> Result<Vec<Example>, String> {
    let at = |path: &Path, error: &dyn Display| format!("{}: {error}", path.display());
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| at(path, &error));
    let mut examples = vec![shop(|file| read(&repository.join("docs/examples/shop").join(file)))?];
    let folder = repository.join("tests/scenarios");
    let entries = fs::read_dir(&folder).map_err(|error| at(&folder, &error))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        examples.extend(Example::of_scenario(&name, &read(&path)?).map_err(|problem| at(&path, &problem))?);
    }
    let place = |example: &Example| {
        let story = STORIES.iter().position(|(scenario, _)| *scenario == example.name);
        (GROUPS.iter().position(|group| *group == example.group), story)
    };
    examples.sort_by_key(place);
    Ok(examples)
}

/// The namespace of the README's tour, with its manifests.
fn shop(read: impl Fn(&str) -> Result<String, String>) -> Result<Example, String> {
    let texts = |files: &[&str]| -> Result<String, String> {
        let texts: Vec<String> = files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
        Ok(texts.join("---\n"))
    };
    let mut panels = BTreeMap::new();
    panels.insert(Panel::Objects, texts(&["app/cache.yaml", "app/migrate.yaml", "app/web.yaml"])?);
    let mut around: BTreeMap<Panel, Vec<Value>> = BTreeMap::new();
    for read in manifest::documents::read(&texts(&["cluster/namespace.yaml", "cluster/running.yaml"])?) {
        let (_, object) = read.map_err(|(line, problem)| format!("docs/examples/shop: line {line}: {problem}"))?;
        around.entry(panel_of(&object)).or_default().push(object);
    }
    for (panel, objects) in &around {
        panels.insert(*panel, documents(&objects.iter().collect::<Vec<_>>()));
    }
    panels.insert(Panel::Usage, texts(&["usage/shop.yaml"])?);
    panels.insert(Panel::Settings, texts(&["settings.yaml"])?);
    Ok(Example {
        name: "shop".to_owned(),
        title: "Tour: three manifests, three outcomes".to_owned(),
        group: GROUPS[0],
        shows: "One Pod exceeds the maximum, one gets missing values, and one Deployment doesn't fit its quota."
            .to_owned(),
        namespace: "shop".to_owned(),
        panels,
    })
}

/// The scenarios that people meet first, after the shop, in their own words.
const STORIES: [(&str, &str); 7] = [
    ("quota-warns-a-deployment", "Quota has no room for a rollout"),
    ("estimate-from-own-history", "No requests set: fill them from usage"),
    ("every-breach-at-once", "Every violation at once, with its fix"),
    ("default-limit-becomes-the-request", "Default limit below the minimum request"),
    ("deployment-is-warned", "A Deployment whose Pods would be rejected"),
    ("tenant-quota-warns-a-deployment", "One quota for several namespaces"),
    ("rule-fills-in", "Your own defaults, without a LimitRange"),
];

const GROUPS: [&str; 5] = ["Stories", "LimitRanges", "Quotas", "Estimates", "Settings"];
