//! Who set a value.

use std::borrow::Cow;
use std::fmt;

use crate::amount::Quantity;

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin<'d> {
    /// The manifest, as far as anyone can tell. Never changed.
    Author,
    /// What the API server makes of other values of the author: a request of the same amount as the limit.
    AuthorsLimit,
    /// The API server's own LimitRanger, before us. May be replaced.
    LimitRanger,
    /// We ourselves, when we judged this object before; with the reason we gave then.
    Earlier(Cow<'d, str>),
    /// What the image has used before: which history, and which were skipped. Without the latter in `{:#}`.
    Estimate(Box<EstimateOrigin>),
    /// The default of a LimitRange or of a rule of the settings; its name.
    Default(RangeName<'d>),
    /// A default limit below the request, raised to it; and whose default it was, where that is known.
    Repaired(Box<Repair<'d>>),
}

/// The history behind an estimate, and those that were skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimateOrigin {
    pub basis: String,
    pub passed_over: String,
}

/// What a repaired value was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair<'d> {
    pub from: Quantity,
    pub range: Option<RangeName<'d>>,
}

impl Origin<'_> {
    /// Whether the value is new: decided now, and to be written into the object.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::Estimate(_) | Self::Default(_) | Self::Repaired(_))
    }

    /// Whether the value is an author's, directly or by what the API server derives from it.
    pub fn is_authored(&self) -> bool {
        matches!(self, Self::Author | Self::AuthorsLimit)
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Author => f.write_str("set in manifest"),
            Self::AuthorsLimit => f.write_str("copied from the limit in the manifest"),
            Self::LimitRanger => f.write_str("set by the API server's LimitRanger"),
            Self::Earlier(reason) => f.write_str(reason),
            Self::Estimate(origin) => {
                let EstimateOrigin { basis, passed_over } = &**origin;
                f.write_str(basis)?;
                if passed_over.is_empty() || f.alternate() { Ok(()) } else { write!(f, "; {passed_over}") }
            }
            Self::Default(range) => write!(f, "default of {range}"),
            Self::Repaired(repair) => match &**repair {
                Repair { from, range: Some(range) } => {
                    write!(f, "raised to the request from {from}, the default of {range}")
                }
                Repair { from, range: None } => write!(f, "raised to the request from the default {from}"),
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
