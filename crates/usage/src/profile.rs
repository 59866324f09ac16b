//! `UsageProfile`s as the collector writes them: the types ([`custom_resource`] has the object and its
//! CustomResourceDefinition), what is dropped if there is too much data ([`bounds`]) and the layout in objects
//! ([`layout`]). The policy reads the same fields with [`headroom_admission::cluster::usage::read`], without serde,
//! because it pays for each instruction.
mod serialized;

pub mod bounds;
pub mod quorum;

pub mod custom_resource;

pub mod layout;

#[cfg(test)]
mod sample;

use std::borrow::Cow;
use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::profile_layout::ANY_NAMESPACE;
use headroom_admission::cluster::usage::{Percentile, Quarter, Repository, Resource, Root, TagKey, Window};
use headroom_admission::timestamp::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use custom_resource::{UsageProfile, UsageProfileSpec};
use serialized::{keyed, optional_text, text};

/// All history of one root, which may be stored in several objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The namespace of the objects.
    pub namespace: String,
    pub root: Root,
    pub collected_at: Timestamp,
    /// The least number of namespaces that agree on each figure of a pool.
    pub quorum: Option<u64>,
    /// The key of the hashes that decide which page holds an entry. Nobody but readers of profiles should know it.
    pub page_key: String,
    pub images: Images,
    /// The namespaces that may ask for fewer estimates; none if they are unknown.
    pub restricted: Option<RestrictedNamespaces>,
    /// The number of tags that were dropped for lack of room, so that users learn why history is missing.
    pub dropped_tags: usize,
}

impl Share {
    /// A root without any history.
    pub fn empty(namespace: &str, root: Root, collected_at: Timestamp, page_key: &str) -> Self {
        let (namespace, page_key) = (namespace.to_owned(), page_key.to_owned());
        let images = Images::new();
        Self { namespace, root, collected_at, quorum: None, page_key, images, restricted: None, dropped_tags: 0 }
    }
}

pub type Images = BTreeMap<Repository, ImageHistory>;

/// The namespaces that may ask for fewer estimates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestrictedNamespaces(Vec<String>);

impl RestrictedNamespaces {
    /// All of them, in their order.
    pub fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// Those whose pods are estimated from a quarter, as its header lists them. If there are too many to list, readers look at
    /// each Namespace.
    pub fn of_quarter(&self, quarter: Quarter) -> String {
        let names = self.0.iter().map(String::as_str).filter(|name| Quarter::of(name) == quarter);
        let names = names.collect::<Vec<_>>().join(" ");
        if names.len() <= bounds::MAX_BYTES_OF_RESTRICTED { names } else { ANY_NAMESPACE.to_owned() }
    }
}

/// The usage history of one image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageHistory {
    /// History in all namespaces together, where enough of them agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Histories>,
    /// History by namespace.
    #[schemars(extend("maxProperties" = 64))]
    pub own: BTreeMap<String, Histories>,
}

/// The usage history of an image in one namespace, or in all.
#[derive(Debug, Clone, PartialEq)]
pub struct Histories {
    /// Set if it differs from the time when the whole object was collected.
    pub collected_at: Option<Timestamp>,
    /// For all tags together.
    pub all: History,
    pub tags: BTreeMap<TagKey, History>,
    /// In a namespace: for each container of a workload, by
    /// [`workload::key`](headroom_admission::cluster::usage::workload::key).
    pub workloads: BTreeMap<String, History>,
}

impl Histories {
    /// Only the history of all tags together.
    pub fn of(all: History) -> Self {
        let (tags, workloads) = (BTreeMap::new(), BTreeMap::new());
        Self { collected_at: None, all, tags, workloads }
    }
}

/// [`Histories`] in an object: a tag or workload with the history of all tags together is only named, because most
/// images run with one tag.
#[derive(Serialize, Deserialize, JsonSchema)]
struct WrittenHistories<'h> {
    /// History of all tags together.
    all: WrittenAll<'h>,
    /// Histories by tag or digest, with a comma in place of each dot, except those that `same` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = bounds::MAX_PARTS))]
    tags: Option<Parts<'h>>,
    /// In a namespace: histories by `workload/container`, except those that `same` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = bounds::MAX_PARTS))]
    workloads: Option<Parts<'h>>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WrittenAll<'h> {
    /// When the history was collected, if that was before the whole object.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "optional_text")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    collected_at: Option<Timestamp>,
    /// Tags, digests and workloads with the same history.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2 * bounds::MAX_PARTS), inner(length(max = 320)))]
    same: Option<Vec<Cow<'h, str>>>,
    #[serde(flatten)]
    history: Cow<'h, History>,
}

type Parts<'h> = BTreeMap<Cow<'h, str>, Cow<'h, History>>;

/// The parts with a history of their own; the keys of the others are added to `same`.
fn others<'h, Key>(
    parts: &'h BTreeMap<Key, History>,
    text: fn(&Key) -> &str,
    all: &History,
    same: &mut Vec<Cow<'h, str>>,
) -> Option<Parts<'h>> {
    let (equal, others): (Vec<_>, Vec<_>) = parts.iter().partition(|(_, part)| *part == all);
    same.extend(equal.into_iter().map(|(key, _)| Cow::Borrowed(text(key))));
    let others = others.into_iter().map(|(key, part)| (Cow::Borrowed(text(key)), Cow::Borrowed(part)));
    Some(others.collect::<Parts<'h>>()).filter(|others| !others.is_empty())
}

impl Serialize for Histories {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { collected_at, all, tags, workloads } = self;
        let mut same = Vec::new();
        let tags = others(tags, TagKey::as_str, all, &mut same);
        let workloads = others(workloads, String::as_str, all, &mut same);
        let same = Some(same).filter(|same| !same.is_empty());
        let all = WrittenAll { collected_at: *collected_at, same, history: Cow::Borrowed(all) };
        WrittenHistories { all, tags, workloads }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histories {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WrittenHistories { all, tags, workloads } = WrittenHistories::deserialize(deserializer)?;
        let WrittenAll { collected_at, same, history: all } = all;
        let all = all.into_owned();
        let (same_workloads, same_tags): (Vec<_>, Vec<_>) =
            same.into_iter().flatten().partition(|key| key.contains('/'));
        let whole = |same: Vec<Cow<'_, str>>, parts: Option<Parts<'_>>| {
            let same = same.into_iter().map(|key| (key.into_owned(), all.clone()));
            let parts = parts.into_iter().flatten().map(|(key, part)| (key.into_owned(), part.into_owned()));
            same.chain(parts).collect::<BTreeMap<_, _>>()
        };
        let tags = whole(same_tags, tags).into_iter().filter_map(|(key, tag)| Some((TagKey::read(&key)?, tag)));
        let (tags, workloads) = (tags.collect(), whole(same_workloads, workloads));
        Ok(Self { collected_at, all, tags, workloads })
    }
}

impl JsonSchema for Histories {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Histories")
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        WrittenHistories::json_schema(generator)
    }
}

/// The usage history of an image, a tag or a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// When a container last ran.
    #[serde(with = "text")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_seen: Timestamp,
    /// Number of days in the longest window on which a container ran.
    pub days: u64,
    /// Out-of-memory kills of containers, latest first.
    #[schemars(length(max = headroom_admission::cluster::usage::MAX_OOM_KILLS))]
    pub oom_kills: Vec<OomKill>,
    /// Usage in `7d`, `30d`, and `recent`: 30 days, each with half the weight of the next.
    #[serde(with = "keyed")]
    #[schemars(with = "BTreeMap<String, WindowUsage>", extend("maxProperties" = Window::PUBLISHED.len()))]
    pub windows: BTreeMap<Window, WindowUsage>,
}

/// A container that was killed because its memory ran out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OomKill {
    /// Time of the kill.
    #[serde(with = "text")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Memory that the container used, or its limit.
    #[serde(with = "text")]
    #[schemars(with = "String", length(max = 40))]
    pub memory: Quantity,
}

/// Usage within a window.
// Boxed, because a map of three windows has room for eleven, and one image may have a history for each of ten thousand namespaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WindowUsage {
    /// Number of distinct pods.
    pub pods: u64,
    /// Number of distinct namespaces.
    pub namespaces: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Box<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Box<Usage>>,
    /// If the source reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<Box<Usage>>,
}

impl WindowUsage {
    pub fn of(&self, resource: Resource) -> Option<&Usage> {
        match resource {
            Resource::Cpu => self.cpu.as_deref(),
            Resource::Memory => self.memory.as_deref(),
            Resource::EphemeralStorage => self.ephemeral_storage.as_deref(),
        }
    }
}

/// The usage of one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Number of samples, one for each observed minute of a container.
    pub samples: u64,
    /// The highest amount. Absent in a pool whose namespaces do not agree on any figure.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "optional_text")]
    #[schemars(with = "Option<String>", length(max = 40))]
    pub peak: Option<Quantity>,
    /// For CPU: the greatest p95 of a single pod on a day. Absent if that is no more than the p95 of all pods, and in a pool
    /// whose namespaces do not agree on it.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "optional_text")]
    #[schemars(with = "Option<String>", length(max = 40))]
    pub busiest: Option<Quantity>,
    pub percentiles: Percentiles,
    /// For CPU, in `recent` of a namespace: what each pod by itself needs, over all days.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub each_pod: Option<Box<EachPod>>,
    /// In `30d` of a namespace: the highest amount that all other figures leave out, because it was used once, or by single pods
    /// beyond all others.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "optional_text")]
    #[schemars(with = "Option<String>", length(max = 40))]
    pub not_covered: Option<Quantity>,
}

/// CPU usage with pods kept apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EachPod {
    /// The CPU of the pod that needs most.
    #[serde(with = "text")]
    #[schemars(with = "String", length(max = 40))]
    pub needs: Quantity,
    /// By how much usage grows a day, if it grows steadily.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "optional_text")]
    #[schemars(with = "Option<String>", length(max = 40))]
    pub growth: Option<Quantity>,
    /// The greatest of each percentile. Only in histories that are read for advice by a percentile that somebody chose; no profile that
    /// is published has them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(skip)]
    pub percentiles: Option<Percentiles>,
}

/// The amount of each published percentile; none if namespaces do not agree on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles([Option<Quantity>; Percentile::PUBLISHED.len()]);

impl Percentiles {
    /// Calls `amount` for each published percentile in ascending order.
    pub fn agreed(amount: impl FnMut(Percentile) -> Option<Quantity>) -> Self {
        Self(Percentile::PUBLISHED.map(amount))
    }

    pub fn get(&self, percentile: Percentile) -> Option<&Quantity> {
        self.0.get(percentile.place()?)?.as_ref()
    }
}

/// A list in the order of [`Percentile::PUBLISHED`].
impl Serialize for Percentiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|amount| amount.as_ref().map(serialized::Text)))
    }
}

impl<'de> Deserialize<'de> for Percentiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut amounts = Vec::<Option<serialized::Text<Quantity>>>::deserialize(deserializer)?.into_iter();
        Ok(Self::agreed(|_| amounts.next().flatten().map(|serialized::Text(amount)| amount)))
    }
}

impl JsonSchema for Percentiles {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Percentiles")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Percentile::PUBLISHED.map(Percentile::name).join(", ");
        json_schema!({
            "description": format!("The amounts that were enough for these percentages of the samples: {names}; null where namespaces do not agree."),
            "type": "array",
            "maxItems": Percentile::PUBLISHED.len(),
            "items": {"type": "string", "maxLength": 40, "nullable": true}
        })
    }
}
