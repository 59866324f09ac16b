//! Reads the history of one image from a profile, as the policy gets it from the host: masked, and not trusted.
//!
//! A history in another format, too old, or with impossible amounts is [`Malformed`], with the reason; the caller
//! decides what that means for an estimate. Only the wanted parts are read, so a fault elsewhere in the object does no
//! harm.

use std::fmt;
use std::time::Duration;

use super::profile_layout::{ANY_NAMESPACE, Halves, ProfileKey, ProfileName, TagKey, page_of};
use super::{FORMAT, OomKill, Percentile, Resource, Window};
use crate::amount::{Quantity, read_quantity};
use crate::json::{Malformed, Node};
use crate::timestamp::Timestamp;

const CLOCK_SKEW: Duration = Duration::from_secs(3_600);
const MAX_CPU: Quantity = Quantity::from_units(Resource::Cpu.most());
const MAX_BYTES: Quantity = Quantity::from_units(Resource::Memory.most());
/// Percentiles come from sketches and may be slightly inexact; the peak is exact.
const SKETCH_ERROR_PERCENT: u64 = 5;

/// A duration for people: `5h`, `3d`.
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

/// A profile in a supported format.
#[derive(Debug, Clone, Copy)]
pub struct Profile<'d> {
    /// None in an object without any collected history.
    header: Option<Header<'d>>,
    pub images: Option<Node<'d>>,
}

#[derive(Debug, Clone, Copy)]
struct Header<'d> {
    collected_at: Timestamp,
    quorum: u64,
    /// The list of pages; none if all entries are in the object itself.
    pages: Option<Node<'d>>,
    /// The key of the hashes that decide on pages.
    page_key: Option<Node<'d>>,
    /// The namespaces that may ask for fewer estimates; none if the collector does not know them.
    restricted: Option<Node<'d>>,
}

impl<'d> Profile<'d> {
    pub fn read(object: Node<'d>) -> Result<Self, Malformed> {
        let Some(spec) = object.get("spec")? else { return Ok(Self { header: None, images: None }) };
        let header = required(spec, "header")?;
        let format = required(header, "format")?;
        if format.integer() != Ok(i64::from(FORMAT)) {
            let problem = format!("expected {FORMAT}, found `{}`", excerpt(format));
            return Err(Malformed { path: "spec.header.format".to_owned(), problem });
        }
        let collected_at = Timestamp::read(required(header, "collectedAt")?)?;
        let quorum = if header.get("quorum")?.is_some() { count(header, "quorum")? } else { 0 };
        let (pages, page_key) = (header.get("pages")?, header.get("pageKey")?);
        let restricted = header.get("restrictedNamespaces")?;
        let header = Header { collected_at, quorum, pages, page_key, restricted };
        Ok(Self { header: Some(header), images: spec.get("images")? })
    }

    /// When it was found that this namespace does not ask for fewer estimates; none if it may do so.
    pub fn unrestricted_at(self, namespace: &str) -> Option<Timestamp> {
        let Header { collected_at, restricted, .. } = self.header?;
        let mut names = restricted?.plain_str().ok()?.split(' ');
        (!names.any(|name| name == namespace || name == ANY_NAMESPACE)).then_some(collected_at)
    }

    /// The entry at this place, with the history of this namespace.
    pub fn entry(self, place: &ProfileKey, namespace: &str) -> Result<ImageHistories<'d>, Malformed> {
        let node = self.images.map(|images| images.get(&place.key)).transpose()?.flatten();
        let part = |name| node.map_or(Ok(None), |node| node.get(name));
        let own = part("own")?.map_or(Ok(None), |own| own.get(namespace))?;
        let Some(Header { collected_at, quorum, .. }) = self.header else { return Ok(ImageHistories::default()) };
        let mut own = Histories { node: own, collected_at, quorum };
        // The time of the namespace, which is older than that of the object if the namespace could not be read.
        if let Some(all) = own.field("all")?
            && let Some(of_namespace) = all.get("collectedAt")?
        {
            own.collected_at = Timestamp::read(of_namespace)?.min(collected_at);
        }
        let pool = Histories { node: part("pool")?, collected_at, quorum };
        Ok(ImageHistories { own: Some(own), pool: Some(pool) })
    }

    /// The page that contains the entry instead of this object.
    pub fn page(
        self,
        name: &ProfileName,
        place: &ProfileKey,
        namespace: &str,
    ) -> Result<Option<ProfileName>, Malformed> {
        let Some(Header { pages: Some(pages), page_key, .. }) = self.header else { return Ok(None) };
        if self.images.map(|images| images.get(&place.key)).transpose()?.flatten().is_some() {
            return Ok(None);
        }
        let page_key = page_key.map(Node::plain_str).transpose()?.unwrap_or_default();
        let path = page_of(pages.plain_str()?, Halves::of(place, namespace, page_key));
        let path = path.map_err(|_| pages.error("not a list of pages"))?;
        // A page without a path would be this object.
        Ok(path.filter(|path| !path.is_empty()).map(|path| name.page(path)))
    }
}

/// The histories of one image; none where nothing was collected.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageHistories<'d> {
    /// The history of the namespace.
    pub own: Option<Histories<'d>>,
    /// The history of all namespaces together.
    pub pool: Option<Histories<'d>>,
}

/// The histories of an image in one namespace, or in all together.
#[derive(Debug, Clone, Copy)]
pub struct Histories<'d> {
    /// None if there is no history of the image.
    node: Option<Node<'d>>,
    pub collected_at: Timestamp,
    /// The least number of namespaces that agree on each figure of a pool.
    pub quorum: u64,
}

impl<'d> Histories<'d> {
    pub fn all(&self) -> Result<Option<HistoryNode<'d>>, Malformed> {
        Ok(self.field("all")?.map(HistoryNode))
    }

    pub fn tag(&self, key: &TagKey) -> Result<Option<HistoryNode<'d>>, Malformed> {
        self.part("tags", key.as_str())
    }

    pub fn workload(&self, key: &str) -> Result<Option<HistoryNode<'d>>, Malformed> {
        self.part("workloads", key)
    }

    /// A part of `all`. A part with the same history as `all` is only named there, in `same`; tags and workloads' keys
    /// cannot collide there, because only the latter have a slash.
    fn part(&self, parts: &str, key: &str) -> Result<Option<HistoryNode<'d>>, Malformed> {
        if let Some(all) = self.field("all")? {
            for same in all.list("same")? {
                if same.plain_str()? == key {
                    return Ok(Some(HistoryNode(all)));
                }
            }
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
    pub fn observed(self, window: Window, resource: Resource) -> Result<Option<Observed<'d>>, Malformed> {
        let Some(windows) = self.0.get("windows")? else { return Ok(None) };
        let Some(window) = windows.get(window.name())? else { return Ok(None) };
        let Some(usage) = window.get(resource.name())? else { return Ok(None) };
        Ok(Some(Observed { window, usage, resource, samples: count(usage, "samples")? }))
    }

    /// The number of days with observations; none if the profile does not contain it.
    pub fn days(self) -> Result<Option<u64>, Malformed> {
        self.0.get("days")?.map(whole).transpose()
    }

    /// The out-of-memory kills before the collection.
    pub fn oom_kills(self, collected_at: Timestamp) -> Result<Vec<OomKill>, Malformed> {
        let mut kills = Vec::new();
        for kill in self.0.list("oomKills")?.take(super::MAX_OOM_KILLS) {
            let at = Timestamp::read(required(kill, "at")?)?;
            let memory = possible(required(kill, "memory")?, Resource::Memory)?;
            if at <= collected_at {
                kills.push(OomKill { at, memory });
            }
        }
        Ok(kills)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Observed<'d> {
    window: Node<'d>,
    usage: Node<'d>,
    pub resource: Resource,
    pub samples: u64,
}

impl<'d> Observed<'d> {
    /// True if the figure exists: a pool contains only figures that namespaces agree on.
    pub fn has(&self, percentile: Percentile) -> bool {
        matches!(self.figure(percentile), Ok(Some(_)))
    }

    pub fn pods(&self) -> Result<u64, Malformed> {
        count(self.window, "pods")
    }

    pub fn namespaces(&self) -> Result<u64, Malformed> {
        count(self.window, "namespaces")
    }

    pub fn peak(&self) -> Result<Quantity, Malformed> {
        Ok(self.amount(Percentile::PEAK)?.0)
    }

    /// The greatest p95 of a single pod on a day; none if no pod stands out.
    pub fn busiest(&self) -> Result<Option<Quantity>, Malformed> {
        let Some(node) = self.usage.get("busiest")? else { return Ok(None) };
        self.below_peak(read_quantity(node)?, node).map(Some)
    }

    /// The needs of each pod by itself, in `recent` of a namespace; none in a pool, and where pods are not known.
    pub fn each_pod(&self) -> Result<Option<EachPod<'d>>, Malformed> {
        let Some(node) = self.usage.get("eachPod")? else { return Ok(None) };
        // Older versions wrote another figure.
        Ok(node.get("needs")?.map(|needs| EachPod { node, needs, resource: self.resource }))
    }

    /// The highest amount of a month that all other figures leave out.
    pub fn not_covered(&self) -> Result<Option<Quantity>, Malformed> {
        self.usage.get("notCovered")?.map(|node| possible(node, self.resource)).transpose()
    }

    /// The amount that was enough for this percentage of the samples.
    pub fn percentile(&self, percentile: Percentile) -> Result<Quantity, Malformed> {
        let (found, node) = self.amount(percentile)?;
        self.below_peak(found, node)
    }

    /// The same if it exists, whether or not it is above the peak.
    pub fn percentile_if_any(&self, percentile: Percentile) -> Result<Option<Quantity>, Malformed> {
        self.figure(percentile)?.map(|node| possible(node, self.resource)).transpose()
    }

    fn below_peak(&self, found: Quantity, node: Node<'d>) -> Result<Quantity, Malformed> {
        let peak = self.peak()?;
        // The first comparison costs much less, and nearly always decides.
        if found > peak && found > peak.scaled(100 + SKETCH_ERROR_PERCENT, 100) {
            return Err(impossible(node));
        }
        Ok(found)
    }

    fn amount(&self, percentile: Percentile) -> Result<(Quantity, Node<'d>), Malformed> {
        let node = self.figure(percentile)?.ok_or_else(|| self.usage.error(format!("no {percentile}")))?;
        Ok((possible(node, self.resource)?, node))
    }

    /// Percentiles are a list in a fixed order, because names would take a tenth more of the time to read a request.
    fn figure(&self, percentile: Percentile) -> Result<Option<Node<'d>>, Malformed> {
        let Some(place) = percentile.place() else { return self.usage.get("peak") };
        Ok(self.usage.list("percentiles")?.nth(place).and_then(Node::present))
    }
}

/// CPU usage with pods kept apart.
#[derive(Debug, Clone, Copy)]
pub struct EachPod<'d> {
    node: Node<'d>,
    needs: Node<'d>,
    resource: Resource,
}

impl EachPod<'_> {
    /// The CPU of the pod that needs most.
    pub fn needs(&self) -> Result<Quantity, Malformed> {
        possible(self.needs, self.resource)
    }

    /// By how much usage grows a day; none if it does not grow steadily.
    pub fn growth(&self) -> Result<Option<Quantity>, Malformed> {
        self.node.get("growth")?.map(|node| possible(node, self.resource)).transpose()
    }

    /// The greatest percentile of a pod; none in a profile.
    pub fn percentile(&self, percentile: Percentile) -> Result<Option<Quantity>, Malformed> {
        let Some(place) = percentile.place() else { return Ok(None) };
        let node = self.node.list("percentiles")?.nth(place).and_then(Node::present);
        node.map(|node| possible(node, self.resource)).transpose()
    }
}

/// The age of what was collected at a time; an error if it is more than `most`.
pub fn age(collected_at: Timestamp, now: Timestamp, most: Duration) -> Result<Duration, Malformed> {
    let problem = match now.since(collected_at) {
        Some(age) if age > most => format!("collected at {collected_at}, more than {} ago", Age(most)),
        Some(age) => return Ok(age),
        None if collected_at.since(now).is_some_and(|ahead| ahead > CLOCK_SKEW) => {
            format!("collected at {collected_at}: timestamp is in the future")
        }
        None => return Ok(Duration::ZERO),
    };
    Err(Malformed { path: String::new(), problem })
}

fn required<'d>(node: Node<'d>, name: &str) -> Result<Node<'d>, Malformed> {
    node.get(name)?.ok_or_else(|| node.error(format!("`{name}` is missing")))
}

fn count(node: Node<'_>, name: &str) -> Result<u64, Malformed> {
    whole(required(node, name)?)
}

fn whole(node: Node<'_>) -> Result<u64, Malformed> {
    u64::try_from(node.integer()?).map_err(|_| impossible(node))
}

/// An amount that a container can use.
fn possible(node: Node<'_>, resource: Resource) -> Result<Quantity, Malformed> {
    let most = match resource {
        Resource::Cpu => MAX_CPU,
        Resource::Memory | Resource::EphemeralStorage => MAX_BYTES,
    };
    let amount = read_quantity(node)?;
    if !amount.is_negative() && amount <= most { Ok(amount) } else { Err(impossible(node)) }
}

fn impossible(node: Node<'_>) -> Malformed {
    node.error(format!("impossible value `{}`", excerpt(node)))
}

fn excerpt(node: Node<'_>) -> String {
    node.text().chars().take(40).collect()
}
