//! What other requests do to the quotas of a namespace: as many pods as there are, each measured as a quota measures it.

use headroom_core::Context;
use headroom_core::amount::{Quantity, ResourceList};
use headroom_core::context::resource_quota::ResourceQuota;
use headroom_core::json::Malformed;
use headroom_core::request::PodTemplate;
use headroom_core::stage::quota::{Kind, Object, matches_scope, usage_of};
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

/// What so many pods of an object change; `before` is what they are now, or none if they are yet to come.
pub fn of(
    namespace: &str,
    pods: u64,
    before: Option<&PodTemplate<'_>>,
    after: &PodTemplate<'_>,
    context: &Context<'_>,
) -> Result<Vec<QuotaEffect>, Malformed> {
    let mut effects = Vec::new();
    for quota in context.quotas.iter().flatten() {
        let usage_after = charged(after, quota, context)?;
        let usage_before = before.map(|before| charged(before, quota, context)).transpose()?.unwrap_or_default();
        for (name, hard) in quota.hard.iter() {
            let amount = |usage: &ResourceList<'_>| usage.get(name).cloned();
            let (then, now) = (amount(&usage_after), amount(&usage_before));
            let then = match (&then, &now) {
                (None, None) => continue,
                (then, _) => then.clone().unwrap_or(Quantity::ZERO),
            };
            let change = then.minus(&now.unwrap_or(Quantity::ZERO)).times_count(pods);
            let used = quota.used.get(name).cloned().unwrap_or(Quantity::ZERO);
            let amounts = Amounts { used, hard: hard.clone(), change };
            effects.push(QuotaEffect::new(namespace, &quota.name, name, amounts));
        }
    }
    Ok(effects)
}

/// What a pod is charged to a quota; nothing if the quota is not about it.
fn charged<'d>(
    pod: &PodTemplate<'d>,
    quota: &ResourceQuota<'_>,
    context: &Context<'_>,
) -> Result<ResourceList<'d>, Malformed> {
    let object = Object { kind: Kind::POD, node: pod.node, pod: Some(pod) };
    for requirement in quota.requirements() {
        if !matches_scope(&object, &requirement)? {
            return Ok(ResourceList::default());
        }
    }
    usage_of(&object, context.now)
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
