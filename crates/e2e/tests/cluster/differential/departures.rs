//! Departures from the plugins of Kubernetes 1.20, each with its reason: `departures.yaml`.

use headroom_core::glob;
use serde::Deserialize;

use super::case::{Case, Trait};
use super::outcome::{Difference, Kind};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Departure {
    pub reason: String,
    difference: Kind,
    /// Only for requests of this kind.
    #[serde(rename = "where")]
    only: Option<Trait>,
    /// The text of Kubernetes, with `*` for any text.
    #[serde(default = "anything")]
    kubernetes: String,
    /// Our text.
    #[serde(default = "anything")]
    headroom: String,
}

fn anything() -> String {
    "*".to_owned()
}

impl Departure {
    pub fn all() -> Vec<Self> {
        serde_yaml::from_str(include_str!("departures.yaml")).unwrap()
    }

    pub fn allows(&self, case: &Case, difference: &Difference) -> bool {
        self.difference == difference.kind
            && self.only.is_none_or(|only| case.has(only))
            && glob::matches(&self.kubernetes, &difference.kubernetes)
            && glob::matches(&self.headroom, &difference.headroom)
    }
}
