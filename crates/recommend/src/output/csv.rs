//! A report as CSV, for spreadsheets: one row a container and resource, amounts as plain numbers of cores or bytes.

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_output::clean::visible;

use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Workload};
use crate::report::Recommendations;
use crate::report::price::Prices;

/// A row: one resource of a container.
struct CsvRow<'r> {
    of: &'r Workload,
    container: &'r ContainerAdvice,
    advice: &'r ResourceAdvice,
    prices: &'r Prices,
}

type Cell = fn(&CsvRow<'_>) -> String;

const COLUMNS: [(&str, Cell); 32] = [
    ("namespace", |row| row.of.key.namespace.clone()),
    ("kind", |row| row.of.key.kind.clone()),
    ("name", |row| row.of.key.name.clone()),
    ("container", |row| row.container.name.clone()),
    ("init", |row| row.container.is_init.to_string()),
    ("pods", |row| row.of.pods.to_string()),
    ("resource", |row| row.advice.resource.name().to_owned()),
    ("unit", |row| if row.is_cpu() { "cores" } else { "bytes" }.to_owned()),
    ("request", |row| row.amount(row.advice.request.as_ref().map(|request| &request.value))),
    ("limit", |row| row.amount(row.advice.limit.as_ref())),
    ("recommended", |row| row.amount(row.advice.recommended.as_ref())),
    ("recommended_limit", |row| row.amount(row.advice.recommended_limit.as_ref())),
    ("p50", |row| row.percentile(500)),
    ("p95", |row| row.percentile(950)),
    ("p99", |row| row.percentile(990)),
    ("peak", |row| row.amount(row.advice.used.as_ref().map(|used| used.peak()))),
    ("saved", |row| row.amount(row.saved().as_ref())),
    ("cost_a_month", |row| {
        row.money(row.advice.request.as_ref().map(|request| request.value.times_count(row.of.pods)))
    }),
    ("saved_a_month", |row| row.money(row.saved())),
    ("currency", |row| row.prices.currency.clone().unwrap_or_default()),
    ("days", |row| number(row.container.evidence.map(|evidence| evidence.days))),
    ("observed_pods", |row| number(row.container.evidence.map(|evidence| evidence.pods))),
    ("oom_kills", |row| row.container.oom_kills.to_string()),
    ("throttled_percent", |row| number(row.container.throttled_percent)),
    ("restarts", |row| row.container.restarts.to_string()),
    ("qos", |row| row.of.qos.to_owned()),
    ("qos_after", |row| row.of.qos_after.to_owned()),
    ("image", |row| row.container.image.clone()),
    ("severity", |row| row.container.severity.to_string()),
    ("flags", |row| row.container.flag_text()),
    ("autoscalers", |row| row.of.autoscalers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    ("decided_by", |row| row.of.decided_by.join("; ")),
];

/// As RFC 4180 has it.
pub fn text(report: &Recommendations) -> String {
    let mut text = COLUMNS.map(|(name, _)| name).join(",") + "\r\n";
    for (of, container) in report.containers() {
        for advice in &container.resources {
            let row = CsvRow { of, container, advice, prices: &report.prices };
            text.push_str(&(COLUMNS.map(|(_, cell)| quoted(&cell(&row))).join(",") + "\r\n"));
        }
    }
    text
}

impl CsvRow<'_> {
    fn is_cpu(&self) -> bool {
        self.advice.resource == Resource::Cpu
    }

    fn amount(&self, amount: Option<&Quantity>) -> String {
        let plain = |amount: &Quantity| match self.is_cpu() {
            true => (amount.milli_value() as f64 / 1_000.0).to_string(),
            false => amount.value().to_string(),
        };
        amount.map(plain).unwrap_or_default()
    }

    fn percentile(&self, permille: u16) -> String {
        self.amount(self.advice.used.as_ref().and_then(|used| used.percentile(permille)))
    }

    fn saved(&self) -> Option<Quantity> {
        self.of.saved_by(self.container, self.advice.resource)
    }

    fn money(&self, amount: Option<Quantity>) -> String {
        let cost = |amount| match self.advice.resource {
            Resource::Cpu => self.prices.money(&amount, &Quantity::ZERO),
            Resource::Memory => self.prices.money(&Quantity::ZERO, &amount),
            Resource::EphemeralStorage => None,
        };
        amount.and_then(cost).map(|money| money.to_string()).unwrap_or_default()
    }
}

fn number(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
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
