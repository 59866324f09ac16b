//! Locates the parts of a YAML document in its text.
//!
//! This serves to find the place of an edit. `manifest` reads objects, and the core reads values.

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StructureStyle};

/// A part of a document.
#[derive(Debug, Clone)]
pub struct YamlNode {
    pub content: Content,
    /// In bytes.
    pub start: usize,
    pub end: usize,
    /// Its first character in its line, from 0; the first key's for a mapping.
    pub column: usize,
    /// From 1.
    pub line: usize,
    /// Other places may refer to it (`&name`).
    pub is_anchored: bool,
    pub is_tagged: bool,
}

#[derive(Debug, Clone)]
pub enum Content {
    Scalar { text: String, style: ScalarStyle },
    Mapping { is_flow: bool, entries: Vec<(YamlNode, YamlNode)> },
    Sequence { is_flow: bool, items: Vec<YamlNode> },
    Alias,
}

/// The documents of a text.
pub fn documents(text: &str) -> Result<Vec<YamlNode>, String> {
    let mut reader = SpanReader { parser: Parser::new_from_str_with_options(text, super::yaml::options()) };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd | Event::StreamEnd => {}
            first => documents.push(reader.node(first, span)?),
        }
    }
    Ok(documents)
}

struct SpanReader<'t> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
}

impl<'t> SpanReader<'t> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, String> {
        self.parser.next_event().transpose().map_err(|error| error.to_string())
    }

    fn expected(&mut self) -> Result<(Event<'t>, Span), String> {
        self.next()?.ok_or_else(|| "unexpected end of document".to_owned())
    }

    fn node(&mut self, event: Event<'t>, span: Span) -> Result<YamlNode, String> {
        let is_tagged = event.tag().is_some();
        let is_anchored = event.anchor_id().is_some();
        let (mut start, mut end) = (offset(span.start)?, offset(span.end)?);
        let mut at = span.start;
        let content = match event {
            Event::Alias(_) => Content::Alias,
            Event::Scalar(text, style, ..) => Content::Scalar { text: text.into_owned(), style },
            Event::SequenceStart(style, ..) => {
                let mut items = Vec::new();
                end = loop {
                    match self.expected()? {
                        (Event::SequenceEnd, span) => break offset(span.end)?,
                        (event, span) => items.push(self.node(event, span)?),
                    }
                };
                Content::Sequence { is_flow: style == StructureStyle::Flow, items }
            }
            Event::MappingStart(style, ..) => {
                let mut entries = Vec::new();
                end = loop {
                    match self.expected()? {
                        (Event::MappingEnd, span) => break offset(span.end)?,
                        (event, span) => {
                            if entries.is_empty() && style == StructureStyle::Block {
                                (start, at) = (offset(span.start)?, span.start);
                            }
                            let key = self.node(event, span)?;
                            let (event, span) = self.expected()?;
                            entries.push((key, self.node(event, span)?));
                        }
                    }
                };
                Content::Mapping { is_flow: style == StructureStyle::Flow, entries }
            }
            other => return Err(format!("line {}: {other:?} is not expected here", span.start.line())),
        };
        Ok(YamlNode { content, start, end, column: at.col(), line: at.line(), is_anchored, is_tagged })
    }
}

fn offset(marker: Marker) -> Result<usize, String> {
    marker.byte_offset().ok_or_else(|| format!("line {}: its place in the text is unknown", marker.line()))
}

impl YamlNode {
    pub fn entries(&self) -> &[(YamlNode, YamlNode)] {
        match &self.content {
            Content::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[YamlNode] {
        match &self.content {
            Content::Sequence { items, .. } => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// A key of a mapping with its value.
    pub fn entry(&self, key: &str) -> Option<&(YamlNode, YamlNode)> {
        self.entries().iter().find(|(have, _)| have.text() == Some(key))
    }

    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entry(key).map(|(_, value)| value)
    }

    pub fn is_mapping(&self) -> bool {
        matches!(self.content, Content::Mapping { .. })
    }

    pub fn is_flow(&self) -> bool {
        matches!(&self.content, Content::Mapping { is_flow: true, .. } | Content::Sequence { is_flow: true, .. })
    }

    /// Nothing at all, `null`, `~` or `{}`.
    pub fn is_nothing(&self) -> bool {
        match &self.content {
            Content::Scalar { text, style: ScalarStyle::Plain } => matches!(text.as_str(), "" | "~" | "null" | "Null"),
            Content::Mapping { entries, .. } => entries.is_empty(),
            _ => false,
        }
    }

    /// The end of its last text, if a line may follow there; none if that is not certain.
    pub fn last_text(&self) -> Option<usize> {
        match &self.content {
            Content::Scalar { style: ScalarStyle::Literal | ScalarStyle::Folded, .. } => None,
            Content::Scalar { .. } => (self.end > self.start).then_some(self.end),
            Content::Alias => Some(self.end),
            Content::Mapping { is_flow: true, .. } | Content::Sequence { is_flow: true, .. } => Some(self.end),
            Content::Mapping { entries, .. } => {
                let (key, value) = entries.last()?;
                let is_implicit = value.end == value.start && value.is_nothing();
                if is_implicit { key.last_text() } else { value.last_text() }
            }
            Content::Sequence { items, .. } => items.last()?.last_text(),
        }
    }
}
