//! Reads a section of the settings field by field, and collects everything that is wrong with it.

use std::borrow::Cow;

use crate::amount::{Quantity, read_quantity};
use crate::json::{Malformed, Node};

/// One object of the settings. Each field asked for is a known field; [`Reader::finish`] complains of the others.
pub struct Reader<'p, 'd> {
    node: Node<'d>,
    path: String,
    known: Vec<&'static str>,
    problems: &'p mut Vec<String>,
}

impl<'p, 'd> Reader<'p, 'd> {
    pub fn new(node: Node<'d>, path: String, problems: &'p mut Vec<String>) -> Self {
        Self { node, path, known: Vec::new(), problems }
    }

    /// Notes that field `name` is wrong in the way that `problem` words.
    pub fn problem(&mut self, name: &str, problem: &str) {
        let path = self.path_of(name);
        self.problems.push(format!("`{path}` {problem}"));
    }

    /// Notes a problem that names its own place.
    pub fn add(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The value of a field, to be read by a function that may find it malformed.
    pub fn field<T>(&mut self, name: &'static str, read: impl FnOnce(Node<'d>) -> Result<T, Malformed>) -> Option<T> {
        self.known.push(name);
        let value = match self.node.get(name) {
            Ok(value) => value?,
            Err(_) => return None, // OK because `finish` complains of a section that is no object.
        };
        match read(value) {
            Ok(read) => Some(read),
            Err(malformed) => {
                self.problem(name, &format!("is wrong: {}", malformed.problem));
                None
            }
        }
    }

    /// Whether a field is absent.
    pub fn lacks(&self, name: &str) -> bool {
        matches!(self.node.get(name), Ok(None))
    }

    pub fn flag(&mut self, name: &'static str, default: bool) -> bool {
        self.field(name, Node::bool).unwrap_or(default)
    }

    /// One of several words. Of YAML's own words for yes and no, an unquoted `off` reaches us as `false`.
    pub fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&str, T)], default: T) -> T {
        let chosen = self.field(name, |value| {
            let word = if value.text() == "false" { "off".into() } else { value.str()? };
            let chosen = choices.iter().find(|(choice, _)| *choice == word);
            chosen.map(|(_, meaning)| *meaning).ok_or_else(|| {
                let words: Vec<String> = choices.iter().map(|(choice, _)| format!("`{choice}`")).collect();
                value.malformed(&words.join(", "))
            })
        });
        chosen.unwrap_or(default)
    }

    pub fn string(&mut self, name: &'static str) -> Option<Cow<'d, str>> {
        self.field(name, Node::str)
    }

    pub fn strings(&mut self, name: &'static str) -> Vec<Cow<'d, str>> {
        self.field(name, |list| list.items()?.map(Node::str).collect()).unwrap_or_default()
    }

    pub fn integer(&mut self, name: &'static str) -> Option<i64> {
        self.field(name, Node::integer)
    }

    pub fn quantity(&mut self, name: &'static str) -> Option<Quantity> {
        self.field(name, read_quantity)
    }

    /// A section inside this one.
    pub fn section(&mut self, name: &'static str) -> Option<Reader<'_, 'd>> {
        let node = self.field(name, Ok)?;
        let path = self.path_of(name);
        Some(Reader::new(node, path, self.problems))
    }

    /// A list of sections.
    pub fn sections<T>(&mut self, name: &'static str, mut read: impl FnMut(&mut Reader<'_, 'd>) -> T) -> Vec<T> {
        let nodes: Vec<Node<'d>> = self.field(name, |list| Ok(list.items()?.collect())).unwrap_or_default();
        let path = self.path_of(name);
        let mut sections = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.into_iter().enumerate() {
            let mut section = Reader::new(node, format!("{path}[{index}]"), self.problems);
            sections.push(read(&mut section));
            section.finish();
        }
        sections
    }

    /// All fields with whatever names they have, for sections that are maps.
    pub fn entries(&mut self) -> Vec<(Cow<'d, str>, Node<'d>)> {
        let fields = self.node.fields().into_iter().flatten();
        fields.filter_map(|(key, value)| Some((key.str().ok()?, value))).collect()
    }

    /// Complains of fields that nothing asked for.
    pub fn finish(self) {
        let fields = match self.node.fields() {
            Ok(fields) => fields,
            Err(malformed) => {
                let place = if self.path.is_empty() { "settings" } else { &self.path };
                self.problems.push(format!("`{place}` is wrong: {}", malformed.problem));
                return;
            }
        };
        for (key, _) in fields {
            let name = key.str().unwrap_or_default();
            if self.known.iter().any(|known| *known == name) {
                continue;
            }
            let path = self.path_of(&name);
            self.problems.push(match nearest(&name, &self.known) {
                Some(known) => format!("`{path}` is not a setting; did you mean `{known}`?"),
                None => format!("`{path}` is not a setting; known here are {}", in_backticks(&self.known)),
            });
        }
    }
}

pub(super) fn in_backticks(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The known name that is closest to a mistyped one, if any is close.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let closest = known.iter().map(|known| (distance(name, known), *known)).min()?;
    (closest.0 <= 1 + name.len() / 3).then_some(closest.1)
}

/// Edit distance, upper and lower case alike.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_ascii_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, in_a) in a.to_ascii_lowercase().chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (in_b, above) in b.iter().zip(row.iter_mut().skip(1)) {
            let cost = (diagonal + usize::from(in_a != *in_b)).min(left + 1).min(*above + 1);
            diagonal = std::mem::replace(above, cost);
            left = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
