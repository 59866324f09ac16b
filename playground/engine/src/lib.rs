//! The engine of the page: the text of the panels in, verdicts with their explanations out.
//!
//! It runs in a worker of the browser, as wasm. Everything is text, in and out, so that tests call the same functions natively. No
//! rule is decided here: that is the core's, by way of `headroom_dry_run`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod diff;
pub mod memo;
mod place;

pub mod play;

#[cfg(not(target_arch = "wasm32"))]
pub mod example;
pub mod policy;
pub mod replay;
pub mod whatif;

#[cfg(target_arch = "wasm32")]
mod browser;

use serde::Serialize;

/// Reads the panels from JSON.
pub fn read(input: &str) -> Result<play::Play, String> {
    serde_json::from_str(input).map_err(|error| format!("invalid request from the page: {error}"))
}

/// An answer as JSON: `{"ok": …}`, or `{"error": "…"}`.
pub fn answer<Output: Serialize>(output: Result<Output, String>) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    enum Answer<T> {
        Ok(T),
        Error(String),
    }
    // Every answer has text as keys, so it can be written.
    serde_json::to_string(&output.map_or_else(Answer::Error, Answer::Ok)).unwrap_or_default()
}
