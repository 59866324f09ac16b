//! The workloads that run in a namespace, as they are decided about.

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::{Mode, Time, Used};
use headroom_admission::timestamp::Timestamp;
use headroom_dry_run::evaluate::Admission;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{ApiKind, items, metadata, number, text};
use headroom_workloads::WorkloadRef;
use headroom_workloads::autoscaler::Autoscalers;
use headroom_workloads::kinds::{self, POD, PodKind, REPLICA_SET, counts, updated_count};
use headroom_workloads::running::{by_workload, has_ended};
use serde_json::Value;

use crate::facts::{self, Facts};
use crate::observed::{ContainerFacts, RESIZE, amounts, at, observed};
use crate::slim;

/// A namespace's share of memory: its pods are kept up to so many containers, and whole templates up to so many bytes, of which one may
/// have some. A workload beyond them is only raised for what happens to its pods.
const MOST_CONTAINERS: usize = 20_000;
const LARGEST_OWNER: usize = 256 << 10;
const MOST_BYTES_OF_OWNERS: usize = 16 << 20;

/// The modes that pods may have, whatever they ask for.
#[derive(Debug, Clone, Copy)]
pub struct Modes {
    /// The mode even where less is asked for: a person has said so.
    pub least: Mode,
    /// The mode where nothing asks for one.
    pub unasked: Mode,
    pub most: Mode,
}

/// Recent usage by pod and container.
pub type Usage = BTreeMap<(String, String), Used>;

pub struct RunningWorkload {
    pub workload: WorkloadRef,
    /// The workload's object, where its kind is Kubernetes' own.
    pub object: Option<Value>,
    pub pods: Vec<Value>,
    /// Facts about containers, by the controller of their pods.
    facts: BTreeMap<WorkloadRef, Facts>,
    /// The controllers whose templates were not evaluated yet.
    unlearned: Vec<Value>,
    left_alone: Option<String>,
    /// The least mode that its object or its namespace asks for.
    asked: Option<Mode>,
    modes: Modes,
}

/// Reads the workloads of a namespace. Nothing is known of any of them if one list cannot be read. [`RunningWorkload::learn`] comes after.
pub fn read(namespace: &Value, modes: Modes, cluster: &mut dyn ClusterReader) -> Result<Vec<RunningWorkload>, String> {
    let name = metadata(namespace, "name");
    let (mut pods, mut containers) = (Vec::new(), 0);
    cluster.visit(kinds::list(&POD, Some(name)), &mut |pod| {
        containers += items(&pod, "/spec/containers").count();
        if containers <= MOST_CONTAINERS {
            pods.push(slim::pod(pod));
        }
    })?;
    if containers > MOST_CONTAINERS {
        tracing::warn!(namespace = name, containers, "only the first {MOST_CONTAINERS} containers are looked at");
    }
    // Static pods are a node's.
    pods.retain(|pod| !has_ended(pod) && WorkloadRef::owner_of(pod).is_none_or(|owner| owner.kind != "Node"));
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let autoscalers = Autoscalers::read(cluster, name)?;
    let makers = pods.iter().filter_map(WorkloadRef::owner_of).collect();
    let (mut objects, mut unread) = (Objects { owners: makers, ..Objects::default() }, None);
    let by_workload = by_workload(pods, &mut |maker| match find(maker, &mut objects, cluster) {
        Ok(object) => WorkloadRef::owner_of(&object?),
        Err(error) => {
            unread.get_or_insert(error);
            None
        }
    });
    if let Some(error) = unread {
        return Err(error.into());
    }
    let mut workloads = Vec::new();
    for (workload, pods) in by_workload {
        let object = find(&workload, &mut objects, cluster)?;
        let asked = object.iter().chain([namespace]).filter_map(asked).min();
        // An autoscaler may name the custom resource that a Deployment is made for.
        let above = object.as_ref().and_then(WorkloadRef::owner_of);
        let acting = [&workload].into_iter().chain(&above).find_map(|of| autoscalers.acting(of));
        let mut running = RunningWorkload {
            left_alone: acting.map(|vpa| format!("VerticalPodAutoscaler {} acts on it", vpa.name)),
            asked,
            object,
            ..RunningWorkload::without_pods(workload, modes)
        };
        for (maker, pods) in pods {
            running.unlearned.extend(find(&maker, &mut objects, cluster)?);
            let mut facts = Facts::new();
            let containers = pods.iter().flat_map(|pod| items(pod, "/spec/containers"));
            let names = containers.filter_map(|of| at(of, "/name").as_str());
            names.for_each(|name| _ = facts.entry(name.to_owned()).or_default());
            facts::mark_scaled(&mut facts, [&maker, &running.workload].into_iter().chain(&above), &autoscalers);
            running.pods.extend(pods);
            running.facts.insert(maker, facts);
        }
        workloads.push(running);
    }
    Ok(workloads)
}

impl RunningWorkload {
    pub fn without_pods(workload: WorkloadRef, modes: Modes) -> Self {
        let (pods, facts, unlearned) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { workload, object: None, pods, facts, unlearned, left_alone: None, asked: None, modes }
    }

    /// Evaluates the templates of its pods, unless all ask to be left. Where one cannot be evaluated, its pods are only raised for
    /// what happens to them.
    pub fn learn(&mut self, bytes_of_rules: usize, admission: &Admission, cluster: &mut dyn ClusterReader) {
        let is_off = self.is_off();
        for owner in std::mem::take(&mut self.unlearned).into_iter().filter(|_| !is_off) {
            let learned = facts::of_template(&owner, bytes_of_rules, admission, cluster);
            let learned = learned.inspect_err(|error| {
                tracing::info!(workload = self.workload.path(), error, "the size at admission is not known");
            });
            let facts = self.facts.entry(WorkloadRef::of(&owner)).or_default();
            for (name, found) in learned.unwrap_or_default() {
                let is_scaled_by = facts.get(&name).map(|of| of.is_scaled_by.clone()).unwrap_or_default();
                facts.insert(name, ContainerFacts { is_scaled_by, ..found });
            }
        }
    }

    /// The workload as it is decided about, with these pods, read now or before. One that cannot be read is left alone.
    pub fn observed(
        &self,
        pods: &[Value],
        object: Option<&Value>,
        usage: &Usage,
        objective_is_met: Option<bool>,
    ) -> crate::decision::Workload {
        let mut observed_pods = Vec::new();
        for pod in pods {
            let facts = self.facts.get(&WorkloadRef::maker_of(pod));
            let facts_of = |container: &str| {
                let in_template = facts.and_then(|facts| facts.get(container)).cloned().unwrap_or_default();
                let place = (metadata(pod, "name").to_owned(), container.to_owned());
                ContainerFacts { used: usage.get(&place).copied(), ..in_template }
            };
            let mut pod = observed(pod, self.mode(pod), &facts_of);
            pod.left_alone = pod.left_alone.or_else(|| self.left_alone.clone());
            observed_pods.push(pod);
        }
        let is_rolling_out = is_rolling_out(object, pods);
        crate::decision::Workload { pods: observed_pods, is_rolling_out, objective_is_met }
    }

    /// The least mode that is asked for, within the bounds.
    fn mode(&self, pod: &Value) -> Mode {
        match asked(pod).into_iter().chain(self.asked).min().unwrap_or(self.modes.unasked) {
            Mode::Off => Mode::Off,
            asked => asked.max(self.modes.least).min(self.modes.most),
        }
    }

    pub fn is_off(&self) -> bool {
        self.pods.iter().all(|pod| self.mode(pod) == Mode::Off)
    }

    /// True if a pod that was read now is one of the workload.
    pub fn has(&self, pod: &Value) -> bool {
        let owner = WorkloadRef::maker_of(pod);
        !has_ended(pod)
            && (self.facts.contains_key(&owner) || owner.deployment_of(pod).is_some_and(|of| of == self.workload))
    }

    /// A selector of its pods, and perhaps of others.
    pub fn selector(&self) -> String {
        let labels = self.object.as_ref().and_then(|object| at(object, "/spec/selector/matchLabels").as_object());
        let pairs =
            labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
        pairs.collect::<Vec<_>>().join(",")
    }

    pub fn annotation(&self, name: &str) -> Option<&str> {
        at(self.object.as_ref()?, "/metadata/annotations").get(name)?.as_str()
    }
}

/// The least mode that an object asks for. An unknown word only lets observe.
fn asked(object: &Value) -> Option<Mode> {
    let words = ["labels", "annotations"].map(|field| at(object, &format!("/metadata/{field}")).get(RESIZE)?.as_str());
    let modes = words.into_iter().flatten().map(|word| match word {
        "off" => Mode::Off,
        "on" => Mode::On,
        "afterOom" => Mode::AfterOom,
        _ => Mode::Observe,
    });
    modes.min()
}

/// The objects of a namespace by kind and name. Those that own no pods themselves are kept without their templates.
#[derive(Default)]
struct Objects {
    owners: BTreeSet<WorkloadRef>,
    by_kind: BTreeMap<String, BTreeMap<String, Value>>,
    bytes: usize,
}

/// Finds an object, and lists its kind before the first of them.
fn find(
    WorkloadRef { namespace, kind, name }: &WorkloadRef,
    objects: &mut Objects,
    cluster: &mut dyn ClusterReader,
) -> Result<Option<Value>, ReadError> {
    let Some(of) = PodKind::named(kind).filter(|of| **of != POD) else { return Ok(None) };
    let Objects { owners, by_kind, bytes } = objects;
    if !by_kind.contains_key(kind) {
        let of_kind = by_kind.entry(kind.clone()).or_default();
        cluster.visit(kinds::list(of, Some(namespace)), &mut |object| {
            let size = if owners.contains(&WorkloadRef::of(&object)) { object.to_string().len() } else { usize::MAX };
            let is_whole = size <= LARGEST_OWNER && *bytes + size <= MOST_BYTES_OF_OWNERS;
            *bytes += if is_whole { size } else { 0 };
            let object = if is_whole { object } else { slim::workload(object) };
            of_kind.insert(metadata(&object, "name").to_owned(), object);
        })?;
    }
    Ok(by_kind.get(kind).and_then(|of_kind| of_kind.get(name)).cloned())
}

fn is_rolling_out(object: Option<&Value>, pods: &[Value]) -> bool {
    let staying = pods.iter().filter(|pod| at(pod, "/metadata/deletionTimestamp").is_null());
    let template = |pod: &Value| {
        let owner = WorkloadRef::owner_of(pod).filter(|owner| owner.kind == REPLICA_SET.kind);
        (owner, at(pod, "/metadata/labels/controller-revision-hash").as_str().map(str::to_owned))
    };
    if staying.map(template).collect::<BTreeSet<_>>().len() > 1 {
        return true;
    }
    let Some(object) = object else { return false };
    let kind = ApiKind::of(object);
    let Some(([wanted, present], updated)) = counts(&kind).zip(updated_count(&kind)) else { return false };
    let wanted = number(object, wanted).unwrap_or(1);
    let is_seen = number(object, "/status/observedGeneration") >= number(object, "/metadata/generation");
    !is_seen || [present, updated].into_iter().any(|count| number(object, count).unwrap_or(0) != wanted)
}

/// Reads recent usage out of the metrics API's answer about a namespace. A measurement from the future counts as none: nobody
/// knows how old it is.
pub fn usage(measured: &[Value], now: Time) -> Usage {
    let mut usage = Usage::new();
    for pod in measured {
        let time = text(pod, "/timestamp").parse::<Timestamp>().ok();
        let Some(time) = time.map(|time| time.unix_seconds()).filter(|time| *time <= now) else { continue };
        for container in items(pod, "/containers") {
            let place = (metadata(pod, "name").to_owned(), text(container, "/name").to_owned());
            let amounts = amounts(at(container, "/usage")).unwrap_or_default();
            usage.insert(place, Used { at: time, amounts, ..Used::default() });
        }
    }
    usage
}
