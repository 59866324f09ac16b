//! `UsageProfile`: the usage history of images, as the collector writes it and the policy reads it.
//!
//! [`profile_layout`] has the names of objects and keys, [`read`] reads and checks the contents. The collector writes the
//! profiles; [`crate::estimate`] uses them.
//!
//! An image's entry contains, under its repository, the history of each namespace and of all together (the pool). Each
//! is split into all tags together and each tag and digest; that of a namespace also has each workload's container. The
//! names of the objects are known in advance, and no object is large, because a policy host caches every object it was
//! ever asked for and copies it whole for every request.

pub mod profile_layout;
pub mod read;
pub mod workload;

use std::fmt;
use std::str::FromStr;

use crate::amount::Quantity;
use crate::timestamp::Timestamp;

/// The most out-of-memory kills that are kept in a history.
pub const MAX_OOM_KILLS: usize = 5;

pub use profile_layout::{ProfileKey, ProfileName, Quarter, Repository, Root, TagKey};

/// The version of the format; readers refuse all others.
pub const FORMAT: u32 = 3;

/// A container that was killed because its memory ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    pub at: Timestamp,
    /// The memory that it used, or its limit, when it was killed.
    pub memory: Quantity,
}

/// A resource whose usage is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    Cpu,
    Memory,
    /// The files of a container outside of volumes, its logs included.
    EphemeralStorage,
}

impl Resource {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::EphemeralStorage];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
        }
    }

    /// The most that a container can use: ten thousand cores, a pebibyte of memory or storage. Readers and writers of history
    /// leave out what is above.
    pub const fn most(self) -> i64 {
        match self {
            Self::Cpu => 10_000,
            Self::Memory | Self::EphemeralStorage => 1 << 50,
        }
    }
}

/// A number of days that end with the collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    /// A month in which each day weighs half as much as the day after it.
    Recent,
    Week,
    Month,
}

impl Window {
    pub const PUBLISHED: [Self; 3] = [Self::Recent, Self::Week, Self::Month];

    pub fn name(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::PUBLISHED.into_iter().find(|window| window.name() == name)
    }

    pub fn days(self) -> u16 {
        match self {
            Self::Week => 7,
            Self::Recent | Self::Month => 30,
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One of the percentiles in profiles. The choice is fixed, so profiles are small and contain what any reader needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile {
    permille: u16,
    name: &'static str,
}

impl Percentile {
    pub const P80: Self = Self::of(800, "80");
    pub const P90: Self = Self::of(900, "90");
    pub const P95: Self = Self::of(950, "95");
    pub const P98: Self = Self::of(980, "98");
    pub const P99: Self = Self::of(990, "99");
    pub const P99_9: Self = Self::of(999, "99.9");
    /// The highest amount.
    pub const PEAK: Self = Self::of(1000, "peak");
    pub const PUBLISHED: [Self; 11] = [
        Self::of(500, "50"),
        Self::of(600, "60"),
        Self::of(700, "70"),
        Self::of(750, "75"),
        Self::P80,
        Self::of(850, "85"),
        Self::P90,
        Self::P95,
        Self::P98,
        Self::P99,
        Self::P99_9,
    ];

    const fn of(permille: u16, name: &'static str) -> Self {
        Self { permille, name }
    }

    /// `999` for the percentile `99.9`.
    pub fn permille(self) -> u16 {
        self.permille
    }

    /// The prefix of the name in texts for people.
    pub fn prefix(self) -> &'static str {
        if self == Self::PEAK { "" } else { "p" }
    }

    /// The place in [`Self::PUBLISHED`], which is the place in profiles; none for the peak.
    pub fn place(self) -> Option<usize> {
        Self::PUBLISHED.iter().position(|published| published.permille == self.permille)
    }

    /// `90`, `99.9`, `peak`
    pub fn name(self) -> &'static str {
        self.name
    }
}

/// `p90`, `p99.9`, `peak`: as in texts for people
impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix(), self.name)
    }
}

impl FromStr for Percentile {
    type Err = String;

    /// With or without the `p`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == Self::PEAK.name {
            return Ok(Self::PEAK);
        }
        let text = text.strip_prefix('p').unwrap_or(text);
        let (percent, tenths) = text.split_once('.').unwrap_or((text, "0"));
        // Numbers may have a sign, and zeros in front.
        let is_plain = tenths.len() == 1 && !percent.starts_with(['+', '0']);
        let permille = match (percent.parse::<u16>(), tenths.parse::<u16>()) {
            (Ok(percent @ 0..100), Ok(tenths @ 0..10)) if is_plain => Some(percent * 10 + tenths),
            _ => None,
        };
        Self::PUBLISHED.into_iter().find(|published| Some(published.permille) == permille).ok_or_else(|| {
            let published = Self::PUBLISHED.map(Self::name).join(" ");
            format!("not a percentile that profiles hold: choose one of {published} peak")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_read_as_they_are_written() {
        for percentile in Percentile::PUBLISHED.into_iter().chain([Percentile::PEAK]) {
            assert_eq!(percentile.name().parse(), Ok(percentile));
        }
        for text in ["90.0", "p90"] {
            assert_eq!(text.parse::<Percentile>().unwrap().name(), "90");
        }
    }

    #[test]
    fn other_percentiles_are_refused_with_the_published_ones() {
        let published = "not a percentile that profiles hold: choose one of 50 60 70 75 80 85 90 95 98 99 99.9 peak";
        for text in ["", "0", "91", "100", "99.99", "-1", "pp90", "ppeak", "p", "6553.6", "99.09", "+90", "090"] {
            assert_eq!(text.parse::<Percentile>().unwrap_err(), published, "{text}");
        }
    }
}
