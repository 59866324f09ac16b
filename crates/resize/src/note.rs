//! Notes for people: what was done, what would be done, and why.

use std::fmt;

use crate::{Direction, Harm, Resized, Why};

/// Something about one pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note {
    pub pod: String,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The mode does not allow the change.
    Would {
        why: Why,
        containers: Vec<Resized>,
    },
    Begun {
        why: Why,
        containers: Vec<Resized>,
    },
    Settled,
    TakingBack(Harm),
    /// A change was not made, or is no longer ours.
    Dropped(&'static str),
    /// The API server refuses a resize.
    Refused(String),
    /// A change has to wait.
    Waits(&'static str),
    /// A change is not begun because it would be refused or would wait.
    DoesNotFit {
        direction: Direction,
        why: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Would { why, containers } => write!(f, "would resize {}: {why}", Resizes(containers)),
            Self::Begun { why, containers } => write!(f, "resizes {}: {why}", Resizes(containers)),
            Self::Settled => f.write_str("the resize has settled"),
            Self::TakingBack(harm) => write!(f, "takes the resize back: {harm}"),
            Self::Dropped(why) => write!(f, "the resize is over: {why}"),
            Self::Refused(why) => write!(f, "the API server refuses the resize: {why}"),
            Self::Waits(why) => write!(f, "a resize waits: {why}"),
            Self::DoesNotFit { why, .. } => write!(f, "a resize would not fit: {why}"),
        }
    }
}

struct Resizes<'a>(&'a [Resized]);

impl fmt::Display for Resizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Resized { name, from, to, .. }) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "; " };
            write!(f, "{comma}{name} from requests of {} to {}", from.requests, to.requests)?;
            if from.limits != to.limits {
                write!(f, ", limits from {} to {}", from.limits, to.limits)?;
            }
        }
        Ok(())
    }
}
