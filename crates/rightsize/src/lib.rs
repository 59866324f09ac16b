//! Recommended requests from usage: `kubectl headroom recommend`.
//!
//! `headroom_workloads::inventory` reads the workloads. Their usage is in UsageProfiles, or `discover`
//! finds a metrics store and `history` reads it into memory, which `history_overlay` shows to the policy as if it had been
//! published. `engine` evaluates each workload with the core (`evaluated`), with a `reason` for each amount and the effects on
//! quotas and autoscalers, and all together are a `report`. Every output is made of its `rows`: `table`, `csv`, `markdown`,
//! `html`, the `summary` of a snapshot, or of its `findings`; `patches` are what changes, which `edit` sets in manifests and
//! `trial` evaluates before. `bounds` are quotas and LimitRanges for all that. Besides, a snapshot has `rejections`.
//!
//! Modules in reading order.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "text of others is printed by headroom_report, which cleans it"
)]

pub mod amounts;
pub mod distribution;
pub mod reason;

pub mod rejections;

pub mod declined;

pub mod autoscaler;

pub mod discover;
mod heap;
pub mod history;
pub mod history_overlay;

pub mod blocked;
pub mod evidence;
pub mod flag;
pub mod memory_limit;
pub mod template;

pub mod by_image;
pub mod timeline;
pub mod workload;

pub mod price;
pub mod quota_effect;
pub mod risk;
pub mod rule;

pub mod report;
pub mod rows;

mod evaluated;

pub mod engine;

pub mod edit;
pub mod patches;
pub mod trial;

pub mod csv;
pub mod findings;
pub mod html;
pub mod markdown;
pub mod pull_request;
pub mod summary;
pub mod table;

pub mod bounds;

#[cfg(test)]
mod tests;
