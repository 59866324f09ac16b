//! `kubectl headroom completion`: scripts with which shells, and kubectl itself, complete our commands.
//!
//! A shell completes the program under its own name by a script. kubectl completes its plugins by a program of a certain
//! name on the PATH, which runs ours (`__complete`) and prints what kubectl's framework expects: one candidate a line with
//! its description behind a tab, and a number for how to use them.

use std::ffi::OsString;

use anyhow::Context;
use clap::{Command, ValueEnum};
use clap_complete::{Shell, engine};

use headroom_output::{Exit, Page, clean};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Shell; `kubectl` is for `kubectl headroom`, the shells are for `kubectl-headroom`
    #[arg(value_enum)]
    shell: For,
}

const EXAMPLES: &str = "Examples:
  # In `kubectl headroom …`, whatever the shell: a program that kubectl asks
  kubectl headroom completion kubectl > ~/.local/bin/kubectl_complete-headroom
  chmod +x ~/.local/bin/kubectl_complete-headroom

  # In `kubectl-headroom …`, for this shell and for those to come
  source <(kubectl-headroom completion bash)
  kubectl-headroom completion zsh > \"${fpath[1]}/_kubectl-headroom\"
  kubectl-headroom completion fish > ~/.config/fish/completions/kubectl-headroom.fish";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum For {
    Kubectl,
    Bash,
    Zsh,
    Fish,
    Powershell,
}

const FOR_KUBECTL: &str = "#!/bin/sh
# Completes `kubectl headroom`: kubectl looks for a program of this name on the PATH.
exec kubectl-headroom __complete \"$@\"
";

const PROGRAM: &str = "kubectl-headroom";

pub fn run(args: Args, mut command: Command) -> anyhow::Result<Exit> {
    let shell = match args.shell {
        For::Kubectl => {
            headroom_output::print(&Page::ours(FOR_KUBECTL.to_owned()))?;
            return Ok(Exit::Ok);
        }
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
        For::Powershell => Shell::PowerShell,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, PROGRAM, &mut script);
    let script = String::from_utf8(script).context("the completion script is not valid UTF-8")?;
    headroom_output::print(&Page::ours(script))?;
    Ok(Exit::Ok)
}

/// The words of a command line after the program's name, the last of them to be completed.
#[derive(Debug, clap::Args)]
pub struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// As kubectl's framework numbers them.
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;

pub fn complete(typed: Words, mut command: Command) -> anyhow::Result<Exit> {
    let mut words = vec![OsString::from(PROGRAM)];
    words.extend(typed.words);
    if words.len() == 1 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let here = std::env::current_dir().ok();
    let candidates = engine::complete(&mut command, words, last, here.as_deref()).context("cannot complete")?;
    let mut text = String::new();
    let mut is_folder = false;
    for candidate in candidates.iter().filter(|candidate| !candidate.is_hide_set()) {
        let value = candidate.get_value().to_string_lossy();
        is_folder |= value.ends_with('/');
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let [value, help] = [&*value, help.lines().next().unwrap_or_default()].map(clean);
        text.push_str(&if help.is_empty() { format!("{value}\n") } else { format!("{value}\t{help}\n") });
    }
    let directive = if is_folder { NO_SPACE | NO_FILES } else { NO_FILES };
    headroom_output::print(&Page::ours(format!("{text}:{directive}\n")))?;
    Ok(Exit::Ok)
}
