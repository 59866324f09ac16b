//! Which tags of a repository are worth their memory. A profile keeps the few that were seen last; a repository of a CI
//! system has tens of thousands, each with sketches of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use headroom_core::cluster::usage::{TagKey, Window};
use headroom_core::image::ImageName;

use crate::store::Seen;

/// Tags of one repository that are looked at closely: some more than a profile keeps, so that it can choose.
const MOST_TAGS: usize = 64;

/// The tags to look at, of each repository with too many of them.
#[derive(Debug, Default)]
pub struct Wanted(BTreeMap<String, BTreeSet<TagKey>>);

impl Wanted {
    pub fn is_wanted(&self, repository: &str, tag: &TagKey) -> bool {
        self.0.get(repository).is_none_or(|tags| tags.contains(tag))
    }
}

/// Finds those seen last, a repository after the other.
#[derive(Debug)]
pub struct NewestTags {
    oldest: u32,
    repository: String,
    tags: BTreeMap<TagKey, i64>,
    wanted: Wanted,
    dropped: usize,
}

impl NewestTags {
    pub fn new(today: u32) -> Self {
        let oldest = today.saturating_sub(Window::MONTH.days().into());
        let (repository, tags) = (String::new(), BTreeMap::new());
        Self { oldest, repository, tags, wanted: Wanted::default(), dropped: 0 }
    }

    pub fn add(&mut self, seen: Seen<'_>) {
        if self.repository != seen.repository {
            self.close_repository();
            seen.repository.clone_into(&mut self.repository);
        }
        // Nothing within the longest window is no history.
        if seen.day < self.oldest {
            return;
        }
        let name = format!("{}{}", seen.repository, seen.reference);
        // OK because only names that were read before are stored.
        let Ok(name) = ImageName::parse(&name) else { return };
        for tag in TagKey::of(&name) {
            let last_seen = self.tags.entry(tag).or_insert(seen.last_seen);
            *last_seen = seen.last_seen.max(*last_seen);
        }
    }

    /// What is wanted, and how many tags are not.
    pub fn close(mut self) -> (Wanted, usize) {
        self.close_repository();
        (self.wanted, self.dropped)
    }

    fn close_repository(&mut self) {
        let repository = std::mem::take(&mut self.repository);
        let tags = std::mem::take(&mut self.tags);
        if tags.len() <= MOST_TAGS {
            return;
        }
        self.dropped += tags.len() - MOST_TAGS;
        // Of two seen at the same moment, the one later in the alphabet goes, as in a profile.
        let mut tags: Vec<_> = tags.into_iter().map(|(tag, last_seen)| (Reverse(last_seen), tag)).collect();
        tags.sort();
        self.wanted.0.insert(repository, tags.into_iter().take(MOST_TAGS).map(|(_, tag)| tag).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_tags_those_seen_last_are_wanted() {
        let mut newest = NewestTags::new(100);
        let few: Vec<_> = (0..3).map(|tag| ("a/few".to_owned(), format!(":{tag}"), 1)).collect();
        let many = (0..1000).map(|tag| ("a/many".to_owned(), format!(":{tag:04}"), i64::from(tag / 2)));
        for (repository, reference, last_seen) in few.into_iter().chain(many) {
            newest.add(Seen { repository: &repository, reference: &reference, day: 90, last_seen });
        }
        newest.add(Seen { repository: "a/old", reference: ":1", day: 69, last_seen: 1 });
        let (wanted, dropped) = newest.close();
        assert_eq!(dropped, 1000 - MOST_TAGS);
        let is_wanted = |image: &str| {
            let name = ImageName::parse(image).unwrap();
            TagKey::of(&name).all(|tag| wanted.is_wanted(image.split(':').next().unwrap(), &tag))
        };
        assert!(is_wanted("a/few:0") && is_wanted("a/old:1"));
        assert!(is_wanted("a/many:0999") && is_wanted("a/many:0936") && !is_wanted("a/many:0935"));
    }
}
