//! A text cut into its documents, each read as a value with the line where it stands.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, UserMessageFormatter};

/// A document and the line of its first value, or a problem and its line; lines count from 1.
pub type Document = Result<(usize, Value), (usize, String)>;

/// Reads JSON values that follow each other, or YAML documents. Empty documents are left out; the first problem is the
/// last entry.
pub fn read(text: &str) -> Vec<Document> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // YAML has flow mappings too, so what is no JSON after all is given to YAML, whose complaint is the better one.
    if text.trim_start().starts_with(['{', '['])
        && let Some(values) = json(text)
    {
        return values.into_iter().map(Ok).collect();
    }
    let mut documents = Vec::new();
    for (first_line, part) in parts(text) {
        let document = yaml(part).map_err(|(line, problem)| (first_line + line, problem));
        match document {
            Ok(Value::Null) => {}
            Ok(value) => documents.push(Ok((first_line + blank_lines(part), value))),
            Err(problem) => {
                documents.push(Err(problem));
                break;
            }
        }
    }
    documents
}

/// The JSON values of a text with their lines; none if anything in it is not JSON.
fn json(text: &str) -> Option<Vec<(usize, Value)>> {
    let mut values = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let before = text.get(stream.byte_offset()..)?;
        let start = text.len() - before.trim_start().len();
        match stream.next() {
            None => return Some(values),
            Some(Ok(value)) => values.push((1 + lines_in(text.get(..start)?), value)),
            Some(Err(_)) => return None,
        }
    }
}

/// A line that begins with `---` begins a document wherever it stands, and one of `...` ends one: YAML allows neither
/// inside a scalar.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut position) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        let begins = bare == "---" || line.starts_with("--- ") || line.starts_with("---\t");
        if begins || bare == "..." {
            parts.push((start_line, text.get(start..position).unwrap_or_default()));
            // What follows the marker on its line belongs to the document.
            let marker = if bare == "..." { line.len() } else { "---".len() };
            start = position + marker;
            start_line = if marker == line.len() { index + 2 } else { index + 1 };
        }
        position += line.len();
    }
    parts.push((start_line, text.get(start..).unwrap_or_default()));
    // Directives (`%YAML 1.2`) stand before a marker and say nothing of a document's values.
    parts.retain(|(_, part)| !part.trim_start().starts_with('%'));
    parts
}

/// What a short document may become by its anchors.
pub(super) const LEAST_BUDGET: usize = 250_000;

/// A document's value, or a problem and how many lines into it.
fn yaml(text: &str) -> Result<Value, (usize, String)> {
    // A list of all pods of a cluster is long; but without anchors no text has more values than it has bytes.
    let at_most = text.len().max(LEAST_BUDGET);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: at_most, max_events: at_most.saturating_mul(2), max_total_scalar_bytes: at_most.saturating_mul(2) },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // As kubectl reads it: `defaultMode: 0644` is 420.
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |location| usize::try_from(location.line()).unwrap_or(0));
        (line.saturating_sub(1), problem_of(&error))
    })
}

/// The error without its own place, on one line, as one tells it to people who write YAML, not Rust.
fn problem_of(error: &Error) -> String {
    let text = error.without_snippet().render_with_formatter(&UserMessageFormatter);
    let text = text.rfind(" at line ").and_then(|end| text.get(..end)).unwrap_or(&text);
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines before the first one that says something.
fn blank_lines(part: &str) -> usize {
    let says_nothing = |line: &&str| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#')
    };
    part.lines().take_while(says_nothing).count()
}

fn lines_in(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}
