//! Says where an estimate comes from, in words that fit an annotation and a warning.

use std::fmt::{self, Write};
use std::time::Duration;

use super::step::PassedOver;
use crate::amount::Quantity;
use crate::cluster::usage::read::Age;
use crate::cluster::usage::{Percentile, Window};
use crate::request::RangeName;
use crate::settings::Whose;

/// What an estimate is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    History { percentile: Percentile, window: Window, key: String, whose: Whose, samples: u64, age: Duration },
    WellKnown { source: &'static str },
}

/// `p90 of 7d nginx:1.27 in this namespace, 10080 samples, 5h old`
impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::History { percentile, window, key, whose, samples, age } => {
                write!(f, "p{percentile} of {window} {key} {whose}, {samples} samples, {} old", Age(*age))
            }
            Self::WellKnown { source } => write!(f, "typical for this image: {source}"),
        }
    }
}

/// A change of the amount on its way from the history to the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjustment<'d> {
    pub from: Quantity,
    pub reason: Reason<'d>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason<'d> {
    /// In percent.
    Margin(u64),
    OomKill {
        memory: Quantity,
        age: Duration,
    },
    Floor,
    Max(RangeName<'d>),
    Min(RangeName<'d>),
    Ratio(RangeName<'d>),
    /// And whose default it is, if that is known.
    Limit(Option<RangeName<'d>>),
    PodMax(RangeName<'d>),
    Quota,
}

impl fmt::Display for Adjustment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, reason } = self;
        match reason {
            Reason::Margin(percent) => write!(f, "raised from {from} by a margin of {percent}%"),
            Reason::OomKill { memory, age } => {
                write!(f, "raised from {from} for an out-of-memory kill at {memory} {} ago", Age(*age))
            }
            Reason::Floor => write!(f, "raised from {from} to the floor"),
            Reason::Max(range) => write!(f, "lowered from {from} to the max of {range}"),
            Reason::Min(range) => write!(f, "raised from {from} to the min of {range}"),
            Reason::Ratio(range) => write!(f, "raised from {from} for the limit ratio of {range}"),
            Reason::Limit(Some(range)) => write!(f, "lowered from {from} to the default limit of {range}"),
            Reason::Limit(None) => write!(f, "lowered from {from} to the limit"),
            Reason::PodMax(range) => write!(f, "lowered from {from} for the pod max of {range}"),
            Reason::Quota => write!(f, "lowered from {from} to what the quota has left"),
        }
    }
}

/// Basis and adjustments in one text.
pub fn of(basis: &Basis, adjustments: &[Adjustment<'_>]) -> String {
    // Growing a text costs more than writing it.
    let mut text = String::with_capacity(192);
    // Writing to a string cannot fail.
    let _ = write!(text, "{basis}");
    for adjustment in adjustments {
        let _ = write!(text, "; {adjustment}");
    }
    text
}

/// `skipped: 7d nginx:1.27 in this namespace: 12 samples, 60 needed; …`
pub fn of_passed_over(passed_over: &[PassedOver]) -> String {
    if !passed_over.is_empty() && passed_over.iter().all(PassedOver::is_empty) {
        return "no usage history yet".to_owned();
    }
    if passed_over.is_empty() {
        return String::new();
    }
    format!("skipped: {}", passed_over.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}
