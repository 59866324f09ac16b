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
/// executed instructions go; for the same reason places are added to without overflow checks: none lies past the text
/// by more than an escape.
pub(super) fn scan(text: &str) -> Result<Vec<Entry>, SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        return Err(SyntaxError::new(0, "at most 4 GiB"));
    }
    let bytes = text.as_bytes();
    // Compact admission requests have one entry for about seven bytes; a text with more grows the table.
    let mut entries: Vec<Entry> = Vec::with_capacity(text.len() / 6 + 8);
    // The containers that are open, outermost first; and what the innermost is.
    let mut open: Vec<u32> = Vec::with_capacity(16);
    let mut is_object = false;
    let mut at = 0;
    'value: loop {
        at = skip_space(bytes, at);
        let start = at;
        let shape;
        match byte_at(bytes, at) {
            b'"' => (at, shape) = string(bytes, at)?,
            // Who manages which field is a third of many a request and nobody's business here.
            b'[' if follows_managed_fields(bytes, &entries) => (at, shape) = (end_of_opaque(bytes, at)?, Shape::Opaque),
            byte @ (b'{' | b'[') => {
                if open.len() == DEEPEST {
                    return Err(SyntaxError::new(at, "at most 128 levels"));
                }
                let is_list = byte == b'[';
                shape = if is_list { Shape::List } else { Shape::Object };
                at = skip_space(bytes, at.wrapping_add(1));
                if byte_at(bytes, at) != (if is_list { b']' } else { b'}' }) {
                    open.push(entries.len() as u32);
                    push(&mut entries, start, start, shape);
                    is_object = !is_list;
                    if is_object {
                        at = name(bytes, at, &mut entries)?;
                    }
                    continue 'value;
                }
                at = at.wrapping_add(1);
            }
            b'-' | b'0'..=b'9' => (at, shape) = (number(bytes, at)?, Shape::Number),
            b't' => (at, shape) = (literal(bytes, at, "true")?, Shape::True),
            b'f' => (at, shape) = (literal(bytes, at, "false")?, Shape::False),
            b'n' => (at, shape) = (literal(bytes, at, "null")?, Shape::Null),
            _ => return Err(SyntaxError::new(at, "a value")),
        }
        push(&mut entries, start, at, shape);
        // After a value: close what ends here, or go on to the next value of what is still open.
        loop {
            at = skip_space(bytes, at);
            let Some(&index) = open.last() else {
                return if at == bytes.len() { Ok(entries) } else { Err(SyntaxError::new(at, "the end of the text")) };
            };
            match byte_at(bytes, at) {
                b',' => {
                    at = at.wrapping_add(1);
                    if is_object {
                        at = name(bytes, skip_space(bytes, at), &mut entries)?;
                    }
                    continue 'value;
                }
                byte if byte == (if is_object { b'}' } else { b']' }) => {
                    at = at.wrapping_add(1);
                    let next = entries.len() as u32;
                    if let Some(container) = entries.get_mut(index as usize) {
                        (container.end, container.next) = (at as u32, next);
                    }
                    open.pop();
                    let outer = open.last().and_then(|outer| entries.get(*outer as usize));
                    is_object = outer.is_some_and(|outer| outer.shape == Shape::Object);
                }
                _ => return Err(SyntaxError::new(at, if is_object { "`,` or `}`" } else { "`,` or `]`" })),
            }
        }
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
            b' ' | b'\n' | b'\r' | b'\t' => at = at.wrapping_add(1),
            _ => return at,
        }
    }
}

#[inline(always)]
fn push(entries: &mut Vec<Entry>, start: usize, end: usize, shape: Shape) {
    let next = (entries.len() as u32).wrapping_add(1);
    entries.push(Entry { start: start as u32, end: end as u32, next, shape });
}

/// A field's name and its colon.
#[inline(always)]
fn name(bytes: &[u8], start: usize, entries: &mut Vec<Entry>) -> Result<usize, SyntaxError> {
    if byte_at(bytes, start) != b'"' {
        return Err(SyntaxError::new(start, "a name in quotes"));
    }
    let (end, shape) = string(bytes, start)?;
    push(entries, start, end, shape);
    let at = skip_space(bytes, end);
    if byte_at(bytes, at) == b':' { Ok(at.wrapping_add(1)) } else { Err(SyntaxError::new(at, "`:`")) }
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
    // Most are short, and end within the first sixteen bytes.
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

/// Passes over bytes that mean themselves inside a string, sixteen at a time: most of a request is such text.
#[inline(never)]
pub(super) fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    while let Some(sixteen) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let marks = marked(sixteen);
        if marks != 0 {
            return at.wrapping_add(marks.trailing_zeros() as usize);
        }
        at = at.wrapping_add(16);
    }
    // The end, and what is before it once more.
    if let Some(sixteen) = bytes.last_chunk() {
        let before = at.wrapping_add(16).wrapping_sub(bytes.len());
        let marks = marked(sixteen) >> before.min(16);
        return if marks != 0 { at.wrapping_add(marks.trailing_zeros() as usize) } else { bytes.len() };
    }
    while bytes.get(at).is_some_and(|byte| !is_marked(*byte)) {
        at += 1;
    }
    at
}

/// Whether a byte ends a string, begins an escape or must be escaped.
fn is_marked(byte: u8) -> bool {
    matches!(byte, ..0x20 | b'"' | b'\\')
}

/// One bit for each such byte, the lowest for the first.
#[cfg(not(target_feature = "simd128"))]
fn marked(bytes: &[u8; 16]) -> u32 {
    bytes.iter().rev().fold(0, |marks, byte| marks << 1 | u32::from(is_marked(*byte)))
}

/// The same in a few instructions of WebAssembly.
#[cfg(target_feature = "simd128")]
#[inline(always)]
fn marked(bytes: &[u8; 16]) -> u32 {
    use std::arch::wasm32::{u8x16_bitmask, u8x16_eq, u8x16_lt, u8x16_splat, u64x2, v128_or};
    let word =
        |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
    let bytes = u64x2(word(0), word(8));
    let ends = v128_or(u8x16_eq(bytes, u8x16_splat(b'"')), u8x16_eq(bytes, u8x16_splat(b'\\')));
    u32::from(u8x16_bitmask(v128_or(ends, u8x16_lt(bytes, u8x16_splat(0x20)))))
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
