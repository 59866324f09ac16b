//! The table of a text's values: only eight bytes for each value and each field name, because a request pays for every
//! byte of it in memory and instructions.

use super::escape;

/// A value, or the name of a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableEntry {
    start: u32,
    /// The shape in the highest three bits. The bits below are, for a list or an object, the index of the first entry
    /// after all its contents, and for anything else its length.
    size: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    True,
    False,
    Number,
    Text,
    /// A text with at least one backslash in it.
    EscapedText,
    List,
    Object,
}

impl TableEntry {
    const SHAPE_AT: u32 = 29;
    const MAX: u32 = (1 << Self::SHAPE_AT) - 1;
    pub(super) const LONGEST_TEXT: usize = Self::MAX as usize;

    /// The entry for an index outside the table: an empty `null`.
    pub(super) const NONE: Self = Self { start: 0, size: 0 };

    /// The most entries for a text of `length` bytes: values have at least one byte and are separated by another one.
    pub(super) fn most_in(length: usize) -> usize {
        length / 2 + 1
    }

    /// A value with nothing inside it.
    #[inline(always)]
    pub(super) fn leaf(shape: Shape, start: usize, end: usize) -> Self {
        Self { start: start as u32, size: Self::size(shape, end.wrapping_sub(start)) }
    }

    /// A list or an object that is still open.
    #[inline(always)]
    pub(super) fn container(shape: Shape, start: usize) -> Self {
        Self { start: start as u32, size: Self::size(shape, 0) }
    }

    /// Closes a list or an object before the entry `next`.
    #[inline(always)]
    pub(super) fn close(&mut self, next: usize) {
        self.size |= next as u32;
    }

    #[inline(always)]
    fn size(shape: Shape, size: usize) -> u32 {
        (shape as u32) << Self::SHAPE_AT | size as u32
    }

    #[inline(always)]
    pub(super) fn shape(self) -> Shape {
        // In the order of declaration, so that this compiles to nothing.
        match self.size >> Self::SHAPE_AT {
            0 => Shape::Null,
            1 => Shape::True,
            2 => Shape::False,
            3 => Shape::Number,
            4 => Shape::Text,
            5 => Shape::EscapedText,
            6 => Shape::List,
            _ => Shape::Object,
        }
    }

    #[inline(always)]
    pub(super) fn is_container(self) -> bool {
        self.size >= Self::size(Shape::List, 0)
    }

    #[inline(always)]
    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    /// The end of a value with nothing inside it.
    #[inline(always)]
    pub(super) fn end_of_leaf(self) -> usize {
        self.start.wrapping_add(self.size & Self::MAX) as usize
    }

    #[inline(always)]
    pub(super) fn is_null(self) -> bool {
        self.shape() == Shape::Null
    }

    /// The index after this entry, which is at `index`, and after everything inside it.
    #[inline(always)]
    pub(super) fn next(self, index: u32) -> u32 {
        if self.is_container() { self.size & Self::MAX } else { index.wrapping_add(1) }
    }

    #[inline(always)]
    pub(super) fn between_quotes(self, text: &str) -> &str {
        text.get(self.start().wrapping_add(1)..self.end_of_leaf().wrapping_sub(1)).unwrap_or_default()
    }

    /// True if this field name equals `name`, escapes resolved. Does not build the text.
    #[inline(always)]
    pub(super) fn is(self, name: &str, text: &str) -> bool {
        // Shape and length together nearly always decide.
        if self.size == Self::size(Shape::Text, name.len().wrapping_add(2)) {
            let start = self.start().wrapping_add(1);
            return text.as_bytes().get(start..start.wrapping_add(name.len())) == Some(name.as_bytes());
        }
        self.size >= Self::size(Shape::EscapedText, 0) && escape::unescapes_to(self.between_quotes(text), name)
    }
}
