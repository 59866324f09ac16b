//! The layout of a root's history in small objects.
//!
//! For every request, a policy host copies an object as a whole, even if little of it is needed. So each quarter of a root is
//! an object of at most [`MAX_BYTES`], with the histories of its namespaces and the pools of all images. Where there are
//! more, namespaces share the room ([`take_from_heaviest`]), and the images that have none are in pages: they are halved, and each
//! half again until it fits, by the hashes of repositories, and where one repository alone is too large, by the hashes of
//! namespaces ([`Halves`]). The pool of such an image is repeated in each of its pages, so that a reader in a namespace needs
//! only one page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use headroom_admission::cluster::usage::profile_layout::{FORK, FORK_BY_NAMESPACE, Halves, MAX_FORKS, NOTHING, PAGE};
use headroom_admission::cluster::usage::{ProfileKey, ProfileName, Quarter, Repository};

use super::bounds::{MAX_BYTES_OF_PAGES, MAX_BYTES_OF_SHARED_POOL};
use super::custom_resource::{Header, Summary};
use super::{Histories, ImageHistory, Share, UsageProfile, UsageProfileSpec};

/// The most bytes of text of an object. With what the API server adds, it stays below 16 KB.
pub const MAX_BYTES: usize = 12_096;
/// The most bytes of entries beside a list of pages. More would cost those who read a page, too, as much as it spares others.
const BESIDE_PAGES: usize = 3_000;
/// The part of the text besides entries, including the collector's labels and annotations.
const ENVELOPE: usize = 600;

impl Share {
    /// The objects: the pages of all quarters, then the quarters. Written in this order, a quarter never lists a missing page.
    pub fn lay_out(mut self) -> Vec<UsageProfile> {
        let mut quarters = Quarter::ALL.map(|quarter| (quarter, Vec::new()));
        for (repository, image) in std::mem::take(&mut self.images) {
            let namespaces: Rc<[String]> = image.own.keys().cloned().collect();
            let mut own: BTreeMap<Quarter, Vec<_>> = BTreeMap::new();
            for (namespace, histories) in image.own {
                own.entry(Quarter::of(&namespace)).or_default().push((namespace, histories));
            }
            for (quarter, parts) in &mut quarters {
                let own = own.remove(quarter).unwrap_or_default();
                if image.pool.is_some() || !own.is_empty() {
                    parts.push(ImagePart::new(repository.clone(), image.pool.clone(), own, &namespaces));
                }
            }
        }
        let mut objects = Vec::new();
        let quarters = quarters.map(|(quarter, parts)| self.lay_out_quarter(quarter, parts, &mut objects));
        objects.extend(quarters);
        objects
    }

    /// Adds the pages of a quarter to the objects, and returns the quarter.
    fn lay_out_quarter(
        &self,
        quarter: Quarter,
        mut parts: Vec<ImagePart>,
        pages: &mut Vec<UsageProfile>,
    ) -> UsageProfile {
        let name = ProfileName::of_quarter(self.root, quarter);
        let object = |name: &ProfileName, summary: Summary, parts: Vec<ImagePart>| {
            let header = Header::new(self.collected_at, self.quorum);
            let image = |of: ImagePart| {
                let own = of.own.into_iter().map(|(namespace, own, _)| (namespace, own)).collect();
                (of.repository, ImageHistory { pool: of.pool, own })
            };
            let images = parts.into_iter().map(image).collect();
            UsageProfile::named(name, &self.namespace, UsageProfileSpec { header, summary, images })
        };
        let restricted = self.restricted.as_ref().map(|restricted| restricted.of_quarter(quarter));
        let room = MAX_BYTES - ENVELOPE - restricted.as_ref().map_or(0, String::len);
        let is_whole = parts.iter().map(ImagePart::all_bytes).sum::<usize>() <= room;
        let mut others = take_from_heaviest(&mut parts, if is_whole { room } else { BESIDE_PAGES });
        let dropped = take_from_heaviest(&mut others, MAX_BYTES_OF_PAGES);
        let dropped: usize = dropped.iter().map(|part| part.own.len()).sum();
        let all = summary(parts.iter().chain(&others));
        let mut laid = Laid::default();
        laid.lay(others, &mut String::new(), &self.page_key);
        let whole = Summary {
            pages: laid.pages.len(),
            dropped_histories: dropped + laid.dropped,
            dropped_tags: self.dropped_tags,
            ..all
        };
        let page = |(path, parts): (String, Vec<_>)| object(&name.page(path), summary(parts.iter()), parts);
        pages.extend(laid.pages.into_iter().map(page));
        let mut first = object(&name, whole, parts);
        first.spec.header.restricted_namespaces = restricted;
        if whole.pages > 0 {
            first.spec.header.pages = Some(laid.tree);
            first.spec.header.page_key = Some(self.page_key.clone());
        }
        first
    }
}

fn summary<'p>(parts: impl Iterator<Item = &'p ImagePart> + Clone) -> Summary {
    Summary {
        images: parts.clone().count(),
        histories: parts.clone().map(|part| part.own.len()).sum(),
        oom_killed_images: parts.filter(|part| part.histories().any(|of| !of.all.oom_kills.is_empty())).count(),
        ..Summary::default()
    }
}

/// The paths of the pages in a list of them; none if the text is not a list of pages.
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

/// An image, or part of its namespaces, to be put into an object.
#[derive(Debug, Clone)]
struct ImagePart {
    repository: Repository,
    pool: Option<Histories>,
    /// Each with its bytes.
    own: Vec<(String, Histories, usize)>,
    /// The bytes of repository and pool.
    bytes: usize,
    /// The namespaces with a history of the image, also those of other quarters.
    namespaces: Rc<[String]>,
}

impl ImagePart {
    fn new(
        repository: Repository,
        pool: Option<Histories>,
        own: Vec<(String, Histories)>,
        namespaces: &Rc<[String]>,
    ) -> Self {
        let measured = |(namespace, own): (String, Histories)| {
            let bytes = namespace.len() + own.bytes() + 4;
            (namespace, own, bytes)
        };
        let (own, namespaces) = (own.into_iter().map(measured).collect(), Rc::clone(namespaces));
        let mut part = Self { repository, pool, own, bytes: 0, namespaces };
        part.measure();
        if part.all_bytes() > MAX_BYTES - ENVELOPE
            && let Some(pool) = &mut part.pool
        {
            pool.bound(MAX_BYTES_OF_SHARED_POOL);
            part.measure();
        }
        part
    }

    fn measure(&mut self) {
        let pool = self.pool.as_ref().map_or(0, |pool| pool.bytes() + 8);
        self.bytes = self.repository.as_str().len() + pool + 16;
    }

    fn all_bytes(&self) -> usize {
        self.bytes + self.own.iter().map(|(_, _, bytes)| bytes).sum::<usize>()
    }

    /// The bytes that each namespace takes: those of its own history, and its part of the pool.
    fn bytes_by_namespace(&self) -> impl Iterator<Item = (&str, usize)> {
        let own = self.own.iter().map(|(namespace, _, bytes)| (namespace.as_str(), *bytes));
        let part = self.bytes.div_ceil(self.namespaces.len().max(1));
        own.chain(self.namespaces.iter().map(move |namespace| (namespace.as_str(), part)))
    }

    fn histories(&self) -> impl Iterator<Item = &Histories> {
        self.own.iter().map(|(_, own, _)| own).chain(&self.pool)
    }

    /// Its part in one half at a fork of this kind after `forks` of the same kind, if it has one there.
    fn halved(self, fork: u8, forks: usize, page_key: &str) -> [Option<Self>; 2] {
        let place = ProfileKey::of(self.repository.as_str());
        let is_second =
            |namespace: &str| matches!(Halves::of(&place, namespace, page_key).half(fork, forks), Some('1' | 'b'));
        if fork == FORK {
            return if is_second("") { [None, Some(self)] } else { [Some(self), None] };
        }
        let (second, first): (Vec<_>, Vec<_>) = self.own.into_iter().partition(|(namespace, ..)| is_second(namespace));
        [first, second].map(|own| {
            let (repository, pool) = (self.repository.clone(), self.pool.clone());
            let namespaces = Rc::clone(&self.namespaces);
            // The pool is for namespaces without a history, too.
            let is_there = pool.is_some() || !own.is_empty();
            is_there.then_some(Self { repository, pool, own, bytes: self.bytes, namespaces })
        })
    }
}

/// Takes images until the others have at most `most` bytes: those that are larger alone, then by the namespace of each that takes
/// the least room, the heaviest first, and of its images the least recently seen. So a namespace with a great many images displaces its own and not
/// those of others, whichever images it runs.
fn take_from_heaviest(images: &mut Vec<ImagePart>, most: usize) -> Vec<ImagePart> {
    let mut left: usize = images.iter().map(ImagePart::all_bytes).sum();
    if left <= most {
        return Vec::new();
    }
    let mut weights: BTreeMap<String, usize> = BTreeMap::new();
    for (namespace, bytes) in images.iter().flat_map(ImagePart::bytes_by_namespace) {
        *weights.entry(namespace.to_owned()).or_default() += bytes;
    }
    images.sort_by_cached_key(|image| {
        let lightest = image.namespaces.iter().filter_map(|namespace| weights.get(namespace)).min().copied();
        let last_seen = image.histories().map(|histories| histories.all.last_seen).max();
        (image.all_bytes() <= most, Reverse(lightest), last_seen, image.repository.clone())
    });
    let is_beyond = |image: &&ImagePart| {
        let is_beyond = left > most;
        left -= image.all_bytes();
        is_beyond
    };
    let taken = images.iter().take_while(is_beyond).count();
    images.drain(..taken).collect()
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
    fn lay(&mut self, mut entries: Vec<ImagePart>, path: &mut String, page_key: &str) {
        if entries.is_empty() {
            self.tree.push(char::from(NOTHING));
            return;
        }
        let most = MAX_BYTES - ENVELOPE;
        let fits = entries.iter().map(ImagePart::all_bytes).sum::<usize>() <= most;
        // A page without a path would have the name of its quarter.
        let is_first = path.is_empty();
        let (fork, names) =
            if entries.len() > 1 || is_first { (FORK, ['0', '1']) } else { (FORK_BY_NAMESPACE, ['a', 'b']) };
        let forks = path.chars().filter(|half| half.is_ascii_digit() == (fork == FORK)).count();
        if fits && !is_first || forks == MAX_FORKS {
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
}

#[cfg(test)]
mod tests {
    use super::super::bounds::MAX_NODES;
    use super::super::sample;
    use super::*;
    use std::collections::BTreeSet;

    use headroom_admission::cluster::usage::profile_layout::page_of;
    use headroom_admission::cluster::usage::{Root, TagKey};
    use headroom_admission::image::ImageName;

    fn name(object: &UsageProfile) -> String {
        object.metadata.name.clone().unwrap()
    }

    /// The object where a reader in a namespace finds an image.
    fn holder<'o>(
        objects: &'o [UsageProfile],
        share: &Share,
        repository: &Repository,
        namespace: &str,
    ) -> &'o UsageProfile {
        let find = |of: &ProfileName| objects.iter().find(|object| name(object) == of.to_string()).unwrap();
        let quarter = ProfileName::of(share.root, namespace);
        let first = find(&quarter);
        match first.spec.header.pages.as_deref().filter(|_| !first.spec.images.contains_key(repository)) {
            None => first,
            Some(tree) => {
                let halves = Halves::of(&ProfileKey::of(repository.as_str()), namespace, &share.page_key);
                find(&quarter.page(page_of(tree, halves).unwrap().unwrap()))
            }
        }
    }

    /// Checks that each image in each namespace is in the object where readers look for it, together with its pool, and
    /// that no object is too long. Returns the objects.
    fn check(share: &Share) -> Vec<UsageProfile> {
        let objects = share.clone().lay_out();
        for object in &objects {
            let bytes = object.to_value().to_string().len();
            assert!(bytes <= MAX_BYTES, "{} has {bytes} bytes", name(object));
        }
        let names: BTreeSet<String> = objects.iter().map(name).collect();
        assert_eq!(names.len(), objects.len(), "two objects of one name");
        let (pages, quarters) = objects.split_at(objects.len() - Quarter::ALL.len());
        let mut listed = Vec::new();
        for (quarter, object) in Quarter::ALL.into_iter().zip(quarters) {
            let quarter = ProfileName::of_quarter(share.root, quarter);
            assert_eq!(name(object), quarter.to_string());
            let tree = object.spec.header.pages.as_deref();
            listed.extend(tree.map(paths).into_iter().flatten().map(|path| quarter.page(path).to_string()));
        }
        assert_eq!(listed, pages.iter().map(name).collect::<Vec<_>>());
        for (repository, image) in &share.images {
            for (namespace, own) in &image.own {
                let found = &holder(&objects, share, repository, namespace).spec.images[repository];
                assert_eq!(found.own.get(namespace), Some(own));
                assert_eq!(found.pool.as_ref().map(|pool| &pool.all), image.pool.as_ref().map(|pool| &pool.all));
            }
            if image.pool.is_some() {
                for namespace in ["new-1", "new-2", "new-3", "new-4", "new-5"] {
                    assert!(holder(&objects, share, repository, namespace).spec.images[repository].pool.is_some());
                }
            }
        }
        objects
    }

    fn quarters(objects: &[UsageProfile]) -> impl Iterator<Item = &UsageProfile> {
        objects.iter().rev().take(Quarter::ALL.len())
    }

    #[test]
    fn small_quarters_contain_their_entries() {
        let mut share = sample::share();
        assert_eq!(check(&share).len(), Quarter::ALL.len());
        share.images.clear();
        assert_eq!(check(&share).len(), Quarter::ALL.len());
    }

    #[test]
    fn many_images_are_spread_over_pages() {
        let share = sample::share_of((0..1_000).map(|number| format!("app-{number}:v1")));
        let objects = check(&share);
        let of_shop = ProfileName::of(share.root, "shop").to_string();
        let first = objects.iter().find(|object| name(object) == of_shop).unwrap();
        let Summary { images, histories, pages, .. } = first.spec.summary;
        assert_eq!((images, histories, pages), (1_000, 1_000, objects.len() - Quarter::ALL.len()));
        assert!((60..400).contains(&pages), "{pages}");
        assert!(first.spec.images.len() > 1, "{}", first.spec.images.len());
        assert!(objects.iter().all(|object| name(object).len() < "usage-26.a-".len() + 20));
    }

    #[test]
    fn a_quarter_that_just_has_no_room_for_all_has_a_page() {
        let pages = (1..60).map(|images| {
            check(&sample::share_of((0..images).map(|number| format!("app-{number}:v1")))).len() - Quarter::ALL.len()
        });
        let pages: BTreeSet<usize> = pages.collect();
        assert!(pages.is_superset(&[0, 2].into()), "{pages:?}");
    }

    #[test]
    fn one_image_in_thousands_of_namespaces_is_spread_over_pages() {
        let mut share = sample::share_of(["proxy:v1".to_owned(), "nginx:1".to_owned()]);
        let proxy = Repository::of(&ImageName::parse("proxy").unwrap());
        let image = share.images.get_mut(&proxy).unwrap();
        let own = image.own["shop"].clone();
        image.own = (0..5_000).map(|number| (format!("team-{number:04}"), own.clone())).collect();
        image.pool = Some(own);
        let objects = check(&share);
        assert!((200..2_000).contains(&objects.len()), "{}", objects.len());
        for first in quarters(&objects) {
            // The other image keeps its room.
            assert_eq!(first.spec.images.len() + 1, first.spec.summary.images);
            assert!(first.spec.header.pages.as_ref().is_some_and(|tree| tree.len() < MAX_NODES));
        }
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

    /// The images of namespace `shop` that a reader finds in one object, and the pages.
    fn at_once(share: &Share) -> (usize, usize) {
        let objects = check(share);
        let quarter = ProfileName::of(share.root, "shop").to_string();
        let first = objects.iter().find(|object| name(object) == quarter).unwrap();
        let of_shop = first.spec.images.values().filter(|image| image.own.contains_key("shop"));
        (of_shop.count(), objects.len() - Quarter::ALL.len())
    }

    /// A namespace of the quarter of `shop`.
    fn beside_shop(number: usize) -> String {
        let names = (0..).map(|number| format!("hostile-{number}"));
        names.filter(|name| Quarter::of(name) == Quarter::of("shop")).nth(number).unwrap()
    }

    #[test]
    fn a_namespace_with_too_many_images_displaces_its_own() {
        // Seen earlier than those of the hostile namespace, and later in the alphabet.
        let mut share = sample::share_of((0..3).map(|number| format!("victim-{number}:v1")));
        add_images(&mut share, &beside_shop(0), (0..300).map(|number| format!("a.example/hostile-{number}:v1")));
        let (of_shop, pages) = at_once(&share);
        assert_eq!(of_shop, 3);
        assert!(pages > 50, "{pages}");
    }

    #[test]
    fn namespaces_that_agree_on_many_images_displace_none_of_others() {
        let mut share = sample::share_of((0..2).map(|number| format!("victim-{number}:v1")));
        let images = (0..300).map(|number| format!("a.example/hostile-{number}:v1"));
        for number in 0..3 {
            add_images(&mut share, &beside_shop(number), images.clone());
        }
        for image in share.images.values_mut().filter(|image| image.own.len() > 2) {
            image.pool = image.own.values().next().cloned();
        }
        assert_eq!(at_once(&share).0, 2);
    }

    #[test]
    fn beyond_the_room_of_all_pages_the_heaviest_namespace_loses_its_own_history() {
        let mut share = sample::share_of((0..10).map(|number| format!("victim-{number}:v1")));
        add_images(&mut share, "hostile", (0..300).map(|number| format!("a.example/hostile-{number}:v1")));
        let mut parts: Vec<_> = share.images.into_iter().map(part).collect();
        let all: usize = parts.iter().map(ImagePart::all_bytes).sum();
        let dropped = take_from_heaviest(&mut parts, all / 2);
        assert!((130..170).contains(&dropped.len()) && parts.len() + dropped.len() == 310, "{}", dropped.len());
        assert!(dropped.iter().all(|part| part.own.iter().all(|(name, ..)| name == "hostile")));
    }

    fn part((repository, image): (Repository, ImageHistory)) -> ImagePart {
        let namespaces = image.own.keys().cloned().collect();
        ImagePart::new(repository, image.pool, image.own.into_iter().collect(), &namespaces)
    }

    /// Names that were found to agree in more bits of that hash made the tree 58 forks deep for each pair of them.
    #[test]
    fn repositories_that_agree_in_the_hash_of_their_root_are_spread_over_pages() {
        let root = Root::of("docker.io/library/nginx");
        let names = (0..).map(|number| format!("a.example/{number}")).filter(|name| Root::of(name) == root);
        let mut share = sample::share_of([]);
        add_images(&mut share, "hostile", names.take(200).map(|name| format!("{name}:v1")));
        let objects = check(&share);
        assert!(objects.iter().all(|object| name(object).len() < "usage-26.a-".len() + 24));
    }

    #[test]
    fn a_page_is_never_too_large_to_be_written() {
        // As if all hashes agreed: nothing is left to fork by.
        let mut share = sample::share_of([]);
        add_images(&mut share, "hostile", (0..20).map(|number| format!("a.example/{number}:v1")));
        let entries = share.images.into_iter().map(part).collect();
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
