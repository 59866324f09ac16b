//! Stories at a terminal.

use headroom_dryrun::story::{Check, Container, Field, Story, Taken};

use crate::judge::Verdict;
use crate::output::{Paint, Table};

/// The stories, one after the other.
pub fn text(stories: &[Story], paint: Paint) -> String {
    stories.iter().map(|story| of_story(story, paint)).collect::<Vec<_>>().join("\n")
}

fn of_story(story: &Story, paint: Paint) -> String {
    let mut text = headline(story, paint) + "\n";
    for reason in &story.reasons {
        for part in reason.split("; ") {
            text.push_str(&format!("  {part}\n"));
        }
    }
    for warning in &story.warnings {
        text.push_str(&format!("  {} {warning}\n", paint.doubtful("warning:")));
    }
    for estimate in &story.estimates {
        text.push_str(&format!("  estimate: {estimate}\n"));
    }
    if story.is_of_pods && !story.containers.is_empty() {
        text.push_str("\nEach of its pods:\n");
    }
    for container in &story.containers {
        text.push_str(&of_container(container, paint));
    }
    if !story.in_all.is_empty() {
        let noun = if story.containers.is_empty() { "claim" } else { "pod total" };
        text.push_str(&format!("\n{}\n", paint.strong(noun)));
        for check in &story.in_all {
            let amounts = [("request", &check.request), ("limit", &check.limit)];
            let amounts = amounts.iter().filter_map(|(noun, amount)| Some(format!("{noun} {}", amount.as_ref()?)));
            let amounts: Vec<String> = amounts.collect();
            let amounts = if amounts.is_empty() { "no request or limit".to_owned() } else { amounts.join(", ") };
            text.push_str(&format!("  {}: {amounts}; {}\n", check.resource, told(check, paint).1));
        }
    }
    if !story.quotas.is_empty() {
        let noun = if story.is_of_pods { "all its pods" } else { "this object" };
        let mut table = Table::new(&["QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD", "AVAILABLE"]);
        for taken in &story.quotas {
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
fn headline(story: &Story, paint: Paint) -> String {
    let place = if story.namespace.is_empty() { String::new() } else { format!(" in namespace {}", story.namespace) };
    let verdict = match story.outcome {
        Verdict::Admitted => paint.good(story.verdict),
        Verdict::Changed => paint.fresh(story.verdict),
        Verdict::Refused | Verdict::NotJudged => paint.bad(story.verdict),
    };
    format!("{}{place}: {verdict}", paint.strong(&story.object))
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
