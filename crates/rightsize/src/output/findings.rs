//! A report as findings, for gates and code hosts: SARIF and JUnit.

use std::collections::HashMap;

use headroom_report::junit::Case;
use headroom_report::{Finding, FindingLevel, FindingRule};

use crate::advice::risk::{self, Risk};
use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Workload};
use crate::report::Recommendations;

const KILLED: FindingRule = FindingRule {
    id: "oom-killed",
    title: "A container is OOM-killed",
    help: "Raise the memory limit above the amount at which the container was killed.",
};
const THROTTLED: FindingRule = FindingRule {
    id: "throttled",
    title: "A container is throttled by its CPU limit",
    help: "Raise or remove the CPU limit.",
};
const ABOVE: FindingRule = FindingRule {
    id: "above-request",
    title: "A container uses more than it requests most of the time",
    help: "Raise the request: the node may not have what the container uses.",
};
const OVER: FindingRule = FindingRule {
    id: "over-requested",
    title: "A container requests more than it needs",
    help: "Lower the request to the recommended amount.",
};
const UNDER: FindingRule = FindingRule {
    id: "under-requested",
    title: "A container requests less than it needs",
    help: "Raise the request to the recommended amount.",
};
const MISSING: FindingRule = FindingRule {
    id: "no-request",
    title: "A container requests nothing",
    help: "Set the recommended request: without one the scheduler reserves nothing for the container.",
};
const BLOCKED: FindingRule = FindingRule {
    id: "blocked-recommendation",
    title: "A recommendation would be rejected, or stop its rollout",
    help: "Take the amounts that fit, or raise the bound that is named.",
};
pub const RULES: [&FindingRule; 7] = [&KILLED, &THROTTLED, &ABOVE, &OVER, &UNDER, &MISSING, &BLOCKED];

/// Findings that are errors and not only warnings.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gate {
    /// A request that is off its recommendation by more than so many percent, or missing.
    pub off_by_percent: Option<u64>,
    /// A risk.
    pub risk: bool,
    /// A change that would be blocked.
    pub blocked: bool,
}

/// The risks of a report, and the requests that are off their recommendations.
pub fn of(report: &Recommendations, gate: Gate) -> Vec<Finding> {
    let mut findings: Vec<Finding> = report.risks.iter().map(|risk| of_risk(risk, gate)).collect();
    findings.extend(report.workloads.iter().filter_map(|of| of_blocked(of, gate)));
    for (of, container) in report.containers() {
        for resource in &container.resources {
            findings.extend(finding(of, container, resource, gate.off_by_percent));
        }
    }
    findings
}

fn of_risk(risk: &Risk, gate: Gate) -> Finding {
    let rule = match risk.risk {
        risk::RiskKind::OomKilled => &KILLED,
        risk::RiskKind::Throttled => &THROTTLED,
        risk::RiskKind::AboveRequest => &ABOVE,
        risk::RiskKind::NoRequest => &MISSING,
    };
    let Risk { workload, container, resource, text, fix, .. } = risk;
    Finding {
        rule,
        level: if gate.risk { FindingLevel::Error } else { FindingLevel::Warning },
        text: format!("container {container}: {text}; {fix}"),
        about: about(container, resource.unwrap_or_default()),
        subject: format!("{}/{workload}", workload.namespace),
        origin: None,
    }
}

fn of_blocked(of: &Workload, gate: Gate) -> Option<Finding> {
    Some(Finding {
        rule: &BLOCKED,
        level: if gate.blocked { FindingLevel::Error } else { FindingLevel::Warning },
        text: of.blocked.as_ref()?.to_string(),
        about: String::new(),
        subject: format!("{}/{}", of.key.namespace, of.key),
        origin: None,
    })
}

fn about(container: &str, resource: &str) -> String {
    format!("container {container}: {resource}")
}

fn finding(
    of: &Workload,
    container: &ContainerAdvice,
    resource: &ResourceAdvice,
    above: Option<u64>,
) -> Option<Finding> {
    let recommended = resource.recommended.as_ref()?;
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
        level: if is_above { FindingLevel::Error } else { FindingLevel::Warning },
        text: format!("container {}: {text}", container.name),
        about: about(&container.name, name),
        subject: format!("{}/{}", of.key.namespace, of.key),
        origin: None,
    })
}

/// A test case for each workload.
pub fn cases(report: &Recommendations, findings: &[Finding]) -> Vec<Case> {
    let mut by_subject: HashMap<&str, Vec<Finding>> = HashMap::new();
    findings.iter().for_each(|of| by_subject.entry(&of.subject).or_default().push(of.clone()));
    let case = |of: &Workload| {
        let subject = format!("{}/{}", of.key.namespace, of.key);
        Case {
            name: of.key.to_string(),
            group: of.key.namespace.clone(),
            findings: by_subject.get(subject.as_str()).cloned().unwrap_or_default(),
            is_error: false,
            is_skipped: false,
        }
    };
    report.workloads.iter().map(case).collect()
}
