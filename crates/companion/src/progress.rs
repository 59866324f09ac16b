//! How far a run is, for a person who watches: a bar on a terminal, nothing elsewhere. Logs and the bar share the
//! terminal, so the log is written through here.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar if standard error is a terminal.
    pub fn for_people() -> Self {
        if !io::stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::no_length();
        // OK because a template that cannot be read only costs the looks.
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {eta_precise}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    pub fn begin(&self, length: u64, what: &str) {
        self.bar.reset();
        self.bar.set_length(length);
        self.bar.set_message(what.to_owned());
    }

    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    /// There is more to do than was thought.
    pub fn lengthen(&self, by: u64) {
        self.bar.inc_length(by);
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Standard error, with the bar out of the way while something is written.
impl Write for Progress {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.bar.suspend(|| io::stderr().write(text))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
