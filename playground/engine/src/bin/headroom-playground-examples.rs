//! Writes the examples of the page as JSON: `headroom-playground-examples REPOSITORY`. With `--outcomes`, writes what the engine
//! answers to each of them instead, for the browser's tests to compare with.

#![expect(clippy::disallowed_methods, reason = "a tool of the build, which reads the repository")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use headroom_playground::example::{Example, all};

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
    let read = |path: &str| fs::read_to_string(Path::new(root).join(path)).map_err(|error| format!("{path}: {error}"));
    let scenarios = scenarios(root)?;
    let examples = all(&scenarios, read)?;
    let text = if wants_outcomes {
        let outcome = |example: &Example| (example.name.clone(), example.play().evaluate());
        serde_json::to_string(&examples.iter().map(outcome).collect::<BTreeMap<_, _>>())
    } else {
        serde_json::to_string(&examples)
    };
    let text = text.map_err(|error| error.to_string())?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

/// The scenarios' names and texts, in the order of the names.
fn scenarios(root: &str) -> Result<BTreeMap<String, String>, String> {
    let folder = Path::new(root).join("tests/scenarios");
    let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut scenarios = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            scenarios.insert(name.to_owned(), fs::read_to_string(&path).map_err(unreadable)?);
        }
    }
    Ok(scenarios)
}
