//! The effects on everything that runs, at a terminal: the sum first.

use std::collections::{BTreeSet, HashMap};

use headroom_admission::truncate::count_of;
use headroom_dry_run::quota_levels::QuotaLevel;
use headroom_dry_run::simulate::report::worth_showing;
use headroom_dry_run::simulate::{Effect, EffectKind, Effects, QuotaEffect, ValueChange};
use headroom_output::{Page, Paint, Table, people};

use headroom_recommend::advice::amounts::signed;

pub fn page(effects: &Effects, paint: Paint) -> Page {
    let mut page = Page::new();
    writeln!(page, "{}", summary(effects));
    for missed in &effects.missed {
        writeln!(page, "{} {missed}", paint.red("not read:"));
    }
    let shown = worth_showing(effects);
    if !shown.is_empty() {
        page.gap();
        let groups = grouped(&shown);
        page.table(objects(&groups, paint));
        if groups.len() < shown.len() {
            writeln!(page, "\nObjects with the same result and reasons are in one row; -o yaml lists each.");
        }
    }
    if !effects.requests.is_empty() {
        writeln!(page, "\nRequests of the changed objects: {}", requests(effects));
    }
    if !effects.quotas.is_empty() {
        page.gap();
        page.table(quotas(&effects.quotas, paint));
    }
    page
}

/// `12 objects: 1 newly rejected, 2 changed, 9 the same`
fn summary(effects: &Effects) -> String {
    const ORDER: [EffectKind; 6] = [
        EffectKind::NewlyRejected,
        EffectKind::Changed,
        EffectKind::NoLongerRejected,
        EffectKind::StillRejected,
        EffectKind::NotEvaluated,
        EffectKind::Same,
    ];
    let counts = ORDER.map(|change| (effects.count(change), change));
    let shown: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, change)| format!("{count} {}", change.name()))
        .collect();
    let shown = if shown.is_empty() { "no workloads here".to_owned() } else { shown.join(", ") };
    let exceeded: Vec<String> = effects
        .quotas
        .iter()
        .filter(|quota| quota.is_newly_exceeded)
        .map(|quota| format!("{} {}", quota.level.key.quota_name(), quota.level.key.name))
        .collect();
    let exceeded =
        if exceeded.is_empty() { String::new() } else { format!("; quota exceeded: {}", exceeded.join(", ")) };
    format!("{} if recreated: {shown}{exceeded}", count_of(effects.subjects.len() as u64, "object"))
}

/// `cpu -1500m, memory +2Gi`
fn requests(effects: &Effects) -> String {
    let shown: Vec<String> =
        effects.requests.iter().map(|(name, change)| format!("{name} {}", signed(change))).collect();
    shown.join(", ")
}

fn objects(groups: &[EffectGroup], paint: Paint) -> Table {
    let mut table = Table::new(&["RESULT", "OBJECT", "NAMESPACE", "RUNNING"]);
    for EffectGroup { first: effect, all, is_same, .. } in groups {
        let namespaces: BTreeSet<&str> = all.iter().map(|of| of.namespace.as_str()).collect();
        let running: u64 = all.iter().map(|of| of.count).sum();
        let then = effect.change.name();
        let painted = match effect.change {
            EffectKind::NewlyRejected | EffectKind::NotEvaluated | EffectKind::StillRejected => paint.red(then),
            EffectKind::NoLongerRejected | EffectKind::Same => paint.green(then),
            EffectKind::Changed => paint.cyan(then),
        };
        let name = if all.len() == 1 { effect.name.clone() } else { format!("{} objects", all.len()) };
        let namespace =
            if namespaces.len() == 1 { effect.namespace.clone() } else { format!("{} namespaces", namespaces.len()) };
        table.row([painted, name, namespace, running.to_string()]);
        if all.len() > 1 {
            let differ = if *is_same { "" } else { "; names and amounts differ" };
            table.detail(&format!("for example {} in {}{differ}:", effect.name, effect.namespace));
        }
        for reason in effect.reasons.iter().flat_map(|reason| &reason.lines) {
            let was = if effect.change == EffectKind::NoLongerRejected { "was: " } else { "" };
            table.detail(&format!("{was}{reason}"));
        }
        for ValueChange { container, field, now, then, reason } in &effect.values {
            let [now, then] = [now, then].map(|value| value.as_deref().unwrap_or("not set"));
            table.detail(&format!("{container}: {field} {now} -> {}, {reason}", paint.cyan(then)));
        }
        for warning in &effect.warnings {
            table.detail(&format!("{} {warning}", paint.yellow("warning:")));
        }
    }
    table
}

fn quotas(quotas: &[QuotaEffect], paint: Paint) -> Table {
    let mut table = Table::new(&["QUOTA", "RESOURCE", "USED", "AFTER RECREATE", "HARD", "NEW HARD", "AVAILABLE"])
        .right(&["USED", "AFTER RECREATE", "HARD", "NEW HARD", "AVAILABLE"])
        .spare(&["USED", "HARD"]);
    for quota in quotas {
        let QuotaLevel { key, used, hard } = &quota.level;
        let amounts = [Some(used), Some(&quota.remade), hard.as_ref(), quota.new_hard.as_ref(), quota.left.as_ref()];
        let amounts = amounts.map(|amount| amount.map_or("-".to_owned(), ToString::to_string));
        let [used, remade, hard, new_hard, left] = people::row(&key.name, amounts.each_ref().map(String::as_str));
        let left = if left.len() > 1 && left.starts_with('-') { paint.red(&left) } else { left };
        table.row([key.quota_name(), key.name.clone(), used, remade, hard, new_hard, left]);
    }
    table
}

/// Effects with the same result and reasons, as the page groups them: what happens to a hundred workloads for one reason is said
/// once.
struct EffectGroup<'a> {
    /// The effect that is printed in full, as an example.
    first: &'a Effect,
    all: Vec<&'a Effect>,
    /// False where names and amounts differ, so that the text of the first is an example.
    is_same: bool,
    text: Vec<String>,
}

/// Groups in the order of their first effects.
fn grouped<'a>(effects: &[&'a Effect]) -> Vec<EffectGroup<'a>> {
    let mut groups: Vec<EffectGroup<'a>> = Vec::new();
    let mut places: HashMap<(&str, Vec<String>), usize> = HashMap::new();
    for &effect in effects {
        let text = text(effect);
        let shapes = text.iter().map(|text| shape(text)).collect();
        let place = *places.entry((effect.change.name(), shapes)).or_insert(groups.len());
        if let Some(group) = groups.get_mut(place) {
            group.all.push(effect);
            group.is_same &= group.text == text;
        } else {
            groups.push(EffectGroup { first: effect, all: vec![effect], is_same: true, text });
        }
    }
    groups
}

/// The text about an effect, without the name of its object.
fn text(effect: &Effect) -> Vec<String> {
    let name = effect.name.split_once('/').map_or(effect.name.as_str(), |(_, name)| name);
    let names = [(format!("\"{name}\""), "\"\""), (format!("\"{name}-\""), "\"\""), (format!("/{name}"), "/")];
    let nameless = |text: String| names.iter().fold(text, |text, (name, nothing)| text.replace(name, nothing));
    let reasons = effect.reasons.iter().flat_map(|reason| &reason.lines).map(|line| nameless(line.clone()));
    let values = effect.values.iter().map(|ValueChange { container, field, now, then, reason }| {
        let [now, then] = [now, then].map(|value| value.as_deref().unwrap_or("not set"));
        format!("{container}: {field} {now} {then} {reason}")
    });
    let warnings = effect.warnings.iter().map(|warning| nameless(warning.to_string()));
    reasons.chain(values).chain(warnings).collect()
}

/// A text without amounts and names of containers.
fn shape(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split(' ') {
        if words.last().is_some_and(|last| last == "container") && word.ends_with(':') {
            words.push(":".to_owned());
        } else {
            words.push(without_amounts(word));
        }
    }
    words.join(" ")
}

/// `1Gi,` becomes `#,`; a digit within a name stays.
fn without_amounts(word: &str) -> String {
    let mut shape = String::new();
    let (mut is_amount, mut before) = (false, ' ');
    for letter in word.chars() {
        let is_part = letter.is_alphanumeric() || letter == '_';
        is_amount = if is_amount {
            is_part || letter == '.'
        } else {
            letter.is_ascii_digit() && !before.is_alphanumeric() && before != '_'
        };
        if !is_amount {
            shape.push(letter);
        } else if !shape.ends_with('#') {
            shape.push('#');
        }
        before = letter;
    }
    shape.replace("-#", "#")
}
