//! Reads what a profile says of one image, as the policy gets it: from the host, masked, and written by somebody else.
//!
//! Nothing is believed for being there. What is of another format, too old, of another image or of an impossible
//! amount is [`Unusable`], and says why; what that means for an estimate is left to who asks. Only what is asked for is
//! looked at, so a fault elsewhere in the object harms nobody.

use std::fmt;
use std::time::Duration;

use super::address::{Halves, Place, ProfileName, TagKey, page_of};
use super::{FORMAT, OomKill, Percentile, Resource, Window, find_in_usage};
use crate::amount::{Quantity, read_quantity};
use crate::json::{Malformed, Node};
use crate::timestamp::Timestamp;

/// A clock that goes wrong by less is forgiven.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);
/// More than this no container uses: ten thousand cores, a pebibyte of memory or storage.
const MOST_CPU: Quantity = Quantity::from_units(10_000);
const MOST_BYTES: Quantity = Quantity::from_units(1 << 50);
/// Percentiles come from sketches and may lie a little beside the truth; the peak is exact.
const SKETCH_ERROR_PERCENT: u64 = 5;

/// Why a history is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    Malformed(Malformed),
    OtherFormat { found: String },
    TooOld { collected_at: Timestamp, most: Duration },
    FromTheFuture { collected_at: Timestamp },
    NoPages { path: String },
    Impossible { path: String, found: String },
}

impl From<Malformed> for Unusable {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => write!(f, "{malformed}"),
            Self::OtherFormat { found } => write!(f, "spec.header.format: expected {FORMAT}, found `{found}`"),
            Self::TooOld { collected_at, most } => {
                write!(f, "collected at {collected_at}, more than {} ago", Age(*most))
            }
            Self::FromTheFuture { collected_at } => {
                write!(f, "collected at {collected_at}: timestamp is in the future")
            }
            Self::NoPages { path } => write!(f, "{path}: not a list of pages"),
            Self::Impossible { path, found } => write!(f, "{path}: no container uses `{found}`"),
        }
    }
}

/// A span of time as a person says it: `5h`, `3d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age(pub Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() / 3_600 {
            0 => write!(f, "{}min", self.0.as_secs() / 60),
            hours @ 1..48 => write!(f, "{hours}h"),
            hours => write!(f, "{}d", hours / 24),
        }
    }
}

/// A profile of a format that we read.
#[derive(Debug, Clone, Copy)]
pub struct Profile<'d> {
    /// None in a root that nothing was collected for yet.
    header: Option<Header<'d>>,
    images: Option<Node<'d>>,
}

/// What a profile says of itself.
#[derive(Debug, Clone, Copy)]
struct Header<'d> {
    collected_at: Timestamp,
    quorum: u64,
    /// Which pages there are; none in a root that holds its entries itself.
    pages: Option<Node<'d>>,
}

impl<'d> Profile<'d> {
    /// Reads what a profile object says of itself.
    pub fn read(object: Node<'d>) -> Result<Self, Unusable> {
        let Some(spec) = object.get("spec")? else { return Ok(Self { header: None, images: None }) };
        let header = required(spec, "header")?;
        let format = required(header, "format")?;
        if format.integer() != Ok(i64::from(FORMAT)) {
            return Err(Unusable::OtherFormat { found: format.text().chars().take(40).collect() });
        }
        let collected_at = moment(required(header, "collectedAt")?)?;
        let quorum = if header.get("quorum")?.is_some() { count(header, "quorum")? } else { 0 };
        let header = Header { collected_at, quorum, pages: header.get("pages")? };
        Ok(Self { header: Some(header), images: spec.get("images")? })
    }

    /// The images, by their keys.
    pub fn images(self) -> Option<Node<'d>> {
        self.images
    }

    /// What it holds of the image with this place, and of that what is of a namespace.
    pub fn entry(self, place: &Place, namespace: &str) -> Result<Entry<'d>, Unusable> {
        let node = self.images.map(|images| images.get(&place.key)).transpose()?.flatten();
        let part = |name| node.map_or(Ok(None), |node| node.get(name));
        let own = part("own")?.map_or(Ok(None), |own| own.get(namespace))?;
        let Some(Header { collected_at, quorum, .. }) = self.header else { return Ok(Entry::default()) };
        let own = Histories { node: own, collected_at, quorum }.of_its_own_age()?;
        let pool = Histories { node: part("pool")?, collected_at, quorum };
        Ok(Entry { own: Some(own), pool: Some(pool) })
    }

    /// The page of this root that holds the entry instead.
    pub fn page(self, place: &Place, namespace: &str) -> Result<Option<ProfileName>, Unusable> {
        let Some(pages) = self.header.and_then(|header| header.pages) else { return Ok(None) };
        let path = page_of(pages.plain_str()?, Halves::of(place, namespace));
        let path = path.map_err(|_| Unusable::NoPages { path: pages.path() })?;
        Ok(path.map(|path| ProfileName { root: place.root(), path }))
    }
}

/// What a profile holds of one image: none where nothing was collected.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry<'d> {
    /// That of the namespace.
    pub own: Option<Histories<'d>>,
    /// That of all namespaces together.
    pub pool: Option<Histories<'d>>,
}

/// The histories of an image in one namespace, or in all together.
#[derive(Debug, Clone, Copy)]
pub struct Histories<'d> {
    /// None if nothing is known of the image.
    node: Option<Node<'d>>,
    pub collected_at: Timestamp,
    /// How many namespaces agree on each figure of a pool, at least.
    pub quorum: u64,
}

impl<'d> Histories<'d> {
    /// A namespace that could not be read lately is behind the others of its object.
    fn of_its_own_age(mut self) -> Result<Self, Unusable> {
        if let Some(all) = self.field("all")?
            && let Some(collected_at) = all.get("collectedAt")?
        {
            self.collected_at = moment(collected_at)?.min(self.collected_at);
        }
        Ok(self)
    }

    /// How long ago they were collected, if that is no longer than `most`.
    pub fn age(&self, now: Timestamp, most: Duration) -> Result<Duration, Unusable> {
        let collected_at = self.collected_at;
        match now.since(collected_at) {
            Some(age) if age > most => Err(Unusable::TooOld { collected_at, most }),
            Some(age) => Ok(age),
            None if collected_at.since(now).is_some_and(|ahead| ahead > CLOCK_SKEW) => {
                Err(Unusable::FromTheFuture { collected_at })
            }
            None => Ok(Duration::ZERO),
        }
    }

    /// The history of all tags together.
    pub fn all(&self) -> Result<Option<HistoryNode<'d>>, Unusable> {
        Ok(self.field("all")?.map(HistoryNode))
    }

    pub fn tag(&self, key: &TagKey) -> Result<Option<HistoryNode<'d>>, Unusable> {
        self.part("tags", key.as_str())
    }

    /// That of a workload's container.
    pub fn workload(&self, key: &str) -> Result<Option<HistoryNode<'d>>, Unusable> {
        self.part("workloads", key)
    }

    /// A part whose history is that of the whole is only named there. No tag has a slash, and each workload's key has one.
    fn part(&self, parts: &str, key: &str) -> Result<Option<HistoryNode<'d>>, Unusable> {
        if let Some(all) = self.field("all")?
            && let Some(same) = all.get("same")?
            && same.plain_str()?.split(' ').any(|same| same == key)
        {
            return Ok(Some(HistoryNode(all)));
        }
        let parts = self.field(parts)?;
        Ok(parts.map(|parts| parts.get(key)).transpose()?.flatten().map(HistoryNode))
    }

    fn field(&self, name: &str) -> Result<Option<Node<'d>>, Malformed> {
        self.node.map_or(Ok(None), |node| node.get(name))
    }
}

/// The history of an image or of one tag of it.
#[derive(Debug, Clone, Copy)]
pub struct HistoryNode<'d>(Node<'d>);

impl<'d> HistoryNode<'d> {
    /// What was observed of a resource within a window.
    pub fn observed(self, window: Window, resource: Resource) -> Result<Option<Observed<'d>>, Unusable> {
        let Some(windows) = self.0.get("windows")? else { return Ok(None) };
        let Some(window) = windows.get(&window.name())? else { return Ok(None) };
        let Some(usage) = window.get(resource.name())? else { return Ok(None) };
        let mut observed = Observed { window, usage, text: usage.plain_str()?, resource, samples: 0 };
        let samples = observed.find("samples")?;
        observed.samples = samples.parse().map_err(|_| observed.impossible("samples", samples))?;
        Ok(Some(observed))
    }

    /// On how many days anything was observed; none if the profile does not say.
    pub fn days(self) -> Result<Option<u64>, Unusable> {
        if self.0.get("days")?.is_none() { Ok(None) } else { count(self.0, "days").map(Some) }
    }

    /// The out-of-memory kills up to the collection.
    pub fn oom_kills(self, collected_at: Timestamp) -> Result<Vec<OomKill>, Unusable> {
        let mut kills = Vec::new();
        for kill in self.0.list("oomKills")?.take(super::MOST_OOM_KILLS) {
            let at = moment(required(kill, "at")?)?;
            let node = required(kill, "memory")?;
            let memory = read_quantity(node)?;
            if !is_possible(&memory, Resource::Memory) {
                return Err(impossible(node));
            }
            if at <= collected_at {
                kills.push(OomKill { at, memory });
            }
        }
        Ok(kills)
    }
}

/// What was observed of one resource.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'d> {
    window: Node<'d>,
    usage: Node<'d>,
    /// What `usage` says.
    text: &'d str,
    pub resource: Resource,
    pub samples: u64,
}

impl<'d> Observed<'d> {
    /// Whether there is this figure: in a pool there is none that namespaces do not agree on.
    pub fn has(&self, percentile: Percentile) -> bool {
        find_in_usage(self.text, percentile.name()).is_some()
    }

    /// Distinct pods behind the figures.
    pub fn pods(&self) -> Result<u64, Unusable> {
        count(self.window, "pods")
    }

    /// Distinct namespaces behind the figures.
    pub fn namespaces(&self) -> Result<u64, Unusable> {
        count(self.window, "namespaces")
    }

    pub fn peak(&self) -> Result<Quantity, Unusable> {
        self.amount(Percentile::PEAK.name())
    }

    /// The amount that was enough for so many in a hundred samples.
    pub fn percentile(&self, percentile: Percentile) -> Result<Quantity, Unusable> {
        let found = self.amount(percentile.name())?;
        let peak = self.peak()?;
        // The first comparison costs much less, and nearly always says enough.
        if found > peak && found > peak.scaled(100 + SKETCH_ERROR_PERCENT, 100) {
            return Err(self.impossible(percentile.name(), &found.to_string()));
        }
        Ok(found)
    }

    fn amount(&self, name: &str) -> Result<Quantity, Unusable> {
        let text = self.find(name)?;
        let amount: Quantity = text.parse().map_err(|error| self.usage.wrong(format!("`{name}={text}`: {error}")))?;
        if is_possible(&amount, self.resource) { Ok(amount) } else { Err(self.impossible(name, text)) }
    }

    fn find(&self, name: &str) -> Result<&'d str, Malformed> {
        find_in_usage(self.text, name).ok_or_else(|| self.usage.wrong(format!("it does not say `{name}`")))
    }

    fn impossible(&self, name: &str, text: &str) -> Unusable {
        let found = [name, "=", text].concat();
        Unusable::Impossible { path: self.usage.path(), found: found.chars().take(40).collect() }
    }
}

fn required<'d>(node: Node<'d>, name: &str) -> Result<Node<'d>, Malformed> {
    node.get(name)?.ok_or_else(|| node.wrong(format!("`{name}` is missing")))
}

fn moment(node: Node<'_>) -> Result<Timestamp, Unusable> {
    node.str()?.parse().map_err(|error| Unusable::Malformed(node.malformed_as(&error)))
}

fn count(node: Node<'_>, name: &str) -> Result<u64, Unusable> {
    let node = required(node, name)?;
    u64::try_from(node.integer()?).map_err(|_| impossible(node))
}

/// Whether a container may use as much.
pub fn is_possible(amount: &Quantity, resource: Resource) -> bool {
    let most = match resource {
        Resource::Cpu => MOST_CPU,
        Resource::Memory | Resource::EphemeralStorage => MOST_BYTES,
    };
    !amount.is_negative() && *amount <= most
}

fn impossible(node: Node<'_>) -> Unusable {
    Unusable::Impossible { path: node.path(), found: node.text().chars().take(40).collect() }
}
