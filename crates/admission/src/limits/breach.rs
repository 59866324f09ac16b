//! The text of a breach: first Kubernetes' own text, to the letter, then the subject and advice.

use std::borrow::Cow;
use std::fmt;

use crate::amount::{Quantity, Requirement, ResourceName};
use crate::request::RangeName;
use crate::truncate::{Names, shortened};

/// The broken bounds, in order: the first ones, and how many more there are.
#[derive(Debug, Clone, Default)]
pub struct Breaches<'d> {
    pub first: Vec<Breach<'d>>,
    pub more: usize,
}

/// At most this many are kept, which is more than a client shows.
const MAX: usize = 64;

impl<'d> Breaches<'d> {
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Adds a breach, which is only built if it is kept.
    pub(super) fn add_with(&mut self, breach: impl FnOnce() -> Breach<'d>) {
        if self.first.len() < MAX { self.first.push(breach()) } else { self.more += 1 }
    }

    /// For display: each text of Kubernetes once, with the advice on it by subject.
    pub fn by_text(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<BreachGroup> = Vec::new();
        for breach in &self.first {
            let (text, advice, subject) = (breach.to_string(), breach.advice(), breach.subject.to_string());
            match groups.iter_mut().find(|have| have.text == text) {
                Some(have) => have.add(advice, subject),
                None => groups.push(BreachGroup { text, advices: vec![(advice, vec![subject])] }),
            }
        }
        let mut texts: Vec<(String, Vec<String>)> = groups.into_iter().map(BreachGroup::texts).collect();
        if let (Some((_, advice)), 1..) = (texts.last_mut(), self.more) {
            advice.push(format!("and {} more", self.more));
        }
        texts
    }
}

/// One text of Kubernetes, and each advice on it with its subjects.
struct BreachGroup {
    text: String,
    advices: Vec<(String, Vec<String>)>,
}

impl BreachGroup {
    fn add(&mut self, advice: String, subject: String) {
        match self.advices.iter_mut().find(|(have, _)| *have == advice) {
            Some((_, subjects)) => subjects.push(subject),
            None => self.advices.push((advice, vec![subject])),
        }
    }

    fn texts(self) -> (String, Vec<String>) {
        let advices = self.advices.into_iter().map(|(advice, subjects)| format!("{}: {advice}", subjects.join(", ")));
        (self.text, advices.collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach<'d> {
    /// The type of the item, such as `Container`.
    pub kind: Cow<'d, str>,
    pub resource: ResourceName<'d>,
    pub fault: LimitFault,
    pub subject: BoundTarget<'d>,
    /// The origin of the value at fault, if the author did not write it, or if it is no sum over containers.
    pub origin: Option<String>,
    /// The sources of the amounts in a total that the author did not write.
    pub parts: Names,
    /// The amount below which the value cannot be set any more.
    pub least: Option<Quantity>,
    pub range: RangeName<'d>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundTarget<'d> {
    Container(Cow<'d, str>),
    /// The total of the pod.
    Pod,
    Claim,
    ClaimTemplate(Cow<'d, str>),
}

/// The way in which a bound of a LimitRange is broken. `other`: that of the other requirement, if it has to change too.
/// `request`: one above a maximum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitFault {
    NoRequestForMin { min: Quantity },
    BelowMin { min: Quantity, requirement: Requirement, found: Quantity, other: Option<Quantity> },
    NoValueForMax { max: Quantity, requirement: Requirement, request: Option<Quantity> },
    AboveMax { max: Quantity, requirement: Requirement, found: Quantity, other: Option<Quantity> },
    NoValueForRatio { ratio: Quantity, requirement: Requirement },
    AboveRatio { ratio: Quantity, request: Quantity, limit: Quantity },
}

impl LimitFault {
    /// The value at fault, if there is one.
    pub fn requirement(&self) -> Option<Requirement> {
        match self {
            Self::BelowMin { requirement, .. } | Self::AboveMax { requirement, .. } => Some(*requirement),
            Self::AboveRatio { .. } => Some(Requirement::Limit),
            Self::NoValueForMax { request: Some(_), .. } => Some(Requirement::Request),
            Self::NoRequestForMin { .. } | Self::NoValueForMax { .. } | Self::NoValueForRatio { .. } => None,
        }
    }
}

/// Kubernetes' own text.
impl fmt::Display for Breach<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, resource, fault, .. } = self;
        match fault {
            LimitFault::NoRequestForMin { min } => {
                write!(f, "minimum {resource} usage per {kind} is {min}.  No request is specified")
            }
            LimitFault::BelowMin { min, requirement, found, .. } => {
                write!(f, "minimum {resource} usage per {kind} is {min}, but {requirement} is {found}")
            }
            LimitFault::NoValueForMax { max, requirement, .. } => {
                write!(f, "maximum {resource} usage per {kind} is {max}.  No {requirement} is specified")
            }
            LimitFault::AboveMax { max, requirement, found, .. } => {
                write!(f, "maximum {resource} usage per {kind} is {max}, but {requirement} is {found}")
            }
            LimitFault::NoValueForRatio { ratio, requirement } => write!(
                f,
                "{resource} max limit to request ratio per {kind} is {ratio}, but no {requirement} is specified or {requirement} is 0"
            ),
            LimitFault::AboveRatio { ratio, request, limit } => {
                let provided = Quantity::ratio_text(limit, request);
                write!(
                    f,
                    "{resource} max limit to request ratio per {kind} is {ratio}, but provided ratio is {provided}"
                )
            }
        }
    }
}

impl Breach<'_> {
    /// True if a container has more of a resource than it may.
    pub fn is_above_max(&self, container: &str, resource: &str) -> bool {
        let is_of = matches!(&self.subject, BoundTarget::Container(name) if name == container);
        is_of && self.resource == resource && matches!(self.fault, LimitFault::AboveMax { .. })
    }

    /// Says how to fix it: `set a cpu request of at least 50m (LimitRange limits)`.
    pub fn advice(&self) -> String {
        let Self { resource, fault, subject, least, .. } = self;
        let is_sum = *subject == BoundTarget::Pod && self.origin.is_none();
        let (sum, plural) = if is_sum { ("sum of the ", "s") } else { ("", "") };
        // Both, because the API server refuses a request above the limit.
        let amounts = |requirement: Requirement, found: &Quantity, other: &Option<Quantity>| {
            let another = if requirement == Requirement::Request { Requirement::Limit } else { Requirement::Request };
            match other {
                Some(other) if other == found => format!("{requirement}{plural} and {another}{plural} from {found}"),
                Some(other) => format!("{requirement}{plural} from {found} and the {another}{plural} from {other}"),
                None => format!("{requirement}{plural} from {found}"),
            }
        };
        let mut advice = match fault {
            LimitFault::NoRequestForMin { min } => format!("set a {resource} request of at least {min}"),
            LimitFault::BelowMin { min, requirement, found, other } => {
                format!("raise the {sum}{resource} {} to at least {min}", amounts(*requirement, found, other))
            }
            LimitFault::NoValueForMax { max, requirement, request } => {
                let request = request.as_ref().map(|request| {
                    format!(", and lower the {sum}{resource} request{plural} from {request} to at most {max}")
                });
                format!("set a {resource} {requirement} of at most {max}{}", request.unwrap_or_default())
            }
            LimitFault::AboveMax { max, found, .. } if least.as_ref().is_some_and(|least| least > max) => {
                format!("its {resource} cannot shrink to {max}: raise the maximum to at least {found}")
            }
            LimitFault::AboveMax { max, requirement, found, other } => {
                format!("lower the {sum}{resource} {} to at most {max}", amounts(*requirement, found, other))
            }
            LimitFault::NoValueForRatio { requirement, .. } => format!("set a {resource} {requirement} above 0"),
            LimitFault::AboveRatio { ratio, request, limit } => format!(
                "bring the {sum}{resource} limit{plural} ({limit}) to at most {ratio} times the request{plural} ({request})"
            ),
        };
        if let Some(origin) = &self.origin {
            advice.push_str(&format!("; source: {origin}"));
        }
        if !self.parts.is_empty() {
            advice.push_str(&format!(" [{}]", self.parts.joined("; ")));
        }
        advice.push_str(&format!(" ({})", self.range));
        advice
    }
}

impl fmt::Display for BoundTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(name) => write!(f, "container {}", shortened(name)),
            Self::Pod => f.write_str("pod total"),
            Self::Claim => f.write_str("claim"),
            Self::ClaimTemplate(name) => write!(f, "claim template {}", shortened(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_breaches_are_kept_and_the_others_are_counted() {
        let breach = || Breach {
            kind: "Container".into(),
            resource: "cpu".into(),
            fault: LimitFault::NoRequestForMin { min: Quantity::ZERO },
            subject: BoundTarget::Container("web".into()),
            origin: None,
            parts: Names::default(),
            least: None,
            range: RangeName::Rule("small".into()),
        };
        let mut breaches = Breaches::default();
        (0..MAX + 6).for_each(|_| breaches.add_with(breach));
        assert_eq!((breaches.first.len(), breaches.more), (MAX, 6));
    }
}
