//! Errors about values: a path and an excerpt, both short for every text.

use std::fmt;

use super::Node;
use super::table::Shape;
use crate::truncate::on_one_line;

/// A value that is not valid in its place.
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
    pub fn expected(self, expected: &str) -> Malformed {
        self.error(format!("expected {expected}, found `{}`", self.excerpt()))
    }

    /// The error for a value whose text cannot be parsed, with the parser's error.
    pub fn expected_as(self, error: &impl fmt::Display) -> Malformed {
        self.error(format!("{error}, found `{}`", self.excerpt()))
    }

    pub fn error(self, problem: impl Into<String>) -> Malformed {
        Malformed { path: self.path(), problem: problem.into() }
    }

    fn excerpt(self) -> String {
        const MAX_LENGTH: usize = 40;
        on_one_line(self.text(), MAX_LENGTH)
    }

    /// The path of the value, such as `spec.containers[1].image`. It is searched for instead of stored, because only
    /// errors need it.
    pub fn path(self) -> String {
        const MAX_LENGTH: usize = 400;
        let mut path = String::new();
        let mut node = self.document.root();
        while node.index != self.index {
            if path.len() > MAX_LENGTH {
                path.push('…');
                break;
            }
            let found = node.inside().enumerate().find(|(_, value)| value.contains(self));
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

    fn contains(self, other: Node<'_>) -> bool {
        (self.index..self.next()).contains(&other.index)
    }
}

/// Adds a field to a path: `.name`, or `[name]` where a dot inside the name would be misleading.
fn push_field(path: &mut String, name: Node<'_>) {
    const MAX_LENGTH: usize = 80;
    let name = on_one_line(&name.str().unwrap_or_default(), MAX_LENGTH);
    if name.contains(['.', '/', '[', ' ']) {
        path.extend(["[", &name, "]"]);
    } else {
        path.extend([if path.is_empty() { "" } else { "." }, &name]);
    }
}
