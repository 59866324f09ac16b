//! The one pass over the text. It checks what RFC 8259 asks of it and builds nothing but the table.

use std::fmt;

use super::{Entry, Shape};

/// Deeper than anything that Kubernetes serves, and as deep as the host's own reader goes.
const DEEPEST: usize = 128;

/// A text that is not JSON.
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

/// Reads the whole text. One function with its state in local variables, because this is where most of a request's
/// executed instructions go.
pub(super) fn scan(text: &str) -> Result<Vec<Entry>, SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        return Err(SyntaxError::new(0, "at most 4 GiB"));
    }
    let bytes = text.as_bytes();
    // Compact admission requests have one entry for about seven bytes; a text with more grows the table.
    let mut entries: Vec<Entry> = Vec::with_capacity(text.len() / 6 + 8);
    // The containers that are open, outermost first.
    let mut open: Vec<u32> = Vec::with_capacity(16);
    let mut at = 0;
    'value: loop {
        at = skip_space(bytes, at);
        match byte_at(bytes, at) {
            b'"' => at = string(bytes, at, &mut entries)?,
            // Who manages which field is a third of many a request and nobody's business here.
            b'[' if follows_managed_fields(bytes, &entries) => {
                let end = end_of_opaque(bytes, at)?;
                push(&mut entries, at, end, Shape::Opaque);
                at = end;
            }
            byte @ (b'{' | b'[') => {
                if open.len() == DEEPEST {
                    return Err(SyntaxError::new(at, "at most 128 levels"));
                }
                let is_object = byte == b'{';
                open.push(entries.len() as u32);
                push(&mut entries, at, at, if is_object { Shape::Object } else { Shape::List });
                at = skip_space(bytes, at + 1);
                if byte_at(bytes, at) != (if is_object { b'}' } else { b']' }) {
                    if is_object {
                        at = name(bytes, at, &mut entries)?;
                    }
                    continue 'value;
                }
            }
            b'-' | b'0'..=b'9' => at = number(bytes, at, &mut entries)?,
            b't' => at = literal(bytes, at, "true", Shape::True, &mut entries)?,
            b'f' => at = literal(bytes, at, "false", Shape::False, &mut entries)?,
            b'n' => at = literal(bytes, at, "null", Shape::Null, &mut entries)?,
            _ => return Err(SyntaxError::new(at, "a value")),
        }
        // After a value: close what ends here, or go on to the next value of what is still open.
        while let Some(&index) = open.last() {
            at = skip_space(bytes, at);
            let next = entries.len() as u32;
            let Some(container) = entries.get_mut(index as usize) else { break };
            let is_object = container.shape == Shape::Object;
            match byte_at(bytes, at) {
                b',' => {
                    at += 1;
                    if is_object {
                        at = name(bytes, skip_space(bytes, at), &mut entries)?;
                    }
                    continue 'value;
                }
                byte if byte == (if is_object { b'}' } else { b']' }) => {
                    at += 1;
                    container.end = at as u32;
                    container.next = next;
                    open.pop();
                }
                _ => return Err(SyntaxError::new(at, if is_object { "`,` or `}`" } else { "`,` or `]`" })),
            }
        }
        at = skip_space(bytes, at);
        return if at == bytes.len() { Ok(entries) } else { Err(SyntaxError::new(at, "the end of the text")) };
    }
}

/// The byte at a place; past the end a zero, which is no token.
#[inline(always)]
fn byte_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

#[inline(always)]
fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match byte_at(bytes, at) {
            b'!'.. => return at,
            b' ' | b'\n' | b'\r' | b'\t' => at += 1,
            _ => return at,
        }
    }
}

#[inline(always)]
fn push(entries: &mut Vec<Entry>, start: usize, end: usize, shape: Shape) {
    let next = entries.len() as u32 + 1;
    entries.push(Entry { start: start as u32, end: end as u32, next, shape });
}

/// A field's name and its colon.
#[inline(always)]
fn name(bytes: &[u8], at: usize, entries: &mut Vec<Entry>) -> Result<usize, SyntaxError> {
    if byte_at(bytes, at) != b'"' {
        return Err(SyntaxError::new(at, "a name in quotes"));
    }
    let at = skip_space(bytes, string(bytes, at, entries)?);
    if byte_at(bytes, at) == b':' { Ok(at + 1) } else { Err(SyntaxError::new(at, "`:`")) }
}

/// Whether the text read last is `managedFields`.
fn follows_managed_fields(bytes: &[u8], entries: &[Entry]) -> bool {
    const NAME: &[u8] = b"\"managedFields\"";
    let Some(last) = entries.last() else { return false };
    let (start, end) = (last.start as usize, last.end as usize);
    end - start == NAME.len() && bytes.get(start..end) == Some(NAME)
}

/// Where a list or object ends that nobody looks into: its brackets and strings are balanced, no more is checked.
fn end_of_opaque(bytes: &[u8], mut at: usize) -> Result<usize, SyntaxError> {
    let mut depth = 0_u32;
    loop {
        match bytes.get(at) {
            Some(b'"') => {
                let end = skip_plain(bytes, at + 1);
                at = if byte_at(bytes, end) == b'"' { end + 1 } else { escaped_string(bytes, end)? };
                continue;
            }
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') => depth -= 1,
            Some(_) => {}
            None => return Err(SyntaxError::new(at, "the end of a list")),
        }
        at += 1;
        if depth == 0 {
            return Ok(at);
        }
    }
}

fn literal(
    bytes: &[u8],
    at: usize,
    word: &'static str,
    shape: Shape,
    entries: &mut Vec<Entry>,
) -> Result<usize, SyntaxError> {
    let end = at + word.len();
    if bytes.get(at..end) != Some(word.as_bytes()) {
        return Err(SyntaxError::new(at, "a value"));
    }
    push(entries, at, end, shape);
    Ok(end)
}

fn number(bytes: &[u8], start: usize, entries: &mut Vec<Entry>) -> Result<usize, SyntaxError> {
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
    push(entries, start, at, Shape::Number);
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

#[inline(always)]
fn string(bytes: &[u8], start: usize, entries: &mut Vec<Entry>) -> Result<usize, SyntaxError> {
    let end = skip_plain(bytes, start + 1);
    if byte_at(bytes, end) == b'"' {
        push(entries, start, end + 1, Shape::Text);
        return Ok(end + 1);
    }
    let end = escaped_string(bytes, end)?;
    push(entries, start, end, Shape::EscapedText);
    Ok(end)
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

/// Passes over bytes that mean themselves inside a string, eight at a time: most of a request is such text.
#[inline(never)]
pub(super) fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        let (quote, backslash) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
        // The classic test for a zero byte, and for a byte below 0x20; the lowest mark is always right.
        let marks = (quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash
            | word.wrapping_sub(ONES * 0x20) & !word)
            & HIGHS;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !matches!(byte, ..0x20 | b'"' | b'\\')) {
        at += 1;
    }
    at
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

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

/// The text that a checked string body stands for.
pub(super) fn unescape(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let bytes = escape.as_bytes();
        let mut used = 1;
        match bytes.first() {
            Some(b'b') => text.push('\u{8}'),
            Some(b'f') => text.push('\u{c}'),
            Some(b'n') => text.push('\n'),
            Some(b'r') => text.push('\r'),
            Some(b't') => text.push('\t'),
            Some(b'u') => {
                let first = hex4(bytes, 1).unwrap_or_default();
                used = 5;
                let code = match (first, hex4(bytes, 7)) {
                    (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
                        used = 11;
                        0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                    }
                    _ => first,
                };
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => text.push(char::from(*other)),
            None => used = 0,
        }
        rest = escape.get(used..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}
