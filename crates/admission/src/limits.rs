//! Checks bounds as LimitRanger does: min, max and ratio; per container, per pod, per claim.
//!
//! Every breach is found, in a fixed order: by range, item and subject, then all min, all max, all ratios, each by
//! resource name. Comparison is exact. The text of a breach is Kubernetes' own, followed by the subject and advice.
//! See <https://kubernetes.io/docs/concepts/policy/limit-range/>.

mod breach;

use std::borrow::Cow;

use crate::amount::{Quantity, Requirement, ResourceList, read_quantity};
use crate::cluster::limit_range::{CLAIM, CONTAINER, Item, POD};
use crate::json::{Malformed, Node};
use crate::limit_rules::Range;
use crate::request::{Container, Object, Pod, Role, ValueOrigin, pod_totals};
use crate::truncate::{Names, shortened};

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

/// Checks a claim's storage, also what it has in `old` already unless `skips_unchanged`.
pub fn check_claim<'d>(
    claim: &Object<'d>,
    old: Option<&Object<'d>>,
    skips_unchanged: bool,
    ranges: &[Range<'d>],
) -> Result<Breaches<'d>, Malformed> {
    let unchanged = old.filter(|_| skips_unchanged).map(requests).transpose()?.unwrap_or_default();
    let total = BoundedTotal { old, unchanged, ..BoundedTotal::of_claim(BoundTarget::Claim, requests(claim)?) };
    let mut breaches = Breaches::default();
    check_requests(&mut breaches, &total, ranges);
    Ok(breaches)
}

/// Checks the claims that a StatefulSet's controller creates for each pod.
pub fn check_claim_templates<'d>(templates: &[Object<'d>], ranges: &[Range<'d>]) -> Result<Breaches<'d>, Malformed> {
    let mut breaches = Breaches::default();
    for template in templates {
        let name = template.node.at(&["metadata", "name"])?.map(Node::str).transpose()?.unwrap_or_default();
        let total = BoundedTotal::of_claim(BoundTarget::ClaimTemplate(name), requests(template)?);
        check_requests(&mut breaches, &total, ranges);
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
    /// True if a value follows another, which its author wrote alone.
    fn is_copied(&self, _requirement: Requirement, _resource: &str) -> bool {
        false
    }
    /// The amount that is taken already, so that an update cannot ask for less.
    fn least(&self, _resource: &str) -> Option<Quantity> {
        None
    }
    /// The origin of a value that is not the author's, or of a total that is not the sum over the containers.
    fn origin(&self, requirement: Requirement, resource: &str) -> Option<String>;
    /// The sources of the amounts in a total that are not the author's.
    fn parts(&self, _requirement: Requirement, _resource: &str) -> Names {
        Names::default()
    }
}

impl<'d> Bounded<'d> for Container<'d> {
    fn subject(&self) -> BoundTarget<'d> {
        BoundTarget::Container(self.name.clone())
    }

    fn amount(&self, requirement: Requirement, resource: &str) -> Option<&Quantity> {
        self.resources.quantity(requirement, resource)
    }

    fn is_copied(&self, requirement: Requirement, resource: &str) -> bool {
        self.resources.of(requirement).get(resource).is_some_and(|value| value.origin == ValueOrigin::AuthorsLimit)
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
    /// The requests that a claim had before an update, if these are not checked again.
    unchanged: ResourceList<'d>,
    /// The claim before an update.
    old: Option<&'p Object<'d>>,
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
        Self { pod: Some(pod), limits, ..Self::of_claim(BoundTarget::Pod, requests) }
    }

    fn of_claim(subject: BoundTarget<'d>, requests: ResourceList<'d>) -> Self {
        let (limits, unchanged) = (ResourceList::default(), ResourceList::default());
        Self { subject, pod: None, requests, limits, unchanged, old: None }
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
        self.requests.get(resource).is_some_and(|amount| self.unchanged.get(resource) == Some(amount))
    }

    fn least(&self, resource: &str) -> Option<Quantity> {
        // Not the whole list, which an author may make long: this is asked for each breach.
        let amount = |list: Node<'d>| read_quantity(list.at(&[resource]).ok()??).ok();
        // Until its volume has grown, a claim may ask for less again.
        let of_volume = self.old?.status_at(&["capacity"]).ok()?.and_then(amount);
        of_volume.or_else(|| self.old?.spec_at(&["resources", "requests"]).ok()?.and_then(amount))
    }

    fn origin(&self, requirement: Requirement, resource: &str) -> Option<String> {
        let (pod, amount) = (self.pod?, self.amount(requirement, resource));
        if amount.is_some() && amount == pod.resources.quantity(requirement, resource) {
            let is_sum = pod_totals::of_containers(pod, requirement).get(resource) == amount;
            let sum = if is_sum { ", and the sum over its containers" } else { "" };
            return Some(format!("resources of the pod as a whole{sum}"));
        }
        let peak = pod.containers.get(pod_totals::peak_at_start(pod, requirement, resource)?)?;
        let is_alone = amount == peak.resources.quantity(requirement, resource);
        let others = if is_alone { "" } else { " with the sidecars before it" };
        Some(format!("{} {}{others}", Role::Init.noun(), shortened(&peak.name)))
    }

    fn parts(&self, requirement: Requirement, resource: &str) -> Names {
        self.pod.map(|pod| pod_totals::origins(pod, requirement, resource)).unwrap_or_default()
    }
}

fn check<'d, M: Bounded<'d>>(breaches: &mut Breaches<'d>, range: &Range<'d>, item: &Item<'d>, subject: &M) {
    let mut found = |resource: &Cow<'d, str>, fault: Option<LimitFault>| {
        let Some(fault) = fault.filter(|_| !subject.is_unchanged(resource)) else { return };
        breaches.add_with(|| {
            let requirement = fault.requirement();
            let origin = requirement.and_then(|requirement| subject.origin(requirement, resource));
            let parts = requirement.map(|requirement| subject.parts(requirement, resource)).unwrap_or_default();
            Breach {
                kind: item.kind.clone(),
                resource: resource.clone(),
                fault,
                subject: subject.subject(),
                origin,
                parts,
                least: subject.least(resource),
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
    let (requirement, found, other) = breaking(subject, resource, Requirement::BOTH, |amount| amount < min)?;
    Some(LimitFault::BelowMin { min: min.clone(), requirement, found, other })
}

fn above_max<'d, M: Bounded<'d>>(subject: &M, resource: &str, max: &Quantity) -> Option<LimitFault> {
    let requirement = if subject.has_limits() { Requirement::Limit } else { Requirement::Request };
    if subject.amount(requirement, resource).is_none() {
        let request = subject.amount(Requirement::Request, resource).filter(|request| *request > max).cloned();
        return Some(LimitFault::NoValueForMax { max: max.clone(), requirement, request });
    }
    let order = [Requirement::Limit, Requirement::Request];
    let (requirement, found, other) = breaking(subject, resource, order, |amount| amount > max)?;
    Some(LimitFault::AboveMax { max: max.clone(), requirement, found, other })
}

/// The first amount that breaks a bound, and the other if its author has to change it too.
fn breaking<'d, M: Bounded<'d>>(
    subject: &M,
    resource: &str,
    order: [Requirement; 2],
    breaks: impl Fn(&Quantity) -> bool,
) -> Option<(Requirement, Quantity, Option<Quantity>)> {
    let broken = |requirement| Some((requirement, subject.amount(requirement, resource).filter(|of| breaks(of))?));
    let mut broken = order.into_iter().filter_map(broken);
    let (requirement, found) = broken.next()?;
    let other = broken.next().filter(|(requirement, _)| !subject.is_copied(*requirement, resource));
    Some((requirement, found.clone(), other.map(|(_, other)| other.clone())))
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
