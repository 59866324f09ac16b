//! The change of the number and the template of a workload's pods by a request.
//!
//! All of it is read from the request; [`controllers`](super::controllers) says in which order the pods come and go, and
//! whether they fit is checked elsewhere. Where the request does not contain a number, the assumption is stated.

use std::borrow::Cow;

use super::controllers::{Controller, Rollout, Template};
use super::kinds::{self, Growth};
use super::{Object, Operation, Request, controller_of};
use crate::json::{Malformed, Node};

const REPLICAS: &str = "replicas";
const PODS: &str = "pods";
const TERMINATING: &str = "terminatingReplicas";

const ONE_RUN: &str = "assuming one job at a time; concurrencyPolicy Allow lets jobs overlap";
const ONE_NODE: &str = "assuming one node; the number of nodes is not known yet";
const EQUAL_PODS: &str = "assuming that its present pods request the same";
const UNDO: &str = "unless it returns to the template of its present pods";

/// Reads what a request does to the pods of a workload; none if it creates no new ones. The ReplicaSets of a Deployment
/// and the Jobs of a CronJob were evaluated with their owner, and are not evaluated again.
pub fn rollout(request: &Request<'_>) -> Result<Option<Rollout>, Malformed> {
    let (Some(kind), Some(object)) = (request.pod_kind(), &request.object) else { return Ok(None) };
    let old = match &request.operation {
        Operation::Create => None,
        Operation::Update { old: Some(old) } => Some(old),
        Operation::Update { old: None } | Operation::Other => return Ok(None),
    };
    match request.subresource.as_ref() {
        "scale" => return scaling(object, old),
        "" => {}
        _ => return Ok(None),
    }
    if request.is_by_kubernetes_controller() && is_owned_by_workload(object.node)? {
        return Ok(None);
    }
    if object.is_being_deleted()? {
        // Its controller makes no more pods.
        return Ok(None);
    }
    let change = TemplateChange { object, old, is_renewed: old.is_some() && !keeps_template(request)? };
    let (rollout, terminating) = match kind.growth {
        Growth::Pod => return Ok(None),
        Growth::Deployment => (change.deployment()?, TERMINATING),
        Growth::StatefulSet => (change.stateful_set()?, ""),
        Growth::ReplicaSet => (change.replica_set()?, TERMINATING),
        Growth::DaemonSet => (change.daemon_set()?, ""),
        Growth::Job => (change.job()?, "terminating"),
        Growth::CronJob => (change.cron_job()?, ""),
    };
    let Some(rollout) = rollout else { return Ok(None) };
    let terminating = old.map(|old| old.status_at(&[terminating])).transpose()?.flatten();
    Ok(Some(Rollout { terminating: count(terminating)?.unwrap_or(0), ..rollout }))
}

impl Rollout {
    /// The rollout that a `scale` makes, whose own object does not tell how many pods of the workload still terminate.
    pub fn of_scaled(self, workload: Option<Node<'_>>) -> Result<Self, Malformed> {
        let terminating = workload.map(|workload| workload.at(&["status", TERMINATING])).transpose()?.flatten();
        let terminating = count(terminating)?.unwrap_or(self.terminating);
        Ok(Self { terminating, ..self })
    }
}

/// True if the request sets the pod template, so that values may be filled into it. Changing a template that the
/// request keeps would replace every pod of a workload, and is refused for a Job. An object that a controller derives
/// from another object must keep its template too, or the controller would write it again and again.
pub fn decides_template(request: &Request<'_>) -> Result<bool, Malformed> {
    let Some(object) = &request.object else { return Ok(false) };
    let may_be_new = request.is_create() || request.old().is_some();
    // If a person writes an owner into an object, its template is filled in nevertheless.
    let is_derived = request.is_by_service_account() && controller_of(object.node)?.is_some();
    Ok(may_be_new && !is_derived && !keeps_template(request)?)
}

/// The claims that the controller of a StatefulSet creates for each of its pods; none for other kinds.
pub fn claim_templates<'d>(request: &Request<'d>, workload: Node<'d>) -> Result<Vec<Object<'d>>, Malformed> {
    let creates_claims = request.pod_kind().is_some_and(|kind| kind.growth == Growth::StatefulSet);
    let Some(spec) = workload.get("spec")?.filter(|_| creates_claims) else { return Ok(Vec::new()) };
    spec.list("volumeClaimTemplates")?.map(Object::created).collect()
}

/// True if an update leaves the pod template as it is.
pub fn keeps_template(request: &Request<'_>) -> Result<bool, Malformed> {
    let (Some(kind), Some(object), Some(old)) = (request.pod_kind(), &request.object, request.old()) else {
        return Ok(false);
    };
    Ok(object.node.at(kind.path)?.map(Node::text) == old.node.at(kind.path)?.map(Node::text))
}

/// True if a `scale` asks for more replicas than before.
fn scaling(object: &Object<'_>, old: Option<&Object<'_>>) -> Result<Option<Rollout>, Malformed> {
    let wanted = count(object.spec_at(&["replicas"])?)?.unwrap_or(0);
    let Some(old) = old else { return Ok(None) };
    let before = count(old.spec_at(&["replicas"])?)?.unwrap_or(0);
    if wanted <= before {
        return Ok(None);
    }
    let present = count(old.status_at(&["replicas"])?)?.unwrap_or(before);
    Ok(Some(Rollout::adding(wanted, present, REPLICAS)))
}

struct TemplateChange<'a, 'd> {
    object: &'a Object<'d>,
    old: Option<&'a Object<'d>>,
    is_renewed: bool,
}

impl<'d> TemplateChange<'_, 'd> {
    /// The type of the update strategy in a field, and the bounds of a rolling update.
    fn strategy(&self, field: &str) -> Result<(Option<Cow<'d, str>>, Option<Node<'d>>), Malformed> {
        let Some(strategy) = self.object.spec_at(&[field])? else { return Ok((None, None)) };
        Ok((strategy.string("type")?, strategy.get("rollingUpdate")?))
    }

    fn deployment(&self) -> Result<Option<Rollout>, Malformed> {
        let is_paused = |object: &Object<'_>| flag(object.spec_at(&["paused"])?);
        let wanted = replicas(self.object)?;
        let Some(old) = self.old else {
            // A paused Deployment has no ReplicaSet yet.
            return Ok((!is_paused(self.object)?).then(|| Rollout::adding(wanted, 0, REPLICAS)));
        };
        let before = replicas(old)?;
        let present = pods_in_status(old, "replicas", before)?;
        // The pods of the last template; a rollout is under way if there are others.
        let last = pods_in_status(old, "updatedReplicas", present)?;
        // Whoever creates the first ReplicaSet writes the revision.
        let revision = old.node.at(&["metadata", "annotations", "deployment.kubernetes.io/revision"])?;
        let has_replica_set = present > 0 || revision.is_some();
        if is_paused(self.object)? {
            // Its ReplicaSet keeps the old template.
            let template = if self.is_renewed { Template::Old } else { Template::New };
            let adds = wanted > before && has_replica_set;
            return Ok(adds.then(|| Rollout {
                controller: Controller::Adds { template },
                ..Rollout::adding(wanted, present, REPLICAS)
            }));
        }
        let is_resumed = is_paused(old)?;
        if !self.is_renewed && !is_resumed {
            return Ok((wanted > before).then(|| Rollout::adding(wanted, present, REPLICAS)));
        }
        let current = if self.is_renewed { 0 } else { last.min(present) };
        if wanted <= current {
            return Ok(None);
        }
        let (kind, bounds) = self.strategy("strategy")?;
        let controller = if kind.as_deref() == Some("Recreate") {
            Controller::Recreates
        } else {
            let surge = pods_at_once(bounds, "maxSurge", "25%", wanted, u64::div_ceil)?;
            let unavailable = pods_at_once(bounds, "maxUnavailable", "25%", wanted, |pods, hundred| pods / hundred)?;
            // Like the controller, which would stand still otherwise.
            let unavailable = unavailable.max(u64::from(surge == 0)).min(wanted);
            let is_scaled = wanted != before && present > current;
            let refills = before > 0 && has_replica_set && (self.is_renewed || last < present);
            Controller::Deployment { surge, unavailable, is_scaled, refills }
        };
        let assumption = match (self.is_renewed, present > current) {
            (true, true) if last < present => Some(UNDO),
            (false, true) => Some(EQUAL_PODS),
            _ => None,
        };
        let is_uncertain = assumption == Some(UNDO);
        let noun = REPLICAS;
        Ok(Some(Rollout { wanted, present, current, terminating: 0, controller, noun, assumption, is_uncertain }))
    }

    /// Pods of the old template are replaced down to the partition; with `OnDelete`, only missing pods are created.
    fn stateful_set(&self) -> Result<Option<Rollout>, Malformed> {
        let (kind, bounds) = self.strategy("updateStrategy")?;
        let Some(old) = self.old.filter(|_| self.is_renewed && kind.as_deref() != Some("OnDelete")) else {
            return self.replica_set();
        };
        let wanted = replicas(self.object)?;
        let present = pods_in_status(old, "replicas", replicas(old)?)?;
        // Counted from the first ordinal, wherever that starts.
        let kept = count(bounds.map(|bounds| bounds.get("partition")).transpose()?.flatten())?.unwrap_or(0);
        let at_once = pods_at_once(bounds, "maxUnavailable", "1", wanted, u64::div_ceil)?.max(1);
        let rollout = Rollout {
            controller: Controller::StatefulSet { at_once, kept },
            ..Rollout::adding(wanted, present, REPLICAS)
        };
        Ok((kept < wanted || present < wanted).then_some(rollout))
    }

    /// A ReplicaSet leaves the pods that it has as they are.
    fn replica_set(&self) -> Result<Option<Rollout>, Malformed> {
        let wanted = replicas(self.object)?;
        let Some(old) = self.old else { return Ok(Some(Rollout::adding(wanted, 0, REPLICAS))) };
        let before = replicas(old)?;
        let present = pods_in_status(old, "replicas", before)?;
        // Missing pods are created from a new template, too.
        let adds = wanted > before || self.is_renewed && present < wanted;
        Ok(adds.then(|| Rollout::adding(wanted, present, REPLICAS)))
    }

    /// One pod per node; the number of nodes is known once the controller has counted them.
    fn daemon_set(&self) -> Result<Option<Rollout>, Malformed> {
        let Some(old) = self.old else {
            return Ok(Some(Rollout { assumption: Some(ONE_NODE), ..Rollout::adding(1, 0, PODS) }));
        };
        let (kind, bounds) = self.strategy("updateStrategy")?;
        if !self.is_renewed {
            return Ok(None);
        }
        let nodes = count(old.status_at(&["desiredNumberScheduled"])?)?;
        let wanted = nodes.unwrap_or(1);
        let present = count(old.status_at(&["currentNumberScheduled"])?)?.unwrap_or(wanted).min(wanted);
        let surge = pods_at_once(bounds, "maxSurge", "0", wanted, u64::div_ceil)?;
        let at_once = pods_at_once(bounds, "maxUnavailable", "1", wanted, u64::div_ceil)?.max(1);
        let controller = match kind.as_deref() {
            Some("OnDelete") if present == wanted => return Ok(None),
            Some("OnDelete") => Controller::Adds { template: Template::New },
            _ => Controller::DaemonSet { surge, at_once },
        };
        let assumption = nodes.is_none().then_some(ONE_NODE);
        Ok(Some(Rollout { controller, assumption, ..Rollout::adding(wanted, present, PODS) }))
    }

    /// A Job's template never changes; its parallelism and its suspension may.
    fn job(&self) -> Result<Option<Rollout>, Malformed> {
        let manager = self.object.spec_at(&["managedBy"])?.map(Node::str).transpose()?;
        if manager.is_some_and(|manager| manager != "kubernetes.io/job-controller") {
            return Ok(None);
        }
        let parallelism = |job: &Object<'d>| parallelism_of(job.spec, job.status);
        let wanted = parallelism(self.object)?;
        let before = self.old.map(parallelism).transpose()?.unwrap_or(0);
        let active = self.old.map(|old| count(old.status_at(&["active"])?)).transpose()?.flatten();
        let present = active.unwrap_or(0).min(wanted);
        Ok((wanted > before).then(|| Rollout::adding(wanted, present, PODS)))
    }

    fn cron_job(&self) -> Result<Option<Rollout>, Malformed> {
        let per_run = |object: &Object<'d>| {
            let is_suspended = flag(object.spec_at(&["suspend"])?)?;
            if is_suspended { Ok(0) } else { parallelism_of(object.spec_at(&["jobTemplate", "spec"])?, None) }
        };
        let wanted = per_run(self.object)?;
        let before = self.old.map(per_run).transpose()?.unwrap_or(0);
        if wanted == 0 || (wanted <= before && !self.is_renewed) {
            return Ok(None);
        }
        let policy = self.object.spec_at(&["concurrencyPolicy"])?.map(Node::str).transpose()?;
        let overlaps = !matches!(policy.as_deref(), Some("Forbid" | "Replace"));
        let runs = self.old.map(|old| old.status_at(&["active"])).transpose()?.flatten();
        let is_running = runs.map(Node::items).transpose()?.is_some_and(|mut runs| runs.next().is_some());
        let rollout = Rollout::adding(wanted, 0, PODS);
        Ok(Some(if is_running && !overlaps {
            // The run that ends first, or is replaced.
            Rollout { present: before, controller: Controller::Recreates, ..rollout }
        } else {
            Rollout { assumption: overlaps.then_some(ONE_RUN), ..rollout }
        }))
    }
}

/// The replicas that a workload specifies; 1 by default.
pub fn replicas(object: &Object<'_>) -> Result<u64, Malformed> {
    Ok(count(object.spec_at(&["replicas"])?)?.unwrap_or(1))
}

/// The pods that the status of a workload counts in a field. A status without the field means none. Without any status they are
/// assumed to be as many as specified, or as those that are there.
fn pods_in_status(old: &Object<'_>, field: &str, without_status: u64) -> Result<u64, Malformed> {
    Ok(count(old.status_at(&[field])?)?.unwrap_or(if old.status.is_some() { 0 } else { without_status }))
}

/// The pods that a Job runs at the same time.
fn parallelism_of(spec: Option<Node<'_>>, status: Option<Node<'_>>) -> Result<u64, Malformed> {
    let Some(spec) = spec else { return Ok(0) };
    if flag(spec.get("suspend")?)? || has_finished(status)? {
        return Ok(0);
    }
    let counted = |field: &str| Ok(count(status.map(|status| status.get(field)).transpose()?.flatten())?.unwrap_or(0));
    let succeeded = counted("succeeded")?;
    let parallelism = count(spec.get("parallelism")?)?.unwrap_or(1);
    match count(spec.get("completions")?)? {
        Some(completions) => Ok(parallelism.min(completions.saturating_sub(succeeded))),
        // A work queue: after the first success no more pods are created.
        None if succeeded > 0 => counted("active"),
        None => Ok(parallelism),
    }
}

/// True if a Job has succeeded or failed, or is about to.
fn has_finished(status: Option<Node<'_>>) -> Result<bool, Malformed> {
    for condition in status.map(|status| status.list("conditions")).transpose()?.into_iter().flatten() {
        let kind = condition.string("type")?;
        let ends = matches!(kind.as_deref(), Some("Complete" | "Failed" | "SuccessCriteriaMet" | "FailureTarget"));
        if ends && condition.string("status")?.as_deref() == Some("True") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A number of pods, given as a number or as a percentage of `wanted`, which `divide` rounds.
fn pods_at_once(
    bounds: Option<Node<'_>>,
    field: &str,
    default: &str,
    wanted: u64,
    divide: impl Fn(u64, u64) -> u64,
) -> Result<u64, Malformed> {
    let node = bounds.map(|bounds| bounds.get(field)).transpose()?.flatten();
    let text = node.map(Node::scalar).transpose()?;
    let text = text.as_deref().unwrap_or(default);
    let read = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(|percent| divide(wanted.saturating_mul(percent), 100)),
        None => text.parse().ok(),
    };
    match (read, node) {
        (Some(pods), _) => Ok(pods),
        (None, Some(node)) => Err(node.expected("a number of pods or a percentage such as `25%`")),
        (None, None) => Ok(0), // never reached: the defaults are numbers
    }
}

/// True if the object's controller is a Deployment or a CronJob, which was evaluated itself.
fn is_owned_by_workload(object: Node<'_>) -> Result<bool, Malformed> {
    let kind = controller_of(object)?.map(|reference| reference.string("kind")).transpose()?.flatten();
    Ok(kind.is_some_and(|kind| kind == kinds::DEPLOYMENT.kind || kind == kinds::CRON_JOB.kind))
}

fn flag(node: Option<Node<'_>>) -> Result<bool, Malformed> {
    Ok(node.map(Node::bool).transpose()?.unwrap_or(false))
}

/// A number of pods, at least 0.
fn count(node: Option<Node<'_>>) -> Result<Option<u64>, Malformed> {
    let Some(node) = node else { return Ok(None) };
    let number = node.integer()?;
    u64::try_from(number).map(Some).map_err(|_| node.expected("a number that is at least 0"))
}
