//! YAML as values, the way kubectl takes it: YAML 1.1's words for yes and no, octal numbers, merge keys.
//!
//! A reader of our own rather than a general one for serde, because it is all that is needed, it costs a tenth of the page's
//! module instead of a third, and it says where something is wrong in words for people who write YAML. The tests hold it
//! against serde-saphyr.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};

/// A problem, and how many lines into the text it is.
pub type Problem = (usize, String);

/// The core reads JSON nested this deep.
const DEEPEST: usize = 120;

/// The value of a text with one document; `Null` for none. Its aliases may make of it at most `largest` values, and texts
/// of twice as many bytes; its anchors may keep as much again.
pub fn read(text: &str, largest: usize) -> Result<Value, Problem> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        size: Size::default(),
        kept: Size::default(),
        largest: Size { values: largest, bytes: largest.saturating_mul(2) },
    };
    let mut value = Value::Null;
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd | Event::StreamEnd => {}
            first => value = reader.value(first, span, 0)?,
        }
    }
    Ok(value)
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// The anchored values, with their sizes.
    anchors: HashMap<usize, (Value, Size)>,
    /// The size of everything read so far.
    size: Size,
    /// The size of all anchored values: those of nested anchors are kept once for each.
    kept: Size,
    largest: Size,
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    /// Adds another size; false if that is more than the largest.
    fn grow(&mut self, by: Self, largest: Self) -> bool {
        self.values = self.values.saturating_add(by.values);
        self.bytes = self.bytes.saturating_add(by.bytes);
        self.values <= largest.values && self.bytes <= largest.bytes
    }
}

impl<'t> Reader<'t> {
    /// The next event that is not a comment.
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Problem> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(event)) => return Ok(Some(event)),
                Some(Err(error)) => {
                    let text = error.to_string();
                    // Its place in the document; the caller knows the line in the file.
                    let end = [" at char ", " at line "].iter().filter_map(|place| text.rfind(place)).min();
                    let text = end.and_then(|end| text.get(..end)).unwrap_or(&text);
                    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    return Err((error.marker().line().saturating_sub(1), text));
                }
                None => return Ok(None),
            }
        }
    }

    fn expected(&mut self) -> Result<(Event<'t>, Span), Problem> {
        self.next()?.ok_or_else(|| (0, "unexpected end of document".to_owned()))
    }

    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Value, Problem> {
        if depth > DEEPEST {
            return Err(problem(span, format!("nested more than {DEEPEST} levels deep")));
        }
        let before = self.size;
        let anchor = event.anchor_id();
        let value = match event {
            Event::Alias(anchor) => return self.alias(anchor, span),
            Event::Scalar(text, style, _, tag) => {
                self.grow(1, text.len(), span)?;
                scalar(text, style, tag.as_deref()).map_err(|text| problem(span, text))?
            }
            Event::SequenceStart(..) => {
                self.grow(1, 0, span)?;
                let mut items = Vec::new();
                loop {
                    match self.expected()? {
                        (Event::SequenceEnd, _) => break Value::Array(items),
                        (event, span) => items.push(self.value(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                self.grow(1, 0, span)?;
                Value::Object(self.mapping(depth)?)
            }
            _ => return Err(problem(span, "a value is expected here".to_owned())),
        };
        if let Some(anchor) = anchor {
            let size = Size { values: self.size.values - before.values, bytes: self.size.bytes - before.bytes };
            if !self.kept.grow(size, self.largest) {
                return Err(problem(span, "anchors nested too deep for their size".to_owned()));
            }
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        let mut merged: Vec<Map<String, Value>> = Vec::new();
        loop {
            let (event, span) = self.expected()?;
            let (key, is_plain) = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, ..) => {
                    self.grow(0, text.len(), span)?;
                    let is_plain = style == ScalarStyle::Plain;
                    if is_plain && is_null(&text) {
                        return Err(problem(span, "a key must be text".to_owned()));
                    }
                    (text.into_owned(), is_plain)
                }
                Event::Alias(anchor) => match self.alias(anchor, span)? {
                    Value::String(text) => (text, false),
                    _ => return Err(problem(span, "a key must be text".to_owned())),
                },
                _ => return Err(problem(span, "a key must be text".to_owned())),
            };
            let (event, value_span) = self.expected()?;
            let value = self.value(event, value_span, depth + 1)?;
            if is_plain && key == "<<" {
                merged
                    .extend(mappings(value).ok_or_else(|| {
                        problem(value_span, "`<<` takes a mapping, or a list of mappings".to_owned())
                    })?);
            } else if fields.insert(key.clone(), value).is_some() {
                return Err(problem(span, format!("duplicate mapping key: {key} not allowed here")));
            }
        }
        // What stands in the mapping itself counts, then the first of those that are merged.
        for (key, value) in merged.into_iter().flatten() {
            fields.entry(key).or_insert(value);
        }
        Ok(fields)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<Value, Problem> {
        let Some((value, size)) = self.anchors.get(&anchor) else {
            return Err(problem(span, "recursive alias".to_owned()));
        };
        let (value, size) = (value.clone(), *size);
        self.grow(size.values, size.bytes, span)?;
        Ok(value)
    }

    fn grow(&mut self, values: usize, bytes: usize, span: Span) -> Result<(), Problem> {
        if !self.size.grow(Size { values, bytes }, self.largest) {
            return Err(problem(span, "too large after expanding aliases".to_owned()));
        }
        Ok(())
    }
}

fn problem(span: Span, text: String) -> Problem {
    (span.start.line().saturating_sub(1), text)
}

fn mappings(value: Value) -> Option<Vec<Map<String, Value>>> {
    match value {
        Value::Object(fields) => Some(vec![fields]),
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::Object(fields) => Some(fields),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// The handle of YAML's own tags, such as `!!str`.
const OWN: &str = "tag:yaml.org,2002:";

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let own = tag.filter(|tag| tag.handle() == OWN).map(Tag::suffix);
    match (own, style) {
        (Some("str" | "binary" | "timestamp"), _) => Ok(Value::String(text.into_owned())),
        (Some("null"), _) => Ok(Value::Null),
        (Some(kind @ ("bool" | "int" | "float")), _) => match (kind, resolved(&text)?) {
            ("bool", Some(value @ Value::Bool(_))) => Ok(value),
            ("int", Some(value @ Value::Number(_))) => Ok(value),
            ("float", Some(Value::Number(number))) => Ok(number.as_f64().map_or(Value::Null, Value::from)),
            _ => Err(format!("`{text}` is not of the kind !!{kind}")),
        },
        // `!` asks for text.
        _ if tag.is_some_and(|tag| tag.handle().is_empty() && tag.suffix() == "!") => {
            Ok(Value::String(text.into_owned()))
        }
        (_, ScalarStyle::Plain) => Ok(resolved(&text)?.unwrap_or_else(|| Value::String(text.into_owned()))),
        _ => Ok(Value::String(text.into_owned())),
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// The value of a plain scalar that is not text.
fn resolved(text: &str) -> Result<Option<Value>, String> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_null(text) {
        Ok(Some(Value::Null))
    } else if is(["true", "yes", "y", "on"]) {
        Ok(Some(Value::Bool(true)))
    } else if is(["false", "no", "n", "off"]) {
        Ok(Some(Value::Bool(false)))
    } else {
        Ok(number(text)?.map(Value::Number))
    }
}

fn number(text: &str) -> Result<Option<Number>, String> {
    // Nothing else begins a number; most texts end here.
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return Ok(None);
    }
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(magnitude) = integer(digits) {
        let number = if is_negative {
            i64::try_from(-i128::from(magnitude)).ok().map(Number::from)
        } else {
            Some(Number::from(magnitude))
        };
        if number.is_some() {
            return Ok(number);
        }
    }
    let is_decimal = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.bytes().any(|byte| byte.is_ascii_digit());
    let is_named = [".inf", ".nan"].iter().any(|name| digits.eq_ignore_ascii_case(name));
    match text.parse::<f64>() {
        Ok(float) if is_decimal => {
            Number::from_f64(float).map(Some).ok_or_else(|| format!("`{text}` is too large for a number"))
        }
        _ if is_named => Err(format!("`{text}` is not a valid number")),
        _ => Ok(None),
    }
}

/// A whole number without its sign: `12`, `1_000`, `0x1f`, `0o17`, `0b11`, and `017` as kubectl reads it.
fn integer(digits: &str) -> Option<u64> {
    let prefixed = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (radix, digits) = if let Some(rest) = prefixed(["0x", "0X"]) {
        (16, rest)
    } else if let Some(rest) = prefixed(["0o", "0O"]) {
        (8, rest)
    } else if let Some(rest) = prefixed(["0b", "0B"]) {
        (2, rest)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, digits.get(1..)?)
    } else {
        (10, digits)
    };
    let is_grouped = digits.contains('_');
    if digits.is_empty() || digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let plain: Cow<'_, str> = if is_grouped { digits.replace('_', "").into() } else { digits.into() };
    u64::from_str_radix(&plain, radix).ok()
}

/// A value as a YAML document in lines, the fields of objects in the order of their names.
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    put(value, 0, &mut text);
    text
}

/// Puts a value where its line has begun already.
fn put(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    begin(indent, text);
                }
                text.push_str(&word(key));
                text.push(':');
                match value {
                    Value::Object(fields) if !fields.is_empty() => {
                        text.push('\n');
                        begin(indent + 2, text);
                        put(value, indent + 2, text);
                    }
                    // As kubectl does it, a list stands below its key.
                    Value::Array(items) if !items.is_empty() => {
                        text.push('\n');
                        begin(indent, text);
                        put(value, indent, text);
                    }
                    _ => {
                        text.push(' ');
                        put(value, indent, text);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    begin(indent, text);
                }
                text.push_str("- ");
                put(item, indent + 2, text);
            }
        }
        Value::String(string) => {
            text.push_str(&word(string));
            text.push('\n');
        }
        other => {
            text.push_str(&other.to_string());
            text.push('\n');
        }
    }
}

fn begin(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// A text as it may stand in a line: bare where it would be read as that very text, else in quotes.
fn word(text: &str) -> Cow<'_, str> {
    let is_bare = text.starts_with(|first: char| first.is_ascii_alphanumeric() || matches!(first, '/' | '.' | '_'))
        && text.chars().all(|letter| matches!(letter, ' '..='~'))
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([' ', ':'])
        && !text.contains(['[', ']', '{', '}', ','])
        && matches!(resolved(text), Ok(None));
    if is_bare { text.into() } else { Value::from(text).to_string().into() }
}

#[cfg(test)]
mod tests;
