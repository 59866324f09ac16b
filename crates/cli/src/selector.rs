//! Label selectors as kubectl's `-l` takes them: `app=web,tier!=cache,env in (prod, test),!canary`.

use std::str::FromStr;

use serde_json::{Map, Value};

/// All of these must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl Selector {
    pub fn matches(&self, object: &Value) -> bool {
        let none = Map::new();
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).unwrap_or(&none);
        let value = |key: &String| labels.get(key).and_then(Value::as_str);
        self.0.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
            Requirement::In(key, values) => value(key).is_some_and(|value| values.iter().any(|one| one == value)),
            // As in Kubernetes, an object without the label is not among the excluded.
            Requirement::NotIn(key, values) => value(key).is_none_or(|value| !values.iter().any(|one| one == value)),
        })
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parts(text)?.into_iter().map(|part| requirement(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

/// Cut at the commas that stand in no parentheses.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut from, mut is_inside) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '(' if !is_inside => is_inside = true,
            ')' if is_inside => is_inside = false,
            '(' | ')' => return Err(format!("`{text}` has a parenthesis too many")),
            ',' if !is_inside => {
                parts.extend(text.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err(format!("`{text}` lacks a closing parenthesis"));
    }
    parts.extend(text.get(from..));
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement, String> {
    if let Some((head, values)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => Ok(Requirement::In(named(key)?, values)),
            (Some(key), Some("notin"), None) => Ok(Requirement::NotIn(named(key)?, values)),
            _ => Err(wrong(part)),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(named(key)?, vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(named(key)?, vec![value.trim().to_owned()]));
    }
    match part.strip_prefix('!') {
        Some(key) => Ok(Requirement::Absent(named(key)?)),
        None => Ok(Requirement::Exists(named(part)?)),
    }
}

fn named(key: &str) -> Result<String, String> {
    let key = key.trim();
    let is_name = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    if is_name { Ok(key.to_owned()) } else { Err(wrong(key)) }
}

fn wrong(part: &str) -> String {
    format!(
        "`{part}` is not a label requirement: expected for example `app=web`, `tier!=cache` or `env in (prod, test)`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_selected_as_kubectl_does() {
        let object = json!({"metadata": {"labels": {"app": "web", "env": "prod", "example.com/team": "a"}}});
        let check = |text: &str, expected: bool| {
            assert_eq!(text.parse::<Selector>().unwrap().matches(&object), expected, "{text}");
        };
        check("app=web", true);
        check("app==web,env=prod", true);
        check("app=web,env=test", false);
        check("env in (test, prod), app", true);
        check("env notin (test,prod)", false);
        check("tier!=cache", true);
        check("app!=web", false);
        check("!canary,example.com/team", true);
        check("!app", false);
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for text in ["", "app=web,", "env in prod)", "env in (a", "env on (a)", "a b=c", "=x"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
