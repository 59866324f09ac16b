//! `UsageProfile`s as the collector writes them: the data of one root ([`Share`]), the accuracy of estimates
//! ([`accuracy`]), what is dropped if there is too much data ([`bounds`]), the layout in objects ([`layout`]), the text
//! of an object ([`manifest`]) and the CustomResourceDefinition ([`definition`]).
//!
//! Like the core, this crate does no I/O.

#![deny(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

pub mod accuracy;
pub mod bounds;
pub mod definition;
pub mod layout;
pub mod manifest;
pub mod quorum;
#[cfg(test)]
mod sample;

use std::collections::BTreeMap;
use std::fmt;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{OomKill, Percentile, ProfileName, Repository, Resource, Root, TagKey, Window};
use headroom_core::timestamp::Timestamp;

pub use accuracy::Accuracy;
pub use bounds::Dropped;

/// All history of one root, which may be stored in several objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The namespace of the objects.
    pub namespace: String,
    pub root: Root,
    pub collected_at: Timestamp,
    /// The least number of namespaces that agree on each figure of a pool.
    pub quorum: Option<u64>,
    pub images: Images,
    /// How much was dropped for lack of room, so that users learn why history is missing.
    pub dropped: Dropped,
}

pub type Images = BTreeMap<Repository, ImageHistory>;

/// One Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageProfile {
    pub namespace: String,
    pub name: ProfileName,
    pub collected_at: Timestamp,
    pub quorum: Option<u64>,
    pub summary: Summary,
    pub content: Content,
}

/// The content of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Images(Images),
    /// For a root whose images are in pages: the list of pages.
    Pages(String),
}

/// The columns of `kubectl get usageprofiles`. A root's summary includes its pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub images: usize,
    /// Histories of images in namespaces.
    pub own: usize,
    pub pages: usize,
    pub oom_killed: usize,
    pub dropped: Dropped,
}

/// The usage history of one image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageHistory {
    /// For all namespaces together.
    pub pool: Option<Histories>,
    /// For each namespace.
    pub own: BTreeMap<String, Histories>,
}

/// The usage history of an image in one namespace, or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histories {
    /// Set if it differs from the time when the whole object was collected.
    pub collected_at: Option<Timestamp>,
    /// For all tags together.
    pub all: History,
    pub tags: BTreeMap<TagKey, History>,
    /// In a namespace: for each container of a workload, by
    /// [`workload::key`](headroom_core::cluster::usage::workload::key).
    pub workloads: BTreeMap<String, History>,
    /// In a namespace: the accuracy of its containers' estimates. Shown to users; no decision depends on it.
    pub estimates: Vec<(Resource, Accuracy)>,
}

impl Histories {
    /// Only the history of all tags together.
    pub fn of(all: History) -> Self {
        let (tags, workloads) = (BTreeMap::new(), BTreeMap::new());
        Self { collected_at: None, all, tags, workloads, estimates: Vec::new() }
    }
}

/// The usage history of an image, a tag or a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    pub last_seen: Timestamp,
    /// The number of days of the longest window with any usage.
    pub days: u64,
    /// Newest first.
    pub oom_kills: Vec<OomKill>,
    pub windows: BTreeMap<Window, WindowUsage>,
}

/// Usage within a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowUsage {
    /// Distinct pods behind the figures.
    pub pods: u64,
    /// Distinct namespaces behind the figures.
    pub namespaces: u64,
    pub cpu: Option<Usage>,
    pub memory: Option<Usage>,
    /// Set if the source reports it.
    pub ephemeral_storage: Option<Usage>,
}

impl WindowUsage {
    pub fn of(&self, resource: Resource) -> Option<&Usage> {
        match resource {
            Resource::Cpu => self.cpu.as_ref(),
            Resource::Memory => self.memory.as_ref(),
            Resource::EphemeralStorage => self.ephemeral_storage.as_ref(),
        }
    }
}

/// The usage of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// One for each observed minute of a container.
    pub samples: u64,
    /// None if namespaces do not agree on any figure.
    pub peak: Option<Quantity>,
    pub percentiles: Percentiles,
}

/// `samples=10080 peak=45m 50=12m 60=13m … 99.9=41m`: one string instead of a field for each figure, because readers
/// need only little of a profile, and skipping a string is cheap.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "samples={}", self.samples)?;
        if let Some(peak) = &self.peak {
            write!(f, " peak={peak}")?;
        }
        self.percentiles.iter().try_for_each(|(percentile, amount)| write!(f, " {}={amount}", percentile.name()))
    }
}

/// The amount of each published percentile; none if namespaces do not agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percentiles([Option<Quantity>; Percentile::PUBLISHED.len()]);

impl Percentiles {
    /// Calls `amount` for each published percentile in ascending order.
    pub fn from_fn(mut amount: impl FnMut(Percentile) -> Quantity) -> Self {
        Self::agreed(|percentile| Some(amount(percentile)))
    }

    /// Like [`Self::from_fn`], but amounts may be missing.
    pub fn agreed(amount: impl FnMut(Percentile) -> Option<Quantity>) -> Self {
        Self(Percentile::PUBLISHED.map(amount))
    }

    pub fn get(&self, percentile: Percentile) -> Option<&Quantity> {
        self.iter().find(|(published, _)| *published == percentile).map(|(_, amount)| amount)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Percentile, &Quantity)> {
        Percentile::PUBLISHED
            .into_iter()
            .zip(&self.0)
            .filter_map(|(percentile, amount)| Some((percentile, amount.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::cluster::usage::find_in_usage;

    #[test]
    fn each_percentile_keeps_its_amount() {
        let percentiles = Percentiles::from_fn(|percentile| Quantity::from_milli(percentile.permille().into()));
        for percentile in Percentile::PUBLISHED {
            assert_eq!(percentiles.get(percentile), Some(&Quantity::from_milli(percentile.permille().into())));
        }
    }

    #[test]
    fn figures_of_a_usage_are_found_in_its_text_by_name() {
        let percentiles = Percentiles::from_fn(|percentile| Quantity::from_milli(percentile.permille().into()));
        let text = Usage { samples: 120, peak: Some(Quantity::from_units(2)), percentiles }.to_string();
        assert_eq!(find_in_usage(&text, "samples"), Some("120"));
        assert_eq!(find_in_usage(&text, "peak"), Some("2"));
        for percentile in Percentile::PUBLISHED {
            let amount = Quantity::from_milli(percentile.permille().into()).to_string();
            assert_eq!(find_in_usage(&text, percentile.name()), Some(amount.as_str()));
        }
        assert_eq!(find_in_usage("99.9=1 9=2 x90=3 90", "90"), None);
        assert_eq!(find_in_usage("90=", "90"), Some(""));
        assert_eq!(find_in_usage("", "90"), None);
    }
}
