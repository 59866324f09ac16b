//! The single pass over the text. It checks the text against RFC 8259 and builds only the table.

use std::fmt;

use super::bytes::{end_of_container, hex4, marked, skip_plain};
use super::table::{Shape, TableEntry};

/// The nesting limit of serde_json, which the host uses.
const DEEPEST: usize = 127;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    at: usize,
    expected: &'static str,
}

impl SyntaxError {
    pub(super) fn new(at: usize, expected: &'static str) -> Self {
        Self { at, expected }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not JSON at byte {}: expected {}", self.at, self.expected)
    }
}

impl std::error::Error for SyntaxError {}

/// A part of a text that is read. Which parts there are inside follows from the names of fields; `Whole` has no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Whole,
    Nothing,
    /// Nothing, nor anything after it.
    Last,
    List,
    Object,
    Spec,
    Images,
    Image,
    Own,
    Histories,
    History,
}

/// Reads the text, or the parts of it that `inside` chooses. It is one function with its state in local variables, because
/// most of a request's executed instructions are spent here; for the same reason additions to places have no overflow checks:
/// no place exceeds the text by more than an escape.
pub(super) fn scan(
    text: &str,
    whole: Part,
    inside: &mut dyn FnMut(Part, &str) -> Part,
) -> Result<Vec<TableEntry>, SyntaxError> {
    let bytes = text.as_bytes();
    if bytes.len() > TableEntry::LONGEST_TEXT {
        return Err(SyntaxError::new(0, "at most 512 MiB"));
    }
    // The open lists and objects, outermost first: the index of each, and the byte that closes its parent, and its part.
    let mut open: Vec<(u32, u8, Part)> = Vec::with_capacity(DEEPEST);
    // Allocated once for the most entries that the text can have; the unused rest is released at the end.
    let mut table: Vec<TableEntry> = Vec::with_capacity(TableEntry::most_in(bytes.len()));
    // The byte that closes the innermost list or object, or `END` outside of all.
    let mut closing = END;
    // The part of the innermost list or object, and that of the next value.
    let (mut around, mut part) = (whole, whole);
    let mut at = 0;
    'value: loop {
        'leaf: {
            // Of an object, the name was read.
            if around != Part::Whole && closing == b'}' {
                part = inside(around, table.last().map_or("", |name| name.between_quotes(text)));
                if part == Part::Last {
                    table.pop();
                    while let Some((index, ..)) = open.pop() {
                        close(&mut table, index as usize);
                    }
                    return Ok(table);
                }
                if part == Part::Nothing {
                    table.pop();
                    at = end_of_value(bytes, at)?;
                    break 'leaf;
                }
            }
            let byte;
            (at, byte) = token(bytes, at);
            let (end, shape) = match byte {
                b'"' => string(bytes, at)?,
                b'{' | b'[' => {
                    if open.len() == DEEPEST {
                        return Err(SyntaxError::new(at, "at most 127 levels"));
                    }
                    let (shape, bracket) = if byte == b'{' { (Shape::Object, b'}') } else { (Shape::List, b']') };
                    let index = table.len();
                    table.push(TableEntry::container(shape, at));
                    let first;
                    (at, first) = token(bytes, at.wrapping_add(1));
                    if first == bracket {
                        at = at.wrapping_add(1);
                        close(&mut table, index);
                        break 'leaf;
                    }
                    open.push((index as u32, closing, around));
                    (closing, around) = (bracket, part);
                    if closing == b'}' {
                        at = name(bytes, (at, first), &mut table)?;
                    }
                    continue 'value;
                }
                b'-' | b'0'..=b'9' => (number(bytes, at)?, Shape::Number),
                b't' => (literal(bytes, at, "true")?, Shape::True),
                b'f' => (literal(bytes, at, "false")?, Shape::False),
                b'n' => (literal(bytes, at, "null")?, Shape::Null),
                _ => return Err(SyntaxError::new(at, "a value")),
            };
            table.push(TableEntry::leaf(shape, at, end));
            at = end;
        }
        // After a value: close the containers that end here, or continue with the next value of the open one.
        loop {
            let byte;
            (at, byte) = token(bytes, at);
            if byte == b',' {
                match closing {
                    b'}' => at = name(bytes, token(bytes, at.wrapping_add(1)), &mut table)?,
                    b']' => at = at.wrapping_add(1),
                    _ => break 'value,
                }
                continue 'value;
            }
            if byte != closing {
                break 'value;
            }
            let Some((index, closing_before, around_before)) = open.pop() else { break 'value };
            close(&mut table, index as usize);
            (closing, around, part) = (closing_before, around_before, around_before);
            at = at.wrapping_add(1);
        }
    }
    if closing == END && at == bytes.len() {
        table.shrink_to_fit();
        return Ok(table);
    }
    Err(SyntaxError::new(
        at,
        match closing {
            b'}' => "`,` or `}`",
            b']' => "`,` or `]`",
            _ => "the end of the text",
        },
    ))
}

/// Closes the list or object at `index`: all entries after it are inside.
#[inline(always)]
fn close(table: &mut [TableEntry], index: usize) {
    let next = table.len();
    if let Some(closed) = table.get_mut(index) {
        closed.close(next);
    }
}

/// The byte after the text, which is no token.
const END: u8 = 0;

#[inline(always)]
fn byte_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(END)
}

/// The next byte that is not blank, and its place.
#[inline(always)]
pub(super) fn token(bytes: &[u8], mut at: usize) -> (usize, u8) {
    loop {
        let byte = byte_at(bytes, at);
        match byte {
            b'!'.. => return (at, byte),
            b' ' | b'\n' | b'\r' | b'\t' => at = at.wrapping_add(1),
            _ => return (at, byte),
        }
    }
}

/// A field's name and its colon.
#[inline(always)]
fn name(bytes: &[u8], (start, first): (usize, u8), table: &mut Vec<TableEntry>) -> Result<usize, SyntaxError> {
    if first != b'"' {
        return Err(SyntaxError::new(start, "a name in quotes"));
    }
    let (end, shape) = string(bytes, start)?;
    table.push(TableEntry::leaf(shape, start, end));
    if byte_at(bytes, end) == b':' {
        return Ok(end.wrapping_add(1));
    }
    let (at, colon) = token(bytes, end);
    if colon == b':' { Ok(at.wrapping_add(1)) } else { Err(SyntaxError::new(at, "`:`")) }
}

/// The end of the value that begins at a place, without checking what is in it.
fn end_of_value(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let (mut at, first) = token(bytes, at);
    match first {
        b'"' => escaped_string(bytes, skip_plain(bytes, at.wrapping_add(1))),
        b'{' | b'[' => end_of_container(bytes, at).ok_or(SyntaxError::new(at, "a value that can be skipped")),
        _ => {
            while !matches!(byte_at(bytes, at), b',' | b'}' | END) {
                at = at.wrapping_add(1);
            }
            Ok(at)
        }
    }
}

fn literal(bytes: &[u8], at: usize, word: &'static str) -> Result<usize, SyntaxError> {
    let end = at + word.len();
    if bytes.get(at..end) == Some(word.as_bytes()) { Ok(end) } else { Err(SyntaxError::new(at, "a value")) }
}

fn number(bytes: &[u8], start: usize) -> Result<usize, SyntaxError> {
    let mut at = start;
    if byte_at(bytes, at) == b'-' {
        at += 1;
    }
    at = if byte_at(bytes, at) == b'0' { at + 1 } else { digits(bytes, at)? };
    if byte_at(bytes, at) == b'.' {
        at = digits(bytes, at + 1)?;
    }
    if let b'e' | b'E' = byte_at(bytes, at) {
        at += 1;
        if let b'+' | b'-' = byte_at(bytes, at) {
            at += 1;
        }
        at = digits(bytes, at)?;
    }
    Ok(at)
}

/// At least one digit.
fn digits(bytes: &[u8], start: usize) -> Result<usize, SyntaxError> {
    let mut at = start;
    while byte_at(bytes, at).is_ascii_digit() {
        at += 1;
    }
    if at == start { Err(SyntaxError::new(at, "a digit")) } else { Ok(at) }
}

/// The end of a string, and whether it has escapes.
#[inline(always)]
fn string(bytes: &[u8], start: usize) -> Result<(usize, Shape), SyntaxError> {
    let start = start.wrapping_add(1);
    // Most strings end within the first sixteen bytes.
    let first = bytes.get(start..).and_then(|rest| rest.first_chunk()).map_or(0, marked);
    let end = if first != 0 { start.wrapping_add(first.trailing_zeros() as usize) } else { skip_plain(bytes, start) };
    if byte_at(bytes, end) == b'"' {
        return Ok((end.wrapping_add(1), Shape::Text));
    }
    Ok((escaped_string(bytes, end)?, Shape::EscapedText))
}

/// The rest of a string from its first byte that is not plain.
fn escaped_string(bytes: &[u8], mut at: usize) -> Result<usize, SyntaxError> {
    loop {
        match byte_at(bytes, at) {
            b'"' => return Ok(at + 1),
            b'\\' => at = skip_plain(bytes, escape(bytes, at)?),
            _ => return Err(SyntaxError::new(at, "the end of a string")),
        }
    }
}

fn escape(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    match byte_at(bytes, at + 1) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' => {
            let Some(first) = hex4(bytes, at + 2) else { return Err(SyntaxError::new(at, "four hex digits")) };
            let at = at + 6;
            match first {
                0xD800..=0xDBFF => {
                    let follows = bytes.get(at..at + 2) == Some(b"\\u");
                    if !follows || !matches!(hex4(bytes, at + 2), Some(0xDC00..=0xDFFF)) {
                        return Err(SyntaxError::new(at, "the second half of a surrogate pair"));
                    }
                    Ok(at + 6)
                }
                0xDC00..=0xDFFF => Err(SyntaxError::new(at, "the first half of a surrogate pair")),
                _ => Ok(at),
            }
        }
        _ => Err(SyntaxError::new(at, "an escape such as `\\n`")),
    }
}
