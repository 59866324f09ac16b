//! Recommendations as changes: patches for kustomize and for the API server, values for Helm, edits of manifests.
//!
//! A patch contains only values that differ, and exists only for kinds whose pod template we can locate. If a
//! HorizontalPodAutoscaler scales by utilization, its target is adjusted too, so that it scales as before.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use headroom_admission::amount::{Quantity, Requirement};
use headroom_objects::kinds::{ApiKind, metadata, set};
use headroom_objects::shell::ShellCommand;
use headroom_output::Page;
use serde_json::{Map, Value, json};

use crate::advice::autoscaler::Scaled;
use crate::advice::flag::Flag;
use crate::advice::template::{self, container_in, set_amount};
use crate::advice::workload::{ContainerAdvice, Workload};
use crate::report::Recommendations;
use crate::write::edit::{Edit, EditPlace, TargetEdit, are_in_values};
use headroom_workloads::WorkloadRef;
use headroom_workloads::autoscaler::{FIRST_VERSION_TARGET, HORIZONTAL};

/// A workload with the amounts to set in its containers.
#[derive(Debug, Clone)]
pub struct RecommendedChange<'w> {
    pub workload: &'w Workload,
    pub containers: Vec<ContainerChange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerChange {
    pub name: String,
    pub is_init: bool,
    /// Limits first.
    pub amounts: Vec<(Requirement, Amounts)>,
}

pub type Amounts = Vec<(&'static str, Quantity)>;

/// Changes of one object: an apply configuration, which is a strategic merge patch too, or for a custom resource the operations
/// of a JSON patch.
#[derive(Debug, Clone)]
pub struct Patch {
    pub kind: ApiKind,
    pub namespace: String,
    pub name: String,
    pub body: Value,
}

impl<'w> From<&'w Workload> for RecommendedChange<'w> {
    fn from(workload: &'w Workload) -> Self {
        let containers = if workload.why_unpatched().is_none() { workload.containers.as_slice() } else { &[] };
        Self { workload, containers: containers.iter().filter_map(ContainerChange::of).collect() }
    }
}

impl Recommendations {
    /// The changes of all workloads that differ from their recommendations, but for those that would be blocked, in the order in
    /// which they fit.
    pub fn changes(&self) -> Vec<RecommendedChange<'_>> {
        let mut passing: Vec<&Workload> = self.workloads.iter().filter(|of| of.is_handed_out()).collect();
        passing.sort_by_key(|of| of.turn);
        passing.into_iter().map(RecommendedChange::from).filter(|change| !change.containers.is_empty()).collect()
    }

    /// The workloads that differ from their recommendation and are in no patch, with the reason.
    pub fn left_out(&self) -> Vec<String> {
        let differing =
            self.workloads.iter().filter(|of| of.containers.iter().any(|of| ContainerChange::of(of).is_some()));
        let why = |of: &Workload| {
            let blocked = of.blocked.as_ref();
            of.why_unpatched().or_else(|| Some(blocked?.to_string()))
        };
        differing.filter_map(|of| Some(format!("left out: {} {}: {}", of.key.namespace, of.key, why(of)?))).collect()
    }

    /// Notes beside the changes: who else decides, and the flags that matter to whoever applies them.
    pub fn beside_changes(&self) -> Vec<String> {
        let beside = |change: RecommendedChange<'_>| {
            let of = change.workload;
            let deciders = (!of.decided_by.is_empty())
                .then(|| format!("decided by {} too, which may change or revert this", of.decided_by.join(" and ")));
            let flags = of.containers.iter().flat_map(|of| &of.flags).filter(|flag| flag.goes_beside_patches());
            let flags: BTreeSet<&str> = flags.filter_map(Flag::explained).collect();
            let told = of.containers.iter().flat_map(ContainerAdvice::told_in_words);
            let lines = deciders.into_iter().chain(flags.into_iter().map(str::to_owned)).chain(told);
            lines.map(|line| format!("{} {}: {line}", of.key.namespace, of.key)).collect::<Vec<_>>()
        };
        self.changes().into_iter().flat_map(beside).collect()
    }

    /// The same and the changes that kustomize cannot make, with the command that does.
    pub fn left_out_of_kustomize(&self) -> Vec<String> {
        let patches = self.changes().into_iter().flat_map(|change| change.patches()).filter(Patch::is_json);
        let by_command = patches.map(|patch| {
            let command = patch.command(ShellCommand::of("kubectl"), &patch.body);
            format!("left out: {patch}: kustomize would replace the containers of a custom resource: {command}")
        });
        self.left_out().into_iter().chain(by_command).collect()
    }

    /// The same and the targets of autoscalers, which values of a chart have at places of their own.
    pub fn left_out_of_values(&self) -> Vec<String> {
        let targets = |change: RecommendedChange<'_>| {
            let WorkloadRef { namespace, .. } = &change.workload.key;
            let scaled = change.workload.autoscalers.iter();
            scaled.map(|of| format!("left out: {namespace} {}: {of}", change.workload.key)).collect::<Vec<_>>()
        };
        self.left_out().into_iter().chain(self.changes().into_iter().flat_map(targets)).collect()
    }

    /// The changes that the API server takes while everything runs, and what is left out: also pods, whose requests are set by a
    /// command of their own.
    pub fn changes_of_cluster(&self, kubectl: &ShellCommand) -> (Vec<RecommendedChange<'_>>, Vec<String>) {
        let (pods, changes): (Vec<_>, _) =
            self.changes().into_iter().partition(|change| change.workload.key.kind == "Pod");
        let by_command = pods.iter().flat_map(RecommendedChange::patches).map(|patch| {
            let command = patch.command(kubectl.clone(), &patch.body);
            format!("left out: {patch}: a pod without a workload is created again, or resized in place: {command}")
        });
        (changes, self.left_out().into_iter().chain(by_command).collect())
    }
}

impl ContainerChange {
    /// None if there is nothing to set, or the template does not have the container.
    fn of(container: &ContainerAdvice) -> Option<Self> {
        if container.injected.is_some() {
            return None;
        }
        let resources = container.resources.iter();
        let limits = resources.clone().filter_map(|of| Some((of.resource.name(), of.recommended_limit.clone()?)));
        let requests = resources.filter_map(|of| Some((of.resource.name(), of.to_write()?.clone())));
        let both = [(Requirement::Limit, limits.collect()), (Requirement::Request, requests.collect::<Amounts>())];
        let amounts: Vec<_> = both.into_iter().filter(|(_, amounts)| !amounts.is_empty()).collect();
        (!amounts.is_empty()).then(|| Self { name: container.name.clone(), is_init: container.is_init, amounts })
    }

    fn resources(&self) -> Value {
        let amounts = |amounts: &Amounts| -> Map<String, Value> {
            amounts.iter().map(|(name, amount)| ((*name).to_owned(), json!(amount.to_string()))).collect()
        };
        self.amounts
            .iter()
            .map(|(requirement, amounts_of)| (requirement.field().to_owned(), json!(amounts(amounts_of))))
            .collect()
    }
}

impl RecommendedChange<'_> {
    /// The patch of the workload, and those of its autoscalers.
    pub fn patches(&self) -> Vec<Patch> {
        with_targets(self.patch(), &self.workload.autoscalers)
    }

    pub fn applied_to(&self, object: &Value) -> Value {
        let (mut changed, path) = (object.clone(), self.path());
        for container in &self.containers {
            for (requirement, amounts) in &container.amounts {
                for (name, amount) in amounts {
                    let place = (container.name.as_str(), container.is_init);
                    set_amount(&mut changed, &path, place, (*requirement, name), Some(amount));
                }
            }
        }
        changed
    }

    /// From the object to the pod in it.
    fn path(&self) -> Vec<&str> {
        match &self.workload.custom {
            Some(custom) => custom.path.iter().map(String::as_str).collect(),
            None => self.workload.path.clone(),
        }
    }

    fn patch(&self) -> Patch {
        let WorkloadRef { namespace, kind, name } = &self.workload.key;
        if let Some(custom) = &self.workload.custom {
            let object = custom.object.value();
            let operations = self
                .containers
                .iter()
                .filter_map(|of| template::operations(&object, &self.path(), (&of.name, of.is_init), &of.amounts));
            let body = operations.flatten().collect();
            return Patch { kind: custom.kind.clone(), namespace: namespace.clone(), name: name.clone(), body };
        }
        let mut spec = Map::new();
        for (field, is_init) in [("containers", false), ("initContainers", true)] {
            let of_field = self.containers.iter().filter(|container| container.is_init == is_init);
            let patched: Vec<Value> =
                of_field.map(|container| json!({"name": container.name, "resources": container.resources()})).collect();
            if !patched.is_empty() {
                spec.insert(field.to_owned(), Value::Array(patched));
            }
        }
        let body = self.path().into_iter().rev().fold(json!({"spec": spec}), |inner, key| json!({key: inner}));
        Patch::new(&self.workload.api_version, kind, namespace, name, body)
    }

    /// Edits of the workload's manifest, of which `is_wanted` tells those that it should have. A limit is only changed where the
    /// manifest has one: elsewhere something else sets it.
    pub fn edits(
        &self,
        manifest: &Value,
        is_wanted: impl Fn(&ContainerChange, Requirement, &str) -> bool,
    ) -> Vec<Edit> {
        let object = WorkloadRef::of(manifest);
        let mut edits = Vec::new();
        for container in &self.containers {
            for (requirement, amounts) in &container.amounts {
                let mut amounts = amounts.clone();
                amounts.retain(|(name, _)| {
                    let is_new_limit =
                        *requirement == Requirement::Limit && !self.sets(manifest, container, *requirement, name);
                    !is_new_limit && is_wanted(container, *requirement, name)
                });
                if !amounts.is_empty() {
                    let path = self.path().into_iter().map(str::to_owned).collect();
                    let place = EditPlace::Container { object: object.clone(), path, name: container.name.clone() };
                    edits.push(Edit { place, requirement: *requirement, amounts });
                }
            }
        }
        edits
    }

    /// True if a manifest has an amount.
    pub fn sets(&self, manifest: &Value, container: &ContainerChange, requirement: Requirement, name: &str) -> bool {
        let found = container_in(manifest, &self.path(), (&container.name, container.is_init));
        let place = format!("/resources/{}/{name}", requirement.field());
        found.is_some_and(|container| container.pointer(&place).is_some())
    }

    /// The place of a container's resources in the values of a chart.
    fn keys_in_values(&self, container: &ContainerChange, path: &str) -> Vec<String> {
        let filled = |key: &str| {
            let key = key.replace("{kind}", &self.workload.key.kind.to_lowercase());
            key.replace("{name}", &self.workload.key.name).replace("{container}", &container.name)
        };
        path.split('.').map(filled).collect()
    }

    /// Edits of a chart's values, of the containers whose `resources` are at a place that these have.
    pub fn edits_of_values(&self, values: &Value, path: &str) -> Vec<Edit> {
        let mut edits = Vec::new();
        for container in &self.containers {
            let mut keys = self.keys_in_values(container, path);
            if keys.pop().is_none_or(|last| last != "resources") {
                continue;
            }
            for (requirement, amounts) in &container.amounts {
                if are_in_values(values, &keys, *requirement, amounts) {
                    let (place, amounts) = (EditPlace::Values(keys.clone()), amounts.clone());
                    edits.push(Edit { place, requirement: *requirement, amounts });
                }
            }
        }
        edits
    }

    /// True if an object of a file is the workload; a patch of it may be in any.
    pub fn is_of(&self, object: &Value, file: &Path, is_patch: bool) -> bool {
        (is_patch || self.workload.file.as_ref().is_none_or(|own| *own == file.display().to_string()))
            && ApiKind::of(object).api_version() == self.workload.api_version
            && WorkloadRef::of(object) == self.workload.key
    }

    /// Edits of the manifest of an autoscaler; none if it is not about this workload, or has no target.
    pub fn targets(&self, object: &Value, manifest: &Value) -> Vec<TargetEdit> {
        let kind = ApiKind::of(object);
        let is_it = |scaled: &&Scaled| {
            kind.kind == HORIZONTAL
                && kind.group == "autoscaling"
                && has_target(manifest)
                && metadata(object, "namespace") == self.workload.key.namespace
                && metadata(object, "name") == scaled.name
        };
        let target = |scaled: &Scaled| TargetEdit {
            object: WorkloadRef::of(manifest),
            resource: scaled.resource.clone(),
            container: scaled.container.clone(),
            percent: scaled.target_to_keep,
        };
        self.workload.autoscalers.iter().filter(is_it).map(target).collect()
    }
}

/// True if an autoscaler names what it scales by. If not, the API server does, and a manifest has nothing to edit.
fn has_target(manifest: &Value) -> bool {
    ["metrics", FIRST_VERSION_TARGET].iter().any(|field| manifest.pointer(&format!("/spec/{field}")).is_some())
}

/// The patch of a workload among those of its autoscalers' targets, in an order in which nothing is scaled down for a moment: a
/// target is raised after the requests have been made smaller, and lowered before they are made larger.
fn with_targets(patch: Patch, autoscalers: &[Scaled]) -> Vec<Patch> {
    let (mut patches, mut after) = (Vec::new(), Vec::new());
    for targets in autoscalers.chunk_by(|a, b| a.name == b.name) {
        let [Scaled { name, api_version, metrics, target_to_keep, .. }, ..] = targets else { continue };
        let mut metrics = metrics.clone();
        for Scaled { place, target_to_keep, .. } in targets {
            for source in ["resource", "containerResource"] {
                let target = metrics.pointer_mut(&format!("/{place}/{source}/target/averageUtilization"));
                target.into_iter().for_each(|target| *target = (*target_to_keep).into());
            }
        }
        // The first version has the one target, and takes no metrics.
        let body = match api_version.as_str() {
            "autoscaling/v1" => json!({"spec": {FIRST_VERSION_TARGET: target_to_keep}}),
            _ => json!({"spec": {"metrics": metrics}}),
        };
        let is_lowered = targets.iter().all(|of| of.target_to_keep < of.target_percent);
        let of_autoscaler = Patch::new(api_version, HORIZONTAL, &patch.namespace, name, body);
        if is_lowered { &mut patches } else { &mut after }.push(of_autoscaler);
    }
    patches.push(patch);
    patches.append(&mut after);
    patches
}

impl Patch {
    fn new(api_version: &str, kind: &str, namespace: &str, name: &str, mut body: Value) -> Self {
        let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
        if !namespace.is_empty() {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        set(&mut body, "apiVersion", json!(api_version));
        set(&mut body, "kind", json!(kind));
        set(&mut body, "metadata", Value::Object(metadata));
        Self { kind: ApiKind::new(api_version, kind), namespace: namespace.to_owned(), name: name.to_owned(), body }
    }

    /// True for a list of operations; else it is merged.
    pub fn is_json(&self) -> bool {
        self.body.is_array()
    }

    /// The patch as a file: YAML, or JSON for operations.
    pub fn text(&self) -> String {
        let text = if self.is_json() { Page::json(&self.body) } else { Page::yaml(&self.body) };
        // OK because a value can always be written.
        text.map(|page| page.to_string()).unwrap_or_default()
    }

    /// The patch that puts back what `before` had, and takes away what it had not. The object's name is not in it.
    pub fn put_back(&self, before: &Value) -> Value {
        if let Some(operations) = self.body.as_array() {
            return template::undone(operations, before);
        }
        json!({"spec": had(self.body.get("spec").unwrap_or(&Value::Null), before.get("spec"))})
    }

    /// The command that makes the change, or another of the same object. The rest of `kubectl` leads to the cluster.
    pub fn command(&self, kubectl: ShellCommand, body: &Value) -> ShellCommand {
        // With the version, or kubectl would take the one that the cluster prefers, which may not know the field.
        let kind = match (self.kind.kind.to_lowercase(), self.kind.group.as_str()) {
            (kind, "") => kind,
            (kind, group) => format!("{kind}.{}.{group}", self.kind.version),
        };
        let object = format!("{kind}/{}", self.name);
        let how = if self.is_json() { "json" } else { "strategic" };
        let resize: &[&str] = if self.kind.qualified() == "pods" { &["--subresource", "resize"] } else { &[] };
        let command = kubectl.words(["patch", &object, "--namespace", &self.namespace]).words(resize);
        command.words(["--type", how, "--patch", &body.to_string()])
    }
}

/// `shop deployment/web`
impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.namespace, self.kind.kind.to_lowercase(), self.name)
    }
}

/// The values that a patch replaces. Lists of named items are merged by their names; others are set as a whole.
fn had(patch: &Value, before: Option<&Value>) -> Value {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    match patch {
        Value::Object(fields) => {
            let of = |(key, value): (&String, &Value)| match key.as_str() {
                "name" => (key.clone(), value.clone()),
                _ => (key.clone(), had(value, before.and_then(|before| before.get(key)))),
            };
            fields.iter().map(of).collect()
        }
        Value::Array(items) if items.iter().all(|item| name(item).is_some()) => {
            let there = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let same = |item: &Value| there.iter().find(|before| name(before) == name(item));
            items.iter().map(|item| had(item, same(item))).collect()
        }
        _ => before.cloned().unwrap_or(Value::Null),
    }
}

/// A file with what it leaves out as comments at its top.
pub fn commented(left_out: &[String], file: Page) -> Page {
    let lines = left_out.iter().flat_map(|text| text.lines());
    let mut page = Page::document(&lines.map(|line| format!("# {line}\n")).collect::<String>());
    page.append(file);
    page
}

/// A patch for each object, as documents of one file.
pub fn kustomize(changes: &[RecommendedChange<'_>]) -> anyhow::Result<Page> {
    let mut page = Page::new();
    for patch in changes.iter().flat_map(RecommendedChange::patches).filter(|patch| !patch.is_json()) {
        if !page.is_empty() {
            page.append(Page::document("---\n"));
        }
        page.append(Page::yaml(&patch.body)?);
    }
    Ok(page)
}

/// The default path of a container's resources in a chart's values.
pub const VALUES_PATH: &str = "{name}.{container}.resources";

/// Values for a chart, each container's resources at `path`, in which `{kind}`, `{name}` and `{container}` stand for the
/// object's kind and name and the container's name. Two containers at one place are refused.
pub fn helm(changes: &[RecommendedChange<'_>], path: &str) -> Result<Value, String> {
    let mut values = json!({});
    for change in changes {
        for container in &change.containers {
            let keys = change.keys_in_values(container, path);
            if !put(&mut values, &keys, container.resources()) {
                return Err(format!(
                    "two containers would have their values at `{}`: choose --values-path with {{name}} and {{container}} in \
                     it, or ask for one object",
                    keys.join(".")
                ));
            }
        }
    }
    Ok(values)
}

/// Sets a value at a path; false if there is one already.
fn put(values: &mut Value, keys: &[String], resources: Value) -> bool {
    let mut at = values;
    for key in keys {
        let Value::Object(fields) = at else { return false };
        at = fields.entry(key.clone()).or_insert_with(|| json!({}));
    }
    let is_free = at.as_object().is_some_and(Map::is_empty);
    if is_free {
        *at = resources;
    }
    is_free
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch() -> Patch {
        let resources = json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m"}});
        let body = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "resources": resources}]}}}});
        Patch::new("apps/v1", "Deployment", "shop", "web", body)
    }

    #[test]
    fn what_is_put_back_is_what_was_there() {
        let before = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "b", "resources": {"requests": {"cpu": "2"}}},
            {"name": "a", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]}}}});
        let back = patch().put_back(&before);
        let container = json!({"name": "a", "resources": {"limits": {"memory": null}, "requests": {"cpu": "1"}}});
        assert_eq!(back, json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
    }

    #[test]
    fn nothing_is_scaled_down_while_requests_change() {
        let metrics = |percent: u64| {
            json!([{"type": "External", "external": {"kept": true}}, {"type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}])
        };
        let scaled = |target_percent: u64, target_to_keep: u64| Scaled {
            name: "web".to_owned(),
            resource: "cpu".to_owned(),
            container: None,
            target_percent,
            target_to_keep,
            pods: 2,
            pods_after: 4,
            inactive: None,
            bound: None,
            api_version: "autoscaling/v2".to_owned(),
            metrics: metrics(target_percent),
            place: 1,
        };
        let check = |target: u64, kept: u64, expected: [&str; 2]| {
            let patches = with_targets(patch(), &[scaled(target, kept)]);
            assert_eq!(patches.iter().map(Patch::to_string).collect::<Vec<_>>(), expected);
            let autoscaler = patches.iter().find(|patch| patch.kind.group == "autoscaling").unwrap();
            assert_eq!(autoscaler.body["spec"]["metrics"], metrics(kept));
            let before = json!({"spec": {"maxReplicas": 5, "metrics": metrics(target)}});
            assert_eq!(autoscaler.put_back(&before), json!({"spec": {"metrics": metrics(target)}}));
        };
        let (workload, autoscaler) = ("shop deployment/web", "shop horizontalpodautoscaler/web");
        check(70, 140, [workload, autoscaler]);
        check(70, 35, [autoscaler, workload]);
        let of_first_version = Scaled { api_version: "autoscaling/v1".to_owned(), ..scaled(70, 140) };
        let patches = with_targets(patch(), &[of_first_version]);
        assert_eq!(patches[1].body["spec"], json!({"targetCPUUtilizationPercentage": 140}));
        assert!(has_target(&patches[1].body) && !has_target(&json!({"spec": {"maxReplicas": 9}})));
    }
}
