//! The distribution of usage: percentiles and the peak, for tables and drawings.
//!
//! The figures come from a UsageProfile as it is; for people they are rounded up to what they would write themselves.

use std::collections::BTreeMap;

use headroom_admission::amount::{Family, Quantity};
use headroom_admission::cluster::usage::{Percentile, Resource};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use headroom_output::draw::{self, Charset, Line};
use headroom_usage::sample::quantity;
use headroom_usage::sketch::Sketch;

/// The observed usage of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    pub samples: u64,
    /// The history that it is from, if it is one: `nginx:1.27 in 7d`.
    pub of: Option<String>,
    resource: Resource,
    /// The amounts at [`Percentile::PUBLISHED`] that are known. A large cluster has tens of thousands of these.
    percentiles: Box<[Option<Quantity>; Percentile::PUBLISHED.len()]>,
    peak: Quantity,
}

const PLOT_COLUMNS: usize = 40;
/// Every published percentile would be more lines than they say.
const PLOTTED: [&str; 7] = ["p50", "p75", "p90", "p95", "p99", "p99.9", "peak"];

impl Distribution {
    pub fn new(resource: Resource, samples: u64, percentiles: Vec<(Percentile, Quantity)>, peak: Quantity) -> Self {
        let of = |at: Percentile| percentiles.iter().find(|(known, _)| *known == at).map(|(_, amount)| amount.clone());
        Self { samples, of: None, resource, percentiles: Box::new(Percentile::PUBLISHED.map(of)), peak }
    }

    /// None if nothing was observed.
    pub fn of_sketch(sketch: &Sketch, resource: Resource) -> Option<Self> {
        if sketch.is_empty() {
            return None;
        }
        let amounts = sketch.percentiles(Percentile::PUBLISHED.map(Percentile::permille));
        let amounts = Percentile::PUBLISHED.into_iter().zip(amounts.map(|amount| quantity(amount, resource)));
        let samples = sketch.seconds().div_ceil(60);
        Some(Self::new(resource, samples, amounts.collect(), quantity(sketch.peak(), resource)))
    }

    /// `800 samples of nginx:1.27 in 7d`
    pub fn heading(&self) -> String {
        let of = self.of.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
        format!("{} samples{of}", self.samples)
    }

    pub fn peak(&self) -> &Quantity {
        &self.peak
    }

    /// A percentile; none if namespaces do not agree on it.
    pub fn percentile(&self, permille: u16) -> Option<&Quantity> {
        self.known().find(|(percentile, _)| percentile.permille() == permille).map(|(_, amount)| amount)
    }

    fn known(&self) -> impl Iterator<Item = (Percentile, &Quantity)> {
        Percentile::PUBLISHED
            .into_iter()
            .zip(&*self.percentiles)
            .filter_map(|(at, amount)| Some((at, amount.as_ref()?)))
    }

    /// The mean and the standard deviation, from above: between two percentiles the upper one counts.
    pub fn mean_and_deviation(&self) -> [Quantity; 2] {
        let (mut sum, mut squares, mut before) = (0_u128, 0_u128, 0);
        let known = self.known().map(|(at, amount)| (at.permille(), amount));
        for (at, amount) in known.chain([(1_000, &self.peak)]) {
            let (part, amount) = (u128::from(at.saturating_sub(before)), u128::from(thousandths(amount)));
            sum += part * amount;
            squares += part * amount * amount;
            before = before.max(at);
        }
        let mean = sum / 1_000;
        [mean, (squares / 1_000).saturating_sub(mean * mean).isqrt()]
            .map(|milli| Quantity::from_milli(i64::try_from(milli).unwrap_or(i64::MAX)).to_family(self.peak.family()))
    }

    /// In rising order, the peak last.
    fn lines(&self) -> impl Iterator<Item = Line> {
        let line = |label, amount: &Quantity| {
            let (value, amount) = (thousandths(amount), shown(amount, self.resource));
            Line { label, amount, value, note: String::new() }
        };
        let lines = self.known().map(move |(at, amount)| line(at.to_string(), amount));
        lines.chain([line("peak".to_owned(), &self.peak)])
    }

    /// The amounts at some labels, in thousandths.
    pub fn at(&self, labels: &[&'static str]) -> impl Iterator<Item = (&'static str, u64)> {
        self.lines().filter_map(|line| {
            let label = labels.iter().find(|label| **label == line.label)?;
            Some((*label, line.value))
        })
    }

    /// One small column for each percentile, and one for the peak.
    pub fn columns(&self, charset: Charset) -> String {
        let values: Vec<u64> = self.lines().map(|line| line.value).collect();
        draw::columns(&values, charset)
    }

    /// A bar for each percentile that matters, with a note at the one of that label.
    pub fn plot(&self, charset: Charset, noted: &str, note: &str) -> String {
        let is_plotted = |line: &Line| PLOTTED.contains(&line.label.as_str()) || line.label == noted;
        let mut lines: Vec<Line> = self.lines().filter(is_plotted).collect();
        lines.iter_mut().filter(|line| line.label == noted).for_each(|line| note.clone_into(&mut line.note));
        draw::plot(&lines, PLOT_COLUMNS, charset)
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let amounts = self.known().map(|(at, amount)| (at.name(), amount.to_string()));
        let mut distribution = serializer.serialize_struct("Distribution", 3)?;
        distribution.serialize_field("samples", &self.samples)?;
        distribution.serialize_field("percentiles", &amounts.collect::<BTreeMap<_, _>>())?;
        distribution.serialize_field("peak", &self.peak.to_string())?;
        distribution.end()
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
        let distribution = Distribution::new(Resource::Cpu, 7, percentiles, Quantity::from_units(2));
        let plot = distribution.plot(Charset::Ascii, "p80", "recommended: 1");
        let labels: Vec<&str> = plot.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(labels, ["p50", "p75", "p80", "p90", "p95", "p99", "p99.9", "peak"]);
        assert!(plot.contains("  p80    800m |################ recommended: 1\n"), "{plot}");
        assert_eq!(distribution.columns(Charset::Ascii), ":::--------#");
    }
}
