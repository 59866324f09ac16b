//! `headroom-controller` as a program, and its metrics in alerts, dashboard and documentation.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

mod from_prometheus;
mod full_disk;
mod ledger;
mod monitoring;
mod program;
mod resize;

use std::path::Path;
use std::process::Command;

const DAY: i64 = 86_400;
/// 2026-11-21T00:00:00Z
const NOW: i64 = 1_795_219_200;

/// Runs `collect` with a source, into a store and profiles of a folder.
fn collect(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom-controller"));
    command.args(["collect", "--store"]).arg(folder.join("usage.redb"));
    command.arg("--output").arg(folder.join("profiles"));
    command
}
