//! Lists in messages, cut to what a client can show: the first few, and the number of the others.

use std::borrow::Cow;
use std::fmt;

/// At most this many are named, so that a message stays readable.
const MAX: usize = 20;

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

    /// Adds a text, which is only built if there is room for it.
    pub fn add_with(&mut self, text: impl FnOnce() -> String) {
        if self.first.len() < MAX { self.first.push(shortened(&text()).into_owned()) } else { self.more += 1 }
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// `a,b,c`, or `a,b,c and 4998 more` if there are more than can be shown.
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

/// `1 pod`, `2 pods`
pub fn count_of(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// No name in Kubernetes has more characters.
const LONGEST_NAME: usize = 320;

/// A name for a message: on one line, and cut to the longest valid name.
pub fn shortened(name: &str) -> Cow<'_, str> {
    let is_name = name.len() <= LONGEST_NAME && !name.bytes().any(|byte| byte.is_ascii_control());
    if is_name { Cow::Borrowed(name) } else { Cow::Owned(on_one_line(name, LONGEST_NAME)) }
}

/// The first characters of a text, on one line.
pub fn on_one_line(text: &str, longest: usize) -> String {
    let mut chars = text.chars();
    let mut short: String =
        chars.by_ref().take(longest).map(|char| if char.is_control() { ' ' } else { char }).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}
