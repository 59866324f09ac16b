//! Locates the parts of a YAML document in its text.
//!
//! This serves to find the place of an edit. `manifest` reads objects, and the core reads values.

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StructureStyle};

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

pub fn documents(text: &str) -> Result<Vec<YamlNode>, String> {
    let mut parser = Parser::new_from_str_with_options(text, super::yaml::options());
    let mut documents = Vec::new();
    while let Some((event, span)) = next(&mut parser)? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd | Event::StreamEnd => {}
            first => documents.push(node(&mut parser, first, span)?),
        }
    }
    Ok(documents)
}

type SpanParser<'t> = Parser<'t, granit_parser::StrInput<'t>>;

fn next<'t>(parser: &mut SpanParser<'t>) -> Result<Option<(Event<'t>, Span)>, String> {
    parser.next_event().transpose().map_err(|error| error.to_string())
}

fn expected<'t>(parser: &mut SpanParser<'t>) -> Result<(Event<'t>, Span), String> {
    next(parser)?.ok_or_else(|| "unexpected end of document".to_owned())
}

fn node<'t>(parser: &mut SpanParser<'t>, event: Event<'t>, span: Span) -> Result<YamlNode, String> {
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
                match expected(parser)? {
                    (Event::SequenceEnd, span) => break offset(span.end)?,
                    (event, span) => items.push(node(parser, event, span)?),
                }
            };
            Content::Sequence { is_flow: style == StructureStyle::Flow, items }
        }
        Event::MappingStart(style, ..) => {
            let mut entries = Vec::new();
            end = loop {
                match expected(parser)? {
                    (Event::MappingEnd, span) => break offset(span.end)?,
                    (event, span) => {
                        if entries.is_empty() && style == StructureStyle::Block {
                            (start, at) = (offset(span.start)?, span.start);
                        }
                        let key = node(parser, event, span)?;
                        let (event, span) = expected(parser)?;
                        entries.push((key, node(parser, event, span)?));
                    }
                }
            };
            Content::Mapping { is_flow: style == StructureStyle::Flow, entries }
        }
        _ => return Err(format!("line {}: expected a value", span.start.line())),
    };
    Ok(YamlNode { content, start, end, column: at.col(), line: at.line(), is_anchored, is_tagged })
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
