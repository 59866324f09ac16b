//! Makes UsageProfiles from the store: windows, percentiles, and counts. [`cluster_pool`] makes the pooled histories; format,
//! bounds and layout are those of `headroom_usage::profile`.
//!
//! Days are UTC days, and a window has every day it touches: `7d` is today so far and the seven days before, so that it has
//! a whole week. `recent` has the days of `30d`, each with half the weight of the next. Of the days that follow each other, those of
//! a workload or of one reference in a namespace, only what a request covers is published ([`headroom_usage::covered`]).

mod cluster_pool;
mod tags;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::cluster::usage::{Repository, Root, TagKey};
use headroom_admission::glob;
use headroom_admission::timestamp::Timestamp;
use headroom_usage::batch::{Place, WorkloadPlace};
use headroom_usage::day_of;
use headroom_usage::observed::Observed;
use headroom_usage::profile::{Histories, ImageHistory, Images, RestrictedNamespaces, Share};
use headroom_usage::varint::Damaged;
use headroom_usage::window_merge::OpenHistory;

use self::cluster_pool::{Gathering, InNamespaces, Voter};
use self::tags::{NewestTags, Wanted};
use crate::store::{Store, StoreError};

/// The namespaces of pooled histories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooling {
    /// Fewer namespaces than this cannot move a figure out of the range of the others.
    pub quorum: u64,
    /// Patterns of namespaces that count in the pool. Empty: all.
    pub namespaces: Vec<String>,
    /// The tenant of each namespace that has one. The namespaces of a tenant count once, together.
    pub tenants: BTreeMap<String, String>,
}

impl Default for Pooling {
    fn default() -> Self {
        Self { quorum: 3, namespaces: Vec::new(), tenants: BTreeMap::new() }
    }
}

impl Pooling {
    fn includes(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|pattern| glob::matches(pattern, namespace))
    }

    /// The one who votes for a namespace. A namespace without a tenant votes for itself, and is no tenant of the same name.
    fn voter<'v>(&'v self, namespace: &'v str) -> Voter<'v> {
        self.tenants.get(namespace).map_or(Voter::Namespace(namespace), |tenant| Voter::Tenant(tenant))
    }
}

/// When usage was collected: at a time, and in some namespaces earlier.
#[derive(Debug, Clone)]
pub struct Collected<'a> {
    pub at: Timestamp,
    pub behind: &'a BTreeMap<String, Timestamp>,
    /// The namespaces that may ask for fewer estimates; none if they are unknown.
    pub restricted: Option<&'a RestrictedNamespaces>,
}

/// Builds the profile of a root from all its images in the store, for objects in a namespace.
pub fn build(
    store: &Store,
    namespace: &str,
    root: Root,
    collected: &Collected<'_>,
    pooling: &Pooling,
) -> Result<Share, StoreError> {
    let today = day_of(collected.at.unix_seconds());
    let mut tags = NewestTags::new(today);
    store.visit_root(root, Observed::read_last_seen, |place, days| tags.add(place, &days))?;
    let (tags, dropped) = tags.close();
    let mut builder = Builder { tags, collected, pooling, images: Images::new(), open: None };
    let mut added = Ok(());
    store.visit_root(root, Observed::read, |place, days| {
        if added.is_ok() {
            added = builder.add(&place, &covered(days, today));
        }
    })?;
    added.and_then(|()| builder.close()).map_err(|damaged| store.damaged(damaged))?;
    let mut images = builder.images;
    store.visit_workloads(root, |place, days| add_workload(&mut images, place, &covered(days, today)))?;
    let mut share = Share {
        quorum: Some(pooling.quorum),
        images,
        restricted: collected.restricted.cloned(),
        dropped_tags: dropped,
        ..Share::empty(namespace, root, collected.at, store.page_key())
    };
    share.bound();
    Ok(share)
}

/// The part of some days that a request covers.
fn covered(days: BTreeMap<u32, Observed>, today: u32) -> OpenHistory {
    let by_age = days.into_iter().map(|(day, observed)| (today.saturating_sub(day), observed));
    OpenHistory::covering(by_age.collect(), &BTreeSet::new()).0
}

/// Adds days in the order of their repositories. Holds the sketches of one repository at a time, and of its newest tags.
struct Builder<'a> {
    tags: Wanted,
    collected: &'a Collected<'a>,
    pooling: &'a Pooling,
    images: Images,
    open: Option<OpenImage>,
}

struct OpenImage {
    repository: Repository,
    all: Gathering,
    tags: BTreeMap<TagKey, Gathering>,
}

impl Builder<'_> {
    /// Adds the days of one reference in one namespace.
    fn add(&mut self, place: &Place, days: &OpenHistory) -> Result<(), Damaged> {
        if self.open.as_ref().is_some_and(|open| open.repository != place.repository) {
            self.close()?;
        }
        let open = self.open.get_or_insert_with(|| OpenImage {
            repository: place.repository.clone(),
            all: Gathering::default(),
            tags: BTreeMap::new(),
        });
        open.all.add(&place.namespace, days)?;
        for tag in TagKey::of_reference(&place.reference).filter(|tag| self.tags.is_wanted(place, tag)) {
            open.tags.entry(tag).or_default().add(&place.namespace, days)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Damaged> {
        let Some(OpenImage { repository, all, tags }) = self.open.take() else { return Ok(()) };
        let InNamespaces { together, each } = all.close(self.pooling)?;
        // All days are older than the longest window.
        if each.is_empty() {
            return Ok(());
        }
        let behind = |namespace: &str| self.collected.behind.get(namespace).copied();
        let own = each.into_iter().map(|(namespace, all)| {
            let collected_at = behind(&namespace);
            (namespace, Histories { collected_at, ..Histories::of(all) })
        });
        let mut image = ImageHistory { pool: together.map(Histories::of), own: own.collect() };
        for (key, tag) in tags {
            let InNamespaces { together, each } = tag.close(self.pooling)?;
            if let (Some(pool), Some(together)) = (&mut image.pool, together)
                && self.tags.is_wanted_of_pool(&repository, &key)
            {
                pool.tags.insert(key.clone(), together);
            }
            for (namespace, history) in each {
                if self.tags.is_wanted_of(&repository, &namespace, &key)
                    && let Some(own) = image.own.get_mut(&namespace)
                {
                    own.tags.insert(key.clone(), history);
                }
            }
        }
        self.images.insert(repository, image);
        Ok(())
    }
}

/// Containers of workloads with one image in one namespace that are kept here: more than a profile keeps.
const MAX_WORKLOADS: usize = 16;

/// Adds the history of a container of a workload to that of its namespace.
fn add_workload(images: &mut Images, place: WorkloadPlace, days: &OpenHistory) {
    let own = images.get_mut(&place.repository).and_then(|image| image.own.get_mut(&place.namespace));
    let Some((own, history)) = own.zip(days.history()) else { return };
    own.workloads.insert(place.workload, history);
    if own.workloads.len() > 2 * MAX_WORKLOADS {
        let mut newest = Vec::from_iter(std::mem::take(&mut own.workloads));
        newest.sort_by_key(|(_, history)| Reverse(history.last_seen));
        newest.truncate(MAX_WORKLOADS);
        own.workloads.extend(newest);
    }
}
