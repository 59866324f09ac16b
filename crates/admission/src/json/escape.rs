//! Reads and writes JSON strings.

use super::bytes::{hex4, skip_plain};

/// The unescaped text of a checked string body.
pub(super) fn unescape(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    for piece in pieces(body) {
        match piece {
            Piece::Plain(plain) => text.push_str(plain),
            Piece::Escape(char) => text.push(char),
        }
    }
    text
}

/// True if a checked string body equals `text` when unescaped, in time that depends only on the length of `text`.
pub(super) fn unescapes_to(body: &str, text: &str) -> bool {
    // The longest escape for one byte is `\u0041`.
    if body.len() / 6 > text.len() {
        return false;
    }
    let mut rest = text;
    pieces(body).all(|piece| {
        let after = match piece {
            Piece::Plain(plain) => rest.strip_prefix(plain),
            Piece::Escape(char) => rest.strip_prefix(char),
        };
        rest = after.unwrap_or_default();
        after.is_some()
    }) && rest.is_empty()
}

enum Piece<'t> {
    Plain(&'t str),
    Escape(char),
}

fn pieces(body: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let Some(escape) = rest.strip_prefix('\\') else {
            let (plain, after) = rest.split_at_checked(rest.find('\\').unwrap_or(rest.len()))?;
            rest = after;
            return (!plain.is_empty()).then_some(Piece::Plain(plain));
        };
        let (char, length) = first_escape(escape.as_bytes());
        rest = escape.get(length..).unwrap_or_default();
        Some(Piece::Escape(char))
    })
}

/// The character of an escape, and the length of the escape without its backslash.
fn first_escape(bytes: &[u8]) -> (char, usize) {
    match bytes.first() {
        Some(b'b') => ('\u{8}', 1),
        Some(b'f') => ('\u{c}', 1),
        Some(b'n') => ('\n', 1),
        Some(b'r') => ('\r', 1),
        Some(b't') => ('\t', 1),
        Some(b'u') => {
            let first = hex4(bytes, 1).unwrap_or_default();
            let (code, length) = match (first, hex4(bytes, 7)) {
                (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
                    (0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), 11)
                }
                _ => (first, 5),
            };
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), length)
        }
        Some(other) => (char::from(*other), 1),
        None => (char::REPLACEMENT_CHARACTER, 0),
    }
}

pub fn write_string(out: &mut String, text: &str) {
    /// A text up to this length is copied before it is searched for characters to escape, which is cheaper.
    const SHORT: usize = 64;
    if text.len() <= SHORT {
        return write_string_with(out, |out| out.push_str(text));
    }
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

pub fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + text.len() / 8 + 16);
    write_string(&mut json, text);
    json
}

/// Writes the text that `write` appends as a JSON string.
pub fn write_string_with(out: &mut String, write: impl FnOnce(&mut String)) {
    out.push('"');
    let start = out.len();
    write(out);
    // Names nearly always need no escapes.
    let plain_to = skip_plain(out.as_bytes(), start);
    if plain_to < out.len() {
        let rest = out.split_off(plain_to);
        push_escaped(out, &rest);
    }
    out.push('"');
}

fn push_escaped(out: &mut String, text: &str) {
    let mut written = 0;
    let mut at = 0;
    loop {
        at = skip_plain(text.as_bytes(), at);
        out.push_str(text.get(written..at).unwrap_or_default());
        let Some(byte) = text.as_bytes().get(at) else { return };
        at += 1;
        written = at;
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                // The byte itself is written with what follows.
                written -= 1;
            }
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                out.push_str("\\u00");
                for digit in [control >> 4, control & 15] {
                    out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
                }
            }
        }
    }
}
