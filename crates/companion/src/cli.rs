//! What can be typed, and the exit codes. What it means is in `command`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::command;

#[derive(Debug, Parser)]
#[command(name = "kubectl-headroom", bin_name = "kubectl headroom", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read container usage from where the cluster keeps it, and publish it as `UsageProfile`s
    Collect(command::collect::Args),
    /// Probe a source of usage: say what was found, and what to do about what is missing
    Doctor(command::doctor::Args),
}

/// Reads the arguments, does what they say, and reports how it went: 0 done, 1 failed, 2 not understood.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Collect(args) => command::collect::run(args),
        Command::Doctor(args) => command::doctor::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
