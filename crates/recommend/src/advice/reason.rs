//! The reason of a recommendation: what it is based on, how the amount changed on its way, and which histories were looked
//! at before.

use std::fmt;
use std::time::Duration;

use headroom_admission::amount::Quantity;
use headroom_admission::estimate::{Adjustment, AdjustmentReason, Basis, Estimate};
use headroom_admission::settings::HistoryOwner;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::history::distribution::shown;
use headroom_admission::recommend::Measurements;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdviceReason {
    pub basis: Basis,
    /// In order, as admission words them.
    adjustments: Vec<String>,
    /// The bounds that lowered the amount, each with what it was before; none for the limit of the container itself.
    lowered: Vec<(Quantity, Option<String>)>,
    /// Histories that were looked at first and not used.
    skipped: Vec<String>,
    /// The pods, namespaces and out-of-memory kills of the history.
    counted: (u64, u64, usize),
    /// The most that was used once, or by single pods beyond all others.
    pub not_covered: Option<String>,
    /// The setting that allows the program the amount.
    pub allowed_by: Option<String>,
}

impl AdviceReason {
    pub fn new(estimate: &Estimate<'_>, measured: &Measurements) -> Self {
        let bound = |of: &Adjustment<'_>| {
            let bound = match &of.reason {
                AdjustmentReason::Max(range) => Some(format!("the max of {range}")),
                AdjustmentReason::PodMax(range) => Some(format!("the pod max of {range}")),
                AdjustmentReason::Limit(range) => range.as_ref().map(|range| format!("the default limit of {range}")),
                _ => return None,
            };
            Some((of.from.clone(), bound))
        };
        Self {
            basis: estimate.basis.clone(),
            adjustments: estimate.adjustments.iter().map(ToString::to_string).collect(),
            lowered: estimate.adjustments.iter().filter_map(bound).collect(),
            skipped: estimate.rejected.iter().map(ToString::to_string).collect(),
            counted: (measured.pods, measured.namespaces, measured.oom_kills.len()),
            not_covered: measured.not_covered.as_ref().map(|most| shown(most, measured.resource)),
            allowed_by: None,
        }
    }

    pub fn set_age(&mut self, seconds: u64) {
        if let Basis::History { age, .. } = &mut self.basis {
            *age = Duration::from_secs(seconds);
        }
    }

    /// The bounds that keep the amount of a resource below what it should be: `raise the max of LimitRange limits (512Mi) to at least
    /// 1050Mi`
    pub fn bound_to_raise(&self, resource: &str, amount: &Quantity) -> Option<String> {
        let (needed, _) = self.lowered.first()?;
        let levels = self.lowered.iter().skip(1).map(|(from, _)| from).chain([amount]);
        let raise = self.lowered.iter().zip(levels).map(|((_, bound), level)| match bound {
            Some(bound) => format!("{bound} ({level})"),
            None => format!("the {resource} limit ({level})"),
        });
        Some(format!("raise {} to at least {needed}", raise.collect::<Vec<_>>().join(" and ")))
    }

    /// `p80 of 7d nginx:1.27 in this namespace, 800 samples, 5h old; 118m + 10% + 25m`, as admission words it.
    fn text(&self) -> String {
        let adjustments = self.adjustments.iter().map(|adjustment| format!("; {adjustment}"));
        let not_covered = self.not_covered.iter().map(|most| format!("; not covered: {most} once, or in single pods"));
        let allowed = self.allowed_by.iter().map(|setting| format!("; not below what {setting} allows"));
        format!("{}{}", self.basis, adjustments.chain(not_covered).chain(allowed).collect::<String>())
    }
}

impl fmt::Display for AdviceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())?;
        if !self.skipped.is_empty() {
            write!(f, "; skipped: {}", self.skipped.join("; "))?;
        }
        Ok(())
    }
}

impl Serialize for AdviceReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reason = serializer.serialize_struct("Reason", 4)?;
        reason.serialize_field("text", &self.text())?;
        if let Basis::History { percentile, window, key, owner, samples, age } = &self.basis {
            let scope = match owner {
                HistoryOwner::OwnNamespace => "namespace",
                HistoryOwner::AllNamespaces => "cluster",
            };
            let (pods, namespaces, oom_kills) = self.counted;
            let history = json!({"percentile": percentile.name(), "window": window.name(), "key": key, "scope": scope,
                "samples": samples, "ageSeconds": age.as_secs(), "pods": pods, "namespaces": namespaces,
                "oomKills": oom_kills});
            reason.serialize_field("history", &history)?;
        }
        if !self.adjustments.is_empty() {
            reason.serialize_field("adjustments", &self.adjustments)?;
        }
        if !self.skipped.is_empty() {
            reason.serialize_field("passedOver", &self.skipped)?;
        }
        reason.end()
    }
}
