//! A report as CSV, for spreadsheets: one row a container and resource, amounts as plain numbers of cores or bytes.

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_output::clean::visible;

use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Workload};
use crate::report::Recommendations;
use crate::report::price::Prices;

const COLUMNS: [&str; 32] = [
    "namespace",
    "kind",
    "name",
    "container",
    "init",
    "pods",
    "resource",
    "unit",
    "request",
    "limit",
    "recommended",
    "recommended_limit",
    "p50",
    "p95",
    "p99",
    "peak",
    "saved",
    "cost_a_month",
    "saved_a_month",
    "currency",
    "days",
    "observed_pods",
    "oom_kills",
    "throttled_percent",
    "restarts",
    "qos",
    "qos_after",
    "image",
    "severity",
    "flags",
    "autoscalers",
    "decided_by",
];

/// As RFC 4180 has it.
pub fn text(report: &Recommendations) -> String {
    let mut text = COLUMNS.join(",") + "\r\n";
    for (of, container) in report.containers() {
        for advice in &container.resources {
            let cells: Vec<String> =
                cells(of, container, advice, &report.prices).iter().map(|cell| quoted(cell)).collect();
            text.push_str(&(cells.join(",") + "\r\n"));
        }
    }
    text
}

fn cells(of: &Workload, container: &ContainerAdvice, advice: &ResourceAdvice, prices: &Prices) -> [String; 32] {
    let is_cpu = advice.resource == Resource::Cpu;
    let plain = |amount: &Quantity| match is_cpu {
        true => (amount.milli_value() as f64 / 1_000.0).to_string(),
        false => amount.value().to_string(),
    };
    let amount = |amount: Option<&Quantity>| amount.map(plain).unwrap_or_default();
    let autoscalers: Vec<String> = of.autoscalers.iter().map(ToString::to_string).collect();
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let money = |amount: Option<&Quantity>| {
        let cost = |amount| match advice.resource {
            Resource::Cpu => prices.money(amount, &Quantity::ZERO),
            Resource::Memory => prices.money(&Quantity::ZERO, amount),
            Resource::EphemeralStorage => None,
        };
        amount.and_then(cost).map(|money| money.to_string()).unwrap_or_default()
    };
    let saved = of.saved_by(container, advice.resource);
    let requested = advice.request.as_ref().map(|request| request.value.times_count(of.pods));
    let used = advice.used.as_ref();
    let [p50, p95, p99] = [500, 950, 990].map(|permille| amount(used.and_then(|used| used.percentile(permille))));
    [
        of.key.namespace.clone(),
        of.key.kind.clone(),
        of.key.name.clone(),
        container.name.clone(),
        container.is_init.to_string(),
        of.pods.to_string(),
        advice.resource.name().to_owned(),
        if is_cpu { "cores" } else { "bytes" }.to_owned(),
        amount(advice.request.as_ref().map(|request| &request.value)),
        amount(advice.limit.as_ref()),
        amount(advice.recommended.as_ref()),
        amount(advice.recommended_limit.as_ref()),
        p50,
        p95,
        p99,
        amount(used.map(|used| used.peak())),
        amount(saved.as_ref()),
        money(requested.as_ref()),
        money(saved.as_ref()),
        prices.currency.as_ref().map(ToString::to_string).unwrap_or_default(),
        number(container.evidence.map(|evidence| evidence.days)),
        number(container.evidence.map(|evidence| evidence.pods)),
        container.oom_kills.to_string(),
        number(container.throttled_percent),
        container.restarts.to_string(),
        of.qos.to_owned(),
        of.qos_after.to_owned(),
        container.image.clone(),
        container.severity.to_string(),
        container.flag_text(),
        autoscalers.join("; "),
        of.decided_by.join("; "),
    ]
}

fn quoted(cell: &str) -> String {
    // In many countries spreadsheets also separate cells by semicolons.
    let guarded: Vec<String> = visible(cell).split(';').map(guarded).collect();
    let guarded = guarded.join(";");
    if guarded.contains(['"', ',']) { format!("\"{}\"", guarded.replace('"', "\"\"")) } else { guarded }
}

/// A spreadsheet takes a text that begins like this for a formula; a number may begin with a sign.
fn guarded(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '@', '＝', '＋', '＠', '－'])
        || (cell.starts_with('-') && !cell.bytes().skip(1).all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'));
    if is_formula { format!("'{cell}") } else { cell.to_owned() }
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
        check("nginx;=1+cmd;b; c", "nginx;'=1+cmd;b; c");
        check("＝1+cmd", "'＝1+cmd");
    }
}
