//! The accuracy of estimates in a namespace: the amounts that were estimated for its containers, and their usage.

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use headroom_core::json::{Malformed, Node};
use headroom_report::{Page, Table};
use headroom_rightsize::distribution::shown;
use headroom_usage_profile::Accuracy;
use headroom_usage_profile::accuracy::Off;
use serde::Serialize;

use super::section;

/// Estimates and usage of one image and resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimates {
    image: String,
    resource: &'static str,
    containers: u64,
    /// The containers that used more than estimated for more than 5% of their time.
    above: u64,
    estimated: String,
    used: String,
    /// `too low` or `too high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    off: Option<&'static str>,
    #[serde(skip)]
    of: (Resource, Accuracy),
}

/// Reads the accuracy for an image in a namespace from a profile.
pub fn read(image: &str, histories: Node<'_>) -> Result<Vec<Estimates>, Malformed> {
    let mut all = Vec::new();
    for resource in Resource::ALL {
        let Some(node) = histories.at(&["estimates", resource.name()])? else { continue };
        let accuracy = serde_json::from_str::<Accuracy>(node.text());
        let accuracy = accuracy.ok().filter(|accuracy| accuracy.containers >= accuracy.above.max(1));
        let accuracy = accuracy.ok_or_else(|| node.expected("the accuracy of estimates"))?;
        all.push(Estimates::new(image.to_owned(), resource, accuracy));
    }
    Ok(all)
}

impl Estimates {
    fn new(image: String, resource: Resource, accuracy: Accuracy) -> Self {
        let off = accuracy.off(resource).map(|off| match off {
            Off::TooLow => "too low",
            Off::TooHigh => "too high",
        });
        Self {
            image,
            resource: resource.name(),
            containers: accuracy.containers,
            above: accuracy.above,
            estimated: accuracy.estimated.to_string(),
            used: accuracy.used.to_string(),
            off,
            of: (resource, accuracy),
        }
    }

    /// The sort key.
    pub fn sort_key(&self) -> (&str, &str) {
        (&self.image, self.resource)
    }

    fn cells(&self) -> [String; 7] {
        let (resource, Accuracy { containers, above, estimated, used }) = &self.of;
        let slack = match estimated >= used {
            true => shown(&estimated.minus(used), *resource),
            false => format!("-{}", shown(&used.minus(estimated), *resource)),
        };
        let (estimated, used) = (shown(estimated, *resource), shown(used, *resource));
        let (containers, above) = (containers.to_string(), above.to_string());
        [self.image.clone(), self.resource.to_owned(), containers, above, estimated, used, slack]
    }

    fn hint(&self) -> Option<String> {
        let Self { image, resource, containers, above, off, .. } = self;
        let found = match self.of.1.off(self.of.0)? {
            Off::TooLow => format!("{above} of {containers} containers used more for over 5% of their time"),
            Off::TooHigh => "less than a tenth was used".to_owned(),
        };
        Some(format!("{image}: {resource} was estimated {}: {found}", off.unwrap_or_default()))
    }
}

/// The sums of all images, if there are several.
fn totals(all: &[Estimates]) -> Vec<Estimates> {
    let total = |resource| {
        let of_it: Vec<&Accuracy> = all.iter().filter(|one| one.of.0 == resource).map(|one| &one.of.1).collect();
        let sum = |amount: fn(&Accuracy) -> &Quantity| {
            of_it.iter().fold(Quantity::ZERO, |sum, accuracy| sum.plus(amount(accuracy)))
        };
        let count =
            |count: fn(&Accuracy) -> u64| of_it.iter().map(|accuracy| count(accuracy)).fold(0, u64::saturating_add);
        (of_it.len() > 1).then(|| {
            let (containers, above) = (count(|of| of.containers), count(|of| of.above));
            let (estimated, used) = (sum(|of| &of.estimated), sum(|of| &of.used));
            Estimates::new("total".to_owned(), resource, Accuracy { containers, above, estimated, used })
        })
    };
    Resource::ALL.into_iter().filter_map(total).collect()
}

/// A table of all images, and what is off.
pub fn describe(page: &mut Page, all: &[Estimates]) {
    if all.is_empty() {
        return;
    }
    let mut table = Table::new(&["IMAGE", "RESOURCE", "CONTAINERS", "ABOVE", "ESTIMATED", "USED", "SLACK"]);
    all.iter().chain(&totals(all)).for_each(|one| table.row(one.cells()));
    section(page, "Estimates against usage (containers seen in the last 7 days; USED is their average):", table);
    all.iter().filter_map(Estimates::hint).for_each(|hint| writeln!(page, "{hint}"));
}
