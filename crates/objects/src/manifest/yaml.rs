//! YAML as values, the way kubectl takes it: YAML 1.1's words for yes and no, octal numbers, merge keys.
//!
//! A check must not admit what kubectl would read otherwise, so what the two readers could take differently is refused, with
//! what to write instead: line breaks that only YAML 1.1 knows, merge keys whose order matters, tags beyond JSON's types.
//! Conversely, what kubectl takes beyond the specification is read: see `indented`.
//!
//! A reader of our own rather than a general one for serde, because it is all that is needed, it costs a tenth of the page's
//! module instead of a third, and it says where something is wrong in words for people who write YAML. The tests hold it
//! against serde-saphyr.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span, StrInput, StructureStyle, Tag};
use serde_json::{Map, Number, Value};

/// A problem, and how many lines into the text it is.
pub type Problem = (usize, String);

/// The core reads JSON nested this deep.
const DEEPEST: usize = 120;

/// The bytes that may be read again for one text: a manifest has few such lines, and the cost stays bounded.
const MAX_BYTES_READ_AGAIN: usize = 1 << 25;

/// No manifest is indented further.
const MAX_INDENTATION: usize = 1000;

/// The value of a text with one document; `Null` for none. Its aliases may make of it at most `largest` values, and texts
/// of twice as many bytes; its anchors may keep as much again.
pub fn read(text: &str, largest: usize) -> Result<Value, Problem> {
    refuse_other_line_breaks(text)?;
    let (mut text, mut left) = (Cow::Borrowed(text), MAX_BYTES_READ_AGAIN);
    loop {
        let (read, unindented) = read_strictly(&text, largest);
        let (Some(line), Some(rest)) = (unindented, left.checked_sub(text.len())) else { return read };
        let indented = indented(&text, line);
        if indented.len() == text.len() {
            return read;
        }
        (text, left) = (indented.into(), rest);
    }
}

/// Options of the parser: comments are skipped, however many there are.
pub fn options() -> granit_parser::Options {
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    options
}

/// YAML 1.1, and so kubectl, ends a line at these characters, also a comment's; YAML 1.2 and most editors do not.
fn refuse_other_line_breaks(text: &str) -> Result<(), Problem> {
    if let Some(position) = text.find("\r\r") {
        let line = text.get(..position).unwrap_or_default().matches('\n').count();
        return Err((line, "two carriage returns: kubectl counts them as one line break less; remove one".to_owned()));
    }
    let Some(position) = text.find(['\u{85}', '\u{2028}', '\u{2029}']) else { return Ok(()) };
    let code = text.get(position..).and_then(|rest| rest.chars().next()).map_or(0, u32::from);
    let line = text.get(..position).unwrap_or_default().matches('\n').count();
    let escape = if code == 0x85 { "\\x85".to_owned() } else { format!("\\u{code:04x}") };
    Err((line, format!("U+{code:04X} ends a line for kubectl: write `{escape}` in double quotes, or remove it")))
}

/// Reads a text by the rules of YAML 1.2; also the line of a quoted scalar that these want indented more, from 0.
fn read_strictly(text: &str, largest: usize) -> (Result<Value, Problem>, Option<usize>) {
    let mut reader = YamlReader {
        parser: Parser::new_from_str_with_options(text, options()),
        anchors: HashMap::new(),
        size: YamlSize::default(),
        kept: YamlSize::default(),
        largest: YamlSize { values: largest, bytes: largest.saturating_mul(2) },
        unindented: None,
        flows: 0,
    };
    (reader.document(), reader.unindented)
}

/// Indents the lines from the given one, which begins inside a quoted text, to the first that can end it.
///
/// In a block, YAML 1.2 wants each further line of a quoted text indented more than the block. Go's reader, and so kubectl,
/// does not, and generated manifests make use of it. Blanks at the begin of such a line are not part of the text, so the line
/// is read again with enough of them.
fn indented(text: &str, first: usize) -> String {
    let indentation = |line: &str| line.bytes().take_while(|byte| *byte == b' ').count();
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

struct YamlReader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// The anchored values, with their sizes.
    anchors: HashMap<usize, (Value, YamlSize)>,
    /// The size of everything read so far.
    size: YamlSize,
    /// The size of all anchored values: those of nested anchors are kept once for each.
    kept: YamlSize,
    largest: YamlSize,
    /// The line of a quoted scalar that is not indented enough, from 0.
    unindented: Option<usize>,
    /// The number of flow collections, in brackets or braces, that are open.
    flows: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct YamlSize {
    values: usize,
    bytes: usize,
}

impl YamlSize {
    /// Adds another size; false if that is more than the largest.
    fn grow(&mut self, by: Self, largest: Self) -> bool {
        self.values = self.values.saturating_add(by.values);
        self.bytes = self.bytes.saturating_add(by.bytes);
        self.values <= largest.values && self.bytes <= largest.bytes
    }
}

impl<'t> YamlReader<'t> {
    fn document(&mut self) -> Result<Value, Problem> {
        let mut value = Value::Null;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd | Event::StreamEnd => {}
                first => value = self.value(first, span, 0)?,
            }
        }
        Ok(value)
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Problem> {
        self.parser.next_event().transpose().map_err(|error| {
            let line = error.marker().line().saturating_sub(1);
            if *error.kind() == ErrorKind::InvalidQuotedScalarIndent {
                self.unindented = Some(line);
            }
            let text = error.to_string();
            // Its place in the document; the caller knows the line in the file.
            let end = [" at char ", " at line "].iter().filter_map(|place| text.rfind(place)).min();
            let text = end.and_then(|end| text.get(..end)).unwrap_or(&text);
            (line, text.split_whitespace().collect::<Vec<_>>().join(" "))
        })
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
                self.allow_in_flow(&text, style, span)?;
                scalar(text, style, tag.as_deref()).map_err(|text| problem(span, text))?
            }
            Event::SequenceStart(style, _, tag) => {
                allow_tag(tag.as_deref(), "seq", span)?;
                self.grow(1, 0, span)?;
                Value::Array(self.within(style, |reader| reader.sequence(depth))?)
            }
            Event::MappingStart(style, _, tag) => {
                allow_tag(tag.as_deref(), "map", span)?;
                self.grow(1, 0, span)?;
                Value::Object(self.within(style, |reader| reader.mapping(depth))?)
            }
            _ => return Err(problem(span, "a value is expected here".to_owned())),
        };
        if let Some(anchor) = anchor {
            let size = YamlSize { values: self.size.values - before.values, bytes: self.size.bytes - before.bytes };
            if !self.kept.grow(size, self.largest) {
                return Err(problem(span, "anchors nested too deep for their size".to_owned()));
            }
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok(value)
    }

    /// Reads a collection, and knows meanwhile if it is one in brackets or braces.
    fn within<T>(
        &mut self,
        style: StructureStyle,
        read: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let flow = usize::from(style == StructureStyle::Flow);
        self.flows += flow;
        let collection = read(self)?;
        self.flows -= flow;
        Ok(collection)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Value>, Problem> {
        let mut items = Vec::new();
        loop {
            match self.expected()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.value(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        let mut merged: Option<Vec<Map<String, Value>>> = None;
        loop {
            let (event, span) = self.expected()?;
            let (key, is_plain) = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, _, tag) => {
                    self.grow(0, text.len(), span)?;
                    self.allow_in_flow(&text, style, span)?;
                    allow_tag(tag.as_deref(), "str", span)?;
                    let is_plain = style == ScalarStyle::Plain && tag.is_none();
                    let key = if is_plain { plain_key(text) } else { Ok(text.into_owned()) };
                    (key.map_err(|text| problem(span, text))?, is_plain)
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
                // kubectl reads in order, so a later `<<` replaces what stands before it.
                if merged.is_some() || !fields.is_empty() {
                    return Err(problem(span, "`<<` must be the first key of its mapping, once".to_owned()));
                }
                let wrong = || problem(value_span, "`<<` takes a mapping, or a list of mappings".to_owned());
                merged = Some(mappings(value).ok_or_else(wrong)?);
            } else if fields.contains_key(&key) {
                let text = format!("duplicate key `{key}`, of which kubectl would take the last: remove one");
                return Err(problem(span, text));
            } else {
                fields.insert(key, value);
            }
        }
        // The mapping's own fields have precedence, then those of the first merged mapping.
        for (key, value) in merged.into_iter().flatten().flatten() {
            fields.entry(key).or_insert(value);
        }
        Ok(fields)
    }

    /// Refuses what kubectl's reader takes for a mark where brackets or braces are open: `{?kind: Pod}` is `kind: Pod` to it.
    fn allow_in_flow(&self, text: &str, style: ScalarStyle, span: Span) -> Result<(), Problem> {
        let is_mark = text.starts_with(['?', ':']) || text.ends_with(':');
        if self.flows > 0 && style == ScalarStyle::Plain && is_mark {
            return Err(problem(span, format!("kubectl reads `{text}` otherwise in brackets and braces: quote it")));
        }
        Ok(())
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
        if !self.size.grow(YamlSize { values, bytes }, self.largest) {
            return Err(problem(span, "too large after expanding aliases".to_owned()));
        }
        Ok(())
    }
}

/// One line, whatever a key or a tag in it says.
fn problem(span: Span, text: String) -> Problem {
    (span.start.line().saturating_sub(1), text.replace(char::is_control, " "))
}

fn mappings(value: Value) -> Option<Vec<Map<String, Value>>> {
    let items = if let Value::Array(items) = value { items } else { vec![value] };
    let mapping = |item| if let Value::Object(fields) = item { Some(fields) } else { None };
    items.into_iter().map(mapping).collect()
}

/// The handle of YAML's own tags, such as `!!str`.
const OWN: &str = "tag:yaml.org,2002:";

/// Refuses a tag other than the given one of YAML's own.
fn allow_tag(tag: Option<&Tag>, allowed: &str, span: Span) -> Result<(), Problem> {
    match tag {
        Some(tag) if tag.handle() != OWN || tag.suffix() != allowed => Err(problem(span, foreign(tag))),
        _ => Ok(()),
    }
}

fn foreign(tag: &Tag) -> String {
    let handle = if tag.handle() == OWN { "!!" } else { tag.handle() };
    format!("tag {handle}{}: kubectl could read it otherwise; write the value without it", tag.suffix())
}

/// A plain key that is a boolean becomes `true` or `false`, such as the `on` of workflows. A number becomes text in Go's way, which
/// is not always how it is written.
fn plain_key(text: Cow<'_, str>) -> Result<String, String> {
    let Some(value) = resolved(&text)? else { return Ok(text.into_owned()) };
    let printed = value.to_string();
    if value.is_null() {
        Err("a key must be text".to_owned())
    } else if value.is_boolean() || (printed == text && !value.is_f64()) {
        Ok(printed)
    } else {
        Err(format!("kubectl reads the key `{text}` as a number, which it prints its own way: quote it"))
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    match tag.filter(|tag| tag.handle() == OWN).map(Tag::suffix) {
        Some("str") => Ok(Value::String(text.into_owned())),
        Some("null") => Ok(Value::Null),
        Some(kind @ ("bool" | "int" | "float")) => match (kind, resolved(&text)?) {
            ("bool", Some(value @ Value::Bool(_))) => Ok(value),
            ("int", Some(value @ Value::Number(_))) => Ok(value),
            ("float", Some(Value::Number(number))) => Ok(number.as_f64().map_or(Value::Null, Value::from)),
            _ => Err(format!("`{text}` is not of the kind !!{kind}")),
        },
        _ => match tag {
            // `!` asks for text.
            Some(tag) if tag.handle().is_empty() && tag.suffix() == "!" => Ok(Value::String(text.into_owned())),
            Some(tag) => Err(foreign(tag)),
            None if style == ScalarStyle::Plain => {
                Ok(resolved(&text)?.unwrap_or_else(|| Value::String(text.into_owned())))
            }
            None => Ok(Value::String(text.into_owned())),
        },
    }
}

/// The value of a plain scalar that is not text.
fn resolved(text: &str) -> Result<Option<Value>, String> {
    // In lower case, in upper case, or with a first letter in upper case.
    let is = |words: [&str; 4]| {
        words.iter().any(|word| text.eq_ignore_ascii_case(word))
            && (text.chars().skip(1).all(|letter| letter.is_ascii_lowercase())
                || text.chars().all(|letter| letter.is_ascii_uppercase()))
    };
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
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
    let ungrouped = text.replace('_', "");
    match ungrouped.parse::<f64>() {
        Ok(_) if is_decimal && ungrouped != text => Err(format!("`{text}` is a number for kubectl: quote it")),
        // It leaves out underscores wherever they stand, as in `0x_40`.
        Err(_) if ungrouped != text && integer(ungrouped.trim_start_matches(['+', '-'])).is_some() => {
            Err(format!("`{text}` is a number for kubectl: quote it"))
        }
        // One that is too large is a text, as for kubectl.
        Ok(float) if is_decimal => Ok(Number::from_f64(float)),
        _ if is_named => Err(format!("`{text}` is not a valid number")),
        _ => Ok(None),
    }
}

/// A whole number without its sign: `12`, `1_000`, `0x1f`, `0o17`, `0b11`, and `017` as kubectl reads it.
fn integer(digits: &str) -> Option<u64> {
    const PREFIXES: [(&str, u32); 6] = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)];
    let prefixed = PREFIXES.iter().find_map(|(prefix, radix)| Some((*radix, digits.strip_prefix(prefix)?)));
    let (radix, digits) = match prefixed {
        Some(prefixed) => prefixed,
        None if digits.len() > 1 && digits.starts_with('0') => (8, digits.get(1..)?),
        None => (10, digits),
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
                let below = match value {
                    Value::Object(fields) if !fields.is_empty() => Some(indent + 2),
                    // As kubectl does it, a list stands below its key.
                    Value::Array(items) if !items.is_empty() => Some(indent),
                    _ => None,
                };
                text.extend([&*word(key), if below.is_some() { ":\n" } else { ": " }]);
                begin(below.unwrap_or(0), text);
                put(value, below.unwrap_or(indent), text);
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
        Value::String(string) => text.extend([&*word(string), "\n"]),
        other => text.push_str(&format!("{other}\n")),
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
        // At the begin of a line it ends a document.
        && !text.starts_with("...")
        && !text.contains(['[', ']', '{', '}', ','])
        && matches!(resolved(text), Ok(None));
    if is_bare {
        return text.into();
    }
    // JSON leaves these as they are; to kubectl they end a line.
    let quoted = Value::from(text).to_string();
    quoted.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").into()
}

#[cfg(test)]
mod tests;
