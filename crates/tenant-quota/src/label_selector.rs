//! Label selectors with Kubernetes' semantics, as objects have them (`matchLabels`, `matchExpressions`) and as kubectl's
//! `-l` has them: `app=web,tier!=cache,env in (prod, test),!canary`. All requirements must match.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use headroom_core::cluster::problem::Problem;
use headroom_core::json::{Malformed, Node};

pub type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// Anything else. Matches nothing.
    Unknown(String),
}

impl From<&str> for Operator {
    fn from(text: &str) -> Self {
        match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            _ => Self::Unknown(text.to_owned()),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Unknown(text) => text,
        })
    }
}

impl LabelSelector {
    pub fn read(node: Node<'_>) -> Result<Self, Malformed> {
        let mut requirements = Vec::new();
        if let Some(labels) = node.get("matchLabels")? {
            for (key, value) in labels.fields()? {
                let (key, values) = (key.str()?.into_owned(), vec![value.str()?.into_owned()]);
                requirements.push(Requirement { key, operator: Operator::In, values });
            }
        }
        for expression in node.list("matchExpressions")? {
            let values = expression.list("values")?.map(|value| Ok(value.str()?.into_owned()));
            requirements.push(Requirement {
                key: expression.string("key")?.unwrap_or_default().into_owned(),
                operator: Operator::from(&*expression.string("operator")?.unwrap_or_default()),
                values: values.collect::<Result<_, Malformed>>()?,
            });
        }
        Ok(Self { requirements })
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether it matches an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|Requirement { key, operator, values }| {
            let value = labels.get(key);
            let is_listed = value.is_some_and(|value| values.contains(value));
            match operator {
                Operator::In => is_listed,
                Operator::NotIn => !is_listed,
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::Unknown(_) => false,
            }
        })
    }

    pub fn problems(&self, field: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, Requirement { key, operator, values }) in self.requirements.iter().enumerate() {
            let mut problem = |name: &str, detail: &str| {
                problems.push(Problem { field: format!("{field}[{index}].{name}"), detail: detail.to_owned() });
            };
            if key.is_empty() {
                problem("key", "must not be empty");
            }
            match (operator, values.is_empty()) {
                (Operator::In | Operator::NotIn, true) => {
                    problem("values", "must have at least one value for In and NotIn");
                }
                (Operator::Exists | Operator::DoesNotExist, false) => {
                    problem("values", "must be empty for Exists and DoesNotExist");
                }
                (Operator::Unknown(_), _) => problem("operator", "must be In, NotIn, Exists or DoesNotExist"),
                _ => {}
            }
        }
        problems
    }
}

/// As kubectl's `-l` takes it.
impl FromStr for LabelSelector {
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

fn requirement(part: &str) -> Result<Requirement, String> {
    let invalid = || {
        format!(
            "`{part}` is not a label requirement: expected for example `app=web`, `tier!=cache` or `env in (prod, test)`"
        )
    };
    let trimmed = |value: &str| value.trim().to_owned();
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
    Ok(Requirement { key: key.to_owned(), operator, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_selected_as_kubectl_does() {
        let labels = [("app", "web"), ("env", "prod"), ("example.com/team", "a")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let check = |text: &str, expected: bool| {
            assert_eq!(text.parse::<LabelSelector>().unwrap().matches(&labels), expected, "{text}");
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
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
    }
}
