//! A report for programs: CSV, Markdown, and findings for gates.

use super::report::{ContainerRow, Report, ResourceRow, Row};
use super::table;
use crate::output::junit::Case;
use crate::output::{Finding, Level, Rule};

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

/// The columns, one row a container and resource, amounts as Kubernetes writes them.
const COLUMNS: [&str; 24] = [
    "namespace",
    "kind",
    "name",
    "container",
    "init",
    "pods",
    "resource",
    "request",
    "limit",
    "recommended",
    "recommended_limit",
    "p50",
    "p95",
    "p99",
    "peak",
    "saved",
    "days",
    "observed_pods",
    "oom_kills",
    "throttled_percent",
    "restarts",
    "qos",
    "qos_after",
    "image",
];

/// As RFC 4180 has it.
pub fn csv(report: &Report, has_header: bool) -> String {
    let mut text = if has_header { COLUMNS.join(",") + "\r\n" } else { String::new() };
    for (row, container) in report.containers() {
        for resource in &container.resources {
            let cells: Vec<String> = cells(row, container, resource).iter().map(|cell| quoted(cell)).collect();
            text.push_str(&(cells.join(",") + "\r\n"));
        }
    }
    text
}

fn cells(row: &Row, container: &ContainerRow, resource: &ResourceRow) -> [String; 24] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let used = resource.used.as_ref();
    let [p50, p95, p99, peak] = match used {
        Some(used) => [&used.p50, &used.p95, &used.p99, &used.peak].map(ToString::to_string),
        None => <[String; 4]>::default(),
    };
    [
        row.namespace.clone(),
        row.kind.clone(),
        row.name.clone(),
        container.name.clone(),
        container.is_init.to_string(),
        row.pods.to_string(),
        resource.resource.to_owned(),
        resource.request.as_ref().map(|current| current.value.clone()).unwrap_or_default(),
        text(&resource.limit),
        text(&resource.recommended),
        text(&resource.recommended_limit),
        p50,
        p95,
        p99,
        peak,
        resource.saved().map(|saved| saved.to_string()).unwrap_or_default(),
        number(container.evidence.map(|evidence| evidence.days)),
        number(container.evidence.map(|evidence| evidence.pods)),
        container.oom_kills.to_string(),
        number(container.throttled_percent),
        container.restarts.to_string(),
        row.qos.to_owned(),
        row.qos_after.to_owned(),
        container.image.clone(),
    ]
}

/// A spreadsheet takes a text that begins like this for a formula; a number may begin with a sign.
fn quoted(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '@', '\t'])
        || (cell.starts_with('-') && !cell.bytes().skip(1).all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'));
    let guarded = if is_formula { format!("'{cell}") } else { cell.to_owned() };
    if guarded.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", guarded.replace('"', "\"\"")) } else { guarded }
}

/// A table for a pull request or a wiki.
pub fn markdown(report: &Report) -> String {
    let mut text = String::from(
        "| Namespace | Workload | Container | Pods | CPU request | CPU p95 | Memory request | Memory peak | Saved | Flags |\n\
         |---|---|---|---:|---|---:|---|---:|---|---|\n",
    );
    for (row, container) in report.containers() {
        let request = |name: &str| {
            let Some(resource) = container.resource(name) else { return "-".to_owned() };
            let current = resource.request.as_ref().map_or("-", |current| current.value.as_str());
            match resource.to_write() {
                Some(recommended) => format!("{current} → **{recommended}**"),
                None => current.to_owned(),
            }
        };
        let used = |name: &str| {
            let used = container.resource(name).and_then(|resource| resource.used.as_ref());
            used.map_or_else(
                || "-".to_owned(),
                |used| table::short(name, if name == "cpu" { &used.p95 } else { &used.peak }),
            )
        };
        let saved =
            |name: &str| container.saved(name).map_or_else(|| "-".to_owned(), |saved| table::short(name, &saved));
        let cells = [
            row.namespace.clone(),
            row.told(),
            container.name.clone(),
            row.pods.to_string(),
            request("cpu"),
            used("cpu"),
            request("memory"),
            used("memory"),
            format!("{}, {}", saved("cpu"), saved("memory")),
            table::flags(row, container).join(", "),
        ];
        text.push_str(&format!("| {} |\n", cells.map(|cell| escaped(&cell)).join(" | ")));
    }
    let total = &report.total;
    text.push_str(&format!(
        "\n**Saved in total:** {} CPU, {} memory{}\n",
        table::short("cpu", &total.cpu.saved),
        table::short("memory", &total.memory.saved),
        total.saved_a_month.map(|money| format!(", {money} per month")).unwrap_or_default()
    ));
    let notes = table::notes(report);
    if !notes.is_empty() {
        text.push('\n');
    }
    notes.iter().for_each(|note| text.push_str(&format!("- {}\n", escaped(note))));
    text
}

/// Nothing in a cell may end it, or be markup.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('`', "\\`");
    text.replace(['\n', '\r'], " ")
}

/// What a gate looks at: an error where a request is off its recommendation by more than so many percent, or missing.
/// Without a bound nothing is more than a warning.
pub fn findings(report: &Report, above: Option<u64>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (row, container) in report.containers() {
        for resource in &container.resources {
            findings.extend(finding(row, container, resource, above));
        }
    }
    findings
}

fn finding(row: &Row, container: &ContainerRow, resource: &ResourceRow, above: Option<u64>) -> Option<Finding> {
    let recommended = resource.recommended.as_ref().filter(|_| resource.is_measured)?;
    let name = resource.resource;
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
        subject: format!("{}/{}", row.namespace, row.told()),
        origin: None,
    })
}

/// A test case for each workload.
pub fn cases(report: &Report, findings: &[Finding]) -> Vec<Case> {
    let case = |row: &Row| {
        let subject = format!("{}/{}", row.namespace, row.told());
        Case {
            name: row.told(),
            group: row.namespace.clone(),
            findings: findings.iter().filter(|finding| finding.subject == subject).cloned().collect(),
            is_error: false,
        }
    };
    report.workloads.iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_becomes_a_formula_or_ends_early() {
        let check = |cell: &str, expected: &str| assert_eq!(quoted(cell), expected);
        check("web", "web");
        check("-120m", "-120m");
        check("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0");
        check("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\"");
        check("a,b", "\"a,b\"");
        assert_eq!(escaped("a|b\n<c> `d`"), "a\\|b &lt;c> \\`d\\`");
    }
}
