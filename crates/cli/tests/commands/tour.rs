//! Checks the examples in README.md and docs/src: each command is run again, and must have the documented output.
//!
//! An example is a ```console block after the line `<!-- tour -->`. Its lines that start with `$ ` are commands for a
//! shell in the repository's root, where `kubectl headroom` and `headroom-controller` are the programs under test; the lines
//! up to the next command are their output, including errors. `UPDATE_EXPECT=1` rewrites them.

use std::fs;
use std::path::PathBuf;

use expect_test::expect_file;
use headroom_fixtures::files_below;

use crate::console::{continued, run};
use crate::support::root;

const BEGIN: &str = "<!-- tour -->\n```console\n";
const END: &str = "```\n";

/// README.md and all pages of the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = files_below(&root().join("docs/src")).unwrap();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages
}

#[test]
fn examples_match_the_commands_output() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        assert_eq!(text.matches("```console\n").count(), text.matches(BEGIN).count(), "{}: not run", page.display());
        expect_file![page].assert_eq(&with_current_output(&text));
    }
}

#[test]
fn the_flags_for_those_who_come_from_krr_exist() {
    let page = fs::read_to_string(root().join("docs/src/tasks/migrate.md")).unwrap();
    let (_, section) = page.split_once("## From KRR").unwrap();
    let rows =
        section.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let help = output_of("kubectl headroom recommend --help");
    let mut count = 0;
    for row in rows {
        let ours = row.split('|').nth(2).unwrap();
        let flags = ours.split([' ', '`', ',', ';']).filter(|word| word.starts_with('-') && word.len() > 1);
        for flag in flags {
            let is_known = help.split([' ', ',', '\n', '=']).any(|word| word == flag);
            assert!(is_known, "`kubectl headroom recommend` has no {flag}: {row}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

fn with_current_output(page: &str) -> String {
    let mut parts = page.split(BEGIN);
    let mut updated = parts.next().unwrap().to_owned();
    for part in parts {
        let (block, rest) = part.split_once(END).unwrap_or_else(|| panic!("a block has no end: {part}"));
        updated.push_str(&[BEGIN, &replayed(block), END, rest].concat());
    }
    updated
}

fn replayed(block: &str) -> String {
    let mut updated = String::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else { continue };
        let command = continued(first, &mut lines);
        updated.push_str(&format!("$ {command}\n{}", output_of(&command)));
    }
    updated
}

fn output_of(command: &str) -> String {
    // The folder for files of examples.
    fs::create_dir_all(root().join("target")).unwrap();
    run(command, &root(), Some("120")).out
}
