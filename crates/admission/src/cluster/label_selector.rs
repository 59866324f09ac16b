//! Label selectors with Kubernetes' semantics, as objects have them (`matchLabels`, `matchExpressions`) and as kubectl's
//! `-l` has them: `app=web,tier!=cache,env in (prod, test),!canary`. All requirements must match.

mod kubectl;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::json::{Malformed, Node};

pub type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector<'d> {
    pub requirements: Vec<Requirement<'d>>,
}

/// A requirement of the labels, or of a quota's scope selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement<'d> {
    /// The key of a label, or the name of a scope.
    pub key: Cow<'d, str>,
    pub operator: Operator,
    pub values: Vec<Cow<'d, str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// Anything else. Matches nothing.
    Unknown,
}

impl Operator {
    pub const BY_NAME: [(&str, Self); 4] =
        [("In", Self::In), ("NotIn", Self::NotIn), ("Exists", Self::Exists), ("DoesNotExist", Self::DoesNotExist)];

    pub fn name(self) -> &'static str {
        let known = Self::BY_NAME.into_iter().find(|(_, operator)| *operator == self);
        known.map_or("Unknown", |(name, _)| name)
    }
}

impl From<&str> for Operator {
    fn from(text: &str) -> Self {
        let known = Self::BY_NAME.into_iter().find(|(name, _)| *name == text);
        known.map_or(Self::Unknown, |(_, operator)| operator)
    }
}

impl<'d> Requirement<'d> {
    /// A requirement of `matchLabels`.
    pub fn equal(key: Cow<'d, str>, value: Cow<'d, str>) -> Self {
        Self { key, operator: Operator::In, values: vec![value] }
    }

    /// Reads one of `matchExpressions`, whose key is in the field `key`.
    pub fn read(node: Node<'d>, key: &str) -> Result<Self, Malformed> {
        Ok(Self {
            key: node.string(key)?.unwrap_or_default(),
            operator: Operator::from(&*node.string("operator")?.unwrap_or_default()),
            values: node.list("values")?.map(Node::str).collect::<Result<_, _>>()?,
        })
    }

    /// Applies the operator to the values that an object has. If there are several, one match is enough.
    pub fn matches<V: AsRef<str>>(&self, values: &[V]) -> bool {
        let is_listed = |value: &V| self.values.iter().any(|listed| listed == value.as_ref());
        match self.operator {
            Operator::In => values.iter().any(is_listed),
            Operator::NotIn => values.is_empty() || values.iter().any(|value| !is_listed(value)),
            Operator::Exists => !values.is_empty(),
            Operator::DoesNotExist => values.is_empty(),
            Operator::Unknown => false,
        }
    }

    pub fn into_owned(self) -> Requirement<'static> {
        let owned = |text: Cow<'d, str>| Cow::Owned(text.into_owned());
        let values = self.values.into_iter().map(owned).collect();
        Requirement { key: owned(self.key), operator: self.operator, values }
    }
}

/// As Kubernetes prints one of a scope in a refusal: `{PriorityClass In [high mid]}`.
impl fmt::Display for Requirement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.key, self.operator.name(), self.values.join(" "))
    }
}

impl<'d> LabelSelector<'d> {
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let mut requirements = Vec::new();
        if let Some(labels) = node.get("matchLabels")? {
            for (key, value) in labels.fields()? {
                requirements.push(Requirement::equal(key.str()?, value.str()?));
            }
        }
        for expression in node.list("matchExpressions")? {
            requirements.push(Requirement::read(expression, "key")?);
        }
        Ok(Self { requirements })
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels.get(&*requirement.key).as_slice()))
    }

    pub fn matches_node(&self, labels: Option<Node<'_>>) -> Result<bool, Malformed> {
        for requirement in &self.requirements {
            let value = labels.map_or(Ok(None), |labels| labels.string(&requirement.key))?;
            if !requirement.matches(value.as_slice()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if a namespace is selected. One that could not be read is not, even if the selector asks for the absence of
    /// a label: it may have the label.
    pub fn matches_namespace(&self, namespace: Option<Node<'_>>) -> Result<bool, Malformed> {
        namespace.map_or(Ok(false), |namespace| self.matches_node(namespace.at(&["metadata", "labels"])?))
    }

    pub fn problems(&self, path: &str) -> Vec<Malformed> {
        let mut problems = Vec::new();
        for (index, Requirement { key, operator, values }) in self.requirements.iter().enumerate() {
            let mut add = |name: &str, problem: &str| {
                problems.push(Malformed { path: format!("{path}[{index}].{name}"), problem: problem.to_owned() });
            };
            if key.is_empty() {
                add("key", "must not be empty");
            }
            match operator {
                Operator::In | Operator::NotIn if values.is_empty() => {
                    add("values", "must have at least one value for In and NotIn");
                }
                Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                    add("values", "must be empty for Exists and DoesNotExist");
                }
                Operator::Unknown => add("operator", "must be In, NotIn, Exists or DoesNotExist"),
                _ => {}
            }
        }
        problems
    }

    pub fn into_owned(self) -> LabelSelector<'static> {
        LabelSelector { requirements: self.requirements.into_iter().map(Requirement::into_owned).collect() }
    }
}
