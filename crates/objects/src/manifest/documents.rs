//! A text cut into its documents, each read as a value with the line where it stands.

use serde_json::Value;

use super::yaml;

/// A document and the line of its first value, or a problem and its line; lines count from 1.
pub type Document = Result<(usize, Value), (usize, String)>;

/// The begin of an expression in a Helm template.
pub(super) const TEMPLATE: &str = "{{";
pub(super) const UNRENDERED: &str =
    "unrendered Helm template: run `helm template --skip-tests CHART | kubectl headroom check -f -` instead";

/// The value of a YAML document, or a problem and the lines before it.
pub type Parsed = Result<Value, (usize, String)>;

/// Reads JSON values that follow each other, or YAML documents. Empty documents are left out.
pub fn read(text: &str) -> Vec<Document> {
    read_with(text, &mut parse)
}

pub fn parse(document: &str) -> Parsed {
    // A list of all pods of a cluster is long; but without anchors no text has more values than it has bytes.
    yaml::read(document, document.len().max(LEAST_BUDGET))
}

/// Reads a text whose YAML documents `parse` reads, which may know some of them already.
pub(super) fn read_with(text: &str, parse: &mut dyn FnMut(&str) -> Parsed) -> Vec<Document> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // YAML has flow mappings too, so what is no JSON after all is given to YAML, whose complaint is the better one.
    if text.trim_start().starts_with(['{', '['])
        && let Some(values) = json(text)
    {
        return values.into_iter().map(Ok).collect();
    }
    let mut documents = Vec::new();
    for (first_line, part) in parts(text) {
        match parse(part).map_err(|(line, problem)| (first_line + line, problem)) {
            Ok(Value::Null) => {}
            Ok(value) => documents.push(Ok((first_line + blank_lines(part), value))),
            // Braces may also stand in texts of other tools, so the true problem is named too.
            Err((line, problem)) if part.contains(TEMPLATE) => {
                documents.push(Err((line, format!("{problem}; perhaps an {UNRENDERED}"))));
            }
            Err(problem) => documents.push(Err(problem)),
        }
    }
    documents
}

/// The JSON values of a text with their lines; none if anything in it is not JSON.
fn json(text: &str) -> Option<Vec<(usize, Value)>> {
    let mut values = Vec::new();
    let (mut line, mut counted) = (1, 0);
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let before = text.get(stream.byte_offset()..)?;
        let start = text.len() - before.trim_start().len();
        let Some(value) = stream.next() else { return Some(values) };
        line += text.get(counted..start)?.bytes().filter(|byte| *byte == b'\n').count();
        counted = start;
        values.push((line, value.ok()?));
    }
}

/// A line that begins with `---` begins a document wherever it stands, and one of `...` ends one: YAML allows neither
/// inside a scalar.
pub(super) fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut position) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let bare = line.trim_end();
        let begins = bare == "---" || line.starts_with("--- ") || line.starts_with("---\t");
        if begins || bare == "..." {
            parts.push((start_line, text.get(start..position).unwrap_or_default()));
            // The rest of the marker's line belongs to the document.
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

/// The values that a short document may expand to by its anchors.
pub(super) const LEAST_BUDGET: usize = 250_000;

/// The lines before the first one that says something. Unlike to Rust, to YAML the spaces of typesetters are text.
fn blank_lines(part: &str) -> usize {
    let says_nothing = |line: &&str| {
        let line = line.trim_matches([' ', '\t', '\r']);
        line.is_empty() || line.starts_with('#')
    };
    part.lines().take_while(says_nothing).count()
}
