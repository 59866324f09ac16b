//! A decision at a terminal: where each value comes from, the bounds that apply, and what is taken from quotas.

use headroom_dryrun::evaluate::Verdict;
use headroom_dryrun::explanation::{Check, Container, Explanation, Field, Taken};

use headroom_report::{Page, Paint, Table, people};

/// Adds what is below the line that names the object and its verdict.
pub fn add_reasons(page: &mut Page, explanation: &Explanation, paint: Paint) {
    for reason in &explanation.reasons {
        for part in reason.split("; ") {
            writeln!(page, "  {part}");
        }
    }
    for warning in &explanation.warnings {
        writeln!(page, "  {} {warning}", paint.yellow("warning:"));
    }
    for estimate in &explanation.estimates {
        writeln!(page, "  estimate: {estimate}");
    }
}

/// Adds each value with its source, and what is taken from quotas.
pub fn add(page: &mut Page, explanation: &Explanation, paint: Paint) {
    if explanation.is_of_pods && !explanation.containers.is_empty() {
        writeln!(page, "\nEach of its pods:");
    }
    for container in &explanation.containers {
        add_container(page, container, paint);
    }
    if !explanation.in_all.is_empty() {
        let noun = if explanation.containers.is_empty() { "claim" } else { "pod total" };
        writeln!(page, "\n{}", paint.bold(noun));
        for check in &explanation.in_all {
            let amounts = [("request", &check.request), ("limit", &check.limit)];
            let amounts = amounts.iter().filter_map(|(noun, amount)| Some(format!("{noun} {}", amount.as_ref()?)));
            let amounts: Vec<String> = amounts.collect();
            let amounts = if amounts.is_empty() { "no request or limit".to_owned() } else { amounts.join(", ") };
            writeln!(page, "  {}: {amounts}; {}", check.resource, bounds_text(check, paint));
        }
    }
    if !explanation.quotas.is_empty() {
        let noun = if explanation.is_of_pods { "all its pods" } else { "this object" };
        let mut table = Table::new(&["QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD", "AVAILABLE"])
            .right(&["USED", "CHANGE", "AFTER", "HARD", "AVAILABLE"])
            .spare(&["USED", "CHANGE"]);
        for taken in &explanation.quotas {
            let Taken { quota, name, before, adds, after, hard, left } = taken;
            let [before, adds, after, hard, left] = people::row(name, [before, adds, after, hard, left]);
            let change = if adds.starts_with('-') { adds } else { format!("+{adds}") };
            let left = if left.starts_with('-') { paint.red(&left) } else { left };
            table.row([quota.clone(), name.clone(), before, change, after, hard, left]);
        }
        writeln!(page, "\n{}", paint.bold(&format!("Quota usage including {noun}")));
        page.indented(table, 2);
    }
}

/// The verdict in its colour.
pub fn verdict(explanation: &Explanation, paint: Paint) -> String {
    let name = explanation.verdict.name();
    match explanation.verdict {
        Verdict::Admitted => paint.green(name),
        Verdict::Changed => paint.cyan(name),
        Verdict::PodsBlocked => paint.yellow(name),
        Verdict::NotChecked => paint.dim(name),
        Verdict::Rejected | Verdict::Invalid | Verdict::Error => paint.red(name),
    }
}

fn add_container(page: &mut Page, container: &Container, paint: Paint) {
    let head = format!("{}, image {}", paint.bold(&format!("{} {}", container.role, container.name)), container.image);
    if container.values.iter().all(|field| field.value.is_none() && field.checks.is_empty()) {
        return writeln!(page, "\n{head}: no requests and no limits");
    }
    let mut table =
        Table::new(&["FIELD", "VALUE", "STEP", "BOUNDS", "SOURCE"]).right(&["VALUE"]).prose(&["BOUNDS", "SOURCE"]);
    for Field { field, value, step, reason, checks, usage: _ } in &container.values {
        let value = value.as_deref().unwrap_or("-");
        let checks: Vec<String> = checks.iter().map(|check| bounds_text(check, paint)).collect();
        // The reason is at the end, because what an estimate was made of can be long.
        table.row([field.clone(), paint.bold(value), paint.dim(step), checks.join(", "), reason.clone()]);
    }
    writeln!(page, "\n{head}");
    page.indented(table, 2);
}

/// `max 1 met (LimitRange limits)`
fn bounds_text(check: &Check, paint: Paint) -> String {
    let Check { edge, bound, range, holds, .. } = check;
    let verb = if *holds { "met" } else { "not met" };
    let painted = if *holds { paint.green(verb) } else { paint.red(verb) };
    format!("{edge} {bound} {painted} ({range})")
}
