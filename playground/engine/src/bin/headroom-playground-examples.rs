//! Writes the examples of the page as JSON: `headroom-playground-examples REPOSITORY`. With `--outcomes`, writes what the engine
//! answers to each of them instead, for the browser's tests to compare with.

#![expect(clippy::disallowed_methods, reason = "a tool of the build, which prints what it makes")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use headroom_playground::example::{Example, all};
use headroom_playground::memo::Memo;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("headroom-playground-examples: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (root, wants_outcomes) = match arguments.as_slice() {
        [root] => (root, false),
        [flag, root] if flag == "--outcomes" => (root, true),
        _ => return Err("usage: headroom-playground-examples [--outcomes] REPOSITORY".to_owned()),
    };
    let examples = all(Path::new(root))?;
    let text = if wants_outcomes {
        let outcome = |example: &Example| (example.name.clone(), example.play().evaluate(&mut Memo::default()));
        serde_json::to_string(&examples.iter().map(outcome).collect::<BTreeMap<_, _>>())
    } else {
        serde_json::to_string(&examples)
    };
    let text = text.map_err(|error| error.to_string())?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}
