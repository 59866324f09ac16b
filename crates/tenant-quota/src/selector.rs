//! Label selectors for namespaces, with Kubernetes' semantics: all requirements must match.

use std::collections::BTreeMap;

use headroom_core::cluster::problem::Problem;
use headroom_core::json::{Malformed, Node};

pub type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

impl Selector {
    pub fn read(node: Node<'_>) -> Result<Self, Malformed> {
        let mut requirements = Vec::new();
        if let Some(labels) = node.get("matchLabels")? {
            for (key, value) in labels.fields()? {
                let (key, values) = (key.str()?.into_owned(), vec![value.str()?.into_owned()]);
                requirements.push(Requirement { key, operator: "In".to_owned(), values });
            }
        }
        for expression in node.list("matchExpressions")? {
            let text = |field| Ok(expression.string(field)?.unwrap_or_default().into_owned());
            let values = expression.list("values")?.map(|value| Ok(value.str()?.into_owned()));
            requirements.push(Requirement {
                key: text("key")?,
                operator: text("operator")?,
                values: values.collect::<Result<_, Malformed>>()?,
            });
        }
        Ok(Self { requirements })
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns true if the selector matches a namespace with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|Requirement { key, operator, values }| {
            let value = labels.get(key);
            let is_listed = value.is_some_and(|value| values.contains(value));
            match operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
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
            match (operator.as_str(), values.is_empty()) {
                ("In" | "NotIn", true) => problem("values", "must have at least one value for In and NotIn"),
                ("Exists" | "DoesNotExist", false) => problem("values", "must be empty for Exists and DoesNotExist"),
                ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
                _ => problem("operator", "must be In, NotIn, Exists or DoesNotExist"),
            }
        }
        problems
    }
}
