//! `kubectl headroom recommend` from a metrics store, by running the program: a small cluster in files, and a real
//! Prometheus with its usage.

mod cluster;
mod live;
mod page;
mod reports;
mod write;

use std::path::PathBuf;
use std::process::Command;

use headroom_fixtures::servers::{PrometheusServer, Server};

/// The result of a run.
pub struct Said {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

pub fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/commands/recommend_from_store")
}

pub fn prometheus(history: String) -> Server {
    PrometheusServer { history, ..PrometheusServer::default() }.start()
}

/// Runs with arguments separated by spaces, without a cluster, at the end of the history.
pub fn recommend(arguments: &str) -> Said {
    run("recommend", arguments)
}

pub fn run(command_name: &str, arguments: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
    command.current_dir(here()).env("KUBECONFIG", "/dev/null").env("LC_ALL", "C.UTF-8");
    let output =
        command.args([command_name, "--settings", "moment.yaml"]).args(arguments.split_whitespace()).output().unwrap();
    Said {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
