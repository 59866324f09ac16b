//! Reads what a profile says of one image, as the policy gets it: from the host, masked, and written by somebody else.
//!
//! Nothing is believed for being there. What is of another format, too old, of another image or of an impossible
//! amount is [`Unusable`], and says why; what that means for an estimate is left to who asks. Only what is asked for is
//! looked at, so a fault elsewhere in the object harms nobody.

use std::fmt;
use std::time::Duration;

use super::address::{TagKey, image_key};
use super::{FORMAT, OomKill, Percentile, Percentiles, Resource, Window};
use crate::amount::{Quantity, read_quantity};
use crate::image::ImageName;
use crate::json::{Malformed, Node};
use crate::timestamp::Timestamp;

/// A clock that goes wrong by less is forgiven.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);
/// More than this no container uses: ten thousand cores, a pebibyte.
const MOST_CPU: Quantity = Quantity::from_units(10_000);
const MOST_MEMORY: Quantity = Quantity::from_units(1 << 50);
/// Percentiles come from sketches and may lie a little beside the truth; the peak is exact.
const SKETCH_ERROR_PERCENT: u64 = 5;

/// Why a history is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    Malformed(Malformed),
    OtherFormat { found: String },
    TooOld { collected_at: Timestamp, most: Duration },
    FromTheFuture { collected_at: Timestamp },
    OtherRepository { path: String, found: String },
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
            Self::OtherFormat { found } => write!(f, "spec.format: expected {FORMAT}, found `{found}`"),
            Self::TooOld { collected_at, most } => {
                write!(f, "collected at {collected_at}, more than {} ago", Age(*most))
            }
            Self::FromTheFuture { collected_at } => write!(f, "collected at {collected_at}, which is yet to come"),
            Self::OtherRepository { path, found } => write!(f, "{path}: it is of `{found}`"),
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

/// What a profile holds of one image.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'d> {
    node: Node<'d>,
    pub collected_at: Timestamp,
    /// How long ago that is.
    pub age: Duration,
}

impl<'d> Entry<'d> {
    /// Finds the image in a profile object; none if the profile does not know it.
    pub fn find(
        profile: Node<'d>,
        image: &ImageName<'_>,
        now: Timestamp,
        max_age: Duration,
    ) -> Result<Option<Self>, Unusable> {
        let spec = required(profile, "spec")?;
        let format = required(spec, "format")?;
        if format.integer() != Ok(i64::from(FORMAT)) {
            return Err(Unusable::OtherFormat { found: format.text().chars().take(40).collect() });
        }
        let collected_at = moment(required(spec, "collectedAt")?)?;
        let age = match now.since(collected_at) {
            Some(age) if age > max_age => return Err(Unusable::TooOld { collected_at, most: max_age }),
            Some(age) => age,
            None if collected_at.since(now).is_some_and(|ahead| ahead > CLOCK_SKEW) => {
                return Err(Unusable::FromTheFuture { collected_at });
            }
            None => Duration::ZERO,
        };
        let images = spec.get("images")?;
        let Some(node) = images.map(|images| images.get(&image_key(image.repository()))).transpose()?.flatten() else {
            return Ok(None);
        };
        let repository = required(node, "repository")?;
        if repository.str()? != image.repository() {
            let found = repository.str()?.chars().take(100).collect();
            return Err(Unusable::OtherRepository { path: repository.path(), found });
        }
        Ok(Some(Self { node, collected_at, age }))
    }

    /// The history of all tags together.
    pub fn all(&self) -> Result<Option<HistoryNode<'d>>, Unusable> {
        Ok(self.node.get("all")?.map(HistoryNode))
    }

    pub fn tag(&self, key: &TagKey) -> Result<Option<HistoryNode<'d>>, Unusable> {
        let tags = self.node.get("tags")?;
        Ok(tags.map(|tags| tags.get(key.as_str())).transpose()?.flatten().map(HistoryNode))
    }
}

/// The history of an image or of one tag of it.
#[derive(Debug, Clone, Copy)]
pub struct HistoryNode<'d>(Node<'d>);

impl<'d> HistoryNode<'d> {
    /// What was observed of a resource within a window.
    pub fn observed(self, window: Window, resource: Resource) -> Result<Option<Observed<'d>>, Unusable> {
        let Some(windows) = self.0.get("windows")? else { return Ok(None) };
        let Some(window) = windows.get(&window.to_string())? else { return Ok(None) };
        let Some(usage) = window.get(resource.name())? else { return Ok(None) };
        Ok(Some(Observed { window, usage, resource, samples: count(usage, "samples")? }))
    }

    /// The out-of-memory kills up to the collection.
    pub fn oom_kills(self, collected_at: Timestamp) -> Result<Vec<OomKill>, Unusable> {
        let mut kills = Vec::new();
        for kill in self.0.list("oomKills")?.take(super::bounds::MOST_OOM_KILLS) {
            let at = moment(required(kill, "at")?)?;
            let memory = amount(required(kill, "memory")?, Resource::Memory)?;
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
    resource: Resource,
    pub samples: u64,
}

impl Observed<'_> {
    /// Distinct pods behind the figures.
    pub fn pods(&self) -> Result<u64, Unusable> {
        count(self.window, "pods")
    }

    /// Distinct namespaces behind the figures.
    pub fn namespaces(&self) -> Result<u64, Unusable> {
        count(self.window, "namespaces")
    }

    pub fn peak(&self) -> Result<Quantity, Unusable> {
        amount(required(self.usage, "peak")?, self.resource)
    }

    /// The amount that was enough for so many in a hundred samples.
    pub fn percentile(&self, percentile: Percentile) -> Result<Quantity, Unusable> {
        let node = required(self.usage, "percentiles")?;
        let text = node.str()?;
        let missing = || node.wrong(format!("there is none for `{percentile}`"));
        let text = Percentiles::find(&text, percentile).ok_or_else(missing)?;
        let found: Quantity = text.parse().map_err(|error| node.wrong(format!("`{percentile}={text}`: {error}")))?;
        if !is_possible(&found, self.resource) || found > self.peak()?.scaled(100 + SKETCH_ERROR_PERCENT, 100) {
            return Err(Unusable::Impossible { path: node.path(), found: format!("{percentile}={text}") });
        }
        Ok(found)
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

fn amount(node: Node<'_>, resource: Resource) -> Result<Quantity, Unusable> {
    let amount = read_quantity(node)?;
    if is_possible(&amount, resource) { Ok(amount) } else { Err(impossible(node)) }
}

fn is_possible(amount: &Quantity, resource: Resource) -> bool {
    let most = match resource {
        Resource::Cpu => MOST_CPU,
        Resource::Memory => MOST_MEMORY,
    };
    !amount.is_negative() && *amount <= most
}

fn impossible(node: Node<'_>) -> Unusable {
    Unusable::Impossible { path: node.path(), found: node.text().chars().take(40).collect() }
}
