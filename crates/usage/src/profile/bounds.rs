//! Bounds of the history of an image, and the order in which parts of it are dropped.
//!
//! Each image in each namespace must fit into one object together with the image's pool ([`super::layout`]), so both
//! are bounded before they are written. The least recently seen tags and workloads are dropped, beyond 8 each; then, tags
//! first, those beyond [`MAX_BYTES`] of text. For a tag or workload without a history of its own, readers use that of all
//! tags together.
//!
//! If two histories were last seen at the same time, the one later in the alphabet is dropped, so that equal input gives equal
//! text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Histories, History, Share};

/// Most tags, and most workloads.
pub(super) const MAX_PARTS: usize = 8;
/// For an image in a namespace, and for its pool.
pub(super) const MAX_BYTES: usize = 6_000;
/// For the pool of an image that does not fit into one object otherwise: each of the image's pages repeats the pool.
pub(super) const MAX_BYTES_OF_SHARED_POOL: usize = 3_500;
/// The most nodes in a list of pages. Those of a quarter have fewer, unless hashes agree in most of their bits.
pub const MAX_NODES: usize = 8_000;
/// The most bytes in the pages of a quarter.
pub(super) const MAX_BYTES_OF_PAGES: usize = 8 << 20;
/// The longest list of namespaces that ask for fewer estimates: some 60 names. It is read for every pod.
pub const MAX_BYTES_OF_RESTRICTED: usize = 1_024;

impl Share {
    /// Drops what is beyond the bounds and counts it in `dropped_tags`.
    pub fn bound(&mut self) {
        let images = self.images.values_mut();
        let histories = images.flat_map(|image| image.own.values_mut().chain(&mut image.pool));
        self.dropped_tags += histories.map(|histories| histories.bound(MAX_BYTES)).sum::<usize>();
    }
}

impl Histories {
    /// Drops what is beyond `most_bytes` of text. Returns the number of dropped tags.
    pub(super) fn bound(&mut self, most_bytes: usize) -> usize {
        let before = self.tags.len();
        let mut tags = keep_newest(&mut self.tags, &self.all);
        let mut workloads = keep_newest(&mut self.workloads, &self.all);
        while self.bytes() > most_bytes {
            match (tags.pop(), workloads.pop()) {
                (Some(oldest), workload) => {
                    self.tags.remove(&oldest);
                    workloads.extend(workload);
                }
                (None, Some(oldest)) => {
                    self.workloads.remove(&oldest);
                }
                (None, None) => break,
            }
        }
        before - self.tags.len()
    }

    /// The length of their JSON text.
    pub(super) fn bytes(&self) -> usize {
        json_length(self)
    }
}

/// The length of the JSON text of a part of a profile.
pub(super) fn json_length(part: &impl Serialize) -> usize {
    // OK because all fields have texts or numbers, and all keys are texts.
    serde_json::to_string(part).unwrap_or_default().len()
}

/// Drops the least recently seen beyond [`MAX_PARTS`]. Returns the keys of those that take room, the newest first. A
/// part equal to `all` is only named, so it takes hardly any room.
fn keep_newest<Key: Ord + Clone>(parts: &mut BTreeMap<Key, History>, all: &History) -> Vec<Key> {
    let mut keys: Vec<_> = parts.iter().map(|(key, part)| (Reverse(part.last_seen), key.clone())).collect();
    keys.sort();
    for (_, key) in keys.split_off(keys.len().min(MAX_PARTS)) {
        parts.remove(&key);
    }
    keys.retain(|(_, key)| parts.get(key) != Some(all));
    keys.into_iter().map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use headroom_admission::cluster::usage::TagKey;

    fn tags_of(share: &Share) -> Vec<String> {
        let own = share.images.values().flat_map(|image| image.own.values());
        own.flat_map(|own| own.tags.keys().map(TagKey::reference)).collect()
    }

    #[test]
    fn a_share_that_fits_is_unchanged() {
        let mut share = sample::share_of(["nginx:1.27".to_owned(), "nginx:1.28".to_owned()]);
        let before = share.clone();
        share.bound();
        assert_eq!(share, before);
    }

    #[test]
    fn an_image_keeps_the_most_recently_seen_tags() {
        let mut share = sample::share_of((0..25).map(|version| format!("app:{version:02}")));
        share.bound();
        let kept = tags_of(&share);
        let expected: Vec<String> = (0..25).map(|version| format!("{version:02}")).collect();
        assert_eq!(kept, expected[25 - kept.len()..]);
        assert!((4..=MAX_PARTS).contains(&kept.len()), "{kept:?}");
        assert_eq!(share.dropped_tags, 25 - kept.len());
        let own = share.images.values().flat_map(|image| image.own.values());
        assert!(own.map(Histories::bytes).all(|bytes| bytes <= MAX_BYTES));
    }

    #[test]
    fn of_tags_seen_at_the_same_time_the_first_in_the_alphabet_are_kept() {
        let mut share = sample::share_of((0..25).map(|version| format!("app:{version:02}")));
        for own in share.images.values_mut().flat_map(|image| image.own.values_mut()) {
            let seen = own.all.last_seen;
            own.tags.values_mut().for_each(|tag| tag.last_seen = seen);
            // So that no tag's history equals that of all tags together.
            own.all.days += 1;
        }
        share.bound();
        assert_eq!(tags_of(&share)[..3], ["00", "01", "02"]);
    }
}
