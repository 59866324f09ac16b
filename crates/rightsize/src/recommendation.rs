//! Recommended requests for a pod's containers from their usage history, regardless of the requests they have.
//!
//! The steps, caps and texts are the same as at admission: origins, estimates, defaults, and changes to satisfy LimitRanges.
//! The differences: every container is estimated, nothing is refused, memory covers every peak of the workload's own history,
//! and the author's limit is a bound too, because a request above it would be refused.

use std::fmt;

use headroom_core::amount::{Quantity, Requirement};
use headroom_core::annotations::{headroom_annotation, limit_ranger};
use headroom_core::cluster::lookup::Lookup;
use headroom_core::cluster::usage::{OomKill, Percentile, Resource, Window};
use headroom_core::estimate::history::HistoryLookups;
use headroom_core::estimate::{
    self, Adjustment, Basis, Estimate, Estimates, Reason, RejectedHistory, Sources, of_rejected,
};
use headroom_core::fill::Filling;
use headroom_core::image::{ImageName, ParseImageNameError};
use headroom_core::json::Malformed;
use headroom_core::limit_rules::{self, Range};
use headroom_core::plan::{EstimateTarget, Purpose, estimate_targets};
use headroom_core::request::Pod;
use headroom_core::settings::{EstimateSettings, Mode};
use headroom_core::{Context, Request, Settings, limits};

/// The recommendation for the pod of a request.
#[derive(Debug)]
pub struct Recommendation<'d> {
    pub advice: Advice<'d>,
    /// The pod as it is now, with the origin of each value.
    pub as_it_stands: Pod<'d>,
    /// The pod after admission as it is now.
    pub before: Pod<'d>,
    /// The pod after admission with the recommended requests.
    pub after: Pod<'d>,
}

/// The first lookups for a recommendation: as for a decision, with the history of every container's image. The answers
/// lead to [`further_lookups`].
pub fn lookups<'d>(request: &'d Request<'d>, settings: &'d Settings<'d>) -> Result<Vec<Lookup<'d>>, Malformed> {
    let mut lookups = vec![Lookup::Namespace { name: &request.namespace }];
    lookups.push(Lookup::LimitRanges { namespace: &request.namespace });
    lookups.push(Lookup::Quotas { namespace: &request.namespace });
    if settings.estimates.exclude_autoscaled {
        lookups.push(Lookup::Autoscalers { namespace: &request.namespace });
    }
    lookups.extend(history_of_all(request)?.roots(request, settings));
    Ok(lookups)
}

/// The lookups that follow from the answers in `context`.
pub fn further_lookups<'d>(
    request: &'d Request<'d>,
    settings: &'d Settings<'d>,
    context: &Context<'d>,
) -> Result<Vec<Lookup<'d>>, Malformed> {
    Ok(history_of_all(request)?.pages(request, settings, context))
}

fn history_of_all<'d>(request: &'d Request<'d>) -> Result<HistoryLookups<'d>, Malformed> {
    let pod = request.pod()?;
    let containers = pod.as_ref().map_or(0, |pod| pod.containers.len());
    Ok(HistoryLookups::of(request, pod.as_ref(), 0..containers))
}

/// The recommendation for a request; none if the request has no pod.
pub fn recommend<'d>(
    request: &'d Request<'d>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<Option<Recommendation<'d>>, Malformed> {
    let Some(mut as_it_stands) = request.pod()? else { return Ok(None) };
    let ranges = limit_rules::applicable(request, Some(&as_it_stands), context, settings)?;
    let is_defaulted = settings.limit_ranges.mode != Mode::Off;
    let filling = Filling { request, context, settings, ranges: &ranges, is_defaulted };
    limit_ranger::mark(&mut as_it_stands, context.limit_ranges.is_some().then_some(ranges.as_slice()))?;
    headroom_annotation::mark(&mut as_it_stands)?;
    let mut notes = Vec::new();
    let targets = if context.limit_ranges.is_some() {
        let mode = settings.estimates.mode.min(estimate_targets::chosen_by_pod(&as_it_stands, &mut notes)?);
        let targets = estimate_targets::all(&as_it_stands, mode, &settings.estimates, &mut notes);
        estimate_targets::restrict_by_namespace(targets, context.namespace, &mut notes)?
    } else {
        Vec::new()
    };
    let before = filling.fill(as_it_stands.clone(), &targets)?.pod;

    let bare = without_requests(&as_it_stands);
    let mut advice = for_all(request, &bare, &ranges, context, settings)?;
    let mut round: u8 = 0;
    let after = loop {
        let mut filled = bare.clone();
        advice.estimates.apply(&mut filled);
        keep_what_is_not_advised(&mut filled, &as_it_stands);
        filling.apply_defaults(&mut filled);
        let breaches = limits::check_pod(&filled, None, &ranges);
        if !advice.estimates.fit_to_limits(&filled, &breaches, round) {
            break filled;
        }
        round = round.saturating_add(1);
    };
    Ok(Some(Recommendation { advice, as_it_stands, before, after }))
}

/// The pod without requests for resources that can be recommended, and without limits that the author did not set.
fn without_requests<'d>(pod: &Pod<'d>) -> Pod<'d> {
    let mut bare = pod.clone();
    for container in &mut bare.containers {
        for name in Resource::ALL.map(Resource::name) {
            container.resources.requests.remove(name);
            let limits = &mut container.resources.limits;
            if limits.get(name).is_some_and(|limit| !limit.origin.is_authored()) {
                limits.remove(name);
            }
        }
    }
    bare
}

/// Restores the author's requests for resources without a recommendation.
fn keep_what_is_not_advised<'d>(filled: &mut Pod<'d>, as_it_stands: &Pod<'d>) {
    for (container, current) in filled.containers.iter_mut().zip(&as_it_stands.containers) {
        for (name, value) in current.resources.of(Requirement::Request).iter() {
            let requests = &mut container.resources.requests;
            if value.origin.is_authored() && !requests.contains(name) {
                requests.set(name.clone(), value.clone());
            }
        }
    }
}

/// Estimates and unknowns for a pod.
#[derive(Debug, Default)]
pub struct Advice<'d> {
    pub estimates: Estimates<'d>,
    pub measured: Vec<Measurements>,
    pub unknown: Vec<Unknown>,
}

/// Observed usage of a container's image, if an estimate is made from it.
#[derive(Debug, Clone)]
pub struct Measurements {
    /// The container's index in the pod.
    pub container: usize,
    pub resource: Resource,
    pub window: Window,
    pub percentiles: Vec<(Percentile, Quantity)>,
    pub peak: Quantity,
    pub samples: u64,
    /// The days of the longest window with any usage, where the profile counts them.
    pub days: Option<u64>,
    pub pods: u64,
    pub namespaces: u64,
    pub oom_kills: Vec<OomKill>,
}

/// A container and resource without an estimate.
#[derive(Debug, Clone)]
pub struct Unknown {
    pub container: usize,
    pub resource: Resource,
    pub why: Why,
}

/// Reported for a container without usage.
pub const NO_USAGE_DATA: &str = "no usage data";

/// Reported for a container with less than two hours of usage.
pub const TOO_LITTLE_DATA: &str = "too little data";

/// The reason that nothing is recommended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    UnreadableImage {
        image: String,
        error: ParseImageNameError,
    },
    PodLevelResources,
    ScaledByAutoscaler,
    /// The histories that were looked at.
    NoUsageData(Vec<RejectedHistory>),
    /// The minutes that were observed, of all pods.
    TooLittleData {
        minutes: u64,
    },
    /// Every amount would be refused.
    NoAmountFits,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnreadableImage { image, error } => write!(f, "the image `{image}` cannot be read: {error}"),
            Self::PodLevelResources => f.write_str("the pod sets pod-level resources, which its containers share"),
            Self::ScaledByAutoscaler => {
                f.write_str("a HorizontalPodAutoscaler scales by it, so another request would change how many pods run")
            }
            Self::NoUsageData(skipped) if skipped.iter().all(RejectedHistory::is_empty) => f.write_str(NO_USAGE_DATA),
            Self::NoUsageData(skipped) => write!(f, "{NO_USAGE_DATA} ({})", of_rejected(skipped)),
            Self::TooLittleData { minutes } => write!(f, "{TOO_LITTLE_DATA} ({minutes} min)"),
            Self::NoAmountFits => f.write_str("no amount satisfies the LimitRanges; see the notes"),
        }
    }
}

/// Estimates for all containers of a pod that has limits but no requests.
fn for_all<'d>(
    request: &Request<'d>,
    pod: &Pod<'d>,
    ranges: &[Range<'d>],
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Advice<'d>, Malformed> {
    let estimate_settings = &settings.estimates;
    let mut advice = Advice::default();
    let mut notes = Vec::new();
    let owners = if context.autoscalers.is_empty() { Vec::new() } else { estimate::owners(request, pod)? };
    let resources = || Resource::ALL.into_iter().filter(|resource| *estimate_settings.resources.of(*resource));
    for (index, container) in pod.containers.iter().enumerate() {
        let image = match ImageName::parse(&container.image) {
            Ok(image) => image,
            Err(error) => {
                let why = Why::UnreadableImage { image: container.image.to_string(), error };
                let unknown = |resource| Unknown { container: index, resource, why: why.clone() };
                advice.unknown.extend(resources().map(unknown));
                continue;
            }
        };
        let workload = (request.workload_name(), container.name.as_ref());
        let sources = Sources::find(&image, workload, context, estimate_settings, &mut notes);
        for resource in resources() {
            let mut unknown = |why: Why| advice.unknown.push(Unknown { container: index, resource, why });
            if is_of_the_pod(pod, resource) {
                unknown(Why::PodLevelResources);
                continue;
            }
            if context.autoscalers.iter().any(|scaler| scaler.scales_by(&owners, &container.name, resource)) {
                unknown(Why::ScaledByAutoscaler);
                continue;
            }
            let target = EstimateTarget { container: index, resource, purpose: Purpose::Manifest };
            let made = estimate::estimate(target, container, &image, &sources, ranges, context, settings, &mut notes);
            let Some(mut made) = made else {
                unknown(no_usable_history(&sources, resource, estimate_settings));
                continue;
            };
            made.only_reported = false;
            if let Some(limit) = container.resources.quantity(Requirement::Limit, resource.name()) {
                lower_to_limit(&mut made, limit);
            }
            if let Basis::History { window, .. } = made.basis {
                advice.measured.extend(measurements(&sources, index, resource, window, estimate_settings));
            }
            advice.estimates.estimates.push(made);
        }
    }
    estimate::dedup(&mut notes);
    advice.estimates.notes = notes;
    Ok(advice)
}

fn is_of_the_pod(pod: &Pod<'_>, resource: Resource) -> bool {
    Requirement::BOTH.iter().any(|requirement| pod.resources.of(*requirement).contains(resource.name()))
}

fn no_usable_history(sources: &Sources<'_, '_>, resource: Resource, settings: &EstimateSettings<'_>) -> Why {
    // Problems of a profile were noted when the estimate was tried.
    let (_, skipped) = sources.choose(resource, settings, &mut Vec::new());
    Why::NoUsageData(skipped)
}

fn measurements(
    sources: &Sources<'_, '_>,
    container: usize,
    resource: Resource,
    window: Window,
    settings: &EstimateSettings<'_>,
) -> Option<Measurements> {
    let (chosen, _) = sources.choose(resource, settings, &mut Vec::new());
    let chosen = chosen?;
    let observed = chosen.history.observed(window, resource).ok()??;
    let percentiles =
        Percentile::PUBLISHED.into_iter().filter_map(|p| Some((p, observed.percentile(p).ok()?))).collect();
    Some(Measurements {
        container,
        resource,
        window,
        percentiles,
        peak: observed.peak().ok()?,
        samples: observed.samples,
        days: chosen.history.days().ok().flatten(),
        pods: observed.pods().ok()?,
        namespaces: observed.namespaces().ok()?,
        oom_kills: chosen.history.oom_kills(chosen.collected_at).ok()?,
    })
}

fn lower_to_limit(estimate: &mut Estimate<'_>, limit: &Quantity) {
    if estimate.quantity > *limit {
        let from = std::mem::replace(&mut estimate.quantity, limit.clone());
        estimate.adjustments.push(Adjustment { from, reason: Reason::Limit(None) });
    }
}
