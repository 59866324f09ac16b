//! The commands for users: runs the program and compares its output, mostly with the files of `expected`, which
//! `UPDATE_EXPECT=1` rewrites.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic on unexpected data")]

mod cluster;
mod console;
mod describe;
mod describe_conformance;
mod doctor;
#[path = "../../../core/tests/core/entry.rs"]
mod entry;
mod errors;
mod estimates;
mod formats;
mod github_action;
mod hostile;
mod pre_commit;
mod recommend_from_store;
mod recommendation;
mod record;
mod replay;
mod screens;
mod sessions;
#[path = "../../../core/tests/core/estimates/situation.rs"]
#[expect(dead_code, reason = "the core's own tests use more of it")]
mod situation;
mod support;
mod terminal;
mod tour;
