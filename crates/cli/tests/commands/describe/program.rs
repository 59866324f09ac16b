//! Runs the program with a user's arguments in its own environment.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The result of a run.
pub struct Said {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/describe")
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
    // No test may use a cluster that happens to be configured.
    command.current_dir(here()).env("KUBECONFIG", "/dev/null").env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
    command
}

pub fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    Said {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs with arguments separated by spaces.
pub fn run(arguments: &str) -> Said {
    said(program().args(arguments.split_whitespace()))
}
