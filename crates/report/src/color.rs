//! Colours: on a terminal unless `NO_COLOR` is set, or as `--color` says.
//!
//! Painted text carries marks, which take no room. Only printing turns them into escape sequences, so a page can be cleaned
//! of all that came with other text.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Choice {
    #[default]
    Auto,
    Always,
    Never,
}

static CHOSEN: OnceLock<Choice> = OnceLock::new();

/// Sets what `--color` says, once.
pub fn choose(choice: Choice) {
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

pub(crate) fn is_mark(character: char) -> bool {
    character == END || MARKS.iter().any(|(mark, _)| *mark == character)
}

/// The text with escape sequences for its marks, or without either.
pub(crate) fn shown(text: &str, paint: Paint) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match MARKS.iter().find(|(mark, _)| *mark == character) {
            Some((_, code)) if paint.is_on => shown.push_str(&format!("\u{1b}[{code}m")),
            None if character == END && paint.is_on => shown.push_str("\u{1b}[0m"),
            None if character != END => shown.push(character),
            _ => {}
        }
    }
    shown
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    pub const OFF: Self = Self { is_on: false };
    pub const ON: Self = Self { is_on: true };

    /// For standard output.
    pub fn for_stdout() -> Self {
        let is_on = match CHOSEN.get().copied().unwrap_or_default() {
            Choice::Always => true,
            Choice::Never => false,
            Choice::Auto => {
                let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
                std::io::stdout().is_terminal() && !is_unwanted && !is_dumb
            }
        };
        Self { is_on }
    }

    pub fn good(self, text: &str) -> String {
        self.with('\u{fdd1}', text)
    }

    pub fn doubtful(self, text: &str) -> String {
        self.with('\u{fdd2}', text)
    }

    pub fn bad(self, text: &str) -> String {
        self.with('\u{fdd3}', text)
    }

    pub fn fresh(self, text: &str) -> String {
        self.with('\u{fdd4}', text)
    }

    pub fn faint(self, text: &str) -> String {
        self.with('\u{fdd5}', text)
    }

    pub fn strong(self, text: &str) -> String {
        self.with('\u{fdd6}', text)
    }

    fn with(self, mark: char, text: &str) -> String {
        if self.is_on && !text.is_empty() { format!("{mark}{text}{END}") } else { text.to_owned() }
    }
}
