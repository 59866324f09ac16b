//! Options for reading a store with Prometheus' API.

use super::names::Overrides;
use super::selector::Matchers;
use crate::http::Endpoint;

#[derive(Clone)]
pub struct PrometheusOptions {
    pub endpoint: Endpoint,
    pub names: Overrides,
    /// Put into every selector, such as `cluster="prod"`, which is needed where several clusters share a store.
    pub matchers: Matchers,
    pub step_seconds: u32,
    /// The step of CPU where usage is kept by pod, if it is another: one that is read at each is an average of a minute, since
    /// those of more hide bursts.
    pub cpu_step_seconds: Option<u32>,
    /// Read ephemeral storage too, where the store has it.
    pub ephemeral_storage: bool,
    /// Take an answer in which a part of the store did not take part. What it misses is missed for ever.
    pub accept_partial: bool,
    /// Read only containers whose image's name contains this, and their kills.
    pub image: Option<String>,
    /// The moment that the store is asked about in the place of now, in unix seconds.
    pub as_of: Option<i64>,
}

impl PrometheusOptions {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            names: Overrides::default(),
            matchers: Matchers::default(),
            step_seconds: 60,
            cpu_step_seconds: None,
            ephemeral_storage: false,
            accept_partial: false,
            image: None,
            as_of: None,
        }
    }
}
