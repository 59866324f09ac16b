//! The progress of a run: a bar on a terminal, nothing elsewhere. Logs and the bar share the
//! terminal, so the log is written through here.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::terminal;

/// The bar appears after this time.
const DELAY: Duration = Duration::from_millis(300);
const TURN: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    is_for_people: bool,
    is_shared: bool,
}

/// Tells a page that waits for this program how far it is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Shared {
    pub what: String,
    pub done: u64,
    pub all: u64,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { what: String::new(), done: 0, all: 0 });

pub fn shared() -> Shared {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Progress {
    /// A bar if standard error is a terminal, and it takes long.
    pub fn for_people() -> Self {
        Self { is_for_people: terminal::sees_errors(), is_shared: true, ..Self::hidden() }
    }

    pub fn hidden() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar, is_for_people: false, is_shared: false }
    }

    fn share(&self) {
        if self.is_shared {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
            *SHARED.lock().unwrap_or_else(PoisonError::into_inner) = Shared { what: self.bar.message(), done, all };
        }
    }

    pub fn name(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.share();
    }

    /// Says at once what is waited for, until something begins or ends: nobody can tell a slow answer from none.
    pub fn wait(&self, what: &str) {
        if self.is_for_people {
            self.bar.reset();
            self.bar.set_style(ProgressStyle::default_spinner());
            self.bar.set_message(what.to_owned());
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(TURN);
        }
    }

    pub fn begin(&self, length: u64, what: &str) {
        self.bar.disable_steady_tick();
        self.bar.reset();
        // OK because a template that cannot be read only costs the looks.
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {eta_precise}") {
            self.bar.set_style(style);
        }
        self.bar.set_length(length);
        self.name(what);
    }

    pub fn advance(&self, by: u64) {
        if self.is_for_people && self.bar.is_hidden() && self.bar.elapsed() > DELAY {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(by);
        self.share();
    }

    /// There is more to do than was thought.
    pub fn lengthen(&self, by: u64) {
        self.bar.inc_length(by);
    }

    pub fn end(&self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
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
