//! `headroom-host`: runs a policy in a real waPC host, with the flags and the output of `kwctl`, for machines without
//! `kwctl`; also shows (`demo`) and measures (`bench`) what the policy does. This file has only arguments and exit
//! codes.
//!
//! As with `kwctl`, a denied request is not a failure: the exit code is 0. For invalid settings or a broken policy it
//! is 1.

#![expect(clippy::disallowed_methods, reason = "a tool of developers, which writes to the repository")]

mod annotate;
mod artifacthub;
#[cfg(feature = "compiler")]
mod bench;
mod demo;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "Runs the policy in a real waPC host, with the flags of kwctl")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Evaluate a policy against an admission request
    Run(run::Arguments),
    /// Put the metadata of a policy into its wasm
    Annotate(annotate::Arguments),
    /// Write the package file of Artifact Hub
    Artifacthub(artifacthub::Arguments),
    /// Evaluate requests, and print what the policy did
    Demo,
    /// Measure fuel, time and size, and check the budgets
    #[cfg(feature = "compiler")]
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Annotate(arguments) => annotate::annotate(&arguments),
        Command::Artifacthub(arguments) => artifacthub::artifacthub(&arguments),
        Command::Demo => demo::demo(),
        #[cfg(feature = "compiler")]
        Command::Bench(arguments) => bench::bench(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}
