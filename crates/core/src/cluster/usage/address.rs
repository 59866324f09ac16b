//! Where the history of an image is found: object, entry, tag.
//!
//! The companion writes by these functions and the policy reads by them, so both always mean the same place. Object
//! names come from a fixed set of 65. Keys hold no dot, because a field mask takes a dot for a step down.

use std::fmt::{self, Write as _};

use super::Window;
use crate::image::ImageName;

pub const GROUP: &str = "headroom.dev";
pub const VERSION: &str = "v1alpha1";
/// Group and version as an object states them.
pub const API_VERSION: &str = "headroom.dev/v1alpha1";
pub const KIND: &str = "UsageProfile";

/// Whose history an object holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// That of the namespace it stands in.
    Namespace,
    /// That of all namespaces together, for one share of the repositories.
    Pool(Shard),
}

impl Scope {
    /// `namespace` or `pool`
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Pool(_) => "pool",
        }
    }

    /// The name of the object, within the namespace concerned or within the pool's.
    pub fn object_name(self) -> String {
        match self {
            Self::Namespace => "usage".to_owned(),
            Self::Pool(shard) => shard.to_string(),
        }
    }
}

/// One of the objects that share the pooled history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u8);

impl Shard {
    /// Fixed, because changing it would orphan every history collected so far.
    pub const COUNT: u8 = 64;

    /// The shard that holds this repository.
    pub fn of(repository: &str) -> Self {
        Self((hash(repository) % u64::from(Self::COUNT)) as u8)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }
}

/// `pool-3f`
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool-{:02x}", self.0)
    }
}

/// A repository in full form, `docker.io/library/nginx`; only an [`ImageName`] yields one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository(String);

impl Repository {
    pub fn of(image: &ImageName<'_>) -> Self {
        Self(image.repository().to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The place of an image's entry in a profile, and whose it has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub key: String,
    pub repository: Repository,
}

impl Place {
    pub fn of(image: &ImageName<'_>) -> Self {
        Self { key: image_key(image.repository()), repository: Repository::of(image) }
    }
}

/// The key of a repository's entry under `spec.images`: `nginx-f7b30ec5501512a6`, the end of its path for people and a
/// hash of the whole for distinction. An entry also names its repository, so that a reader notices a collision.
pub fn image_key(repository: &str) -> String {
    const LONGEST_SLUG: usize = 40;
    let slug_at = repository.bytes().rposition(|byte| byte == b'/').map_or(0, |slash| slash + 1);
    let slug = repository.bytes().skip(slug_at).take(LONGEST_SLUG).map(|byte| match byte.to_ascii_lowercase() {
        byte @ (b'a'..=b'z' | b'0'..=b'9' | b'-') => char::from(byte),
        _ => '-',
    });
    let mut key = String::with_capacity(LONGEST_SLUG + 17);
    key.extend(slug);
    // Writing into a string does not fail.
    let _ = write!(key, "-{:016x}", hash(repository));
    key
}

/// FNV-1a over 64 bits: a few instructions a byte, and the same everywhere.
fn hash(repository: &str) -> u64 {
    repository.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The key of a tag or a digest under `spec.images.<key>.tags`: its text with each dot as a comma, which neither may
/// hold itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagKey(String);

impl TagKey {
    /// Where the history of just this image is kept, and the order in which to look: a digest names one build, so its
    /// history is closer than that of a tag, which may have moved.
    pub fn of(image: &ImageName<'_>) -> impl Iterator<Item = Self> {
        image.digest().into_iter().chain(image.tag()).map(|reference| Self(reference.replace('.', ",")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag or digest as it stands in an image name.
    pub fn reference(&self) -> String {
        self.0.replace(',', ".")
    }
}

/// The parts of a profile that a reader needs who looks for this image in these windows, of just this image and of all
/// its tags together: what the whole object says of itself, the entry's repository and its histories. However many
/// images there are, the answer stays this small.
pub fn field_masks(place: &Place, image: &ImageName<'_>, of_tag: &[Window], of_all: &[Window]) -> Vec<String> {
    let entry = ["spec.images.", &place.key].concat();
    let mut masks = vec!["spec.format".to_owned(), "spec.collectedAt".to_owned(), "spec.quorum".to_owned()];
    masks.push([entry.as_str(), ".repository"].concat());
    push_history_masks(&mut masks, [entry.as_str(), ".all"].concat(), of_all);
    for tag in TagKey::of(image) {
        push_history_masks(&mut masks, [entry.as_str(), ".tags.", tag.as_str()].concat(), of_tag);
    }
    masks
}

fn push_history_masks(masks: &mut Vec<String>, history: String, windows: &[Window]) {
    match windows {
        [] => {}
        [window] => {
            masks.push([history.as_str(), ".days"].concat());
            masks.push([history.as_str(), ".oomKills"].concat());
            masks.push([history.as_str(), ".windows.", &window.name()].concat());
        }
        // Nearly all that there is.
        _ => masks.push(history),
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
        // From the table of test vectors that its authors publish.
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_place_of_a_repository_never_changes() {
        // Written down, because profiles in clusters are found by it.
        let nginx = image("nginx:1.27");
        assert_eq!(image_key(nginx.repository()), "nginx-f7b30ec5501512a6");
        assert_eq!(Shard::of(nginx.repository()).to_string(), "pool-26");
    }

    #[test]
    fn object_names_are_few_and_distinct() {
        let names: BTreeSet<String> =
            Shard::all().map(Scope::Pool).chain([Scope::Namespace]).map(Scope::object_name).collect();
        assert_eq!(names.len(), 65);
        assert_eq!(names.first().map(String::as_str), Some("pool-00"));
        assert!(names.contains("pool-3f"));
    }

    #[test]
    fn repositories_spread_over_all_shards() {
        let mut images = [0_u32; Shard::COUNT as usize];
        for number in 0..6400 {
            images[usize::from(Shard::of(&format!("registry.example.com/team/app-{number}")).0)] += 1;
        }
        assert!(images.iter().all(|images| (50..200).contains(images)), "{images:?}");
    }

    #[test]
    fn keys_hold_no_dot_and_no_other_case() {
        let longest = format!("registry.example.com:5000/team/{}", "a_b.c-".repeat(20) + "d");
        for repository in ["docker.io/library/nginx", "ghcr.io/a.b/c_d.e", &longest] {
            let key = image_key(repository);
            assert!(key.len() <= 57, "{key}");
            assert!(key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')), "{key}");
        }
        assert_ne!(image_key("docker.io/library/nginx"), image_key("docker.io/team/nginx"));
    }

    #[test]
    fn a_digest_is_looked_up_before_its_tag() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let keys = |text: &str| TagKey::of(&image(text)).map(|key| key.0).collect::<Vec<_>>();
        assert_eq!(keys("nginx"), ["latest"]);
        assert_eq!(keys("nginx:1.27.1"), ["1,27,1"]);
        assert_eq!(keys(&format!("nginx@{digest}")), [digest.as_str()]);
        assert_eq!(keys(&format!("nginx:1.27@{digest}")), [digest.as_str(), "1,27"]);
        let key = TagKey::of(&image("nginx:1.27.1")).next().unwrap();
        assert_eq!(key.reference(), "1.27.1");
    }

    #[test]
    fn masks_reach_only_the_one_image() {
        let nginx = image("nginx:1.27");
        let masks = |of_tag: &[Window], of_all: &[Window]| field_masks(&Place::of(&nginx), &nginx, of_tag, of_all);
        assert_eq!(
            masks(&[Window::WEEK, Window::MONTH], &[Window::MONTH]),
            [
                "spec.format",
                "spec.collectedAt",
                "spec.quorum",
                "spec.images.nginx-f7b30ec5501512a6.repository",
                "spec.images.nginx-f7b30ec5501512a6.all.days",
                "spec.images.nginx-f7b30ec5501512a6.all.oomKills",
                "spec.images.nginx-f7b30ec5501512a6.all.windows.30d",
                "spec.images.nginx-f7b30ec5501512a6.tags.1,27",
            ]
        );
        assert_eq!(masks(&[], &[]).len(), 4);
    }
}
