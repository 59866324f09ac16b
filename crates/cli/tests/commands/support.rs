//! The program under test, files for it, and snapshots of its output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect_file;
use tempfile::TempDir;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The result of a run of the program.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        Self { code: output.status.code().unwrap(), out, err }
    }
}

pub fn said(command: &mut Command) -> Said {
    command.output().unwrap().into()
}

/// Runs the program in a folder, with empty standard input and arguments separated by spaces. Without a cluster, unless they name one.
pub fn headroom(folder: &Path, arguments: &str) -> Said {
    said(program(folder).args(arguments.split_whitespace()))
}

pub fn program(folder: &Path) -> Command {
    one_of(env!("CARGO_BIN_EXE_kubectl-headroom"), folder)
}

/// The same of `headroom-controller`.
pub fn controller(folder: &Path) -> Command {
    one_of(env!("CARGO_BIN_EXE_headroom-controller"), folder)
}

fn one_of(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("KUBECONFIG", "/dev/null").env("HOME", folder).env("LC_ALL", "C.UTF-8");
    // The last two are set in a cluster.
    for unset in ["XDG_CONFIG_HOME", "NO_COLOR", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
        command.env_remove(unset);
    }
    command
}

/// Compares a text with a file of `expected`; `UPDATE_EXPECT=1` rewrites the file.
#[track_caller]
pub fn snapshot(name: &str, said: &str) {
    expect_file![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/expected").join(name)].assert_eq(said);
}

/// A pod with one container.
pub fn pod(name: &str, resources: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{containers: [{{name: app, image: app, \
         resources: {resources}}}]}}\n"
    )
}

/// A LimitRange of the namespace `shop` with one item for containers.
pub fn limit_range(name: &str, item: &str) -> String {
    format!(
        "apiVersion: v1\nkind: LimitRange\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{limits: [{{type: Container, \
         {item}}}]}}\n"
    )
}
