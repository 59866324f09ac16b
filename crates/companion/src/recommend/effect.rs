//! What other requests do to the quotas of a namespace: as many pods as there are, each measured as a quota measures it.

use headroom_core::Context;
use headroom_core::amount::{Quantity, ResourceList};
use headroom_core::cluster::resource_quota::ResourceQuota;
use headroom_core::json::Malformed;
use headroom_core::quota::{Object, Usage, scope};
use headroom_core::request::{self, Pod};
use serde::Serialize;

use super::signed;

/// One name of one quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaEffect {
    pub namespace: String,
    pub quota: String,
    pub resource: String,
    pub used: String,
    pub hard: String,
    /// Signed.
    pub change: String,
    pub used_after: String,
    pub fits: bool,
    #[serde(skip)]
    amounts: Amounts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Amounts {
    used: Quantity,
    hard: Quantity,
    change: Quantity,
}

/// What a pod is charged under one name of one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    pub quota: String,
    pub resource: String,
    pub used: Quantity,
    pub hard: Quantity,
    /// None if the quota is not about the pod.
    pub amount: Option<Quantity>,
}

/// What a pod is charged, under every name of every quota.
pub fn charges(pod: &Pod<'_>, context: &Context<'_>) -> Result<Vec<Charge>, Malformed> {
    let mut charges = Vec::new();
    for quota in context.quotas.iter().flatten() {
        let usage = charged(pod, quota, context)?;
        charges.extend(quota.hard.iter().map(|(name, hard)| Charge {
            quota: quota.name.to_string(),
            resource: name.to_string(),
            used: quota.used.get(name).cloned().unwrap_or(Quantity::ZERO),
            hard: hard.clone(),
            amount: usage.get(name).cloned(),
        }));
    }
    Ok(charges)
}

/// What so many pods change that are charged differently from before, under the same names of the same quotas.
pub fn between(namespace: &str, pods: u64, before: &[Charge], after: &[Charge]) -> Vec<QuotaEffect> {
    let pairs = before.iter().zip(after).filter(|(before, after)| before.amount.is_some() || after.amount.is_some());
    pairs
        .map(|(before, after)| {
            let of = |charge: &Charge| charge.amount.clone().unwrap_or(Quantity::ZERO);
            let change = of(after).minus(&of(before)).times_count(pods);
            let amounts = Amounts { used: after.used.clone(), hard: after.hard.clone(), change };
            QuotaEffect::new(namespace, &after.quota, &after.resource, amounts)
        })
        .collect()
}

/// What so many pods of an object change; `before` is their present state, or none for pods that do not exist yet.
pub fn of(
    namespace: &str,
    pods: u64,
    before: Option<&Pod<'_>>,
    after: &Pod<'_>,
    context: &Context<'_>,
) -> Result<Vec<QuotaEffect>, Malformed> {
    let after = charges(after, context)?;
    let before = match before {
        Some(before) => charges(before, context)?,
        None => after.iter().map(|charge| Charge { amount: None, ..charge.clone() }).collect(),
    };
    Ok(between(namespace, pods, &before, &after))
}

/// What a pod is charged to a quota; nothing if the quota is not about it.
fn charged<'d>(pod: &Pod<'d>, quota: &ResourceQuota<'_>, context: &Context<'_>) -> Result<ResourceList<'d>, Malformed> {
    let object = Object::of_pod(pod, request::Object::planned(pod));
    if !scope::matches_all(&object, quota)? {
        return Ok(ResourceList::default());
    }
    Ok(Usage::of(&object, context.now)?.list(object.kind))
}

impl QuotaEffect {
    fn new(namespace: &str, quota: &str, resource: &str, amounts: Amounts) -> Self {
        let Amounts { used, hard, change } = &amounts;
        let after = used.plus(change);
        Self {
            namespace: namespace.to_owned(),
            quota: quota.to_owned(),
            resource: resource.to_owned(),
            used: used.to_string(),
            hard: hard.to_string(),
            change: signed(change),
            fits: after <= *hard,
            used_after: after.to_string(),
            amounts,
        }
    }

    /// Adds the effect of another object on the same name of the same quota.
    fn plus(&self, other: &Self) -> Self {
        let change = self.amounts.change.plus(&other.amounts.change);
        let amounts = Amounts { change, ..self.amounts.clone() };
        Self::new(&self.namespace, &self.quota, &self.resource, amounts)
    }
}

/// The effects of several objects taken together; names that nothing changes are left out.
pub fn together(all: impl IntoIterator<Item = QuotaEffect>) -> Vec<QuotaEffect> {
    let mut sums: Vec<QuotaEffect> = Vec::new();
    for effect in all {
        let is_same = |have: &&mut QuotaEffect| {
            (&have.namespace, &have.quota, &have.resource) == (&effect.namespace, &effect.quota, &effect.resource)
        };
        match sums.iter_mut().find(is_same) {
            Some(have) => *have = have.plus(&effect),
            None => sums.push(effect),
        }
    }
    sums.retain(|effect| !effect.amounts.change.is_zero());
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(resource: &str, change: &str) -> QuotaEffect {
        let amount = |text: &str| text.parse().unwrap();
        let amounts = Amounts { used: amount("3"), hard: amount("4"), change: amount(change) };
        QuotaEffect::new("shop", "team", resource, amounts)
    }

    #[test]
    fn effects_on_one_name_add_up_and_those_that_change_nothing_are_left_out() {
        let all = [effect("requests.cpu", "750m"), effect("pods", "0"), effect("requests.cpu", "500m")];
        let told: Vec<(String, String, String, bool)> = together(all)
            .into_iter()
            .map(|effect| (effect.resource, effect.change, effect.used_after, effect.fits))
            .collect();
        assert_eq!(told, [("requests.cpu".to_owned(), "+1250m".to_owned(), "4250m".to_owned(), false)]);
        assert_eq!(together([effect("cpu", "1"), effect("cpu", "-1")]), []);
        assert!(effect("cpu", "1").fits, "just so");
    }
}
