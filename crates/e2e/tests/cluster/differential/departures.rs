//! Departures from Kubernetes, each with its reason: of the policy from the plugins (`departures.yaml`), of `check` from
//! the API server (`departures_of_check.yaml`).

use headroom_admission::glob;
use serde::Deserialize;

use super::case::{Case, Trait};
use super::outcome::{Difference, Kind};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Departure {
    pub reason: String,
    /// The sentence of `limits.md` that tells users.
    limits: Option<String>,
    difference: Kind,
    /// Only at API servers older than this minor version.
    before: Option<u16>,
    /// Only for requests of this kind.
    #[serde(rename = "where")]
    only: Option<Trait>,
    /// The text of Kubernetes, with `*` for any text.
    kubernetes: Option<String>,
    /// Our text.
    headroom: Option<String>,
}

impl Departure {
    /// Those of the policy from the plugins of an API server with this minor version.
    pub fn of_policy(minor: u16) -> Vec<Self> {
        Self::listed(include_str!("departures.yaml"), minor)
    }

    /// Those of `check` from an API server with this minor version, whose plugins may be those of an old release.
    pub fn of_check(minor: u16) -> Vec<Self> {
        let old = Self::of_policy(minor).into_iter().filter(|departure| departure.before.is_some());
        Self::listed(include_str!("departures_of_check.yaml"), minor).into_iter().chain(old).collect()
    }

    /// Asserts that these are at most `most`, and that the book tells of each that is not one of old releases.
    pub fn assert_documented(all: &[Self], most: usize) {
        let all: Vec<&Self> = all.iter().filter(|departure| departure.before.is_none()).collect();
        assert!(all.len() <= most, "{} departures, but at most {most} may be", all.len());
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = words(include_str!("../../../../../docs/src/concepts/limits.md"));
        for Self { reason, limits, .. } in all {
            let row = limits.as_deref().map(words).unwrap_or_default();
            assert!(
                !row.is_empty() && page.contains(&row),
                "docs/src/concepts/limits.md does not say {row:?}: {reason}"
            );
        }
    }

    fn listed(text: &str, minor: u16) -> Vec<Self> {
        let mut all: Vec<Self> = serde_yaml::from_str(text).unwrap();
        all.retain(|departure| departure.before.is_none_or(|before| minor < before));
        all
    }

    pub fn allows(&self, case: &Case, difference: &Difference) -> bool {
        let allows = |pattern: &Option<String>, text: &str| pattern.as_deref().is_none_or(|of| glob::matches(of, text));
        self.difference == difference.kind
            && self.only.is_none_or(|only| case.has(only))
            && allows(&self.kubernetes, &difference.kubernetes)
            && allows(&self.headroom, &difference.headroom)
    }
}
