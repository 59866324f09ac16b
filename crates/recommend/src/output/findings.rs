//! The findings for which `--fail-on` fails a run: risks, requests that are off, and changes that would be blocked.

use headroom_workloads::WorkloadRef;

use crate::advice::workload::{ContainerAdvice, ResourceAdvice};
use crate::report::Recommendations;

#[derive(Debug, Clone, Copy, Default)]
pub struct Gate {
    /// A request that is off its recommendation by more than so many percent, or missing.
    pub off_by_percent: Option<u64>,
    pub risk: bool,
    pub blocked: bool,
}

/// The findings of a report that the gate stops: `shop/deployment/web: container nginx: no cpu request; recommended 155m`
pub fn of(report: &Recommendations, gate: Gate) -> Vec<String> {
    let failure = |of: &WorkloadRef, text: &str| format!("{}/{of}: {text}", of.namespace);
    let mut failures = Vec::new();
    if gate.risk {
        failures.extend(report.risks.iter().map(|risk| {
            failure(&risk.workload, &format!("container {}: {}; {}", risk.container, risk.text, risk.fix))
        }));
    }
    if gate.blocked {
        let blocked = report.workloads.iter().filter_map(|of| Some((of, of.blocked.as_ref()?)));
        failures.extend(blocked.map(|(of, blocked)| failure(&of.key, &blocked.to_string())));
    }
    let Some(most) = gate.off_by_percent else { return failures };
    for (of, container) in report.containers() {
        let off = container.resources.iter().filter_map(|resource| off_by(container, resource, most));
        failures.extend(off.map(|text| failure(&of.key, &text)));
    }
    failures
}

fn off_by(container: &ContainerAdvice, resource: &ResourceAdvice, most: u64) -> Option<String> {
    let recommended = resource.recommended.as_ref()?;
    let name = resource.resource.name();
    let text = if let Some(current) = &resource.request {
        let percent = resource.off_by_percent().filter(|percent| percent.unsigned_abs() > most)?;
        let (off, way) = (percent.unsigned_abs(), if percent > 0 { "above" } else { "below" });
        format!("{name} request {} is {off}% {way} the recommended {recommended}", current.value)
    } else {
        format!("no {name} request; recommended {recommended}")
    };
    Some(format!("container {}: {text}", container.name))
}
