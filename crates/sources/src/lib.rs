//! Where usage comes from: one abstraction, one file a source.
//!
//! A source turns the answers of a metrics store into samples ([`headroom_usage::sample`]) and decides nothing else: which windows are
//! read, how often a failed read is tried again, and what becomes of the samples is the pipeline's business
//! (`headroom_collector`). A source deals with what is peculiar to its answers: duplicate series of HA pairs, counter
//! resets, NaN, gaps, label names. Floats end here: a sample is an integer.

pub mod error;

pub mod http;

pub mod cloud_auth;
pub mod port_forward;

pub mod json_stream;
pub mod listing;

pub mod cluster_id;
pub mod diagnosis;

pub mod source;

pub mod checkpoints;
pub mod files;
pub mod influxdb;
pub mod metrics_api;
pub mod prometheus;

pub use error::SourceError;
pub use source::{Reach, Sink, Source};
