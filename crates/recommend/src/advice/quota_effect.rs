//! The effect of other requests on the quotas of a namespace: as many pods as there are, each measured as a quota measures it.

use std::collections::HashMap;
use std::fmt;

use headroom_admission::Context;
use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::json::Malformed;
use headroom_admission::quota::{ObjectUsage, QuotaObject, scope};
use headroom_admission::request::{self, Pod};
use headroom_dry_run::quota_levels::{QuotaKey, QuotaLevel};
use headroom_output::people;
use serde::Serialize;

use crate::advice::amounts::{signed_text, text};

/// The usage of a quota under one name, and how it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaEffect {
    #[serde(flatten)]
    pub level: QuotaLevel,
    #[serde(serialize_with = "signed_text")]
    pub change: Quantity,
    #[serde(serialize_with = "text")]
    pub used_after: Quantity,
    pub fits: bool,
}

/// The charge of a pod under one name of one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCharge {
    pub level: QuotaLevel,
    /// Nothing if the quota is not about the pod.
    pub amount: Quantity,
}

pub fn charges(namespace: &str, pod: &Pod<'_>, context: &Context<'_>) -> Result<Vec<PodCharge>, Malformed> {
    let mut charges = Vec::new();
    let object = QuotaObject::of_pod(pod, request::Object::planned(pod));
    for quota in context.quotas.iter().flatten() {
        let usage = match scope::matches_all(&object, quota)? {
            true => ObjectUsage::of(&object, context.now)?.list(object.kind),
            false => ResourceList::default(),
        };
        let key = |name: &str| {
            let [namespace, quota, name] = [namespace, &*quota.name, name].map(str::to_owned);
            QuotaKey { namespace, quota, name }
        };
        charges.extend(quota.hard.iter().map(|(name, hard)| PodCharge {
            level: QuotaLevel {
                key: key(name),
                used: quota.used.get(name).cloned().unwrap_or(Quantity::ZERO),
                hard: Some(hard.clone()),
            },
            amount: usage.get(name).cloned().unwrap_or(Quantity::ZERO),
        }));
    }
    Ok(charges)
}

/// The effects of so many pods that are charged differently from before, under the same names of the same quotas, where there are
/// any. Without `before` they do not exist yet.
pub fn between(pods: u64, before: Option<&[PodCharge]>, after: &[PodCharge]) -> Box<[QuotaEffect]> {
    let effect = |(place, after): (usize, &PodCharge)| {
        let before = before.and_then(|before| before.get(place)).map_or(&Quantity::ZERO, |before| &before.amount);
        let change = after.amount.minus(before).times_count(pods);
        (!change.is_zero()).then(|| QuotaEffect::new(after.level.clone(), change))
    };
    after.iter().enumerate().filter_map(effect).collect()
}

/// `shop compute requests.cpu: 0.40 cores -> 2.09 cores of 1.00 cores (exceeds quota)`
impl fmt::Display for QuotaEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuotaKey { namespace, quota, name } = &self.level.key;
        let [used, after, hard] = self.amounts().map(|of| people::amount(name, of));
        let exceeds = if self.fits { "" } else { " (exceeds quota)" };
        write!(f, "{namespace} {quota} {name}: {used} -> {after} of {hard}{exceeds}")
    }
}

impl QuotaEffect {
    fn new(level: QuotaLevel, change: Quantity) -> Self {
        let used_after = level.used.plus(&change);
        Self { fits: level.fits(&used_after), level, change, used_after }
    }

    /// The usage, the usage after the change, and the bound.
    pub fn amounts(&self) -> [&Quantity; 3] {
        [&self.level.used, &self.used_after, self.level.hard.as_ref().unwrap_or(&Quantity::ZERO)]
    }
}

/// The effects of several objects taken together; names that nothing changes are left out.
pub fn together(all: impl IntoIterator<Item = QuotaEffect>) -> Vec<QuotaEffect> {
    let mut sums: Vec<QuotaEffect> = Vec::new();
    let mut places = HashMap::new();
    for effect in all {
        let place = *places.entry(effect.level.key.clone()).or_insert(sums.len());
        match sums.get_mut(place) {
            Some(have) => *have = QuotaEffect::new(effect.level, have.change.plus(&effect.change)),
            None => sums.push(effect),
        }
    }
    sums.retain(|effect| !effect.change.is_zero());
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(resource: &str, change: &str) -> Box<[QuotaEffect]> {
        let amount = |text: &str| text.parse::<Quantity>().unwrap();
        let [namespace, quota, name] = ["shop", "team", resource].map(str::to_owned);
        let level = QuotaLevel { key: QuotaKey { namespace, quota, name }, used: amount("3"), hard: Some(amount("4")) };
        let charge = |amount: Quantity| [PodCharge { level: level.clone(), amount }];
        between(1, Some(&charge(amount("2"))), &charge(amount("2").plus(&amount(change))))
    }

    #[test]
    fn effects_on_one_name_add_up_and_those_that_change_nothing_are_left_out() {
        let all = [effect("requests.cpu", "750m"), effect("pods", "0"), effect("requests.cpu", "500m")].concat();
        let effects: Vec<(String, String, String, bool)> = together(all)
            .into_iter()
            .map(|effect| {
                (effect.level.key.name, effect.change.to_string(), effect.used_after.to_string(), effect.fits)
            })
            .collect();
        assert_eq!(effects, [("requests.cpu".to_owned(), "1250m".to_owned(), "4250m".to_owned(), false)]);
        assert_eq!(together([effect("cpu", "1"), effect("cpu", "-1")].concat()), []);
        assert!(matches!(&*effect("cpu", "1"), [effect] if effect.fits), "just so");
    }
}
