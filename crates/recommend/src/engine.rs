//! The recommendation for one workload: the policy's own estimate, and what would be different with it.
//!
//! The engine evaluates a workload as it stands, and with everything recommended written into it: what admission would make
//! of the next pod, which QoS class it has, what it is charged, and whether the LimitRanges let it in. In between it
//! evaluates it with a new memory limit where the author has one, and, where usage was read from a source instead of
//! UsageProfiles, with that usage in their place. Only what was measured is recommended: a request that is only typical for
//! an image is reported as such, and written nowhere.

pub mod declined;
mod evaluated;
pub mod kept;
pub mod memory_limit;
pub mod nodes;

pub mod by_image;

use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{Resource, Window, workload};
use headroom_admission::image::ImageName;
use headroom_admission::json::Document;
use headroom_admission::recommend::NoRecommendation;
use headroom_admission::request::Requirement;
use headroom_admission::timestamp::Timestamp;
use headroom_dry_run::evaluate::{Admission, request as review};
use headroom_dry_run::settings::ParsedSettings;
use headroom_dry_run::simulate::unread;
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::document;
use headroom_objects::kinds::{ApiKind, metadata, number};
use headroom_usage::cardinality;
use headroom_usage::profile::{History, OomKill};
use headroom_usage::sample::quantity;
use serde_json::{Value, json};

use self::declined::Declined;
use self::evaluated::{Admitted, Evaluated};
use crate::advice::amounts::{CPU_AND_MEMORY, is_about};
use crate::advice::autoscaler::{self, KeptTarget};
use crate::advice::flag::{Flag, Kept, NEVER_READY, RUNS_FAIL};
use crate::advice::pod_request::{self, PodLevel, PodPart};
use crate::advice::quota_effect;
use crate::advice::template::{CustomResource, container_in, in_pod, set_amount};
use crate::advice::workload::{ContainerAdvice, CurrentRequest, RequestOrigin, ResourceAdvice, Workload};
use crate::history::description::Description;
use crate::history::distribution::Distribution;
use crate::history::evidence::Evidence;
use crate::history::overlay::{self, HistoryOverlay};
use crate::history::timeline::Timeline;
use crate::history::{ContainerUsage, Histories};
use headroom_workloads::applier::appliers;
use headroom_workloads::autoscaler::{Autoscalers, SCALED_OBJECT, VerticalAutoscaler};
use headroom_workloads::inventory::{RunningPods, WorkloadEntry, as_it_runs, set_by};
use headroom_workloads::kinds::{REPLICA_SET, REPLICATION_CONTROLLER, runs_once};
use headroom_workloads::owner::workload_ref;
use headroom_workloads::program::{self, ConfigMaps};
use headroom_workloads::{Owner, WorkloadRef, pod_makers};

const MEMORY_LIMIT: (Requirement, &str) = (Requirement::Limit, "memory");

pub struct Engine<'s> {
    /// Usage that was read from a metrics store or the metrics API; without, the cluster's UsageProfiles count, as for admission.
    pub usage: Option<&'s Histories>,
    pub autoscalers: &'s Autoscalers,
    /// The settings for recommendations, which read usage history.
    pub settings: &'s ParsedSettings,
    /// The cluster's admission, if it decides by other settings: it may estimate nothing.
    pub admission: Option<&'s Admission>,
    pub now: Timestamp,
    /// Recommends lower memory limits too, where usage has been steady for a week.
    pub lowers_limits: bool,
    pub declined: Option<&'s Declined>,
    pub configs: &'s ConfigMaps,
    /// The workloads that take over from a peer, by their numbers.
    pub kept: BTreeMap<usize, Kept>,
}

impl Engine<'_> {
    /// The recommendation for a workload by its number; none if it runs no containers. Notes are what could not be taken into
    /// account.
    pub fn recommend(
        &self,
        number: usize,
        entry: &WorkloadEntry,
        cluster: &mut dyn ClusterReader,
        notes: &mut Vec<ReadError>,
    ) -> Result<Option<Workload>, String> {
        let template = entry.object.value();
        let newest = entry.running_pod(&template);
        let object = &as_it_runs(template.clone(), newest.as_ref());
        let namespace = entry.key.namespace.as_str();
        let kept_targets = autoscaler::kept_targets(&entry.key, self.autoscalers);
        // Each evaluation copies, writes and reads it.
        let mut evaluated = object.clone();
        unread::leave_out(&mut evaluated);
        let Some(mut now) = self.evaluate_current(&evaluated, namespace, cluster)? else { return Ok(None) };
        if now.containers.is_empty() {
            return Ok(None);
        }
        let nothing = Value::Null;
        let pod = object.pointer(&in_pod(&now.path, "spec")).unwrap_or(&nothing);
        let described = self.described(number, entry, &now)?;
        let number_of = |name: &str| cardinality::hash(namespace, name);
        let pods: Vec<(u32, i64)> = entry.running.since.iter().map(|(pod, since)| (number_of(pod), *since)).collect();
        let RunningPods { pods: all, never_ready, runs, failed_runs, .. } = entry.running;
        let failing = match runs_once(&entry.key.kind) {
            true => (runs > 0 && failed_runs == runs).then_some(RUNS_FAIL),
            false => (all > 0 && never_ready == all).then_some(NEVER_READY),
        };
        let running = newest.as_ref().filter(|_| !runs_once(&entry.key.kind));
        for (container, described) in now.containers.iter_mut().zip(&described) {
            let usage = described.as_ref().map(|described| described.usage);
            if let Some(all) = self.usage {
                container.add_usage(usage, runs_once(&entry.key.kind), self.end(all));
            }
            let lacks_limit = usage.is_some_and(|usage| usage.lacks_kill_limit);
            container.add_kills(count(&entry.running.killed, &container.name), lacks_limit);
            container.restarts = count(&entry.running.restarts, &container.name);
            let crash_loops = count(&entry.running.crash_loops, &container.name);
            container.is_crash_looping = crash_loops > 0 && crash_loops >= entry.running.pods;
            container.failing = failing;
            let of_object = container_in(object, &now.path, container.place());
            container.reads =
                of_object.map(|of| program::settings(pod, of, namespace, self.configs)).unwrap_or_default();
            if runs_once(&entry.key.kind) {
                container.evidence = container.evidence.map(|evidence| evidence.of_runs(entry.running.pods));
            } else if let (Some(evidence), Some(all)) = (&mut container.evidence, self.usage)
                && entry.running.pods > 0
                && !container.runs_at_start
            {
                evidence.silent_days = usage.and_then(|usage| all.silent_days(usage));
                let seen =
                    usage.filter(|_| !container.runs_at_start).and_then(|usage| usage.course.seen(&pods, all.to));
                evidence.partly = seen.filter(|seen| seen.pods < seen.of || seen.percent < 100);
            }
            let is_own = container_in(&template, &now.path, container.place()).is_some();
            let is_added = !is_own || pod_makers::adds(&kind_above(entry), &container.name);
            container.injected = is_added.then(|| set_by(&container.name));
            if let Some(running) = running.and_then(|pod| container_in(pod, &[], container.place())) {
                container.take_running(running);
            }
        }
        let own = || kept::of_pod(entry, pod, &now.containers, cluster);
        let kept = self.kept.get(&number).cloned().or_else(own);
        let evaluator = Evaluator {
            engine: self,
            object: &evaluated,
            key: &entry.key,
            now: &now,
            usage: &described,
            kept_targets: &kept_targets,
            kept: kept.as_ref(),
        };
        let pod_level = evaluator.at_pod_level(cluster)?;
        let pod_limit = evaluator.pod_limit();
        let Advised { advice, after, limits_refused, lower_limits } = evaluator.advise(&pod_level, cluster)?;
        let as_it_runs = evaluator.as_it_runs(cluster)?;
        let Evaluated { mut containers, notes: mut of_workload, missing, .. } = advice;
        for problem in missing {
            if !notes.contains(&problem) {
                notes.push(problem);
            }
        }
        for ((container, enough), described) in containers.iter_mut().zip(lower_limits).zip(&described) {
            if let Some(memory) = container.memory_mut().filter(|of| of.keeps_whole_cpus()) {
                memory.enough = enough;
            }
            if let (Some(described), Some(all)) = (described, self.usage) {
                container.add_patterns(&described.description, self.now, self.end(all));
                container.timeline = Timeline::of_days(described.usage, all.to);
            }
        }
        let (pods, is_from_spec) = pods_of(entry, &now);
        let before = entry.exists.then_some(as_it_runs.charges.as_slice());
        let effects = quota_effect::between(pods, before, &after.charges);
        let running = entry.running.pods.max(pods);
        let requested = Workload::requested(&containers, &pod_level);
        let autoscalers = autoscaler::effects(&entry.key, self.autoscalers, &requested, running);
        of_workload.extend(kept_targets.iter().map(ToString::to_string));
        of_workload.extend(containers.iter().flat_map(ContainerAdvice::told_in_words));
        of_workload.extend(now.assumption.filter(|_| is_from_spec).map(str::to_owned));
        of_workload.extend(limits_refused.map(|breach| format!("memory limits are left as they are: {breach}")));
        of_workload.extend(after.new_breach(&now.admitted).map(|breach| format!("would still be rejected: {breach}")));
        let vertical = self.autoscalers.acting(&entry.key);
        let is_sized = |name: &String| vertical.is_some_and(|of| of.sets(name));
        let sized: Vec<String> = containers.iter().map(|of| of.name.clone()).filter(is_sized).collect();
        let vertical = vertical.filter(|_| !sized.is_empty());
        let some = Some(sized.as_slice()).filter(|sized| sized.len() < containers.len());
        let vertical_note = vertical.map(|of| autoscaler::vertical_note(of, some));
        let WorkloadRef { namespace: of, kind, name } = &entry.key;
        let read = entry.through.as_ref().and_then(|_| cluster.get((&entry.api_version, kind, Some(of)), name).ok()?);
        let custom = read.as_ref().and_then(|object| CustomResource::of(object, entry, cluster));
        let mut workload = Workload {
            api_version: entry.api_version.clone(),
            key: entry.key.clone(),
            through: entry.through.clone(),
            managed_by: entry.managed_by.as_ref().map(|owner| owner.within(&entry.key.namespace).to_string()),
            managed_fields: pod_makers::request_fields(&kind_above(entry)),
            decided_by: decided_by(entry, object, self.autoscalers, vertical),
            file: entry.origin.as_ref().map(|origin| origin.file.display().to_string()),
            pods,
            requested: as_it_runs.requests,
            pod_level,
            pod_limit,
            qos: now.admitted.qos,
            qos_after: after.qos,
            autoscalers,
            containers,
            notes: of_workload,
            blocked: None,
            path: now.path,
            entry: number,
            turn: 0,
            is_untried: false,
            notes_of_trial: Vec::new(),
            effects,
            custom,
            template_of: read.as_ref().and_then(workload_ref),
            static_on: WorkloadEntry::static_on(&template),
            device: kept::device_of(pod),
            shared_flags: Vec::new(),
        };
        workload.notes.extend(workload.why_unpatched());
        let injected = |of: &ContainerAdvice| Some(format!("container {}: {}", of.name, of.injected.as_ref()?));
        workload.notes.extend(workload.containers.iter().filter_map(injected));
        let breaches = if entry.exists { now.admitted.breaches } else { Vec::new() };
        if let [first, others @ ..] = breaches.as_slice() {
            let more = if others.is_empty() { String::new() } else { format!("; and {} more", others.len()) };
            workload.notes.push(format!("its pods would be rejected if they were created again: {first}{more}"));
        }
        if self.usage.is_some() && described.iter().all(Option::is_none) {
            let last_run = object.pointer("/status/lastScheduleTime").and_then(Value::as_str);
            let note = |time| format!("its last run, at {time}, was before what was read: --days reads up to 30 days");
            workload.notes.extend(last_run.map(note));
        }
        let refusal = entry.refusal(&template);
        let is_of_keda = kept_targets.iter().any(|of| of.owner.kind == SCALED_OBJECT);
        let shared = [
            refusal.is_some().then_some(Flag::BlockedNow),
            (!breaches.is_empty()).then_some(Flag::Rejected),
            workload.static_on.is_some().then_some(Flag::StaticPod),
            vertical.map(|_| Flag::Vpa(sized)),
            is_of_keda.then_some(Flag::Keda),
            entry.through.as_ref().map(|_| Flag::Custom(entry.key.kind.to_lowercase())),
            held_rollout(&entry.key.kind, object).filter(|_| workload.is_changed()),
            kept.map(Flag::Kept),
            workload.device.clone().map(Flag::Device),
        ];
        workload.shared_flags = shared.into_iter().flatten().collect();
        workload.notes.extend(refusal.map(|message| format!("blocked now: {message}")));
        workload.notes.extend(vertical_note);
        Ok(Some(workload))
    }

    /// The usage of each container of a workload, and what it shows.
    fn described<'h>(
        &'h self,
        number: usize,
        entry: &WorkloadEntry,
        now: &Evaluated,
    ) -> Result<Vec<Option<Described<'h>>>, String> {
        let (settings, are_runs) = (self.settings.read()?, runs_once(&entry.key.kind));
        let described = |container: &ContainerAdvice| {
            let usage = self.usage?.get(number, &container.name)?;
            let description = Description::of(&usage.course);
            let is_chosen = |resource| !settings.estimates.has_default_percentile(resource);
            let history = description.history(usage, are_runs, is_chosen);
            Some(Described { usage, description, history })
        };
        Ok(now.containers.iter().map(described).collect())
    }

    /// Evaluates an object by the settings of the cluster's admission, with the usage history that admission has.
    fn admit(&self, asked: &Asked, cluster: &mut dyn ClusterReader) -> Result<Option<Evaluated>, String> {
        let settings = match self.admission {
            None => self.settings,
            Some(admission) => admission.settings_for(&asked.request, cluster).0,
        };
        match self.usage {
            None => Evaluated::of(&asked.document, settings, self.settings, cluster),
            Some(_) => Evaluated::of(&asked.document, settings, self.settings, &mut HistoryOverlay::without(cluster)),
        }
    }

    /// Evaluates an object as it stands: what admission makes of it, and what is recommended by UsageProfiles.
    fn evaluate_current(
        &self,
        object: &Value,
        namespace: &str,
        cluster: &mut dyn ClusterReader,
    ) -> Result<Option<Evaluated>, String> {
        let asked = Asked::of(object.clone(), namespace)?;
        let Some(mut admitted) = self.admit(&asked, cluster)? else { return Ok(None) };
        match (self.usage, self.admission) {
            (None, None) => Ok(Some(admitted)),
            (None, Some(_)) => {
                let mut found = Evaluated::of(&asked.document, self.settings, self.settings, cluster)?;
                found.iter_mut().for_each(|found| found.take_admitted(&admitted));
                Ok(found)
            }
            (Some(_), _) => {
                // These are about what admission estimates itself.
                (admitted.notes, admitted.missing) = (Vec::new(), Vec::new());
                Ok(Some(admitted))
            }
        }
    }

    /// The end of what was read.
    fn end(&self, all: &Histories) -> i64 {
        if all.to > 0 { all.to } else { self.now.unix_seconds() }
    }

    /// The age of the newest sample of a container, in seconds, where a store says when that was.
    fn age(&self, usage: &ContainerUsage) -> Option<u64> {
        let all = self.usage?;
        let newest = usage.course.last_seen(all.to).filter(|_| all.to > 0)?;
        u64::try_from(self.now.unix_seconds() - newest).ok()
    }
}

/// The kind of the object that decides what an entry's pods request, where that is not the entry's own template.
fn kind_above(entry: &WorkloadEntry) -> ApiKind {
    match &entry.managed_by {
        Some(Owner { api_version, kind, .. }) => ApiKind::new(api_version, kind),
        None => ApiKind::new(&entry.api_version, &entry.key.kind),
    }
}

/// Everybody who decides about a workload besides its author.
fn decided_by(
    entry: &WorkloadEntry,
    object: &Value,
    autoscalers: &Autoscalers,
    vertical: Option<&VerticalAutoscaler>,
) -> Vec<String> {
    let owner = entry.managed_by.iter().map(|owner| owner.within(&entry.key.namespace).to_string());
    let appliers = appliers(object).into_iter().map(|of| of.to_string());
    let horizontal = autoscalers.horizontal(&entry.key).iter().map(|of| match &of.controller {
        Some(Owner { kind, name, .. }) => format!("{}/{name}", kind.to_lowercase()),
        None => format!("hpa/{}", of.name),
    });
    let vertical = vertical.map(|of| format!("vpa/{}", of.name));
    owner.chain(appliers).chain(horizontal).chain(vertical).collect()
}

/// The reason why a changed template does not reach the pods of a workload as usual.
fn held_rollout(kind: &str, object: &Value) -> Option<Flag> {
    if [REPLICA_SET.kind, REPLICATION_CONTROLLER.kind].contains(&kind) {
        return Some(Flag::OnDelete);
    }
    let first = number(object, "/spec/ordinals/start").unwrap_or(0);
    if number(object, "/spec/updateStrategy/rollingUpdate/partition").is_some_and(|partition| partition > first) {
        return Some(Flag::Partition);
    }
    let held = [
        ("/spec/updateStrategy/type", json!("OnDelete"), Flag::OnDelete),
        ("/spec/paused", json!(true), Flag::Paused),
        ("/spec/strategy/type", json!("Recreate"), Flag::Recreate),
    ];
    held.into_iter().find_map(|(at, value, flag)| (object.pointer(at) == Some(&value)).then_some(flag))
}

struct Described<'h> {
    usage: &'h ContainerUsage,
    description: Description,
    /// The part that a request covers.
    history: Option<History>,
}

fn count(counts: &BTreeMap<String, u64>, container: &str) -> u64 {
    counts.get(container).copied().unwrap_or(0)
}

/// The number of pods that the recommendation is about, and true if it is the object's own; for Jobs, the running pods.
fn pods_of(entry: &WorkloadEntry, now: &Evaluated) -> (u64, bool) {
    match entry.key.kind.as_str() {
        kind if runs_once(kind) && entry.exists => (entry.running.pods, false),
        _ if entry.through.is_some() => (entry.running.pods.max(now.pods), false),
        _ => (now.pods, true),
    }
}

type MemoryLimits = Vec<Option<Quantity>>;

/// The recommendations for a workload, and its pod after admission with them.
struct Advised {
    advice: Evaluated,
    after: Admitted,
    /// The reason that the LimitRanges refuse the new memory limits.
    limits_refused: Option<String>,
    /// Lower memory limits that would do, where nobody asked for such.
    lower_limits: MemoryLimits,
}

/// The request to create an object, and the same as the core reads it.
struct Asked {
    request: Value,
    document: Document<'static>,
}

impl Asked {
    fn of(object: Value, namespace: &str) -> Result<Self, String> {
        let kind = ApiKind::of(&object);
        let request = review::create(object, &kind, namespace);
        Ok(Self { document: document(&request)?, request })
    }
}

struct Evaluator<'a> {
    engine: &'a Engine<'a>,
    object: &'a Value,
    /// The workload, which is another object where the one with the containers stands in its place.
    key: &'a WorkloadRef,
    /// The object as it stands, and the usage of each of its containers.
    now: &'a Evaluated,
    usage: &'a [Option<Described<'a>>],
    kept_targets: &'a [KeptTarget<'a>],
    kept: Option<&'a Kept>,
}

impl Evaluator<'_> {
    /// The recommendations, with a new memory limit for each container whose author has one that usage is too close to, unless
    /// the LimitRanges refuse that. Nothing is evaluated twice.
    fn advise(&self, pod_level: &[PodLevel], cluster: &mut dyn ClusterReader) -> Result<Advised, String> {
        let recommended_amount = |advice: &ResourceAdvice| advice.to_write().cloned();
        let (now, mut with_authors) = (self.now, self.recommended(self.object, cluster)?);
        let (limits, lower_limits) = self.new_limits(&with_authors.containers, cluster)?;
        let mut limits_refused = None;
        if limits.iter().any(Option::is_some) {
            let mut limited = self.object.clone();
            for (container, limit) in now.containers.iter().zip(&limits).filter(|(_, limit)| limit.is_some()) {
                set_amount(&mut limited, &now.path, container.place(), MEMORY_LIMIT, limit.as_ref());
            }
            let mut advice = self.recommended(&limited, cluster)?;
            for (container, limit) in advice.containers.iter_mut().zip(limits) {
                let Some(memory) = container.memory_mut() else { continue };
                memory.recommended_limit = limit;
                // Request and limit stay equal, or the container would lose its own CPUs.
                if memory.keeps_whole_cpus() {
                    memory.recommend(memory.recommended_limit.clone());
                }
            }
            let after = self.admit_with(&limited, &advice.containers, recommended_amount, pod_level, cluster)?;
            limits_refused = after.new_breach(&now.admitted);
            let Some(breach) = &limits_refused else {
                return Ok(Advised { advice, after, limits_refused, lower_limits });
            };
            for (container, refused) in with_authors.containers.iter_mut().zip(&advice.containers) {
                let limit = refused.resource(Resource::Memory).and_then(|memory| memory.recommended_limit.as_ref());
                let raise = |limit| format!("raise the memory limit to {limit}, and first what refuses that: {breach}");
                container.refused_limit = limit.map(raise);
            }
        }
        // There are no new limits, or the LimitRanges refuse them, so the author's stay.
        let after = self.admit_with(self.object, &with_authors.containers, recommended_amount, pod_level, cluster)?;
        Ok(Advised { advice: with_authors, after, limits_refused, lower_limits })
    }

    /// The pod after admission with the requests that running pods have.
    fn as_it_runs(&self, cluster: &mut dyn ClusterReader) -> Result<Admitted, String> {
        let running = |advice: &ResourceAdvice| match &advice.request {
            Some(CurrentRequest { value, from: RequestOrigin::Running(_) }) => Some(value.clone()),
            _ => None,
        };
        self.admit_with(self.object, &self.now.containers, running, &[], cluster)
    }

    /// The changes of the pod-level requests to what the containers should request together if they had requests of their own.
    fn at_pod_level(&self, cluster: &mut dyn ClusterReader) -> Result<Vec<PodLevel>, String> {
        let mut object = self.object.clone();
        let spec = object.pointer_mut(&in_pod(&self.now.path, "spec")).and_then(Value::as_object_mut);
        let Some(of_pod) = spec.and_then(|spec| spec.remove("resources")) else { return Ok(Vec::new()) };
        let advised = self.recommended(&object, cluster)?.containers;
        let mut found = Vec::new();
        for resource in CPU_AND_MEMORY {
            let amount = |of: &str| amount_of(of_pod.pointer(&format!("/{of}/{}", resource.name()))?);
            // A pod must request at least what its containers request for themselves, and that does not change.
            let needed = |of: &ContainerAdvice| {
                let advice = of.resource(resource)?;
                let own = advice.written.clone().unwrap_or(Quantity::ZERO);
                if of.runs_at_start { Some(own) } else { advice.recommended.clone().map(|amount| amount.max(own)) }
            };
            let needed: Option<Vec<Quantity>> = advised.iter().map(needed).collect();
            let Some((from, needed)) = amount("requests").zip(needed) else { continue };
            let part = |(of, amount): (&ContainerAdvice, _)| PodPart {
                is_init: of.is_init,
                runs_at_start: of.runs_at_start,
                now: Some(amount),
                then: None,
            };
            let parts: Vec<PodPart<'_>> = advised.iter().zip(&needed).map(part).collect();
            let all = pod_request::of_pod(&parts, 0);
            let to = amount("limits").map_or(all.clone(), |limit| limit.min(all));
            if !is_about(&from, &to, resource) {
                found.push(PodLevel { resource, from, to });
            }
        }
        Ok(found)
    }

    /// The memory limit of the pod as a whole, and one that leaves room above what its containers used and were killed at.
    fn pod_limit(&self) -> Option<PodLevel> {
        let from = amount_of(self.object.pointer(&in_pod(&self.now.path, "spec/resources/limits/memory"))?)?;
        let containers = &self.now.containers;
        let peak = |of: &ContainerAdvice| Some(bytes(of.resource(Resource::Memory)?.used.as_ref()?.peak()));
        let kills = containers.iter().map(|of| of.oom_kills).sum();
        let to = memory_limit::of_usage(containers.iter().filter_map(peak).sum(), Some(bytes(&from)), kills);
        Some(PodLevel { resource: Resource::Memory, from, to })
    }

    /// A memory limit for each container whose author has one and that used something: at least what the container should
    /// request if it had none, so that the limit does not cut the request. From UsageProfiles only for containers that were
    /// killed, since pods of the image in other places may have used more. And those that are lower, where nobody asked for such.
    fn new_limits(
        &self,
        with_authors: &[ContainerAdvice],
        cluster: &mut dyn ClusterReader,
    ) -> Result<(MemoryLimits, MemoryLimits), String> {
        let containers = &self.now.containers;
        let is_wanted = |container: &&ContainerAdvice| {
            !container.is_too_brief()
                && self.declined(&container.name, Resource::Memory, true).is_none()
                && (self.engine.usage.is_some() || container.killed_at.is_some())
        };
        let limit = |container| Some(container).filter(is_wanted).and_then(limit_of_usage);
        let mut limits: MemoryLimits = containers.iter().map(limit).collect();
        // A request below the author's limit would be the same without that limit; there is none if no amount fits below it.
        let is_cut = |(advised, limit): (&ContainerAdvice, &Option<Quantity>)| {
            let request = advised.resource(Resource::Memory).and_then(|memory| memory.recommended.as_ref());
            limit.is_some() && request.is_none_or(|request| Some(request) >= written_memory_limit(advised))
        };
        let mut unlimited = None;
        if with_authors.iter().zip(&limits).any(is_cut) {
            let mut object = self.object.clone();
            for (container, _) in containers.iter().zip(&limits).filter(|(_, limit)| limit.is_some()) {
                set_amount(&mut object, &self.now.path, container.place(), MEMORY_LIMIT, None);
            }
            unlimited = Some(self.recommended(&object, cluster)?.containers);
        }
        let advised = unlimited.as_deref().unwrap_or(with_authors);
        let mut lower_limits = Vec::new();
        for (((limit, advised), container), usage) in limits.iter_mut().zip(advised).zip(containers).zip(self.usage) {
            let request = advised.resource(Resource::Memory).and_then(|memory| memory.recommended.clone());
            if let (Some(limit), Some(request)) = (limit.as_mut(), request) {
                *limit = limit.clone().max(request);
            }
            // A limit that falls saves nothing on a node, and kills when usage rises.
            let is_steady = usage.as_ref().is_some_and(|usage| !usage.description.has_rising_memory);
            let may_fall = self.kept.is_none() && is_steady && container.may_lower_limit();
            let written = written_memory_limit(container);
            let is_close = |limit: &Quantity| written.is_some_and(|of| is_about(of, limit, Resource::Memory));
            let is_lower = |limit: &Quantity| written.is_some_and(|written| limit < written);
            // Usage that is over raises no limit that has room for what came since.
            let is_over = usage.as_ref().zip(written).is_some_and(|(usage, written)| {
                let since = usage.description.since_fall(Resource::Memory);
                since.is_some_and(|since| memory_limit::of_usage(bytes(&since), None, 0) <= *written)
            });
            let left = limit.take_if(|limit| {
                let stays = Some(&*limit) == written
                    || container.oom_kills == 0 && (is_close(limit) || is_over && !is_lower(limit));
                stays || is_lower(limit) && !(may_fall && self.engine.lowers_limits)
            });
            lower_limits.push(left.filter(|limit| may_fall && is_lower(limit) && !is_close(limit)));
        }
        Ok((limits, lower_limits))
    }

    /// Recommends requests for each container of an object from its usage.
    fn recommended(&self, object: &Value, cluster: &mut dyn ClusterReader) -> Result<Evaluated, String> {
        let mut advice = self.now.clone();
        match self.engine.usage {
            // The object itself has been evaluated already.
            None if object == self.object => {}
            None => {
                let asked = Asked::of(object.clone(), &self.key.namespace)?;
                let settings = self.engine.settings;
                let found = Evaluated::of(&asked.document, settings, settings, cluster)?;
                found.into_iter().for_each(|found| advice.take(found, |_| true));
            }
            Some(_) => self.take_advice_from_source(object, &mut advice, cluster)?,
        }
        self.withdraw(&mut advice.containers);
        Ok(advice)
    }

    /// The same from usage that was read from a source.
    fn take_advice_from_source(
        &self,
        object: &Value,
        advice: &mut Evaluated,
        cluster: &mut dyn ClusterReader,
    ) -> Result<(), String> {
        let (asked, turns) = (Asked::of(object.clone(), &self.key.namespace)?, turns(&self.now.containers));
        // The name under which admission knows what the object's pods used.
        let name = metadata(object, "name");
        let workload = if ApiKind::of(object).kind == "Pod" { workload::of_pod(name) } else { name };
        for turn in 0..=turns.iter().copied().max().unwrap_or(0) {
            let is_its_turn = |place: usize| turns.get(place) == Some(&turn);
            let containers = self.now.containers.iter().enumerate();
            let containers = containers.filter_map(|(place, container)| {
                let described = self.usage.get(place)?.as_ref()?;
                let mut history = described.history.clone()?;
                if let Some(killed_at) = container.killed_at.as_ref().filter(|_| described.usage.lacks_kill_limit) {
                    history.oom_kills.iter_mut().for_each(|kill| kill.memory = killed_at.clone());
                }
                let killed_at = container.killed_at.clone().filter(|_| container.has_killed_children);
                // The newest is the first, and readers stop after a few.
                history.oom_kills.splice(0..0, killed_at.map(|memory| OomKill { at: self.engine.now, memory }));
                let is_asked = is_its_turn(place);
                Some(overlay::ContainerHistory { name: &container.name, image: &container.image, history, is_asked })
            });
            let mut overlay = HistoryOverlay::with(cluster, &self.key.namespace, self.engine.now, workload, containers);
            let found = Evaluated::of(&asked.document, self.engine.settings, self.engine.settings, &mut overlay)?;
            found.into_iter().for_each(|found| advice.take(found, is_its_turn));
        }
        for (container, usage) in advice.containers.iter_mut().zip(self.usage) {
            let age = usage.as_ref().and_then(|described| self.engine.age(described.usage));
            let month = usage.as_ref().and_then(|of| of.history.as_ref()?.windows.get(&Window::Month));
            container.peak_to_cover = month.and_then(|month| month.memory.as_ref()?.peak.clone());
            let reasons = container.resources.iter_mut().filter_map(|advice| advice.reason.as_mut());
            reasons.zip(age.into_iter().cycle()).for_each(|(reason, age)| reason.set_age(age));
        }
        Ok(())
    }

    /// Takes back what a person declined, what usage does not support, and less than is kept for a purpose.
    fn withdraw(&self, containers: &mut [ContainerAdvice]) {
        // All containers of a pod keep it Guaranteed.
        let is_guaranteed = self.now.admitted.qos == "Guaranteed";
        let has_cpus = is_guaranteed && containers.iter().any(ContainerAdvice::is_limited_to_whole_cpus);
        for (container, usage) in containers.iter_mut().zip(self.usage) {
            let description = usage.as_ref().map(|usage| &usage.description);
            let why = |advice| self.why_not(container, advice, description, has_cpus);
            let reasons: Vec<Option<NoRecommendation>> = container.resources.iter().map(why).collect();
            let whole = Quantity::from_milli(if container.is_limited_to_whole_cpus() { 1000 } else { 1 });
            for (advice, why) in container.resources.iter_mut().zip(reasons) {
                // For memory, the limit decides.
                if why == Some(NoRecommendation::WholeCpus) && advice.resource == Resource::Cpu {
                    let enough = advice.recommended.take().map(|cpu| cpu.rounded_up_to_multiple_of(&whole));
                    advice.enough = enough.filter(|enough| Some(enough) != advice.written_limit.as_ref());
                }
                if why.is_some() {
                    advice.withdraw();
                }
                advice.unknown = why.or_else(|| advice.unknown.take());
            }
            container.keep_what_program_may_use();
        }
    }

    /// The reason not to take a recommendation, or to have none.
    fn why_not(
        &self,
        of: &ContainerAdvice,
        advice: &ResourceAdvice,
        description: Option<&Description>,
        has_cpus: bool,
    ) -> Option<NoRecommendation> {
        let recommended = advice.recommended.as_ref().and_then(|_| {
            let is_memory = advice.resource == Resource::Memory;
            let evidence = of.evidence;
            let request = advice.request.as_ref().map(|request| &request.value);
            let since = description.and_then(|description| description.since_fall(advice.resource));
            let is_covered = since.as_ref().zip(request).is_some_and(|(since, now)| since <= now);
            let is_in_trouble = of.oom_kills > 0 || of.much_throttled().is_some();
            let is_over = advice.is_raised() && advice.to_write().is_some() && is_covered && !is_in_trouble;
            let release = description.and_then(|of| of.of_release).map(|cpu| quantity(cpu, Resource::Cpu));
            let is_of_release = advice.resource == Resource::Cpu
                && advice.is_lowered()
                && evidence.is_none_or(|evidence| evidence.runs.is_none())
                && release.as_ref() > advice.recommended.as_ref();
            if let Some(seen) = evidence.filter(|evidence| evidence.is_too_brief) {
                Some(NoRecommendation::TooLittleData { seen: seen.to_string() })
            } else if let Some(days) = evidence.and_then(|evidence| evidence.silent_days) {
                Some(NoRecommendation::NotSeen { days })
            } else if of.is_crash_looping {
                Some(NoRecommendation::CrashLoop)
            } else if let Some(how) = of.failing.filter(|_| advice.is_lowered()) {
                Some(NoRecommendation::Failing { how })
            } else if let Some(kept) = self.kept.filter(|_| advice.is_lowered()) {
                Some(NoRecommendation::Kept { why: kept.reason() })
            } else if has_cpus {
                Some(NoRecommendation::WholeCpus)
            } else if is_memory
                && advice.is_lowered()
                && description.is_some_and(|description| description.growth(Resource::Memory).is_some())
            {
                Some(NoRecommendation::Grows)
            } else if let Some(seen) =
                evidence.and_then(|of| of.too_partly()).filter(|_| advice.is_lowered() && advice.written.is_some())
            {
                Some(NoRecommendation::PartlySeen { seen: seen.to_string() })
            } else if let Some(seen) =
                evidence.filter(|of| of.is_thin() && advice.is_lowered() && advice.written.is_some())
            {
                Some(NoRecommendation::ShortHistory { seen: seen.to_string() })
            } else if is_of_release {
                Some(NoRecommendation::ShortHistory { seen: "a release, less than 2h of each pod".to_owned() })
            } else if is_over {
                Some(NoRecommendation::Kept { why: "it uses less by now, so its request is not raised".to_owned() })
            } else {
                let declined = self.declined(&of.name, advice.resource, advice.is_raised());
                declined
                    .filter(|_| advice.to_write().is_some())
                    .map(|on| NoRecommendation::Declined { on: on.to_owned() })
            }
        });
        recommended.or_else(|| {
            let is_kept = |kept: &KeptTarget<'_>| kept.target.is_about(&of.name, advice.resource.name());
            self.kept_targets.iter().any(is_kept).then_some(NoRecommendation::ScaledByAutoscaler)
        })
    }

    fn declined(&self, container: &str, resource: Resource, is_raised: bool) -> Option<&str> {
        self.engine.declined?.date(self.key, container, resource.name(), is_raised)
    }

    /// Evaluates an object with other requests of its containers, where there are some, and of the pod as a whole.
    fn admit_with(
        &self,
        object: &Value,
        containers: &[ContainerAdvice],
        request_of: impl Fn(&ResourceAdvice) -> Option<Quantity>,
        pod_level: &[PodLevel],
        cluster: &mut dyn ClusterReader,
    ) -> Result<Admitted, String> {
        let (now, mut written) = (self.now, object.clone());
        for container in containers {
            for advice in &container.resources {
                if let Some(amount) = request_of(advice) {
                    let request = (Requirement::Request, advice.resource.name());
                    set_amount(&mut written, &now.path, container.place(), request, Some(&amount));
                }
            }
        }
        for PodLevel { resource, to, .. } in pod_level {
            let of_pod = written.pointer_mut(&in_pod(&now.path, "spec/resources/requests"));
            of_pod.into_iter().for_each(|requests| requests[resource.name()] = json!(to.to_string()));
        }
        if written == *self.object {
            return Ok(now.admitted.clone());
        }
        let found = self.engine.admit(&Asked::of(written, &self.key.namespace)?, cluster)?;
        found.map(|found| found.admitted).ok_or_else(|| "the object runs no containers any more".to_owned())
    }
}

impl Evaluated {
    /// Takes the recommendations for the containers at some places.
    fn take(&mut self, found: Self, is_wanted: impl Fn(usize) -> bool) {
        for (place, (slot, container)) in self.containers.iter_mut().zip(found.containers).enumerate() {
            if is_wanted(place) {
                slot.take_advice(container);
            }
        }
        let notes: Vec<String> = found.notes.into_iter().filter(|note| !self.notes.contains(note)).collect();
        self.notes.extend(notes);
        self.missing.extend(found.missing);
    }
}

impl ContainerAdvice {
    fn place(&self) -> (&str, bool) {
        (&self.name, self.is_init)
    }

    /// Takes the recommendations for the same container with its usage; what is set now stays as it was found without.
    fn take_advice(&mut self, advised: Self) {
        for (advice, with_usage) in self.resources.iter_mut().zip(advised.resources) {
            advice.recommend(with_usage.recommended);
            advice.reason = with_usage.reason;
            advice.unknown = with_usage.unknown;
            advice.typical = with_usage.typical;
        }
    }

    fn add_usage(&mut self, usage: Option<&ContainerUsage>, are_runs: bool, to: i64) {
        for advice in &mut self.resources {
            advice.used =
                usage.and_then(|usage| Distribution::of_sketch(usage.sketch(advice.resource), advice.resource));
        }
        self.evidence = usage.and_then(|usage| Evidence::of(usage, are_runs, to));
        self.oom_kills = usage.map_or(0, |usage| usage.kills.max(usage.kernel_kills));
        self.has_killed_children = usage.is_some_and(|usage| usage.kernel_kills > usage.kills);
        let kills = usage.iter().flat_map(|usage| usage.usage.kills());
        self.killed_at = kills.map(|kill| kill.memory).max().map(Quantity::from_bytes);
        self.throttled_percent = usage.and_then(ContainerUsage::throttled_percent);
    }

    /// Takes over the requests of the same container in a pod that runs.
    fn take_running(&mut self, running: &Value) {
        for advice in self.resources.iter_mut().filter(|of| of.unknown != Some(NoRecommendation::PodLevelResources)) {
            let amount = running.pointer(&format!("/resources/requests/{}", advice.resource.name()));
            advice.take_running(amount.and_then(amount_of));
        }
    }

    /// Takes over what the status of running pods says of kills. Where the source of usage does not know the limit at a kill,
    /// it is the limit that is in force now.
    fn add_kills(&mut self, killed_now: u64, lacks_limit: bool) {
        self.oom_kills = self.oom_kills.max(killed_now);
        if self.oom_kills > 0 && (self.killed_at.is_none() || lacks_limit) {
            let limit = self.resource(Resource::Memory).and_then(|memory| memory.limit.clone());
            self.killed_at = self.killed_at.take().max(limit);
        }
    }
}

/// In which turn each container is asked about: until there is enough of its own history, the policy goes by that of the
/// image, so two containers with the same image wait for each other.
fn turns(containers: &[ContainerAdvice]) -> Vec<usize> {
    let repositories: Vec<Option<String>> = containers
        .iter()
        .map(|container| ImageName::parse(&container.image).ok().map(|image| image.repository().to_owned()))
        .collect();
    let before = |place: usize| repositories.iter().take(place);
    repositories
        .iter()
        .enumerate()
        .map(|(place, repository)| before(place).filter(|other| *other == repository).count())
        .collect()
}

/// A memory limit from usage, if the author has one and memory was used. The limit of a killed container never falls, and that
/// of one that fills it with page cache stays.
fn limit_of_usage(container: &ContainerAdvice) -> Option<Quantity> {
    let written = written_memory_limit(container).filter(|_| !container.stays_at_limit())?;
    let peak = container.resource(Resource::Memory)?.used.as_ref()?.peak();
    let killed_at = container.killed_at.as_ref().map(bytes);
    let limit = memory_limit::of_usage(bytes(peak), killed_at, container.oom_kills);
    Some(if container.oom_kills > 0 { limit.max(written.clone()) } else { limit })
}

fn bytes(amount: &Quantity) -> u64 {
    u64::try_from(amount.value()).unwrap_or(0)
}

fn written_memory_limit(container: &ContainerAdvice) -> Option<&Quantity> {
    container.resource(Resource::Memory)?.written_limit.as_ref()
}

#[cfg(test)]
pub mod tests;
