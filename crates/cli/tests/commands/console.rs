//! Commands in texts, which are run again: in pages of the documentation, and in the files of `sessions`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Said, root};

/// Runs a command line in a shell, where `kubectl headroom` and `headroom-controller` are the programs under test and `$REPO` is the
/// repository. Errors are part of the output.
pub fn run(command: &str, folder: &Path, columns: Option<&str>) -> Said {
    let script = format!(
        "exec 2>&1\nkubectl() {{ shift; \"$PLUGIN\" \"$@\"; }}\nheadroom-controller() {{ \"$CONTROLLER\" \"$@\"; }}\n{command}"
    );
    let mut shell = Command::new("bash");
    // An example from files must not depend on a configured cluster or on the terminal's width.
    shell.args(["-c", &script]).current_dir(folder).env("KUBECONFIG", "/dev/null").env("NO_COLOR", "1");
    shell.env("PLUGIN", env!("CARGO_BIN_EXE_kubectl-headroom")).env("REPO", root()).env("LC_ALL", "C.UTF-8");
    shell.env("CONTROLLER", env!("CARGO_BIN_EXE_headroom-controller")).env_remove("COLUMNS");
    shell.envs(columns.map(|columns| ("COLUMNS", columns)));
    shell.stdin(Stdio::null()).output().unwrap().into()
}

/// A command line, which continues on the next line if it ends in a backslash.
pub fn continued<'t>(first: &str, lines: &mut impl Iterator<Item = &'t str>) -> String {
    let mut command = first.to_owned();
    while command.ends_with('\\') {
        command = command + "\n" + lines.next().unwrap();
    }
    command
}
