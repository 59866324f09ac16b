//! The recommendation for one workload: the policy's own estimate, and what would be different with it.
//!
//! The engine evaluates a workload as it stands, and with everything recommended written into it: what admission would make
//! of the next pod, which QoS class it has, what it is charged, and whether the LimitRanges let it in. In between it
//! evaluates it with a new memory limit where the author has one, and, where usage was read from a source instead of
//! UsageProfiles, with that usage in their place. Only what was measured is recommended: a request that is only typical for
//! an image is told apart, and written nowhere.

use std::collections::BTreeMap;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{Resource, workload};
use headroom_core::glob;
use headroom_core::image::ImageName;
use headroom_core::json::Malformed;
use headroom_core::request::{self, Origin, Pod, Requirement, Role, rollout};
use headroom_core::timestamp::Timestamp;
use headroom_core::{Context, Request, Settings, limit_rules, limits as bounds};
use serde_json::{Value, json};

use super::amounts::Delta;
use super::autoscaler::{self, Autoscalers};
use super::distribution::Distribution;
use super::evaluate_with_history as evaluate;
use super::history::{ContainerUsage, Histories};
use super::history_overlay::{self, HistoryOverlay};
use super::inventory::Entry;
use super::memory_limit;
use super::patches::containers_at;
use super::quota_effect::{self, Charge, QuotaEffect};
use super::reason::Reason;
use super::recommendation::{self, Measurements, Recommendation, Why};
use super::workload::{Container, CurrentRequest, Evidence, ResourceAdvice, SetBy, Severity, Workload};
use headroom_dryrun::evaluate::request as review;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{ApiKind, metadata};

/// What the recommendations of all workloads have in common.
pub struct Engine<'s> {
    pub usage: Usage<'s>,
    pub autoscalers: &'s Autoscalers,
    /// The settings for recommendations, which read usage history.
    pub settings: &'s Value,
    /// The policy's own settings, which may read none.
    pub admission: &'s Value,
    pub now: Timestamp,
    /// Patterns of the names of containers; all unless given. The others stay as they are.
    pub containers: &'s [String],
}

/// Where the usage of a workload comes from.
#[derive(Clone, Copy)]
pub enum Usage<'s> {
    /// The cluster's UsageProfiles, as for admission.
    Profiles,
    /// A metrics store or the metrics API; UsageProfiles do not count.
    Read(&'s Histories),
}

impl Engine<'_> {
    /// The recommendation for a workload by its number, and its effects on quotas; none if it runs no containers. Notes are
    /// what could not be taken into account.
    pub fn recommend(
        &self,
        number: usize,
        entry: &Entry,
        cluster: &mut dyn ClusterReader,
        notes: &mut Vec<ReadError>,
    ) -> Result<Option<(Workload, Vec<QuotaEffect>)>, String> {
        let object = &entry.object.value();
        let asked = Asked { engine: self, object, kind: ApiKind::of(object), namespace: &entry.key.namespace };
        let Some(mut now) = asked.evaluate_live(object, cluster)? else { return Ok(None) };
        for problem in &now.missing {
            if !notes.contains(problem) {
                notes.push(problem.clone());
            }
        }
        if !now.containers.iter().any(|container| self.wants(&container.name)) {
            return Ok(None);
        }
        let usage: Vec<Option<&ContainerUsage>> = match self.usage {
            Usage::Profiles => now.containers.iter().map(|_| None).collect(),
            Usage::Read(all) => now.containers.iter().map(|container| all.get(number, &container.name)).collect(),
        };
        for (container, usage) in now.containers.iter_mut().zip(&usage) {
            if let Usage::Read(_) = self.usage {
                container.add_usage(*usage);
            }
            let lacks_limit = usage.is_some_and(|usage| usage.lacks_kill_limit);
            container.add_kills(count(&entry.running.killed, &container.name), lacks_limit);
            container.restarts = count(&entry.running.restarts, &container.name);
        }
        let Advised { mut containers, after, limits_refused } = asked.advise(&now, &usage, cluster)?;
        let (pods, is_from_spec) = pods_of(entry, &now);
        let before = entry.exists.then_some(now.charges.as_slice());
        let quotas = quota_effect::between(&entry.key.namespace, pods, before, &after.charges);
        let running = entry.running.pods.max(pods);
        let requested = Workload::requested(&containers);
        let autoscalers = autoscaler::effects(&entry.key, self.autoscalers, &requested, running);
        containers.retain(|container| self.wants(&container.name));
        let mut of_workload = now.notes.clone();
        of_workload.extend(now.assumption.filter(|_| is_from_spec).map(str::to_owned));
        of_workload.extend(limits_refused.map(|breach| format!("memory limits are left as they are: {breach}")));
        of_workload.extend(new_breach(&now, &after).map(|breach| format!("would still be rejected: {breach}")));
        let through = entry.through.as_ref();
        of_workload.extend(
            through.map(|through| format!("read from {through}: set the requests in the template of {}", entry.key)),
        );
        let workload = Workload {
            api_version: entry.api_version.clone(),
            key: entry.key.clone(),
            through: entry.through.clone(),
            managed_by: entry.managed_by.clone(),
            file: entry.origin.as_ref().map(|origin| origin.file.display().to_string()),
            pods,
            qos: now.qos,
            qos_after: after.qos,
            autoscalers,
            containers,
            notes: of_workload,
            path: now.path,
        };
        Ok(Some((workload, quotas)))
    }

    fn wants(&self, container: &str) -> bool {
        self.containers.is_empty() || self.containers.iter().any(|pattern| glob::matches(pattern, container))
    }
}

fn count(counts: &BTreeMap<String, u64>, container: &str) -> u64 {
    counts.get(container).copied().unwrap_or(0)
}

/// How many pods the recommendation is about, and whether the object says so: of what runs now and then, those that run.
fn pods_of(entry: &Entry, now: &Evaluated) -> (u64, bool) {
    match entry.key.kind.as_str() {
        "CronJob" | "Job" if entry.exists => (entry.running.pods, false),
        _ if entry.through.is_some() => (entry.running.pods.max(now.pods), false),
        _ => (now.pods, true),
    }
}

/// What the policy makes of an object.
struct Evaluated {
    containers: Vec<Container>,
    notes: Vec<String>,
    /// From the object to the pod in it.
    path: Vec<&'static str>,
    /// As the object says, and what had to be assumed for that.
    pods: u64,
    assumption: Option<&'static str>,
    qos: &'static str,
    charges: Vec<Charge>,
    breaches: Vec<String>,
    missing: Vec<ReadError>,
}

/// What is recommended for the containers of a workload, and what admission makes of it then.
struct Advised {
    containers: Vec<Container>,
    after: Evaluated,
    /// Why the LimitRanges do not take the new memory limits.
    limits_refused: Option<String>,
}

impl Evaluated {
    /// Takes what the policy's own settings make of the object; what is recommended stays.
    fn take_admitted(&mut self, admitted: Self) {
        for (container, admitted) in self.containers.iter_mut().zip(admitted.containers) {
            for advice in &mut container.resources {
                let request = admitted.resource(advice.resource).and_then(|admitted| admitted.request.clone());
                advice.set_current(request);
            }
        }
        (self.qos, self.charges, self.breaches) = (admitted.qos, admitted.charges, admitted.breaches);
    }
}

/// The first breach that there was not before.
fn new_breach(before: &Evaluated, after: &Evaluated) -> Option<String> {
    after.breaches.iter().find(|breach| !before.breaches.contains(breach)).cloned()
}

/// A workload that is asked about.
struct Asked<'a> {
    engine: &'a Engine<'a>,
    object: &'a Value,
    kind: ApiKind,
    namespace: &'a str,
}

impl Asked<'_> {
    fn evaluate(&self, object: &Value, cluster: &mut dyn ClusterReader) -> Result<Option<Evaluated>, String> {
        self.evaluate_with(self.engine.settings, object, cluster)
    }

    fn evaluate_with(
        &self,
        settings: &Value,
        object: &Value,
        cluster: &mut dyn ClusterReader,
    ) -> Result<Option<Evaluated>, String> {
        let request = review::create(object.clone(), &self.kind, self.namespace);
        let (evaluated, missing) = evaluate::with_context(&request, settings, cluster, evaluated)?;
        Ok(evaluated.map(|evaluated| Evaluated { missing, ..evaluated }))
    }

    /// With the usage history that admission has.
    fn evaluate_live(&self, object: &Value, cluster: &mut dyn ClusterReader) -> Result<Option<Evaluated>, String> {
        let mut found = match self.engine.usage {
            Usage::Profiles => self.evaluate(object, cluster)?,
            Usage::Read(_) => self.evaluate(object, &mut HistoryOverlay::without(cluster))?,
        };
        let Engine { settings, admission, .. } = self.engine;
        if let Some(found) = found.as_mut().filter(|_| settings != admission)
            && let Some(admitted) = self.evaluate_with(admission, object, cluster)?
        {
            found.take_admitted(admitted);
        }
        Ok(found)
    }

    /// The recommendations, with a new memory limit for each container whose author has one that usage is too close to or
    /// too far from, unless the LimitRanges refuse that.
    fn advise(
        &self,
        now: &Evaluated,
        usage: &[Option<&ContainerUsage>],
        cluster: &mut dyn ClusterReader,
    ) -> Result<Advised, String> {
        let mut limits = self.new_limits(now, usage, cluster)?;
        let mut limited = self.object.clone();
        for (container, limit) in now.containers.iter().zip(&limits) {
            if let Some(limit) = limit {
                write(&mut limited, &now.path, container, Requirement::Limit, "memory", Some(limit));
            }
        }
        let (mut containers, mut after) = self.recommended(&limited, now, usage, cluster)?;
        let mut limits_refused = None;
        if let Some(breach) = new_breach(now, &after)
            && limits.iter().any(Option::is_some)
        {
            // The LimitRanges will not have the new limits, so the author's stay.
            limits.iter_mut().for_each(|limit| *limit = None);
            limits_refused = Some(breach);
            (containers, after) = self.recommended(self.object, now, usage, cluster)?;
        }
        for (container, limit) in containers.iter_mut().zip(limits) {
            if let Some(memory) = container.resources.iter_mut().find(|of| of.resource == Resource::Memory) {
                memory.recommended_limit = limit;
            }
        }
        Ok(Advised { containers, after, limits_refused })
    }

    /// A memory limit for each container whose author has one and that used something: at least what the container should
    /// request if it had none, so that the limit does not cut the request. From UsageProfiles only for containers that were
    /// killed, since pods of the image in other places may have used more.
    fn new_limits(
        &self,
        now: &Evaluated,
        usage: &[Option<&ContainerUsage>],
        cluster: &mut dyn ClusterReader,
    ) -> Result<Vec<Option<Quantity>>, String> {
        let containers = &now.containers;
        let is_wanted = |container: &&Container| {
            self.engine.wants(&container.name)
                && !container.is_too_brief()
                && (matches!(self.engine.usage, Usage::Read(_)) || container.killed_at.is_some())
        };
        let limit = |container| Some(container).filter(is_wanted).and_then(limit_of_usage);
        let mut limits: Vec<Option<Quantity>> = containers.iter().map(limit).collect();
        if limits.iter().all(Option::is_none) {
            return Ok(limits);
        }
        let mut unlimited = self.object.clone();
        for (container, _) in containers.iter().zip(&limits).filter(|(_, limit)| limit.is_some()) {
            write(&mut unlimited, &now.path, container, Requirement::Limit, "memory", None);
        }
        let (advised, _) = self.recommended(&unlimited, now, usage, cluster)?;
        for ((limit, advised), container) in limits.iter_mut().zip(&advised).zip(containers) {
            let request = advised.resource(Resource::Memory).and_then(|memory| memory.recommended.clone());
            if let (Some(limit), Some(request)) = (limit.as_mut(), request) {
                *limit = limit.clone().max(request);
            }
            // What is so already is no advice.
            limit.take_if(|limit| written_memory_limit(container) == Some(limit));
        }
        Ok(limits)
    }

    /// The recommendation for each container of an object from its usage, and what admission would make of the object with
    /// that written.
    fn recommended(
        &self,
        object: &Value,
        now: &Evaluated,
        usage: &[Option<&ContainerUsage>],
        cluster: &mut dyn ClusterReader,
    ) -> Result<(Vec<Container>, Evaluated), String> {
        let mut advised = now.containers.clone();
        match self.engine.usage {
            // What admission makes of the object itself is known already.
            Usage::Profiles if object == self.object => {}
            Usage::Profiles => {
                let found = self.evaluate(object, cluster)?.map(|found| found.containers).unwrap_or_default();
                advised.iter_mut().zip(found).for_each(|(slot, container)| slot.take_advice(container));
            }
            Usage::Read(_) => self.take_advice_from(usage, object, now, &mut advised, cluster)?,
        }
        self.withdraw(&mut advised);
        let after = self.with_all_written(object, now, &advised, cluster)?;
        Ok((advised, after))
    }

    /// The same from usage that was read from a source.
    fn take_advice_from(
        &self,
        usage: &[Option<&ContainerUsage>],
        object: &Value,
        now: &Evaluated,
        advised: &mut [Container],
        cluster: &mut dyn ClusterReader,
    ) -> Result<(), String> {
        let turns = turns(&now.containers);
        for turn in 0..=turns.iter().copied().max().unwrap_or(0) {
            let is_its_turn = |place: &usize| turns.get(*place) == Some(&turn);
            let containers = now.containers.iter().enumerate();
            let containers = containers.filter_map(|(place, container)| {
                let usage = usage.get(place).copied().flatten()?;
                let mut history = usage.usage.history()?;
                if let Some(killed_at) = container.killed_at.as_ref().filter(|_| usage.lacks_kill_limit) {
                    history.oom_kills.iter_mut().for_each(|kill| kill.memory = killed_at.clone());
                }
                let is_asked = is_its_turn(&place);
                Some(history_overlay::Container { name: &container.name, image: &container.image, history, is_asked })
            });
            let (namespace, workload) = (self.namespace, workload_of(object));
            let mut overlay = HistoryOverlay::with(cluster, namespace, self.engine.now, workload, containers);
            let Some(found) = self.evaluate(object, &mut overlay)? else { continue };
            for (place, container) in found.containers.into_iter().enumerate().filter(|(at, _)| is_its_turn(at)) {
                if let Some(slot) = advised.get_mut(place) {
                    slot.take_advice(container);
                }
            }
        }
        Ok(())
    }

    /// Takes back what is not wanted, and what is made from too little usage.
    fn withdraw(&self, containers: &mut [Container]) {
        for container in containers {
            let minutes = container.evidence.filter(|evidence| evidence.is_too_brief).map(|evidence| evidence.samples);
            for advice in &mut container.resources {
                if let Some(minutes) = minutes.filter(|_| advice.recommended.is_some()) {
                    advice.withdraw();
                    advice.unknown = Some(Why::TooLittleData { minutes });
                } else if !self.engine.wants(&container.name) {
                    advice.withdraw();
                }
            }
        }
    }

    fn with_all_written(
        &self,
        object: &Value,
        now: &Evaluated,
        containers: &[Container],
        cluster: &mut dyn ClusterReader,
    ) -> Result<Evaluated, String> {
        let mut written = object.clone();
        for container in containers {
            for advice in &container.resources {
                if let Some(amount) = &advice.recommended {
                    let name = advice.resource.name();
                    write(&mut written, &now.path, container, Requirement::Request, name, Some(amount));
                }
            }
        }
        self.evaluate_live(&written, cluster)?.ok_or_else(|| "the object runs no containers any more".to_owned())
    }
}

impl Container {
    /// Takes the recommendations for the same container with its usage; what is set now stays as it was found without.
    fn take_advice(&mut self, advised: Self) {
        for (advice, with_usage) in self.resources.iter_mut().zip(advised.resources) {
            advice.recommended = with_usage.recommended;
            let request = advice.request.take();
            advice.set_current(request);
            advice.reason = with_usage.reason;
            advice.unknown = with_usage.unknown;
            advice.typical = with_usage.typical;
        }
    }

    /// Takes over what was read of it.
    fn add_usage(&mut self, usage: Option<&ContainerUsage>) {
        for advice in &mut self.resources {
            advice.used =
                usage.and_then(|usage| Distribution::of_sketch(usage.sketch(advice.resource), advice.resource));
        }
        self.evidence = usage.and_then(Evidence::of);
        self.oom_kills = usage.map_or(0, |usage| usage.kills);
        let kills = usage.iter().flat_map(|usage| usage.usage.kills());
        self.killed_at = kills.map(|kill| kill.memory).max().map(Quantity::from_bytes);
        self.throttled_percent = usage.and_then(ContainerUsage::throttled_percent);
    }
}

impl Container {
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

/// The name under which admission knows what an object's pods used.
fn workload_of(object: &Value) -> &str {
    let name = metadata(object, "name");
    if ApiKind::of(object).kind == "Pod" { workload::of_pod(name) } else { name }
}

/// In which turn each container is asked about: until there is enough of its own history, the policy goes by that of the
/// image, so two containers with the same image wait for each other.
fn turns(containers: &[Container]) -> Vec<usize> {
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

/// Where the author has a memory limit and something was used. The limit of a container that was killed never falls.
fn limit_of_usage(container: &Container) -> Option<Quantity> {
    let written = written_memory_limit(container)?;
    let bytes = |amount: &Quantity| u64::try_from(amount.value()).unwrap_or(0);
    let peak = container.resource(Resource::Memory)?.used.as_ref()?.peak();
    let limit = memory_limit::of_usage(bytes(peak), container.killed_at.as_ref().map(bytes));
    Some(if container.oom_kills > 0 { limit.max(written.clone()) } else { limit })
}

fn written_memory_limit(container: &Container) -> Option<&Quantity> {
    container.resource(Resource::Memory)?.written_limit.as_ref()
}

/// Sets an amount in an object that makes pods, where the container stands, or takes it away.
fn write(
    object: &mut Value,
    path: &[&str],
    container: &Container,
    requirement: Requirement,
    resource: &str,
    amount: Option<&Quantity>,
) {
    let path = containers_at(path, container.is_init);
    let containers = object.pointer_mut(&path).and_then(Value::as_array_mut).into_iter().flatten();
    for of_object in containers.filter(|of_object| of_object.get("name") == Some(&json!(container.name))) {
        let Some(fields) = of_object.as_object_mut() else { continue };
        let resources = fields.entry("resources").or_insert_with(|| json!({}));
        let Some(resources) = resources.as_object_mut() else { continue };
        let amounts = resources.entry(requirement.field()).or_insert_with(|| json!({}));
        if let Some(amounts) = amounts.as_object_mut() {
            match amount {
                Some(amount) => amounts.insert(resource.to_owned(), json!(amount.to_string())),
                None => amounts.remove(resource),
            };
        }
    }
}

/// What the policy makes of a request; none if it has no pod.
fn evaluated<'d>(
    request: &'d Request<'d>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<Option<Evaluated>, Malformed> {
    let Some(found) = recommendation::recommend(request, context, settings)? else { return Ok(None) };
    let (pods, assumption) = pods_in_spec(request)?;
    let wanted: Vec<Resource> =
        Resource::ALL.into_iter().filter(|resource| *settings.estimates.resources.of(*resource)).collect();
    let containers = found.as_it_stands.containers.iter().enumerate();
    let admitted = &found.before;
    let ranges = limit_rules::applicable(request, Some(admitted), context, settings)?;
    let breaches = bounds::check_pod(admitted, None, &ranges).first.iter().map(ToString::to_string).collect();
    Ok(Some(Evaluated {
        containers: containers.map(|(place, container)| of_container(place, container, &wanted, &found)).collect(),
        notes: found.advice.estimates.notes.clone(),
        path: request.pod_kind().map(|kind| kind.path.to_vec()).unwrap_or_default(),
        pods,
        assumption,
        qos: qos(admitted),
        charges: quota_effect::charges(admitted, context)?,
        breaches,
        missing: Vec::new(),
    }))
}

/// How many pods an object makes, and what had to be assumed for that.
fn pods_in_spec(request: &Request<'_>) -> Result<(u64, Option<&'static str>), Malformed> {
    let Some(object) = request.object else { return Ok((1, None)) };
    if request.resource == "daemonsets"
        && let Some(nodes) = object.node.at(&["status", "desiredNumberScheduled"])?
    {
        return Ok((u64::try_from(nodes.integer()?).unwrap_or(0), None));
    }
    match rollout::rollout(request)? {
        Some(rollout) => Ok((rollout.wanted, rollout.assumption)),
        None if request.resource == "pods" => Ok((1, None)),
        // A paused Deployment may have pods, although it makes none now.
        None if request.resource == "deployments" => Ok((rollout::replicas(&object)?, None)),
        None => Ok((0, None)),
    }
}

fn of_container(
    place: usize,
    container: &request::Container<'_>,
    wanted: &[Resource],
    found: &Recommendation<'_>,
) -> Container {
    let measured = found.advice.measured.iter().filter(|of| of.container == place);
    Container {
        name: container.name.to_string(),
        image: container.image.to_string(),
        is_init: container.role != Role::Main,
        resources: wanted.iter().map(|resource| of_resource(place, container, *resource, found)).collect(),
        evidence: measured
            .clone()
            .map(evidence)
            .reduce(|a, b| Evidence::new(a.days.max(b.days), a.samples.max(b.samples), a.pods.max(b.pods))),
        oom_kills: measured.clone().map(|of| of.oom_kills.len() as u64).max().unwrap_or(0),
        killed_at: measured.flat_map(|of| of.oom_kills.iter().map(|kill| kill.memory.clone())).max(),
        throttled_percent: None,
        restarts: 0,
        severity: Severity::Unknown,
    }
}

fn evidence(measured: &Measurements) -> Evidence {
    let days = measured.days.unwrap_or_else(|| measured.window.days().into());
    Evidence::new(days, measured.samples, measured.pods)
}

fn of_resource(
    place: usize,
    container: &request::Container<'_>,
    resource: Resource,
    found: &Recommendation<'_>,
) -> ResourceAdvice {
    let name = resource.name();
    let before = found.before.containers.get(place).and_then(|container| container.resources.requests.get(name));
    let written = container.resources.requests.get(name).filter(|value| value.origin.is_authored());
    let written_limit = container.resources.limits.get(name).filter(|value| value.origin.is_authored());
    let request = before.map(|value| CurrentRequest {
        value: value.quantity.clone(),
        from: match &value.origin {
            origin if origin.is_authored() => SetBy::Author,
            Origin::Estimate(_) => SetBy::Estimate,
            origin => SetBy::Other(origin.to_string()),
        },
    });
    let mut advice = ResourceAdvice {
        resource,
        request,
        limit: container.resources.quantity(Requirement::Limit, name).cloned(),
        recommended: None,
        recommended_limit: None,
        change: None,
        used: None,
        reason: None,
        unknown: None,
        typical: None,
        written: written.map(|value| value.quantity.clone()),
        written_limit: written_limit.map(|value| value.quantity.clone()),
    };
    let is_this = |of: usize, resource_of: Resource| of == place && resource_of == resource;
    if let Some(unknown) = found.advice.unknown.iter().find(|unknown| is_this(unknown.container, unknown.resource)) {
        advice.unknown = Some(unknown.why.clone());
        return advice;
    }
    let mut all = found.advice.estimates.estimates.iter();
    let Some(estimate) = all.find(|estimate| is_this(estimate.target.container, estimate.target.resource)) else {
        advice.unknown = Some(Why::NoAmountFits);
        return advice;
    };
    let Some(measured) = found.advice.measured.iter().find(|of| is_this(of.container, of.resource)) else {
        advice.unknown = Some(Why::NoUsageData(estimate.rejected.clone()));
        advice.typical = advice.written.is_none().then(|| estimate.quantity.clone());
        if let Some(request) = advice.request.as_mut().filter(|request| request.from == SetBy::Estimate) {
            request.from = SetBy::Typical;
        }
        return advice;
    };
    advice.recommended = Some(estimate.quantity.clone());
    advice.change = Some(Delta::new(before.map(|value| &value.quantity), &estimate.quantity));
    let Measurements { samples, percentiles, peak, .. } = measured.clone();
    advice.used = Some(Distribution::new(resource, samples, percentiles, peak).of_history(&estimate.basis));
    advice.reason = Some(Reason::new(estimate, Some(measured)));
    advice
}

/// <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/>
fn qos(pod: &Pod<'_>) -> &'static str {
    let all: Vec<_> =
        if pod.resources.of(Requirement::Request).is_empty() && pod.resources.of(Requirement::Limit).is_empty() {
            pod.containers.iter().map(|container| &container.resources).collect()
        } else {
            vec![&pod.resources]
        };
    let amount = |resources: &request::Resources<'_>, requirement, name| {
        resources.quantity(requirement, name).filter(|amount| !amount.is_zero()).cloned()
    };
    let is_set = |name| {
        all.iter().any(|resources| {
            Requirement::BOTH.iter().any(|requirement| amount(resources, *requirement, name).is_some())
        })
    };
    if !is_set("cpu") && !is_set("memory") {
        return "BestEffort";
    }
    let is_guaranteed = all.iter().all(|resources| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = amount(resources, Requirement::Limit, name);
            limit.is_some() && limit == amount(resources, Requirement::Request, name)
        })
    });
    if is_guaranteed { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests;
