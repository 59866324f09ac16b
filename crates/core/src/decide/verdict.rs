//! What was decided, and how a refusal words itself.

use std::borrow::Cow;
use std::fmt;

use crate::answer::{annotation, patch};
use crate::context::lookup::Missing;
use crate::json::{Malformed, Node, json_string};
use crate::request::PodTemplate;
use crate::stage::limits::Breach;
use crate::stage::{estimate, quota};

/// The answer to a request.
#[derive(Debug, Clone, Default)]
pub struct Decision<'d> {
    /// Everything that refuses the request, in the order of the steps; empty if it is admitted.
    pub violations: Vec<Violation<'d>>,
    pub warnings: Vec<String>,
    /// Every estimate in words, whether set or only told.
    pub estimates: Vec<estimate::Told>,
    /// The pod as it is to be, if it may be changed.
    pub pod: Option<PodTemplate<'d>>,
    /// What that pod's annotation is to say.
    pub explanation: Option<annotation::Explanation>,
    /// What the request adds to the namespace's quotas, if it is admitted.
    pub charges: Vec<quota::Charge<'d>>,
    /// The most that the pods of a workload add to them while they come.
    pub pod_charges: Vec<quota::Charge<'d>>,
    /// Quotas whose latest usage could change the decision; named only if settings ask for fresh usage.
    pub doubtful_quotas: Vec<Cow<'d, str>>,
}

/// One thing that refuses a request.
#[derive(Debug, Clone)]
pub enum Violation<'d> {
    Unreadable(Malformed),
    MissingContext(Missing<'d>),
    Limits { resource: String, name: String, is_workload: bool, breaches: Vec<Breach<'d>> },
    Quotas { resource: String, name: String, is_workload: bool, breaches: Vec<quota::Breach<'d>> },
}

/// Longer warnings may be cut on their way to the person.
const LONGEST_WARNING: usize = 256;

impl<'d> Decision<'d> {
    /// For what is not ours to judge.
    pub fn out_of_scope() -> Self {
        Self::default()
    }

    pub(super) fn admitting() -> Self {
        Self::default()
    }

    pub fn refusing(violations: Vec<Violation<'d>>) -> Self {
        Self { violations, ..Self::default() }
    }

    pub fn is_admitted(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds a warning, cut to what reaches the person.
    pub(super) fn warn(&mut self, mut warning: String) {
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

    /// Takes the pod as it is to be.
    pub(super) fn change(&mut self, pod: PodTemplate<'d>) {
        self.explanation = annotation::write(&pod);
        self.pod = Some(pod);
    }

    /// All reasons for a refusal, in one text.
    pub fn message(&self) -> String {
        self.violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// The object with our changes in it, if it is admitted and there are any.
    pub fn changed_object(&self, object: Node<'_>) -> Result<Option<String>, Malformed> {
        let mut text = String::new();
        Ok(self.write_changed_object(&mut text, "", object)?.then_some(text))
    }

    /// Writes that object after `begin`; nothing, and false, if there is none.
    pub fn write_changed_object(&self, out: &mut String, begin: &str, object: Node<'_>) -> Result<bool, Malformed> {
        match &self.pod {
            Some(pod) if self.is_admitted() => patch::write(out, begin, object, pod, self.explanation.as_ref()),
            _ => Ok(false),
        }
    }

    /// What the audit log keeps: where our values came from, each as a JSON string.
    pub fn audit_annotations(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let resources = self.explanation.as_ref().map(|explanation| Cow::Borrowed(explanation.json.as_str()));
        // Those that are set stand in that annotation too.
        let says_all = self.explanation.as_ref().is_some_and(|explanation| explanation.is_full);
        let untold: Vec<&str> =
            self.estimates.iter().filter(|told| !(told.is_set && says_all)).map(|told| told.text.as_str()).collect();
        let estimates = (!untold.is_empty()).then(|| Cow::Owned(json_string(&untold.join("\n"))));
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
                let told = told_apart(breaches);
                write!(f, "{resource} \"{name}\" is forbidden: {whose}")?;
                match told.as_slice() {
                    [(text, _)] => f.write_str(text)?,
                    several => {
                        let texts: Vec<&str> = several.iter().map(|(text, _)| text.as_str()).collect();
                        write!(f, "[{}]", texts.join(", "))?;
                    }
                }
                told.iter().try_for_each(|(_, advice)| write!(f, "; {advice}"))
            }
            Self::Quotas { resource, name, is_workload, breaches } => {
                let Some(first) = breaches.first() else { return Ok(()) };
                if first.names_object() {
                    let whose = if *is_workload { "its pods would be refused: " } else { "" };
                    write!(f, "{resource} \"{name}\" is forbidden: {whose}")?;
                }
                // Kubernetes tells the first reason only, so its words come first; then all reasons in ours.
                write!(f, "{first}")?;
                breaches.iter().try_for_each(|breach| write!(f, "; {}", breach.advice()))
            }
        }
    }
}

/// Breaches as a person reads them: Kubernetes' text, each only once, and what whom it concerns can do.
pub(super) fn told_apart(breaches: &[Breach<'_>]) -> Vec<(String, String)> {
    let mut told: Vec<Told> = Vec::new();
    for breach in breaches {
        let (text, advice, subject) = (breach.to_string(), breach.advice(), breach.subject.to_string());
        match told.iter_mut().find(|have| have.text == text) {
            Some(have) => have.add(advice, subject),
            None => told.push(Told { text, advices: vec![(advice, vec![subject])] }),
        }
    }
    told.into_iter().map(Told::worded).collect()
}

/// One text of Kubernetes, and each advice on it with the subjects that it concerns.
struct Told {
    text: String,
    advices: Vec<(String, Vec<String>)>,
}

impl Told {
    fn add(&mut self, advice: String, subject: String) {
        match self.advices.iter_mut().find(|(have, _)| *have == advice) {
            Some((_, subjects)) => subjects.push(subject),
            None => self.advices.push((advice, vec![subject])),
        }
    }

    fn worded(self) -> (String, String) {
        let parts = self.advices.into_iter().map(|(advice, subjects)| format!("{}: {advice}", subjects.join(", ")));
        (self.text, parts.collect::<Vec<_>>().join("; "))
    }
}
