//! Patterns of images in an operator's selectors: `nginx`, `registry.example.com/*`, `*/team/app:v1.*`.
//!
//! A pattern is completed like an image name, so `nginx` is `docker.io/library/nginx` and never `nginx-exporter`. `*`
//! matches any run of characters, including slashes; a pattern that begins with it is not completed, and so matches in
//! any registry. Without tag or digest a pattern matches all of them.

use std::borrow::Cow;

use super::{ImageName, NameParts, components, excerpt, full_repository, split_registry};
use crate::glob;

pub(super) const WILDCARD: char = '*';

/// A valid pattern, with its repository in full form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePattern<'a> {
    repository: Cow<'a, str>,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> ImagePattern<'a> {
    /// Refuses a text that cannot match any image, because such a selector is a mistake.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let invalid = |rule| Err(format!("`{}` matches no image: {rule}", excerpt(text)));
        let NameParts { name, tag, digest } = NameParts::split(text);
        if components(name).any(str::is_empty) || tag.is_some_and(str::is_empty) || digest.is_some_and(str::is_empty) {
            return invalid("write a repository, and a tag after a `:`, such as `nginx:latest` or `*/team/*`");
        }
        let can_be_matched = |c: char| c.is_ascii_alphanumeric() || ".:/_-@[]*".contains(c);
        if !text.chars().all(can_be_matched) {
            return invalid("image names are letters, digits and `.:/_-@`, and `*` stands for any of them");
        }
        let path = split_registry(name).1;
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return invalid("a repository is written in lower case");
        }
        // Only a wildcard can stand for the registry before a port.
        if path.bytes().any(|byte| byte == b':') && !path.starts_with(WILDCARD) {
            return invalid("a `:` before the tag may only be in a registry before a `/`");
        }
        let repository = if name.starts_with(WILDCARD) { name.into() } else { full_repository(name) };
        Ok(Self { repository, tag, digest })
    }

    pub fn matches(&self, image: &ImageName<'_>) -> bool {
        let part_matches = |pattern: Option<&str>, part: Option<&str>| match (pattern, part) {
            (Some(pattern), Some(part)) => glob::matches(pattern, part),
            (Some(_), None) => false,
            (None, _) => true,
        };
        glob::matches(&self.repository, image.repository())
            && part_matches(self.tag, image.tag())
            && part_matches(self.digest, image.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let parsed = ImagePattern::parse(pattern).unwrap();
        for image in [matching, others].concat() {
            let expected = matching.contains(&image);
            assert_eq!(parsed.matches(&ImageName::parse(image).unwrap()), expected, "{pattern} on {image}");
        }
    }

    #[test]
    fn a_plain_name_means_that_repository_with_any_tag() {
        check(
            "nginx",
            &["nginx", "nginx:1.27", "docker.io/nginx", "index.docker.io/library/nginx:x"],
            &["nginx-exporter", "team/nginx", "registry.example.com/nginx", "registry.example.com/library/nginx"],
        );
    }

    #[test]
    fn a_wildcard_matches_slashes() {
        check(
            "registry.example.com/*",
            &["registry.example.com/app", "registry.example.com/team/app:v1"],
            &["registry.example.com.evil.example/app", "nginx"],
        );
        check("docker.io/*", &["nginx", "team/app", "docker.io/library/redis"], &["quay.io/team/app"]);
        check("*", &["nginx", "registry:5000/team/app:v1"], &[]);
        check(
            "*/team/app:v1.*",
            &["team/app:v1.2", "quay.io/team/app:v1."],
            &["team/app:v2", "team/app", "quay.io/team/apps:v1.2"],
        );
    }

    #[test]
    fn a_wildcard_that_is_not_first_stays_in_the_default_registry() {
        check("team-*/app", &["team-a/app", "docker.io/team-b/app"], &["quay.io/team-a/app"]);
        check("nginx*", &["nginx", "nginx-exporter"], &["quay.io/nginx"]);
    }

    #[test]
    fn tag_and_digest_must_match_if_the_pattern_has_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let (bare, both) = (format!("nginx@{digest}"), format!("nginx:1.27@{digest}"));
        check("nginx:latest", &["nginx", "nginx:latest"], &["nginx:1.27", &bare]);
        check("nginx:1.*", &["nginx:1.27", &both], &["nginx:21.0", &bare]);
        check("nginx@sha256:aaaa*", &[&bare, &both], &["nginx:1.27"]);
        check("registry:5000/app", &["registry:5000/app:v1"], &["registry:5001/app:v1"]);
    }

    #[test]
    fn a_pattern_that_cannot_match_is_refused() {
        let empty = "write a repository, and a tag after a `:`, such as `nginx:latest` or `*/team/*`";
        for (text, rule) in [
            ("", empty),
            ("nginx:", empty),
            ("https://docker.io/library/nginx", empty),
            ("docker://nginx", empty),
            ("ghcr.io//x", empty),
            ("nginx/", empty),
            ("/nginx", empty),
            ("nginx:1.27:latest", "a `:` before the tag may only be in a registry before a `/`"),
            ("quay.io/team:v*/app", "a `:` before the tag may only be in a registry before a `/`"),
            ("ng?nx", "image names are letters, digits and `.:/_-@`, and `*` stands for any of them"),
            ("Team/App", "a repository is written in lower case"),
        ] {
            assert_eq!(ImagePattern::parse(text).unwrap_err(), format!("`{text}` matches no image: {rule}"));
        }
    }
}
