//! LimitRanges and ResourceQuotas as text, as `kubectl describe` prints them.
//!
//! The caller chooses the objects and prints the text. Where kubectl's order is random, rows are sorted by name.

use std::collections::BTreeSet;
use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::limit_range::LimitRange;
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_output::clean;

const LIMIT_RANGE_HEAD: [&str; 7] =
    ["Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio"];

/// `kubectl describe limitrange`
pub fn limit_range(range: &LimitRange<'_>, namespace: &str) -> String {
    let mut table = Table::default();
    table.row(["Name:", &range.name]);
    table.row(["Namespace:", namespace]);
    table.row(LIMIT_RANGE_HEAD);
    table.row(LIMIT_RANGE_HEAD.map(|title| "-".repeat(title.len())));
    for item in &range.items {
        let lists = [&item.min, &item.max, &item.default_request, &item.default_limit, &item.max_ratio];
        let names: BTreeSet<&str> = lists.iter().flat_map(|list| list.names().map(AsRef::as_ref)).collect();
        for name in names {
            let cells = lists.map(|list| list.get(name).map_or_else(|| "-".to_owned(), ToString::to_string));
            table.row([item.kind.to_string(), name.to_owned()].into_iter().chain(cells));
        }
    }
    table.to_string()
}

/// `kubectl describe resourcequota`
pub fn quota(quota: &ResourceQuota<'_>) -> String {
    let mut table = Table::default();
    table.row(["Name:", &quota.name]);
    table.row(["Namespace:", &quota.namespace]);
    scope_rows(&mut table, quota);
    table.row(["Resource", "Used", "Hard"]);
    table.row(["--------", "----", "----"]);
    for (name, hard) in quota.hard.iter() {
        table.row([name.as_ref(), &used_in_family_of(hard, quota.used.get(name)), &hard.to_string()]);
    }
    table.to_string()
}

fn scope_rows(table: &mut Table, quota: &ResourceQuota<'_>) {
    let mut scopes: Vec<&str> = quota.scopes.iter().map(AsRef::as_ref).collect();
    if scopes.is_empty() {
        return;
    }
    scopes.sort_unstable();
    table.row(["Scopes:".to_owned(), scopes.join(", ")]);
    for help in scopes.into_iter().filter_map(help) {
        table.row([format!(" * {help}")]);
    }
}

fn help(scope: &str) -> Option<&'static str> {
    match scope {
        "Terminating" => Some(
            "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being \
             actively terminated by the system.",
        ),
        "NotTerminating" => Some(
            "Matches all pods that do not have an active deadline. These pods usually include long running pods whose \
             container command is not expected to terminate.",
        ),
        "BestEffort" => Some(
            "Matches all pods that do not have resource requirements set. These pods have a best effort quality of \
             service.",
        ),
        "NotBestEffort" => Some(
            "Matches all pods that have at least one resource requirement set. These pods have a burstable or \
             guaranteed quality of service.",
        ),
        _ => None,
    }
}

/// Usage formatted with the suffixes of its bound. Usage in other suffixes is rounded up to whole units first.
fn used_in_family_of(hard: &Quantity, used: Option<&Quantity>) -> String {
    let used = used.cloned().unwrap_or(Quantity::ZERO);
    if used.family() == hard.family() {
        return used.to_string();
    }
    used.rounded_up_to_units().to_family(hard.family()).to_string()
}

/// Columns of text, each as wide as its widest cell plus two spaces. A column spans adjacent lines that have it; a line without
/// it ends the column. The last cell of a line is not padded and does not widen its column.
#[derive(Debug, Default)]
struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    fn row<C: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.lines.push(cells.into_iter().map(|cell| clean(cell.as_ref()).into_owned()).collect());
    }

    /// The width of a column at a line: of all adjacent lines in which it is not the last column.
    fn width(&self, line: usize, column: usize) -> usize {
        let width_at = |cells: &Vec<String>| {
            let is_padded = cells.len() > column + 1;
            cells.get(column).filter(|_| is_padded).map(|cell| cell.chars().count())
        };
        let (before, after) = self.lines.split_at(line);
        let above = before.iter().rev().map_while(width_at);
        let below = after.iter().map_while(width_at);
        above.chain(below).max().unwrap_or(0) + 2
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, cells) in self.lines.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                if column + 1 == cells.len() {
                    writeln!(f, "{cell}")?;
                } else {
                    write!(f, "{cell:<width$}", width = self.width(line, column))?;
                }
            }
        }
        Ok(())
    }
}
