//! The output of a command: prose, tables and drawings, or a document for a tool. Only a [`Page`] can be printed, and
//! whatever goes into one is cleaned, so that no name acts on a terminal or a CI log.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, Write as _};

use anyhow::Context as _;
use headroom_objects::manifest::yaml;
use serde::Serialize;

use super::clean::{clean, is_hidden};
use super::color::{self, Paint, is_mark};
use super::table::Table;
use super::terminal;
use super::width::{wished, wrapped};

#[derive(Debug, Clone, Default)]
pub struct Page {
    blocks: Vec<Block>,
    /// The addresses of texts that are marked as links.
    links: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
enum Block {
    /// A line that may be wrapped.
    Prose(String),
    /// A line that stays as it is.
    Drawn(String),
    Table {
        table: Table,
        indent: usize,
    },
    /// A document for a tool, cleaned.
    Document(String),
}

impl Page {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Adds a line, for `writeln!(page, …)`. Line ends at both ends of the text count; one between them came with a name.
    pub fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) {
        let text = arguments.to_string();
        let line = text.trim_matches('\n');
        let before = text.len() - text.trim_start_matches('\n').len();
        self.blocks.extend((0..before).map(|_| Block::Drawn(String::new())));
        if !line.is_empty() {
            self.blocks.push(Block::Prose(clean(line).into_owned()));
        }
    }

    /// Adds lines that are drawn or aligned already.
    pub fn lines(&mut self, text: &str) {
        self.blocks.extend(text.lines().map(|line| Block::Drawn(clean(line).into_owned())));
    }

    /// Adds an empty line, unless nothing is above it.
    pub fn gap(&mut self) {
        if !self.blocks.is_empty() {
            self.blocks.push(Block::Drawn(String::new()));
        }
    }

    pub fn table(&mut self, table: Table) {
        self.indented(table, 0);
    }

    pub fn indented(&mut self, table: Table, indent: usize) {
        self.blocks.push(Block::Table { table, indent });
    }

    /// Gives the address of a text that `Paint::link` has marked.
    pub fn link(&mut self, text: &str, url: String) {
        self.links.insert(text.to_owned(), url);
    }

    pub fn append(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
        self.links.extend(other.links);
    }

    pub fn json(value: &impl Serialize) -> anyhow::Result<Self> {
        Ok(Self::ours(json(value)?))
    }

    pub fn yaml(value: &impl Serialize) -> anyhow::Result<Self> {
        Ok(Self::ours(yaml(value)?))
    }

    /// A document of another format, which has escaped the texts in it as that format does.
    pub fn document(text: &str) -> Self {
        let line = |line: &str| match line.strip_suffix('\r') {
            Some(line) => clean(line).into_owned() + "\r\n",
            None => clean(line).into_owned() + "\n",
        };
        Self::ours(text.split_terminator('\n').map(line).collect())
    }

    /// Text that holds nothing of others, or nothing that is not cleaned.
    pub fn ours(text: String) -> Self {
        Self { blocks: vec![Block::Document(text)], ..Self::default() }
    }

    /// The text at a width, or at any.
    pub fn text(&self, width: Option<usize>, paint: Paint) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            match block {
                Block::Prose(line) => {
                    for line in width.map_or_else(|| vec![line.clone()], |width| wrapped(line, width)) {
                        text.push_str(&format!("{}\n", clean(&line)));
                    }
                }
                Block::Drawn(line) => text.push_str(&format!("{line}\n")),
                Block::Table { table, indent } => {
                    for line in table.lines(width.map(|width| width.saturating_sub(*indent))) {
                        text.push_str(&format!("{:indent$}{}\n", "", clean(&line)));
                    }
                }
                Block::Document(document) => text.push_str(document),
            }
        }
        color::shown(&text, paint, &self.links)
    }
}

/// Without colours, as wide as it is.
impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.blocks.as_slice() {
            // It has no colours, and may be large.
            [Block::Document(document)] => f.write_str(document),
            _ => f.write_str(&self.text(None, Paint::OFF)),
        }
    }
}

/// YAML with a line end. A text with a hidden character, or a command to a CI runner, is in quotes, and is escaped there.
pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(yaml::write(&serde_json::to_value(value)?)))
}

/// Indented JSON with a line end. Whatever is hidden in it is in a string, and is escaped there.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string_pretty(value)? + "\n"))
}

/// Escapes what is hidden in JSON, and what CI runners take for commands. So in YAML that quotes its texts as JSON does.
pub fn escaped(json: String) -> String {
    const COMMANDS: [(&str, &str); 3] =
        [("##[", "#\\u0023["), ("##vso[", "#\\u0023vso["), ("##teamcity[", "#\\u0023teamcity[")];
    // Most have none, and some have hundreds of megabytes.
    if !json.chars().any(is_escaped) && COMMANDS.iter().all(|(command, _)| !json.contains(command)) {
        return json;
    }
    let mut text = String::new();
    for character in json.chars() {
        if is_escaped(character) {
            let mut units = [0; 2];
            character.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        } else {
            text.push(character);
        }
    }
    COMMANDS.iter().fold(text, |text, (command, written)| text.replace(command, written))
}

/// True for what a document does not hold as it is.
fn is_escaped(character: char) -> bool {
    character != '\n' && (is_hidden(character) || is_mark(character))
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
pub fn print(page: &Page) -> anyhow::Result<()> {
    match std::io::stdout().write_all(page.text(wished(), Paint::for_stdout()).as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write"),
    }
}

pub fn complain(line: fmt::Arguments<'_>) {
    let text = line.to_string();
    // Nobody is left to be told if this fails.
    let _ = writeln!(std::io::stderr(), "{}", clean(text.trim_end_matches('\n')));
}

/// Asks the person at the terminal for a line; none if there is none to ask.
pub fn ask(question: &str) -> anyhow::Result<Option<String>> {
    if !terminal::can_be_asked() {
        return Ok(None);
    }
    let mut output = std::io::stderr();
    write!(output, "{} ", clean(question)).and_then(|()| output.flush()).context("cannot ask")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(Some(answer.trim().to_owned()))
}

/// A line on standard error: `complain!("warning: {problem}")`.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => { $crate::page::complain(format_args!($($text)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::is_command;

    const HOSTILE: &str = "a\u{1b}[31mb\n::add-mask::c";

    #[test]
    fn no_name_begins_a_line() {
        let mut page = Page::new();
        writeln!(page, "\nContainer {HOSTILE}:\n");
        page.lines("p50 |##\n::warning::x\n");
        let mut table = Table::new(&["NAME"]);
        table.row([HOSTILE.to_owned()]);
        page.table(table);
        assert_eq!(
            page.text(None, Paint::OFF),
            "\nContainer a\u{fffd}[31mb\u{fffd}::add-mask::c:\np50 |##\n:\u{fffd}warning::x\nNAME\na\u{fffd}[31mb\u{fffd}::add-mask::c\n"
        );
    }

    /// Neither where it is broken, nor where a mark is taken out of it.
    #[test]
    fn no_line_is_a_command_once_it_is_printed() {
        let mut page = Page::new();
        writeln!(page, "Container {} ::add-mask::x", "a".repeat(40));
        writeln!(page, ":\u{fdd0}:stop-commands::y");
        for width in [None, Some(40)] {
            let text = page.text(width, Paint::OFF);
            assert!(text.contains("add-mask") && !text.lines().any(is_command), "{text}");
        }
    }

    #[test]
    fn documents_escape_what_is_hidden() {
        let text = |page: Page| page.text(Some(20), Paint::OFF);
        assert_eq!(text(Page::json(&"\u{9b}2K\u{202e}\n").unwrap()), "\"\\u009b2K\\u202e\\n\"\n");
        let yaml = text(Page::yaml(&serde_json::json!({"image": "a\u{9b}2K\u{202e}"})).unwrap());
        assert!(!yaml.chars().any(|character| character != '\n' && is_hidden(character)), "{yaml}");
        assert_eq!(text(Page::document("a,\u{1b}b\r\n::x\n")), "a,\u{fffd}b\r\n:\u{fffd}x\n");
        assert_eq!(text(Page::json(&"#\u{fdd0}#[error]").unwrap()), "\"#\\ufdd0#[error]\"\n");
        assert_eq!(text(Page::yaml(&["#\u{fdd0}#[error]"]).unwrap()), "- \"#\\ufdd0#[error]\"\n");
    }
}
