//! Sessions at a shell, in the files of `sessions`: each begins with its claim, has files of its own, and commands with their
//! output. `UPDATE_EXPECT=1` rewrites the output.
//!
//!     === what the session shows
//!     @ examples/shop         runs in this folder of the repository, in place of an empty one
//!     --- app.yaml            a file, up to the next file or command
//!     $ kubectl headroom …    a command, its output, and its exit code if that is not 0

use std::fs;
use std::io::Write as _;
use std::path::Path;

use expect_test::expect_file;
use tempfile::TempDir;

use crate::console::{continued, run};
use crate::support::root;

#[track_caller]
fn replay(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/commands/sessions/{name}.txt"));
    let text = fs::read_to_string(&path).unwrap();
    let (head, sessions) = text.split_once("\n=== ").unwrap();
    let replayed = sessions.split("\n=== ").map(|session| replayed(session.trim_end()));
    let replayed = replayed.collect::<Vec<_>>().join("\n=== ");
    expect_file![path].assert_eq(&format!("{head}\n=== {replayed}"));
}

/// A session with its current output. Its folder is written as `~`.
fn replayed(session: &str) -> String {
    let folder = TempDir::new().unwrap();
    let (mut place, mut file) = (folder.path().to_owned(), None::<fs::File>);
    let mut lines = session.lines();
    let mut updated = lines.next().unwrap().to_owned() + "\n";
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ") {
            file = None;
            let command = continued(command, &mut lines);
            let said = run(&command, &place, None);
            let out = said.out.replace(folder.path().to_str().unwrap(), "~").replace(root().to_str().unwrap(), "$REPO");
            updated.push_str(&format!("$ {command}\n{out}"));
            if !updated.ends_with('\n') {
                updated.push('\n');
            }
            if said.code != 0 {
                updated.push_str(&format!("[{}]\n", said.code));
            }
            continue;
        }
        if let Some(name) = line.strip_prefix("--- ") {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            file = Some(fs::File::create(path).unwrap());
        } else if let Some(path) = line.strip_prefix("@ ") {
            place = root().join(path);
        } else if let Some(file) = &mut file {
            writeln!(file, "{line}").unwrap();
        } else {
            // The output of the last run.
            continue;
        }
        updated.push_str(line);
        updated.push('\n');
    }
    updated
}

macro_rules! sessions {
    ($($name:ident)*) => { $(#[test] fn $name() { replay(&stringify!($name).replace('_', "-")); })* };
}

sessions! { bounds check check_against_running check_gate describe errors recommend snapshot why why_values write }
