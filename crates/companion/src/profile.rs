//! From what the store holds to what is published: windows, percentiles, and counts.
//!
//! Decides which days a window has and how amounts are rounded. The format, its bounds and its text are core's
//! (`headroom_core::context::usage`), because the policy reads by the same.
//!
//! Days are UTC days, and a window has every day it touches: `7d` is today so far and the seven days before, so that a
//! week's rhythm is in it whole.

pub mod adopted;
mod tags;

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::amount::Quantity;
use headroom_core::context::usage::{
    Dropped, History, ImageHistory, OomKill, Percentiles, Repository, Scope, TagKey, Usage, UsageProfile, Window,
    WindowUsage,
};
use headroom_core::image::ImageName;
use headroom_core::timestamp::Timestamp;

use self::tags::{NewestTags, Wanted};
use crate::history::day_of;
use crate::history::observed::Observed;
use crate::history::sketch::Sketch;
use crate::store::{Store, StoreError, StoredDay};

const WINDOWS: [Window; 2] = [Window::WEEK, Window::MONTH];

/// A profile of what the store knows, as of a moment.
pub fn build(store: &Store, namespace: &str, scope: Scope, now: Timestamp) -> Result<UsageProfile, StoreError> {
    let today = day_of(now.unix_seconds());
    let mut tags = NewestTags::new(today);
    match scope {
        Scope::Namespace => store.visit_namespace_moments(namespace, |seen| tags.add(seen))?,
        Scope::Pool(shard) => store.visit_shard_moments(shard, |seen| tags.add(seen))?,
    }
    let (tags, dropped) = tags.close();
    let mut builder = Builder { today, tags, images: BTreeMap::new(), open: None };
    match scope {
        Scope::Namespace => store.visit_namespace(namespace, |day| builder.add(day))?,
        Scope::Pool(shard) => store.visit_shard(shard, |day| builder.add(day))?,
    }
    builder.close();
    let images = builder.images;
    let dropped = Dropped { tags: dropped, ..Dropped::default() };
    let mut profile = UsageProfile { namespace: namespace.to_owned(), scope, collected_at: now, images, dropped };
    profile.bound();
    Ok(profile)
}

/// Takes days in the order of their repositories, and holds the sketches of one repository at a time, and of that only
/// those of the tags that were seen last.
struct Builder {
    today: u32,
    tags: Wanted,
    images: BTreeMap<Repository, ImageHistory>,
    open: Option<OpenImage>,
}

struct OpenImage {
    name: String,
    repository: Repository,
    all: OpenHistory,
    tags: BTreeMap<TagKey, OpenHistory>,
}

/// The days of each window merged, in the order of `WINDOWS`.
#[derive(Default)]
struct OpenHistory {
    windows: [OpenWindow; WINDOWS.len()],
}

#[derive(Default)]
struct OpenWindow {
    merged: Observed,
    namespaces: BTreeSet<String>,
}

impl Builder {
    fn add(&mut self, StoredDay { place, day, observed }: StoredDay) {
        if self.open.as_ref().is_none_or(|open| open.name != place.repository) {
            self.close();
        }
        let name = place.image();
        // OK because only names that were read before are stored.
        let Ok(image) = ImageName::parse(&name) else { return };
        let open = self.open.get_or_insert_with(|| OpenImage {
            name: place.repository.clone(),
            repository: Repository::of(&image),
            all: OpenHistory::default(),
            tags: BTreeMap::new(),
        });
        let age = self.today.saturating_sub(day);
        open.all.add(age, &observed, &place.namespace);
        for tag in TagKey::of(&image).filter(|tag| self.tags.is_wanted(&place.repository, tag)) {
            open.tags.entry(tag).or_default().add(age, &observed, &place.namespace);
        }
    }

    fn close(&mut self) {
        let Some(OpenImage { repository, all, tags, .. }) = self.open.take() else { return };
        // Nothing within the longest window is no history.
        let Some(all) = all.close() else { return };
        let tags = tags.into_iter().filter_map(|(key, tag)| Some((key, tag.close()?))).collect();
        self.images.insert(repository, ImageHistory { all, tags });
    }
}

impl OpenHistory {
    fn add(&mut self, age: u32, observed: &Observed, namespace: &str) {
        for (window, open) in WINDOWS.iter().zip(&mut self.windows) {
            if age <= u32::from(window.days) {
                open.merged.merge(observed);
                if !open.namespaces.contains(namespace) {
                    open.namespaces.insert(namespace.to_owned());
                }
            }
        }
    }

    fn close(self) -> Option<History> {
        let longest = self.windows.iter().map(|window| &window.merged).max_by_key(|merged| merged.last_seen)?;
        let last_seen = Timestamp::from_unix_seconds(longest.last_seen).filter(|_| longest.last_seen > 0)?;
        let kills = self.windows.last().map(|longest| longest.merged.kills()).unwrap_or_default();
        let oom_kills = kills
            .iter()
            .filter_map(|kill| {
                let at = Timestamp::from_unix_seconds(kill.at)?;
                Some(OomKill { at, memory: Quantity::from_bytes(kill.memory) })
            })
            .collect();
        let windows = WINDOWS.into_iter().zip(&self.windows);
        let windows = windows.filter(|(_, open)| !open.namespaces.is_empty());
        let windows = windows.map(|(window, open)| (window, open.close())).collect();
        Some(History { last_seen, oom_kills, windows })
    }
}

impl OpenWindow {
    fn close(&self) -> WindowUsage {
        let Observed { cpu, memory, pods, .. } = &self.merged;
        WindowUsage {
            pods: pods.count(),
            namespaces: self.namespaces.len() as u64,
            cpu: usage(cpu, cores),
            memory: usage(memory, Quantity::from_bytes),
        }
    }
}

fn usage(sketch: &Sketch, quantity: fn(u64) -> Quantity) -> Option<Usage> {
    (!sketch.is_empty()).then(|| Usage {
        // A container that lived for less than a minute was observed all the same.
        samples: sketch.seconds().div_ceil(60),
        percentiles: Percentiles::from_fn(|percentile| quantity(sketch.percentile(percentile.permille()))),
        peak: quantity(sketch.peak()),
    })
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
