//! The outcome of a simulation as data: the sum first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::effect::{Effect, EffectKind, Effects, QuotaEffect, ValueChange};

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Report {
    summary: Summary,
    /// Everything that is not the same.
    objects: Vec<ChangedObject>,
    quotas: Vec<QuotaEffect>,
    /// The additional requests of the changed objects, by resource; negative if they free some.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    requests: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_looked_at: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Summary {
    objects: usize,
    newly_rejected: usize,
    changed: usize,
    no_longer_rejected: usize,
    still_rejected: usize,
    not_evaluated: usize,
    same: usize,
    quotas_newly_exceeded: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema), schemars(rename = "Effect"))]
struct ChangedObject {
    object: String,
    namespace: String,
    running: u64,
    change: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<ValueChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl EffectKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::NewlyRejected => "newly rejected",
            Self::NotEvaluated => "not evaluated",
            Self::Changed => "changed",
            Self::NoLongerRejected => "no longer rejected",
            Self::StillRejected => "still rejected",
            Self::Same => "the same",
        }
    }
}

pub fn report(effects: &Effects) -> Report {
    Report {
        summary: Summary {
            objects: effects.subjects.len(),
            newly_rejected: effects.count(EffectKind::NewlyRejected),
            changed: effects.count(EffectKind::Changed),
            no_longer_rejected: effects.count(EffectKind::NoLongerRejected),
            still_rejected: effects.count(EffectKind::StillRejected),
            not_evaluated: effects.count(EffectKind::NotEvaluated),
            same: effects.count(EffectKind::Same),
            quotas_newly_exceeded: effects.quotas.iter().filter(|quota| quota.is_newly_exceeded).count(),
        },
        objects: worth_showing(effects).into_iter().map(ChangedObject::of).collect(),
        quotas: effects.quotas.clone(),
        requests: effects.requests.iter().map(|(name, change)| (name.to_string(), change.to_string())).collect(),
        not_looked_at: effects.missed.clone(),
    }
}

/// The effects with a change or a warning, the worst first.
pub fn worth_showing(effects: &Effects) -> Vec<&Effect> {
    let is_worth = |effect: &&Effect| effect.change != EffectKind::Same || !effect.warnings.is_empty();
    let mut found: Vec<&Effect> = effects.subjects.iter().filter(is_worth).collect();
    found.sort_by_key(|effect| effect.change);
    found
}

impl ChangedObject {
    fn of(effect: &Effect) -> Self {
        Self {
            object: effect.name.clone(),
            namespace: effect.namespace.clone(),
            running: effect.count,
            change: effect.change.name(),
            reasons: effect.reasons.iter().map(ToString::to_string).collect(),
            values: effect.values.clone(),
            warnings: effect.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}
