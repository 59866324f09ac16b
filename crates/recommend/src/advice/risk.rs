//! Risks to fix before anything is saved: containers that are killed, throttled, or use more than they request.

use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::recommend::NoRecommendation;
use serde::Serialize;

use crate::advice::flag::Flag;
use crate::advice::pod_request::PodLevel;
use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Severity, Workload};
use crate::history::distribution;
use headroom_workloads::WorkloadRef;

/// A container that is in trouble, and what helps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    #[serde(flatten)]
    pub workload: WorkloadRef,
    pub container: String,
    /// The resource, if it is about one alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<&'static str>,
    pub risk: RiskKind,
    pub severity: Severity,
    /// The problem, such as `OOM-killed 3 times at 512Mi`.
    pub text: String,
    /// The fix: `raise the memory limit to 615Mi`.
    pub fix: String,
}

/// The kinds of trouble, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RiskKind {
    OomKilled,
    Throttled,
    AboveRequest,
    NoRequest,
}

/// `shop deployment/web front: OOM-killed 3 times at 512Mi; raise the memory limit to 615Mi`
impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, container, text, fix, .. } = self;
        write!(f, "{} {workload} {container}: {text}; {fix}", workload.namespace)
    }
}

/// The risks of all workloads, the worst first.
pub fn of_all(workloads: &[Workload]) -> Vec<Risk> {
    let containers = workloads.iter().flat_map(|of| of.containers.iter().map(move |container| (of, container)));
    let mut risks: Vec<(u64, Risk)> = containers.flat_map(|(of, container)| found(of, container)).collect();
    risks.sort_by(|(weight, a), (other, b)| {
        (a.severity, a.risk)
            .cmp(&(b.severity, b.risk))
            .then(other.cmp(weight))
            .then_with(|| (&a.workload, &a.container).cmp(&(&b.workload, &b.container)))
    });
    risks.into_iter().map(|(_, risk)| risk).collect()
}

/// The urgency of a container: that of the worst of its risks.
pub fn severity(of: &Workload, container: &ContainerAdvice) -> Severity {
    let risks = found(of, container).into_iter().map(|(_, risk)| risk.severity);
    risks.min().unwrap_or_else(|| container.severity_without_risk())
}

/// The risks of a container, each with its weight among those of its kind.
fn found(of: &Workload, container: &ContainerAdvice) -> Vec<(u64, Risk)> {
    let mut risks = Vec::new();
    let mut add = |kind, resource: Option<Resource>, weight, (text, mut fix): (String, String)| {
        fix.push_str(&of.place_of_requests(container).map(|place| format!(": {place}")).unwrap_or_default());
        let (workload, container) = (of.key.clone(), container.name.clone());
        // Too little memory ends in a kill or an eviction.
        let severity = if resource == Some(Resource::Memory) { Severity::Critical } else { Severity::Warning };
        let resource = resource.map(Resource::name);
        risks.push((weight, Risk { workload, container, resource, risk: kind, severity, text, fix }));
    };
    if let Some(texts) = killed(of, container) {
        add(RiskKind::OomKilled, Some(Resource::Memory), container.oom_kills, texts);
    }
    if let Some(percent) = container.much_throttled() {
        let text = format!("throttled in {percent}% of its CPU periods");
        add(RiskKind::Throttled, Some(Resource::Cpu), percent, (text, "raise or remove the CPU limit".to_owned()));
    }
    let runs = container.evidence.is_some_and(|evidence| evidence.runs.is_some());
    let has_fallen = |of: &ResourceAdvice| {
        container.patterns.iter().any(|flag| matches!(flag, Flag::Fell(fall, _) if fall.resource == of.resource))
    };
    // A container that runs at the start of its pod may use what all of the pod requests.
    let has_room = |used: &Quantity, resource| {
        let [of_pod, _] = of.requests_of_pod(resource);
        container.runs_at_start && *used <= of_pod
    };
    let above = container.resources.iter().filter_map(|advice| {
        let used = usual(advice, runs, has_fallen(advice)).filter(|used| !has_room(used, advice.resource))?;
        above_request(advice, used, runs)
    });
    for (advice, over, to) in above {
        let name = advice.resource.name();
        let text = match runs {
            true => format!("a run used more than its {name} request"),
            false if container.runs_at_start => format!("above the {name} request of its pod at start"),
            false if advice.is_above_lately() => format!("above its {name} request most of the time since yesterday"),
            false => format!("above its {name} request most of the time"),
        };
        let to = match advice.resource {
            Resource::Cpu if of.has_whole_cpus(container) => {
                "if it needs more, raise CPU request and limit together, to whole CPUs".to_owned()
            }
            _ => to,
        };
        let to = match of.shared_flags.iter().find(|flag| matches!(flag, Flag::BeyondNodes(_))) {
            Some(flag) => format!("{to}; {flag}"),
            None => to,
        };
        add(RiskKind::AboveRequest, Some(advice.resource), over, (text, to));
    }
    // A request of the pod as a whole counts as one of its first container.
    let is_first = of.containers.iter().find(|of| !of.runs_at_start).is_some_and(|first| first.name == container.name);
    for PodLevel { resource, from, to } in of.pod_level.iter().filter(|_| is_first) {
        let (name, usual) = (resource.name(), of.mostly_runs_at(*resource));
        if to > from && usual > *from {
            let text = format!("with the rest of its pod above the {name} request of the pod most of the time");
            let fix = format!("raise {name} in spec.resources.requests of the pod to {to}");
            add(RiskKind::AboveRequest, Some(*resource), in_percent(&usual, from), (text, fix));
        }
    }
    let missing: Vec<&ResourceAdvice> = container
        .resources
        .iter()
        .filter(|advice| advice.lacks_request() && advice.resource != Resource::EphemeralStorage)
        .filter(|advice| advice.unknown != Some(NoRecommendation::PodLevelResources))
        .collect();
    if !missing.is_empty() && !container.runs_at_start {
        let names = missing.iter().map(|advice| advice.resource.name()).collect::<Vec<_>>().join(" or ");
        let set = missing
            .iter()
            .filter_map(|advice| Some(format!("{} {}", advice.resource.name(), advice.recommended.as_ref()?)));
        let set = set.collect::<Vec<_>>().join(", ");
        let fix = if set.is_empty() { "set one".to_owned() } else { format!("request {set}") };
        add(RiskKind::NoRequest, None, missing.len() as u64, (format!("no {names} request"), fix));
    }
    risks
}

/// The kill and its fix; none if nothing was killed, or the limit was raised since.
fn killed(of: &Workload, container: &ContainerAdvice) -> Option<(String, String)> {
    if container.oom_kills == 0 {
        return None;
    }
    let memory = container.resource(Resource::Memory)?;
    let of_pod = of.pod_limit.as_ref().filter(|_| memory.limit.is_none());
    let at = of_pod.map(|of_pod| &of_pod.from).or(container.killed_at.as_ref());
    let fix = match (&memory.recommended_limit, &memory.limit, of_pod, &memory.recommended) {
        (Some(limit), ..) => format!("raise the memory limit to {limit}"),
        (None, Some(limit), ..) if at.is_some_and(|at| *limit > *at) => return None,
        (None, Some(limit), ..) => {
            container.refused_limit.clone().unwrap_or_else(|| format!("raise the memory limit above {limit}"))
        }
        (None, None, Some(of_pod), _) => format!("raise memory in spec.resources.limits of the pod to {}", of_pod.to),
        (None, None, None, Some(request)) => format!("request {request} of memory"),
        (None, None, None, None) => "set a memory request".to_owned(),
    };
    let times = match container.oom_kills {
        1 => "once".to_owned(),
        kills => format!("{kills} times"),
    };
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    let children = if container.has_killed_children { ", child processes and not the container" } else { "" };
    Some((format!("OOM-killed {times}{at}{children}"), fix))
}

impl ResourceAdvice {
    /// True if usage is above the request most of the time since yesterday, and was not before, as after a release.
    fn is_above_lately(&self) -> bool {
        let usual = self.used.as_ref().and_then(|used| used.percentile(500));
        let request = self.request.as_ref().map(|request| &request.value);
        request.is_some() && self.lately.as_ref() > request && usual <= request
    }
}

/// The usage that a request is compared with: a median, after a fall that of the last days, or of the runs of a Job, which are
/// brief, what memory used at most and CPU mostly.
fn usual(advice: &ResourceAdvice, are_runs: bool, has_fallen: bool) -> Option<&Quantity> {
    match are_runs {
        true => advice.mostly_used(),
        false if has_fallen || advice.is_above_lately() => advice.lately.as_ref(),
        false => advice.used.as_ref()?.percentile(500),
    }
}

/// By how much usage is above a request, in percent, and what helps: what is recommended, a bound that keeps that too low, or at
/// least what was used.
fn above_request<'a>(
    advice: &'a ResourceAdvice,
    used: &Quantity,
    are_runs: bool,
) -> Option<(&'a ResourceAdvice, u64, String)> {
    let request = &advice.request.as_ref().filter(|_| !advice.lacks_request())?.value;
    if used <= request {
        return None;
    }
    let name = advice.resource.name();
    let bound = |to: &Quantity| advice.reason.as_ref().and_then(|reason| reason.bound_to_raise(name, to));
    let to = match &advice.recommended {
        // A request below what is used would be no remedy.
        Some(recommended) if recommended > request => bound(recommended)
            .filter(|_| recommended < used)
            .unwrap_or_else(|| format!("raise the {name} request to {recommended}")),
        Some(recommended) => bound(recommended)?,
        None if are_runs || advice.keeps_whole_cpus() => {
            format!("raise the {name} request to {}", distribution::shown(used, advice.resource))
        }
        None => return None,
    };
    Some((advice, in_percent(used, request), to))
}

fn in_percent(used: &Quantity, request: &Quantity) -> u64 {
    let (used, request) = (used.milli_value().max(0) as u64, request.milli_value().max(1) as u64);
    used.saturating_mul(100) / request
}
