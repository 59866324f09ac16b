//! Explains where an estimate comes from, in texts for annotations and warnings.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::history_lookup::RejectedHistory;
use super::push;
use crate::amount::Quantity;
use crate::cluster::usage::read::Age;
use crate::cluster::usage::{Percentile, Window};
use crate::request::RangeName;
use crate::settings::{HistoryOwner, Margin};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    History { percentile: Percentile, window: Window, key: String, owner: HistoryOwner, samples: u64, age: Duration },
    WellKnown { source: &'static str },
}

const WELL_KNOWN: &str = "typical for this image";

impl Basis {
    /// `usage of nginx:1.27 in this namespace over 7 days`, built without `format!`, which costs several times as much.
    fn push_brief(&self, text: &mut String) {
        match self {
            Self::History { window, key, owner, .. } => {
                let days = if *window == Window::Week { "7 days" } else { "30 days" };
                text.extend(["usage of ", key, " ", owner.place(), " over ", days]);
            }
            Self::WellKnown { .. } => text.push_str(WELL_KNOWN),
        }
    }

    /// `p90 of 7d nginx:1.27 in this namespace, 10080 samples, 5h old`
    fn push(&self, text: &mut String) {
        match self {
            Self::History { percentile, window, key, owner, samples, age } => {
                let (percentile, prefix) = (percentile.name(), percentile.prefix());
                text.extend([prefix, percentile, " of ", window.name(), " ", key, " ", owner.place()]);
                push(text, format_args!(", {samples} samples"));
                if age.as_secs() >= 60 {
                    push(text, format_args!(", {} old", Age(*age)));
                }
            }
            Self::WellKnown { source } => text.extend([WELL_KNOWN, ": ", source]),
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push(&mut text);
        f.write_str(&text)
    }
}

/// A change of the amount between the history and the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustment<'d> {
    pub from: Quantity,
    pub reason: AdjustmentReason<'d>,
}

/// `Growth`: a manifest covers what steady growth adds until it is looked at again. `Limit`: with the range of the default
/// limit, if that is known. `Kept`: the author's value stays, although it might be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdjustmentReason<'d> {
    Margin(Margin),
    ShortHistory { percent: u64, days: u64 },
    FewPods { percent: u64, pods: u64 },
    BusiestPod { used: Quantity },
    Growth { a_day: Quantity },
    Peak { used: Quantity, window: Window },
    OomKill { memory: Quantity, age: Duration },
    Floor,
    Max(RangeName<'d>),
    Min(RangeName<'d>),
    Ratio(RangeName<'d>),
    Limit(Option<RangeName<'d>>),
    PodMax(RangeName<'d>),
    PodMin(RangeName<'d>),
    Quota,
    Kept(Cow<'static, str>),
}

impl Adjustment<'_> {
    /// True if a bound or an event is the reason, instead of arithmetic that always applies.
    fn is_external(&self) -> bool {
        match &self.reason {
            AdjustmentReason::Margin(_)
            | AdjustmentReason::ShortHistory { .. }
            | AdjustmentReason::FewPods { .. }
            | AdjustmentReason::Floor => false,
            // This pod uses so much more than all pods together that one request hardly suits them all.
            AdjustmentReason::BusiestPod { used } => *used > self.from.scaled(3, 2),
            _ => true,
        }
    }
}

impl fmt::Display for Adjustment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, reason } = self;
        match reason {
            AdjustmentReason::Margin(margin) => write!(f, "{from} + {margin}"),
            AdjustmentReason::ShortHistory { percent, days: 1 } => write!(f, "+{percent}% for 1 day of history"),
            AdjustmentReason::ShortHistory { percent, days } => write!(f, "+{percent}% for {days} days of history"),
            AdjustmentReason::FewPods { percent, pods: 1 } => write!(f, "+{percent}% for 1 pod"),
            AdjustmentReason::FewPods { percent, pods } => write!(f, "+{percent}% for {pods} pods"),
            AdjustmentReason::BusiestPod { used } => {
                write!(f, "raised from {from} for the busiest pod, which used {used}")
            }
            AdjustmentReason::Growth { a_day } => write!(f, "raised from {from} for a week of growth by {a_day} a day"),
            AdjustmentReason::Peak { used, window } => write!(f, "raised from {from} for the peak of {window}, {used}"),
            AdjustmentReason::OomKill { memory, age } => {
                write!(f, "raised from {from} for an out-of-memory kill at {memory} {} ago", Age(*age))
            }
            AdjustmentReason::Floor => write!(f, "raised from {from} to the floor"),
            AdjustmentReason::Max(range) => write!(f, "lowered from {from} to the max of {range}"),
            AdjustmentReason::Min(range) => write!(f, "raised from {from} to the min of {range}"),
            AdjustmentReason::Ratio(range) => write!(f, "raised from {from} for the limit ratio of {range}"),
            AdjustmentReason::Limit(Some(range)) => write!(f, "lowered from {from} to the default limit of {range}"),
            AdjustmentReason::Limit(None) => write!(f, "lowered from {from} to the limit"),
            AdjustmentReason::PodMax(range) => write!(f, "lowered from {from} for the pod max of {range}"),
            AdjustmentReason::PodMin(range) => write!(f, "raised from {from} for the pod min of {range}"),
            AdjustmentReason::Quota => write!(f, "lowered from {from} to what the quota has left"),
            AdjustmentReason::Kept(why) => write!(f, "kept, because {why}"),
        }
    }
}

pub fn of(basis: &Basis, adjustments: &[Adjustment<'_>]) -> String {
    // Growing a text costs more than writing it.
    let mut text = String::with_capacity(192);
    basis.push(&mut text);
    for adjustment in adjustments {
        push(&mut text, format_args!("; {adjustment}"));
    }
    text
}

/// The part that a person has to know: whose history, and which bounds apply. Samples, margins and rejected histories
/// are for the annotation.
pub fn push_brief(text: &mut String, basis: &Basis, adjustments: &[Adjustment<'_>], rejected: &[RejectedHistory]) {
    basis.push_brief(text);
    for adjustment in adjustments.iter().filter(|adjustment| adjustment.is_external()) {
        push(text, format_args!("; {adjustment}"));
    }
    if is_without_history(rejected) {
        match (basis, rejected.first()) {
            (Basis::WellKnown { .. }, _) => text.extend(["; ", NO_HISTORY]),
            (Basis::History { key, .. }, Some(first)) if first.key != *key => {
                text.extend(["; ", &first.key, " has no history yet"]);
            }
            (Basis::History { .. }, _) => {}
        }
    }
}

const NO_HISTORY: &str = "no usage data yet";

fn is_without_history(rejected: &[RejectedHistory]) -> bool {
    !rejected.is_empty() && rejected.iter().all(RejectedHistory::is_empty)
}

pub fn of_skipped(basis: &Basis, rejected: &[RejectedHistory]) -> String {
    match basis {
        Basis::WellKnown { .. } if is_without_history(rejected) => NO_HISTORY.to_owned(),
        _ => of_rejected(rejected),
    }
}

/// `skipped: 7d nginx:1.27 in this namespace: 12 samples, 60 needed; …`
pub fn of_rejected(rejected: &[RejectedHistory]) -> String {
    if rejected.is_empty() {
        return String::new();
    }
    format!("skipped: {}", rejected.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}
