//! Sets amounts in the values of a chart, where they stand.

use headroom_admission::amount::{Quantity, Requirement};
use serde_json::Value;

use super::verify::{SetsAmounts, says_the_same};
use super::yaml_spans;
use super::{Edit, EditError, Editor, Identity, refuse_shared, spliced};

/// Requests or limits at a place of a chart's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuesEdit {
    /// To the mapping that has `resources`.
    pub keys: Vec<String>,
    pub requirement: Requirement,
    pub amounts: Vec<(&'static str, Quantity)>,
}

impl ValuesEdit {
    /// True if the values have the place. A limit is only changed where they have one.
    pub fn is_in(&self, values: &Value) -> bool {
        let at = self.keys.iter().try_fold(values, |at, key| at.get(key));
        let limits = |at: &Value| at.pointer("/resources/limits").and_then(Value::as_object).cloned();
        at.filter(|at| at.is_object()).is_some_and(|at| match self.requirement {
            Requirement::Request => true,
            Requirement::Limit => {
                let limits = limits(at).unwrap_or_default();
                self.amounts.iter().all(|(name, _)| limits.contains_key(*name))
            }
        })
    }
}

/// The text with the edits in it; none if it says all that already.
pub fn set_values(text: &str, edits: &[ValuesEdit]) -> Result<Option<String>, EditError> {
    let documents = yaml_spans::documents(text).map_err(EditError::Unreadable)?;
    let mut splices = Vec::new();
    for values in edits {
        let object = Identity { kind: String::new(), namespace: None, name: String::new() };
        let (container, amounts) = (values.keys.join("."), values.amounts.clone());
        let edit = Edit { requirement: values.requirement, object, path: Vec::new(), container, amounts };
        let not_there = || EditError::NotCertain(edit.container.clone());
        let [mut at] = documents.iter().collect::<Vec<_>>().try_into().map_err(|_| not_there())?;
        for key in &values.keys {
            refuse_shared(at, || edit.container.clone())?;
            at = at.get(key).ok_or_else(not_there)?;
        }
        Editor { text, edit: &edit }.container(at, &mut splices)?;
    }
    let wanted = edits.iter().map(|edit| edit.keys.join(".")).collect::<Vec<_>>().join(", ");
    spliced(text, splices, |edited| says_the_same(text, edited, edits), wanted)
}

impl SetsAmounts for ValuesEdit {
    fn amounts(&self) -> (Requirement, &[(&'static str, Quantity)]) {
        (self.requirement, &self.amounts)
    }

    fn holder<'v>(&self, documents: &'v mut [Value]) -> Option<&'v mut Value> {
        self.keys.iter().try_fold(documents.first_mut()?, |at, key| at.get_mut(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_set_where_they_stand_and_nothing_else_changes() {
        let edit = |keys: &str, requirement, amounts: &[(&'static str, &str)]| ValuesEdit {
            keys: keys.split('.').map(str::to_owned).collect(),
            requirement,
            amounts: amounts.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect(),
        };
        let text = "\
# the shop
web:
  image: nginx # pinned
  resources:
    limits: {memory: 1Gi}
worker:
  resources: {}
";
        let edits = [
            edit("web", Requirement::Request, &[("cpu", "250m"), ("memory", "512Mi")]),
            edit("web", Requirement::Limit, &[("memory", "2Gi")]),
            edit("worker", Requirement::Request, &[("cpu", "1")]),
        ];
        let edited = set_values(text, &edits).unwrap().unwrap();
        let expected = "\
# the shop
web:
  image: nginx # pinned
  resources:
    limits: {memory: 2Gi}
    requests:
      cpu: 250m
      memory: 512Mi
worker:
  resources:
    requests:
      cpu: \"1\"
";
        assert_eq!(edited, expected);
        assert_eq!(set_values(&edited, &edits), Ok(None), "a second time");
        let values: Value = serde_saphyr::from_str(text).unwrap();
        let is_in = |keys, requirement| edit(keys, requirement, &[("memory", "1Gi")]).is_in(&values);
        assert!(is_in("web", Requirement::Limit) && is_in("worker", Requirement::Request));
        assert!(!is_in("worker", Requirement::Limit) && !is_in("cache", Requirement::Request));
        let shared = "web: &web\n  resources: {}\nother: *web\n";
        let refused = set_values(shared, &[edit("web", Requirement::Request, &[("cpu", "1")])]);
        assert!(matches!(refused, Err(EditError::Shared { .. })), "{refused:?}");
    }
}
