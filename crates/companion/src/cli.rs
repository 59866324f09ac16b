//! What can be typed, and the exit codes. What it means is in `command`.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::command;
use crate::output::Exit;

#[derive(Debug, Parser)]
#[command(name = "kubectl-headroom", bin_name = "kubectl headroom", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Judge manifests before they are applied: what would be admitted, changed or refused, and why
    Check(command::check::Args),
    /// Tell a decision value by value: who spoke it, what it was held against, what it takes of the quotas
    Explain(command::explain::Args),
    /// Recommend requests from what the same images have used before
    Recommend(command::recommend::Args),
    /// Show what limits, quotas and usage come to, taken together
    Describe(command::describe::Args),
    /// Record a decision as files that kwctl replays without the cluster, for bug reports
    Record(command::record::Args),
    /// Try out settings, LimitRanges or quotas on everything that runs
    Simulate(command::simulate::Args),
    /// Read container usage from where the cluster keeps it, and publish it as `UsageProfile`s
    Collect(command::collect::Args),
    /// Probe a source of usage: say what was found, and what to do about what is missing
    Doctor(command::doctor::Args),
    /// Print what a shell or kubectl needs to complete these commands
    Completion(command::completion::Args),
    #[command(name = "__complete", hide = true)]
    Complete(command::completion::Asked),
}

/// Reads the arguments, does what they say, and tells by the exit code how it went. Of a job: 0 done, 1 failed. Of a
/// question: 0 all is fine, 1 something is refused, 2 it cannot be answered. Arguments that are not understood: 2.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(args) => answered(command::check::run(args)),
        Command::Explain(args) => answered(command::explain::run(args)),
        Command::Recommend(args) => answered(command::recommend::run(args)),
        Command::Describe(args) => answered(command::describe::run(args)),
        Command::Record(args) => answered(command::record::run(args)),
        Command::Simulate(args) => answered(command::simulate::run(args)),
        Command::Collect(args) => done(command::collect::run(args)),
        Command::Doctor(args) => done(command::doctor::run(args)),
        Command::Completion(args) => answered(command::completion::run(args, Cli::command())),
        Command::Complete(asked) => answered(command::completion::complete(asked, Cli::command())),
    }
}

/// Of a job.
fn done(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Of a question.
fn answered(answer: anyhow::Result<Exit>) -> ExitCode {
    let exit = answer.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        Exit::NotJudged
    });
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments in a manifest below deploy/, where the pod template is found by this path.
    fn arguments(manifest: &str, path: &[&str]) -> Vec<String> {
        let file = format!("{}/../../deploy/collector/{manifest}", env!("CARGO_MANIFEST_DIR"));
        let object: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let template = path.iter().fold(&object, |object, key| &object[*key]);
        let arguments = template["spec"]["containers"][0]["args"].as_array().unwrap();
        arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_manifests_give_arguments_that_are_understood() {
        for (manifest, path) in [
            ("deployment/deployment.yaml", ["spec", "template"].as_slice()),
            ("cronjob/cronjob.yaml", ["spec", "jobTemplate", "spec", "template"].as_slice()),
        ] {
            let arguments = arguments(manifest, path);
            let typed = ["kubectl-headroom".to_owned()].into_iter().chain(arguments);
            let cli = Cli::try_parse_from(typed).unwrap();
            assert!(matches!(cli.command, Command::Collect(_)));
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
