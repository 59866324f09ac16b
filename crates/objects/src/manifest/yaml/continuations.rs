//! Quoted texts over several lines that kubectl takes although YAML asks for more indentation.
//!
//! In a block, YAML 1.2 wants each further line of a quoted text indented more than the block. Go's reader, and so kubectl,
//! does not, and generated manifests make use of it. Blanks at the begin of such a line are not part of the text, so the line
//! is read again with enough of them.

use std::borrow::Cow;

use super::Problem;

/// A problem of the parser, and the line of a quoted text that it found indented too little, from 0.
pub struct Failure {
    pub problem: Problem,
    pub unindented: Option<usize>,
}

/// The bytes that may be read again for one text: a manifest has few such lines, and the cost stays bounded.
const MAX_BYTES_READ_AGAIN: usize = 1 << 25;

/// Reads a text, with its quoted texts indented as far as they have to be.
pub fn reading<T>(text: &str, mut read: impl FnMut(&str) -> Result<T, Failure>) -> Result<T, Problem> {
    let mut text = Cow::Borrowed(text);
    let mut left = MAX_BYTES_READ_AGAIN;
    loop {
        let Failure { problem, unindented } = match read(&text) {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        let (Some(line), Some(rest)) = (unindented, left.checked_sub(text.len())) else { return Err(problem) };
        left = rest;
        let indented = indent(&text, line);
        if indented.len() == text.len() {
            return Err(problem);
        }
        text = indented.into();
    }
}

/// Indents the lines from the given one, which begins inside a quoted text, to the first that can end it.
fn indent(text: &str, first: usize) -> String {
    let deepest = text.lines().map(indentation).max().unwrap_or(0).min(MAX_INDENTATION);
    let mut indented = String::with_capacity(text.len() + deepest + 1);
    let mut is_quoted = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        is_quoted |= number == first;
        if is_quoted && indentation(line) <= deepest {
            indented.extend(std::iter::repeat_n(' ', deepest + 1 - indentation(line)));
        }
        indented.push_str(line);
        is_quoted &= !line.contains(['\'', '"']);
    }
    indented
}

/// No manifest is indented further.
const MAX_INDENTATION: usize = 1000;

fn indentation(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ').count()
}
