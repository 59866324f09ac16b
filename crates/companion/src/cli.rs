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
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
