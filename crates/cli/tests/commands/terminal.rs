//! Colours are only used on a terminal. `script` provides a terminal.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headroom_fixtures::http::{FakeServer, Reply};

use crate::support::*;

/// The program with these arguments on a terminal.
pub fn terminal(arguments: &str, folder: &Path) -> Command {
    let mut command = Command::new("script");
    let program = env!("CARGO_BIN_EXE_kubectl-headroom");
    command.args(["-q", "-e", "-c", &format!("{program} {arguments}"), "/dev/null"]).current_dir(folder);
    command
}

/// The program's output on a terminal, with these variables.
fn on_a_terminal(variables: &[(&str, &str)]) -> String {
    let folder = folder(&[("app.yaml", &pod("a", "{requests: {cpu: 1}}"))]);
    let mut command = terminal("check -f app.yaml --offline", folder.path());
    command.env("TERM", "xterm").env("FORCE_HYPERLINK", "0").env_remove("NO_COLOR");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn files_are_links_on_terminals_that_have_them() {
    let link = "app.yaml\u{1b}\\app.yaml:1\u{1b}]8;;\u{1b}\\";
    let shown = on_a_terminal(&[("FORCE_HYPERLINK", "1")]);
    assert!(shown.contains("\u{1b}]8;;file:///") && shown.contains(link), "{shown:?}");
    assert!(!on_a_terminal(&[]).contains("\u{1b}]8"));
}

#[test]
fn colours_are_used_on_terminals_unless_disabled() {
    assert!(on_a_terminal(&[]).contains("\u{1b}[32madmitted\u{1b}[0m"));
    assert!(!on_a_terminal(&[("NO_COLOR", "1")]).contains('\u{1b}'));
    assert!(!on_a_terminal(&[("TERM", "dumb")]).contains('\u{1b}'));
    let folder = folder(&[("app.yaml", &pod("a", "{}"))]);
    for color in ["auto", "always", "never"] {
        let check = ["--color", color, "check", "-f", "app.yaml", "--offline"];
        let piped = said(program(folder.path()).args(check).env("TERM_PROGRAM", "vscode")).out;
        assert_eq!(piped.contains('\u{1b}'), color == "always", "{color}: {piped}");
        assert!(!piped.contains("\u{1b}]8"), "a pipe has no links: {color}");
    }
}

/// The progress line appears before the store answers, and only on a terminal.
#[test]
fn waiting_for_a_store_is_shown_to_a_person() {
    let folder = folder(&[("app.yaml", &pod("a", "{requests: {cpu: 1}}"))]);
    let is_slow = AtomicBool::new(true);
    let server = FakeServer::start_raw(move |_| {
        // The first of many requests.
        if is_slow.swap(false, Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1500));
        }
        Reply::Bytes(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let arguments = format!("recommend -f app.yaml --cluster-dir app.yaml --prometheus {}", server.url());
    let message = "Asking the metrics store what it has";
    let mut command = terminal(&arguments, folder.path());
    let output = command.env("TERM", "xterm").env("KUBECONFIG", "/dev/null").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(message), "{text}");
    let said = headroom(folder.path(), &arguments);
    assert!(said.code == 2 && !said.err.contains(message), "{}", said.err);
}
