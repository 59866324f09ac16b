//! Effects by what they have in common, as the page groups them: what happens to a hundred workloads for one reason is said
//! once.

use std::collections::HashMap;

use headroom_dry_run::simulate::{Effect, ValueChange};

pub struct EffectGroup<'a> {
    /// The effect that is printed in full, as an example.
    pub first: &'a Effect,
    pub all: Vec<&'a Effect>,
    /// False where names and amounts differ, so that the text of the first is an example.
    pub is_same: bool,
    text: Vec<String>,
}

/// Groups in the order of their first effects.
pub fn grouped<'a>(effects: &[&'a Effect]) -> Vec<EffectGroup<'a>> {
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
