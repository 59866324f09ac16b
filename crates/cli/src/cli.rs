//! What can be typed, and the exit codes. What it means is in `command`.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use headroom_report::Exit;

use crate::command;

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
    /// Explain an admission decision field by field: source, bounds, quota usage
    Explain(command::explain::Args),
    /// Recommend requests from what containers have used, by collected history or the cluster's metrics store
    Recommend(Box<command::recommend::Args>),
    /// The name of `recommend` for one release, where it reads a metrics store
    #[command(hide = true)]
    Scan(Box<command::recommend::Args>),
    /// Show effective limits, quota usage and recorded usage
    Describe(command::describe::Args),
    /// Record a decision as files that kwctl replays without the cluster, for bug reports
    Record(command::record::Args),
    /// Try out settings, LimitRanges or quotas on everything that runs
    Simulate(command::simulate::Args),
    /// Write a snapshot of the cluster to a file, without Secrets, for the playground or --cluster-dir
    Snapshot(command::snapshot::Args),
    /// Serve the playground on loopback, with the live cluster behind it
    Ui(command::ui::Args),
    /// Read container usage from where the cluster keeps it, and publish it as `UsageProfile`s
    Collect(command::collect::Args),
    /// Enforce TenantQuotas: quotas over several namespaces, exact for concurrent requests
    Ledger(command::ledger::Args),
    /// Check a metrics source: what was found, what is missing, and how to fix it
    Doctor(command::doctor::Args),
    /// Print a completion script for a shell, or for kubectl
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
        Command::Recommend(args) => answered(command::recommend::run(*args)),
        Command::Scan(args) => answered(command::recommend::run_as_scan(*args)),
        Command::Describe(args) => answered(command::describe::run(args)),
        Command::Record(args) => answered(command::record::run(args)),
        Command::Simulate(args) => answered(command::simulate::run(args)),
        Command::Snapshot(args) => answered(command::snapshot::run(args)),
        Command::Ui(args) => answered(command::ui::run(args)),
        Command::Collect(args) => done(command::collect::run(args)),
        Command::Ledger(args) => answered(command::ledger::run(args)),
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

    /// What a shell makes of a command's first part: its words, up to a pipe, a redirection or a comment.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for letter in command.chars() {
            match (quote, letter) {
                (Some(open), letter) if letter == open => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                (None, '|' | '>' | '#') if word.is_none() => break,
                (None, letter) if letter.is_whitespace() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(letter),
            }
        }
        words.extend(word);
        words
    }

    /// The commands of ours in a page, which stand in blocks for shells and in workflows.
    fn commands(page: &str) -> Vec<Vec<String>> {
        let text = page.replace("\\\n", " ");
        let lines = text.lines().map(|line| line.trim().trim_start_matches("- run: ").trim_start_matches("- "));
        // Behind a pipe it stands, too.
        let lines = lines.map(|line| line.rsplit_once(" | ").map_or(line, |(_, last)| last));
        let ours = lines.filter_map(|line| {
            let line = line.trim_start_matches("./");
            line.strip_prefix("kubectl headroom ").or_else(|| line.strip_prefix("kubectl-headroom "))
        });
        ours.map(words).collect()
    }

    #[test]
    fn the_documentation_gives_arguments_that_are_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut waiting = vec![root.join("README.md"), root.join("docs/src")];
        let mut count = 0;
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            for arguments in commands(&std::fs::read_to_string(&path).unwrap()) {
                let typed = ["kubectl-headroom".to_owned()].into_iter().chain(arguments.clone());
                if let Err(error) = Cli::try_parse_from(typed) {
                    panic!("{}: kubectl headroom {}: {error}", path.display(), arguments.join(" "));
                }
                count += 1;
            }
        }
        assert!(count > 20, "the documentation has commands");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
