//! Advice on one workload: the policy's own estimate from what the workload used, and what would be different with it.
//!
//! The engine is asked three times. As the object stands: what it asks for now. With its history, and with new memory
//! limits where the author has any: what it should ask for. With all of that written: what admission would make of the
//! next pod, which QoS class it has, what it is charged, and whether the LimitRanges let it in.

use headroom_advice::recommend as core;
use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{Resource, workload};
use headroom_core::image::ImageName;
use headroom_core::json::Malformed;
use headroom_core::request::{Pod, Requirement};
use headroom_core::timestamp::Timestamp;
use headroom_core::{Context, Request, Settings, glob, limit_rules, limits as bounds};
use headroom_dryrun::cluster_reader::ClusterReader;
use headroom_dryrun::judge::request;
use headroom_dryrun::kinds::{ApiKind, metadata};
use serde_json::{Value, json};

use super::history::{Histories, Kept};
use super::laid::{self, Laid};
use super::limits;
use super::report::{Amounts, ContainerRow, Evidence, ResourceRow, Row, Used};
use super::world::Workload;
use crate::change::containers_at;
use crate::gather;
use crate::recommend::effect::{self, Charge, QuotaEffect};
use crate::recommend::{self as desk, Current, Subject, advise, autoscaler};

/// What all workloads of a scan have in common.
pub struct Scan<'s> {
    pub histories: &'s Histories,
    pub autoscalers: &'s [Value],
    pub settings: &'s Value,
    pub now: Timestamp,
    /// Patterns of the names of containers; all unless given. The others stay as they are.
    pub wanted: &'s [String],
}

impl Scan<'_> {
    fn wants(&self, container: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|pattern| glob::matches(pattern, container))
    }
}

/// A workload's row, and what taking the advice would do to the quotas; none if it runs no containers. Notes are what
/// could not be taken into account.
pub fn on(
    number: usize,
    workload: &Workload,
    scan: &Scan<'_>,
    around: &mut dyn ClusterReader,
    notes: &mut Vec<String>,
) -> Result<Option<(Row, Vec<QuotaEffect>)>, String> {
    let kind = ApiKind::of(&workload.object);
    let namespace = workload.key.namespace.as_str();
    let Some(now) = look(&workload.object, &kind, scan.settings, &mut Laid::without(around))? else { return Ok(None) };
    for problem in &now.missing {
        if !notes.contains(problem) {
            notes.push(problem.clone());
        }
    }
    let containers = &now.advice.containers;
    if !containers.iter().any(|container| scan.wants(&container.name)) {
        return Ok(None);
    }
    let kept: Vec<Option<&Kept>> =
        containers.iter().map(|container| scan.histories.get(number, &container.name)).collect();

    let mut asked = Asked { kind: &kind, scan, namespace, kept: &kept };
    let mut new_limits = asked.new_limits(&workload.object, &now, around)?;
    let mut object = workload.object.clone();
    for (container, limit) in containers.iter().zip(&new_limits) {
        if let Some(limit) = limit {
            write(&mut object, &now.advice, container, Requirement::Limit, "memory", Some(limit));
        }
    }
    let (mut recommended, mut with_all) = asked.recommended(&object, &now, around)?;
    let mut limits_kept = None;
    if let Some(breach) = new_breach(&now, &with_all)
        && new_limits.iter().any(Option::is_some)
    {
        // The LimitRanges will not have the new limits, so the author's stay.
        new_limits.iter_mut().for_each(|limit| *limit = None);
        limits_kept = Some(breach);
        (recommended, with_all) = asked.recommended(&workload.object, &now, around)?;
    }

    let pods = pods_of(workload, &now.advice);
    let (charges_before, charges_after) = (&now.charges, &with_all.charges);
    let quotas = effect::between(namespace, pods, charges_before, charges_after);
    let mut rows = Vec::new();
    for (place, container) in containers.iter().enumerate() {
        let of = |list: &[desk::ContainerAdvice]| list.get(place).cloned();
        let mut advised = of(&recommended).unwrap_or_else(|| container.clone());
        if !scan.wants(&container.name) {
            advised.resources.iter_mut().for_each(|advice| advice.recommended = None);
        }
        let kept = kept.get(place).copied().flatten();
        let limit = new_limits.get(place).cloned().flatten();
        rows.push(row(container, &advised, kept, limit, workload, pods));
    }
    let running = workload.running.pods.max(pods);
    let scaled = autoscaler::effects(&workload.key, scan.autoscalers, &Row::requested(&rows), running);
    rows.retain(|row| scan.wants(&row.name));
    let mut told: Vec<String> = now.advice.notes.clone();
    told.extend(limits_kept.map(|breach| format!("memory limits are left as they are: {breach}")));
    told.extend(new_breach(&now, &with_all).map(|breach| format!("admission would still refuse it: {breach}")));
    told.extend(
        workload
            .through
            .as_ref()
            .map(|through| format!("read from {through}: set the requests in the template of {}", workload.key.told())),
    );
    let row = Row {
        api_version: workload.api_version.clone(),
        kind: workload.key.kind.clone(),
        namespace: namespace.to_owned(),
        name: workload.key.name.clone(),
        through: workload.through.clone(),
        managed_by: workload.managed_by.clone(),
        pods,
        qos: now.qos,
        qos_after: with_all.qos,
        autoscalers: scaled,
        containers: rows,
        notes: told,
        path: now.advice.path.clone(),
    };
    Ok(Some((row, quotas)))
}

/// What the engine says of an object.
struct Look {
    advice: desk::Workload,
    qos: &'static str,
    charges: Vec<Charge>,
    breaches: Vec<String>,
    missing: Vec<String>,
}

fn look(
    object: &Value,
    kind: &ApiKind,
    settings: &Value,
    around: &mut dyn ClusterReader,
) -> Result<Option<Look>, String> {
    let request = request::create(object.clone(), kind, metadata(object, "namespace"));
    let subject = Subject { api_version: kind.api_version(), kind: kind.kind.clone(), file: None, is_running: true };
    gather::with_context(&request, settings, around, |request, context, settings| {
        looked(&subject, request, context, settings)
    })
}

fn looked<'d>(
    subject: &Subject,
    request: &'d Request<'d>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<Option<Look>, Malformed> {
    let Some((advice, _)) = advise(subject, request, context, settings)? else { return Ok(None) };
    let Some(found) = core::recommend(request, context, settings)? else { return Ok(None) };
    let admitted = &found.before;
    let ranges = limit_rules::applicable(request, Some(admitted), context, settings)?;
    let breaches = bounds::check_pod(admitted, None, &ranges).first.iter().map(ToString::to_string).collect();
    Ok(Some(Look {
        advice,
        qos: qos(admitted),
        charges: effect::charges(admitted, context)?,
        breaches,
        missing: gather::told(&context.missing),
    }))
}

/// The first breach that there was not before.
fn new_breach(before: &Look, after: &Look) -> Option<String> {
    after.breaches.iter().find(|breach| !before.breaches.contains(breach)).cloned()
}

/// What the history of a workload is asked with.
struct Asked<'a> {
    kind: &'a ApiKind,
    scan: &'a Scan<'a>,
    namespace: &'a str,
    kept: &'a [Option<&'a Kept>],
}

impl Asked<'_> {
    /// A memory limit for each container whose author has one and that used something: at least what the container should
    /// request if it had none, so that the limit does not cut the request.
    fn new_limits(
        &mut self,
        object: &Value,
        now: &Look,
        around: &mut dyn ClusterReader,
    ) -> Result<Vec<Option<Quantity>>, String> {
        let containers = &now.advice.containers;
        let mut limits: Vec<Option<Quantity>> =
            containers.iter().zip(self.kept).map(|(container, kept)| limit_of_usage(container, *kept)).collect();
        for (limit, container) in limits.iter_mut().zip(containers) {
            limit.take_if(|_| !self.scan.wants(&container.name));
        }
        if limits.iter().all(Option::is_none) {
            return Ok(limits);
        }
        let mut unlimited = object.clone();
        for (container, _) in containers.iter().zip(&limits).filter(|(_, limit)| limit.is_some()) {
            write(&mut unlimited, &now.advice, container, Requirement::Limit, "memory", None);
        }
        let (advised, _) = self.recommended(&unlimited, now, around)?;
        for ((limit, advised), container) in limits.iter_mut().zip(&advised).zip(containers) {
            let memory = advised.resources.iter().find(|advice| advice.resource == "memory");
            let request = memory.and_then(|memory| memory.recommended.as_ref()?.parse::<Quantity>().ok());
            if let (Some(limit), Some(request)) = (limit.as_mut(), request) {
                *limit = limit.clone().max(request);
            }
            // What is so already is no advice.
            limit.take_if(|limit| written_memory_limit(container) == Some(limit));
        }
        Ok(limits)
    }

    /// Advice on each container of an object, and what admission would make of it with that written.
    fn recommended(
        &mut self,
        object: &Value,
        now: &Look,
        around: &mut dyn ClusterReader,
    ) -> Result<(Vec<desk::ContainerAdvice>, Look), String> {
        let mut advised = now.advice.containers.clone();
        let turns = turns(&now.advice.containers);
        for turn in 0..=turns.iter().copied().max().unwrap_or(0) {
            let is_its_turn = |place: &usize| turns.get(*place) == Some(&turn);
            let containers = now.advice.containers.iter().enumerate();
            let containers = containers.filter_map(|(place, container)| {
                let history = self.kept.get(place).copied().flatten()?.usage.history()?;
                let is_asked = is_its_turn(&place);
                Some(laid::Container { name: &container.name, image: &container.image, history, is_asked })
            });
            let mut laid = Laid::with(around, self.namespace, self.scan.now, workload_of(object), containers);
            let Some(found) = look(object, self.kind, self.scan.settings, &mut laid)? else { continue };
            for (place, container) in found.advice.containers.into_iter().enumerate().filter(|(at, _)| is_its_turn(at))
            {
                if let Some(slot) = advised.get_mut(place) {
                    *slot = container;
                }
            }
        }
        let mut written = object.clone();
        for container in advised.iter().filter(|container| self.scan.wants(&container.name)) {
            for advice in &container.resources {
                if let Some(amount) = advice.recommended.as_ref().and_then(|text| text.parse().ok()) {
                    write(&mut written, &now.advice, container, Requirement::Request, advice.resource, Some(&amount));
                }
            }
        }
        let with_all = look(&written, self.kind, self.scan.settings, &mut Laid::without(around))?;
        Ok((advised, with_all.ok_or("the object runs no containers any more")?))
    }
}

/// Under which name admission knows what an object's pods used.
fn workload_of(object: &Value) -> &str {
    let name = metadata(object, "name");
    if ApiKind::of(object).kind == "Pod" { workload::of_pod(name) } else { name }
}

/// In which turn each container is asked about: until there is enough of its own history, the policy goes by that of the
/// image, so two containers with the same image wait for each other.
fn turns(containers: &[desk::ContainerAdvice]) -> Vec<usize> {
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

/// Where the author has a memory limit and something was used.
fn limit_of_usage(container: &desk::ContainerAdvice, kept: Option<&Kept>) -> Option<Quantity> {
    let sketch = kept.map(|kept| kept.sketch(Resource::Memory)).filter(|sketch| !sketch.is_empty())?;
    written_memory_limit(container)?;
    let killed_at = kept.and_then(|kept| kept.usage.kills().iter().map(|kill| kill.memory).max());
    Some(limits::of_memory(sketch.peak(), killed_at))
}

fn written_memory_limit(container: &desk::ContainerAdvice) -> Option<&Quantity> {
    container.resources.iter().find(|advice| advice.resource == "memory")?.written_limit.as_ref()
}

/// Sets an amount in an object that makes pods, where the container stands, or takes it away.
pub fn write(
    object: &mut Value,
    workload: &desk::Workload,
    container: &desk::ContainerAdvice,
    requirement: Requirement,
    resource: &str,
    amount: Option<&Quantity>,
) {
    let path = containers_at(&workload.path, container.is_init);
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

/// How many pods the advice is about: what runs, for what runs now and then.
fn pods_of(workload: &Workload, advice: &desk::Workload) -> u64 {
    match workload.key.kind.as_str() {
        "CronJob" | "Job" => workload.running.pods,
        _ if workload.through.is_some() => workload.running.pods.max(1),
        _ => advice.pods,
    }
}

fn row(
    container: &desk::ContainerAdvice,
    advised: &desk::ContainerAdvice,
    kept: Option<&Kept>,
    limit: Option<Quantity>,
    workload: &Workload,
    pods: u64,
) -> ContainerRow {
    let resources = container.resources.iter().map(|stood| {
        let resource = Resource::ALL.into_iter().find(|resource| resource.name() == stood.resource);
        let advice = advised.resources.iter().find(|advice| advice.resource == stood.resource);
        let used = kept.zip(resource).and_then(|(kept, resource)| Used::of(kept.sketch(resource), resource));
        let limit = limit.clone().filter(|_| resource == Some(Resource::Memory));
        resource_row(stood, advice, used, limit, pods)
    });
    let running = &workload.running;
    let of = |counts: &std::collections::BTreeMap<String, u64>| counts.get(&container.name).copied().unwrap_or(0);
    ContainerRow {
        name: container.name.clone(),
        image: container.image.clone(),
        is_init: container.is_init,
        resources: resources.collect(),
        evidence: kept.and_then(Evidence::of),
        oom_kills: kept.map_or(0, |kept| kept.kills).max(of(&running.killed)),
        throttled_percent: kept.and_then(|kept| throttled(kept.throttling.throttled, kept.throttling.periods)),
        restarts: of(&running.restarts),
    }
}

fn throttled(throttled: u64, periods: u64) -> Option<u64> {
    (periods > 0).then(|| (throttled.saturating_mul(100) + periods / 2) / periods)
}

fn resource_row(
    stood: &desk::ResourceAdvice,
    advice: Option<&desk::ResourceAdvice>,
    used: Option<Used>,
    new_limit: Option<Quantity>,
    pods: u64,
) -> ResourceRow {
    let parsed = |text: Option<&String>| text.and_then(|text| text.parse::<Quantity>().ok());
    let current = parsed(stood.current.as_ref().map(|Current { value, .. }| value));
    let recommended = parsed(advice.and_then(|advice| advice.recommended.as_ref()));
    let evidence = advice.and_then(|advice| advice.evidence.as_ref());
    ResourceRow {
        resource: stood.resource,
        request: stood.current.clone(),
        limit: stood.limit.clone(),
        recommended: recommended.as_ref().map(ToString::to_string),
        recommended_limit: new_limit.map(|limit| limit.to_string()),
        change: advice.and_then(|advice| advice.change.clone()),
        used,
        reasons: evidence.map(|evidence| evidence.adjustments.clone()).unwrap_or_default(),
        is_measured: evidence.is_some_and(|evidence| evidence.history.is_some()),
        unknown: advice.and_then(|advice| advice.unknown.clone()),
        amounts: Amounts { current, recommended, written: stood.written.clone(), pods },
    }
}

/// <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/>
fn qos(pod: &Pod<'_>) -> &'static str {
    let all: Vec<_> =
        if pod.resources.of(Requirement::Request).is_empty() && pod.resources.of(Requirement::Limit).is_empty() {
            pod.containers.iter().map(|container| &container.resources).collect()
        } else {
            vec![&pod.resources]
        };
    let amount = |resources: &headroom_core::request::Resources<'_>, requirement, name| {
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
