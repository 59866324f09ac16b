//! A simulation's outcome for people and for programs: the sum first.

use serde::Serialize;

use super::effect::{Change, Effect, Effects, QuotaEffect, ValueChange};
use crate::output::{Paint, Table};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    summary: Summary,
    /// Everything that is not the same.
    objects: Vec<Object>,
    quotas: Vec<Quota>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_looked_at: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    objects: usize,
    newly_refused: usize,
    changed: usize,
    no_longer_refused: usize,
    still_refused: usize,
    not_judged: usize,
    same: usize,
    quotas_newly_exceeded: usize,
}

#[derive(Debug, Serialize)]
struct Object {
    object: String,
    namespace: String,
    running: u64,
    change: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Value {
    container: String,
    field: String,
    now: Option<String>,
    then: Option<String>,
    reason: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Quota {
    namespace: String,
    quota: String,
    name: String,
    used: String,
    remade: String,
    hard: Option<String>,
    new_hard: Option<String>,
    left: Option<String>,
    newly_exceeded: bool,
}

impl Change {
    fn told(self) -> &'static str {
        match self {
            Self::NewlyRefused => "newly refused",
            Self::NotJudged => "not judged",
            Self::Changed => "changed",
            Self::NoLongerRefused => "no longer refused",
            Self::StillRefused => "still refused",
            Self::Same => "the same",
        }
    }
}

pub fn report(effects: &Effects) -> Report {
    Report {
        summary: Summary {
            objects: effects.subjects.len(),
            newly_refused: effects.count(Change::NewlyRefused),
            changed: effects.count(Change::Changed),
            no_longer_refused: effects.count(Change::NoLongerRefused),
            still_refused: effects.count(Change::StillRefused),
            not_judged: effects.count(Change::NotJudged),
            same: effects.count(Change::Same),
            quotas_newly_exceeded: effects.quotas.iter().filter(|quota| quota.is_newly_exceeded).count(),
        },
        objects: worth_telling(effects).into_iter().map(Object::of).collect(),
        quotas: effects.quotas.iter().map(Quota::of).collect(),
        not_looked_at: effects.missed.clone(),
    }
}

/// All that is not quite the same, the worst first.
fn worth_telling(effects: &Effects) -> Vec<&Effect> {
    let is_worth = |effect: &&Effect| effect.change != Change::Same || !effect.warnings.is_empty();
    let mut told: Vec<&Effect> = effects.subjects.iter().filter(is_worth).collect();
    told.sort_by_key(|effect| effect.change);
    told
}

impl Object {
    fn of(effect: &Effect) -> Self {
        let value = |change: &ValueChange| Value {
            container: change.container.clone(),
            field: change.field.clone(),
            now: change.now.clone(),
            then: change.then.clone(),
            reason: change.reason.clone(),
        };
        Self {
            object: effect.told.clone(),
            namespace: effect.namespace.clone(),
            running: effect.count,
            change: effect.change.told(),
            reasons: effect.reasons.clone(),
            values: effect.values.iter().map(value).collect(),
            warnings: effect.warnings.clone(),
        }
    }
}

impl Quota {
    fn of(effect: &QuotaEffect) -> Self {
        Self {
            namespace: effect.namespace.clone(),
            quota: effect.quota.clone(),
            name: effect.name.clone(),
            used: effect.used.clone(),
            remade: effect.remade.clone(),
            hard: effect.hard.clone(),
            new_hard: effect.new_hard.clone(),
            left: effect.left.clone(),
            newly_exceeded: effect.is_newly_exceeded,
        }
    }
}

pub fn table(effects: &Effects, paint: Paint) -> String {
    let mut text = summary(effects) + "\n";
    for missed in &effects.missed {
        text.push_str(&format!("{} {missed}\n", paint.bad("not looked at:")));
    }
    let told = worth_telling(effects);
    if !told.is_empty() {
        text.push_str(&objects(&told, paint));
    }
    if !effects.quotas.is_empty() {
        text.push_str(&quotas(&effects.quotas, paint));
    }
    text
}

/// `12 objects: 1 newly refused, 2 changed, 9 the same`
fn summary(effects: &Effects) -> String {
    const ORDER: [Change; 6] = [
        Change::NewlyRefused,
        Change::Changed,
        Change::NoLongerRefused,
        Change::StillRefused,
        Change::NotJudged,
        Change::Same,
    ];
    let counts = ORDER.map(|change| (effects.count(change), change));
    let told: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, change)| format!("{count} {}", change.told()))
        .collect();
    let told = if told.is_empty() { "nothing runs here".to_owned() } else { told.join(", ") };
    let noun = if effects.subjects.len() == 1 { "object" } else { "objects" };
    let exceeded: Vec<String> = effects
        .quotas
        .iter()
        .filter(|quota| quota.is_newly_exceeded)
        .map(|quota| format!("{} of quota {}/{}", quota.name, quota.namespace, quota.quota))
        .collect();
    let exceeded =
        if exceeded.is_empty() { String::new() } else { format!("; too little room: {}", exceeded.join(", ")) };
    format!("{} {noun} if made again: {told}{exceeded}", effects.subjects.len())
}

fn objects(told: &[&Effect], paint: Paint) -> String {
    let mut table = Table::new(&["THEN", "OBJECT", "NAMESPACE", "RUNNING"]);
    for effect in told {
        let then = effect.change.told();
        let painted = match effect.change {
            Change::NewlyRefused | Change::NotJudged | Change::StillRefused => paint.bad(then),
            Change::NoLongerRefused | Change::Same => paint.good(then),
            Change::Changed => paint.fresh(then),
        };
        let plain = |text: String| (text.clone(), text);
        table.painted_row([
            (then.to_owned(), painted),
            plain(effect.told.clone()),
            plain(effect.namespace.clone()),
            plain(effect.count.to_string()),
        ]);
    }
    let mut lines = table.lines().into_iter();
    let mut text = format!("\n{}\n", paint.strong(&lines.next().unwrap_or_default()));
    for (line, effect) in lines.zip(told) {
        text.push_str(&format!("{line}\n"));
        for reason in effect.reasons.iter().flat_map(|reason| reason.split("; ")) {
            let was = if effect.change == Change::NoLongerRefused { "was: " } else { "" };
            text.push_str(&format!("  {was}{reason}\n"));
        }
        for ValueChange { container, field, now, then, reason } in &effect.values {
            let [now, then] = [now, then].map(|value| value.as_deref().unwrap_or("none"));
            text.push_str(&format!("  {container}: {field} {now} -> {}, {reason}\n", paint.fresh(then)));
        }
        for warning in &effect.warnings {
            text.push_str(&format!("  {} {warning}\n", paint.doubtful("warning:")));
        }
    }
    text
}

fn quotas(quotas: &[QuotaEffect], paint: Paint) -> String {
    let mut table = Table::new(&["QUOTA", "NAME", "USED", "IF MADE AGAIN", "HARD", "NEW HARD", "LEFT"]);
    for quota in quotas {
        let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let left = or_none(&quota.left);
        let painted = if left.len() > 1 && left.starts_with('-') { paint.bad(&left) } else { left.clone() };
        let cells = [
            format!("{}/{}", quota.namespace, quota.quota),
            quota.name.clone(),
            quota.used.clone(),
            quota.remade.clone(),
            or_none(&quota.hard),
            or_none(&quota.new_hard),
        ];
        table.painted_row(cells.map(|cell| (cell.clone(), cell)).into_iter().chain([(left, painted)]));
    }
    let mut lines = table.lines().into_iter();
    let header = format!("\n{}\n", paint.strong(&lines.next().unwrap_or_default()));
    lines.fold(header, |text, line| text + &line + "\n")
}
