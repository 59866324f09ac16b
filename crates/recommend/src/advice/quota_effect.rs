//! The effect of other requests on the quotas of a namespace: as many pods as there are, each measured as a quota measures it.

use std::collections::HashMap;
use std::fmt;

use headroom_admission::Context;
use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::json::Malformed;
use headroom_admission::quota::{ObjectUsage, QuotaObject, scope};
use headroom_admission::request::{self, Pod};
use headroom_output::people;
use serde::Serialize;

use crate::advice::amounts::{signed_text, text};

/// One name of one quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaEffect {
    pub namespace: String,
    pub quota: String,
    pub resource: String,
    #[serde(serialize_with = "text")]
    pub used: Quantity,
    #[serde(serialize_with = "text")]
    pub hard: Quantity,
    #[serde(serialize_with = "signed_text")]
    pub change: Quantity,
    #[serde(serialize_with = "text")]
    pub used_after: Quantity,
    pub fits: bool,
}

/// The charge of a pod under one name of one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCharge {
    pub quota: String,
    pub resource: String,
    pub used: Quantity,
    pub hard: Quantity,
    /// None if the quota is not about the pod.
    pub amount: Option<Quantity>,
}

/// The charges of a pod under every name of every quota.
pub fn charges(pod: &Pod<'_>, context: &Context<'_>) -> Result<Vec<PodCharge>, Malformed> {
    let mut charges = Vec::new();
    for quota in context.quotas.iter().flatten() {
        let usage = charged(pod, quota, context)?;
        charges.extend(quota.hard.iter().map(|(name, hard)| PodCharge {
            quota: quota.name.to_string(),
            resource: name.to_string(),
            used: quota.used.get(name).cloned().unwrap_or(Quantity::ZERO),
            hard: hard.clone(),
            amount: usage.get(name).cloned(),
        }));
    }
    Ok(charges)
}

/// The effects of so many pods that are charged differently from before, under the same names of the same quotas. Without
/// `before` they do not exist yet.
pub fn between(namespace: &str, pods: u64, before: Option<&[PodCharge]>, after: &[PodCharge]) -> Vec<QuotaEffect> {
    let mut effects = Vec::new();
    for (place, after) in after.iter().enumerate() {
        let before = before.and_then(|before| before.get(place)?.amount.as_ref());
        if before.is_none() && after.amount.is_none() {
            continue;
        }
        let of = |amount: Option<&Quantity>| amount.cloned().unwrap_or(Quantity::ZERO);
        let change = of(after.amount.as_ref()).minus(&of(before)).times_count(pods);
        let effect = QuotaEffect {
            namespace: namespace.to_owned(),
            quota: after.quota.clone(),
            resource: after.resource.clone(),
            used: after.used.clone(),
            hard: after.hard.clone(),
            change: Quantity::ZERO,
            used_after: after.used.clone(),
            fits: true,
        };
        effects.push(effect.plus(&change));
    }
    effects
}

/// The charge of a pod to a quota; nothing if the quota is not about it.
fn charged<'d>(pod: &Pod<'d>, quota: &ResourceQuota<'_>, context: &Context<'_>) -> Result<ResourceList<'d>, Malformed> {
    let object = QuotaObject::of_pod(pod, request::Object::planned(pod));
    if !scope::matches_all(&object, quota)? {
        return Ok(ResourceList::default());
    }
    Ok(ObjectUsage::of(&object, context.now)?.list(object.kind))
}

/// `shop compute requests.cpu: 0.40 cores -> 2.09 cores of 1.00 cores (exceeds quota)`
impl fmt::Display for QuotaEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, quota, resource, .. } = self;
        let [used, after, hard] = [&self.used, &self.used_after, &self.hard].map(|of| people::amount(resource, of));
        let exceeds = if self.fits { "" } else { " (exceeds quota)" };
        write!(f, "{namespace} {quota} {resource}: {used} -> {after} of {hard}{exceeds}")
    }
}

impl QuotaEffect {
    fn plus(self, change: &Quantity) -> Self {
        let change = self.change.plus(change);
        let used_after = self.used.plus(&change);
        Self { fits: used_after <= self.hard, change, used_after, ..self }
    }
}

/// The effects of several objects taken together; names that nothing changes are left out.
pub fn together(all: impl IntoIterator<Item = QuotaEffect>) -> Vec<QuotaEffect> {
    let mut sums: Vec<QuotaEffect> = Vec::new();
    let mut places = HashMap::new();
    for effect in all {
        let name = [&effect.namespace, &effect.quota, &effect.resource].map(String::clone);
        let place = *places.entry(name).or_insert(sums.len());
        match sums.get_mut(place) {
            Some(have) => *have = have.clone().plus(&effect.change),
            None => sums.push(effect),
        }
    }
    sums.retain(|effect| !effect.change.is_zero());
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(resource: &str, change: &str) -> QuotaEffect {
        let amount = |text: &str| text.parse::<Quantity>().unwrap();
        let charge = |charged: Option<Quantity>| PodCharge {
            quota: "team".to_owned(),
            resource: resource.to_owned(),
            used: amount("3"),
            hard: amount("4"),
            amount: charged,
        };
        let before = [charge(Some(amount("2")))];
        between("shop", 1, Some(&before), &[charge(Some(amount("2").plus(&amount(change))))]).remove(0)
    }

    #[test]
    fn effects_on_one_name_add_up_and_those_that_change_nothing_are_left_out() {
        let all = [effect("requests.cpu", "750m"), effect("pods", "0"), effect("requests.cpu", "500m")];
        let effects: Vec<(String, String, String, bool)> = together(all)
            .into_iter()
            .map(|effect| (effect.resource, effect.change.to_string(), effect.used_after.to_string(), effect.fits))
            .collect();
        assert_eq!(effects, [("requests.cpu".to_owned(), "1250m".to_owned(), "4250m".to_owned(), false)]);
        assert_eq!(together([effect("cpu", "1"), effect("cpu", "-1")]), []);
        assert!(effect("cpu", "1").fits, "just so");
    }
}
