//! Checks bounds as LimitRanger does: min, max and ratio; per container, per pod, per claim.
//!
//! Every breach is found, in a fixed order: ranges in turn, items as they stand, subjects in turn, then all min, all
//! max, all ratios, each by resource name. Comparison is exact. A breach words itself as Kubernetes does; who is
//! concerned and what helps comes after that.
//! See <https://kubernetes.io/docs/concepts/policy/limit-range/>.

mod breach;

use std::borrow::Cow;

use super::ranges::Range;
use crate::amount::{Quantity, ResourceList};
use crate::context::limit_range::{CLAIM, CONTAINER, Item, POD};
use crate::json::{Malformed, Node};
use crate::request::demand;
use crate::request::template::{Bound, Container, PodTemplate};

pub use breach::{Breach, Fault, Subject};

/// Checks a pod. `stored` is the pod before a resize: what the resize does not touch is not held against it.
pub fn check_pod<'d>(
    pod: &PodTemplate<'d>,
    stored: Option<&PodTemplate<'d>>,
    ranges: &[Range<'_, 'd>],
) -> Vec<Breach<'d>> {
    let mut breaches = Breaches::default();
    let total = PodTotal::of(pod);
    let stored_total = stored.map(PodTotal::of);
    for range in ranges {
        for item in range.items() {
            match item.kind.as_ref() {
                CONTAINER => {
                    for container in pod.containers.iter().filter(|container| range.speaks_of(container)) {
                        let before = stored.and_then(|stored| same_container(stored, container));
                        breaches.check(range, item, container, before);
                    }
                }
                POD => breaches.check(range, item, &total, stored_total.as_ref()),
                _ => {}
            }
        }
    }
    breaches.0
}

/// Checks a claim's storage. A name whose request is as it was before an update is not held against it.
pub fn check_claim<'d>(
    claim: Node<'d>,
    old: Option<Node<'d>>,
    ranges: &[Range<'_, 'd>],
) -> Result<Vec<Breach<'d>>, Malformed> {
    let requests = |claim: Node<'d>| match claim.at(&["spec", "resources", "requests"])? {
        Some(requests) => ResourceList::read(requests),
        None => Ok(ResourceList::default()),
    };
    let claim = ClaimRequests(requests(claim)?);
    let old = old.map(requests).transpose()?.map(ClaimRequests);
    let mut breaches = Breaches::default();
    for range in ranges {
        for item in range.items().iter().filter(|item| item.kind == CLAIM) {
            breaches.check(range, item, &claim, old.as_ref());
        }
    }
    Ok(breaches.0)
}

fn same_container<'a, 'd>(stored: &'a PodTemplate<'d>, container: &Container<'d>) -> Option<&'a Container<'d>> {
    stored.containers.iter().find(|have| have.name == container.name && have.role == container.role)
}

/// What a bound is held against: a container, the total of a pod, or a claim.
trait Measured<'d> {
    fn subject(&self) -> Subject<'d>;
    fn amount(&self, bound: Bound, resource: &str) -> Option<&Quantity>;
    /// A claim has only requests: `max` looks at them, and the ratio means nothing.
    fn has_limits(&self) -> bool {
        true
    }
    /// Where a value came from, if not from the author.
    fn origin(&self, _bound: Bound, _resource: &str) -> Option<String> {
        None
    }
}

impl<'d> Measured<'d> for Container<'d> {
    fn subject(&self) -> Subject<'d> {
        Subject::Container(self.name.clone())
    }

    fn amount(&self, bound: Bound, resource: &str) -> Option<&Quantity> {
        self.resources.quantity(bound, resource)
    }

    fn origin(&self, bound: Bound, resource: &str) -> Option<String> {
        let value = self.resources.of(bound).get(resource)?;
        (!value.origin.is_authored()).then(|| value.origin.to_string())
    }
}

/// The totals of a pod.
struct PodTotal<'d> {
    requests: ResourceList<'d>,
    limits: ResourceList<'d>,
}

impl<'d> PodTotal<'d> {
    fn of(pod: &PodTemplate<'d>) -> Self {
        Self {
            requests: demand::as_limit_ranges_see_it(pod, Bound::Request),
            limits: demand::as_limit_ranges_see_it(pod, Bound::Limit),
        }
    }
}

impl<'d> Measured<'d> for PodTotal<'d> {
    fn subject(&self) -> Subject<'d> {
        Subject::Pod
    }

    fn amount(&self, bound: Bound, resource: &str) -> Option<&Quantity> {
        match bound {
            Bound::Request => self.requests.get(resource),
            Bound::Limit => self.limits.get(resource),
        }
    }
}

struct ClaimRequests<'d>(ResourceList<'d>);

impl<'d> Measured<'d> for ClaimRequests<'d> {
    fn subject(&self) -> Subject<'d> {
        Subject::Claim
    }

    fn amount(&self, bound: Bound, resource: &str) -> Option<&Quantity> {
        match bound {
            Bound::Request => self.0.get(resource),
            Bound::Limit => None,
        }
    }

    fn has_limits(&self) -> bool {
        false
    }
}

#[derive(Default)]
struct Breaches<'d>(Vec<Breach<'d>>);

impl<'d> Breaches<'d> {
    /// Holds one subject against one item.
    fn check<M: Measured<'d>>(&mut self, range: &Range<'_, 'd>, item: &Item<'d>, subject: &M, before: Option<&M>) {
        let mut found = |resource: &Cow<'d, str>, fault: Option<Fault>| {
            let untouched = before.is_some_and(|before| is_untouched(subject, before, resource));
            if let Some(fault) = fault
                && !untouched
            {
                let origin = fault.bound().and_then(|bound| subject.origin(bound, resource));
                self.0.push(Breach {
                    kind: item.kind.clone(),
                    resource: resource.clone(),
                    fault,
                    subject: subject.subject(),
                    origin,
                    range: range.name(),
                });
            }
        };
        for (resource, min) in item.min.iter() {
            found(resource, below_min(subject, resource, min));
        }
        for (resource, max) in item.max.iter() {
            let fault = if subject.has_limits() {
                above_max(subject, resource, max)
            } else {
                above_max_claim(subject, resource, max)
            };
            found(resource, fault);
        }
        if subject.has_limits() {
            for (resource, ratio) in item.max_ratio.iter() {
                found(resource, above_ratio(subject, resource, ratio));
            }
        }
    }
}

fn is_untouched<'d, M: Measured<'d>>(now: &M, before: &M, resource: &str) -> bool {
    let is_same = |bound| now.amount(bound, resource) == before.amount(bound, resource);
    let is_there = now.amount(Bound::Request, resource).or(now.amount(Bound::Limit, resource)).is_some();
    is_there && is_same(Bound::Request) && is_same(Bound::Limit)
}

fn below_min<'d, M: Measured<'d>>(subject: &M, resource: &str, min: &Quantity) -> Option<Fault> {
    let Some(request) = subject.amount(Bound::Request, resource) else {
        return Some(Fault::NoRequestForMin { min: min.clone() });
    };
    if request < min {
        return Some(Fault::BelowMin { min: min.clone(), bound: Bound::Request, found: request.clone() });
    }
    let limit = subject.amount(Bound::Limit, resource)?;
    (limit < min).then(|| Fault::BelowMin { min: min.clone(), bound: Bound::Limit, found: limit.clone() })
}

fn above_max<'d, M: Measured<'d>>(subject: &M, resource: &str, max: &Quantity) -> Option<Fault> {
    let Some(limit) = subject.amount(Bound::Limit, resource) else {
        return Some(Fault::NoLimitForMax { max: max.clone() });
    };
    if limit > max {
        return Some(Fault::AboveMax { max: max.clone(), bound: Bound::Limit, found: limit.clone() });
    }
    let request = subject.amount(Bound::Request, resource)?;
    (request > max).then(|| Fault::AboveMax { max: max.clone(), bound: Bound::Request, found: request.clone() })
}

fn above_max_claim<'d, M: Measured<'d>>(subject: &M, resource: &str, max: &Quantity) -> Option<Fault> {
    let Some(request) = subject.amount(Bound::Request, resource) else {
        return Some(Fault::NoRequestForMax { max: max.clone() });
    };
    (request > max).then(|| Fault::AboveMax { max: max.clone(), bound: Bound::Request, found: request.clone() })
}

fn above_ratio<'d, M: Measured<'d>>(subject: &M, resource: &str, ratio: &Quantity) -> Option<Fault> {
    let positive = |bound| subject.amount(bound, resource).filter(|amount| !amount.is_zero());
    let Some(request) = positive(Bound::Request) else {
        return Some(Fault::NoValueForRatio { ratio: ratio.clone(), bound: Bound::Request });
    };
    let Some(limit) = positive(Bound::Limit) else {
        return Some(Fault::NoValueForRatio { ratio: ratio.clone(), bound: Bound::Limit });
    };
    Quantity::exceeds_ratio(limit, request, ratio).then(|| Fault::AboveRatio {
        ratio: ratio.clone(),
        request: request.clone(),
        limit: limit.clone(),
    })
}
