//! `UsageProfile`: what images have used before, as the companion writes it and the policy reads it.
//!
//! Its names ([`address`]), and what of a text is believed ([`read`]). How profiles are written is the companion's
//! affair; what they mean for a container is the estimate stage's.
//!
//! A history stands under its image's repository, once for all tags together and once for each tag and digest. The
//! objects are few and their names known in advance, because a policy host caches every object it was ever asked for.

pub mod address;
pub mod read;

use std::fmt;
use std::str::FromStr;

use crate::amount::Quantity;
use crate::timestamp::Timestamp;

/// The most out-of-memory kills that are kept of a history.
pub const MOST_OOM_KILLS: usize = 5;

pub use address::{Repository, Scope, Shard, TagKey};

/// The version of the format; a reader refuses all others.
pub const FORMAT: u32 = 1;

/// A container that was killed because its memory ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    pub at: Timestamp,
    /// What it used, or was limited to, when it was killed.
    pub memory: Quantity,
}

/// A resource whose use is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Cpu,
    Memory,
}

impl Resource {
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    /// As Kubernetes calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// A span of days that ends with the collection: `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    pub days: u16,
}

impl Window {
    pub const WEEK: Self = Self { days: 7 };
    pub const MONTH: Self = Self { days: 30 };
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}d", self.days)
    }
}

/// A text that is no window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseWindowError;

impl fmt::Display for ParseWindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a window: expected a number of days from 1 to 65535, such as `7d`")
    }
}

impl std::error::Error for ParseWindowError {}

impl FromStr for Window {
    type Err = ParseWindowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // One spelling only, because the text is also the key that a window is found by.
        let digits = text.strip_suffix('d').filter(|days| days.starts_with(|c: char| matches!(c, '1'..='9')));
        let days = digits.and_then(|days| days.parse().ok()).ok_or(ParseWindowError)?;
        Ok(Self { days })
    }
}

/// One of the percentiles that profiles hold. A fixed choice keeps a profile small and every reader served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile {
    permille: u16,
    name: &'static str,
}

impl Percentile {
    /// What is used unless settings choose another.
    pub const DEFAULT: Self = Self::of(900, "90");
    pub const PUBLISHED: [Self; 11] = [
        Self::of(500, "50"),
        Self::of(600, "60"),
        Self::of(700, "70"),
        Self::of(750, "75"),
        Self::of(800, "80"),
        Self::of(850, "85"),
        Self::of(900, "90"),
        Self::of(950, "95"),
        Self::of(980, "98"),
        Self::of(990, "99"),
        Self::of(999, "99.9"),
    ];

    const fn of(permille: u16, name: &'static str) -> Self {
        Self { permille, name }
    }

    /// `999` for the percentile `99.9`.
    pub fn permille(self) -> u16 {
        self.permille
    }

    /// `90`, `99.9`
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A text that is no published percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsePercentileError;

impl fmt::Display for ParsePercentileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a percentile that profiles hold: choose one of")?;
        Percentile::PUBLISHED.iter().try_for_each(|percentile| write!(f, " {percentile}"))
    }
}

impl std::error::Error for ParsePercentileError {}

impl FromStr for Percentile {
    type Err = ParsePercentileError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (percent, tenths) = text.split_once('.').unwrap_or((text, "0"));
        let permille = match (percent.parse::<u16>(), tenths.parse::<u16>()) {
            (Ok(percent @ 0..100), Ok(tenths @ 0..10)) => percent * 10 + tenths,
            _ => return Err(ParsePercentileError),
        };
        Self::PUBLISHED.into_iter().find(|published| published.permille == permille).ok_or(ParsePercentileError)
    }
}

/// What the text of a resource's usage says under a name, such as `samples` or `99.9`; none if it says nothing of it.
pub fn find_in_usage<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut entries = text.as_bytes();
    loop {
        let end = entries.iter().position(|byte| *byte == b' ');
        // Nearly every entry is told from the wanted one by the place of its `=`.
        if entries.get(name.len()) == Some(&b'=') && entries.starts_with(name.as_bytes()) {
            let start = text.len() - entries.len();
            return text.get(start + name.len() + 1..end.map_or(text.len(), |end| start + end));
        }
        entries = entries.get(end? + 1..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_read_as_they_are_written() {
        let written = Percentile::PUBLISHED.map(Percentile::name);
        assert_eq!(written, ["50", "60", "70", "75", "80", "85", "90", "95", "98", "99", "99.9"]);
        for (text, percentile) in written.iter().zip(Percentile::PUBLISHED) {
            assert_eq!(text.parse(), Ok(percentile));
        }
        assert_eq!("90.0".parse(), Ok(Percentile::DEFAULT));
    }

    #[test]
    fn other_percentiles_are_refused_with_the_published_ones() {
        for text in ["", "0", "91", "100", "99.99", "-1", "p90", "6553.6"] {
            assert_eq!(text.parse::<Percentile>(), Err(ParsePercentileError), "{text}");
        }
        assert_eq!(
            ParsePercentileError.to_string(),
            "not a percentile that profiles hold: choose one of 50 60 70 75 80 85 90 95 98 99 99.9"
        );
    }

    #[test]
    fn windows_have_one_spelling() {
        assert_eq!("7d".parse(), Ok(Window::WEEK));
        assert_eq!(Window::MONTH.to_string(), "30d");
        for text in ["", "d", "7", "0d", "07d", "+7d", "7D", "65536d", "7d "] {
            assert_eq!(text.parse::<Window>(), Err(ParseWindowError), "{text}");
        }
    }
}
