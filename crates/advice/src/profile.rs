//! `UsageProfile`s as the companion writes them: the data of one root ([`Share`]), how good its estimates were ([`accuracy`]), what is dropped when there is too much
//! of it ([`bounds`]), how it is laid out in objects ([`layout`]), their text ([`manifest`]) and their schema in the
//! cluster ([`definition`]).

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

/// All history that begins at one root, whatever objects it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// That the objects stand in.
    pub namespace: String,
    pub root: Root,
    pub collected_at: Timestamp,
    /// How many namespaces agree on each figure of a pool, at least.
    pub quorum: Option<u64>,
    pub images: Images,
    /// What found no room, so that a person who looks for it learns why it is not there.
    pub dropped: Dropped,
}

pub type Images = BTreeMap<Repository, ImageHistory>;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageProfile {
    pub namespace: String,
    pub name: ProfileName,
    pub collected_at: Timestamp,
    pub quorum: Option<u64>,
    pub summary: Summary,
    pub content: Content,
}

/// What an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Images(Images),
    /// Of a root whose images are in pages: which there are.
    Pages(String),
}

/// What `kubectl get usageprofiles` shows: of a root, all that begins at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub images: usize,
    /// Images in namespaces.
    pub own: usize,
    pub pages: usize,
    pub oom_killed: usize,
    pub dropped: Dropped,
}

/// What one image used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageHistory {
    /// In all namespaces together.
    pub pool: Option<Histories>,
    /// In each namespace.
    pub own: BTreeMap<String, Histories>,
}

/// What an image used in a namespace, or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histories {
    /// If that is not when the whole object was collected.
    pub collected_at: Option<Timestamp>,
    /// All tags together.
    pub all: History,
    pub tags: BTreeMap<TagKey, History>,
    /// Of a namespace: that of each container of a workload, by [`workload::key`](headroom_core::cluster::usage::workload::key).
    pub workloads: BTreeMap<String, History>,
    /// Of a namespace: how good the estimates of its containers were, for people. No decision is made by it.
    pub estimates: Vec<(Resource, Accuracy)>,
}

impl Histories {
    /// With the history of all tags together and nothing else.
    pub fn of(all: History) -> Self {
        let (tags, workloads) = (BTreeMap::new(), BTreeMap::new());
        Self { collected_at: None, all, tags, workloads, estimates: Vec::new() }
    }
}

/// What was observed of an image, or of one tag of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    pub last_seen: Timestamp,
    /// On how many days of the longest window anything was observed.
    pub days: u64,
    /// Newest first.
    pub oom_kills: Vec<OomKill>,
    pub windows: BTreeMap<Window, WindowUsage>,
}

/// What was observed within a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowUsage {
    /// Distinct pods behind the figures.
    pub pods: u64,
    /// Distinct namespaces behind the figures.
    pub namespaces: u64,
    pub cpu: Option<Usage>,
    pub memory: Option<Usage>,
    /// Where the source knows it.
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

/// How much of one resource a container used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// One for each minute and container observed.
    pub samples: u64,
    /// None if namespaces do not agree on any figure.
    pub peak: Option<Quantity>,
    pub percentiles: Percentiles,
}

/// `samples=10080 peak=45m 50=12m 60=13m … 99.9=41m`: one text and not a field for each, because a reader passes over a
/// text at little cost, and most of what it is handed it does not look at.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "samples={}", self.samples)?;
        if let Some(peak) = &self.peak {
            write!(f, " peak={peak}")?;
        }
        self.percentiles.iter().try_for_each(|(percentile, amount)| write!(f, " {}={amount}", percentile.name()))
    }
}

/// One amount for each published percentile, or none where namespaces do not agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percentiles([Option<Quantity>; Percentile::PUBLISHED.len()]);

impl Percentiles {
    /// Asks for each published percentile in rising order.
    pub fn from_fn(mut amount: impl FnMut(Percentile) -> Quantity) -> Self {
        Self::agreed(|percentile| Some(amount(percentile)))
    }

    /// Likewise, where some may be missing.
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
    fn what_a_usage_says_is_found_in_its_text_by_name() {
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
