//! Checks bounds as LimitRanger does: min, max and ratio; per container, per pod, per claim.
//!
//! Every breach is found, in a fixed order: by range, item and subject, then all min, all max, all ratios, each by
//! resource name. Comparison is exact. The text of a breach is Kubernetes' own, followed by the subject and advice.
//! See <https://kubernetes.io/docs/concepts/policy/limit-range/>.

mod breach;

use std::borrow::Cow;

use crate::amount::{Quantity, Requirement, ResourceList};
use crate::cluster::limit_range::{CLAIM, CONTAINER, Item, POD};
use crate::json::{Malformed, Node};
use crate::limit_rules::Range;
use crate::request::{Container, Object, Pod, pod_totals};

pub use breach::{BoundTarget, Breach, Breaches, LimitFault};

/// Checks a pod; after a resize all of it, also what the resize does not change.
pub fn check_pod<'d>(pod: &Pod<'d>, ranges: &[Range<'d>]) -> Breaches<'d> {
    let mut breaches = Breaches::default();
    let pod_items: Vec<&Item<'d>> = ranges.iter().flat_map(Range::items).filter(|item| item.kind == POD).collect();
    let total = (!pod_items.is_empty()).then(|| BoundedTotal::of_pod(pod, &pod_items));
    for range in ranges {
        for item in range.items() {
            match (item.kind.as_ref(), &total) {
                (CONTAINER, _) => {
                    for container in pod.containers.iter().filter(|container| range.applies_to(container)) {
                        check(&mut breaches, range, item, container);
                    }
                }
                (POD, Some(total)) => check(&mut breaches, range, item, total),
                _ => {}
            }
        }
    }
    breaches
}

/// Checks a claim's storage. A request that the claim has in `old` already is not checked.
pub fn check_claim<'d>(
    claim: &Object<'d>,
    old: Option<&Object<'d>>,
    ranges: &[Range<'d>],
) -> Result<Breaches<'d>, Malformed> {
    let old = old.map(requests).transpose()?.unwrap_or_default();
    let mut breaches = Breaches::default();
    check_requests(&mut breaches, &BoundedTotal::of_claim(BoundTarget::Claim, requests(claim)?, old), ranges);
    Ok(breaches)
}

/// Checks the claims that a StatefulSet's controller creates for each pod.
pub fn check_claim_templates<'d>(templates: &[Object<'d>], ranges: &[Range<'d>]) -> Result<Breaches<'d>, Malformed> {
    let mut breaches = Breaches::default();
    for template in templates {
        let name = template.node.at(&["metadata", "name"])?.map(Node::str).transpose()?.unwrap_or_default();
        let (subject, old) = (BoundTarget::ClaimTemplate(name), ResourceList::default());
        check_requests(&mut breaches, &BoundedTotal::of_claim(subject, requests(template)?, old), ranges);
    }
    Ok(breaches)
}

fn requests<'d>(claim: &Object<'d>) -> Result<ResourceList<'d>, Malformed> {
    claim.spec_at(&["resources", "requests"])?.map_or_else(|| Ok(ResourceList::default()), ResourceList::read)
}

fn check_requests<'d>(breaches: &mut Breaches<'d>, claim: &BoundedTotal<'_, 'd>, ranges: &[Range<'d>]) {
    for range in ranges {
        for item in range.items().iter().filter(|item| item.kind == CLAIM) {
            check(breaches, range, item, claim);
        }
    }
}

/// A subject of bounds: a container, the total of a pod, or a claim.
trait Bounded<'d> {
    fn subject(&self) -> BoundTarget<'d>;
    fn amount(&self, requirement: Requirement, resource: &str) -> Option<&Quantity>;
    /// A claim has only requests: `max` applies to them, and the ratio is ignored.
    fn has_limits(&self) -> bool {
        true
    }
    /// True if an update leaves a resource unchanged that was checked before.
    fn is_unchanged(&self, _resource: &str) -> bool {
        false
    }
    /// The origin of a value that is not the author's, or of a total that is not the sum over the containers.
    fn origin(&self, requirement: Requirement, resource: &str) -> Option<String>;
}

impl<'d> Bounded<'d> for Container<'d> {
    fn subject(&self) -> BoundTarget<'d> {
        BoundTarget::Container(self.name.clone())
    }

    fn amount(&self, requirement: Requirement, resource: &str) -> Option<&Quantity> {
        self.resources.quantity(requirement, resource)
    }

    fn origin(&self, requirement: Requirement, resource: &str) -> Option<String> {
        let value = self.resources.of(requirement).get(resource)?;
        (!value.origin.is_authored()).then(|| value.origin.to_string())
    }
}

/// The amounts of a pod as a whole, or of a claim.
struct BoundedTotal<'p, 'd> {
    subject: BoundTarget<'d>,
    /// None for a claim, which has only requests.
    pod: Option<&'p Pod<'d>>,
    requests: ResourceList<'d>,
    limits: ResourceList<'d>,
    /// The requests that a claim had before an update.
    old: ResourceList<'d>,
}

impl<'p, 'd> BoundedTotal<'p, 'd> {
    /// The totals of the resources that the items bound.
    fn of_pod(pod: &'p Pod<'d>, items: &[&Item<'d>]) -> Self {
        let is_bound = |name: &str| {
            let lists = items.iter().flat_map(|item| [&item.min, &item.max, &item.max_ratio]);
            lists.into_iter().any(|list| list.contains(name))
        };
        let total = |requirement| pod_totals::as_limit_ranges_see_it(pod, requirement, &is_bound);
        let (requests, limits) = (total(Requirement::Request), total(Requirement::Limit));
        Self { subject: BoundTarget::Pod, pod: Some(pod), requests, limits, old: ResourceList::default() }
    }

    fn of_claim(subject: BoundTarget<'d>, requests: ResourceList<'d>, old: ResourceList<'d>) -> Self {
        Self { subject, pod: None, requests, limits: ResourceList::default(), old }
    }
}

impl<'d> Bounded<'d> for BoundedTotal<'_, 'd> {
    fn subject(&self) -> BoundTarget<'d> {
        self.subject.clone()
    }

    fn amount(&self, requirement: Requirement, resource: &str) -> Option<&Quantity> {
        match requirement {
            Requirement::Request => self.requests.get(resource),
            Requirement::Limit => self.limits.get(resource),
        }
    }

    fn has_limits(&self) -> bool {
        self.pod.is_some()
    }

    /// A missing request does not count as unchanged.
    fn is_unchanged(&self, resource: &str) -> bool {
        self.requests.get(resource).is_some_and(|amount| self.old.get(resource) == Some(amount))
    }

    fn origin(&self, requirement: Requirement, resource: &str) -> Option<String> {
        let sum = pod_totals::of_containers(self.pod?, requirement);
        (sum.get(resource) != self.amount(requirement, resource)).then(|| "resources of the pod as a whole".to_owned())
    }
}

fn check<'d, M: Bounded<'d>>(breaches: &mut Breaches<'d>, range: &Range<'d>, item: &Item<'d>, subject: &M) {
    let mut found = |resource: &Cow<'d, str>, fault: Option<LimitFault>| {
        let Some(fault) = fault.filter(|_| !subject.is_unchanged(resource)) else { return };
        breaches.add_with(|| {
            let origin = fault.requirement().and_then(|requirement| subject.origin(requirement, resource));
            Breach {
                kind: item.kind.clone(),
                resource: resource.clone(),
                fault,
                subject: subject.subject(),
                origin,
                range: range.name(),
            }
        });
    };
    for (resource, min) in item.min.iter() {
        found(resource, below_min(subject, resource, min));
    }
    for (resource, max) in item.max.iter() {
        found(resource, above_max(subject, resource, max));
    }
    if subject.has_limits() {
        for (resource, ratio) in item.max_ratio.iter() {
            found(resource, above_ratio(subject, resource, ratio));
        }
    }
}

fn below_min<'d, M: Bounded<'d>>(subject: &M, resource: &str, min: &Quantity) -> Option<LimitFault> {
    if subject.amount(Requirement::Request, resource).is_none() {
        return Some(LimitFault::NoRequestForMin { min: min.clone() });
    }
    [Requirement::Request, Requirement::Limit].into_iter().find_map(|requirement| {
        let found = subject.amount(requirement, resource)?;
        (found < min).then(|| LimitFault::BelowMin { min: min.clone(), requirement, found: found.clone() })
    })
}

fn above_max<'d, M: Bounded<'d>>(subject: &M, resource: &str, max: &Quantity) -> Option<LimitFault> {
    let requirement = if subject.has_limits() { Requirement::Limit } else { Requirement::Request };
    if subject.amount(requirement, resource).is_none() {
        return Some(LimitFault::NoValueForMax { max: max.clone(), requirement });
    }
    [Requirement::Limit, Requirement::Request].into_iter().find_map(|requirement| {
        let found = subject.amount(requirement, resource)?;
        (found > max).then(|| LimitFault::AboveMax { max: max.clone(), requirement, found: found.clone() })
    })
}

fn above_ratio<'d, M: Bounded<'d>>(subject: &M, resource: &str, ratio: &Quantity) -> Option<LimitFault> {
    let positive = |requirement| subject.amount(requirement, resource).filter(|amount| !amount.is_zero());
    let Some(request) = positive(Requirement::Request) else {
        return Some(LimitFault::NoValueForRatio { ratio: ratio.clone(), requirement: Requirement::Request });
    };
    let Some(limit) = positive(Requirement::Limit) else {
        return Some(LimitFault::NoValueForRatio { ratio: ratio.clone(), requirement: Requirement::Limit });
    };
    Quantity::exceeds_ratio(limit, request, ratio).then(|| LimitFault::AboveRatio {
        ratio: ratio.clone(),
        request: request.clone(),
        limit: limit.clone(),
    })
}
