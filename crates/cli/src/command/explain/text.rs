//! Stories at a terminal.

use headroom_dryrun::explanation::{Check, Container, Explanation, Field, Taken};
use headroom_dryrun::judge::Verdict;

use headroom_report::{Paint, Table};

/// The explanations, one after the other.
pub fn table(explanations: &[Explanation], paint: Paint) -> String {
    explanations.iter().map(|explanation| of_explanation(explanation, paint)).collect::<Vec<_>>().join("\n")
}

fn of_explanation(explanation: &Explanation, paint: Paint) -> String {
    let mut text = headline(explanation, paint) + "\n";
    for reason in &explanation.reasons {
        for part in reason.split("; ") {
            text.push_str(&format!("  {part}\n"));
        }
    }
    for warning in &explanation.warnings {
        text.push_str(&format!("  {} {warning}\n", paint.doubtful("warning:")));
    }
    for estimate in &explanation.estimates {
        text.push_str(&format!("  estimate: {estimate}\n"));
    }
    if explanation.is_of_pods && !explanation.containers.is_empty() {
        text.push_str("\nEach of its pods:\n");
    }
    for container in &explanation.containers {
        text.push_str(&of_container(container, paint));
    }
    if !explanation.in_all.is_empty() {
        let noun = if explanation.containers.is_empty() { "claim" } else { "pod total" };
        text.push_str(&format!("\n{}\n", paint.strong(noun)));
        for check in &explanation.in_all {
            let amounts = [("request", &check.request), ("limit", &check.limit)];
            let amounts = amounts.iter().filter_map(|(noun, amount)| Some(format!("{noun} {}", amount.as_ref()?)));
            let amounts: Vec<String> = amounts.collect();
            let amounts = if amounts.is_empty() { "no request or limit".to_owned() } else { amounts.join(", ") };
            text.push_str(&format!("  {}: {amounts}; {}\n", check.resource, told(check, paint).1));
        }
    }
    if !explanation.quotas.is_empty() {
        let noun = if explanation.is_of_pods { "all its pods" } else { "this object" };
        let mut table = Table::new(&["QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD", "AVAILABLE"]);
        for taken in &explanation.quotas {
            let Taken { quota, name, before, adds, after, hard, left } = taken;
            let change = if adds.starts_with('-') { adds.clone() } else { format!("+{adds}") };
            let painted = if left.starts_with('-') { paint.bad(left) } else { left.clone() };
            let cells = [quota, name, before, &change, after, hard].map(|cell| (cell.clone(), cell.clone()));
            table.painted_row(cells.into_iter().chain([(left.clone(), painted)]));
        }
        text.push_str(&format!("\n{}\n", paint.strong(&format!("Quota usage including {noun}"))));
        table.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}

/// `pod/migrate in namespace shop: changed, 3 values are filled in`
fn headline(explanation: &Explanation, paint: Paint) -> String {
    let place = if explanation.namespace.is_empty() {
        String::new()
    } else {
        format!(" in namespace {}", explanation.namespace)
    };
    let verdict = match explanation.outcome {
        Verdict::Admitted => paint.good(explanation.verdict),
        Verdict::Changed => paint.fresh(explanation.verdict),
        Verdict::PodsBlocked => paint.doubtful(explanation.verdict),
        Verdict::NotChecked => paint.faint(explanation.verdict),
        Verdict::Rejected | Verdict::Invalid | Verdict::Error => paint.bad(explanation.verdict),
    };
    format!("{}{place}: {verdict}", paint.strong(&explanation.object))
}

fn of_container(container: &Container, paint: Paint) -> String {
    let mut table = Table::new(&["FIELD", "VALUE", "STEP", "BOUNDS", "SOURCE"]);
    for Field { field, value, step, reason, checks } in &container.values {
        let value = value.as_deref().unwrap_or("-");
        let checks: Vec<(String, String)> = checks.iter().map(|check| told(check, paint)).collect();
        let join = |texts: Vec<&str>| texts.join(", ");
        table.painted_row([
            (field.clone(), field.clone()),
            (value.to_owned(), paint.strong(value)),
            ((*step).to_owned(), paint.faint(step)),
            (
                join(checks.iter().map(|(bare, _)| bare.as_str()).collect()),
                join(checks.iter().map(|(_, painted)| painted.as_str()).collect()),
            ),
            // At the end, because what an estimate was made of can be long.
            (reason.clone(), reason.clone()),
        ]);
    }
    let head = format!("{} {}", container.role, container.name);
    let mut text = format!("\n{}, image {}\n", paint.strong(&head), container.image);
    table.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    text
}

/// `max 1 met (LimitRange limits)`
fn told(check: &Check, paint: Paint) -> (String, String) {
    let Check { edge, bound, range, holds, .. } = check;
    let verb = if *holds { "met" } else { "not met" };
    let painted = if *holds { paint.good(verb) } else { paint.bad(verb) };
    (format!("{edge} {bound} {verb} ({range})"), format!("{edge} {bound} {painted} ({range})"))
}
