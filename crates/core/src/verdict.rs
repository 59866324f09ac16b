//! The decision, and the texts of refusals.

use std::borrow::Cow;
use std::fmt;

use crate::annotations::headroom_annotation::{self, Explanation};
use crate::cluster::lookup::Missing;
use crate::cut::{count_of, shortened};
use crate::estimate;
use crate::json::{Malformed, Node, json_string};
use crate::limits::Breaches;
use crate::patch;
use crate::quota;
use crate::request::Pod;

/// The answer to a request.
#[derive(Debug, Clone, Default)]
pub struct Decision<'d> {
    /// All reasons to refuse the request, in the order of the steps; empty if it is admitted.
    pub violations: Vec<Violation<'d>>,
    pub warnings: Vec<String>,
    /// The number of warnings that were left out.
    omitted: usize,
    /// Every estimate as text, whether set or only reported.
    pub estimates: Vec<estimate::Report>,
    /// The changed pod, if it may be changed.
    pub pod: Option<Pod<'d>>,
    /// That pod's annotation.
    pub explanation: Option<Explanation>,
    /// What the request adds to the namespace's quotas if it is admitted.
    pub charges: Vec<quota::Charge<'d>>,
    /// The most that the pods of a workload add to them at any moment of the rollout.
    pub pod_charges: Vec<quota::Charge<'d>>,
}

/// A reason to refuse a request.
#[derive(Debug, Clone)]
pub enum Violation<'d> {
    Unreadable(Malformed),
    MissingContext(Missing<'d>),
    Limits { resource: String, name: String, is_workload: bool, breaches: Breaches<'d> },
    Quotas { resource: String, name: String, is_workload: bool, breaches: Vec<quota::Breach<'d>> },
}

/// An API server passes on warnings up to this length uncut, and up to `ALL_WARNINGS` bytes in total.
const LONGEST_WARNING: usize = 256;
const ALL_WARNINGS: usize = 4096;

impl<'d> Decision<'d> {
    pub fn refusing(violation: Violation<'d>) -> Self {
        Self { violations: vec![violation], ..Self::default() }
    }

    pub fn is_admitted(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds a warning, cut to the length that the API server passes on; it is only built if there is room for it.
    pub(super) fn warn(&mut self, warning: impl FnOnce() -> String) {
        let used: usize = self.warnings.iter().map(String::len).sum();
        if used + LONGEST_WARNING > ALL_WARNINGS {
            self.omitted += 1;
            return;
        }
        let mut warning = warning();
        if warning.len() > LONGEST_WARNING {
            let mut end = LONGEST_WARNING - '…'.len_utf8();
            while !warning.is_char_boundary(end) {
                end -= 1;
            }
            warning.truncate(end);
            warning.push('…');
        }
        self.warnings.push(warning);
    }

    /// Ends the warnings with the number of those that were left out.
    pub(super) fn end_warnings(&mut self) {
        if self.omitted > 0 {
            self.warnings.push(format!("and {}", count_of(self.omitted as u64, "more warning")));
        }
    }

    /// Sets the changed pod.
    pub(super) fn change(&mut self, pod: Pod<'d>) {
        self.explanation = headroom_annotation::write(&pod);
        self.pod = Some(pod);
    }

    /// All reasons for a refusal, in one text.
    pub fn message(&self) -> String {
        self.violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// The object with our changes, if it is admitted and there are changes.
    pub fn changed_object(&self, object: Node<'_>) -> Result<Option<String>, Malformed> {
        let mut text = String::new();
        Ok(self.write_changed_object(&mut text, "", object)?.then_some(text))
    }

    /// Writes that object after `begin`; writes nothing and returns false if there is none.
    pub fn write_changed_object(&self, out: &mut String, begin: &str, object: Node<'_>) -> Result<bool, Malformed> {
        match &self.pod {
            Some(pod) if self.is_admitted() => patch::write(out, begin, object, pod, self.explanation.as_ref()),
            _ => Ok(false),
        }
    }

    /// The annotations for the audit log: the sources of our values, each as a JSON string.
    pub fn audit_annotations(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let resources = self.explanation.as_ref().map(|explanation| Cow::Borrowed(explanation.json.as_str()));
        // Estimates that were set are in that annotation too.
        let is_full = self.explanation.as_ref().is_some_and(|explanation| explanation.is_full);
        let others = self.estimates.iter().filter_map(|report| match &report.full {
            Some(full) => Some(full.as_str()),
            None => (!is_full).then_some(report.text.as_str()),
        });
        let others = others.collect::<Vec<&str>>().join("\n");
        let estimates = (!others.is_empty()).then(|| Cow::Owned(json_string(&others)));
        let annotations = [("resources", resources), ("estimates", estimates)];
        annotations.into_iter().filter_map(|(name, json)| Some((name, json?))).collect()
    }
}

impl fmt::Display for Violation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(malformed) => {
                let place = malformed.path.strip_prefix("request.object.").unwrap_or(&malformed.path);
                write!(f, "the object cannot be read: {place}: {}", malformed.problem)
            }
            Self::MissingContext(missing) => write!(f, "{missing}"),
            Self::Limits { resource, name, is_workload, breaches } => {
                let whose = if *is_workload { "its pods would be refused: " } else { "" };
                let texts = breaches.by_text();
                write!(f, "{resource} \"{}\" is forbidden: {whose}", shortened(name))?;
                match texts.as_slice() {
                    [(text, _)] => f.write_str(text)?,
                    several => {
                        let texts: Vec<&str> = several.iter().map(|(text, _)| text.as_str()).collect();
                        write!(f, "[{}]", texts.join(", "))?;
                    }
                }
                texts.iter().try_for_each(|(_, advice)| write!(f, "; {advice}"))
            }
            Self::Quotas { resource, name, is_workload, breaches } => {
                /// At most this many quotas are named, which is more than a client shows.
                const MAX: usize = 20;
                let Some(first) = breaches.first() else { return Ok(()) };
                if first.names_object() {
                    let whose = if *is_workload { "its pods would be refused: " } else { "" };
                    write!(f, "{resource} \"{}\" is forbidden: {whose}", shortened(name))?;
                }
                // Kubernetes' own text for the first reason comes first, then our advice on every reason.
                write!(f, "{first}")?;
                breaches.iter().take(MAX).try_for_each(|breach| write!(f, "; {}", breach.advice()))?;
                let more = breaches.len().saturating_sub(MAX);
                if more > 0 { write!(f, "; and {}", count_of(more as u64, "more quota")) } else { Ok(()) }
            }
        }
    }
}
