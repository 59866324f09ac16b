//! The place of an image's history: object, entry, namespace, tag.
//!
//! The collector writes and the policy reads with these functions, so both use the same place. All objects are in one
//! namespace. A request finds the history of its images without asking first: the repository belongs to one of 64
//! *roots*, and the namespace to one of a root's four *quarters*, each an object of its own. A quarter contains as many
//! images as it has room for, with the histories of its namespaces and the pools. If there are more, it lists *pages*,
//! and each image that it does not contain is in one of them ([`page_of`]), because a host copies an object whole,
//! whatever is read of it. Keys contain no dot, because a dot separates the steps of a field mask.

use std::fmt;
use std::hash::Hasher;
use std::rc::Rc;

use crate::image::{ImageName, Reference};
use crate::json::Part;

pub use crate::image::Repository;

pub const GROUP: &str = "headroom.dev";
pub const VERSION: &str = "v1alpha1";
pub const API_VERSION: &str = "headroom.dev/v1alpha1";
pub const KIND: &str = "UsageProfile";

/// A share of the images, by their repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root(u8);

impl Root {
    /// Fixed, because a change would orphan every collected history.
    pub const COUNT: u8 = 64;

    pub fn of(repository: &str) -> Self {
        Self((hash(repository) % u64::from(Self::COUNT)) as u8)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    pub fn number(self) -> u8 {
        self.0
    }
}

/// `usage-3f`
impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "usage-{:02x}", self.0)
    }
}

/// A share of the namespaces. With more of them, a policy server would need more watches in a cluster of few images; with
/// fewer, an image that runs everywhere would have no room in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quarter(char);

impl Quarter {
    pub const ALL: [Self; 4] = [Self('a'), Self('b'), Self('c'), Self('d')];

    pub fn of(namespace: &str) -> Self {
        Self(char::from(b'a' + (hash(namespace) >> 40 & 3) as u8))
    }
}

/// The name of an object: a quarter of a root, or a page of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName {
    pub root: Root,
    /// None in the layout before there were quarters: a root was an object, which contained its images or listed all pages.
    pub quarter: Option<Quarter>,
    /// The halves chosen on the way to a page: `0` or `1` by the repository, `a` or `b` by the namespace; empty for the
    /// quarter itself.
    pub path: String,
}

impl ProfileName {
    /// The object where the history of the root's images in this namespace begins.
    pub fn of(root: Root, namespace: &str) -> Self {
        Self::of_quarter(root, Quarter::of(namespace))
    }

    pub fn of_quarter(root: Root, quarter: Quarter) -> Self {
        Self { root, quarter: Some(quarter), path: String::new() }
    }

    /// The object of the root in the layout before there were quarters.
    pub fn older(root: Root) -> Self {
        Self { root, quarter: None, path: String::new() }
    }

    pub fn page(&self, path: String) -> Self {
        Self { path, ..self.clone() }
    }

    pub fn is_page(&self) -> bool {
        !self.path.is_empty()
    }

    pub fn is_quarter(&self) -> bool {
        self.quarter.is_some() && !self.is_page()
    }
}

/// `usage-3f.a`, `usage-3f.a-0110`, `usage-3f.a-0110ab`
impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)?;
        if let Some(Quarter(quarter)) = self.quarter {
            write!(f, ".{quarter}")?;
        }
        if self.is_page() { write!(f, "-{}", self.path) } else { Ok(()) }
    }
}

/// The place of an image's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileKey {
    /// Under `spec.images`.
    pub key: String,
    pub root: Root,
}

impl ProfileKey {
    pub fn of(repository: &str) -> Self {
        Self { key: key_of(repository), root: Root::of(repository) }
    }

    pub fn is_of(&self, repository: &str) -> bool {
        // Image names contain no comma.
        let same = |(ours, theirs): (u8, u8)| ours == theirs || ours == b',' && theirs == b'.';
        self.key.len() == repository.len() && self.key.bytes().zip(repository.bytes()).all(same)
    }
}

/// The key of a name that may contain dots but no comma: a repository under `spec.images`, a tag or digest under
/// `tags`.
pub fn key_of(name: &str) -> String {
    name.replace('.', ",")
}

/// Decides at each fork which half an entry belongs to, by hashes that take a key: whoever does not know a store's key
/// cannot choose names that meet in one page.
#[derive(Debug, Clone, Copy)]
pub struct Halves {
    repository: u64,
    namespace: u64,
}

impl Halves {
    /// The halves of an image in a namespace, by the key in the header of the object that lists the pages.
    pub fn of(place: &ProfileKey, namespace: &str, page_key: &str) -> Self {
        Self { repository: keyed_hash(page_key, &place.key), namespace: keyed_hash(page_key, namespace) }
    }

    /// The name of the half that the entry belongs to at a fork of this kind, after `forks` of the same kind; none if
    /// the hash has no more bits, or if `node` is no fork.
    pub fn half(self, node: u8, forks: usize) -> Option<char> {
        let (hash, first, second) = match node {
            FORK => (self.repository, '0', '1'),
            FORK_BY_NAMESPACE => (self.namespace, 'a', 'b'),
            _ => return None,
        };
        let bit = MAX_FORKS.checked_sub(forks + 1)?;
        Some(if hash >> bit & 1 == 1 { second } else { first })
    }
}

/// The most forks of each kind on the way to a page.
pub const MAX_FORKS: usize = 64;

/// Pages are listed as a tree in prefix order. A fork by the hash of the repository, followed by its first and its
/// second half:
pub const FORK: u8 = b'/';
/// The same by the hash of the namespace, where only one repository is left.
pub const FORK_BY_NAMESPACE: u8 = b'|';
/// A page.
pub const PAGE: u8 = b'#';
/// A half without any entries.
pub const NOTHING: u8 = b'.';

/// In a quarter's list of namespaces that ask for fewer estimates: there are too many to list.
pub const ANY_NAMESPACE: &str = "*";

/// A list of pages that is not a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTree;

/// The path to the page that holds an entry, if one is listed.
pub fn page_of(pages: &str, halves: Halves) -> Result<Option<String>, NoTree> {
    let mut nodes = pages.bytes();
    let mut path = String::new();
    let (mut by_repository, mut by_namespace) = (0, 0);
    loop {
        let node = nodes.next().ok_or(NoTree)?;
        let forks = match node {
            NOTHING => return Ok(None),
            PAGE => return Ok(Some(path)),
            FORK => &mut by_repository,
            _ => &mut by_namespace,
        };
        let half = halves.half(node, *forks).ok_or(NoTree)?;
        if matches!(half, '1' | 'b') {
            skip_one(&mut nodes)?;
        }
        path.push(half);
        *forks += 1;
    }
}

fn skip_one(nodes: &mut impl Iterator<Item = u8>) -> Result<(), NoTree> {
    let mut open = 1_usize;
    while open > 0 {
        match nodes.next() {
            Some(FORK | FORK_BY_NAMESPACE) => open += 1,
            Some(PAGE | NOTHING) => open -= 1,
            _ => return Err(NoTree),
        }
    }
    Ok(())
}

#[expect(deprecated, reason = "SipHash 2-4, fixed for ever; the hasher that replaces it may change, and takes no key")]
fn keyed_hash(key: &str, text: &str) -> u64 {
    let mut hasher = std::hash::SipHasher::new();
    hasher.write(key.as_bytes());
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// FNV-1a with 64 bits: a few instructions per byte, and the same on every platform.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The key of a tag or a digest: its text with each dot replaced by a comma, which neither may contain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagKey(String);

impl TagKey {
    /// The keys of an image, in the order of lookup. The digest is first: it identifies one build, while a tag may have
    /// moved.
    pub fn of(image: &ImageName<'_>) -> impl Iterator<Item = Self> {
        image.digest().into_iter().chain(image.tag()).map(|reference| Self(key_of(reference)))
    }

    /// The same for a reference that was kept.
    pub fn of_reference(reference: &Reference) -> impl Iterator<Item = Self> {
        reference.digest().into_iter().chain(reference.tag()).map(|reference| Self(key_of(reference)))
    }

    /// Reads a key that was written; none for any other text.
    pub fn read(key: &str) -> Option<Self> {
        let reference = key.replace(',', ".");
        let mark = if reference.contains(':') { '@' } else { ':' };
        Reference::parse(&format!("{mark}{reference}")).map(|_| Self(key.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// The tag or digest as in an image name.
    pub fn reference(&self) -> String {
        self.0.replace(',', ".")
    }
}

/// The parts of an object that a reader of some images needs. So little is read, however many images, namespaces and tags
/// there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileParts {
    /// The history of the namespace is wanted.
    pub own: bool,
    /// The history of all namespaces together is wanted.
    pub pool: bool,
    /// The wanted tags, digests and containers of workloads; the history of all together is always wanted.
    pub keys: Vec<String>,
}

impl ProfileParts {
    /// Chooses the part of a field in a part of a list of the object: of images at these places, in this namespace.
    pub fn chooser(&self, places: &[Rc<ProfileKey>], namespace: &str) -> impl FnMut(Part, &str) -> Part {
        // The header and the images that were not read yet.
        let mut left = 1 + places.len();
        move |part, field| {
            let (is_wanted, inside) = match (part, field) {
                (Part::List, "items") => (true, Part::Object),
                (Part::Object, "spec") => (true, Part::Spec),
                (Part::Spec, "images") => (true, Part::Images),
                (Part::Image, "own") => (self.own, Part::Own),
                (Part::Image, "pool") => (self.pool, Part::Histories),
                (Part::Own, _) => (field == namespace, Part::Histories),
                (Part::Histories, "tags" | "workloads") => (true, Part::History),
                (Part::Histories, "all") => (true, Part::Whole),
                (Part::History, _) => (self.keys.iter().any(|key| key == field), Part::Whole),
                (Part::Spec, "header") => {
                    left = left.saturating_sub(1);
                    (true, Part::Whole)
                }
                (Part::Images, _) if left == 0 => (true, Part::Last),
                (Part::Images, _) => {
                    let is_wanted = places.iter().any(|place| place.key == field);
                    left = left.saturating_sub(usize::from(is_wanted));
                    (is_wanted, Part::Image)
                }
                _ => (false, Part::Nothing),
            };
            if is_wanted { inside } else { Part::Nothing }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn image(text: &str) -> ImageName<'_> {
        ImageName::parse(text).unwrap()
    }

    #[test]
    fn the_api_version_is_made_of_group_and_version() {
        assert_eq!(API_VERSION, format!("{GROUP}/{VERSION}"));
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // From the published test vectors.
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_place_of_a_repository_never_changes() {
        // Fixed, because profiles in clusters are found by it.
        let nginx = ProfileKey::of(image("nginx:1.27").repository());
        assert_eq!(nginx.key, "docker,io/library/nginx");
        assert_eq!(nginx.root.to_string(), "usage-26");
        let path = |namespace, key| -> String {
            let halves = Halves::of(&nginx, namespace, key);
            [FORK, FORK_BY_NAMESPACE]
                .map(|node| (0..8).filter_map(|forks| halves.half(node, forks)).collect::<String>())
                .concat()
        };
        let paths = [path("shop", "0f1e"), path("lab", "0f1e"), path("shop", "other")];
        assert_eq!(paths, ["00010000baabbaab", "00010000bbbbbaba", "11110010abbbbaba"]);
    }

    #[test]
    fn there_are_256_distinct_names_and_they_never_change() {
        let names: BTreeSet<String> = Root::all()
            .flat_map(|root| Quarter::ALL.map(|quarter| ProfileName::of_quarter(root, quarter).to_string()))
            .collect();
        assert_eq!(names.len(), 256);
        assert!(names.contains("usage-00.a") && names.contains("usage-3f.d"));
        let named = ["default", "shop", "team-0001", "lab"].map(|of| ProfileName::of(Root(0x3f), of).to_string());
        assert_eq!(named, ["usage-3f.b", "usage-3f.c", "usage-3f.c", "usage-3f.c"]);
        let pages = [ProfileName::of(Root(0x3f), "shop"), ProfileName::older(Root(0x3f))];
        assert_eq!(pages.map(|of| of.page("011".to_owned()).to_string()), ["usage-3f.c-011", "usage-3f-011"]);
    }

    #[test]
    fn keys_contain_no_dot_and_are_distinct() {
        for repository in ["docker.io/library/nginx", "ghcr.io/a.b/c_d.e", "registry.example.com:5000/team/a__b"] {
            let place = ProfileKey::of(repository);
            assert!(!place.key.contains('.'), "{}", place.key);
            assert!(place.is_of(repository) && !place.is_of("docker.io/library/redis"));
        }
        assert!(!ProfileKey::of("a.b/c").is_of("a-b/c"));
    }

    #[test]
    fn a_digest_is_looked_up_before_its_tag() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let keys = |text: &str| {
            let keys: Vec<TagKey> = TagKey::of(&image(text)).collect();
            assert_eq!(TagKey::of_reference(&image(text).reference()).collect::<Vec<_>>(), keys);
            keys.into_iter().map(|key| key.0).collect::<Vec<_>>()
        };
        assert_eq!(keys("nginx"), ["latest"]);
        assert_eq!(keys("nginx:1.27.1"), ["1,27,1"]);
        assert_eq!(keys(&format!("nginx@{digest}")), [digest.as_str()]);
        assert_eq!(keys(&format!("nginx:1.27@{digest}")), [digest.as_str(), "1,27"]);
        let key = TagKey::of(&image("nginx:1.27.1")).next().unwrap();
        assert_eq!(key.reference(), "1.27.1");
    }

    #[test]
    fn a_page_is_found_by_its_path_of_halves() {
        let place = ProfileKey::of("docker.io/library/nginx");
        // By this key nginx belongs to the first half three times and then to the second, and `shop` to the second.
        let find = |pages: &str| page_of(pages, Halves::of(&place, "shop", "0f1e"));
        let page = |path: &str| Ok(Some(path.to_owned()));
        assert_eq!(find("/##"), page("0"));
        assert_eq!(find("////##..."), page("0001"));
        assert_eq!(find("////.|##../#."), page("0001b"));
        assert_eq!(find("|#/##"), page("b0"));
        assert_eq!(find("////|##|.#|##.."), page("0001b"));
        assert_eq!(find("/.#"), Ok(None));
        assert_eq!(find("#"), page(""));
        for broken in ["", "/", "////#", "////#x", "x", "/x#"] {
            assert_eq!(find(broken), Err(NoTree), "{broken}");
        }
        assert_eq!(find(&"/".repeat(100)), Err(NoTree));
    }
}
