//! Lists the bounds of LimitRanges and rules that apply to a pod or a claim, kept or broken.
//!
//! The core decides whether one is broken.

use std::fmt;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::limit_range::{CLAIM, CONTAINER, Item, POD};
use headroom_admission::json::Malformed;
use headroom_admission::limit_rules::Range;
use headroom_admission::limits::{self, BoundTarget, Breach, LimitFault};
use headroom_admission::request::{Object, Pod, Requirement, pod_totals};
use serde::Serialize;

/// Bounds, each with its container; none for the pod in total, and for a claim.
pub type Bounds = Vec<(Option<String>, CheckedBound)>;

/// A bound that a container, a pod or a claim was checked against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct CheckedBound {
    pub resource: String,
    pub edge: Edge,
    pub bound: String,
    /// `LimitRange limits`
    pub range: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    pub holds: bool,
}

/// The kind of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    Min,
    Max,
    /// The ratio of limit to request.
    Ratio,
}

/// As in JSON.
impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Edge {
    fn of(fault: &LimitFault) -> Self {
        match fault {
            LimitFault::NoRequestForMin { .. } | LimitFault::BelowMin { .. } => Self::Min,
            LimitFault::NoValueForMax { .. } | LimitFault::AboveMax { .. } => Self::Max,
            LimitFault::NoValueForRatio { .. } | LimitFault::AboveRatio { .. } => Self::Ratio,
        }
    }
}

/// Everything that the pod is checked against, in the order of the ranges.
pub fn of_pod(pod: &Pod<'_>, ranges: &[Range<'_>]) -> Bounds {
    let breaches = limits::check_pod(pod, ranges);
    let mut checked = Vec::new();
    for range in ranges {
        for item in range.items() {
            match item.kind.as_ref() {
                CONTAINER => {
                    for container in pod.containers.iter().filter(|container| range.applies_to(container)) {
                        let amount = |of, resource: &str| container.resources.quantity(of, resource).cloned();
                        let subject = BoundTarget::Container(container.name.clone());
                        checked.extend(each(item, range, &subject, amount, &breaches.first));
                    }
                }
                POD => {
                    let total = |requirement| pod_totals::as_limit_ranges_see_it(pod, requirement, &|_| true);
                    let (requests, limits) = (total(Requirement::Request), total(Requirement::Limit));
                    let amount = |requirement, resource: &str| match requirement {
                        Requirement::Request => requests.get(resource).cloned(),
                        Requirement::Limit => limits.get(resource).cloned(),
                    };
                    checked.extend(each(item, range, &BoundTarget::Pod, amount, &breaches.first));
                }
                _ => {}
            }
        }
    }
    checked
}

/// Everything that a claim's storage is checked against.
pub fn of_claim<'d>(claim: &Object<'d>, ranges: &[Range<'d>]) -> Result<Bounds, Malformed> {
    let breaches = limits::check_claim(claim, None, false, ranges)?;
    let requests = match claim.spec_at(&["resources", "requests"])? {
        Some(requests) => ResourceList::read(requests)?,
        None => ResourceList::default(),
    };
    let amount = |requirement, resource: &str| {
        (requirement == Requirement::Request).then(|| requests.get(resource).cloned()).flatten()
    };
    let mut checked = Vec::new();
    for range in ranges {
        for item in range.items().iter().filter(|item| item.kind == CLAIM) {
            checked.extend(each(item, range, &BoundTarget::Claim, amount, &breaches.first));
        }
    }
    // A claim has no limit, so a ratio says nothing of it.
    checked.retain(|(_, bound)| bound.edge != Edge::Ratio);
    Ok(checked)
}

fn each(
    item: &Item<'_>,
    range: &Range<'_>,
    subject: &BoundTarget<'_>,
    amount: impl Fn(Requirement, &str) -> Option<Quantity>,
    breaches: &[Breach<'_>],
) -> Bounds {
    let mut checked = Vec::new();
    for (edge, list) in [(Edge::Min, &item.min), (Edge::Max, &item.max), (Edge::Ratio, &item.max_ratio)] {
        for (resource, bound) in list.iter() {
            let is_broken = breaches.iter().any(|breach| {
                breach.kind == item.kind
                    && breach.resource == *resource
                    && breach.subject == *subject
                    && breach.range == range.name()
                    && Edge::of(&breach.fault) == edge
            });
            let amount_of = |requirement| amount(requirement, resource).map(|quantity| quantity.to_string());
            let container = match subject {
                BoundTarget::Container(name) => Some(name.to_string()),
                BoundTarget::Pod | BoundTarget::Claim | BoundTarget::ClaimTemplate(_) => None,
            };
            let bound = CheckedBound {
                resource: resource.to_string(),
                edge,
                bound: bound.to_string(),
                range: range.name().to_string(),
                request: amount_of(Requirement::Request),
                limit: amount_of(Requirement::Limit),
                holds: !is_broken,
            };
            checked.push((container, bound));
        }
    }
    checked
}
