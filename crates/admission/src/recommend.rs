//! Recommends requests for a pod's containers from their usage history, whatever requests they have.
//!
//! Steps, caps and texts are those of admission: origins, estimates, defaults, and the bounds of LimitRanges. The
//! differences: every container is estimated, nothing is refused, quotas bound nothing, and the author's limit is a bound too,
//! because a request above it would be refused.

use std::fmt;

use crate::actions::{EstimateTarget, Purpose};
use crate::amount::{Quantity, Requirement};
use crate::cluster::usage::{OomKill, Percentile, Resource, Window};
use crate::estimate::history_lookup::Chosen;
use crate::estimate::{self, Adjustment, AdjustmentReason, Basis, Estimates, RejectedHistory, Sources, of_rejected};
use crate::fill::Filling;
use crate::image::ImageName;
use crate::json::Malformed;
use crate::request::Pod;

#[derive(Debug, Default)]
pub struct Recommendation<'d> {
    pub estimates: Estimates<'d>,
    pub measured: Vec<Measurements>,
    pub unknown: Vec<Unknown>,
}

/// The usage of a container that an estimate is made from.
#[derive(Debug, Clone)]
pub struct Measurements {
    /// The container's index in the pod.
    pub container: usize,
    pub resource: Resource,
    pub window: Window,
    pub percentiles: Vec<(Percentile, Quantity)>,
    pub peak: Quantity,
    /// The highest amount that the request does not cover, because it was used once, or by single pods beyond all others.
    pub not_covered: Option<Quantity>,
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
    pub why: NoRecommendation,
}

/// Reported for a container without usage.
pub const NO_USAGE_DATA: &str = "no usage data";

/// Reported for a container with less than two hours of usage, or too few runs of a Job.
pub const TOO_LITTLE_DATA: &str = "too little data";

/// The reason that nothing is recommended. What was `seen` is evidence such as `20min, 12 pods`. `Kept`: it
/// requests more than it uses for a purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRecommendation {
    UnreadableImage { image: String, error: String },
    PodLevelResources,
    ScaledByAutoscaler,
    NoUsageData(Vec<RejectedHistory>),
    TooLittleData { seen: String },
    NotSeen { days: u64 },
    NoMemoryMeasured,
    CrashLoop,
    Grows,
    ShortHistory { seen: String },
    PartlySeen { seen: String },
    Failing { how: &'static str },
    WholeCpus,
    NoAmountFits,
    Kept { why: String },
    Declined { on: String },
}

impl fmt::Display for NoRecommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnreadableImage { image, error } => write!(f, "the image `{image}` cannot be read: {error}"),
            Self::PodLevelResources => f.write_str("the pod sets pod-level resources, which its containers share"),
            Self::ScaledByAutoscaler => {
                f.write_str("a HorizontalPodAutoscaler scales by it, so another request would change how many pods run")
            }
            Self::NoUsageData(skipped) if skipped.iter().all(RejectedHistory::is_empty) => f.write_str(NO_USAGE_DATA),
            Self::NoUsageData(skipped) => write!(f, "{NO_USAGE_DATA} ({})", of_rejected(skipped)),
            Self::TooLittleData { seen } => write!(f, "{TOO_LITTLE_DATA} ({seen})"),
            Self::NotSeen { days } => write!(f, "its usage was last seen {days} d ago, but it runs"),
            Self::NoMemoryMeasured => f.write_str("each sample of its memory is 0: what measures it does not work"),
            Self::CrashLoop => f.write_str("it is in a crash loop, so its usage is that of starts"),
            Self::Grows => f.write_str("its usage grows day by day, so its request stays"),
            Self::ShortHistory { seen } => {
                write!(
                    f,
                    "short history ({seen}): what it uses at other times is not known, so its request is not lowered"
                )
            }
            Self::PartlySeen { seen } => {
                write!(f, "seen in {seen}: what it uses otherwise is not known, so its request is not lowered")
            }
            Self::Failing { how } => {
                write!(f, "{how}: what it uses when it works is not known, so its request is not lowered")
            }
            Self::WholeCpus => f.write_str("it may have whole CPUs of its own, which it keeps only as it is"),
            Self::NoAmountFits => f.write_str("no amount near its usage satisfies the LimitRanges"),
            Self::Kept { why } => f.write_str(why),
            Self::Declined { on } => write!(f, "declined on {on}"),
        }
    }
}

impl<'d> Filling<'_, 'd> {
    /// Recommends requests for a pod whose values are marked with their origins. The author's requests stay where
    /// nothing is recommended.
    pub fn recommend(&self, pod: &Pod<'d>) -> Result<Recommendation<'d>, Malformed> {
        let pod = only_authored(pod);
        let mut made = self.estimate_all(&pod)?;
        made.estimates = self.fit::<false>(pod, made.estimates)?.estimates;
        Ok(made)
    }

    fn estimate_all(&self, pod: &Pod<'d>) -> Result<Recommendation<'d>, Malformed> {
        let Self { request, context, settings, ranges, .. } = *self;
        let mut made = Recommendation::default();
        let mut notes = Vec::new();
        let resources = || Resource::ALL.into_iter().filter(|resource| *settings.estimates.resources.of(*resource));
        for (index, container) in pod.containers.iter().enumerate() {
            let image = match ImageName::parse(&container.image) {
                Ok(image) => image,
                Err(error) => {
                    let why = NoRecommendation::UnreadableImage { image: container.image.to_string(), error };
                    let unknown = |resource| Unknown { container: index, resource, why: why.clone() };
                    made.unknown.extend(resources().map(unknown));
                    continue;
                }
            };
            let workload = (request.workload_name(), container.name.as_ref());
            let sources = Sources::find(&image, workload, context, &settings.estimates, &mut notes);
            for resource in resources() {
                let mut unknown =
                    |why: NoRecommendation| made.unknown.push(Unknown { container: index, resource, why });
                if pod.resources.contains(resource.name()) {
                    unknown(NoRecommendation::PodLevelResources);
                    continue;
                }
                let target = EstimateTarget { container: index, resource, purpose: Purpose::Pod };
                let estimate =
                    estimate::estimate(target, None, container, &sources, ranges, context, settings, &mut notes);
                // Problems of a profile were noted when the estimate was tried.
                let (chosen, skipped) = sources.choose(resource, &settings.estimates, &mut Vec::new());
                let Some(mut estimate) = estimate else {
                    unknown(NoRecommendation::NoUsageData(skipped));
                    continue;
                };
                let measured = match estimate.basis {
                    Basis::History { window, .. } => {
                        chosen.and_then(|chosen| measurements(&chosen, index, resource, window))
                    }
                    _ => None,
                };
                let is_zero = |of: &Measurements| of.peak == Quantity::ZERO && of.oom_kills.is_empty();
                if resource == Resource::Memory && measured.as_ref().is_some_and(is_zero) {
                    unknown(NoRecommendation::NoMemoryMeasured);
                    continue;
                }
                made.measured.extend(measured);
                estimate.only_reported = false;
                let limit = container.resources.quantity(Requirement::Limit, resource.name());
                if let Some(limit) = limit.filter(|limit| estimate.quantity > **limit) {
                    let from = std::mem::replace(&mut estimate.quantity, limit.clone());
                    estimate.adjustments.push(Adjustment { from, reason: AdjustmentReason::Limit(None) });
                }
                made.estimates.estimates.push(estimate);
            }
        }
        estimate::dedup(&mut notes);
        made.estimates.notes = notes;
        Ok(made)
    }
}

/// The pod with the author's values alone for resources that can be recommended.
fn only_authored<'d>(pod: &Pod<'d>) -> Pod<'d> {
    let mut pod = pod.clone();
    for container in &mut pod.containers {
        for name in Resource::ALL.map(Resource::name) {
            for requirement in Requirement::BOTH {
                let values = container.resources.of_mut(requirement);
                if values.get(name).is_some_and(|value| !value.origin.is_authored()) {
                    values.remove(name);
                }
            }
        }
    }
    pod
}

fn measurements(chosen: &Chosen<'_>, container: usize, resource: Resource, window: Window) -> Option<Measurements> {
    let observed = chosen.history.observed(window, resource).ok()??;
    let percentiles =
        Percentile::PUBLISHED.into_iter().filter_map(|p| Some((p, observed.percentile(p).ok()?))).collect();
    Some(Measurements {
        container,
        resource,
        window,
        percentiles,
        peak: observed.peak().ok()?,
        not_covered: chosen
            .history
            .observed(Window::Month, resource)
            .ok()?
            .and_then(|month| month.not_covered().ok()?),
        samples: observed.samples,
        days: chosen.history.days().ok().flatten(),
        pods: observed.pods().ok()?,
        namespaces: observed.namespaces().ok()?,
        oom_kills: chosen.history.oom_kills(chosen.collected_at).ok()?,
    })
}
