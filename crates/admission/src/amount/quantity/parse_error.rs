//! Error messages for texts that are not quantities.

use std::fmt;

use super::MAX_UNITS;

/// Longer texts are refused without being parsed.
pub(super) const MAX_LENGTH: usize = 200;

/// The largest exponent of a quantity in either direction.
pub(super) const MAX_EXPONENT: i32 = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseQuantityError {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    NoDigits,
    UnknownSuffix { start: usize },
    ExponentOutOfBounds,
    OutOfRange,
    TooLong,
}

impl ParseQuantityError {
    pub(super) fn new(text: &str, problem: Problem) -> Self {
        // Only the beginning of a longer text is kept.
        let text = text.chars().take(MAX_LENGTH).collect();
        Self { text, problem }
    }

    /// True for an amount above those that can be read.
    pub fn is_too_large(&self) -> bool {
        self.problem == Problem::OutOfRange && !self.text.starts_with('-')
    }

    /// The quantities that were probably meant: `128M` and `128Mi` by `128MB`.
    pub fn meant(&self) -> Vec<String> {
        let Problem::UnknownSuffix { start } = self.problem else { return Vec::new() };
        let (Some(number), Some(suffix)) = (self.text.get(..start), self.text.get(start..)) else { return Vec::new() };
        meant_by(suffix).iter().map(|suffix| format!("{number}{suffix}")).collect()
    }
}

impl std::error::Error for ParseQuantityError {}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, problem } = self;
        write!(f, "`{}` is not a quantity: ", Quoted(text))?;
        match problem {
            Problem::NoDigits => write!(f, "expected a number such as `500m` or `1.5Gi`"),
            Problem::UnknownSuffix { start } => {
                let suffix = text.get(*start..).unwrap_or_default();
                write!(f, "`{}` is not a suffix, ", Quoted(suffix))?;
                match meant_by(suffix) {
                    [""] => write!(f, "write the number alone"),
                    [suffix] => write!(f, "write `{suffix}`"),
                    [decimal, binary] => write!(f, "write `{decimal}` or `{binary}`"),
                    _ => write!(f, "allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and exponents such as `e3`"),
                }
            }
            Problem::ExponentOutOfBounds => write!(f, "its exponent must be from -{MAX_EXPONENT} to {MAX_EXPONENT}"),
            Problem::OutOfRange => write!(f, "it must be from -{MAX_UNITS} to {MAX_UNITS}"),
            Problem::TooLong => write!(f, "it must have at most {MAX_LENGTH} characters"),
        }
    }
}

/// A user's text on one line, cut to leave room for the message.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        let mut shown = 0;
        for char in self.0.chars() {
            if shown >= SHOWN {
                return write!(f, "…");
            }
            // An escape counts with its full length, so that a text with many escapes stays short too.
            if char.is_control() {
                let escape = char.escape_default();
                shown += escape.len();
                write!(f, "{escape}")?;
            } else {
                shown += 1;
                write!(f, "{char}")?;
            }
        }
        Ok(())
    }
}

const SUFFIXES: &[&str] = &["n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The suffixes that were probably meant by `gb`, `K`, `Gib` or ` Mi`: an empty one for the number alone, none if it is
/// not known.
fn meant_by(suffix: &str) -> &'static [&'static str] {
    let unspaced: String = suffix.chars().filter(|char| !char.is_whitespace()).collect();
    // Only a blank was wrong, so case still distinguishes milli from mega.
    if let Some(known) = SUFFIXES.iter().find(|known| **known == unspaced) {
        return std::slice::from_ref(known);
    }
    let lower = unspaced.to_ascii_lowercase();
    let letters = lower.strip_suffix("bytes").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
    match letters {
        "" | "core" | "cores" => &[""],
        "k" => &["k", "Ki"],
        "m" => &["M", "Mi"],
        "g" => &["G", "Gi"],
        "t" => &["T", "Ti"],
        "p" => &["P", "Pi"],
        "ki" => &["Ki"],
        "mi" => &["Mi"],
        "gi" => &["Gi"],
        "ti" => &["Ti"],
        "pi" => &["Pi"],
        "ei" => &["Ei"],
        _ => &[],
    }
}
