//! The layout of a root's history in small objects.
//!
//! For every request, a policy host copies an object as a whole, even if little of it is needed. So a root contains its
//! entries only while its text is at most [`MOST_BYTES`]. A larger root lists pages, and each entry is in one page: the
//! entries are halved, and each half again until it fits, first by the hashes of repositories, and if one repository
//! alone is too large, by the hashes of namespaces ([`Halves`]). The pool of such an image is repeated in each of its
//! pages, so that a reader in a namespace needs only one page.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use headroom_core::cluster::usage::profile_layout::{FORK, Halves, MAX_HALVES, NOTHING, PAGE, REPOSITORY_HALVES};
use headroom_core::cluster::usage::{ProfileKey, ProfileName, Repository};
use headroom_core::timestamp::Timestamp;

use super::bounds::MOST_BYTES_OF_SHARED_POOL;
use super::{Content, Histories, ImageHistory, Images, Share, Summary, UsageProfile};

/// The most bytes of text of an object with entries. With what the API server adds, the objects read for a request stay
/// below 16 KB each and 20 KB together.
pub const MOST_BYTES: usize = 10_752;
/// The part of the text besides entries, including the collector's labels and annotations.
const ENVELOPE: usize = 600;
/// The most nodes in a root's list of pages.
pub const MOST_NODES: usize = 8_000;

impl Share {
    /// The objects: the pages, then the root. Written in this order, a root never lists a missing page.
    pub fn lay_out(mut self) -> Vec<UsageProfile> {
        let entries = std::mem::take(&mut self.images).into_iter().map(|(of, image)| Entry::new(of, image)).collect();
        let mut laid = Laid::default();
        laid.lay(entries, &mut String::new());
        if laid.tree.len() > MOST_NODES {
            let entries = laid.pages.into_iter().flat_map(|(_, entries)| entries).collect();
            self.images = images(entries);
            self.drop_oldest();
            return self.lay_out();
        }
        let object = |path: String, summary: Summary, content: Content| UsageProfile {
            namespace: self.namespace.clone(),
            name: ProfileName { root: self.root, path },
            collected_at: self.collected_at,
            quorum: self.quorum,
            summary,
            content,
        };
        let mut whole = Summary { dropped: self.dropped, ..Summary::default() };
        let mut last = None;
        let mut objects = Vec::with_capacity(laid.pages.len() + 1);
        let is_one = laid.pages.len() == 1 && laid.tree.len() == 1;
        for (path, entries) in laid.pages {
            let mut summary = Summary::default();
            for entry in &entries {
                let oom_killed = usize::from(entry.is_oom_killed());
                summary.images += 1;
                summary.own += entry.own.len();
                summary.oom_killed += oom_killed;
                // The pages of one image are consecutive.
                let is_new = last.as_ref() != Some(&entry.repository);
                whole.images += usize::from(is_new);
                whole.own += entry.own.len();
                whole.oom_killed += if is_new { oom_killed } else { 0 };
                last = Some(entry.repository.clone());
            }
            let content = Content::Images(images(entries));
            if is_one {
                return vec![object(String::new(), whole, content)];
            }
            objects.push(object(path, summary, content));
        }
        whole.pages = objects.len();
        let content = if whole.pages == 0 { Content::Images(Images::new()) } else { Content::Pages(laid.tree) };
        objects.push(object(String::new(), whole, content));
        objects
    }

    /// Drops a quarter of the histories of images in namespaces, the least recently seen.
    fn drop_oldest(&mut self) {
        let own =
            |image: &ImageHistory| -> Vec<Timestamp> { image.own.values().map(|own| own.all.last_seen).collect() };
        let mut seen: Vec<Timestamp> = self.images.values().flat_map(own).collect();
        let most = seen.len() - seen.len().div_ceil(4);
        seen.sort_by_key(|seen| Reverse(*seen));
        // Of those seen at the same time, the first in the alphabet are kept.
        let newest_dropped = seen.get(most).copied();
        let mut room = seen.iter().take(most).filter(|seen| Some(**seen) == newest_dropped).count();
        for image in self.images.values_mut() {
            image.own.retain(|_, own| {
                let stays = match Some(own.all.last_seen) {
                    seen if seen == newest_dropped => room > 0,
                    seen => return seen > newest_dropped,
                };
                room -= usize::from(stays);
                stays
            });
        }
        self.images.retain(|_, image| image.pool.is_some() || !image.own.is_empty());
        self.dropped.own += seen.len() - most;
    }
}

/// The paths of the pages that a root lists; none if the text is not a list of pages.
pub fn paths(pages: &str) -> Vec<String> {
    let (mut paths, mut open) = (Vec::new(), vec![String::new()]);
    for node in pages.bytes() {
        let Some(path) = open.pop() else { return Vec::new() };
        match node {
            FORK if path.len() < MAX_HALVES => open.extend([format!("{path}1"), format!("{path}0")]),
            PAGE => paths.push(path),
            NOTHING => {}
            _ => return Vec::new(),
        }
    }
    paths
}

/// An image, or part of its namespaces, to be put into a page.
#[derive(Debug)]
struct Entry {
    repository: Repository,
    place: ProfileKey,
    pool: Option<Histories>,
    own: Vec<(String, Histories)>,
    /// The bytes of repository and pool.
    bytes: usize,
    /// The bytes of each history in `own`.
    own_bytes: Vec<usize>,
}

impl Entry {
    fn new(repository: Repository, image: ImageHistory) -> Self {
        let place = ProfileKey::of(repository.as_str());
        let own_bytes: Vec<usize> =
            image.own.iter().map(|(namespace, own)| namespace.len() + own.bytes() + 4).collect();
        let mut entry =
            Self { repository, place, pool: image.pool, own: image.own.into_iter().collect(), bytes: 0, own_bytes };
        entry.measure();
        if entry.all_bytes() > MOST_BYTES - ENVELOPE
            && let Some(pool) = &mut entry.pool
        {
            pool.bound(MOST_BYTES_OF_SHARED_POOL);
            entry.measure();
        }
        entry
    }

    fn measure(&mut self) {
        let pool = self.pool.as_ref().map_or(0, |pool| pool.bytes() + 8);
        self.bytes = self.place.key.len() + pool + 16;
    }

    fn all_bytes(&self) -> usize {
        self.bytes + self.own_bytes.iter().sum::<usize>()
    }

    fn is_oom_killed(&self) -> bool {
        let own = self.own.iter().map(|(_, own)| own);
        own.chain(&self.pool).any(|histories| !histories.all.oom_kills.is_empty())
    }

    /// Its first and second half at a depth of `forks` in the tree.
    fn halved(self, forks: usize) -> [Option<Self>; 2] {
        if forks < REPOSITORY_HALVES {
            let is_second = Halves::of(&self.place, "").is_second(forks);
            return if is_second { [None, Some(self)] } else { [Some(self), None] };
        }
        let Self { repository, place, pool, own, bytes, own_bytes } = self;
        let half = |own: Vec<((String, Histories), usize)>| {
            let (own, own_bytes): (Vec<_>, Vec<_>) = own.into_iter().unzip();
            let is_there = pool.is_some() || !own.is_empty();
            let (repository, place, pool) = (repository.clone(), place.clone(), pool.clone());
            is_there.then_some(Self { repository, place, pool, own, bytes, own_bytes })
        };
        let (second, first) = own
            .into_iter()
            .zip(own_bytes)
            .partition(|((namespace, _), _)| Halves::of(&place, namespace).is_second(forks));
        [half(first), half(second)]
    }
}

/// The tree and pages that were laid out so far.
#[derive(Debug, Default)]
struct Laid {
    tree: String,
    pages: Vec<(String, Vec<Entry>)>,
}

impl Laid {
    fn lay(&mut self, entries: Vec<Entry>, path: &mut String) {
        if entries.is_empty() {
            self.tree.push(char::from(NOTHING));
            return;
        }
        let forks = path.len();
        let fits = entries.iter().map(Entry::all_bytes).sum::<usize>() <= MOST_BYTES - ENVELOPE;
        if fits || forks == MAX_HALVES {
            self.tree.push(char::from(PAGE));
            self.pages.push((path.clone(), entries));
            return;
        }
        self.tree.push(char::from(FORK));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for [one, other] in entries.into_iter().map(|entry| entry.halved(forks)) {
            first.extend(one);
            second.extend(other);
        }
        for (half, name) in [(first, '0'), (second, '1')] {
            path.push(name);
            self.lay(half, path);
            path.pop();
        }
    }
}

/// Merges the entries of each image.
fn images(entries: Vec<Entry>) -> Images {
    let mut images = BTreeMap::new();
    for Entry { repository, pool, own, .. } in entries {
        let image: &mut ImageHistory = images.entry(repository).or_default();
        image.pool = image.pool.take().or(pool);
        image.own.extend(own);
    }
    images
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use headroom_core::cluster::usage::profile_layout::page_of;

    /// Checks that each image in each namespace is in the object where readers look for it, together with its pool, and
    /// that no object is too long. Returns the objects.
    fn check(share: &Share) -> Vec<UsageProfile> {
        let objects = share.clone().lay_out();
        for object in &objects {
            let bytes = object.to_string().len();
            assert!(bytes <= MOST_BYTES, "{} has {bytes} bytes", object.name);
        }
        let (root, pages) = objects.split_last().unwrap();
        assert_eq!(root.name, ProfileName::of_root(share.root));
        let listed = match &root.content {
            Content::Pages(tree) => paths(tree),
            Content::Images(_) => Vec::new(),
        };
        assert_eq!(listed, pages.iter().map(|page| page.name.path.clone()).collect::<Vec<_>>());
        for (repository, image) in &share.images {
            for (namespace, own) in &image.own {
                let holder = match &root.content {
                    Content::Images(_) => root,
                    Content::Pages(tree) => {
                        let path = page_of(tree, Halves::of(&ProfileKey::of(repository.as_str()), namespace)).unwrap();
                        pages.iter().find(|page| Some(&page.name.path) == path.as_ref()).unwrap()
                    }
                };
                let Content::Images(images) = &holder.content else { panic!("{} is no page", holder.name) };
                let found = &images[repository];
                assert_eq!(found.own.get(namespace), Some(own));
                assert_eq!(found.pool.as_ref().map(|pool| &pool.all), image.pool.as_ref().map(|pool| &pool.all));
            }
        }
        objects
    }

    #[test]
    fn a_small_root_contains_its_entries() {
        let objects = check(&sample::share());
        assert_eq!(objects.len(), 1);
        let mut empty = sample::share();
        empty.images.clear();
        let objects = check(&empty);
        assert_eq!(objects[0].content, Content::Images(Images::new()));
    }

    #[test]
    fn many_images_are_spread_over_pages() {
        let share = sample::share_of((0..1_000).map(|number| format!("app-{number}:v1")));
        let objects = check(&share);
        let root = objects.last().unwrap();
        assert_eq!((root.summary.images, root.summary.own, root.summary.pages), (1_000, 1_000, objects.len() - 1));
        assert!((60..400).contains(&root.summary.pages), "{}", root.summary.pages);
        assert!(objects.iter().all(|object| object.name.path.len() < REPOSITORY_HALVES));
    }

    #[test]
    fn one_image_in_thousands_of_namespaces_is_spread_over_pages() {
        let mut share = sample::share_of(["proxy:v1".to_owned(), "nginx:1".to_owned()]);
        let proxy = Repository::of(&sample::image("proxy"));
        let image = share.images.get_mut(&proxy).unwrap();
        let own = image.own["shop"].clone();
        image.own = (0..5_000).map(|number| (format!("team-{number:04}"), own.clone())).collect();
        image.pool = Some(own);
        let objects = check(&share);
        assert!((200..2_000).contains(&objects.len()), "{}", objects.len());
        assert_eq!(objects.last().unwrap().summary.images, 2);
        let Content::Pages(tree) = &objects.last().unwrap().content else { panic!("it is one object") };
        assert!(tree.len() < MOST_NODES, "{}", tree.len());
    }

    #[test]
    fn an_entry_fits_together_with_the_largest_pool() {
        let versions = (0..20).map(|version| format!("app:{version:02}"));
        let mut share = sample::share_of(versions);
        let image = share.images.values_mut().next().unwrap();
        image.pool = image.own.values().next().cloned();
        image.own = ["a", "b", "c"].map(|name| (name.to_owned(), image.own["shop"].clone())).into();
        share.bound();
        check(&share);
    }

    #[test]
    fn the_oldest_histories_are_dropped_first() {
        let mut share = sample::share_of((0..100).map(|number| format!("app-{number:03}:v1")));
        share.drop_oldest();
        assert_eq!((share.images.len(), share.dropped.own), (75, 25));
        assert!(!share.images.contains_key(&Repository::of(&sample::image("app-024"))));
        assert!(share.images.contains_key(&Repository::of(&sample::image("app-025"))));
        let seen = share.collected_at;
        let own = share.images.values_mut().flat_map(|image| image.own.values_mut());
        own.for_each(|own| own.all.last_seen = seen);
        share.drop_oldest();
        assert_eq!((share.images.len(), share.dropped.own), (56, 44));
        assert!(share.images.contains_key(&Repository::of(&sample::image("app-025"))));
    }

    #[test]
    fn text_that_is_not_a_list_of_pages_has_no_paths() {
        assert_eq!(paths("//#./##"), ["00", "10", "11"]);
        for broken in ["##", "x", "/x#", &"/".repeat(100)] {
            assert!(paths(broken).is_empty() || broken == "##", "{broken}");
        }
    }
}
