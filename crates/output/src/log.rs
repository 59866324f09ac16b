//! The log of a program that runs for long: one line an event, on standard error. Names and errors of others are in it, so each
//! line is cleaned: none of them begins a line of its own, or acts on the terminal of whoever reads the log.

use std::io::{self, Write};

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::clean::clean;
use super::page::escaped;
use super::progress::Progress;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Logs what `RUST_LOG` asks for, or everything from a level up.
pub fn start(level: &str, format: LogFormat, progress: Progress) {
    // OK because it fails only where a log was started before.
    let _ = subscriber(level, format, move || progress.clone()).try_init();
}

fn subscriber<M>(level: &str, format: LogFormat, to: M) -> Box<dyn Subscriber + Send + Sync>
where
    M: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // The client's own line about a failed request says less than ours, and comes with each of them.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| format!("{level},kube_client::client::builder=off").into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(false);
    match format {
        LogFormat::Text => Box::new(log.with_writer(Cleaned { to, clean: |event| clean(event).into_owned() }).finish()),
        LogFormat::Json => {
            let to = Cleaned { to, clean: |event| escaped(event.to_owned()) };
            Box::new(log.json().flatten_event(true).with_writer(to).finish())
        }
    }
}

/// Writes each event, which comes as a whole, on one line.
#[derive(Clone)]
struct Cleaned<W> {
    to: W,
    clean: fn(&str) -> String,
}

impl<'w, M: MakeWriter<'w>> MakeWriter<'w> for Cleaned<M> {
    type Writer = Cleaned<M::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        Cleaned { to: self.to.make_writer(), clean: self.clean }
    }
}

impl<W: Write> Write for Cleaned<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = (self.clean)(text.strip_suffix('\n').unwrap_or(&text));
        self.to.write_all((line + "\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const HOSTILE: &str = "a\nb\u{9b}2Kc\u{202e}\u{1b}[1m\n::add-mask::d ##[error]e";

    fn logged(format: LogFormat) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let event = || tracing::warn!(namespace = HOSTILE, error = %HOSTILE, "one is `{HOSTILE}`");
        tracing::subscriber::with_default(subscriber("warn", format, Arc::new(file.reopen().unwrap())), event);
        std::fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn an_event_is_one_line_that_nothing_obeys() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let log = logged(format);
            let line = log.strip_suffix('\n').unwrap();
            assert!(!line.chars().any(crate::clean::is_hidden) && !crate::clean::is_command(line), "{log}");
        }
        let event: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json)).unwrap();
        assert_eq!(event["namespace"], HOSTILE);
    }
}
