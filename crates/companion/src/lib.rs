//! The companion of the policy: it reads what containers really used, keeps that as sketches, and publishes it as
//! `UsageProfile`s, from which the policy estimates.
//!
//! Rooms in reading order. The path of the data is `source` → `collect` → `store` → `profile` → `publish`.

pub mod cli;
pub mod command;
pub mod source;

pub mod history;

pub mod collect;
pub mod store;

pub mod profile;
pub mod publish;

pub mod describe;
pub mod draw;
pub mod edit;

pub mod clock;
pub mod kubeconfig;
pub mod metrics;
pub mod progress;
pub mod serve;
