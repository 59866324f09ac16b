//! Notes for people: what was done, what would be done, and why.

use std::fmt;

use crate::decision::{ComputeResource, Harm, ResizeReason, Resized};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note {
    pub pod: String,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The mode does not allow the change.
    Would {
        why: ResizeReason,
        containers: Vec<Resized>,
    },
    Begun {
        why: ResizeReason,
        containers: Vec<Resized>,
    },
    Settled,
    /// It was watched for long enough, and may not end yet.
    Unsettled(&'static str),
    TakingBack {
        harm: Harm,
        containers: Vec<Resized>,
    },
    /// A person has asked to take a change back, which is not done.
    NotTakenBack(String),
    /// A change was not made, or is no longer ours.
    Dropped(&'static str),
    Refused(String),
    /// The API server refused again and again to take a change back.
    GivenUp(String),
    /// The pod had another version than the one that was read, so it is looked at again.
    Later,
    Waits(&'static str),
    DoesNotFit(String),
}

impl Note {
    pub fn is_later(&self) -> bool {
        self.event == Event::Later
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Would { why, containers } => write!(f, "would resize {}: {why}", changes(containers)),
            Self::Begun { why, containers } => write!(f, "resizes {}: {why}", changes(containers)),
            Self::Settled => f.write_str("the resize has settled"),
            Self::Unsettled(why) => write!(f, "its resize is not over, so others wait: {why}"),
            Self::TakingBack { harm, containers } => {
                write!(f, "takes the resize back, {}: {harm}", changes(containers))
            }
            Self::NotTakenBack(why) => write!(f, "does not take the resize back: {why}"),
            Self::Later => f.write_str("the pod changes at this moment, and is looked at again"),
            Self::Dropped(why) => write!(f, "the resize is over: {why}"),
            Self::Refused(why) => write!(f, "the API server refuses the resize: {why}"),
            Self::GivenUp(why) => write!(f, "the resize is not taken back, because the API server refuses it: {why}"),
            Self::Waits(why) => write!(f, "a resize waits: {why}"),
            Self::DoesNotFit(why) => write!(f, "a resize would not fit: {why}"),
        }
    }
}

/// `app (cpu request 1 -> 670m, memory limit 164Mi -> 264Mi)` for each container
fn changes(containers: &[Resized]) -> String {
    containers.iter().map(|of| format!("{} ({of})", of.name)).collect::<Vec<_>>().join(", ")
}

/// The amounts that change.
impl fmt::Display for Resized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (what, from, to) in
            [("request", self.from.requests, self.to.requests), ("limit", self.from.limits, self.to.limits)]
        {
            for resource in ComputeResource::ALL.into_iter().filter(|resource| from.of(*resource) != to.of(*resource)) {
                let [from, to] =
                    [from, to].map(|of| of.of(resource).map_or("unset".to_owned(), |of| resource.readable(of)));
                write!(f, "{comma}{} {what} {from} -> {to}", resource.name())?;
                comma = ", ";
            }
        }
        Ok(())
    }
}
