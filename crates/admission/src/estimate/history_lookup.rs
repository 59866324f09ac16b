//! Chooses the history that an estimate is made from: the first step with enough samples.

use std::fmt;
use std::time::Duration;

use crate::cluster::Context;
use crate::cluster::usage::read::{Histories, HistoryNode, Observed, age};
use crate::cluster::usage::{Percentile, ProfileName, Resource, TagKey, Window, workload};
use crate::image::ImageName;
use crate::json::Malformed;
use crate::settings::{EstimateSettings, HistoryMatch, HistoryOwner, HistoryScope, LookupStep};
use crate::timestamp::Timestamp;
use crate::truncate::count_of;

/// The history that an estimate is made from.
#[derive(Debug, Clone)]
pub struct Chosen<'d> {
    pub window: Window,
    /// The image as it was looked up: `nginx:1.27`.
    pub key: String,
    pub owner: HistoryOwner,
    /// True if it is that of the container's own workload, which is in its own namespace.
    pub is_of_workload: bool,
    pub age: Duration,
    pub collected_at: Timestamp,
    pub history: HistoryNode<'d>,
    pub observed: Observed<'d>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedHistory {
    window: Window,
    /// The image or workload whose history was looked for.
    pub(super) key: String,
    owner: HistoryOwner,
    why: HistoryRejection,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HistoryRejection {
    NoHistory,
    TooFew { noun: &'static str, found: u64, needed: u64 },
    SmallQuorum { found: u64, needed: u64 },
    Disagreement,
    Unusable,
}

impl RejectedHistory {
    pub fn is_empty(&self) -> bool {
        self.why == HistoryRejection::NoHistory
    }
}

/// `7d nginx:1.27 in this namespace: 12 samples, 60 needed`
impl fmt::Display for RejectedHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { window, key, owner, why } = self;
        write!(f, "{window} {key} {}: ", owner.place())?;
        match why {
            HistoryRejection::NoHistory => f.write_str("none"),
            HistoryRejection::TooFew { noun, found, needed } => {
                write!(f, "{}, {needed} needed", count_of(*found, noun))
            }
            HistoryRejection::SmallQuorum { found, needed } => {
                write!(f, "agreed on by {}, {needed} needed", count_of(*found, "namespace"))
            }
            HistoryRejection::Disagreement => f.write_str("namespaces disagree"),
            HistoryRejection::Unusable => f.write_str("unusable"),
        }
    }
}

#[derive(Debug)]
enum HistoryKey<'i> {
    All,
    Tag(TagKey),
    Workload { key: String, name: &'i str },
}

/// The histories of one image in the profiles that were read.
#[derive(Debug)]
pub struct Sources<'i, 'd> {
    pub(super) image: &'i ImageName<'i>,
    /// The keys of this image: its digest, then its tag.
    tags: Vec<HistoryKey<'i>>,
    workload: HistoryKey<'i>,
    /// The object that was read; none if there was none.
    name: Option<ProfileName>,
    /// The histories of the namespace and of all, with their ages.
    own: Option<(Histories<'d>, Duration)>,
    pool: Option<(Histories<'d>, Duration)>,
}

impl<'i, 'd> Sources<'i, 'd> {
    /// Finds the image in the profiles. A problem with its history is noted, and the history is not used.
    pub fn find(
        image: &'i ImageName<'i>,
        (workload, container): (&'i str, &str),
        context: &Context<'d>,
        settings: &EstimateSettings<'_>,
        notes: &mut Vec<String>,
    ) -> Self {
        let workload = HistoryKey::Workload { key: workload::key(workload, container), name: workload };
        let tags = TagKey::of(image).map(HistoryKey::Tag).collect();
        let mut sources = Self { image, tags, workload, name: None, own: None, pool: None };
        let Some(found) = context.usage.iter().find(|found| found.place.is_of(image.repository())) else {
            return sources;
        };
        sources.name = Some(found.name.clone());
        let Some(now) = settings.replay_time.or(context.now) else {
            notes.push("usage history ignored: current time unknown".to_owned());
            return sources;
        };
        let entry = match &found.entry {
            Ok(entry) => *entry,
            Err(malformed) => {
                notes.push(sources.unused(malformed));
                return sources;
            }
        };
        let mut aged = |histories: Option<Histories<'d>>| {
            let histories = histories?;
            match age(histories.collected_at, now, settings.max_age) {
                Ok(age) => Some((histories, age)),
                Err(malformed) => {
                    notes.push(sources.unused(&malformed));
                    None
                }
            }
        };
        let (own, pool) = (aged(entry.own), aged(entry.pool));
        (sources.own, sources.pool) = (own, pool);
        sources
    }

    /// The first history with enough samples of a resource, and those rejected before it.
    pub fn choose(
        &self,
        resource: Resource,
        settings: &EstimateSettings<'_>,
        notes: &mut Vec<String>,
    ) -> (Option<Chosen<'d>>, Vec<RejectedHistory>) {
        let mut rejected = Vec::new();
        for step in settings.history.iter() {
            for owner in places(settings.scope_of(step), step.matching) {
                for key in self.keys(step.matching) {
                    let why = match self.look_up(key, step, *owner, resource, settings) {
                        Ok(Ok(chosen)) => return (Some(chosen), rejected),
                        Ok(Err(why)) => why,
                        Err(malformed) => {
                            notes.push(self.unused(&malformed));
                            HistoryRejection::Unusable
                        }
                    };
                    // Most pods belong to new workloads, so this is not reported.
                    if !(step.matching == HistoryMatch::Workload && why == HistoryRejection::NoHistory) {
                        let key = self.name_of(key);
                        rejected.push(RejectedHistory { window: step.window, key, owner: *owner, why });
                    }
                }
            }
        }
        (None, rejected)
    }

    /// The history of one key for a step, or why it is not used.
    fn look_up(
        &self,
        key: &HistoryKey<'_>,
        step: &LookupStep,
        owner: HistoryOwner,
        resource: Resource,
        settings: &EstimateSettings<'_>,
    ) -> Result<Result<Chosen<'d>, HistoryRejection>, Malformed> {
        let source = match owner {
            HistoryOwner::OwnNamespace => self.own,
            HistoryOwner::AllNamespaces => self.pool,
        };
        let none = Ok(Err(HistoryRejection::NoHistory));
        let Some((histories, age)) = source else { return none };
        let history = match key {
            HistoryKey::All => histories.all()?,
            HistoryKey::Tag(key) => histories.tag(key)?,
            HistoryKey::Workload { key, .. } => histories.workload(key)?,
        };
        let Some(history) = history else { return none };
        let Some(observed) = history.observed(step.window, resource)? else { return none };
        if let Some(why) = too_little(histories.quorum, &observed, step, owner, settings)? {
            return Ok(Err(why));
        }
        Ok(Ok(Chosen {
            window: step.window,
            key: self.name_of(key),
            owner,
            is_of_workload: step.matching == HistoryMatch::Workload,
            age,
            collected_at: histories.collected_at,
            history,
            observed,
        }))
    }

    /// A note that a history is not used.
    pub fn unused(&self, malformed: &Malformed) -> String {
        let name = self.name.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("usage history in UsageProfile {name} ignored: {malformed}")
    }

    /// The keys to look up for a step: the workload; the digest, then the tag; or all tags together.
    fn keys(&self, matching: HistoryMatch) -> &[HistoryKey<'i>] {
        match matching {
            HistoryMatch::Workload => std::slice::from_ref(&self.workload),
            HistoryMatch::Tag => &self.tags,
            HistoryMatch::Image => &[HistoryKey::All],
        }
    }

    /// `nginx:1.27`, `registry.example.com/team/app@sha256:0123456789ab`; `nginx:*` for all tags together; `workload web`.
    fn name_of(&self, key: &HistoryKey<'_>) -> String {
        if let HistoryKey::Workload { name, .. } = key {
            return ["workload ", name].concat();
        }
        const SHORT_DIGEST: usize = "sha256:0123456789ab".len();
        let full = self.image.repository();
        let name = full.strip_prefix("docker.io/").unwrap_or(full);
        let name = name.strip_prefix("library/").unwrap_or(name);
        let HistoryKey::Tag(tag) = key else { return format!("{name}:*") };
        let reference = tag.reference();
        if reference.contains(':') {
            return format!("{name}@{}", reference.get(..SHORT_DIGEST).unwrap_or(&reference));
        }
        format!("{name}:{reference}")
    }
}

/// The scopes to look in. A workload belongs to one namespace.
fn places(scope: HistoryScope, matching: HistoryMatch) -> &'static [HistoryOwner] {
    match (scope, matching) {
        (HistoryScope::Cluster, HistoryMatch::Workload) => &[],
        (_, HistoryMatch::Workload) | (HistoryScope::Namespace, _) => &[HistoryOwner::OwnNamespace],
        (HistoryScope::NamespaceFirst, _) => &[HistoryOwner::OwnNamespace, HistoryOwner::AllNamespaces],
        (HistoryScope::Cluster, _) => &[HistoryOwner::AllNamespaces],
    }
}

/// The namespaces that must agree on a figure of all namespaces: with fewer, one tenant could influence another's requests.
const LEAST_NAMESPACES: u64 = 3;
/// The pods that must stand behind it.
const LEAST_PODS: u64 = 5;

fn too_little(
    quorum: u64,
    observed: &Observed<'_>,
    step: &LookupStep,
    owner: HistoryOwner,
    settings: &EstimateSettings<'_>,
) -> Result<Option<HistoryRejection>, Malformed> {
    let too_few = |noun, found, needed| (found < needed).then_some(HistoryRejection::TooFew { noun, found, needed });
    let few_samples = too_few("sample", observed.samples, step.samples);
    if few_samples.is_some() || owner == HistoryOwner::OwnNamespace {
        return Ok(few_samples);
    }
    let (namespaces, pods) = (observed.namespaces()?, observed.pods()?);
    let few_sources = too_few("namespace", namespaces, LEAST_NAMESPACES).or_else(|| too_few("pod", pods, LEAST_PODS));
    if few_sources.is_some() {
        return Ok(few_sources);
    }
    if quorum < LEAST_NAMESPACES {
        return Ok(Some(HistoryRejection::SmallQuorum { found: quorum, needed: LEAST_NAMESPACES }));
    }
    let mut figures = settings.percentile.of(observed.resource).iter();
    Ok((!figures.any(|figure| observed.has(figure.percentile))).then_some(HistoryRejection::Disagreement))
}

/// True if a percentile may be used: in a pool, enough namespaces must agree on it.
pub(super) fn is_usable(
    observed: &Observed<'_>,
    percentile: Percentile,
    owner: HistoryOwner,
) -> Result<bool, Malformed> {
    Ok(owner == HistoryOwner::OwnNamespace || observed.has(percentile) && observed.namespaces()? >= LEAST_NAMESPACES)
}
