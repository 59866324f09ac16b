//! Errors about values: a path and an excerpt, both short for any text.

use std::fmt;

use super::Node;
use super::table::Shape;
use crate::cut::on_one_line;

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

impl Node<'_> {
    /// The error that this value is not what was expected here.
    pub fn malformed(self, expected: &str) -> Malformed {
        self.wrong(format!("expected {expected}, found `{}`", self.excerpt()))
    }

    /// The error that this value's text is wrong, as the reader of such texts says.
    pub fn malformed_as(self, error: &impl fmt::Display) -> Malformed {
        self.wrong(format!("{error}, found `{}`", self.excerpt()))
    }

    /// The error that this value is wrong in a way that `problem` words.
    pub fn wrong(self, problem: impl Into<String>) -> Malformed {
        Malformed { path: self.path(), problem: problem.into() }
    }

    /// The beginning of the value as it is written.
    fn excerpt(self) -> String {
        const LONGEST: usize = 40;
        on_one_line(self.text(), LONGEST)
    }

    /// The place of the value, such as `spec.containers[1].image`. Only errors ask, so it is searched for
    /// rather than kept.
    pub fn path(self) -> String {
        const LONGEST: usize = 400;
        let mut path = String::new();
        let mut node = self.document.root();
        while node.index != self.index {
            if path.len() > LONGEST {
                path.push('…');
                break;
            }
            let found = node.inside().enumerate().find(|(_, value)| value.holds(self));
            let Some((position, value)) = found else { break };
            match node.shape() {
                // The name of a field precedes its value.
                Shape::Object => push_field(&mut path, Node { index: value.index - 1, ..value }),
                _ => path.push_str(&format!("[{position}]")),
            }
            node = value;
        }
        path
    }

    fn holds(self, other: Node<'_>) -> bool {
        (self.index..self.next()).contains(&other.index)
    }
}

/// Adds a field to a path: `.name`, or `[name]` where a dot inside the name would mislead.
fn push_field(path: &mut String, name: Node<'_>) {
    const LONGEST: usize = 80;
    let name = on_one_line(&name.str().unwrap_or_default(), LONGEST);
    if name.contains(['.', '/', '[', ' ']) {
        path.push('[');
        path.push_str(&name);
        path.push(']');
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&name);
    }
}
