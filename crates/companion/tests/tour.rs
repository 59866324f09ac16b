//! The README's tour is true: each command in it is run again, and says what stands there.
//!
//! A tour block is a ```console block after the line `<!-- tour -->`. Its lines that begin with `$ ` are commands for a
//! shell in the repository's root, where `kubectl headroom` is the program under test; the lines up to the next command
//! are what it says, errors included. `UPDATE_SNAPSHOTS=1 cargo test -p headroom-companion --test tour` writes the
//! README anew.

#![expect(clippy::unwrap_used, reason = "a test may stop where something is not as it made it")]

use std::fs;
use std::path::Path;
use std::process::Command;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
const BEGIN: &str = "<!-- tour -->\n```console\n";
const END: &str = "```\n";

#[test]
fn the_readmes_tour_is_what_the_commands_say() {
    let readme = fs::read_to_string(README).unwrap();
    let mut parts = readme.split(BEGIN);
    let mut told = parts.next().unwrap().to_owned();
    let mut blocks = 0;
    for part in parts {
        let (block, rest) = part.split_once(END).unwrap();
        told.push_str(&[BEGIN, &replayed(block), END, rest].concat());
        blocks += 1;
    }
    assert!(blocks > 0, "there is a tour");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        return fs::write(README, &told).unwrap();
    }
    if let Some((line, (stands, is))) =
        readme.lines().zip(told.lines()).enumerate().find(|(_, (stands, is))| stands != is)
    {
        panic!(
            "README.md:{}: the tour says\n  {stands}\nand the command\n  {is}\n(UPDATE_SNAPSHOTS=1 rewrites it)",
            line + 1
        );
    }
    assert_eq!(readme.len(), told.len(), "the tour ends otherwise than its last command");
}

/// The block's commands with what they say now. A command goes on where its line ends in a backslash.
fn replayed(block: &str) -> String {
    let mut told = String::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else { continue };
        let mut command = first.to_owned();
        while command.ends_with('\\') {
            command = command + "\n" + lines.next().unwrap();
        }
        told.push_str(&format!("$ {command}\n{}", said(&command)));
    }
    told
}

fn said(command: &str) -> String {
    let script = format!("exec 2>&1\nkubectl() {{ shift; \"$HEADROOM\" \"$@\"; }}\n{command}");
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(Path::new(README).parent().unwrap())
        .env("HEADROOM", env!("CARGO_BIN_EXE_kubectl-headroom"))
        // A tour through files must not depend on a cluster that happens to be near.
        .env("KUBECONFIG", "/dev/null")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}
