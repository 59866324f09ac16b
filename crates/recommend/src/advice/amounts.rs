//! Amounts in a report: the way from one to another, and how they are written.

use std::fmt;

use headroom_admission::amount::{Family, Quantity};
use headroom_admission::cluster::usage::Resource;
pub use headroom_dry_run::quota_levels::{some_text, text};
use headroom_output::people;
use headroom_usage::sample::quantity;
use serde::{Serialize, Serializer};

pub const CPU_AND_MEMORY: [Resource; 2] = [Resource::Cpu, Resource::Memory];

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

/// True if a change between the amounts is not worth a rollout: a tenth, or a step that is small for the resource.
pub fn is_about(from: &Quantity, to: &Quantity, resource: Resource) -> bool {
    let step = if resource == Resource::Cpu { Quantity::from_milli(5) } else { Quantity::from_bytes(16 << 20) };
    let most = from.scaled(1, 10).max(step);
    from.minus(to) <= most && to.minus(from) <= most
}

/// An amount with its unit.
pub fn short(resource: Resource, amount: &Quantity) -> String {
    people::amount(resource.name(), amount)
}

/// Nanocores or bytes as people write them.
pub fn readable(amount: u64, resource: Resource) -> Quantity {
    let (family, step) = match resource {
        Resource::Cpu => (Family::DecimalSi, Quantity::from_milli(1)),
        _ => (Family::BinarySi, Quantity::from_bytes(1 << 20)),
    };
    quantity(amount, resource).to_family(family).rounded_up_to_multiple_of(&step)
}

/// With its sign, unless it is nothing.
pub fn signed(amount: &Quantity) -> String {
    if amount.is_positive() { format!("+{amount}") } else { amount.to_string() }
}

pub fn signed_text<S: Serializer>(amount: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&signed(amount))
}

pub fn texts<S: Serializer>(values: &[impl fmt::Display], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

pub fn resource_name<S: Serializer>(resource: &Resource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(resource.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_written_with_its_sign_and_percent() {
        let delta = |before: Option<&str>, after: &str| {
            Delta::new(before.map(|text| text.parse().unwrap()).as_ref(), &after.parse().unwrap()).to_string()
        };
        let written = [delta(Some("1"), "155m"), delta(Some("1Gi"), "1536Mi"), delta(None, "1"), delta(Some("1"), "1")];
        assert_eq!(written, ["-845m (-84%)", "+512Mi (+50%)", "+1", "none"]);
    }
}
