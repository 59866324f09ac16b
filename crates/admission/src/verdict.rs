//! The decision, and the texts of refusals.

use std::borrow::Cow;
use std::fmt;

use crate::annotations::headroom_annotation::{self, Explanation};
use crate::cluster::lookup::Missing;
use crate::estimate::EstimateReport;
use crate::json::{Malformed, Node, json_string};
use crate::limits::Breaches;
use crate::patch;
use crate::quota;
use crate::request::{Pod, Request};
use crate::truncate::{count_of, shortened};

#[derive(Debug, Clone, Default)]
pub struct Decision<'d> {
    /// All reasons to refuse the request, in the order of the steps; empty if it is admitted.
    pub violations: Vec<Violation<'d>>,
    pub warnings: Vec<ReviewWarning<'d>>,
    omitted: usize,
    /// Every estimate as text, whether set or only reported.
    pub estimates: Vec<EstimateReport<'d>>,
    /// The changed pod, if it may be changed.
    pub pod: Option<Pod<'d>>,
    /// The sources of our values in that pod, for its annotation and the audit log.
    pub explanation: Option<Explanation>,
    pub omits_annotations: bool,
    /// The request's charges to the namespace's quotas if it is admitted.
    pub charges: Vec<quota::QuotaCharge<'d>>,
    /// The most that the pods of a workload add to them at any moment of the rollout.
    pub pod_charges: Vec<quota::QuotaCharge<'d>>,
}

#[derive(Debug, Clone)]
pub enum Violation<'d> {
    Unreadable(Malformed),
    MissingContext(Missing<'d>),
    Limits { resource: String, name: String, is_workload: bool, breaches: Breaches<'d> },
    Quotas { resource: String, name: String, is_workload: bool, breaches: Vec<quota::Breach<'d>> },
}

/// A warning, which refuses nothing.
#[derive(Debug, Clone)]
pub struct ReviewWarning<'d> {
    pub cause: Cause<'d>,
    /// At most as long as the API server passes on.
    pub text: String,
    pub is_cut: bool,
}

#[derive(Debug, Clone)]
pub enum Cause<'d> {
    MissingContext(Missing<'d>),
    /// An estimate, by its index in the decision.
    Estimate(usize),
    /// A problem with an estimate or with a usage history.
    Note,
    /// A bound that is broken where breaches are not refused, or that a filled-in value breaks.
    Limits,
    Quota(Box<quota::Breach<'d>>),
    Omitted,
}

/// An API server passes on warnings up to this length uncut, and up to `MAX_WARNINGS` bytes in total.
const MAX_ANNOUNCED: usize = 256;
const MAX_WARNINGS: usize = 4096;
/// Begins each warning that a client shows, which does not say otherwise who warns.
const SPEAKER: &str = "headroom: ";
const MAX_WARNING: usize = MAX_ANNOUNCED - SPEAKER.len();

/// A text cut to the length of a warning.
pub fn cut(text: String) -> String {
    cut_to(text, MAX_WARNING)
}

fn cut_to(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut end = most - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A warning as the API server passes it on: who warns, and the command that explains the decision and shows the text in full. For
/// it the text is cut to half of the room, but no further. None for a request that is rejected: the object may not exist.
pub fn announced(text: &str, request: Option<&Request<'_>>) -> String {
    let mut line = String::with_capacity(MAX_ANNOUNCED);
    line.extend([SPEAKER, text]);
    let Some(request) = request else { return line };
    let is_explained = request.pod_kind().is_some() || request.is("", "persistentvolumeclaims", "");
    // A name that the API server is still to generate ends with a dash.
    let is_explained = is_explained && matches!(request.subresource.as_ref(), "" | "scale");
    if is_explained && !request.name.is_empty() && !request.name.ends_with('-') {
        let kind = request.resource.strip_suffix('s').unwrap_or(&request.resource);
        let command = [kind, "/", &request.name, " -n ", &request.namespace];
        const LEAD: &str = "; see kubectl headroom why ";
        let length = LEAD.len() + command.iter().map(|part| part.len()).sum::<usize>();
        if length <= MAX_ANNOUNCED / 2 {
            line = cut_to(line, MAX_ANNOUNCED - length);
            line.push_str(LEAD);
            line.extend(command);
        }
    }
    line
}

impl<'d> Decision<'d> {
    pub fn refusing(violation: Violation<'d>) -> Self {
        Self { violations: vec![violation], ..Self::default() }
    }

    pub fn is_admitted(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds a warning, cut to the length that the API server passes on; it is only built if there is room for it.
    pub(super) fn warn(&mut self, warning: impl FnOnce() -> (Cause<'d>, String)) {
        let used: usize = self.warnings.iter().map(|warning| warning.text.len()).sum();
        if used + MAX_ANNOUNCED > MAX_WARNINGS - self.warnings.len() * (MAX_ANNOUNCED - MAX_WARNING) {
            self.omitted += 1;
            return;
        }
        let (cause, text) = warning();
        let is_cut = text.len() > MAX_WARNING;
        self.warnings.push(ReviewWarning { cause, text: cut(text), is_cut });
    }

    /// Ends the warnings with the number of those that were left out.
    pub(super) fn end_warnings(&mut self) {
        if self.omitted > 0 {
            let text = format!("and {}", count_of(self.omitted as u64, "more warning"));
            self.warnings.push(ReviewWarning { cause: Cause::Omitted, text, is_cut: false });
        }
    }

    /// The estimates that no warning shows in full.
    pub fn estimates_beside_warnings(&self) -> impl Iterator<Item = &str> {
        let shown = |index: usize| {
            self.warnings.iter().any(|warning| {
                matches!(warning.cause, Cause::Estimate(estimate) if estimate == index) && !warning.is_cut
            })
        };
        self.estimates.iter().enumerate().filter_map(move |(index, report)| match &report.full {
            Some(full) => Some(full.as_str()),
            None => (!shown(index)).then_some(report.text.as_str()),
        })
    }

    /// Says of the estimates that they would be set, because a rejected object gets none of them.
    pub(super) fn set_nothing(&mut self) {
        self.estimates.iter_mut().for_each(EstimateReport::set_nothing);
        for warning in &mut self.warnings {
            if let Cause::Estimate(index) = warning.cause
                && let Some(report) = self.estimates.get(index)
            {
                (warning.text, warning.is_cut) = (cut(report.text.clone()), report.text.len() > MAX_WARNING);
            }
        }
    }

    pub(super) fn change(&mut self, pod: Pod<'d>) {
        self.explanation = headroom_annotation::write(&pod);
        self.pod = Some(pod);
    }

    pub fn message(&self) -> String {
        self.violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// The object with our changes, if it is admitted and there are changes.
    pub fn changed_object(&self, object: Node<'_>) -> Result<Option<String>, Malformed> {
        if self.is_admitted() { self.filled_object(object) } else { Ok(None) }
    }

    /// The object as the request's own validation would find it: with our changes even if it is not admitted.
    pub fn filled_object(&self, object: Node<'_>) -> Result<Option<String>, Malformed> {
        let mut text = String::new();
        Ok(self.write_filled_object(&mut text, "", object)?.then_some(text))
    }

    /// Writes the object with our changes after `begin`, even if it is not admitted; writes nothing and returns false if there is none.
    pub fn write_filled_object(&self, out: &mut String, begin: &str, object: Node<'_>) -> Result<bool, Malformed> {
        let Some(pod) = &self.pod else { return Ok(false) };
        patch::write(out, begin, object, pod, self.explanation.as_ref(), !self.omits_annotations)
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

impl Violation<'_> {
    /// The refusal, in Kubernetes' own words where it has any, and then each piece of advice on it.
    pub fn parts(&self) -> Vec<String> {
        let object = |resource: &str, name: &str, is_workload: bool| {
            let of_pods = if is_workload { "its pods would be rejected: " } else { "" };
            format!("{resource} \"{}\" is forbidden: {of_pods}", shortened(name))
        };
        match self {
            Self::Unreadable(malformed) => {
                let place = malformed.path.strip_prefix("request.object.").unwrap_or(&malformed.path);
                let malformed = Malformed { path: place.to_owned(), problem: malformed.problem.clone() };
                vec![format!("the object cannot be read: {malformed}")]
            }
            Self::MissingContext(missing) => vec![missing.to_string()],
            Self::Limits { resource, name, is_workload, breaches } => {
                let (texts, advices): (Vec<String>, Vec<Vec<String>>) = breaches.by_text().into_iter().unzip();
                let texts = match texts.as_slice() {
                    [text] => text.clone(),
                    several => format!("[{}]", several.join(", ")),
                };
                let refusal = object(resource, name, *is_workload) + &texts;
                [refusal].into_iter().chain(advices.into_iter().flatten()).collect()
            }
            Self::Quotas { resource, name, is_workload, breaches } => {
                /// At most this many quotas are named, which is more than a client shows.
                const MAX: usize = 20;
                let Some(first) = breaches.first() else { return Vec::new() };
                let object = if first.names_object() { object(resource, name, *is_workload) } else { String::new() };
                // Kubernetes' own text for the first reason comes first, then our advice on every reason.
                let refusal = format!("{object}{first}");
                let advices = breaches.iter().take(MAX).map(quota::Breach::advice);
                let more = breaches.len().saturating_sub(MAX) as u64;
                let more = (more > 0).then(|| format!("and {}", count_of(more, "more quota")));
                [refusal].into_iter().chain(advices).chain(more).collect()
            }
        }
    }
}

impl fmt::Display for Violation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Document;

    #[test]
    fn a_warning_says_who_speaks_and_what_explains_it() {
        let check = |kind: &str, resource: &str, name: &str, text: &str, expected: &str| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let request = format!(
                r#"{{"uid": "1", "operation": "CREATE", "kind": {{"kind": "{kind}", "group": "apps"}}, "resource": {{"group": "apps",
                "resource": "{resource}"}}, "subResource": "{subresource}", "namespace": "shop", "name": "{name}", "object": {{"metadata": {{"name": "{name}"}}}}}}"#
            );
            let document = Document::read(&request).unwrap();
            assert_eq!(announced(text, Some(&Request::read(document.root()).unwrap())), expected);
        };
        let seen = "headroom: low; see kubectl headroom why deployment/web -n shop";
        check("Deployment", "deployments", "web", "low", seen);
        check("Scale", "deployments/scale", "web", "low", seen);
        check("Deployment", "deployments/status", "web", "low", "headroom: low");
        check("Deployment", "deployments", "web-", "low", "headroom: low");
        check("Widget", "widgets", "web", "low", "headroom: low");
        let long = "x".repeat(MAX_WARNING);
        let rest = &seen["headroom: low".len()..];
        let cut_text = "x".repeat(MAX_WARNING - rest.len() - '…'.len_utf8());
        check("Deployment", "deployments", "web", &long, &format!("headroom: {cut_text}…{rest}"));
        let name = "w".repeat(100);
        check("Deployment", "deployments", &name, &long, &format!("headroom: {long}"));
        assert_eq!(announced("low", None), "headroom: low");
        assert_eq!((cut(long.clone() + "y").len(), cut(long.clone())), (MAX_WARNING, long));
    }
}
