//! Runs the program in the folder of these tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{self, Said, said};

pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/describe")
}

pub fn program() -> Command {
    support::program(&here())
}

/// Runs with arguments separated by spaces.
pub fn run(arguments: &str) -> Said {
    said(program().args(arguments.split_whitespace()))
}
