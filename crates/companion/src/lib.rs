//! The companion of the policy, in two halves.
//!
//! The collector reads what containers really used, keeps that as sketches, and publishes it as `UsageProfile`s, from
//! which the policy estimates: `source` → `collect` → `store` → `profile` → `publish`.
//!
//! The desk answers people's questions with the policy's own core: `manifest` and `surroundings` → `judge` → `output`.
//!
//! Rooms in reading order.

pub mod cli;
pub mod command;
pub mod source;

pub mod history;

pub mod collect;
pub mod store;

pub mod profile;
pub mod publish;

pub mod kinds;
pub mod manifest;
pub mod surroundings;

pub mod judge;

pub mod distribution;

pub mod describe;
pub mod edit;
pub mod gather;
pub mod recommend;

pub mod draw;
pub mod output;

pub mod clock;
pub mod kubeconfig;
pub mod metrics;
pub mod progress;
pub mod serve;
