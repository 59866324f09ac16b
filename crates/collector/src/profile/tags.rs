//! Selects the newest tags of a repository, to limit memory. A profile keeps the few that were seen last; a repository of a CI
//! system has tens of thousands, each with sketches of its own. For the pool, each namespace in turn selects the tag that it used
//! last, so that a namespace with many tags displaces none of others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::cluster::usage::{TagKey, Window};
use headroom_admission::image::Repository;
use headroom_usage::batch::Place;

/// Selected tags of one repository, in the pool and in each namespace: more than a profile keeps.
const MAX_TAGS: usize = 64;
const MAX_TAGS_IN_NAMESPACE: usize = 12;

type Tags = BTreeSet<TagKey>;

/// The selected tags of each repository with too many of them.
#[derive(Debug, Default)]
pub struct Wanted {
    of_pool: BTreeMap<Repository, Tags>,
    of_namespaces: BTreeMap<Repository, BTreeMap<String, Tags>>,
}

impl Wanted {
    pub fn is_wanted(&self, place: &Place, tag: &TagKey) -> bool {
        self.is_wanted_of_pool(&place.repository, tag) || self.is_wanted_of(&place.repository, &place.namespace, tag)
    }

    pub fn is_wanted_of_pool(&self, repository: &Repository, tag: &TagKey) -> bool {
        self.of_pool.get(repository).is_none_or(|tags| tags.contains(tag))
    }

    pub fn is_wanted_of(&self, repository: &Repository, namespace: &str, tag: &TagKey) -> bool {
        let tags = self.of_namespaces.get(repository).and_then(|namespaces| namespaces.get(namespace));
        tags.is_none_or(|tags| tags.contains(tag))
    }
}

/// Selects the tags that were seen last, one repository after the other.
#[derive(Debug)]
pub struct NewestTags {
    oldest: u32,
    repository: Option<Repository>,
    namespaces: BTreeMap<String, Moments>,
    wanted: Wanted,
    dropped: usize,
}

/// The time when each tag was seen last.
type Moments = BTreeMap<TagKey, i64>;

impl NewestTags {
    pub fn new(today: u32) -> Self {
        let oldest = today.saturating_sub(Window::Month.days().into());
        Self { oldest, repository: None, namespaces: BTreeMap::new(), wanted: Wanted::default(), dropped: 0 }
    }

    /// Adds the days of a reference in a namespace, with the time when each saw it last.
    pub fn add(&mut self, place: Place, days: &BTreeMap<u32, i64>) {
        if self.repository.as_ref() != Some(&place.repository) {
            self.close_repository();
            self.repository = Some(place.repository);
        }
        // Others are older than the longest window.
        let Some(last_seen) = days.range(self.oldest..).map(|(_, last_seen)| *last_seen).max() else { return };
        let moments = self.namespaces.entry(place.namespace).or_default();
        for tag in TagKey::of_reference(&place.reference) {
            let newest = moments.entry(tag).or_insert(last_seen);
            *newest = last_seen.max(*newest);
        }
    }

    /// The selected tags, and the number of dropped tags in namespaces.
    pub fn close(mut self) -> (Wanted, usize) {
        self.close_repository();
        (self.wanted, self.dropped)
    }

    fn close_repository(&mut self) {
        let Some(repository) = self.repository.take() else { return };
        // The best rank of each tag among the tags of a namespace, then by age.
        let mut of_pool: BTreeMap<TagKey, (usize, Reverse<i64>)> = BTreeMap::new();
        for (namespace, moments) in std::mem::take(&mut self.namespaces) {
            // If two have the same age, the one that comes first in the alphabet, as in a profile.
            let mut tags: Vec<_> = moments.into_iter().map(|(tag, last_seen)| (Reverse(last_seen), tag)).collect();
            tags.sort();
            for (place, (last_seen, tag)) in tags.iter().enumerate() {
                let best = of_pool.entry(tag.clone()).or_insert((place, *last_seen));
                *best = (place, *last_seen).min(*best);
            }
            if let Some(beyond) = tags.len().checked_sub(MAX_TAGS_IN_NAMESPACE).filter(|beyond| *beyond > 0) {
                self.dropped += beyond;
                let tags = tags.into_iter().take(MAX_TAGS_IN_NAMESPACE).map(|(_, tag)| tag).collect();
                self.wanted.of_namespaces.entry(repository.clone()).or_default().insert(namespace, tags);
            }
        }
        if of_pool.len() > MAX_TAGS {
            let mut tags: Vec<_> = of_pool.into_iter().map(|(tag, best)| (best, tag)).collect();
            tags.sort();
            let tags = tags.into_iter().take(MAX_TAGS).map(|(_, tag)| tag).collect();
            self.wanted.of_pool.insert(repository, tags);
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_admission::image::ImageName;

    use super::*;

    fn repository(image: &str) -> Repository {
        Repository::of(&ImageName::parse(image).unwrap())
    }

    #[test]
    fn the_newest_of_too_many_tags_are_selected() {
        let mut newest = NewestTags::new(100);
        let few = (0..3).map(|tag| (format!("a/few:{tag}"), 1));
        let many = (0..1000).map(|tag| (format!("a/many:{tag:04}"), i64::from(tag / 2)));
        for (image, last_seen) in few.chain(many) {
            let namespace = if image == "a/many:0007" { "lab" } else { "shop" };
            newest.add(Place::of(namespace, &image).unwrap(), &[(90, last_seen)].into());
        }
        newest.add(Place::of("shop", "a/old:1").unwrap(), &[(69, 1)].into());
        let (wanted, dropped) = newest.close();
        assert_eq!(dropped, 999 - MAX_TAGS_IN_NAMESPACE);
        let key = |image: &str| TagKey::of(&ImageName::parse(image).unwrap()).next().unwrap();
        let of_pool = |image: &str| wanted.is_wanted_of_pool(&repository(image), &key(image));
        assert!(of_pool("a/few:0") && of_pool("a/old:1"));
        assert!(of_pool("a/many:0999") && of_pool("a/many:0936") && !of_pool("a/many:0937") && of_pool("a/many:0007"));
        let of = |namespace, image: &str| wanted.is_wanted_of(&repository(image), namespace, &key(image));
        assert!(of("shop", "a/many:0988") && !of("shop", "a/many:0987") && of("lab", "a/many:0007"));
    }

    #[test]
    fn a_namespace_with_many_tags_takes_no_place_in_the_pool_from_others() {
        let mut newest = NewestTags::new(100);
        let mut add = |namespace, tag: &str, last_seen| {
            newest.add(Place::of(namespace, &format!("a/nginx:{tag}")).unwrap(), &[(90, last_seen)].into());
        };
        (0..1000).for_each(|tag| add("ci", &format!("ci-{tag}"), 1_000 + tag));
        for namespace in ["shop", "lab"] {
            (0..20).for_each(|tag| add(namespace, &format!("{namespace}-{tag:02}"), tag));
        }
        let (wanted, _) = newest.close();
        let is_wanted = |tag: &str| wanted.is_wanted_of_pool(&repository("a/nginx"), &TagKey::read(tag).unwrap());
        for namespace in ["shop", "lab"] {
            assert!((0..20).all(|tag| is_wanted(&format!("{namespace}-{tag:02}"))), "{namespace}");
        }
        assert!(is_wanted("ci-976") && !is_wanted("ci-975"));
    }
}
