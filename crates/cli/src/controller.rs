//! The command line of `headroom-controller`, the program of the image. Each subcommand is implemented in `command`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::command::{answered, check_ledgers, collect, done, enforce_quotas, parse, resizer};

/// headroom-controller: collects usage history, enforces TenantQuotas, and resizes running pods
#[derive(Debug, Parser)]
#[command(name = "headroom-controller", version)]
pub(crate) struct ControllerCli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read container usage from where the cluster keeps it, and publish it as `UsageProfile`s
    Collect(Box<collect::Args>),
    /// Enforce TenantQuotas, quotas over several namespaces: answer the API server's reviews, and count what is stored
    EnforceQuotas(Box<enforce_quotas::Args>),
    /// Bring running pods to the size that they would be admitted with today, in place, and take back what hurts them
    Resize(Box<resizer::Args>),
    /// Recount what TenantQuotas are charged, and compare it with the ledgers; exits with 1 on a difference
    CheckLedgers(Box<check_ledgers::Args>),
}

pub fn main() -> ExitCode {
    match parse::<ControllerCli>().command {
        Command::Collect(args) => done(collect::run(*args)),
        Command::EnforceQuotas(args) => done(enforce_quotas::run(*args)),
        Command::Resize(args) => done(resizer::run(*args)),
        Command::CheckLedgers(args) => answered(check_ledgers::run(*args)),
    }
}
