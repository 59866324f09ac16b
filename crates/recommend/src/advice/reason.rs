//! The reason of a recommendation: what it is based on, how the amount changed on its way, and which histories were looked
//! at before.

use std::fmt;
use std::time::Duration;

use headroom_admission::amount::Quantity;
use headroom_admission::estimate::{self, Adjustment, Basis, Estimate, RejectedHistory};
use headroom_admission::request::RangeName;
use headroom_admission::settings::HistoryOwner;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::history::distribution::shown;
use headroom_admission::recommend::Measurements;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdviceReason {
    pub basis: Basis,
    /// In order.
    pub adjustments: Vec<Adjustment<'static>>,
    /// Histories that were looked at first and not used.
    pub skipped: Vec<RejectedHistory>,
    /// The counts of the history, if the basis is one.
    pub counted: ObservationCounts,
    /// The most that was used once, or by single pods beyond all others.
    pub not_covered: Option<String>,
    /// The setting that allows the program the amount.
    pub allowed_by: Option<String>,
}

/// Counts of the observations in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObservationCounts {
    pub days: Option<u64>,
    pub pods: u64,
    pub namespaces: u64,
    pub oom_kills: usize,
}

impl AdviceReason {
    pub fn new(estimate: &Estimate<'_>, measured: Option<&Measurements>) -> Self {
        let adjustments = estimate.adjustments.iter();
        Self {
            basis: estimate.basis.clone(),
            adjustments: adjustments
                .map(|of| Adjustment { from: of.from.clone(), reason: owned(&of.reason) })
                .collect(),
            skipped: estimate.rejected.clone(),
            counted: measured.map_or_else(ObservationCounts::default, |measured| ObservationCounts {
                days: measured.days,
                pods: measured.pods,
                namespaces: measured.namespaces,
                oom_kills: measured.oom_kills.len(),
            }),
            not_covered: measured.and_then(|of| Some(shown(of.not_covered.as_ref()?, of.resource))),
            allowed_by: None,
        }
    }

    /// Sets the age of the history to that of its newest sample.
    pub fn set_age(&mut self, seconds: u64) {
        if let Basis::History { age, .. } = &mut self.basis {
            *age = Duration::from_secs(seconds);
        }
    }

    /// The bounds that keep the amount of a resource below what it should be: `raise the max of LimitRange limits (512Mi) to at least
    /// 1050Mi`
    pub fn bound_to_raise(&self, resource: &str, amount: &Quantity) -> Option<String> {
        use estimate::AdjustmentReason as R;
        let bound = |reason: &estimate::AdjustmentReason<'_>| match reason {
            R::Max(range) => Some(format!("the max of {range}")),
            R::PodMax(range) => Some(format!("the pod max of {range}")),
            R::Limit(Some(range)) => Some(format!("the default limit of {range}")),
            R::Limit(None) => Some(format!("the {resource} limit")),
            _ => None,
        };
        let lowered = self.adjustments.iter().filter_map(|of| Some((&of.from, bound(&of.reason)?)));
        let lowered: Vec<(&Quantity, String)> = lowered.collect();
        let (needed, _) = lowered.first()?;
        let levels = lowered.iter().skip(1).map(|(from, _)| *from).chain([amount]);
        let raise = lowered.iter().zip(levels).map(|((_, bound), level)| format!("{bound} ({level})"));
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
            let skipped: Vec<String> = self.skipped.iter().map(ToString::to_string).collect();
            write!(f, "; skipped: {}", skipped.join("; "))?;
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
            let ObservationCounts { pods, namespaces, oom_kills, .. } = self.counted;
            let history = json!({"percentile": percentile.name(), "window": window.name(), "key": key, "scope": scope,
                "samples": samples, "ageSeconds": age.as_secs(), "pods": pods, "namespaces": namespaces,
                "oomKills": oom_kills});
            reason.serialize_field("history", &history)?;
        }
        let texts = |list: Vec<String>| (!list.is_empty()).then_some(list);
        if let Some(adjustments) = texts(self.adjustments.iter().map(ToString::to_string).collect()) {
            reason.serialize_field("adjustments", &adjustments)?;
        }
        if let Some(skipped) = texts(self.skipped.iter().map(ToString::to_string).collect()) {
            reason.serialize_field("passedOver", &skipped)?;
        }
        reason.end()
    }
}

/// The same without a borrow of the settings and of the LimitRanges.
fn owned(reason: &estimate::AdjustmentReason<'_>) -> estimate::AdjustmentReason<'static> {
    use estimate::AdjustmentReason as R;
    let range = |range: &RangeName<'_>| match range {
        RangeName::LimitRange(name) => RangeName::LimitRange(name.clone().into_owned().into()),
        RangeName::Rule(name) => RangeName::Rule(name.clone().into_owned().into()),
    };
    match reason {
        R::Margin(margin) => R::Margin(margin.clone()),
        R::ShortHistory { percent, days } => R::ShortHistory { percent: *percent, days: *days },
        R::FewPods { percent, pods } => R::FewPods { percent: *percent, pods: *pods },
        R::BusiestPod { used } => R::BusiestPod { used: used.clone() },
        R::Growth { a_day } => R::Growth { a_day: a_day.clone() },
        R::Peak { used, window } => R::Peak { used: used.clone(), window: *window },
        R::OomKill { memory, age } => R::OomKill { memory: memory.clone(), age: *age },
        R::Floor => R::Floor,
        R::Quota => R::Quota,
        R::Max(name) => R::Max(range(name)),
        R::Min(name) => R::Min(range(name)),
        R::Ratio(name) => R::Ratio(range(name)),
        R::PodMax(name) => R::PodMax(range(name)),
        R::PodMin(name) => R::PodMin(range(name)),
        R::Limit(name) => R::Limit(name.as_ref().map(range)),
        R::Kept(kept) => R::Kept(kept.clone()),
    }
}
