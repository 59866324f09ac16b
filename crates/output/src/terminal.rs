//! Detects terminals.

use std::io::{IsTerminal as _, stderr, stdin, stdout};

pub fn sees_output() -> bool {
    stdout().is_terminal()
}

pub fn sees_errors() -> bool {
    stderr().is_terminal()
}

pub fn can_be_asked() -> bool {
    stdin().is_terminal() && sees_errors()
}
