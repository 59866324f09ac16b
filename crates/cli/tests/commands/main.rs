//! The commands for users: runs the program and compares its output, mostly with the files of `expected`, which
//! `UPDATE_EXPECT=1` rewrites.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic on unexpected data")]

mod cluster;
mod console;
mod describe;
mod describe_conformance;
mod doctor;
mod formats;
mod github_action;
mod hostile;
mod pre_commit;
mod recommend_from_store;
mod screens;
mod sessions;
mod support;
mod terminal;
mod tour;
