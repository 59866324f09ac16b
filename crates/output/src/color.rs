//! Colours: on a terminal unless `NO_COLOR` is set, or as `--color` says; and links, on terminals that are known to have them.
//!
//! Painted text carries marks, which take no room. Only printing turns them into escape sequences, so a page can be cleaned
//! of all that came with other text.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use clap::ColorChoice;

use super::terminal;

static CHOSEN: OnceLock<ColorChoice> = OnceLock::new();

/// Sets what `--color` says, once.
pub fn choose(choice: ColorChoice) {
    let _ = CHOSEN.set(choice);
}

/// Noncharacters, each the beginning of a colour.
const MARKS: [(char, &str); 6] = [
    ('\u{fdd1}', "32"),
    ('\u{fdd2}', "33"),
    ('\u{fdd3}', "31"),
    ('\u{fdd4}', "36"),
    ('\u{fdd5}', "2"),
    ('\u{fdd6}', "1"),
];
pub(crate) const END: char = '\u{fdd0}';

/// Noncharacters around a text that is a link.
const LINK: [char; 2] = ['\u{fdd7}', '\u{fdd8}'];

pub(crate) fn is_mark(character: char) -> bool {
    is_color(character) || LINK.contains(&character)
}

pub(crate) fn is_color(character: char) -> bool {
    character == END || MARKS.iter().any(|(mark, _)| *mark == character)
}

/// The text with escape sequences for its marks, or without either. `links` are the addresses of the texts that are links.
pub(crate) fn shown(text: &str, paint: Paint, links: &BTreeMap<String, String>) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in linked(text, links).chars() {
        match MARKS.iter().find(|(mark, _)| *mark == character) {
            Some((_, code)) if paint.is_on => shown.push_str(&format!("\u{1b}[{code}m")),
            None if character == END && paint.is_on => shown.push_str("\u{1b}[0m"),
            None if character != END => shown.push(character),
            _ => {}
        }
    }
    shown
}

/// The text with links for terminals, as OSC 8 has them. A link that is broken over two lines is none.
fn linked(text: &str, links: &BTreeMap<String, String>) -> String {
    let [begin, end] = LINK;
    let mut parts = text.split(begin);
    let mut linked = parts.next().unwrap_or_default().replace(end, "");
    for part in parts {
        let link = part.split_once(end).and_then(|(name, rest)| Some((name, links.get(name)?, rest)));
        match link {
            Some((name, url, rest)) => {
                linked.push_str(&format!("\u{1b}]8;;{url}\u{1b}\\{name}\u{1b}]8;;\u{1b}\\{}", rest.replace(end, "")));
            }
            None => linked.push_str(&part.replace(end, "")),
        }
    }
    linked
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    is_on: bool,
    has_links: bool,
}

impl Paint {
    pub const OFF: Self = Self { is_on: false, has_links: false };
    pub const ON: Self = Self { is_on: true, has_links: true };

    pub fn for_stdout() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let choice = CHOSEN.get().copied().unwrap_or_default();
        let is_on = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                terminal::sees_output() && !is_unwanted && !is_dumb
            }
        };
        let has_links =
            choice != ColorChoice::Never && !is_dumb && supports_hyperlinks::on(supports_hyperlinks::Stream::Stdout);
        Self { is_on, has_links }
    }

    /// Marks a text as a link, whose address the page knows.
    pub fn link(self, text: &str) -> String {
        let [begin, end] = LINK;
        if self.has_links { format!("{begin}{text}{end}") } else { text.to_owned() }
    }

    pub fn green(self, text: &str) -> String {
        self.with('\u{fdd1}', text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with('\u{fdd2}', text)
    }

    pub fn red(self, text: &str) -> String {
        self.with('\u{fdd3}', text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.with('\u{fdd4}', text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with('\u{fdd5}', text)
    }

    pub fn bold(self, text: &str) -> String {
        self.with('\u{fdd6}', text)
    }

    fn with(self, mark: char, text: &str) -> String {
        if self.is_on && !text.is_empty() { format!("{mark}{text}{END}") } else { text.to_owned() }
    }
}
