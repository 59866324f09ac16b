//! The layout of a root's history in small objects.
//!
//! For every request, a policy host copies an object as a whole, even if little of it is needed. So a root contains its
//! entries only while its text is at most [`MAX_BYTES`]. A larger root lists pages, and each entry is in one page: the
//! entries are halved, and each half again until it fits, by the hashes of repositories, and where one repository alone is
//! too large, by the hashes of namespaces ([`Halves`]). The pool of such an image is repeated in each of its pages, so that
//! a reader in a namespace needs only one page.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::cluster::usage::profile_layout::{FORK, FORK_BY_NAMESPACE, Halves, MAX_FORKS, NOTHING, PAGE};
use headroom_admission::cluster::usage::{ProfileKey, ProfileName, Repository};

use super::bounds::{MAX_BYTES_OF_SHARED_POOL, MAX_NODES};
use super::custom_resource::{Header, Summary};
use super::{Histories, ImageHistory, Images, RestrictedNamespaces, Share, UsageProfile, UsageProfileSpec, fair_share};

/// The most bytes of text of an object with entries. With what the API server adds, the objects read for a request stay
/// below 16 KB each and 20 KB together.
pub const MAX_BYTES: usize = 10_752;
/// The part of the text besides entries, including the collector's labels and annotations.
const ENVELOPE: usize = 600;

impl Share {
    /// The objects: the pages, then the root. Written in this order, a root never lists a missing page.
    pub fn lay_out(self) -> Vec<UsageProfile> {
        self.lay_out_within(MAX_NODES)
    }

    fn lay_out_within(mut self, most_nodes: usize) -> Vec<UsageProfile> {
        let mut laid = Laid::of(std::mem::take(&mut self.images), &self.page_key);
        while laid.tree.len() > most_nodes {
            let weights = laid.weights();
            let mut images = laid.into_images();
            self.dropped.own += fair_share::drop_from_heaviest(&mut images, weights, most_nodes);
            laid = Laid::of(images, &self.page_key);
        }
        self.dropped.own += laid.dropped;
        let object = |path: String, summary: Summary, images: Images| {
            let name = ProfileName { root: self.root, path };
            let header = Header::new(self.collected_at, self.quorum);
            UsageProfile::named(&name, &self.namespace, UsageProfileSpec { header, summary, images })
        };
        let (dropped_histories, dropped_tags) = (self.dropped.own, self.dropped.tags);
        let mut whole = Summary { dropped_histories, dropped_tags, ..Summary::default() };
        let restricted = self.restricted.take().map(|RestrictedNamespaces(names)| names);
        let mut last = None;
        let mut objects = Vec::with_capacity(laid.pages.len() + 1);
        let is_one = laid.pages.len() == 1 && laid.tree.len() == 1;
        for (path, entries) in laid.pages {
            let mut summary = Summary::default();
            for entry in &entries {
                let oom_killed = usize::from(entry.is_oom_killed());
                summary.images += 1;
                summary.histories += entry.own.len();
                summary.oom_killed_images += oom_killed;
                // The pages of one image are consecutive.
                let is_new = last.as_ref() != Some(&entry.repository);
                whole.images += usize::from(is_new);
                whole.histories += entry.own.len();
                whole.oom_killed_images += if is_new { oom_killed } else { 0 };
                last = Some(entry.repository.clone());
            }
            let images = images(entries);
            if is_one {
                let mut root = object(String::new(), whole, images);
                root.spec.header.restricted_namespaces = restricted;
                return vec![root];
            }
            objects.push(object(path, summary, images));
        }
        whole.pages = objects.len();
        let mut root = object(String::new(), whole, Images::new());
        root.spec.header.restricted_namespaces = restricted;
        if whole.pages > 0 {
            root.spec.header.pages = Some(laid.tree);
            root.spec.header.page_key = Some(self.page_key);
        }
        objects.push(root);
        objects
    }
}

/// The paths of the pages that a root lists; none if the text is not a list of pages.
pub fn paths(pages: &str) -> Vec<String> {
    let (mut paths, mut open) = (Vec::new(), vec![String::new()]);
    for node in pages.bytes() {
        let Some(path) = open.pop() else { return Vec::new() };
        let halves = match node {
            FORK if path.len() < MAX_FORKS => ["1", "0"],
            FORK_BY_NAMESPACE if path.len() < 2 * MAX_FORKS => ["b", "a"],
            PAGE => {
                paths.push(path);
                continue;
            }
            NOTHING => continue,
            _ => return Vec::new(),
        };
        open.extend(halves.map(|half| format!("{path}{half}")));
    }
    paths
}

/// An image, or part of its namespaces, to be put into a page.
#[derive(Debug)]
struct ImagePart {
    repository: Repository,
    place: ProfileKey,
    pool: Option<Histories>,
    own: Vec<(String, Histories)>,
    /// The bytes of repository and pool.
    bytes: usize,
    /// The bytes of each history in `own`.
    own_bytes: Vec<usize>,
}

impl ImagePart {
    fn new(repository: Repository, image: ImageHistory) -> Self {
        let place = ProfileKey::of(repository.as_str());
        let own_bytes: Vec<usize> =
            image.own.iter().map(|(namespace, own)| namespace.len() + own.bytes() + 4).collect();
        let mut entry =
            Self { repository, place, pool: image.pool, own: image.own.into_iter().collect(), bytes: 0, own_bytes };
        entry.measure();
        if entry.all_bytes() > MAX_BYTES - ENVELOPE
            && let Some(pool) = &mut entry.pool
        {
            pool.bound(MAX_BYTES_OF_SHARED_POOL);
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

    /// Its part in one half at a fork of this kind after `forks` of the same kind, if it has one there.
    fn halved(self, fork: u8, forks: usize, page_key: &str) -> [Option<Self>; 2] {
        let is_second =
            |namespace: &str| matches!(Halves::of(&self.place, namespace, page_key).half(fork, forks), Some('1' | 'b'));
        if fork == FORK {
            return if is_second("") { [None, Some(self)] } else { [Some(self), None] };
        }
        let own = self.own.into_iter().zip(self.own_bytes);
        let (second, first): (Vec<_>, Vec<_>) = own.partition(|((namespace, _), _)| is_second(namespace));
        [first, second].map(|own| {
            let (own, own_bytes): (Vec<_>, Vec<_>) = own.into_iter().unzip();
            let (repository, place, pool) = (self.repository.clone(), self.place.clone(), self.pool.clone());
            // The pool is for namespaces without a history, too.
            let is_there = pool.is_some() || !own.is_empty();
            is_there.then_some(Self { repository, place, pool, own, bytes: self.bytes, own_bytes })
        })
    }
}

/// The tree and pages that were laid out so far.
#[derive(Debug, Default)]
struct Laid {
    tree: String,
    pages: Vec<(String, Vec<ImagePart>)>,
    /// The number of histories that have no room in any page.
    dropped: usize,
}

impl Laid {
    fn of(images: Images, page_key: &str) -> Self {
        let mut laid = Self::default();
        let entries = images.into_iter().map(|(repository, image)| ImagePart::new(repository, image)).collect();
        laid.lay(entries, &mut String::new(), page_key);
        laid
    }

    fn lay(&mut self, mut entries: Vec<ImagePart>, path: &mut String, page_key: &str) {
        if entries.is_empty() {
            self.tree.push(char::from(NOTHING));
            return;
        }
        let most = MAX_BYTES - ENVELOPE;
        let fits = entries.iter().map(ImagePart::all_bytes).sum::<usize>() <= most;
        let (fork, names) = if entries.len() > 1 { (FORK, ['0', '1']) } else { (FORK_BY_NAMESPACE, ['a', 'b']) };
        let forks = path.chars().filter(|half| half.is_ascii_digit() == (fork == FORK)).count();
        if fits || forks == MAX_FORKS {
            // Only hashes that agree in every bit leave too much: what has no room is dropped, so that a page can be written.
            let mut bytes = 0;
            entries.retain(|entry| {
                bytes += entry.all_bytes();
                self.dropped += if bytes > most { entry.own.len() } else { 0 };
                bytes <= most
            });
            self.tree.push(char::from(PAGE));
            self.pages.push((path.clone(), entries));
            return;
        }
        self.tree.push(char::from(fork));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for [one, other] in entries.into_iter().map(|entry| entry.halved(fork, forks, page_key)) {
            first.extend(one);
            second.extend(other);
        }
        for (half, name) in [first, second].into_iter().zip(names) {
            path.push(name);
            self.lay(half, path, page_key);
            path.pop();
        }
    }

    /// Returns the part of the tree that each namespace takes: a node that leads to histories of several is divided among them.
    fn weights(&self) -> BTreeMap<String, u64> {
        let mut namespaces_at: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (path, entries) in &self.pages {
            let namespaces = || entries.iter().flat_map(|entry| &entry.own).map(|(namespace, _)| namespace.as_str());
            for length in 0..=path.len() {
                let prefix = path.get(..length).unwrap_or_default();
                namespaces_at.entry(prefix).or_default().extend(namespaces());
            }
        }
        let mut weights = BTreeMap::new();
        for namespaces in namespaces_at.values() {
            for namespace in namespaces {
                *weights.entry((*namespace).to_owned()).or_default() += fair_share::NODE / namespaces.len() as u64;
            }
        }
        weights
    }

    fn into_images(self) -> Images {
        images(self.pages.into_iter().flat_map(|(_, entries)| entries).collect())
    }
}

/// Merges the entries of each image.
fn images(entries: Vec<ImagePart>) -> Images {
    let mut images = BTreeMap::new();
    for ImagePart { repository, pool, own, .. } in entries {
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
    use headroom_admission::cluster::usage::profile_layout::page_of;
    use headroom_admission::cluster::usage::{Root, TagKey};
    use headroom_admission::image::ImageName;

    fn name(object: &UsageProfile) -> String {
        object.metadata.name.clone().unwrap()
    }

    /// Checks that each image in each namespace is in the object where readers look for it, together with its pool, and
    /// that no object is too long. Returns the objects.
    fn check(share: &Share) -> Vec<UsageProfile> {
        let objects = share.clone().lay_out();
        for object in &objects {
            let bytes = object.to_value().to_string().len();
            assert!(bytes <= MAX_BYTES, "{} has {bytes} bytes", name(object));
        }
        let (root, pages) = objects.split_last().unwrap();
        assert_eq!(name(root), share.root.to_string());
        let tree = root.spec.header.pages.as_deref();
        let name_of = |path: String| ProfileName { root: share.root, path }.to_string();
        let listed: Vec<_> = tree.map(paths).into_iter().flatten().map(name_of).collect();
        assert_eq!(listed, pages.iter().map(name).collect::<Vec<_>>());
        for (repository, image) in &share.images {
            for (namespace, own) in &image.own {
                let holder = match tree {
                    None => root,
                    Some(tree) => {
                        let halves = Halves::of(&ProfileKey::of(repository.as_str()), namespace, &share.page_key);
                        let name_of_page = name_of(page_of(tree, halves).unwrap().unwrap());
                        pages.iter().find(|page| name(page) == name_of_page).unwrap()
                    }
                };
                let found = &holder.spec.images[repository];
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
        assert_eq!((objects.len(), &objects[0].spec.images), (1, &Images::new()));
    }

    #[test]
    fn many_images_are_spread_over_pages() {
        let share = sample::share_of((0..1_000).map(|number| format!("app-{number}:v1")));
        let objects = check(&share);
        let root = objects.last().unwrap();
        let Summary { images, histories, pages, .. } = root.spec.summary;
        assert_eq!((images, histories, pages), (1_000, 1_000, objects.len() - 1));
        assert!((60..400).contains(&pages), "{pages}");
        assert!(objects.iter().all(|object| name(object).len() < "usage-26-".len() + 20));
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
        let root = objects.last().unwrap();
        assert_eq!(root.spec.summary.images, 2);
        let nodes = root.spec.header.pages.as_ref().unwrap().len();
        assert!(nodes < MAX_NODES, "{nodes}");
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

    /// Adds images that run in a namespace, of which each takes as much room as an image may.
    fn add_images(share: &mut Share, namespace: &str, images: impl IntoIterator<Item = String>) {
        let mut largest = Histories::of(sample::history(share.collected_at));
        largest.tags = (0..8)
            .filter_map(|tag| Some((TagKey::read(&format!("{tag}"))?, sample::history(share.collected_at))))
            .collect();
        largest.all.days += 1;
        for image in images {
            let image = ImageName::parse(&image).unwrap();
            share.images.entry(Repository::of(&image)).or_default().own.insert(namespace.to_owned(), largest.clone());
        }
    }

    fn namespaces(objects: &[UsageProfile]) -> BTreeMap<&str, usize> {
        let mut namespaces = BTreeMap::new();
        let images = objects.iter().flat_map(|object| object.spec.images.values());
        images.flat_map(|image| image.own.keys()).for_each(|name| *namespaces.entry(name.as_str()).or_default() += 1);
        namespaces
    }

    #[test]
    fn a_namespace_with_too_many_images_drops_its_own_histories_and_no_others() {
        // Seen earlier than those of the hostile namespace, and later in the alphabet.
        let mut share = sample::share_of((0..50).map(|number| format!("victim-{number}:v1")));
        add_images(&mut share, "hostile", (0..300).map(|number| format!("a.example/hostile-{number}:v1")));
        let objects = share.lay_out_within(400);
        let root = objects.last().unwrap();
        assert!(root.spec.header.pages.as_ref().unwrap().len() <= 400);
        let kept = namespaces(&objects);
        assert_eq!(kept["shop"], 50);
        assert!((100..300).contains(&kept["hostile"]), "{kept:?}");
        assert_eq!(root.spec.summary.dropped_histories, 300 - kept["hostile"]);
    }

    #[test]
    fn namespaces_that_agree_on_many_images_share_the_room_with_others() {
        let mut share = sample::share_of((0..10).map(|number| format!("victim-{number}:v1")));
        let images = (0..300).map(|number| format!("a.example/hostile-{number}:v1"));
        for namespace in ["hostile-1", "hostile-2", "hostile-3"] {
            add_images(&mut share, namespace, images.clone());
        }
        for image in share.images.values_mut().filter(|image| image.own.len() > 2) {
            image.pool = image.own.values().next().cloned();
        }
        let objects = share.lay_out_within(400);
        let kept = namespaces(&objects);
        assert_eq!(kept["shop"], 10);
        assert!(["hostile-1", "hostile-2", "hostile-3"].iter().all(|name| (30..300).contains(&kept[name])), "{kept:?}");
    }

    /// Names that were found to agree in more bits of that hash made the tree 58 forks deep for each pair of them.
    #[test]
    fn repositories_that_agree_in_the_hash_of_their_root_are_spread_over_pages() {
        let root = Root::of("docker.io/library/nginx");
        let names = (0..).map(|number| format!("a.example/{number}")).filter(|name| Root::of(name) == root);
        let mut share = sample::share_of([]);
        add_images(&mut share, "hostile", names.take(200).map(|name| format!("{name}:v1")));
        let objects = check(&share);
        assert!(objects.iter().all(|object| name(object).len() < "usage-26-".len() + 24));
    }

    #[test]
    fn a_page_is_never_too_large_to_be_written() {
        // As if all hashes agreed: nothing is left to fork by.
        let mut share = sample::share_of([]);
        add_images(&mut share, "hostile", (0..20).map(|number| format!("a.example/{number}:v1")));
        let entries = share.images.into_iter().map(|(repository, image)| ImagePart::new(repository, image)).collect();
        let mut laid = Laid::default();
        laid.lay(entries, &mut "0".repeat(MAX_FORKS), "");
        let [(_, page)] = laid.pages.as_slice() else { panic!("{}", laid.tree) };
        assert!(page.iter().map(ImagePart::all_bytes).sum::<usize>() <= MAX_BYTES - ENVELOPE);
        assert_eq!(page.len() + laid.dropped, 20);
    }

    #[test]
    fn text_that_is_not_a_list_of_pages_has_no_paths() {
        assert_eq!(paths("//#./##"), ["00", "10", "11"]);
        assert_eq!(paths("/|#.|##"), ["0a", "1a", "1b"]);
        for broken in ["##", "x", "/x#", &"/".repeat(100)] {
            assert!(paths(broken).is_empty() || broken == "##", "{broken}");
        }
    }
}
