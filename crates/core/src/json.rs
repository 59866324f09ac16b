//! JSON, read where it lies.
//!
//! One pass over the text fills a flat table of nodes; a [`Node`] is an index into it and borrows everything
//! else from the text. There are two reasons for a reader of our own. Cost: every request pays for it in executed
//! wasm instructions, and a typed or tree-building reader spends several times our whole budget here. Edits: a
//! node knows where it stands in the text, so a change can be spliced in and every other byte survives.
//!
//! Meaning follows the API server's reader: of two fields with one name the last counts, and a field that is
//! `null` is a field that is absent.

mod scan;
mod utf8;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::Utf8Error;

pub use scan::SyntaxError;

/// A text read once, borrowed or owned, and the table of its values.
#[derive(Debug)]
pub struct Document<'t> {
    text: Cow<'t, str>,
    /// In reading order: a value, then all that it contains. In an object, names and values take turns.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    end: u32,
    /// The first entry after this value and all that it contains.
    next: u32,
    shape: Shape,
}

/// What a value looks like in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Null,
    True,
    False,
    Number,
    Text,
    /// A text with at least one backslash in it.
    EscapedText,
    List,
    Object,
    /// `metadata.managedFields`, passed over unread.
    Opaque,
}

impl<'t> Document<'t> {
    /// Reads a whole text.
    pub fn read(text: &'t str) -> Result<Self, SyntaxError> {
        Self::of(Cow::Borrowed(text))
    }

    /// Reads a text that came as bytes.
    pub fn read_bytes(bytes: &'t [u8]) -> Result<Self, SyntaxError> {
        Self::read(utf8::text_of(bytes).map_err(not_utf8)?)
    }

    fn of(text: Cow<'t, str>) -> Result<Self, SyntaxError> {
        let entries = scan::scan(&text)?;
        Ok(Self { text, entries })
    }

    /// The outermost value.
    pub fn root(&self) -> Node<'_> {
        Node { document: self, index: 0 }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> &Entry {
        // OK because an index always comes from the table itself; the fallback is never read.
        const NONE: &Entry = &Entry { start: 0, end: 0, next: u32::MAX, shape: Shape::Null };
        self.entries.get(index as usize).unwrap_or(NONE)
    }
}

impl Document<'static> {
    /// Reads a text that came as bytes, and keeps them: a document that borrows from nothing else.
    pub fn own(bytes: Vec<u8>) -> Result<Self, SyntaxError> {
        Self::of(Cow::Owned(utf8::string_of(bytes).map_err(not_utf8)?))
    }
}

fn not_utf8(error: Utf8Error) -> SyntaxError {
    SyntaxError::new(error.valid_up_to(), "text in UTF-8")
}

impl Entry {
    /// Whether it is a string that stands for `name`, without building that in the ordinary case.
    #[inline(always)]
    fn is(&self, name: &str, text: &str) -> bool {
        let (start, end) = (self.start as usize, self.end as usize);
        match self.shape {
            // The length decides in nearly all cases, so it is looked at first.
            Shape::Text if end.wrapping_sub(start) == name.len().wrapping_add(2) => {
                text.as_bytes().get(start.wrapping_add(1)..end.wrapping_sub(1)) == Some(name.as_bytes())
            }
            Shape::EscapedText => scan::unescape(text.get(start + 1..end - 1).unwrap_or_default()) == name,
            _ => false,
        }
    }
}

/// A value in a document.
#[derive(Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document<'d>,
    index: u32,
}

impl<'d> Node<'d> {
    #[inline(always)]
    fn entry(self) -> &'d Entry {
        self.document.entry(self.index)
    }

    /// Where the value stands in the document's text.
    pub fn span(self) -> Range<usize> {
        let entry = self.entry();
        entry.start as usize..entry.end as usize
    }

    /// The value as it is written.
    pub fn text(self) -> &'d str {
        self.document.text.get(self.span()).unwrap_or_default()
    }

    pub fn is_null(self) -> bool {
        self.entry().shape == Shape::Null
    }

    /// The field `name` of an object; absent and `null` are the same.
    pub fn get(self, name: &str) -> Result<Option<Node<'d>>, Malformed> {
        let mut found = None;
        let Fields { document, mut next, end } = self.fields()?;
        let text = &*document.text;
        let entries = document.entries.get(..end as usize).unwrap_or_default();
        // As the iterator does, but most of a judgement's reading happens here.
        while let Some([key, value]) = entries.get(next as usize..).and_then(|rest| rest.first_chunk()) {
            if key.is(name, text) {
                found = Some(Node { document, index: next.wrapping_add(1) });
            }
            next = value.next;
        }
        Ok(found.filter(|value| !value.is_null()))
    }

    /// The value at the end of a path of field names, absent if any step is.
    pub fn at(self, path: &[&str]) -> Result<Option<Node<'d>>, Malformed> {
        let mut node = self;
        for name in path {
            match node.get(name)? {
                Some(next) => node = next,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// The fields of an object in the order they are written, `null` ones too.
    pub fn fields(self) -> Result<Fields<'d>, Malformed> {
        match self.entry().shape {
            Shape::Object => Ok(Fields { document: self.document, next: self.index + 1, end: self.entry().next }),
            _ => Err(self.malformed("an object")),
        }
    }

    /// The values of a list.
    pub fn items(self) -> Result<Items<'d>, Malformed> {
        match self.entry().shape {
            Shape::List => Ok(Items { document: self.document, next: self.index + 1, end: self.entry().next }),
            _ => Err(self.malformed("a list")),
        }
    }

    /// The values of the list in field `name`, none if it is absent.
    pub fn list(self, name: &str) -> Result<Items<'d>, Malformed> {
        match self.get(name)? {
            Some(list) => list.items(),
            None => Ok(Items { document: self.document, next: 0, end: 0 }),
        }
    }

    /// The text that a string stands for.
    pub fn str(self) -> Result<Cow<'d, str>, Malformed> {
        match self.entry().shape {
            Shape::Text => Ok(Cow::Borrowed(self.between_quotes())),
            Shape::EscapedText => Ok(Cow::Owned(scan::unescape(self.between_quotes()))),
            _ => Err(self.malformed("a string")),
        }
    }

    /// A string that stands for itself, without escapes: a name of something, which needs none.
    pub fn plain_str(self) -> Result<&'d str, Malformed> {
        match self.entry().shape {
            Shape::Text => Ok(self.between_quotes()),
            _ => Err(self.malformed("a string without backslashes")),
        }
    }

    /// The string in field `name`, if there is one.
    pub fn string(self, name: &str) -> Result<Option<Cow<'d, str>>, Malformed> {
        self.get(name)?.map(Node::str).transpose()
    }

    pub fn bool(self) -> Result<bool, Malformed> {
        match self.entry().shape {
            Shape::True => Ok(true),
            Shape::False => Ok(false),
            _ => Err(self.malformed("true or false")),
        }
    }

    /// A whole number.
    pub fn integer(self) -> Result<i64, Malformed> {
        let text = self.text();
        match self.entry().shape {
            // Counts, nearly always.
            Shape::Number if text.len() < 18 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(text.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
            }
            Shape::Number => text.parse().map_err(|_| self.malformed("a whole number")),
            _ => Err(self.malformed("a whole number")),
        }
    }

    /// A string or a number, as its text: the two ways in which Kubernetes writes a quantity or a port.
    pub fn scalar(self) -> Result<Cow<'d, str>, Malformed> {
        match self.entry().shape {
            Shape::Number => Ok(Cow::Borrowed(self.text())),
            _ => self.str().map_err(|_| self.malformed("a string or a number")),
        }
    }

    #[inline]
    fn between_quotes(self) -> &'d str {
        let span = self.span();
        self.document.text.get(span.start + 1..span.end - 1).unwrap_or_default()
    }

    /// The error that this value is not what was expected here.
    pub fn malformed(self, expected: &str) -> Malformed {
        self.wrong(format!("expected {expected}, found `{}`", excerpt(self.text())))
    }

    /// The error that this value's text is wrong, as the reader of such texts says.
    pub fn malformed_as(self, error: &impl fmt::Display) -> Malformed {
        self.wrong(format!("{error}, found `{}`", excerpt(self.text())))
    }

    /// The error that this value is wrong in a way that `problem` words.
    pub fn wrong(self, problem: impl Into<String>) -> Malformed {
        Malformed { path: self.path(), problem: problem.into() }
    }

    /// The place of the value, such as `spec.containers[1].image`. Only errors ask, so it is searched for
    /// rather than kept.
    pub fn path(self) -> String {
        let mut path = String::new();
        let mut node = self.document.root();
        while node.index != self.index {
            let inside = match node.entry().shape {
                Shape::Object => node.fields().ok().and_then(|mut fields| fields.find(|(_, value)| value.holds(self))),
                Shape::List => {
                    let items = node.items().ok();
                    let found = items.and_then(|items| items.enumerate().find(|(_, value)| value.holds(self)));
                    if let Some((position, value)) = found {
                        path.push_str(&format!("[{position}]"));
                        node = value;
                        continue;
                    }
                    None
                }
                _ => None,
            };
            let Some((key, value)) = inside else { break };
            push_field(&mut path, &key.str().unwrap_or_default());
            node = value;
        }
        path
    }

    fn holds(self, other: Node<'_>) -> bool {
        (self.index..self.entry().next).contains(&other.index)
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Adds a field to a path: `.name`, or `[name]` where a dot inside the name would mislead.
fn push_field(path: &mut String, name: &str) {
    if name.contains(['.', '/', '[', ' ']) {
        path.push('[');
        path.push_str(name);
        path.push(']');
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }
}

fn excerpt(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The fields of an object.
#[derive(Debug, Clone)]
pub struct Fields<'d> {
    document: &'d Document<'d>,
    next: u32,
    end: u32,
}

impl Fields<'_> {
    /// How many they are, if none of their values contains others; else fewer.
    pub fn at_most(&self) -> usize {
        (self.end.saturating_sub(self.next) / 2) as usize
    }
}

impl<'d> Iterator for Fields<'d> {
    type Item = (Key<'d>, Node<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let key = Node { document: self.document, index: self.next };
        let value = Node { document: self.document, index: self.next + 1 };
        self.next = value.entry().next;
        Some((Key(key), value))
    }
}

/// The name of a field.
#[derive(Debug, Clone, Copy)]
pub struct Key<'d>(Node<'d>);

impl<'d> Key<'d> {
    #[inline(always)]
    pub fn is(self, name: &str) -> bool {
        self.0.entry().is(name, &self.0.document.text)
    }

    pub fn str(self) -> Result<Cow<'d, str>, Malformed> {
        self.0.str()
    }
}

/// The values of a list.
#[derive(Debug, Clone)]
pub struct Items<'d> {
    document: &'d Document<'d>,
    next: u32,
    end: u32,
}

impl<'d> Iterator for Items<'d> {
    type Item = Node<'d>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let value = Node { document: self.document, index: self.next };
        self.next = value.entry().next;
        Some(value)
    }
}

/// A value that is not what its place asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    pub path: String,
    pub problem: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, problem } = self;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(problem)
    }
}

impl std::error::Error for Malformed {}

/// Writes `text` as a JSON string.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

/// `text` as a JSON string.
pub fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + text.len() / 8 + 16);
    write_string(&mut json, text);
    json
}

/// Writes what `write` says as a JSON string.
pub fn write_string_with(out: &mut String, write: impl FnOnce(&mut String)) {
    out.push('"');
    let start = out.len();
    write(out);
    // What people and clusters call things needs no escape, nearly always.
    let plain_to = scan::skip_plain(out.as_bytes(), start);
    if plain_to < out.len() {
        let rest = out.split_off(plain_to);
        push_escaped(out, &rest);
    }
    out.push('"');
}

fn push_escaped(out: &mut String, text: &str) {
    let mut plain_from = 0;
    loop {
        let at = scan::skip_plain(text.as_bytes(), plain_from);
        out.push_str(text.get(plain_from..at).unwrap_or_default());
        match text.as_bytes().get(at) {
            None => return,
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(b'\n') => out.push_str("\\n"),
            Some(b'\r') => out.push_str("\\r"),
            Some(b'\t') => out.push_str("\\t"),
            Some(other) => out.push_str(&format!("\\u{other:04x}")),
        }
        plain_from = at + 1;
    }
}

#[cfg(test)]
mod tests;
