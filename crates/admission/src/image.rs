//! Image names as container runtimes read them: `nginx:1.27` is the repository `docker.io/library/nginx` with the
//! tag `1.27`.
//!
//! Parses a name into repository, tag and digest, and refuses invalid names; [`pattern`] matches names with an
//! operator's selectors. Both follow the reference grammar that container runtimes share, because otherwise the
//! histories of different images could be mixed up. Callers decide about a container with an invalid image name:
//! Kubernetes admits it, and the node refuses to pull it.

use std::borrow::Cow;
use std::fmt;

pub mod pattern;

use crate::truncate::on_one_line;

pub use pattern::ImagePattern;

/// The registry of a name without one, and the folder in it of a name without one.
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_FOLDER: &str = "library";
/// Another name of the default registry; both pull the same images.
const DEFAULT_REGISTRY_ALIAS: &str = "index.docker.io";
const DEFAULT_TAG: &str = "latest";
const MAX_REPOSITORY_LENGTH: usize = 255;
const MAX_TAG_LENGTH: usize = 128;
/// Longer than any repository, tag and digest together.
const MAX_LENGTH: usize = 1024;

/// A valid image name in its full form. Borrows from the parsed text where that text is in full form already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName<'a> {
    repository: Cow<'a, str>,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> ImageName<'a> {
    /// Reads `[registry[:port]/]path[:tag][@digest]`.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        const TOO_LONG: &str = "not an image name: a repository has at most 255 characters";
        let invalid = |problem| Err(format!("`{}` is {problem}", excerpt(text)));
        if text.is_empty() {
            return Err("the image name is empty".to_owned());
        }
        // Not parsed at all: it may be megabytes.
        if text.len() > MAX_LENGTH {
            return invalid(TOO_LONG);
        }
        let NameParts { name, tag, digest } = NameParts::split(text);
        // Exactly sixty-four hexadecimal digits are an image's ID, which runtimes refuse as a name.
        if name.len() == 64 && name.bytes().all(is_lower_hex) {
            return invalid("an image ID, not an image name: write repository and digest");
        }
        let (registry, path) = split_registry(name);
        if registry.is_some_and(|registry| !is_registry(registry)) {
            return invalid("not an image name: its registry must be a host name, with or without a port");
        }
        if !components(path).all(is_path_component) {
            let only_case_is_wrong = path.to_ascii_lowercase().split('/').all(is_path_component);
            return invalid(if only_case_is_wrong {
                "not an image name: a repository is written in lower case"
            } else {
                "not an image name: each part of a repository is letters and digits, \
                 with `.`, `_`, `__` or `-` between them"
            });
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return invalid(
                "not an image name: a tag is 1 to 128 letters, digits, `_`, `.` and `-`, \
                 and begins with a letter, a digit or `_`",
            );
        }
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return invalid("not an image name: a digest is `sha256:` and 64 lower-case hexadecimal digits");
        }
        let repository = full_repository(name);
        if repository.len() > MAX_REPOSITORY_LENGTH {
            return invalid(TOO_LONG);
        }
        Ok(Self { repository, tag, digest })
    }

    /// A name, or a part of one, before its tag and digest, as it is written.
    pub fn before_reference(text: &str) -> &str {
        NameParts::split(text).name
    }

    /// Registry and path, always in full: `docker.io/library/nginx`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag to pull: the one in the name, or `latest`. A name with a digest and no tag has none.
    pub fn tag(&self) -> Option<&'a str> {
        self.tag.or(if self.digest.is_some() { None } else { Some(DEFAULT_TAG) })
    }

    /// The digest, with its algorithm: `sha256:…`.
    pub fn digest(&self) -> Option<&'a str> {
        self.digest
    }

    /// The tag and the digest, to be kept beside the [`Repository`].
    pub fn reference(&self) -> Reference {
        Reference { tag: self.tag().map(str::to_owned), digest: self.digest.map(str::to_owned) }
    }
}

/// A repository in full form, `docker.io/library/nginx`: the part of an image's name that its history is kept by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository(String);

impl Repository {
    pub fn of(image: &ImageName<'_>) -> Self {
        Self(image.repository().to_owned())
    }

    /// Reads a repository that was written in full form; none for any other text.
    pub fn from_full(text: &str) -> Option<Self> {
        let name = ImageName::parse(text).ok()?;
        (name.repository() == text).then(|| Self::of(&name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tag of an image, its digest, or both: what distinguishes the images of one repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    tag: Option<String>,
    digest: Option<String>,
}

impl Reference {
    /// Reads `:1.27`, `@sha256:…`, or both; none for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let NameParts { name, tag, digest } = NameParts::split(text);
        let is_valid = tag.is_none_or(is_tag) && digest.is_none_or(is_digest) && (tag.is_some() || digest.is_some());
        (name.is_empty() && is_valid).then(|| Self { tag: tag.map(str::to_owned), digest: digest.map(str::to_owned) })
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

/// `:1.27`, `@sha256:…`, or both, as behind the repository in an image's name.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mark, part) in [(':', &self.tag), ('@', &self.digest)] {
            if let Some(part) = part {
                write!(f, "{mark}{part}")?;
            }
        }
        Ok(())
    }
}

/// A name split at the separators of the grammar's outermost level.
struct NameParts<'a> {
    name: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> NameParts<'a> {
    /// The digest follows the `@`, the tag the last colon after the last slash: an earlier colon belongs to a port.
    fn split(text: &'a str) -> Self {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => Self { name, tag: Some(tag), digest },
            _ => Self { name: rest, tag: None, digest },
        }
    }
}

/// The registry is the part before the first slash, if it looks like a host and not like a folder.
fn split_registry(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, path)) if looks_like_a_host(first) => (Some(first), path),
        _ => (None, name),
    }
}

fn looks_like_a_host(first: &str) -> bool {
    first == "localhost" || first.bytes().any(|byte| matches!(byte, b'.' | b':') || byte.is_ascii_uppercase())
}

/// The name with registry and folder; allocates only if one of them is missing in it.
fn full_repository(name: &str) -> Cow<'_, str> {
    match split_registry(name) {
        (Some(registry), _) if registry != DEFAULT_REGISTRY && registry != DEFAULT_REGISTRY_ALIAS => name.into(),
        (Some(DEFAULT_REGISTRY), path) if path.contains('/') => name.into(),
        (_, path) if path.contains('/') || path.starts_with(pattern::WILDCARD) => {
            [DEFAULT_REGISTRY, "/", path].concat().into()
        }
        (_, path) => [DEFAULT_REGISTRY, "/", DEFAULT_FOLDER, "/", path].concat().into(),
    }
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    };
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(ipv6) => !ipv6.is_empty() && ipv6.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':'),
        None => host.split('.').all(is_host_label),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Like `path.split('/')`, whose search costs too much for short texts.
fn components(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest?;
        let end = path.bytes().position(|byte| byte == b'/');
        rest = end.and_then(|end| path.get(end + 1..));
        path.get(..end.unwrap_or(path.len()))
    })
}

/// Lower-case letters and digits, with single dots, one or two underscores or any run of hyphens between them.
fn is_path_component(component: &str) -> bool {
    let mut is_alphanumeric = false;
    let mut between_from = 0;
    for (at, byte) in component.bytes().enumerate() {
        is_alphanumeric = byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if is_alphanumeric {
            let between = component.get(between_from..at).unwrap_or_default();
            let is_separator = matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-');
            if !is_separator || (between_from == 0 && at > 0) {
                return false;
            }
            between_from = at + 1;
        }
    }
    is_alphanumeric
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG_LENGTH
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

/// Checks for the algorithms that runtimes know, each with its number of digits.
fn is_digest(digest: &str) -> bool {
    [("sha256:", 64), ("sha384:", 96), ("sha512:", 128)].iter().any(|(algorithm, digits)| {
        digest.strip_prefix(algorithm).is_some_and(|hex| hex.len() == *digits && hex.bytes().all(is_lower_hex))
    })
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The beginning of an untrusted text for a message, on one line.
fn excerpt(text: &str) -> String {
    on_one_line(text, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// Repository and reference can be kept as texts, and joined they are the name in full.
    #[track_caller]
    fn check(text: &str, repository: &str, reference: &str) {
        let name = ImageName::parse(text).unwrap();
        let kept = (Repository::of(&name), name.reference());
        assert_eq!((kept.0.as_str(), kept.1.to_string().as_str()), (repository, reference), "{text}");
        assert_eq!(Repository::from_full(repository).as_ref(), Some(&kept.0), "{text}");
        assert_eq!(Reference::parse(reference).as_ref(), Some(&kept.1), "{text}");
        let full = format!("{repository}{reference}");
        let again = ImageName::parse(&full).unwrap();
        assert_eq!((Repository::of(&again), again.reference()), kept, "{text}");
    }

    #[test]
    fn a_short_name_means_the_default_registry() {
        check("nginx", "docker.io/library/nginx", ":latest");
        check("nginx:1.27", "docker.io/library/nginx", ":1.27");
        check("team/app:v1", "docker.io/team/app", ":v1");
        check("docker.io/nginx", "docker.io/library/nginx", ":latest");
        check("docker.io/library/nginx", "docker.io/library/nginx", ":latest");
        check("index.docker.io/nginx", "docker.io/library/nginx", ":latest");
        check("index.docker.io/team/app", "docker.io/team/app", ":latest");
    }

    #[test]
    fn a_host_before_the_first_slash_is_the_registry() {
        check("registry.example.com/app", "registry.example.com/app", ":latest");
        check("registry.example.com/team/app:v1", "registry.example.com/team/app", ":v1");
        check("localhost/app", "localhost/app", ":latest");
        check("[2001:db8::1]:5000/app:v1", "[2001:db8::1]:5000/app", ":v1");
        check("[2001:db8::1]/app", "[2001:db8::1]/app", ":latest");
        check("Registry/app", "Registry/app", ":latest");
    }

    #[test]
    fn a_port_is_not_a_tag() {
        check("registry:5000/team/app", "registry:5000/team/app", ":latest");
        check("registry:5000/team/app:v1", "registry:5000/team/app", ":v1");
        check("localhost:5000/app", "localhost:5000/app", ":latest");
        // Without a slash there is no registry, so this is the image `localhost` with a tag, as in runtimes.
        check("localhost:5000", "docker.io/library/localhost", ":5000");
    }

    #[test]
    fn a_digest_may_follow_a_tag_or_the_name() {
        check(&format!("nginx@sha256:{HEX}"), "docker.io/library/nginx", &format!("@sha256:{HEX}"));
        check(&format!("nginx:1.27@sha256:{HEX}"), "docker.io/library/nginx", &format!(":1.27@sha256:{HEX}"));
        let reference = format!(":v1@sha512:{HEX}{HEX}");
        check(&format!("registry:5000/team/app{reference}"), "registry:5000/team/app", &reference);
    }

    #[test]
    fn other_texts_are_neither_repository_nor_reference() {
        for text in ["nginx", "docker.io/library/nginx:1.27", "docker.io/nginx", "", "a/b"] {
            assert_eq!(Repository::from_full(text), None, "{text}");
        }
        for text in ["", "1.27", ":", "@", ":a b", "@sha256:abc", ":1@", "nginx:1"] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_full_name_is_borrowed() {
        let name = ImageName::parse("registry.example.com/team/app:v1").unwrap();
        assert!(matches!(name.repository, Cow::Borrowed("registry.example.com/team/app")));
    }

    #[test]
    fn the_error_of_an_invalid_name_explains_what_is_wrong() {
        assert_eq!(ImageName::parse("").unwrap_err(), "the image name is empty");
        for (text, problem) in [
            (HEX, "an image ID, not an image name: write repository and digest"),
            ("Nginx", "not an image name: a repository is written in lower case"),
            ("-bad.example.com/app", "not an image name: its registry must be a host name, with or without a port"),
            ("nginx@sha256:abc", "not an image name: a digest is `sha256:` and 64 lower-case hexadecimal digits"),
        ] {
            assert_eq!(ImageName::parse(text).unwrap_err(), format!("`{text}` is {problem}"));
        }
        for text in ["/app", "app/", "a//b", "app..b", "app-", "_app", "a___b", "a b", "nginx\n", "café", "$(IMAGE)"] {
            let message = ImageName::parse(text).unwrap_err();
            assert!(message.contains("each part of a repository"), "{text:?}: {message}");
            assert!(!message.contains('\n'), "{text:?}: {message}");
        }
        for text in ["nginx:", "nginx:.1", "nginx:-1", "nginx:a b", "nginx:1:2x/"] {
            assert!(ImageName::parse(text).is_err(), "{text:?}");
        }
        let long_tag = format!("nginx:{}", "1".repeat(129));
        assert!(ImageName::parse(&long_tag).unwrap_err().contains("1 to 128"));
        let long = "a".repeat(256);
        assert!(ImageName::parse(&long).unwrap_err().contains("at most 255 characters"));
    }

    #[test]
    fn a_message_repeats_only_the_beginning_of_a_long_name() {
        let message = ImageName::parse(&"A".repeat(10_000)).unwrap_err();
        assert!(message.len() < 200, "{message}");
    }
}
