//! Label selectors as kubectl's `-l` takes them.

use std::str::FromStr;

use super::{LabelSelector, Operator, Requirement};

impl FromStr for LabelSelector<'static> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let requirements = parts(text)?.into_iter().map(|part| requirement(part.trim())).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }
}

/// Splits at the commas outside parentheses.
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

fn requirement(part: &str) -> Result<Requirement<'static>, String> {
    let invalid = || {
        format!(
            "`{part}` is not a label requirement: expected for example `app=web`, `tier!=cache` or `env in (prod, test)`"
        )
    };
    let trimmed = |value: &str| value.trim().to_owned().into();
    let (key, operator, values) = if let Some((head, values)) = part.strip_suffix(')').and_then(|it| it.split_once('('))
    {
        let operator = match head.split_whitespace().nth(1) {
            Some("in") => Operator::In,
            Some("notin") => Operator::NotIn,
            _ => return Err(invalid()),
        };
        let key = head.trim_end().trim_end_matches(char::is_alphabetic);
        (key, operator, values.split(',').map(trimmed).collect())
    } else if let Some((key, value)) = part.split_once("!=") {
        (key, Operator::NotIn, vec![trimmed(value)])
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, Operator::In, vec![trimmed(value)])
    } else if let Some(key) = part.strip_prefix('!') {
        (key, Operator::DoesNotExist, Vec::new())
    } else {
        (part, Operator::Exists, Vec::new())
    };
    let key = key.trim();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if key.is_empty() || !key.bytes().all(is_name) {
        return Err(invalid());
    }
    Ok(Requirement { key: key.to_owned().into(), operator, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_selected_as_kubectl_does() {
        let labels = [("app", "web"), ("env", "prod"), ("example.com/team", "a")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let check = |text: &str, expected: bool| {
            assert_eq!(text.parse::<LabelSelector<'_>>().unwrap().matches(&labels), expected, "{text}");
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
    fn what_is_no_selector_is_rejected() {
        for text in ["", "app=web,", "env in prod)", "env in (a", "env on (a)", "a b in (c)", "a b=c", "=x"] {
            assert!(text.parse::<LabelSelector<'_>>().is_err(), "{text}");
        }
    }
}
