//! Reads a section of the settings field by field, and collects all problems.

use std::borrow::Cow;

use crate::json::{Malformed, Node};
use crate::nearest::nearest;
use crate::truncate::on_one_line;

/// One object of the settings. Each field that is read is a known field; [`SettingsReader::finish`] reports the others.
pub struct SettingsReader<'p, 'd> {
    node: Node<'d>,
    path: String,
    fields_read: Vec<&'static str>,
    problems: &'p mut Vec<String>,
}

impl<'p, 'd> SettingsReader<'p, 'd> {
    pub fn new(node: Node<'d>, path: String, problems: &'p mut Vec<String>) -> Self {
        // Room for the names of the largest section, because growing costs as much as reading several of its fields.
        Self { node, path, fields_read: Vec::with_capacity(24), problems }
    }

    /// Adds a problem of field `name`; `problem` follows the path in the message. If the field could not be read, it would
    /// only follow from that.
    #[inline(never)]
    pub fn problem(&mut self, name: &str, problem: &str) {
        let place = format!("`{}", self.path_of(name));
        let is_unread = |rest: &str| rest.starts_with("` is wrong") || rest.starts_with('.');
        if !self.problems.iter().any(|known| known.strip_prefix(&place).is_some_and(is_unread)) {
            self.problems.push(format!("{place}` {problem}"));
        }
    }

    /// Adds a problem with its own path in the text.
    pub fn add(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The value of a field, read by a function that may find it malformed. Code that does not depend on that function
    /// is kept in functions of its own, as in all of this file, because copies for each setting would take tens of
    /// kilobytes.
    pub fn field<T>(&mut self, name: &'static str, read: impl FnOnce(Node<'d>) -> Result<T, Malformed>) -> Option<T> {
        match read(self.value(name)?) {
            Ok(read) => Some(read),
            Err(malformed) => self.malformed(name, &malformed),
        }
    }

    fn value(&mut self, name: &'static str) -> Option<Node<'d>> {
        self.fields_read.push(name);
        // OK to ignore a section that is not an object, because `finish` reports it.
        self.node.get(name).ok().flatten()
    }

    fn malformed<T>(&mut self, name: &str, malformed: &Malformed) -> Option<T> {
        self.problem(name, &format!("is wrong: {}", malformed.problem));
        None
    }

    pub fn lacks(&self, name: &str) -> bool {
        matches!(self.node.get(name), Ok(None))
    }

    pub fn flag(&mut self, name: &'static str, default: bool) -> bool {
        self.field(name, Node::bool).unwrap_or(default)
    }

    /// One of several words. An unquoted `off` arrives as `false`, because YAML reads it as a boolean.
    pub fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&str, T)], default: T) -> T {
        // Most settings are absent, and cost no list of words.
        let Some(value) = self.value(name) else { return default };
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let chosen = self.chosen(name, value, &words).and_then(|index| choices.get(index));
        chosen.map_or(default, |(_, meaning)| *meaning)
    }

    /// The index of a value among several words.
    fn chosen(&mut self, name: &str, value: Node<'d>, words: &[&str]) -> Option<usize> {
        let word = if value.text() == "false" { Some("off".into()) } else { value.str().ok() };
        let chosen = word.and_then(|word| words.iter().position(|choice| *choice == word));
        chosen.or_else(|| self.malformed(name, &value.expected(&in_backticks(words))))
    }

    pub fn string(&mut self, name: &'static str) -> Option<Cow<'d, str>> {
        self.field(name, Node::str)
    }

    pub fn strings(&mut self, name: &'static str) -> Vec<Cow<'d, str>> {
        self.field(name, |list| list.items()?.map(Node::str).collect()).unwrap_or_default()
    }

    /// Texts to compare with names of lower-case letters, digits and `marks`; `*` stands for any text.
    #[inline(never)]
    pub fn patterns(&mut self, name: &'static str, marks: &str) -> Vec<Cow<'d, str>> {
        let patterns = self.strings(name);
        patterns.iter().for_each(|pattern| self.expect_name(name, pattern, marks));
        patterns
    }

    /// Reports a text that no name of lower-case letters, digits and `marks` is equal to.
    #[inline(never)]
    pub fn expect_name(&mut self, name: &str, text: &str, marks: &str) {
        let is_in_names = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || marks.as_bytes().contains(&byte);
        if !text.bytes().all(is_in_names) {
            let problem =
                format!("`{text}` matches nothing: it may have only lower-case letters, digits and `{marks}`");
            self.problem(name, &problem);
        }
    }

    pub fn section<T>(&mut self, name: &'static str, read: impl FnOnce(&mut SettingsReader<'_, 'd>) -> T) -> Option<T> {
        let node = self.field(name, Ok)?;
        let path = self.path_of(name);
        let mut section = SettingsReader::new(node, path, self.problems);
        let read = read(&mut section);
        section.finish();
        Some(read)
    }

    pub fn sections<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut SettingsReader<'_, 'd>) -> T,
    ) -> Vec<T> {
        let nodes: Vec<Node<'d>> = self.field(name, |list| Ok(list.items()?.collect())).unwrap_or_default();
        let path = self.path_of(name);
        let mut sections = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.into_iter().enumerate() {
            let mut section = SettingsReader::new(node, format!("{path}[{index}]"), self.problems);
            sections.push(read(&mut section));
            section.finish();
        }
        sections
    }

    /// Reports fields that were never read.
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
            if self.fields_read.iter().any(|known| *known == name) {
                continue;
            }
            const MAX_LENGTH: usize = 80;
            let name = on_one_line(&name, MAX_LENGTH);
            let path = self.path_of(&name);
            self.problems.push(match nearest(&name, self.fields_read.iter().copied()) {
                Some(known) => format!("`{path}` is not a setting; did you mean `{known}`?"),
                None => format!("`{path}` is not a setting; valid names are {}", in_backticks(&self.fields_read)),
            });
        }
    }
}

pub(super) fn in_backticks(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
