//! `headroom-controller`, so that cargo builds the program for the tests that run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    headroom_cli::controller::main()
}
