//! How much was enough for how many samples, as people and pictures want it.
//!
//! The figures come from a UsageProfile as it is; for people they are rounded up to what they would write themselves.

use std::collections::BTreeMap;

use headroom_core::amount::{Family, Quantity};
use headroom_core::cluster::usage::{Percentile, Resource};
use serde::Serialize;

use crate::draw::{self, Charset, Line};

/// What was observed of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Distribution {
    pub samples: u64,
    /// Amount by percentile, exact.
    pub percentiles: BTreeMap<String, String>,
    pub peak: String,
    /// In rising order, the peak last.
    #[serde(skip)]
    points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    /// `p90`, `peak`
    label: String,
    permille: u16,
    shown: String,
    value: u64,
}

const PLOT_COLUMNS: usize = 40;
/// Every published percentile would be more lines than they say.
const PLOTTED: [&str; 7] = ["p50", "p75", "p90", "p95", "p99", "p99.9", "peak"];

impl Distribution {
    pub fn new(resource: Resource, samples: u64, percentiles: Vec<(Percentile, Quantity)>, peak: &Quantity) -> Self {
        let point = |label, permille, amount: &Quantity| Point {
            label,
            permille,
            shown: shown(amount, resource),
            value: thousandths(amount),
        };
        let points = percentiles.iter().map(|(at, amount)| point(at.to_string(), at.permille(), amount));
        Self {
            samples,
            points: points.chain([point("peak".to_owned(), 1000, peak)]).collect(),
            percentiles: percentiles.iter().map(|(at, amount)| (at.name().to_owned(), amount.to_string())).collect(),
            peak: peak.to_string(),
        }
    }

    /// The amount at `p90` or `peak`, as people write it.
    pub fn shown_at(&self, label: &str) -> &str {
        self.points.iter().find(|point| point.label == label).map_or("-", |point| &point.shown)
    }

    /// One small column for each percentile, and one for the peak.
    pub fn columns(&self, charset: Charset) -> String {
        let values: Vec<u64> = self.points.iter().map(|point| point.value).collect();
        draw::columns(&values, charset)
    }

    /// A bar for each percentile that matters, with a note at the one of that label.
    pub fn plot(&self, charset: Charset, noted: &str, note: &str) -> String {
        let is_plotted = |point: &&Point| PLOTTED.contains(&point.label.as_str()) || point.label == noted;
        let line = |point: &Point| Line {
            label: point.label.clone(),
            amount: point.shown.clone(),
            value: point.value,
            note: if point.label == noted { note.to_owned() } else { String::new() },
        };
        let lines: Vec<Line> = self.points.iter().filter(is_plotted).map(line).collect();
        draw::plot(&lines, PLOT_COLUMNS, charset)
    }

    /// Per mille of the samples, and what was enough for them.
    pub fn curve(&self) -> Vec<(u16, u64)> {
        self.points.iter().map(|point| (point.permille, point.value)).collect()
    }
}

/// Up to thousandths of a core and, from one on, to whole mebibytes.
pub fn shown(amount: &Quantity, resource: Resource) -> String {
    let mebibyte = Quantity::from_bytes(1 << 20);
    match resource {
        Resource::Cpu => amount.to_family(Family::DecimalSi).rounded_up_to_milli().to_string(),
        Resource::Memory | Resource::EphemeralStorage if *amount >= mebibyte => {
            amount.to_family(Family::BinarySi).rounded_up_to_multiple_of(&mebibyte).to_string()
        }
        Resource::Memory | Resource::EphemeralStorage => amount.to_string(),
    }
}

/// For the scale of a drawing.
pub fn thousandths(amount: &Quantity) -> u64 {
    u64::try_from(amount.milli_value()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_as_people_write_them() {
        let check = |text: &str, resource, expected: &str| {
            assert_eq!(shown(&text.parse().unwrap(), resource), expected, "{text}");
        };
        check("90702u", Resource::Cpu, "91m");
        check("1u", Resource::Cpu, "1m");
        check("1500m", Resource::Cpu, "1500m");
        check("209107612", Resource::Memory, "200Mi");
        check("1Gi", Resource::Memory, "1Gi");
        check("700", Resource::Memory, "700");
    }

    #[test]
    fn a_plot_shows_the_percentiles_that_matter_and_the_one_that_is_noted() {
        let percentiles: Vec<(Percentile, Quantity)> =
            Percentile::PUBLISHED.into_iter().map(|at| (at, Quantity::from_milli(i64::from(at.permille())))).collect();
        let distribution = Distribution::new(Resource::Cpu, 7, percentiles, &Quantity::from_units(2));
        let plot = distribution.plot(Charset::Ascii, "p80", "recommended: 1");
        let labels: Vec<&str> = plot.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(labels, ["p50", "p75", "p80", "p90", "p95", "p99", "p99.9", "peak"]);
        assert!(plot.contains("  p80    800m |################ recommended: 1\n"), "{plot}");
        assert_eq!(distribution.columns(Charset::Ascii), ":::--------#");
        assert_eq!((distribution.shown_at("p90"), distribution.shown_at("peak")), ("900m", "2"));
    }
}
