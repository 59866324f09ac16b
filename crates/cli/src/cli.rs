//! The command line of `kubectl-headroom`, the program for people. Each subcommand is implemented in `command`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand};
use headroom_output::color;
use headroom_output::{Exit, complain};

use crate::command::{self, answered, done};

/// kubectl headroom: checks manifests, explains decisions, and recommends requests
#[derive(Debug, Parser)]
#[command(name = "kubectl-headroom", bin_name = "kubectl headroom", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Use colors: on a terminal unless NO_COLOR is set, always, or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check manifests before they are applied: what would be admitted, changed or rejected, and why, also of what runs
    Check(Box<command::check::Args>),
    /// Say what is wrong with a workload now, who else changes it, and where each value of a pod or manifest comes from
    Why(Box<command::why::Args>),
    /// Recommend requests for running workloads, based on collected history or your existing metrics store
    Recommend(Box<command::recommend::Args>),
    /// Show resizes of running pods, bring pods to the size that they would be admitted with today, or take that back
    Resize(Box<command::resize::Args>),
    /// Show effective limits, quota usage
    Describe(command::describe::Args),
    /// Write a snapshot of the cluster to a file, without Secrets, for the UI or --cluster-dir
    Snapshot(command::snapshot::Args),
    /// Open a web UI for the cluster in your browser
    Ui(Box<command::ui::Args>),
    /// Check a metrics source: what was found, what is missing, and how to fix it
    Doctor(Box<command::doctor::Args>),
    /// Print a completion script for a shell, or for kubectl
    Completion(command::completion::Args),
    /// Print the versions of this program and of what the cluster has
    Version(command::version::Args),
    #[command(name = "__complete", hide = true)]
    Complete(command::completion::Words),
}

pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(renamed) = renamed(&arguments) {
        complain!("error: {renamed}");
        return ExitCode::from(Exit::Error as u8);
    }
    let cli: Cli = command::parse();
    color::choose(cli.color);
    match cli.command {
        Command::Check(args) => answered(command::check::run(*args)),
        Command::Why(args) => answered(command::why::run(*args)),
        Command::Recommend(args) => answered(command::recommend::run(*args)),
        Command::Resize(args) => answered(command::resize::run(*args)),
        Command::Describe(args) => answered(command::describe::run(args)),
        Command::Snapshot(args) => answered(command::snapshot::run(args)),
        Command::Ui(args) => answered(command::ui::run(*args)),
        Command::Doctor(args) => done(command::doctor::run(*args)),
        Command::Completion(args) => answered(command::completion::run(args, Cli::command())),
        Command::Version(args) => answered(command::version::run(args)),
        Command::Complete(words) => answered(command::completion::complete(words, Cli::command())),
    }
}

/// The words that named a command before the first release, and what does the same today, for those whose fingers remember them.
const OLD_NAMES: [(&str, &str); 14] = [
    ("simulate", "kubectl headroom check --against-running"),
    ("explain", "kubectl headroom why"),
    ("record", "kubectl headroom snapshot"),
    ("describe usage", "kubectl headroom recommend -o wide"),
    ("describe resizes", "kubectl headroom resize"),
    ("describe tenantquota", "kubectl headroom describe quota"),
    ("recommend quota", "kubectl headroom recommend bounds"),
    ("recommend limits", "kubectl headroom recommend bounds"),
    ("recommend images", "kubectl headroom recommend image IMAGE"),
    ("doctor prometheus", "kubectl headroom doctor URL"),
    ("doctor influxdb", "kubectl headroom doctor URL?db=NAME"),
    ("doctor metrics-api", "kubectl headroom doctor"),
    ("doctor files", "kubectl headroom doctor FILE"),
    ("ledger check", "headroom-controller check-ledgers"),
];

/// The answer to somebody who types an old name.
fn renamed(arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().map_while(|argument| argument.to_str()).collect();
    let is_typed = |old: &str| words.iter().copied().take(old.split(' ').count()).eq(old.split(' '));
    let (old, new) = OLD_NAMES.iter().find(|(old, _)| is_typed(old))?;
    Some(format!("`kubectl headroom {old}` is now `{new}`"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use headroom_fixtures::{files_below, words, workspace_file};

    use super::*;

    /// The commands of our programs in a page, which stand in blocks for shells and in workflows.
    fn commands(page: &str) -> Vec<Vec<String>> {
        let text = page.replace("\\\n", " ").replace("kubectl headroom ", "kubectl-headroom ");
        let lines = text.lines().map(|line| line.trim().trim_start_matches("- run: ").trim_start_matches("- "));
        // Behind a pipe it stands, too.
        let lines = lines.map(|line| match line.strip_prefix("arguments: ") {
            // Arguments of the GitHub Action.
            Some(arguments) => format!("kubectl-headroom check {arguments}"),
            None => line.rsplit_once(" | ").map_or(line, |(_, last)| last).trim_start_matches("./").to_owned(),
        });
        let is_ours = |line: &String| line.starts_with("kubectl-headroom ") || line.starts_with("headroom-controller ");
        lines.filter(is_ours).map(|line| words(&line)).collect()
    }

    fn program(name: &str) -> clap::Command {
        if name == "headroom-controller" { crate::controller::ControllerCli::command() } else { Cli::command() }
    }

    /// The text files at these paths of the repository, and in the folders among them.
    fn texts(paths: &[&str]) -> Vec<(PathBuf, String)> {
        let places = paths.iter().map(|path| workspace_file(path));
        let files = places.flat_map(|path| if path.is_dir() { files_below(&path).unwrap() } else { vec![path] });
        files.filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
    }

    #[test]
    fn the_documentation_gives_arguments_that_are_understood() {
        let mut counts = [0, 0];
        for (path, text) in texts(&["README.md", "docs/src"]) {
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            for words in commands(&text) {
                let of_controller = words[0] == "headroom-controller";
                let (page, typed) = (path.display(), words.join(" "));
                program(&words[0])
                    .try_get_matches_from(words)
                    .unwrap_or_else(|error| panic!("{page}: {typed}: {error}"));
                counts[usize::from(of_controller)] += 1;
            }
        }
        assert!(counts[0] > 20 && counts[1] > 5, "the documentation has commands: {counts:?}");
    }

    #[test]
    fn who_types_an_old_name_is_given_the_new_one() {
        for (old, new) in OLD_NAMES {
            let typed: Vec<OsString> = old.split(' ').chain(["-n", "shop"]).map(OsString::from).collect();
            let expected = format!("`kubectl headroom {old}` is now `{new}`");
            assert_eq!(renamed(&typed), Some(expected));
            let ours = Cli::command();
            assert!(old.split(' ').try_fold(&ours, |of, word| of.find_subcommand(word)).is_none(), "{old} is there");
            let words = words(&new.replace("kubectl headroom", "kubectl-headroom"));
            assert!(program(&words[0]).find_subcommand(&words[1]).is_some(), "{new}");
        }
        for typed in ["why explain", "recommend pod/quota", "check simulate", "", "recommend image explain"] {
            let typed: Vec<OsString> = typed.split(' ').map(OsString::from).collect();
            assert_eq!(renamed(&typed), None);
        }
    }

    #[test]
    fn no_text_has_a_command_of_a_name_that_is_gone() {
        const PLACES: &[&str] = &[
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "action.yml",
            ".pre-commit-hooks.yaml",
            ".github",
            "docs",
            "deploy",
            "crates",
            "playground/site/src",
            "playground/engine/src",
            "tests/data/monitoring",
        ];
        let mut count = 0;
        for (path, text) in texts(PLACES) {
            let is_book = path.components().any(|part| part.as_os_str() == "src")
                && path.extension().is_some_and(|of| of == "md");
            count += usize::from(text.contains("kubectl headroom "));
            // They are about old names.
            if ["cli/src/cli.rs", "sessions/errors.txt"].iter().any(|of| path.ends_with(of)) {
                continue;
            }
            for (old, _) in OLD_NAMES {
                let is_old = |begin: &str| {
                    let command = format!("{begin}{old}");
                    let mut after = text.split(&command).skip(1).map(|rest| rest.chars().next());
                    after.any(|next| next.is_none_or(|next| !next.is_alphanumeric() && next != '-'))
                };
                assert!(!is_old("kubectl headroom ") && !is_old("kubectl-headroom "), "{}: {old}", path.display());
                assert!(!is_book || !text.contains(&format!("`{old}`")), "{}: `{old}`", path.display());
            }
        }
        assert!(count > 30, "{count} files have commands");
    }

    #[track_caller]
    fn assert_parses(line: &str) {
        Cli::command().try_get_matches_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    #[test]
    fn the_plugins_of_k9s_run_our_commands() {
        // The variables of k9s, see <https://k9scli.io/topics/plugins/>.
        let known = [("$RESOURCE_NAME", "deployments"), ("$NAMESPACE", "shop"), ("$NAME", "web"), ("$CONTEXT", "a b")];
        let plugins = fs::read_to_string(workspace_file("deploy/k9s/plugins.yaml")).unwrap();
        let plugins: serde_json::Value = serde_saphyr::from_str(&plugins).unwrap();
        let mut keys = std::collections::BTreeSet::new();
        for (name, plugin) in plugins["plugins"].as_object().unwrap() {
            assert!(keys.insert(plugin["shortCut"].as_str().unwrap()), "{name}: the key is taken");
            assert!(plugin["description"].is_string() && plugin["scopes"].is_array(), "{name}");
            assert_eq!((&plugin["command"], &plugin["args"][0]), (&"sh".into(), &"-c".into()), "{name}");
            let script = plugin["args"][1].as_str().unwrap();
            let script = known.iter().fold(script.to_owned(), |script, (from, to)| script.replace(from, to));
            assert!(!script.contains('$'), "{name}: k9s does not know a name in `{script}`");
            let (ours, rest) = script.split_once(" 2>&1 ").unwrap();
            assert_eq!(rest, "| less -RK", "{name}");
            assert_parses(&ours.replace("kubectl headroom", "kubectl-headroom"));
        }
        assert_eq!(keys.len(), 3);
    }

    #[test]
    fn the_commands_that_are_printed_are_understood() {
        let sessions = [
            include_str!("../tests/commands/sessions/why.txt"),
            include_str!("../tests/commands/sessions/why-values.txt"),
            include_str!("../tests/commands/sessions/check.txt"),
        ];
        let printed = sessions.iter().flat_map(|session| session.lines()).filter(|line| line.starts_with("  "));
        let printed = printed.filter_map(|line| line.trim_start().strip_prefix("$ kubectl headroom "));
        printed.for_each(|arguments| assert_parses(&format!("kubectl-headroom {arguments}")));
    }
}
