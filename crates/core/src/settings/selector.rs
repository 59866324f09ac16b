//! Label selectors in the settings.

use std::borrow::Cow;

use super::Reader;
use crate::json::{Malformed, Node};

/// A label selector as in Kubernetes: all its requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector<'d> {
    requirements: Vec<Requirement<'d>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement<'d> {
    key: Cow<'d, str>,
    operator: Operator,
    values: Vec<Cow<'d, str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("In", Operator::In),
    ("NotIn", Operator::NotIn),
    ("Exists", Operator::Exists),
    ("DoesNotExist", Operator::DoesNotExist),
];

/// True if a selector from an object selects a namespace. An invalid selector selects nothing.
pub fn selects_namespace(selector: Node<'_>, namespace: Option<Node<'_>>) -> Result<bool, Malformed> {
    let mut problems = Vec::new();
    let selector = LabelSelector::read(&mut Reader::new(selector, String::new(), &mut problems));
    Ok(problems.is_empty() && selector.matches_namespace(namespace)?)
}

impl<'d> LabelSelector<'d> {
    pub(super) fn read(reader: &mut Reader<'_, 'd>) -> Self {
        let mut requirements = Vec::new();
        let labels = reader.field("matchLabels", |labels| {
            labels.fields()?.map(|(key, value)| Ok((key.str()?, value.str()?))).collect::<Result<Vec<_>, Malformed>>()
        });
        for (key, value) in labels.unwrap_or_default() {
            requirements.push(Requirement { key, operator: Operator::In, values: vec![value] });
        }
        requirements.extend(reader.sections("matchExpressions", |expression| {
            let requirement = Requirement {
                key: expression.string("key").unwrap_or_default(),
                operator: expression.choice("operator", OPERATORS, Operator::Exists),
                values: expression.strings("values"),
            };
            if requirement.key.is_empty() {
                expression.problem("key", "is missing");
            }
            let wants_values = matches!(requirement.operator, Operator::In | Operator::NotIn);
            if wants_values == requirement.values.is_empty() {
                let problem = if wants_values { "must have at least one value" } else { "must be empty" };
                expression.problem("values", problem);
            }
            requirement
        }));
        Self { requirements }
    }

    /// True if a namespace is selected. One that could not be read is not, even if the selector asks for the absence of
    /// a label: it may have the label.
    pub fn matches_namespace(&self, namespace: Option<Node<'_>>) -> Result<bool, Malformed> {
        namespace.map_or(Ok(false), |namespace| self.matches(namespace.at(&["metadata", "labels"])?))
    }

    /// True if an object with these `metadata.labels` is selected.
    pub fn matches(&self, labels: Option<Node<'_>>) -> Result<bool, Malformed> {
        for requirement in &self.requirements {
            let value = match labels {
                Some(labels) => labels.string(&requirement.key)?,
                None => None,
            };
            let is_listed = value.as_ref().is_some_and(|value| requirement.values.contains(value));
            let holds = match requirement.operator {
                Operator::In => is_listed,
                Operator::NotIn => !is_listed,
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
