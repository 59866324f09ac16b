//! How many pods a workload is to have, and how a request changes that.
//!
//! All of it is read from the request; whether the pods fit is checked elsewhere. Where the request does not contain
//! the number, the assumption is stated.

use std::borrow::Cow;

use super::kinds::Growth;
use super::{Object, Operation, Request};
use crate::json::{Malformed, Node};

/// A change that may create new pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// The pods that the workload is to have at the same time.
    pub wanted: u64,
    /// The pods that it has.
    pub present: u64,
    /// The fate of the pods that it has.
    pub renewal: Renewal,
    /// The noun for what is counted: `replicas` or `pods`.
    pub noun: &'static str,
    /// The assumption behind the number, if any.
    pub assumption: Option<&'static str>,
}

/// True if a change replaces the existing pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The existing pods stay.
    Keeps,
    /// New pods replace them, with up to `surge` pods more than wanted during the rollout. Without room for the surge,
    /// the rollout stops unless it may remove old pods first (`may_wait`). The first `kept` of those wanted are not
    /// replaced; where they are missing, they are created from the old template.
    Replaces { surge: u64, may_wait: bool, kept: u64 },
}

const REPLICAS: &str = "replicas";
const PODS: &str = "pods";

const ONE_RUN: &str = "assuming one job at a time; concurrencyPolicy Allow lets jobs overlap";
const ONE_NODE: &str = "assuming one node; the number of nodes is not known yet";

/// Reads what a request does to the pods of a workload; none if it creates no new ones. The ReplicaSets of a Deployment
/// and the Jobs of a CronJob were judged with their owner, and are not judged again.
pub fn rollout(request: &Request<'_>) -> Result<Option<Rollout>, Malformed> {
    let (Some(kind), Some(object)) = (request.pod_kind(), &request.object) else { return Ok(None) };
    let old = match &request.operation {
        Operation::Create => None,
        Operation::Update { old: Some(old) } => Some(old),
        Operation::Update { old: None } | Operation::Delete | Operation::Connect => return Ok(None),
    };
    match request.subresource.as_ref() {
        "scale" => return scaling(object, old),
        "" => {}
        _ => return Ok(None),
    }
    if request.is_by_kubernetes_controller() && is_owned_by_workload(object.node)? {
        return Ok(None);
    }
    let change = Change { object, old, is_renewed: old.is_some() && !keeps_template(request)? };
    match kind.growth {
        Growth::Pod => Ok(None),
        Growth::Deployment => change.deployment(),
        Growth::StatefulSet => change.stateful_set(),
        Growth::ReplicaSet => change.replica_set(),
        Growth::DaemonSet => change.daemon_set(),
        Growth::Job => change.job(),
        Growth::CronJob => change.cron_job(),
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
    Ok(Some(Rollout { wanted, present, renewal: Renewal::Keeps, noun: REPLICAS, assumption: None }))
}

/// A change of an object that has a pod template.
struct Change<'a, 'd> {
    object: &'a Object<'d>,
    old: Option<&'a Object<'d>>,
    /// True if the pod template changes.
    is_renewed: bool,
}

impl<'d> Change<'_, 'd> {
    fn deployment(&self) -> Result<Option<Rollout>, Malformed> {
        let is_paused = flag(self.object.spec_at(&["paused"])?)?;
        let strategy = self.object.spec_at(&["strategy"])?;
        let recreates = match strategy {
            Some(strategy) => strategy.string("type")?.as_deref() == Some("Recreate"),
            None => false,
        };
        let wanted = self.replicas(self.object)?;
        let renewal = match (self.is_renewed && !is_paused, recreates) {
            (false, _) => Renewal::Keeps,
            (true, true) => Renewal::IN_PLACE,
            (true, false) => {
                let bounds = strategy.map(|strategy| strategy.get("rollingUpdate")).transpose()?.flatten();
                Renewal::rolling(bounds, ["25%", "25%"], wanted)?
            }
        };
        self.of_replicas(renewal)
    }

    fn stateful_set(&self) -> Result<Option<Rollout>, Malformed> {
        let strategy = self.object.spec_at(&["updateStrategy", "type"])?.map(Node::str).transpose()?;
        let waits = strategy.as_deref() == Some("OnDelete");
        if !self.is_renewed || waits {
            return self.of_replicas(Renewal::Keeps);
        }
        // Counted from the first ordinal, wherever that starts.
        let partition = count(self.object.spec_at(&["updateStrategy", "rollingUpdate", "partition"])?)?;
        let kept = partition.unwrap_or(0).min(self.replicas(self.object)?);
        self.of_replicas(Renewal::Replaces { surge: 0, may_wait: true, kept })
    }

    /// A ReplicaSet leaves the pods that it has as they are.
    fn replica_set(&self) -> Result<Option<Rollout>, Malformed> {
        self.of_replicas(Renewal::Keeps)
    }

    fn of_replicas(&self, renewal: Renewal) -> Result<Option<Rollout>, Malformed> {
        let wanted = self.replicas(self.object)?;
        let Some(old) = self.old else {
            return Ok(Some(Rollout { wanted, present: 0, renewal: Renewal::Keeps, noun: REPLICAS, assumption: None }));
        };
        let before = self.replicas(old)?;
        let replaces = matches!(renewal, Renewal::Replaces { kept, .. } if kept < wanted);
        if wanted <= before && !replaces {
            return Ok(None);
        }
        let present = count(old.status_at(&["replicas"])?)?;
        // A status without `replicas` means none. Without any status, the pods are assumed to be as many as specified.
        let present = present.unwrap_or(if old.status.is_some() { 0 } else { before });
        Ok(Some(Rollout { wanted, present, renewal, noun: REPLICAS, assumption: None }))
    }

    fn replicas(&self, object: &Object<'_>) -> Result<u64, Malformed> {
        Ok(count(object.spec_at(&["replicas"])?)?.unwrap_or(1))
    }

    /// One pod per node; the number of nodes is known once the controller has counted them.
    fn daemon_set(&self) -> Result<Option<Rollout>, Malformed> {
        let Some(old) = self.old else {
            let assumption = Some(ONE_NODE);
            return Ok(Some(Rollout { wanted: 1, present: 0, renewal: Renewal::Keeps, noun: PODS, assumption }));
        };
        let strategy = self.object.spec_at(&["updateStrategy"])?;
        let kind = strategy.map(|strategy| strategy.string("type")).transpose()?.flatten();
        if !self.is_renewed || kind.as_deref() == Some("OnDelete") {
            return Ok(None);
        }
        let nodes = count(old.status_at(&["desiredNumberScheduled"])?)?;
        let wanted = nodes.unwrap_or(1);
        let present = count(old.status_at(&["currentNumberScheduled"])?)?.unwrap_or(wanted);
        let bounds = strategy.map(|strategy| strategy.get("rollingUpdate")).transpose()?.flatten();
        let renewal = Renewal::rolling(bounds, ["0", "1"], wanted)?;
        Ok(Some(Rollout { wanted, present, renewal, noun: PODS, assumption: nodes.is_none().then_some(ONE_NODE) }))
    }

    /// A Job's template never changes; its parallelism and its suspension may.
    fn job(&self) -> Result<Option<Rollout>, Malformed> {
        let parallelism = |job: &Object<'d>| parallelism_of(job.spec, count(job.status_at(&["succeeded"])?)?);
        let wanted = parallelism(self.object)?;
        let before = self.old.map(parallelism).transpose()?.unwrap_or(0);
        if wanted <= before {
            return Ok(None);
        }
        let active = self.old.map(|old| count(old.status_at(&["active"])?)).transpose()?.flatten();
        let present = active.unwrap_or(0).min(wanted);
        Ok(Some(Rollout { wanted, present, renewal: Renewal::Keeps, noun: PODS, assumption: None }))
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
        let (present, renewal) =
            if is_running && !overlaps { (before, Renewal::IN_PLACE) } else { (0, Renewal::Keeps) };
        Ok(Some(Rollout { wanted, present, renewal, noun: PODS, assumption: overlaps.then_some(ONE_RUN) }))
    }
}

/// The pods that a Job runs at the same time.
fn parallelism_of(spec: Option<Node<'_>>, succeeded: Option<u64>) -> Result<u64, Malformed> {
    let Some(spec) = spec else { return Ok(0) };
    if flag(spec.get("suspend")?)? {
        return Ok(0);
    }
    let parallelism = count(spec.get("parallelism")?)?.unwrap_or(1);
    let completions = count(spec.get("completions")?)?;
    let left = completions.map(|completions| completions.saturating_sub(succeeded.unwrap_or(0)));
    Ok(left.map_or(parallelism, |left| parallelism.min(left)))
}

impl Renewal {
    /// Old pods are removed before new ones are created.
    const IN_PLACE: Self = Self::Replaces { surge: 0, may_wait: true, kept: 0 };

    /// A rolling update; `defaults` are those of `maxSurge` and `maxUnavailable`. A percentage is rounded up for
    /// `maxSurge`, and down for `maxUnavailable`.
    fn rolling(bounds: Option<Node<'_>>, defaults: [&str; 2], wanted: u64) -> Result<Self, Malformed> {
        let [surge, unavailable] = defaults;
        let surge = pods_at_once(bounds, "maxSurge", surge, |percent| wanted.saturating_mul(percent).div_ceil(100))?;
        let unavailable =
            pods_at_once(bounds, "maxUnavailable", unavailable, |percent| wanted.saturating_mul(percent) / 100)?;
        Ok(Self::Replaces { surge, may_wait: unavailable > 0 || surge == 0, kept: 0 })
    }
}

/// A number of pods, given as a number or as a percentage.
fn pods_at_once(
    bounds: Option<Node<'_>>,
    field: &str,
    default: &str,
    of_percent: impl Fn(u64) -> u64,
) -> Result<u64, Malformed> {
    let node = bounds.map(|bounds| bounds.get(field)).transpose()?.flatten();
    let text = node.map(Node::scalar).transpose()?;
    let text = text.as_deref().unwrap_or(default);
    let read = match text.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(of_percent),
        None => text.parse().ok(),
    };
    match (read, node) {
        (Some(pods), _) => Ok(pods),
        (None, Some(node)) => Err(node.expected("a number of pods or a percentage such as `25%`")),
        (None, None) => Ok(0), // never reached: the defaults are numbers
    }
}

/// True if the object's controller is a Deployment or a CronJob, which was judged itself.
fn is_owned_by_workload(object: Node<'_>) -> Result<bool, Malformed> {
    Ok(matches!(controller_of(object)?.as_deref(), Some("Deployment" | "CronJob")))
}

/// The kind of the object's controlling owner.
fn controller_of<'d>(object: Node<'d>) -> Result<Option<Cow<'d, str>>, Malformed> {
    let Some(metadata) = object.get("metadata")? else { return Ok(None) };
    for owner in metadata.list("ownerReferences")? {
        if owner.get("controller")?.map(Node::bool).transpose()? == Some(true) {
            return owner.string("kind");
        }
    }
    Ok(None)
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
