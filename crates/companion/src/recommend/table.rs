//! Advice for a terminal: a table, where each number comes from, and what it all does to the quotas.

use headroom_core::cluster::usage::Percentile;

use super::{Advice, ContainerAdvice, Current, History, ResourceAdvice, Workload};
use crate::draw::Charset;
use crate::output::{Paint, Table};

/// So few containers are drawn at length.
const FEW: usize = 2;

/// What the terminal can show.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub charset: Charset,
    pub paint: Paint,
}

pub fn text(advice: &Advice, view: View) -> String {
    let mut text = String::new();
    let mut table =
        Table::new(&["NAMESPACE", "OBJECT", "CONTAINER", "RESOURCE", "CURRENT", "RECOMMENDED", "CHANGE", "P50-PEAK"]);
    for (workload, container) in containers(advice) {
        container.resources.iter().for_each(|resource| table.painted_row(row(workload, container, resource, view)));
    }
    text.push_str(&table.to_string());
    text.push_str("\nSources:\n");
    for (workload, container) in containers(advice) {
        container.resources.iter().for_each(|resource| text.push_str(&reason(workload, container, resource)));
    }
    if containers(advice).count() <= FEW {
        containers(advice).for_each(|(workload, container)| plots(&mut text, workload, container, view.charset));
    }
    quotas(&mut text, advice, view.paint);
    let notes = notes(advice);
    if !notes.is_empty() {
        text.push('\n');
    }
    notes.iter().for_each(|note| text.push_str(&format!("Note: {note}\n")));
    text
}

/// Each note once, with the objects that it is about in front.
pub(super) fn notes(advice: &Advice) -> Vec<String> {
    let mut about: Vec<(&str, Vec<String>)> = Vec::new();
    for workload in &advice.workloads {
        for note in workload.notes.iter().map(String::as_str).chain(workload.assumption) {
            match about.iter_mut().find(|(have, _)| *have == note) {
                Some((_, objects)) => objects.push(workload.told()),
                None => about.push((note, vec![workload.told()])),
            }
        }
    }
    let scaled = advice.workloads.iter().flat_map(|workload| workload.autoscalers.iter().map(move |of| (workload, of)));
    let scaled = scaled.map(|(workload, scaled)| format!("{}: {}", workload.told(), scaled.told()));
    let worded = about.into_iter().map(|(note, objects)| match objects.as_slice() {
        [] => note.to_owned(),
        [one] => format!("{one}: {note}"),
        [first, others @ ..] => format!("{first} and {} more: {note}", others.len()),
    });
    worded.chain(scaled).chain(advice.notes.iter().cloned()).collect()
}

pub(super) fn containers(advice: &Advice) -> impl Iterator<Item = (&Workload, &ContainerAdvice)> {
    advice.workloads.iter().flat_map(|workload| workload.containers.iter().map(move |container| (workload, container)))
}

/// Each cell as its bare text and as it is printed.
fn row(
    workload: &Workload,
    container: &ContainerAdvice,
    advice: &ResourceAdvice,
    view: View,
) -> impl Iterator<Item = (String, String)> {
    let current = advice.current.as_ref().map_or_else(|| "-".to_owned(), current);
    let change = change(advice);
    let painted = match change.bytes().next() {
        Some(b'-') if change.len() > 1 => view.paint.good(&change),
        Some(b'+') => view.paint.doubtful(&change),
        _ => change.clone(),
    };
    let plain = [
        workload.namespace.clone(),
        workload.told(),
        container.name.clone(),
        advice.resource.to_owned(),
        current,
        advice.recommended.clone().unwrap_or_else(|| "unknown".to_owned()),
    ];
    let drawn = advice.observed().map_or_else(|| "-".to_owned(), |(_, observed)| observed.columns(view.charset));
    let same = |text: String| (text.clone(), text);
    plain.into_iter().map(same).chain([(change, painted), (drawn.clone(), drawn)])
}

/// In parentheses a request that is not in the manifest but applies.
pub(super) fn current(current: &Current) -> String {
    if current.from == "author" { current.value.clone() } else { format!("({})", current.value) }
}

pub(super) fn change(advice: &ResourceAdvice) -> String {
    match &advice.change {
        Some(change) if change.amount == "0" => "none".to_owned(),
        Some(change) => match change.percent {
            Some(percent) => format!("{} ({percent:+}%)", change.amount),
            None => change.amount.clone(),
        },
        None => "-".to_owned(),
    }
}

/// `  deployment/web nginx cpu: p90 of 7d nginx:1.27 in this namespace, …`
fn reason(workload: &Workload, container: &ContainerAdvice, advice: &ResourceAdvice) -> String {
    format!("  {} {} {}: {}\n", workload.told(), container.name, advice.resource, source(advice))
}

/// Where advice comes from, or why there is none.
pub(super) fn source(advice: &ResourceAdvice) -> String {
    let mut text = String::new();
    match (&advice.evidence, &advice.unknown) {
        (Some(evidence), _) => {
            text.push_str(&evidence.text);
            if !evidence.passed_over.is_empty() {
                text.push_str(&format!("; skipped: {}", evidence.passed_over.join("; ")));
            }
        }
        (None, Some(unknown)) => text.push_str(&format!("unknown: {unknown}")),
        (None, None) => text.push('-'),
    }
    // Where admission would estimate the same, that was just said.
    let is_news = |current: &&Current| current.from != "author" && Some(&current.value) != advice.recommended.as_ref();
    if let Some(current) = advice.current.as_ref().filter(is_news) {
        text.push_str(&format!("; now {}: {}", current.value, current.from));
    }
    text
}

fn plots(text: &mut String, workload: &Workload, container: &ContainerAdvice, charset: Charset) {
    for advice in &container.resources {
        let Some((history, observed)) = advice.observed() else { continue };
        let resource = advice.resource;
        let History { samples, key, window, percentile, .. } = history;
        let (object, container) = (workload.told(), &container.name);
        text.push_str(&format!("\n{resource} of {object} {container}, {samples} samples of {key} in {window}:\n"));
        let note = format!("recommended: {}", advice.recommended.as_deref().unwrap_or_default());
        let label = percentile.parse::<Percentile>().map(|percentile| percentile.to_string()).unwrap_or_default();
        text.push_str(&observed.plot(charset, &label, &note));
    }
}

fn quotas(text: &mut String, advice: &Advice, paint: Paint) {
    if advice.quotas.is_empty() {
        return;
    }
    let mut table = Table::new(&["NAMESPACE", "QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD", ""]);
    for effect in &advice.quotas {
        let (verdict, painted) =
            if effect.fits { ("fits", paint.good("fits")) } else { ("does not fit", paint.bad("does not fit")) };
        let plain = [
            &effect.namespace,
            &effect.quota,
            &effect.resource,
            &effect.used,
            &effect.change,
            &effect.used_after,
            &effect.hard,
        ];
        let plain = plain.into_iter().map(|text| (text.clone(), text.clone()));
        table.painted_row(plain.chain([(verdict.to_owned(), painted)]));
    }
    text.push_str(&format!("\nEffect on the quotas if all advice is taken:\n{table}"));
}
