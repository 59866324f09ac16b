//! A workload as the policy evaluates it: its containers with what is recommended for each, and the pod after admission.

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::lookup::{Lookup, Missing};
use headroom_admission::cluster::usage::Resource;
use headroom_admission::estimate::Basis;
use headroom_admission::evaluation::Recommended;
use headroom_admission::json::{Document, Malformed};
use headroom_admission::recommend::{Measurements, NoRecommendation};
use headroom_admission::request::{self, Pod, Requirement, Role, ValueOrigin, pod_totals, rollout};
use headroom_admission::{FetchedObjects, Request, limits, recommend};
use headroom_dry_run::settings::ParsedSettings;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};

use crate::advice::amounts::{CPU_AND_MEMORY, Delta};
use crate::advice::quota_effect::{self, PodCharge};
use crate::advice::reason::AdviceReason;
use crate::advice::workload::{ContainerAdvice, CurrentRequest, RequestOrigin, ResourceAdvice};
use crate::history::distribution::Distribution;
use crate::history::evidence::Evidence;

/// An object that makes pods, after its evaluation.
#[derive(Clone)]
pub struct Evaluated {
    pub containers: Vec<ContainerAdvice>,
    pub notes: Vec<String>,
    pub path: Vec<&'static str>,
    /// The number of pods that the object asks for, and what had to be assumed for it.
    pub pods: u64,
    pub assumption: Option<&'static str>,
    pub admitted: Admitted,
    /// Objects that could not be read.
    pub missing: Vec<ReadError>,
}

#[derive(Clone)]
pub struct Admitted {
    pub qos: &'static str,
    /// The CPU and memory of the whole pod.
    pub requests: [Quantity; 2],
    pub charges: Vec<PodCharge>,
    pub breaches: Vec<String>,
}

impl Admitted {
    /// The first breach that there was not before.
    pub fn new_breach(&self, before: &Self) -> Option<String> {
        self.breaches.iter().find(|breach| !before.breaches.contains(breach)).cloned()
    }
}

impl Evaluated {
    /// Evaluates a request; none if it has no pod. `advised` are the settings that name the resources to recommend. The error is
    /// one line.
    pub fn of(
        request: &Document<'_>,
        settings: &ParsedSettings,
        advised: &ParsedSettings,
        cluster: &mut dyn ClusterReader,
    ) -> Result<Option<Self>, String> {
        let worded = |malformed: Malformed| malformed.to_string();
        let (now, fetched) = (settings.now(), FetchedObjects::default());
        let request = Request::read(request.root()).map_err(worded)?;
        let (settings, advised) = (settings.read()?, advised.read()?);
        let mut failed: Vec<(Lookup<'_>, ReadError)> = Vec::new();
        let found = recommend(
            &request,
            &settings,
            &fetched,
            |lookups| {
                let answers = lookups.iter().map(|lookup| {
                    cluster.read(&lookup.call()).map_err(|error| {
                        failed.push((lookup.clone(), error.clone()));
                        error.to_string()
                    })
                });
                answers.collect()
            },
            || now,
        );
        let Some(found) = found.map_err(worded)? else { return Ok(None) };
        // Only selectors need the namespace's labels; without selectors a missing namespace does not matter.
        let is_needed = |missing: &&Missing<'_>| {
            !matches!(missing.lookup, Lookup::Namespace { .. }) || settings.selects_by_namespace_labels()
        };
        let error_of = |missing: &Missing<'_>| {
            let failed = failed.iter().find(|(lookup, _)| *lookup == missing.lookup);
            let error = failed.map_or_else(|| ReadError::Failed(missing.problem.clone()), |(_, error)| error.clone());
            error.context("not taken into account")
        };
        let missing = found.context.missing.iter().filter(is_needed).map(error_of).collect();
        let (pods, assumption) = pods_in_spec(&request).map_err(worded)?;
        let wanted: Vec<Resource> =
            Resource::ALL.into_iter().filter(|resource| *advised.estimates.resources.of(*resource)).collect();
        let containers = found.pod.containers.iter().enumerate();
        let admitted = &found.admitted;
        let requests = pod_totals::as_quotas_see_it(admitted, Requirement::Request).map_err(worded)?;
        let breaches = limits::check_pod(admitted, &found.ranges);
        Ok(Some(Self {
            containers: containers.map(|(place, container)| of_container(place, container, &wanted, &found)).collect(),
            notes: found.recommendation.estimates.notes.clone(),
            path: request.pod_kind().map(|kind| kind.path.to_vec()).unwrap_or_default(),
            pods,
            assumption,
            admitted: Admitted {
                qos: qos(admitted),
                requests: CPU_AND_MEMORY.map(|of| requests.get(of.name()).cloned().unwrap_or(Quantity::ZERO)),
                charges: quota_effect::charges(&request.namespace, admitted, &found.context).map_err(worded)?,
                breaches: breaches.first.iter().map(|breach| format!("{breach} ({})", breach.range)).collect(),
            },
            missing,
        }))
    }

    /// Takes the requests that admission with other settings makes, and the rest of its outcome; what is recommended stays.
    pub fn take_admitted(&mut self, other: &Self) {
        for (container, admitted) in self.containers.iter_mut().zip(&other.containers) {
            for advice in &mut container.resources {
                let request = admitted.resource(advice.resource).and_then(|admitted| admitted.request.clone());
                advice.set_current(request);
            }
        }
        self.admitted = other.admitted.clone();
    }
}

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
    found: &Recommended<'_>,
) -> ContainerAdvice {
    let measured = found.recommendation.measured.iter().filter(|of| of.container == place);
    ContainerAdvice {
        name: container.name.to_string(),
        image: container.image.to_string(),
        is_init: container.role != Role::Main,
        runs_at_start: container.role == Role::Init,
        resources: wanted.iter().map(|resource| of_resource(place, container, *resource, found)).collect(),
        evidence: measured
            .clone()
            .map(Evidence::of_profile)
            .max_by_key(|evidence| (evidence.minutes, evidence.samples)),
        oom_kills: measured.clone().map(|of| of.oom_kills.len() as u64).max().unwrap_or(0),
        peak_to_cover: measured
            .clone()
            .find(|of| of.resource == Resource::Memory && of.not_covered.is_some())
            .map(|of| of.peak.clone()),
        killed_at: measured.flat_map(|of| of.oom_kills.iter().map(|kill| kill.memory.clone())).max(),
        ..ContainerAdvice::default()
    }
}

fn of_resource(
    place: usize,
    container: &request::Container<'_>,
    resource: Resource,
    found: &Recommended<'_>,
) -> ResourceAdvice {
    let name = resource.name();
    let before = found.admitted.containers.get(place).and_then(|container| container.resources.requests.get(name));
    let written = container.resources.requests.get(name).filter(|value| value.origin.is_authored());
    let written_limit = container.resources.limits.get(name).filter(|value| value.origin.is_authored());
    let request = before.map(|value| CurrentRequest {
        value: value.quantity.clone(),
        from: match &value.origin {
            origin if origin.is_authored() => RequestOrigin::Author,
            ValueOrigin::Estimate(_) => RequestOrigin::Estimate,
            origin => RequestOrigin::Other(origin.to_string()),
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
        lately: None,
        reason: None,
        unknown: None,
        enough: None,
        typical: None,
        written: written.map(|value| value.quantity.clone()),
        written_limit: written_limit.map(|value| value.quantity.clone()),
    };
    let is_this = |of: usize, resource_of: Resource| of == place && resource_of == resource;
    if let Some(unknown) =
        found.recommendation.unknown.iter().find(|unknown| is_this(unknown.container, unknown.resource))
    {
        advice.unknown = Some(unknown.why.clone());
        return advice;
    }
    let mut all = found.recommendation.estimates.estimates.iter();
    let Some(estimate) = all.find(|estimate| is_this(estimate.target.container, estimate.target.resource)) else {
        advice.unknown = Some(NoRecommendation::NoAmountFits);
        return advice;
    };
    let Some(measured) = found.recommendation.measured.iter().find(|of| is_this(of.container, of.resource)) else {
        advice.unknown = Some(NoRecommendation::NoUsageData(estimate.rejected.clone()));
        advice.typical = advice.written.is_none().then(|| estimate.quantity.clone());
        if let Some(request) = advice.request.as_mut().filter(|request| request.from == RequestOrigin::Estimate) {
            request.from = RequestOrigin::Typical;
        }
        return advice;
    };
    advice.recommended = Some(estimate.quantity.clone());
    advice.change = Some(Delta::new(before.map(|value| &value.quantity), &estimate.quantity));
    let Measurements { samples, percentiles, peak, not_covered, .. } = measured.clone();
    let peak = not_covered.map_or(peak.clone(), |most| most.max(peak));
    let mut used = Distribution::new(resource, samples, percentiles, peak);
    if let Basis::History { key, window, .. } = &estimate.basis {
        used.of = Some(format!("{key} in {window}"));
    }
    advice.used = Some(used);
    advice.reason = Some(AdviceReason::new(estimate, measured));
    advice
}

/// <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/>
fn qos(pod: &Pod<'_>) -> &'static str {
    let all: Vec<_> = if pod.resources.is_empty() {
        pod.containers.iter().map(|container| &container.resources).collect()
    } else {
        vec![&pod.resources]
    };
    let mut amounts = Vec::new();
    for resources in all {
        for name in ["cpu", "memory"] {
            let amount = |requirement| resources.quantity(requirement, name).filter(|amount| !amount.is_zero());
            amounts.push((amount(Requirement::Request), amount(Requirement::Limit)));
        }
    }
    if amounts.iter().all(|(request, limit)| request.is_none() && limit.is_none()) {
        "BestEffort"
    } else if amounts.iter().all(|(request, limit)| limit.is_some() && request == limit) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
