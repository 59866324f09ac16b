//! One file a subcommand, of either program.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use headroom_output::{Exit, complain};
use tokio::net::TcpListener;

mod decision;
pub mod manifests;

pub mod cluster_args;

pub mod check;
pub mod check_ledgers;
mod source_file;

pub mod source;

pub mod collect;
pub mod completion;
pub mod describe;
pub mod doctor;
pub mod enforce_quotas;
mod memory;
mod site;

mod export;

pub mod recommend;
pub mod resize;
pub mod resizer;
pub mod snapshot;
pub mod version;
pub mod why;

pub mod ui;

/// Parses the command line; wrong arguments exit with 2. One that begins with `-` and is the name of a file is refused:
/// hooks, patterns and xargs pass on names that others chose, and a name must not act as an option.
pub fn parse<C: Parser>() -> C {
    let arguments: Vec<OsString> = env::args_os().collect();
    let options = arguments.iter().take_while(|argument| *argument != "--");
    let is_file = |argument: &&OsString| {
        argument.as_encoded_bytes().starts_with(b"-") && Path::new(argument).symlink_metadata().is_ok()
    };
    if let Some(name) = options.skip(1).find(is_file) {
        let name = Path::new(name).display();
        complain!(
            "error: `{name}` is the name of a file and reads like an option: write `./{name}`, or rename the file"
        );
        std::process::exit(Exit::Error as i32);
    }
    C::parse_from(arguments)
}

/// A duration as typed, in whole seconds.
fn seconds(text: &str) -> Result<i64, String> {
    match text.parse::<jiff::SignedDuration>() {
        Ok(duration) if duration.as_secs() > 0 => Ok(duration.as_secs()),
        _ => Err("expected a duration of at least a second, such as `90s`, `5m`, `1h`".to_owned()),
    }
}

fn state_folder() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home)
}

/// Listens at an address. `[::]` is all addresses, also of a system without IPv6.
async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.with_context(|| format!("cannot listen at {address}"))
}

/// Runs a program for a cluster. What still blocks a thread at its end is left.
pub fn run_program<T>(program: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let ended = runtime.block_on(program);
    runtime.shutdown_background();
    ended
}

/// The exit code of a job: 0 done, 1 failed.
pub fn done(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a question: 0 nothing is rejected, 1 something is, 2 it cannot be answered.
pub fn answered(answer: anyhow::Result<Exit>) -> ExitCode {
    let exit = answer.unwrap_or_else(|error| {
        match error.downcast_ref::<manifests::ErrorList>() {
            Some(problems) => problems.0.iter().for_each(|problem| complain!("error: {problem}")),
            None => complain!("error: {error:#}"),
        }
        Exit::Error
    });
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_addresses_include_those_of_ipv4_with_and_without_ipv6() {
        let listener = listen((Ipv6Addr::UNSPECIFIED, 0).into()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let error = listen((Ipv6Addr::UNSPECIFIED, port).into()).await.unwrap_err();
        assert!(format!("{error:#}").starts_with(&format!("cannot listen at [::]:{port}: Address already in use")));
    }
}
