//! Sets requests and limits, and the targets of autoscalers, in manifests where they stand, and leaves every other byte alone: comments, order, quotes, line ends.
//!
//! [`yaml_spans`] says where things stand; here is decided what is put there. What cannot be edited for certain (anchors,
//! aliases, merge keys, two objects of one name) is refused with its line. After each edit the text is read again, and
//! must say what it said before and the new amounts.

pub use headroom_objects::manifest::yaml_spans;
mod verify;

mod target;

use std::fmt;

use granit_parser::ScalarStyle;
use headroom_admission::amount::{Quantity, Requirement};
use headroom_workloads::WorkloadRef;
use serde_json::Value;

pub use target::{TargetEdit, set_targets};
use yaml_spans::{Content, YamlNode};

/// Requests or limits at one place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub place: EditPlace,
    pub requirement: Requirement,
    /// Resource and amount, in the order in which they are written where there are none yet.
    pub amounts: Vec<(&'static str, Quantity)>,
}

/// The mapping that has `resources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditPlace {
    /// A container of an object, with the namespace that the file has, and the path from the object to the pod in it.
    Container { object: WorkloadRef, path: Vec<String>, name: String },
    /// These keys in the values of a chart.
    Values(Vec<String>),
}

impl fmt::Display for EditPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container { name, .. } => f.write_str(name),
            Self::Values(keys) => f.write_str(&keys.join(".")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("it cannot be read as YAML: {0}")]
    Unreadable(String),
    #[error("{kind} `{name}` is not in the file", kind = .0.kind, name = .0.name)]
    NoObject(WorkloadRef),
    #[error("{kind} `{name}` occurs twice in the file", kind = .0.kind, name = .0.name)]
    TwoObjects(WorkloadRef),
    #[error("container `{0}` is not in the file")]
    NoContainer(String),
    #[error("line {line}: {what}, so an edit would change other places too: set `{wanted}` by hand")]
    Shared { line: usize, what: &'static str, wanted: String },
    #[error("line {line}: {what} is neither a mapping nor empty")]
    NoMapping { line: usize, what: &'static str },
    #[error("cannot edit this file safely; set `{0}` by hand")]
    NotCertain(String),
}

/// The text with the edits in it; none if it says all that already.
pub fn set_amounts(text: &str, edits: &[Edit]) -> Result<Option<String>, EditError> {
    let documents = yaml_spans::documents(text).map_err(EditError::Unreadable)?;
    let mut splices = Vec::new();
    for edit in edits {
        let editor = Editor { text, edit };
        editor.container(editor.holder(&documents)?, &mut splices)?;
    }
    let wanted = edits.iter().flat_map(Edit::wanted).collect::<Vec<_>>().join("; ");
    spliced(text, splices, |edited| verify::says_the_same(text, edited, edits), wanted)
}

impl Edit {
    /// As a person would set it by hand.
    fn wanted(&self) -> Vec<String> {
        let Self { place, requirement, amounts } = self;
        let set = |(name, amount): &(&str, Quantity)| format!("{place}: {}.{name}: {amount}", requirement.field());
        match place {
            EditPlace::Container { .. } => amounts.iter().map(set).collect(),
            EditPlace::Values(_) => vec![place.to_string()],
        }
    }
}

/// True if the values of a chart have a place for amounts at these keys. A limit is only changed where they have one.
pub fn are_in_values(values: &Value, keys: &[String], requirement: Requirement, amounts: &[(&str, Quantity)]) -> bool {
    let at = keys.iter().try_fold(values, |at, key| at.get(key));
    at.filter(|at| at.is_object()).is_some_and(|at| match requirement {
        Requirement::Request => true,
        Requirement::Limit => {
            let limits = at.pointer("/resources/limits");
            amounts.iter().all(|(name, _)| limits.is_some_and(|limits| limits.get(name).is_some()))
        }
    })
}

/// The object in a text that has it once.
fn find<'n>(wanted: &WorkloadRef, documents: &'n [YamlNode]) -> Result<&'n YamlNode, EditError> {
    let is_it = |object: &&'n YamlNode| {
        let text = |node: Option<&'n YamlNode>| node.and_then(YamlNode::text).unwrap_or_default();
        let metadata = |key| object.get("metadata").and_then(|metadata| metadata.get(key));
        text(object.get("kind")) == wanted.kind
            && text(metadata("name")) == wanted.name
            && text(metadata("namespace")) == wanted.namespace
    };
    let mut found = documents.iter().flat_map(objects).filter(is_it);
    let object = found.next().ok_or_else(|| EditError::NoObject(wanted.clone()))?;
    match found.next() {
        Some(_) => Err(EditError::TwoObjects(wanted.clone())),
        None => Ok(object),
    }
}

/// A document's objects: itself, or the items of a list.
fn objects(document: &YamlNode) -> Vec<&YamlNode> {
    let is_list = document.get("kind").and_then(YamlNode::text).is_some_and(|kind| kind.ends_with("List"));
    match document.get("items").filter(|_| is_list) {
        Some(items) => items.items().iter().collect(),
        None => vec![document],
    }
}

/// A stretch of the text and what it becomes.
#[derive(Debug)]
struct Splice {
    start: usize,
    end: usize,
    text: String,
}

/// The text with the splices in it, if `is_right` says so of it; none if there are none. What cannot be edited for certain is
/// `wanted` by hand.
fn spliced(
    text: &str,
    mut splices: Vec<Splice>,
    is_right: impl FnOnce(&str) -> bool,
    wanted: String,
) -> Result<Option<String>, EditError> {
    if splices.is_empty() {
        return Ok(None);
    }
    splices.sort_by_key(|splice| splice.start);
    let mut edited = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for splice in splices {
        edited.push_str(text.get(at..splice.start).unwrap_or_default());
        edited.push_str(&splice.text);
        at = splice.end;
    }
    edited.push_str(text.get(at..).unwrap_or_default());
    if is_right(&edited) { Ok(Some(edited)) } else { Err(EditError::NotCertain(wanted)) }
}

/// Refuses what other places share; `wanted` is what a person would set.
fn refuse_shared(node: &YamlNode, wanted: impl Fn() -> String) -> Result<(), EditError> {
    let shared = |what| Err(EditError::Shared { line: node.line, what, wanted: wanted() });
    match &node.content {
        Content::Alias => shared("uses an alias"),
        _ if node.is_anchored => shared("has an anchor"),
        _ if node.entry("<<").is_some() => shared("uses a merge key"),
        _ if node.is_tagged => shared("has a tag"),
        _ => Ok(()),
    }
}

/// Inserted text: nested keys, the last with amounts.
struct Inserted<'c> {
    keys: Vec<&'static str>,
    amounts: Vec<(&'static str, &'c Quantity)>,
}

struct Editor<'t> {
    text: &'t str,
    edit: &'t Edit,
}

impl<'t> Editor<'t> {
    /// The mapping that has `resources`. Nothing on the way to it may be shared.
    fn holder<'n>(&self, documents: &'n [YamlNode]) -> Result<&'n YamlNode, EditError> {
        let place = &self.edit.place;
        match place {
            EditPlace::Container { object, path, name } => {
                let no_container = || EditError::NoContainer(name.clone());
                let mut at = find(object, documents)?;
                self.check_own(at)?;
                for key in path.iter().map(String::as_str).chain(["spec"]) {
                    at = self.child(at, key)?.ok_or_else(no_container)?;
                }
                for field in ["containers", "initContainers"] {
                    let Some(list) = self.child(at, field)? else { continue };
                    let is_it = |item: &&YamlNode| item.get("name").and_then(YamlNode::text) == Some(name);
                    if let Some(container) = list.items().iter().find(is_it) {
                        return Ok(container);
                    }
                }
                Err(no_container())
            }
            EditPlace::Values(keys) => {
                let not_there = || EditError::NotCertain(place.to_string());
                let [document] = documents else { return Err(not_there()) };
                keys.iter().try_fold(document, |at, key| {
                    refuse_shared(at, || place.to_string())?;
                    at.get(key).ok_or_else(not_there)
                })
            }
        }
    }

    /// Sets amounts where there are some, or puts in what is missing.
    fn container(&self, container: &YamlNode, splices: &mut Vec<Splice>) -> Result<(), EditError> {
        let wanted: Vec<_> = self.edit.amounts.iter().map(|(name, amount)| (*name, amount)).collect();
        let mut at = container;
        let field = self.edit.requirement.field();
        let below = [field];
        let levels: [(&'static str, &[&'static str]); 2] = [("resources", &below), (field, &[])];
        for (key, below) in levels {
            self.check_own(at)?;
            match at.entry(key) {
                None => {
                    let keys = std::iter::once(key).chain(below.iter().copied()).collect();
                    let after = match (key, self.edit.requirement) {
                        ("resources", _) => "image",
                        (_, Requirement::Request) => "limits",
                        (_, Requirement::Limit) => "requests",
                    };
                    splices.push(self.insert(at, Some(after), &Inserted { keys, amounts: wanted }));
                    return Ok(());
                }
                Some((name, value)) if value.is_nothing() => {
                    self.check_own(value)?;
                    let inserted = Inserted { keys: below.to_vec(), amounts: wanted };
                    return self.fill(at, name, value, &inserted, splices);
                }
                Some((_, value)) => {
                    self.check_own(value)?;
                    if !value.is_mapping() {
                        return Err(EditError::NoMapping { line: value.line, what: key });
                    }
                    at = value;
                }
            }
        }
        let mut missing = Vec::new();
        for (name, amount) in wanted {
            let Some(value) = at.get(name) else {
                missing.push((name, amount));
                continue;
            };
            self.check_own(value)?;
            let (text, style) = match &value.content {
                Content::Scalar { text, style } if value.end > value.start => (text, *style),
                _ => return Err(EditError::NotCertain(self.wanted())),
            };
            if !text.parse::<Quantity>().is_ok_and(|written| written == *amount) {
                let text = match style {
                    ScalarStyle::Plain => amount.to_string(),
                    ScalarStyle::SingleQuoted => format!("'{amount}'"),
                    _ => format!("\"{amount}\""),
                };
                splices.push(Splice { start: value.start, end: value.end, text });
            }
        }
        if !missing.is_empty() {
            let inserted = Inserted { keys: Vec::new(), amounts: missing };
            splices.push(self.insert(at, None, &inserted));
        }
        Ok(())
    }

    /// Puts an entry into a mapping that has entries.
    fn insert(&self, mapping: &YamlNode, after: Option<&str>, inserted: &Inserted<'_>) -> Splice {
        let entries = mapping.entries();
        let put = |at: usize, text: String| Splice { start: at, end: at, text };
        let Some((first, _)) = entries.first() else {
            return put(mapping.start + 1, inserted.flow(self.is_json(mapping)));
        };
        if mapping.is_flow() {
            let text = inserted.flow(self.is_json(mapping));
            let end = entries.last().and_then(|(key, value)| value.last_text().or(key.last_text()));
            let separator = if first.line > mapping.line {
                format!(",{}{}", self.line_end(), " ".repeat(first.column))
            } else {
                ", ".to_owned()
            };
            return put(end.unwrap_or(first.end), separator + &text);
        }
        let lines = inserted.lines(mapping.column, self.step(mapping));
        let before_first = || {
            let (indent, line_end) = (" ".repeat(mapping.column), self.line_end());
            put(first.start, format!("{}{line_end}{indent}", lines.join(line_end).trim_start()))
        };
        let text_end = |(key, value): &(YamlNode, YamlNode)| {
            if value.end == value.start && value.is_nothing() { key.last_text() } else { value.last_text() }
        };
        // CPU stands before memory, where no comment is about what follows it.
        if after.is_none() && inserted.amounts.iter().all(|(name, _)| *name == "cpu") && !self.follows_comment(first) {
            return before_first();
        }
        let preferred = after.and_then(|key| mapping.entry(key)).and_then(text_end);
        match preferred.or_else(|| entries.last().and_then(text_end)) {
            Some(end) => {
                let text = lines.iter().map(|line| format!("{}{line}", self.line_end())).collect();
                put(self.end_of_line(end), text)
            }
            None => before_first(),
        }
    }

    /// Puts something in the place of nothing: `key:`, `key: {}`, `key: null`.
    fn fill(
        &self,
        mapping: &YamlNode,
        key: &YamlNode,
        nothing: &YamlNode,
        inserted: &Inserted<'_>,
        splices: &mut Vec<Splice>,
    ) -> Result<(), EditError> {
        let uncertain = || EditError::NotCertain(self.wanted());
        let is_implicit = nothing.end <= nothing.start;
        if mapping.is_flow() {
            if is_implicit {
                return Err(uncertain());
            }
            let text = format!("{{{}}}", inserted.flow(self.is_json(mapping)));
            splices.push(Splice { start: nothing.start, end: nothing.end, text });
            return Ok(());
        }
        let colon = self.text.get(key.end..).and_then(|rest| rest.find(':')).map(|at| key.end + at + 1);
        let colon = colon.ok_or_else(uncertain)?;
        let end = if is_implicit { colon } else { nothing.end };
        if self.text.get(colon..end).is_none_or(|between| between.contains(['#', '\n'])) {
            return Err(uncertain());
        }
        splices.push(Splice { start: colon, end, text: String::new() });
        let lines = inserted.lines(mapping.column + self.step(mapping), self.step(mapping));
        let text = lines.iter().map(|line| format!("{}{line}", self.line_end())).collect();
        let at = self.end_of_line(end);
        splices.push(Splice { start: at, end: at, text });
        Ok(())
    }

    fn child<'n>(&self, node: &'n YamlNode, key: &str) -> Result<Option<&'n YamlNode>, EditError> {
        let child = node.get(key);
        child.map(|child| self.check_own(child)).transpose()?;
        Ok(child)
    }

    fn check_own(&self, node: &YamlNode) -> Result<(), EditError> {
        refuse_shared(node, || self.wanted())
    }

    /// `resources.requests` as a person would set it.
    fn wanted(&self) -> String {
        let amounts: Vec<String> = self.edit.amounts.iter().map(|(name, amount)| format!("{name}: {amount}")).collect();
        format!("resources.{}: {{{}}}", self.edit.requirement.field(), amounts.join(", "))
    }

    fn is_json(&self, mapping: &YamlNode) -> bool {
        let key = mapping.entries().first().map(|(key, _)| &key.content);
        matches!(key, Some(Content::Scalar { style: ScalarStyle::DoubleQuoted, .. }))
    }

    /// The indentation of nested keys around here.
    fn step(&self, mapping: &YamlNode) -> usize {
        let nested = mapping.entries().iter().map(|(_, value)| value).find(|value| {
            value.is_mapping() && !value.is_flow() && value.column > mapping.column && value.line > mapping.line
        });
        nested.map_or(2, |nested| nested.column - mapping.column)
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    fn end_of_line(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        at + line.strip_suffix('\r').unwrap_or(line).len()
    }

    fn follows_comment(&self, node: &YamlNode) -> bool {
        let before = self.text.get(..node.start).unwrap_or_default();
        let previous = before.rsplit_once('\n').map(|(lines, _)| lines.lines().next_back().unwrap_or_default());
        previous.is_some_and(|line| line.trim_start().starts_with('#'))
    }
}

impl Inserted<'_> {
    fn lines(&self, mut column: usize, step: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for key in &self.keys {
            lines.push(format!("{}{key}:", " ".repeat(column)));
            column += step;
        }
        for (name, amount) in &self.amounts {
            lines.push(format!("{}{name}: {}", " ".repeat(column), quoted(amount, false)));
        }
        lines
    }

    /// The text on one line, as `resources: {requests: {cpu: 100m}}`; with all names and amounts in quotes for JSON.
    fn flow(&self, is_json: bool) -> String {
        let key = |name: &str| if is_json { format!("\"{name}\"") } else { name.to_owned() };
        let amounts = self.amounts.iter().map(|(name, amount)| format!("{}: {}", key(name), quoted(amount, is_json)));
        let inner = amounts.collect::<Vec<_>>().join(", ");
        self.keys.iter().rev().fold(inner, |inner, name| format!("{}: {{{inner}}}", key(name)))
    }
}

/// In quotes, if it is in JSON, or if YAML would read it as a number.
fn quoted(amount: &Quantity, is_json: bool) -> String {
    let text = amount.to_string();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'e'));
    if is_json || is_number { format!("\"{text}\"") } else { text }
}

#[cfg(test)]
mod tests;
