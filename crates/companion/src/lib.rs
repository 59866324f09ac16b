//! The companion of the policy, in two halves.
//!
//! The collector reads what containers really used, keeps that as sketches, and publishes it as `UsageProfile`s, from
//! which the policy estimates: `source` → `collect` → `store` → `profile` → `publish`.
//!
//! The desk answers people's questions with the policy's own core: `manifest` and `surroundings` → `judge` → `output`.
//! What of it needs neither files nor a network is in `headroom_dryrun`, which runs in the page too.
//!
//! Modules in reading order.

pub mod cli;
pub mod collect;
pub mod command;
pub mod store;

pub mod profile;
pub mod publish;

pub mod manifest;

pub mod describe;
pub mod selector;

pub mod metrics;
pub mod serve;
