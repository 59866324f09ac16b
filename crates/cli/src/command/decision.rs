//! A decision at a terminal: where each value comes from, the bounds that apply, and what is taken from quotas.

use headroom_dry_run::evaluate::{
    ChargedAmount, CheckedBound, ContainerValues, ObjectDecision, Operation, ResourceValue, Verdict,
};

use headroom_output::{Page, Paint, Table, people};
use headroom_workloads::kinds::DAEMON_SET;

/// Adds what is below the line that names the object and its verdict.
pub fn add_reasons(page: &mut Page, decision: &ObjectDecision, paint: Paint) {
    for line in decision.reasons.iter().flat_map(|reason| &reason.lines) {
        writeln!(page, "  {line}");
    }
    for warning in &decision.warnings {
        writeln!(page, "  {} {warning}", paint.yellow("warning:"));
    }
    for estimate in &decision.estimates {
        writeln!(page, "  estimate: {estimate}");
    }
}

/// Adds each value with its source, and what is taken from quotas.
pub fn add(page: &mut Page, decision: &ObjectDecision, paint: Paint) {
    if decision.is_of_pods && !decision.containers.is_empty() {
        writeln!(page, "\nEach of its pods:");
    }
    for container in &decision.containers {
        add_container(page, container, paint);
    }
    if !decision.in_all.is_empty() {
        let noun = if decision.containers.is_empty() { "claim" } else { "pod total" };
        writeln!(page, "\n{}", paint.bold(noun));
        for check in &decision.in_all {
            let amounts = [("request", &check.request), ("limit", &check.limit)];
            let amounts = amounts.iter().filter_map(|(noun, amount)| Some(format!("{noun} {}", amount.as_ref()?)));
            let amounts: Vec<String> = amounts.collect();
            let amounts = if amounts.is_empty() { "no request or limit".to_owned() } else { amounts.join(", ") };
            writeln!(page, "  {}: {amounts}; {}", check.resource, bounds_text(check, paint));
        }
    }
    let mut charged = decision.charged().peekable();
    if charged.peek().is_some() {
        let noun = match (decision.is_of_pods, decision.kind.kind == DAEMON_SET.kind, decision.operation) {
            (false, ..) => "this object",
            (_, true, Operation::Create) => "one of its pods (the number of nodes is not known yet)",
            _ => "all its pods",
        };
        let mut table = Table::new(&["QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD", "AVAILABLE"])
            .right(&["USED", "CHANGE", "AFTER", "HARD", "AVAILABLE"])
            .spare(&["USED", "CHANGE"]);
        for (charge, ChargedAmount { name, before, added, used, hard, left }) in charged {
            let [before, added, used, hard, left] = people::row(name, [before, added, used, hard, left]);
            let change = if added.starts_with('-') { added } else { format!("+{added}") };
            let left = if left.starts_with('-') { paint.red(&left) } else { left };
            table.row([charge.quota.clone(), name.clone(), before, change, used, hard, left]);
        }
        writeln!(page, "\n{}", paint.bold(&format!("Quota usage including {noun}")));
        page.indented(table, 2);
    }
}

pub fn verdict(decision: &ObjectDecision, paint: Paint) -> String {
    let name = decision.verdict.to_string();
    match decision.verdict {
        Verdict::Admitted => paint.green(&name),
        Verdict::Changed => paint.cyan(&name),
        Verdict::PodsBlocked => paint.yellow(&name),
        Verdict::NotChecked => paint.dim(&name),
        Verdict::Rejected | Verdict::Invalid | Verdict::Error => paint.red(&name),
    }
}

fn add_container(page: &mut Page, container: &ContainerValues, paint: Paint) {
    let head =
        format!("{}, image {}", paint.bold(&format!("{} {}", container.role.name(), container.name)), container.image);
    if container.values.iter().all(|field| field.value.is_none() && field.checks.is_empty()) {
        return writeln!(page, "\n{head}: no requests and no limits");
    }
    let mut table =
        Table::new(&["FIELD", "VALUE", "STEP", "BOUNDS", "SOURCE"]).right(&["VALUE"]).prose(&["BOUNDS", "SOURCE"]);
    for ResourceValue { field, value, set_by, reason, checks, .. } in &container.values {
        let value = value.as_deref().unwrap_or("-");
        let checks: Vec<String> = checks.iter().map(|check| bounds_text(check, paint)).collect();
        // The reason is at the end, because what an estimate was made of can be long.
        table.row([field.clone(), paint.bold(value), paint.dim(set_by.step()), checks.join(", "), reason.clone()]);
    }
    writeln!(page, "\n{head}");
    page.indented(table, 2);
}

/// `max 1 met (LimitRange limits)`
fn bounds_text(check: &CheckedBound, paint: Paint) -> String {
    let CheckedBound { edge, bound, range, holds, .. } = check;
    let verb = if *holds { "met" } else { "not met" };
    let painted = if *holds { paint.green(verb) } else { paint.red(verb) };
    format!("{edge} {bound} {painted} ({range})")
}
