//! A report as people and programs read it, and what stands beside it in a snapshot: pods that were rejected.
//!
//! Modules in reading order.

pub mod csv;
pub mod table;

pub mod findings;
pub mod markdown;
pub mod pull_request;

pub mod rejections;
pub mod summary;
