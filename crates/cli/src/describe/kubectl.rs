//! LimitRanges and ResourceQuotas as text, as `kubectl describe` and `kubectl get` print them.
//!
//! The caller chooses the objects and prints the text. Where kubectl's order is random, rows are sorted by name.

mod table;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::limit_range::{Item, LimitRange};
use headroom_admission::cluster::resource_quota::ResourceQuota;
use table::Table;

const LIMIT_RANGE_HEAD: [&str; 7] =
    ["Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio"];

/// `kubectl describe limitrange`
pub fn limit_range(range: &LimitRange<'_>, namespace: &str) -> String {
    let mut table = Table::default();
    table.row("", ["Name:", &range.name]);
    table.row("", ["Namespace:", namespace]);
    limit_rows(&mut table, "", std::slice::from_ref(range));
    table.to_string()
}

/// `kubectl describe resourcequota`
pub fn quota(quota: &ResourceQuota<'_>) -> String {
    let mut table = Table::default();
    table.row("", ["Name:", &quota.name]);
    table.row("", ["Namespace:", &quota.namespace]);
    scope_rows(&mut table, "", quota);
    table.row("", ["Resource", "Used", "Hard"]);
    table.row("", ["--------", "----", "----"]);
    for (name, hard) in quota.hard.iter() {
        table.row("", [name.as_ref(), &used_in_family_of(hard, quota.used.get(name)), &hard.to_string()]);
    }
    table.to_string()
}

/// The blocks of `kubectl describe namespace` about quotas and limits.
pub fn namespace(quotas: &[ResourceQuota<'_>], ranges: &[LimitRange<'_>]) -> String {
    let mut table = Table::default();
    if quotas.is_empty() {
        table.line("No resource quota.");
    } else {
        table.line("Resource Quotas");
    }
    let mut sorted: Vec<&ResourceQuota<'_>> = quotas.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    for quota in sorted {
        table.row("  ", ["Name:", &quota.name]);
        scope_rows(&mut table, "  ", quota);
        table.row("  ", ["Resource", "Used", "Hard"]);
        table.row("  ", ["--------", "---", "---"]);
        for (name, hard) in quota.hard.iter() {
            table.row("  ", [name.as_ref(), &used_as_stored(&quota.used, name), &hard.to_string()]);
        }
    }
    table.line("");
    if ranges.is_empty() {
        table.line("No LimitRange resource.");
    } else {
        table.line("Resource Limits");
        limit_rows(&mut table, " ", ranges);
    }
    table.to_string()
}

/// The columns REQUEST and LIMIT of `kubectl get resourcequota`.
pub fn quota_cells(quota: &ResourceQuota<'_>) -> (String, String) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in quota.hard.iter() {
        let cell = format!("{name}: {}/{hard}", used_as_stored(&quota.used, name));
        if name.starts_with("limits.") { limits.push(cell) } else { requests.push(cell) }
    }
    (requests.join(", "), limits.join(", "))
}

fn limit_rows(table: &mut Table, indent: &'static str, ranges: &[LimitRange<'_>]) {
    table.row(indent, LIMIT_RANGE_HEAD);
    table.row(indent, LIMIT_RANGE_HEAD.map(|title| "-".repeat(title.len())));
    for item in ranges.iter().flat_map(|range| &range.items) {
        let lists = [&item.min, &item.max, &item.default_request, &item.default_limit, &item.max_ratio];
        for name in names(item) {
            let cells = lists.map(|list| list.get(name).map_or_else(|| "-".to_owned(), ToString::to_string));
            table.row(indent, [item.kind.to_string(), name.to_owned()].into_iter().chain(cells));
        }
    }
}

/// All names in an item, sorted and without duplicates.
fn names<'a>(item: &'a Item<'_>) -> Vec<&'a str> {
    let lists = [&item.min, &item.max, &item.default_limit, &item.default_request, &item.max_ratio];
    let mut names: Vec<&str> = lists.into_iter().flat_map(|list| list.names().map(AsRef::as_ref)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn scope_rows(table: &mut Table, indent: &'static str, quota: &ResourceQuota<'_>) {
    let mut scopes: Vec<&str> = quota.scopes.iter().map(AsRef::as_ref).collect();
    if scopes.is_empty() {
        return;
    }
    scopes.sort_unstable();
    table.row(indent, ["Scopes:".to_owned(), scopes.join(", ")]);
    let indent = if indent.is_empty() { " " } else { indent };
    for help in scopes.into_iter().filter_map(help) {
        table.line(&format!("{indent}* {help}"));
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

fn used_as_stored(used: &ResourceList<'_>, name: &str) -> String {
    used.get(name).map_or_else(|| "0".to_owned(), ToString::to_string)
}
