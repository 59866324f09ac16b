//! The reference of commands (docs/src/reference/commands.md), which is made of the command lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::builder::{PossibleValue, StyledStr};
use clap::{Arg, Command, CommandFactory};
use expect_test::expect_file;

use crate::cli::Cli;
use crate::controller::ControllerCli;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reference/commands.md");
/// The text before this line is written by hand.
const BEGIN: &str = "<!-- written by UPDATE_EXPECT=1 cargo test --workspace --lib reference -->\n";
/// An option that so many commands of a program take stands once.
const SHARED: usize = 2;
/// The text by hand has these, which whatever reads a cluster takes.
const OF_CLUSTER: [&str; 3] = ["context", "kubeconfig", "as"];
/// The ends of the beginning of a help; `--help` has the rest.
const ENDS: [&str; 9] =
    ["; ", ": ", ", such as ", ", which ", ", by ", ", beside ", ", so that ", ", where ", ", one "];

#[test]
fn the_reference_has_every_command_and_option() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (by_hand, _) = page.split_once(BEGIN).expect("the page says where it is written by a test");
    let mut text = format!("{by_hand}{BEGIN}");
    for mut program in [Cli::command().name("kubectl headroom"), ControllerCli::command()] {
        // In tests this asserts that the command line is consistent.
        program.build();
        let name = program.get_name().to_owned();
        let mut commands = Vec::new();
        below(&name, &program, &mut commands);
        assert!(commands.len() > 4, "{name} has commands");
        write(&name, &commands, &mut text);
    }
    expect_file![PAGE].assert_eq(&text);
}

/// The command and those below it, with what is typed for each.
fn below<'c>(typed: &str, command: &'c Command, found: &mut Vec<(String, &'c Command)>) {
    found.push((typed.to_owned(), command));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
        below(&format!("{typed} {}", inner.get_name()), inner, found);
    }
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str()))
}

/// The arguments that the page lists.
fn listed(command: &Command) -> impl Iterator<Item = &Arg> {
    arguments(command).filter(|arg| arg.get_long().is_none_or(|long| !OF_CLUSTER.contains(&long)))
}

fn write(program: &str, commands: &[(String, &Command)], text: &mut String) {
    let mut takers: BTreeMap<String, usize> = BTreeMap::new();
    for arg in commands.iter().flat_map(|(_, command)| listed(command)) {
        *takers.entry(row(arg)).or_default() += 1;
    }
    let is_shared = |arg: &&Arg| !arg.is_positional() && takers[&row(arg)] >= SHARED;

    let _ = writeln!(text, "\n## {program}\n");
    let asks = commands.iter().filter(|(_, command)| listed(command).any(|arg| arg.get_id() == "yes"));
    let asks: Vec<String> = asks.map(|(typed, _)| format!("`{typed}`")).collect();
    if !asks.is_empty() {
        let _ = writeln!(text, "Only {} can change a cluster, and ask first.\n", asks.join(" and "));
    }
    let _ = writeln!(text, "Options of several commands:\n");
    let mut rows: Vec<String> =
        commands.iter().flat_map(|(_, command)| listed(command)).filter(is_shared).map(row).collect();
    rows.sort();
    rows.dedup();
    rows.iter().for_each(|row| text.push_str(row));

    let says_something = |command: &Command| command.get_subcommands().next().is_none() || listed(command).count() > 0;
    for (typed, command) in commands.iter().skip(1).filter(|(_, command)| says_something(command)) {
        let about = beginning(command.get_about());
        assert!(!about.is_empty(), "{typed} says nothing about itself");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let has_examples = after.contains("Examples:\n") && after.contains(typed.as_str());
        // The sources of `collect` stand in its own examples.
        let needs_none = program == "headroom-controller" || typed.ends_with(" version");
        assert!(has_examples || needs_none, "{typed} shows no examples");
        let _ = writeln!(text, "\n### {}\n\n{about}.", typed.trim_start_matches(program).trim_start());
        let own: String = listed(command).filter(|arg| !is_shared(arg)).map(row).collect();
        if !own.is_empty() {
            let _ = write!(text, "\n{own}");
        }
    }
}

/// The shortest name that the argument has.
fn name(arg: &Arg) -> String {
    match (arg.get_short(), arg.get_long()) {
        (Some(short), _) => format!("-{short}"),
        (None, Some(long)) => format!("--{long}"),
        (None, None) => format!("<{}>", arg.get_value_names().unwrap_or_default().join(" ")),
    }
}

/// The beginning of a help, on one line.
fn beginning(help: Option<&StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    ENDS.iter().fold(help.as_str(), |help, end| help.split(end).next().unwrap_or_default()).to_owned()
}

/// An argument in one line: its names, its value or choices, what it does, and what it is unless given or the first choice.
fn row(arg: &Arg) -> String {
    let mut names = name(arg);
    if let (Some(_), Some(long)) = (arg.get_short(), arg.get_long()) {
        let _ = write!(names, ", --{long}");
    }
    let takes_a_value = arg.get_action().takes_values();
    let choices = arg.get_possible_values();
    let choices = choices.iter().filter(|choice| takes_a_value && !choice.is_hide_set());
    let choices: Vec<&str> = choices.map(PossibleValue::get_name).collect();
    if !choices.is_empty() {
        let _ = write!(names, " <{}>", choices.join("|"));
    } else if takes_a_value && !arg.is_positional() {
        let _ = write!(names, " <{}>", arg.get_value_names().unwrap_or_default().join(" "));
    }
    let mut line = format!("- `{names}`: {}", beginning(arg.get_help()));
    let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_first = choices.first().is_some_and(|first| default == [*first]);
    if takes_a_value && !default.is_empty() && !is_first && !arg.is_hide_default_value_set() {
        let _ = write!(line, " (default `{}`)", default.join(","));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(line, " (or `{}`)", variable.to_string_lossy());
    }
    line + "\n"
}

/// The pages on commands name no option that their command has not.
#[test]
fn the_pages_of_commands_name_options_that_there_are() {
    let mut program = Cli::command();
    program.build();
    let mut count = 0;
    for command in program.get_subcommands() {
        let page = std::path::Path::new(PAGE).with_file_name("../commands").join(format!("{}.md", command.get_name()));
        let Ok(text) = std::fs::read_to_string(&page) else { continue };
        let mut all = Vec::new();
        below("", command, &mut all);
        let known: Vec<String> = all.iter().flat_map(|(_, command)| arguments(command)).map(row).collect();
        let code = text.split('`').skip(1).step_by(2).filter(|code| code.starts_with('-') && !code.contains('\n'));
        for flag in code.filter_map(|code| code.split([' ', '=']).next()) {
            let has = |row: &String| row.split(['`', ' ', ',', ':']).any(|word| word == flag);
            assert!(known.iter().any(has), "{}: `{}` has no {flag}", page.display(), command.get_name());
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}
