//! Amounts in a report: the way from one to another, and how they are written.

use std::fmt;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use serde::{Serialize, Serializer};

/// The way from one amount to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delta {
    #[serde(serialize_with = "signed_text")]
    pub amount: Quantity,
    /// Percent of the first amount; none if that is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
}

/// `-845m (-84%)`
impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.percent {
            _ if self.amount.is_zero() => f.write_str("none"),
            Some(percent) => write!(f, "{} ({percent:+}%)", signed(&self.amount)),
            None => f.write_str(&signed(&self.amount)),
        }
    }
}

impl Delta {
    pub fn new(before: Option<&Quantity>, after: &Quantity) -> Self {
        let Some(before) = before else { return Self { amount: after.clone(), percent: None } };
        Self { amount: after.minus(before), percent: percent_more(before, after) }
    }
}

/// By how many percent of the first amount the second is more; none of nothing.
pub fn percent_more(first: &Quantity, second: &Quantity) -> Option<i64> {
    match (i128::from(first.milli_value()), i128::from(second.milli_value())) {
        (0, _) => None,
        (first, second) => i64::try_from((second - first) * 100 / first).ok(),
    }
}

/// With its sign, unless it is nothing.
pub fn signed(amount: &Quantity) -> String {
    if amount.is_positive() { format!("+{amount}") } else { amount.to_string() }
}

pub fn text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub fn some_text<S: Serializer>(value: &Option<impl fmt::Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

pub fn signed_text<S: Serializer>(amount: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&signed(amount))
}

pub fn resource_name<S: Serializer>(resource: &Resource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(resource.name())
}
