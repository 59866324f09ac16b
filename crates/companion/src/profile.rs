//! From what the store holds to what is published: windows, percentiles, and counts.
//!
//! Decides which days a window has and how amounts are rounded; [`pool`] decides what many namespaces say together. The
//! format, its bounds and its text are core's (`headroom_advice::profile`), because the policy reads by the same.
//!
//! Days are UTC days, and a window has every day it touches: `7d` is today so far and the seven days before, so that a
//! week's rhythm is in it whole. `recent` has the days of `30d`, each weighing half of the day after it.

pub mod adopted;
pub(crate) mod open;
mod pool;
mod tags;

use std::collections::BTreeMap;

use headroom_advice::profile::{Dropped, History, ImageHistory, UsageProfile};
use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{Repository, Scope, TagKey};
use headroom_core::glob;
use headroom_core::image::ImageName;
use headroom_core::timestamp::Timestamp;

use self::open::OpenHistory;
use self::pool::OpenPool;
use self::tags::{NewestTags, Wanted};
use crate::history::bytes::Damaged;
use crate::history::day_of;
use crate::store::{Store, StoreError, StoredDay};

/// Whose word counts in the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooling {
    /// Fewer namespaces than this cannot move a figure out of what the others use.
    pub quorum: u64,
    /// Patterns of the namespaces that are heard; all if there are none.
    pub namespaces: Vec<String>,
}

impl Default for Pooling {
    fn default() -> Self {
        Self { quorum: 3, namespaces: Vec::new() }
    }
}

impl Pooling {
    fn hears(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|pattern| glob::matches(pattern, namespace))
    }
}

/// A profile of what the store knows, as of a moment.
pub fn build(
    store: &Store,
    namespace: &str,
    scope: Scope,
    now: Timestamp,
    pooling: &Pooling,
) -> Result<UsageProfile, StoreError> {
    let today = day_of(now.unix_seconds());
    let mut tags = NewestTags::new(today);
    match scope {
        Scope::Namespace => store.visit_namespace_moments(namespace, |seen| tags.add(seen))?,
        Scope::Pool(shard) => store.visit_shard_moments(shard, |seen| tags.add(seen))?,
    }
    let (tags, dropped) = tags.close();
    let images = match scope {
        Scope::Namespace => {
            let mut builder = Builder::<OpenHistory>::new(today, tags);
            store.visit_namespace(namespace, |day| builder.add(day, &()))?;
            builder.finish(&())
        }
        Scope::Pool(shard) => {
            let mut builder = Builder::<OpenPool>::new(today, tags);
            store.visit_shard(shard, |day| {
                if pooling.hears(&day.place.namespace) {
                    builder.add(day, &pooling.quorum);
                }
            })?;
            builder.finish(&pooling.quorum)
        }
    };
    let images = images.map_err(|damaged| store.damaged(damaged))?;
    let quorum = (scope != Scope::Namespace).then_some(pooling.quorum);
    let mut profile = UsageProfile {
        namespace: namespace.to_owned(),
        scope,
        collected_at: now,
        quorum,
        images,
        dropped: Dropped { tags: dropped, ..Dropped::default() },
    };
    profile.bound();
    Ok(profile)
}

/// What is being gathered for one history.
trait Open: Default {
    /// What its end depends on besides.
    type Rules;

    fn add(&mut self, age: u32, day: &StoredDay) -> Result<(), Damaged>;
    /// None if nothing was observed within the longest window.
    fn close(self, rules: &Self::Rules) -> Result<Option<History>, Damaged>;
}

/// Takes days in the order of their repositories, and holds the sketches of one repository at a time, and of that only
/// those of the tags that were seen last.
struct Builder<O> {
    today: u32,
    tags: Wanted,
    images: BTreeMap<Repository, ImageHistory>,
    open: Option<OpenImage<O>>,
    damaged: Option<Damaged>,
}

struct OpenImage<O> {
    name: String,
    repository: Repository,
    all: O,
    tags: BTreeMap<TagKey, O>,
}

impl<O: Open> Builder<O> {
    fn new(today: u32, tags: Wanted) -> Self {
        Self { today, tags, images: BTreeMap::new(), open: None, damaged: None }
    }

    fn add(&mut self, day: StoredDay, rules: &O::Rules) {
        if let Err(damaged) = self.try_add(&day, rules) {
            self.damaged = Some(damaged);
        }
    }

    fn try_add(&mut self, day: &StoredDay, rules: &O::Rules) -> Result<(), Damaged> {
        if self.open.as_ref().is_none_or(|open| open.name != day.place.repository) {
            self.close(rules)?;
        }
        let name = day.place.image();
        // OK because only names that were read before are stored.
        let Ok(image) = ImageName::parse(&name) else { return Ok(()) };
        let open = self.open.get_or_insert_with(|| OpenImage {
            name: day.place.repository.clone(),
            repository: Repository::of(&image),
            all: O::default(),
            tags: BTreeMap::new(),
        });
        let age = self.today.saturating_sub(day.day);
        open.all.add(age, day)?;
        for tag in TagKey::of(&image).filter(|tag| self.tags.is_wanted(&day.place.repository, tag)) {
            open.tags.entry(tag).or_default().add(age, day)?;
        }
        Ok(())
    }

    fn close(&mut self, rules: &O::Rules) -> Result<(), Damaged> {
        let Some(OpenImage { repository, all, tags, .. }) = self.open.take() else { return Ok(()) };
        // Nothing within the longest window is no history.
        let Some(all) = all.close(rules)? else { return Ok(()) };
        let mut histories = BTreeMap::new();
        for (key, tag) in tags {
            if let Some(history) = tag.close(rules)? {
                histories.insert(key, history);
            }
        }
        self.images.insert(repository, ImageHistory { all, tags: histories });
        Ok(())
    }

    fn finish(mut self, rules: &O::Rules) -> Result<BTreeMap<Repository, ImageHistory>, Damaged> {
        self.close(rules)?;
        self.damaged.map_or(Ok(self.images), Err)
    }
}

/// Cores, of nanocores. From a thousandth of a core up whole millionths are written, at most 0.1 % more: nobody asks
/// for billionths, and they triple the length of the text.
fn cores(nanocores: u64) -> Quantity {
    const MICRO: u64 = 1_000;
    const MILLI: u64 = 1_000_000;
    let nanocores = if nanocores < MILLI { nanocores } else { nanocores.div_ceil(MICRO).saturating_mul(MICRO) };
    Quantity::from_units(i64::try_from(nanocores).unwrap_or(i64::MAX)).scaled(1, 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_written_in_millionths_unless_there_are_few() {
        let check = |nanocores, text| assert_eq!(cores(nanocores).to_string(), text);
        check(0, "0");
        check(999_999, "999999n");
        check(1_000_000, "1m");
        check(12_345_678, "12346u");
        check(2_500_000_000, "2500m");
        check(3_000_000_000, "3");
    }
}
