//! A JSON reader that works in place.
//!
//! One pass over the text fills a flat table of nodes; a [`Node`] is an index into it and borrows everything else from
//! the text. There are two reasons for a reader of our own. Cost: every request pays for it in executed wasm
//! instructions, and a typed or tree-building reader would spend several times our whole budget. Edits: a node knows
//! its place in the text, so a change can be spliced in and every other byte survives.
//!
//! The semantics are those of the API server's reader: of two fields with the same name the last one counts, and a
//! `null` field counts as absent.
//!
//! Reading takes time linear in the length of the text, and the table takes at most four bytes for each byte of text.

mod bytes;
mod escape;
mod table;

mod malformed;
mod scan;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::Utf8Error;

use table::{Shape, TableEntry};

pub use escape::{json_string, write_string, write_string_with};
pub use malformed::Malformed;
pub use scan::{Part, SyntaxError};

/// A parsed text, borrowed or owned, and the table of its values.
#[derive(Debug)]
pub struct Document<'t> {
    text: Cow<'t, str>,
    table: Vec<TableEntry>,
    /// The index of the outermost value.
    root: u32,
}

impl<'t> Document<'t> {
    pub fn read(text: &'t str) -> Result<Self, SyntaxError> {
        Self::of(Cow::Borrowed(text))
    }

    pub fn read_bytes(bytes: &'t [u8]) -> Result<Self, SyntaxError> {
        Self::read(str::from_utf8(bytes).map_err(not_utf8)?)
    }

    fn of(text: Cow<'t, str>) -> Result<Self, SyntaxError> {
        let table = scan::scan(&text, Part::Whole, &mut |_, _| Part::Whole)?;
        Ok(Self { text, table, root: 0 })
    }

    pub fn root(&self) -> Node<'_> {
        Node { document: self, index: self.root }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> TableEntry {
        // OK because every index comes from the table itself.
        self.table.get(index as usize).copied().unwrap_or(TableEntry::NONE)
    }
}

impl Document<'static> {
    /// Reads a text given as bytes, and keeps the bytes without copying them.
    pub fn own(bytes: Vec<u8>) -> Result<Self, SyntaxError> {
        Self::of(Cow::Owned(owned(bytes)?))
    }

    /// Reads the first item of a list, and of it the parts that `inside` chooses; none if it is empty. `inside` takes
    /// a part, first [`Part::List`], and a field's name, and returns the part that the field is. The rest is skipped at
    /// a fifth of the cost; a text that cannot be read in this way is read whole.
    pub fn own_first_item(
        bytes: Vec<u8>,
        inside: &mut dyn FnMut(Part, &str) -> Part,
    ) -> Result<Option<Self>, SyntaxError> {
        let text = owned(bytes)?;
        let table = scan::scan(&text, Part::List, inside).or_else(|_| scan::scan(&text, Part::Whole, inside))?;
        let mut list = Self { text: Cow::Owned(text), table, root: 0 };
        let item = list.root().list("items").ok().and_then(|mut items| items.next()).map(|item| item.index);
        Ok(item.map(|item| {
            list.root = item;
            list
        }))
    }
}

fn owned(bytes: Vec<u8>) -> Result<String, SyntaxError> {
    String::from_utf8(bytes).map_err(|error| not_utf8(error.utf8_error()))
}

fn not_utf8(error: Utf8Error) -> SyntaxError {
    SyntaxError::new(error.valid_up_to(), "text in UTF-8")
}

/// A value in a document.
#[derive(Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document<'d>,
    index: u32,
}

impl<'d> Node<'d> {
    #[inline(always)]
    fn entry(self) -> TableEntry {
        self.document.entry(self.index)
    }

    fn shape(self) -> Shape {
        self.entry().shape()
    }

    /// The index of the first entry after this value and all that it contains.
    fn next(self) -> u32 {
        self.entry().next(self.index)
    }

    pub fn span(self) -> Range<usize> {
        self.entry().start()..self.end()
    }

    /// The end of the value. The table does not store the end of lists and objects, because few callers need it: it
    /// follows the last value inside and the brackets after that.
    fn end(self) -> usize {
        let mut node = self;
        let mut brackets = 0;
        let mut at = loop {
            if !node.entry().is_container() {
                break node.entry().end_of_leaf();
            }
            brackets += 1;
            match node.inside().last() {
                Some(last) => node = last,
                None => break node.entry().start() + 1,
            }
        };
        for _ in 0..brackets {
            at = scan::token(self.document.text.as_bytes(), at).0 + 1;
        }
        at
    }

    /// The values that are directly inside a list or an object.
    fn inside(self) -> Items<'d> {
        let name = u32::from(self.shape() == Shape::Object);
        Items { document: self.document, next: self.index + 1 + name, end: self.next(), name }
    }

    /// The value as it is written.
    pub fn text(self) -> &'d str {
        self.document.text.get(self.span()).unwrap_or_default()
    }

    pub fn is_null(self) -> bool {
        self.entry().is_null()
    }

    /// The value, unless it is `null`: a field that is absent.
    pub fn present(self) -> Option<Self> {
        (!self.is_null()).then_some(self)
    }

    /// The field `name` of an object; absent and `null` are the same.
    pub fn get(self, name: &str) -> Result<Option<Node<'d>>, Malformed> {
        let entry = self.entry();
        if entry.shape() != Shape::Object {
            return Err(self.expected("an object"));
        }
        let document = self.document;
        let text = &*document.text;
        let (first, end) = (self.index.wrapping_add(1), entry.next(self.index));
        // Written without the iterator, because most of an evaluation's lookups happen here.
        let inside = document.table.get(first as usize..end as usize).unwrap_or_default();
        let mut rest = inside;
        let mut found = None;
        while let [key, value, after @ ..] = rest {
            if key.is(name, text) {
                found = (!value.is_null()).then_some(after.len());
            }
            rest = after;
            if value.is_container() {
                rest = inside.get(value.next(0).wrapping_sub(first) as usize..).unwrap_or_default();
            }
        }
        Ok(found.map(|left| Node { document, index: end.wrapping_sub(left as u32).wrapping_sub(1) }))
    }

    /// The value at the end of a path of field names; absent if any step is.
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

    /// The fields of an object in their order, including those that a later field of the same name replaces.
    ///
    /// `null` fields are included, because they replace too. A record read in one pass must therefore assign each field
    /// every time it occurs, and clear it where the value is `null`: [`Node::present`] and [`Node::opt_str`]
    /// return `None` for `null`. Skipping `null` fields would keep a replaced value.
    pub fn fields(self) -> Result<Fields<'d>, Malformed> {
        match self.shape() {
            Shape::Object => Ok(Fields { document: self.document, next: self.index + 1, end: self.next() }),
            _ => Err(self.expected("an object")),
        }
    }

    pub fn items(self) -> Result<Items<'d>, Malformed> {
        match self.shape() {
            Shape::List => Ok(self.inside()),
            _ => Err(self.expected("a list")),
        }
    }

    /// The values of the list in field `name`, none if it is absent.
    pub fn list(self, name: &str) -> Result<Items<'d>, Malformed> {
        match self.get(name)? {
            Some(list) => list.items(),
            None => Ok(Items { document: self.document, next: 0, end: 0, name: 0 }),
        }
    }

    /// The text of a string, unescaped.
    pub fn str(self) -> Result<Cow<'d, str>, Malformed> {
        match self.shape() {
            Shape::Text => Ok(Cow::Borrowed(self.between_quotes())),
            Shape::EscapedText => Ok(Cow::Owned(escape::unescape(self.between_quotes()))),
            _ => Err(self.expected("a string")),
        }
    }

    /// The text of a string, unescaped; none for `null`.
    pub fn opt_str(self) -> Result<Option<Cow<'d, str>>, Malformed> {
        self.present().map(Node::str).transpose()
    }

    /// The text of a string without escapes, such as a name.
    pub fn plain_str(self) -> Result<&'d str, Malformed> {
        match self.shape() {
            Shape::Text => Ok(self.between_quotes()),
            _ => Err(self.expected("a string without backslashes")),
        }
    }

    /// The string in field `name`, if there is one.
    pub fn string(self, name: &str) -> Result<Option<Cow<'d, str>>, Malformed> {
        self.get(name)?.map(Node::str).transpose()
    }

    pub fn bool(self) -> Result<bool, Malformed> {
        match self.shape() {
            Shape::True => Ok(true),
            Shape::False => Ok(false),
            _ => Err(self.expected("true or false")),
        }
    }

    pub fn integer(self) -> Result<i64, Malformed> {
        let wrong = || self.expected("a whole number");
        if self.shape() != Shape::Number {
            return Err(wrong());
        }
        let text = self.text();
        let add_digit = |number, byte: u8| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'));
        // Nearly always a count.
        let count = if text.len() < 18 { text.bytes().try_fold(0, add_digit) } else { None };
        count.map_or_else(|| text.parse().map_err(|_| wrong()), Ok)
    }

    /// A string or a number as text: Kubernetes writes quantities and ports in both ways.
    pub fn scalar(self) -> Result<Cow<'d, str>, Malformed> {
        match self.shape() {
            Shape::Number => Ok(Cow::Borrowed(self.text())),
            _ => self.str().map_err(|_| self.expected("a string or a number")),
        }
    }

    #[inline]
    fn between_quotes(self) -> &'d str {
        self.entry().between_quotes(&self.document.text)
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[derive(Debug, Clone)]
pub struct Fields<'d> {
    document: &'d Document<'d>,
    next: u32,
    end: u32,
}

impl Fields<'_> {
    /// A capacity for collecting the fields: their number, or a few more.
    pub fn room(&self) -> usize {
        const FEW: usize = 32;
        // Two entries each, if no value contains others.
        let most = (self.end.saturating_sub(self.next) / 2) as usize;
        if most <= FEW { most } else { self.clone().count() }
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
        self.next = value.next();
        Some((Key(key), value))
    }
}

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

#[derive(Debug, Clone)]
pub struct Items<'d> {
    document: &'d Document<'d>,
    next: u32,
    end: u32,
    /// The names that precede each value: one in an object.
    name: u32,
}

impl<'d> Iterator for Items<'d> {
    type Item = Node<'d>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let value = Node { document: self.document, index: self.next };
        self.next = value.next() + self.name;
        Some(value)
    }
}

#[cfg(test)]
mod tests;
