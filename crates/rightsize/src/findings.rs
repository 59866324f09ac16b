//! A report as findings, for gates and code hosts: SARIF and JUnit.

use headroom_report::junit::Case;
use headroom_report::{Finding, Level, Rule};

use super::report::{Container, Report, ResourceAdvice, Workload};

const OVER: Rule = Rule {
    id: "over-requested",
    title: "A container requests more than it needs",
    help: "Lower the request to the recommended amount.",
};
const UNDER: Rule = Rule {
    id: "under-requested",
    title: "A container requests less than it needs",
    help: "Raise the request to the recommended amount.",
};
const MISSING: Rule = Rule {
    id: "no-request",
    title: "A container requests nothing",
    help: "Set the recommended request: without one the scheduler reserves nothing for the container.",
};
pub const RULES: [&Rule; 3] = [&OVER, &UNDER, &MISSING];

/// What a gate looks at: an error where a request is off its recommendation by more than so many percent, or missing.
/// Without a bound nothing is more than a warning.
pub fn of(report: &Report, above: Option<u64>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (of, container) in report.containers() {
        for resource in &container.resources {
            findings.extend(finding(of, container, resource, above));
        }
    }
    findings
}

fn finding(of: &Workload, container: &Container, resource: &ResourceAdvice, above: Option<u64>) -> Option<Finding> {
    let recommended = resource.recommended.as_ref().filter(|_| resource.is_measured())?;
    let name = resource.resource.name();
    let (rule, is_above, text) = match (&resource.request, resource.off_by_percent()) {
        (None, _) => (&MISSING, above.is_some(), format!("no {name} request; recommended {recommended}")),
        (Some(_), None | Some(0)) => return None,
        (Some(current), Some(percent)) => {
            let rule = if percent > 0 { &OVER } else { &UNDER };
            let way = if percent > 0 { "above" } else { "below" };
            let off = percent.unsigned_abs();
            let text = format!("{name} request {} is {off}% {way} the recommended {recommended}", current.value);
            (rule, above.is_some_and(|above| off > above), text)
        }
    };
    Some(Finding {
        rule,
        level: if is_above { Level::Error } else { Level::Warning },
        text: format!("container {}: {text}", container.name),
        subject: format!("{}/{}", of.key.namespace, of.key),
        origin: None,
    })
}

/// A test case for each workload.
pub fn cases(report: &Report, findings: &[Finding]) -> Vec<Case> {
    let case = |of: &Workload| {
        let subject = format!("{}/{}", of.key.namespace, of.key);
        Case {
            name: of.key.to_string(),
            group: of.key.namespace.clone(),
            findings: findings.iter().filter(|finding| finding.subject == subject).cloned().collect(),
            is_error: false,
        }
    };
    report.workloads.iter().map(case).collect()
}
