//! `describe`, `recommend` and the conventions for kubectl plugins, by running the program.
//!
//! `world` is a namespace in files, and `profiles` the output of `headroom-controller collect` for it.

mod conventions;
mod snapshots;

use std::path::{Path, PathBuf};

use crate::support::{Said, program, said};

pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/describe")
}

/// Runs with arguments separated by spaces.
fn run(arguments: &str) -> Said {
    said(program(&here()).args(arguments.split_whitespace()))
}
