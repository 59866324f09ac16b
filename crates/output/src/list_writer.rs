//! A `List` of Kubernetes objects that is written object by object, because a large cluster has gigabytes of them. As in a
//! [`Page`](super::Page), what is hidden in a text is escaped.

use std::io::{self, Write};

use serde::Serialize;

use super::page::{escaped, yaml};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Indented, for people.
    Json,
    /// For programs: half as long.
    CompactJson,
    Yaml,
}

#[derive(Debug)]
pub struct ListWriter<W> {
    to: W,
    form: Form,
    objects: u64,
    /// The first failure, after which nothing is written.
    failed: Option<anyhow::Error>,
}

impl<W: Write> ListWriter<W> {
    /// Nothing is written before the first object.
    pub fn new(to: W, form: Form) -> Self {
        Self { to, form, objects: 0, failed: None }
    }

    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Adds an object. [`Self::finish`] returns the first failure.
    pub fn add(&mut self, object: &impl Serialize) {
        if self.failed.is_none() {
            self.failed = self.write(object).err();
        }
        self.objects += 1;
    }

    fn write(&mut self, object: &impl Serialize) -> anyhow::Result<()> {
        let before = match (self.form, self.objects) {
            (Form::Json, 0) => "{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n    ",
            (Form::Json, _) => ",\n    ",
            (Form::CompactJson, 0) => r#"{"apiVersion":"v1","items":["#,
            (Form::CompactJson, _) => ",",
            (Form::Yaml, 0) => "apiVersion: v1\nitems:\n",
            (Form::Yaml, _) => "",
        };
        self.put(before)?;
        let item = Item(&mut self.to);
        match self.form {
            Form::Json => serde_json::to_writer_pretty(item, object).map_err(io::Error::from)?,
            Form::CompactJson => serde_json::to_writer(item, object).map_err(io::Error::from)?,
            Form::Yaml => self.put(&yaml(&[object])?)?,
        }
        Ok(())
    }

    fn put(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.to.write_all(text.as_bytes())?)
    }

    /// Writes the end of a list with at least one object.
    pub fn finish(mut self) -> anyhow::Result<W> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.put(match self.form {
            Form::Json => "\n  ],\n  \"kind\": \"List\",\n  \"metadata\": {}\n}\n",
            Form::CompactJson => r#"],"kind":"List","metadata":{}}"#,
            Form::Yaml => "kind: List\nmetadata: {}\n",
        })?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// JSON as an item of a list, while serde_json writes it: a text comes in one piece, or up to what JSON itself escapes. A string in it
/// has no line ends of its own.
struct Item<'w, W>(&'w mut W);

impl<W: Write> Write for Item<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'#') {
            self.0.write_all(bytes)?;
        } else {
            let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
            self.0.write_all(escaped(text.to_owned()).replace('\n', "\n    ").as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// True if the reader of a pipe has seen enough (`| head`), which is no failure.
pub fn is_enough(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::page::Page;

    #[test]
    fn a_list_reads_as_if_it_had_been_written_whole() {
        let hostile = "a\u{9b}2K\u{202e}\n::add-mask::c ##[x]";
        let items = json!([{"kind": "Pod", "a": [], "b": {"c": [1, hostile]}}, {"kind": "Pod"}, {"kind": "Snapshot"}]);
        let whole = json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {}});
        let written = |form| {
            let mut list = ListWriter::new(Vec::new(), form);
            items.as_array().unwrap().iter().for_each(|item| list.add(item));
            assert_eq!(list.objects(), 3);
            String::from_utf8(list.finish().unwrap()).unwrap()
        };
        assert_eq!(written(Form::Json), Page::json(&whole).unwrap().to_string());
        assert_eq!(written(Form::CompactJson), escaped(whole.to_string()));
        let yaml = written(Form::Yaml);
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), whole, "{yaml}");
        assert!(!yaml.contains(['\u{9b}', '\u{202e}']) && yaml.lines().all(|line| !line.starts_with("::")), "{yaml}");
    }

    #[test]
    fn a_failure_is_reported_at_the_end() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut list = ListWriter::new(writer, Form::Json);
        list.add(&1);
        list.add(&2);
        assert!(is_enough(&list.finish().unwrap_err()));
    }
}
