//! Colours, on a terminal only, and never where `NO_COLOR` is set.

use std::io::IsTerminal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    pub const OFF: Self = Self { is_on: false };

    /// For standard output.
    pub fn for_stdout() -> Self {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        Self { is_on: std::io::stdout().is_terminal() && !is_unwanted && !is_dumb }
    }

    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn doubtful(self, text: &str) -> String {
        self.with("33", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    pub fn fresh(self, text: &str) -> String {
        self.with("36", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.is_on && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
