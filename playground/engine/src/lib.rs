//! The engine of the page: the text of the panels in, verdicts with their explanations out.
//!
//! It runs in a worker of the browser, as wasm. Everything is JSON text, in and out, so that tests call the same functions
//! natively. No rule is decided here: that is the core's, by way of `headroom_dryrun`.

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
use serde::de::DeserializeOwned;

/// Calls a function of the engine with JSON and answers with JSON: `{"ok": …}`, or `{"error": "…"}`.
pub fn call<Input: DeserializeOwned, Output: Serialize>(
    input: &str,
    function: impl FnOnce(Input) -> Result<Output, String>,
) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    enum Answer<T> {
        Ok(T),
        Error(String),
    }
    let answer = match serde_json::from_str(input) {
        Ok(input) => function(input).map_or_else(Answer::Error, Answer::Ok),
        Err(error) => Answer::Error(format!("invalid request from the page: {error}")),
    };
    // Every answer has text as keys, so it can be written.
    serde_json::to_string(&answer).unwrap_or_default()
}
