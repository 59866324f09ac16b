//! Label selectors in the settings, whose problems name the setting.

use super::SettingsReader;
use crate::cluster::label_selector::{LabelSelector, Operator, Requirement};
use crate::json::{Malformed, Node};

/// True if a selector from an object selects a namespace. An invalid selector selects nothing.
pub fn selects_namespace(selector: Node<'_>, namespace: Option<Node<'_>>) -> Result<bool, Malformed> {
    let mut problems = Vec::new();
    let selector = read(&mut SettingsReader::new(selector, String::new(), &mut problems));
    Ok(problems.is_empty() && selector.matches_namespace(namespace)?)
}

pub(super) fn read<'d>(reader: &mut SettingsReader<'_, 'd>) -> LabelSelector<'d> {
    let labels = reader.field("matchLabels", |labels| {
        let labels = labels.fields()?.map(|(key, value)| Ok(Requirement::equal(key.str()?, value.str()?)));
        labels.collect::<Result<Vec<_>, Malformed>>()
    });
    let mut requirements = labels.unwrap_or_default();
    requirements.extend(reader.sections("matchExpressions", |expression| {
        let requirement = Requirement {
            key: expression.string("key").unwrap_or_default(),
            operator: expression.choice("operator", &Operator::BY_NAME, Operator::Exists),
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
    LabelSelector { requirements }
}
