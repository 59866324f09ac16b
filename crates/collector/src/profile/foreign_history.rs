//! A history that another store published, and how it is merged with ours.
//!
//! Somebody whose volume was lost, or who runs a second collector, has a young store. What is published then is, for each
//! window of an image or tag, whichever history has more samples, so that a month is not replaced by the first hour of
//! the next. The samples of the published history count less each day by the part of the window that has passed since
//! they were collected; so it gives way within the window's length whatever happens.

use std::collections::BTreeMap;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{FORMAT, OomKill, Repository, Resource, TagKey, Window, find_in_usage};
use headroom_core::image::ImageName;
use headroom_core::timestamp::Timestamp;
use headroom_usage_profile::{Histories, History, ImageHistory, Images, Percentiles, Share, Usage, WindowUsage};
use serde_json::Value;

use headroom_usage::DAY;

/// A published history, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    pub collected_at: Timestamp,
    quorum: Option<u64>,
    images: Images,
}

impl Adopted {
    /// Reads the `spec` of a profile. None if it has another format, or no history. What cannot be read of it is left
    /// out.
    pub fn read(spec: &Value) -> Option<Self> {
        let header = spec.get("header")?;
        if header.get("format")?.as_u64()? != u64::from(FORMAT) {
            return None;
        }
        let collected_at = moment(header.get("collectedAt")?)?;
        let images: Images = spec.get("images")?.as_object()?.iter().filter_map(image).collect();
        let quorum = header.get("quorum").and_then(Value::as_u64);
        (!images.is_empty()).then_some(Self { collected_at, quorum, images })
    }

    /// Adds to a root's history what this one knows better.
    pub fn merge_into(self, share: &mut Share) {
        let age = share.collected_at.unix_seconds() - self.collected_at.unix_seconds();
        for (repository, theirs) in self.images {
            let ours = share.images.entry(repository).or_default();
            // Fewer namespaces than ours have to agree might have made up a pool of a smaller quorum.
            if let Some(pool) = theirs.pool.filter(|_| self.quorum >= share.quorum) {
                merge_or_take(&mut ours.pool, pool, age);
            }
            for (namespace, theirs) in theirs.own {
                let mut known = ours.own.remove(&namespace);
                merge_or_take(&mut known, theirs, age);
                ours.own.extend(known.map(|known| (namespace, known)));
            }
        }
        share.images.retain(|_, image| image.pool.is_some() || !image.own.is_empty());
    }
}

fn merge_or_take(ours: &mut Option<Histories>, theirs: Histories, age: i64) {
    match ours {
        None => *ours = theirs.aged(age),
        Some(ours) => {
            ours.all.merge(theirs.all, age);
            merge_parts(&mut ours.tags, theirs.tags, age);
            merge_parts(&mut ours.workloads, theirs.workloads, age);
        }
    }
}

fn merge_parts<Key: Ord>(ours: &mut BTreeMap<Key, History>, theirs: BTreeMap<Key, History>, age: i64) {
    for (key, theirs) in theirs {
        match ours.get_mut(&key) {
            None => ours.extend(theirs.aged(age).map(|theirs| (key, theirs))),
            Some(ours) => ours.merge(theirs, age),
        }
    }
}

/// What is left of a history after some seconds.
trait Aged: Sized {
    fn aged(self, age: i64) -> Option<Self>;
}

impl Aged for Histories {
    fn aged(self, age: i64) -> Option<Self> {
        fn parts<Key: Ord>(parts: BTreeMap<Key, History>, age: i64) -> BTreeMap<Key, History> {
            parts.into_iter().filter_map(|(key, part)| Some((key, part.aged(age)?))).collect()
        }
        let (tags, workloads) = (parts(self.tags, age), parts(self.workloads, age));
        // What was compared elsewhere is not ours to tell.
        Some(Self { collected_at: self.collected_at, tags, workloads, ..Self::of(self.all.aged(age)?) })
    }
}

impl Aged for History {
    fn aged(mut self, age: i64) -> Option<Self> {
        self.windows.retain(|window, usage| weight(*window, usage, age) > 0);
        (!self.windows.is_empty()).then_some(self)
    }
}

trait Merge {
    fn merge(&mut self, theirs: Self, age: i64);
}

impl Merge for History {
    fn merge(&mut self, theirs: Self, age: i64) {
        self.last_seen = self.last_seen.max(theirs.last_seen);
        self.days = self.days.max(theirs.days);
        for (window, theirs) in theirs.windows {
            let ours = self.windows.get(&window).map_or(0, |ours| weight(window, ours, 0));
            if weight(window, &theirs, age) > ours {
                self.windows.insert(window, theirs);
            }
        }
        let known: Vec<_> = self.oom_kills.iter().map(|kill| kill.at).collect();
        self.oom_kills.extend(theirs.oom_kills.into_iter().filter(|kill| !known.contains(&kill.at)));
        self.oom_kills.sort_by_key(|kill| std::cmp::Reverse(kill.at));
    }
}

/// How much a window's usage counts for: its samples, times the seconds of the window that have not passed since.
fn weight(window: Window, usage: &WindowUsage, age: i64) -> u128 {
    let samples = Resource::ALL.into_iter().filter_map(|resource| usage.of(resource)).map(|usage| usage.samples);
    let samples = samples.max().unwrap_or(0);
    let left = (i64::from(window.days()) * DAY).saturating_sub(age.max(0)).max(0);
    u128::from(samples) * u128::from(left.unsigned_abs())
}

fn image((key, entry): (&String, &Value)) -> Option<(Repository, ImageHistory)> {
    let repository = key.replace(',', ".");
    let name = ImageName::parse(&repository).ok().filter(|name| name.repository() == repository)?;
    let pool = entry.get("pool").and_then(|pool| histories(&repository, pool));
    let own = entry.get("own").and_then(Value::as_object).into_iter().flatten();
    let own = own.filter_map(|(namespace, own)| Some((namespace.clone(), histories(&repository, own)?))).collect();
    Some((Repository::of(&name), ImageHistory { pool, own }))
}

fn histories(repository: &str, histories: &Value) -> Option<Histories> {
    let all = histories.get("all")?;
    let collected_at = all.get("collectedAt").and_then(moment);
    let tags = histories.get("tags").and_then(Value::as_object).into_iter().flatten();
    let tags = tags.filter_map(|(key, tag)| Some((tag_key(repository, key)?, history(tag)?)));
    let mut tags: BTreeMap<_, _> = tags.collect();
    let same = all.get("same").and_then(Value::as_str).unwrap_or_default();
    let all = history(all)?;
    tags.extend(same.split(' ').filter_map(|key| Some((tag_key(repository, key)?, all.clone()))));
    let workloads = histories.get("workloads").and_then(Value::as_object).into_iter().flatten();
    let workloads = workloads.filter_map(|(key, workload)| Some((key.clone(), history(workload)?)));
    let same_workloads = same.split(' ').filter(|key| key.contains('/')).map(|key| (key.to_owned(), all.clone()));
    let workloads = workloads.chain(same_workloads).collect();
    Some(Histories { collected_at, tags, workloads, ..Histories::of(all) })
}

/// The key of a tag or digest is made again from the name that it stands for.
fn tag_key(repository: &str, key: &str) -> Option<TagKey> {
    let reference = key.replace(',', ".");
    let mark = if reference.contains(':') { '@' } else { ':' };
    let name = format!("{repository}{mark}{reference}");
    TagKey::of(&ImageName::parse(&name).ok()?).find(|found| found.as_str() == key)
}

fn history(history: &Value) -> Option<History> {
    let kills = history.get("oomKills").and_then(Value::as_array).into_iter().flatten();
    let oom_kills = kills.filter_map(|kill| {
        let memory = kill.get("memory")?.as_str()?.parse().ok()?;
        Some(OomKill { at: moment(kill.get("at")?)?, memory })
    });
    let windows = history.get("windows")?.as_object()?.iter();
    let windows = windows.filter_map(|(window, usage)| Some((window.parse().ok()?, window_usage(usage)?)));
    Some(History {
        last_seen: moment(history.get("lastSeen")?)?,
        days: history.get("days").and_then(Value::as_u64).unwrap_or(1),
        oom_kills: oom_kills.collect(),
        windows: windows.collect(),
    })
}

fn window_usage(window: &Value) -> Option<WindowUsage> {
    let count = |name: &str| window.get(name).and_then(Value::as_u64);
    let usage = |name: &str| window.get(name).and_then(Value::as_str).and_then(usage);
    Some(WindowUsage {
        pods: count("pods")?,
        namespaces: count("namespaces")?,
        cpu: usage("cpu"),
        memory: usage("memory"),
        ephemeral_storage: usage("ephemeral-storage"),
    })
}

fn usage(text: &str) -> Option<Usage> {
    let amount = |name: &str| find_in_usage(text, name)?.parse::<Quantity>().ok();
    let samples = find_in_usage(text, "samples")?.parse().ok()?;
    let percentiles = Percentiles::agreed(|of| amount(of.name()));
    Some(Usage { samples, peak: amount("peak"), percentiles })
}

fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::cluster::usage::Root;
    use headroom_usage_profile::Dropped;

    const NOW: i64 = 1_795_219_200;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds).unwrap()
    }

    /// `samples` of a window, all of that many megabytes.
    fn of(window: Window, samples: u64, megabytes: u64) -> (Window, WindowUsage) {
        let amount = Quantity::from_bytes(megabytes << 20);
        let memory =
            Usage { samples, peak: Some(amount.clone()), percentiles: Percentiles::from_fn(|_| amount.clone()) };
        (window, WindowUsage { pods: 2, namespaces: 1, cpu: None, memory: Some(memory), ephemeral_storage: None })
    }

    fn history(windows: &[(Window, WindowUsage)], kills: &[i64]) -> History {
        let oom_kills = kills.iter().map(|at_| OomKill { at: at(*at_), memory: Quantity::from_bytes(1) }).collect();
        History { last_seen: at(NOW), days: 3, oom_kills, windows: windows.iter().cloned().collect() }
    }

    fn share(collected_at: i64, images: &[(&str, History)]) -> Share {
        let mut share = Share {
            namespace: "headroom".to_owned(),
            root: Root::of("docker.io/library/nginx"),
            collected_at: at(collected_at),
            quorum: Some(3),
            images: BTreeMap::new(),
            dropped: Dropped::default(),
        };
        for (name, history) in images {
            let name = ImageName::parse(name).unwrap();
            let tags = TagKey::of(&name).map(|key| (key, history.clone())).collect();
            let shop = Histories { tags, ..Histories::of(history.clone()) };
            let own = BTreeMap::from([("shop".to_owned(), shop.clone())]);
            share.images.insert(Repository::of(&name), ImageHistory { pool: Some(shop), own });
        }
        share
    }

    fn published(share: &Share) -> Adopted {
        let object = share.clone().lay_out().pop().unwrap();
        let object: Value = serde_json::from_str(&object.to_string()).unwrap();
        Adopted::read(&object["spec"]).unwrap()
    }

    #[test]
    fn what_is_published_is_read_back() {
        let digest = format!("redis:7@sha256:{}", "a".repeat(64));
        let month = history(&[of(Window::WEEK, 70, 10), of(Window::MONTH, 300, 20)], &[NOW - 5, NOW - 9]);
        let whole = share(NOW, &[("nginx:1.27.1", month.clone()), (digest.as_str(), month)]);
        let mut read = share(NOW, &[]);
        published(&whole).merge_into(&mut read);
        assert_eq!(read.images, whole.images);
        for header in [serde_json::json!({"format": 99}), serde_json::json!({"format": 2, "collectedAt": "x"})] {
            assert_eq!(Adopted::read(&serde_json::json!({"header": header, "images": {}})), None);
        }
    }

    #[test]
    fn of_each_window_the_longer_history_is_kept() {
        let (week, month) = (Window::WEEK, Window::MONTH);
        let mut ours = share(NOW, &[("nginx", history(&[of(week, 60, 1), of(month, 60, 1)], &[NOW - 5]))]);
        let theirs = share(
            NOW - 4 * DAY,
            &[
                ("nginx", history(&[of(week, 100, 2), of(month, 1000, 2)], &[NOW - 5, NOW - 9])),
                ("redis", history(&[of(month, 5, 3)], &[])),
            ],
        );
        published(&theirs).merge_into(&mut ours);
        // Of a week that was collected four days ago, three days are left: 100 samples count for 43.
        let expected = history(&[of(week, 60, 1), of(month, 1000, 2)], &[NOW - 5, NOW - 9]);
        let redis = history(&[of(month, 5, 3)], &[]);
        let of_images = |histories: fn(&ImageHistory) -> &Histories| -> Vec<_> {
            ours.images.iter().map(|(repository, image)| (repository.as_str(), &histories(image).all)).collect()
        };
        for histories in [of_images(|image| &image.own["shop"]), of_images(|image| image.pool.as_ref().unwrap())] {
            assert_eq!(histories, [("docker.io/library/nginx", &expected), ("docker.io/library/redis", &redis)]);
        }
    }

    #[test]
    fn a_pool_of_a_smaller_quorum_is_not_taken_over() {
        for (theirs_of, is_taken) in [(None, false), (Some(2), false), (Some(3), true), (Some(4), true)] {
            let mut theirs = share(NOW, &[("nginx", history(&[of(Window::WEEK, 100, 2)], &[]))]);
            theirs.quorum = theirs_of;
            let mut ours = share(NOW, &[]);
            published(&theirs).merge_into(&mut ours);
            let image = ours.images.values().next().unwrap();
            assert_eq!((image.pool.is_some(), image.own.len()), (is_taken, 1), "{theirs_of:?}");
        }
    }

    #[test]
    fn a_history_that_is_older_than_its_windows_is_gone() {
        let theirs = share(NOW - 8 * DAY, &[("nginx", history(&[of(Window::WEEK, 100, 2)], &[]))]);
        let mut ours = share(NOW, &[]);
        published(&theirs).merge_into(&mut ours);
        assert!(ours.images.is_empty());
    }
}
