//! How much a profile may hold, and what goes first when that is too little room.
//!
//! Every collection bounds a profile before it writes it, in this order:
//! 1. of a history's out-of-memory kills, the oldest beyond 5;
//! 2. of an image's tags, the least recently seen beyond 20;
//! 3. of an object's images, the least recently seen beyond 1,000;
//! 4. while the text is longer than 900 KiB, the least recently seen tag of the whole object, except that each image
//!    keeps its most recent one: without it the image is still served by its history over all tags;
//! 5. while that is not enough, the least recently seen image.
//!
//! 900 KiB, because the store behind the API server takes 1.5 MiB with all that is written around it. Of two histories
//! last seen at the same moment the one later in the alphabet goes, so that the same input always gives the same text.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::{History, UsageProfile, manifest};
use headroom_core::cluster::usage::{MOST_OOM_KILLS, Repository, TagKey};
use headroom_core::timestamp::Timestamp;

const MOST_TAGS: usize = 20;
const MOST_IMAGES: usize = 1_000;
const MOST_BYTES: usize = 900 * 1024;

/// How many histories found no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    pub images: usize,
    /// Of images that are still there.
    pub tags: usize,
}

impl UsageProfile {
    /// Drops what is too much and counts it in `dropped`.
    pub fn bound(&mut self) {
        for image in self.images.values_mut() {
            image.tags.values_mut().chain([&mut image.all]).for_each(keep_newest_oom_kills);
            self.dropped.tags += drop_beyond(MOST_TAGS, &mut image.tags, |tag| tag.last_seen);
        }
        self.dropped.images += drop_beyond(MOST_IMAGES, &mut self.images, |image| image.all.last_seen);
        self.bound_bytes();
    }

    /// Counts down from the length of the whole text; the commas between what goes stay counted, to the safe side.
    fn bound_bytes(&mut self) {
        let mut bytes = length(|out| write!(out, "{self}"));
        if bytes <= MOST_BYTES {
            return;
        }
        for (_, Reverse((repository, key))) in self.spare_tags() {
            if bytes <= MOST_BYTES {
                return;
            }
            let Some(image) = self.images.get_mut(&repository) else { continue };
            let Some(tag) = image.tags.remove(&key) else { continue };
            bytes -= length(|out| manifest::tag(out, &key, &tag));
            self.dropped.tags += 1;
        }
        for (_, Reverse(repository)) in oldest_first(&self.images, |image| image.all.last_seen) {
            if bytes <= MOST_BYTES {
                return;
            }
            let Some(image) = self.images.remove(&repository) else { continue };
            bytes -= length(|out| manifest::entry(out, &repository, &image));
            self.dropped.images += 1;
        }
    }

    /// All tags but the most recent one of each image, in the order in which they go.
    fn spare_tags(&self) -> Vec<Aged<(Repository, TagKey)>> {
        let mut spare = Vec::new();
        for (repository, image) in &self.images {
            let mut tags = oldest_first(&image.tags, |tag| tag.last_seen);
            tags.pop();
            spare.extend(tags.into_iter().map(|(seen, Reverse(key))| (seen, Reverse((repository.clone(), key)))));
        }
        spare.sort();
        spare
    }
}

/// Sorts by when it was last seen, then from the end of the alphabet.
type Aged<Key> = (Timestamp, Reverse<Key>);

fn oldest_first<Key: Ord + Clone, T>(entries: &BTreeMap<Key, T>, last_seen: fn(&T) -> Timestamp) -> Vec<Aged<Key>> {
    let mut keys: Vec<_> = entries.iter().map(|(key, entry)| (last_seen(entry), Reverse(key.clone()))).collect();
    keys.sort();
    keys
}

fn drop_beyond<Key: Ord + Clone, T>(
    most: usize,
    entries: &mut BTreeMap<Key, T>,
    last_seen: fn(&T) -> Timestamp,
) -> usize {
    let too_many = entries.len().saturating_sub(most);
    if too_many > 0 {
        for (_, Reverse(key)) in oldest_first(entries, last_seen).into_iter().take(too_many) {
            entries.remove(&key);
        }
    }
    too_many
}

fn keep_newest_oom_kills(history: &mut History) {
    history.oom_kills.sort_by_key(|kill| Reverse(kill.at));
    history.oom_kills.truncate(MOST_OOM_KILLS);
}

/// How many bytes `text` writes.
fn length(text: impl FnOnce(&mut Length) -> fmt::Result) -> usize {
    let mut length = Length(0);
    // Counting cannot fail, and nothing that is written here fails by itself.
    match text(&mut length) {
        Ok(()) | Err(fmt::Error) => length.0,
    }
}

struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn tags_of(profile: &UsageProfile, repository: &str) -> Vec<String> {
        let repository = Repository::of(&sample::image(repository));
        profile.images[&repository].tags.keys().map(TagKey::reference).collect()
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let mut profile = sample::profile();
        profile.bound();
        assert_eq!(profile, sample::profile());
    }

    #[test]
    fn an_image_keeps_the_tags_seen_last() {
        let mut profile = sample::profile_of((0..25).map(|version| format!("app:{version:02}")));
        profile.bound();
        let expected: Vec<String> = (5..25).map(|version| format!("{version:02}")).collect();
        assert_eq!(tags_of(&profile, "app"), expected);
        assert_eq!(profile.dropped, Dropped { images: 0, tags: 5 });
    }

    #[test]
    fn of_tags_seen_together_the_first_in_the_alphabet_stay() {
        let mut profile = sample::profile_of((0..25).map(|version| format!("app:{version:02}")));
        for image in profile.images.values_mut() {
            let all = image.all.last_seen;
            image.tags.values_mut().for_each(|tag| tag.last_seen = all);
        }
        profile.bound();
        let expected: Vec<String> = (0..20).map(|version| format!("{version:02}")).collect();
        assert_eq!(tags_of(&profile, "app"), expected);
    }

    #[test]
    fn a_history_keeps_its_latest_kills() {
        let mut profile = sample::profile();
        for image in profile.images.values_mut() {
            let kill = image.all.oom_kills[0].clone();
            image.all.oom_kills.extend((0..6).map(|hour| super::super::OomKill {
                at: sample::at(&format!("2026-11-20T0{hour}:00:00Z")),
                memory: kill.memory.clone(),
            }));
        }
        profile.bound();
        for image in profile.images.values() {
            let hours: Vec<String> = image.all.oom_kills.iter().map(|kill| kill.at.to_string()).collect();
            assert_eq!(hours, [5, 4, 3, 2, 1].map(|hour| format!("2026-11-20T0{hour}:00:00Z")));
        }
    }

    #[test]
    fn when_room_is_short_old_tags_go_before_images() {
        // Two histories of some 410 bytes each an image, and one more for each further tag.
        let images = (0..900).map(|number| format!("app-{number}:old"));
        let updates = (0..900).map(|number| format!("app-{number}:new"));
        let mut profile = sample::profile_of(images.chain(updates));
        profile.bound();
        assert!(profile.to_string().len() <= MOST_BYTES);
        assert_eq!(profile.images.len() + profile.dropped.images, 900);
        assert_eq!((profile.dropped.images, profile.dropped.tags > 0), (0, true), "{:?}", profile.dropped);
        // The oldest went, and no further than needed.
        assert_eq!(tags_of(&profile, "app-0"), ["new"]);
        assert_eq!(tags_of(&profile, "app-899"), ["new", "old"]);
        assert!(profile.to_string().len() > MOST_BYTES - 4096);
    }

    #[test]
    fn when_no_tag_can_be_spared_the_images_seen_first_go() {
        let mut profile = sample::profile_of((0..1_200).map(|number| format!("app-{number}:v1")));
        profile.bound();
        assert!(profile.to_string().len() <= MOST_BYTES);
        assert_eq!(profile.images.len() + profile.dropped.images, 1_200);
        assert!(!profile.images.contains_key(&Repository::of(&sample::image("app-0"))));
        assert!(profile.images.contains_key(&Repository::of(&sample::image("app-1199"))));
        assert!(profile.images.values().all(|image| image.tags.len() == 1));
    }

    #[test]
    fn bounding_twice_drops_nothing_more() {
        let mut once = sample::profile_of((0..1_200).map(|number| format!("app-{number}:v1")));
        once.bound();
        let mut twice = once.clone();
        twice.bound();
        assert_eq!(once, twice);
    }
}
