//! Lists in messages, cut to what a client can show: the first few, and how many more there are.

use std::fmt;

/// So many are named; nobody reads more in one message.
const MOST: usize = 20;

/// Texts for a message, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    first: Vec<String>,
    more: usize,
}

impl Names {
    pub fn of(texts: &[impl AsRef<str>]) -> Self {
        let mut names = Self::default();
        texts.iter().for_each(|text| names.add_with(|| text.as_ref().to_owned()));
        names
    }

    /// Adds a text, which is only made if there is room for it.
    pub fn add_with(&mut self, text: impl FnOnce() -> String) {
        if self.first.len() < MOST { self.first.push(shortened(text())) } else { self.more += 1 }
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// `a,b,c` or, of more than can be shown, `a,b,c and 4998 more`.
    pub fn joined<'n>(&'n self, separator: &'n str) -> impl fmt::Display + 'n {
        fmt::from_fn(move |f| {
            for (index, name) in self.first.iter().enumerate() {
                f.write_str(if index > 0 { separator } else { "" })?;
                f.write_str(name)?;
            }
            if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
        })
    }
}

/// No name of Kubernetes' is longer; what is longer was never one.
const LONGEST: usize = 600;

/// A text cut to a length that any name has.
pub fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        let mut end = LONGEST;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}
