//! The origin of a value: who set it, and why.

use std::borrow::Cow;
use std::fmt;

use crate::amount::Quantity;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin<'d> {
    /// The manifest, or whatever cannot be distinguished from it. Never changed.
    Author,
    /// Derived by the API server from the author's values: a request equal to the limit.
    AuthorsLimit,
    /// The API server's own LimitRanger, before our webhook was called. May be replaced.
    LimitRanger,
    /// This policy, in an earlier evaluation of the object; with the reason given then.
    Earlier(Cow<'d, str>),
    /// The image's usage history: the history used, and the ones skipped (omitted in `{:#}`).
    Estimate(Box<EstimateOrigin>),
    /// The default of a LimitRange or of a rule of the settings; its name.
    Default(RangeName<'d>),
    /// A default limit below the request, raised to the request; and the range of the default, where it is known.
    Repaired(Box<Repair<'d>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimateOrigin {
    pub basis: String,
    pub skipped: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair<'d> {
    pub from: Quantity,
    pub range: Option<RangeName<'d>>,
}

impl ValueOrigin<'_> {
    /// True if the value is new: decided now, and to be written into the object.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::Estimate(_) | Self::Default(_) | Self::Repaired(_))
    }

    /// True if the value is the author's, or derived from the author's by the API server.
    pub fn is_authored(&self) -> bool {
        matches!(self, Self::Author | Self::AuthorsLimit)
    }
}

const OF_DEFAULT: &str = "default of ";
const OF_REPAIR: &str = "raised to the request from ";
/// The reason of a value whose own had no room in the annotation.
pub const OF_EARLIER: &str = "set earlier";

pub fn is_of_default(reason: &str) -> bool {
    reason.starts_with(OF_DEFAULT)
}

pub fn is_of_estimate(reason: &str) -> bool {
    !is_of_default(reason) && !reason.starts_with(OF_REPAIR) && reason != OF_EARLIER
}

impl fmt::Display for ValueOrigin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Author => f.write_str("set in manifest"),
            Self::AuthorsLimit => f.write_str("copied from the limit in the manifest"),
            Self::LimitRanger => f.write_str("set by the API server's LimitRanger"),
            Self::Earlier(reason) => f.write_str(reason),
            Self::Estimate(origin) => {
                let EstimateOrigin { basis, skipped } = &**origin;
                f.write_str(basis)?;
                if skipped.is_empty() || f.alternate() { Ok(()) } else { write!(f, "; {skipped}") }
            }
            Self::Default(range) => write!(f, "{OF_DEFAULT}{range}"),
            Self::Repaired(repair) => match &**repair {
                Repair { from, range: Some(range) } => {
                    write!(f, "{OF_REPAIR}{from}, the {OF_DEFAULT}{range}")
                }
                Repair { from, range: None } => write!(f, "{OF_REPAIR}the default {from}"),
            },
        }
    }
}

/// A LimitRange of the cluster or a rule of the settings, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeName<'d> {
    LimitRange(Cow<'d, str>),
    Rule(Cow<'d, str>),
}

impl fmt::Display for RangeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitRange(name) => write!(f, "LimitRange {name}"),
            Self::Rule(name) => write!(f, "rule {name}"),
        }
    }
}
