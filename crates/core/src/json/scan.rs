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

pub(super) fn scan(text: &str) -> Result<Vec<Entry>, SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        return Err(SyntaxError::new(0, "at most 4 GiB"));
    }
    // One entry for about eight bytes is what compact admission requests have; a text with more grows the table.
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, entries: Vec::with_capacity(text.len() / 8 + 8) };
    scanner.whole_text()?;
    Ok(scanner.entries)
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    entries: Vec<Entry>,
}

impl Scanner<'_> {
    fn whole_text(&mut self) -> Result<(), SyntaxError> {
        // The containers that are open, outermost first: their index and whether they are objects.
        let mut open: Vec<(usize, bool)> = Vec::with_capacity(16);
        'value: loop {
            match self.next_token() {
                Some(byte @ (b'{' | b'[')) => {
                    if open.len() == DEEPEST {
                        return self.expected("at most 128 levels");
                    }
                    let is_object = byte == b'{';
                    open.push((self.entries.len(), is_object));
                    self.push(self.at, self.at, if is_object { Shape::Object } else { Shape::List });
                    self.at += 1;
                    let is_empty = self.next_token() == Some(if is_object { b'}' } else { b']' });
                    if !is_empty {
                        if is_object {
                            self.name()?;
                        }
                        continue 'value;
                    }
                }
                Some(b'"') => self.string()?,
                Some(b't') => self.literal("true", Shape::True)?,
                Some(b'f') => self.literal("false", Shape::False)?,
                Some(b'n') => self.literal("null", Shape::Null)?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                _ => return self.expected("a value"),
            }
            // After a value: close what ends here, or go on to the next value of what is still open.
            while let Some(&(index, is_object)) = open.last() {
                match (self.next_token(), is_object) {
                    (Some(b','), true) => {
                        self.at += 1;
                        self.next_token();
                        self.name()?;
                        continue 'value;
                    }
                    (Some(b','), false) => {
                        self.at += 1;
                        continue 'value;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        let (end, next) = (self.at as u32, self.entries.len() as u32);
                        if let Some(entry) = self.entries.get_mut(index) {
                            entry.end = end;
                            entry.next = next;
                        }
                        open.pop();
                    }
                    (_, true) => return self.expected("`,` or `}`"),
                    (_, false) => return self.expected("`,` or `]`"),
                }
            }
            return match self.next_token() {
                None => Ok(()),
                Some(_) => self.expected("the end of the text"),
            };
        }
    }

    /// Passes over white space and tells the byte after it.
    fn next_token(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    fn push(&mut self, start: usize, end: usize, shape: Shape) {
        let next = self.entries.len() as u32 + 1;
        self.entries.push(Entry { start: start as u32, end: end as u32, next, shape });
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError::new(self.at, expected))
    }

    /// A field's name and its colon.
    fn name(&mut self) -> Result<(), SyntaxError> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return self.expected("a name in quotes");
        }
        self.string()?;
        if self.next_token() != Some(b':') {
            return self.expected("`:`");
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &'static str, shape: Shape) -> Result<(), SyntaxError> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word.as_bytes()) {
            return self.expected("a value");
        }
        self.push(self.at, end, shape);
        self.at = end;
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.push(start, self.at, Shape::Number);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if self.at == start { self.expected("a digit") } else { Ok(()) }
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut shape = Shape::Text;
        self.at += 1;
        loop {
            self.skip_plain();
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    self.push(start, self.at, shape);
                    return Ok(());
                }
                Some(b'\\') => {
                    shape = Shape::EscapedText;
                    self.escape()?;
                }
                _ => return self.expected("the end of a string"),
            }
        }
    }

    /// Passes over bytes that mean themselves inside a string, eight at a time: most of a request is such text.
    fn skip_plain(&mut self) {
        const ONES: u64 = u64::from_le_bytes([1; 8]);
        const HIGHS: u64 = ONES << 7;
        while let Some(eight) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*eight);
            let (quote, backslash) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
            // The classic test for a zero byte, and for a byte below 0x20; the lowest mark is always right.
            let marks = (quote.wrapping_sub(ONES) & !quote
                | backslash.wrapping_sub(ONES) & !backslash
                | word.wrapping_sub(ONES * 0x20) & !word)
                & HIGHS;
            if marks != 0 {
                self.at += marks.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
        while let Some(byte) = self.bytes.get(self.at) {
            if *byte < 0x20 || *byte == b'"' || *byte == b'\\' {
                return;
            }
            self.at += 1;
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let Some(first) = hex4(self.bytes, self.at + 2) else { return self.expected("four hex digits") };
                self.at += 6;
                match first {
                    0xD800..=0xDBFF => {
                        let follows = self.bytes.get(self.at..self.at + 2) == Some(b"\\u");
                        let second = hex4(self.bytes, self.at + 2);
                        if !follows || !matches!(second, Some(0xDC00..=0xDFFF)) {
                            return self.expected("the second half of a surrogate pair");
                        }
                        self.at += 6;
                        Ok(())
                    }
                    0xDC00..=0xDFFF => self.expected("the first half of a surrogate pair"),
                    _ => Ok(()),
                }
            }
            _ => self.expected("an escape such as `\\n`"),
        }
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
