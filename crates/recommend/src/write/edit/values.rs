//! The values of a chart.

use headroom_admission::amount::{Quantity, Requirement};
use serde_json::Value;

/// True if values have a place for amounts at these keys. A limit is only changed where they have one.
pub fn are_in_values(
    values: &Value,
    keys: &[String],
    requirement: Requirement,
    amounts: &[(&'static str, Quantity)],
) -> bool {
    let at = keys.iter().try_fold(values, |at, key| at.get(key));
    at.filter(|at| at.is_object()).is_some_and(|at| match requirement {
        Requirement::Request => true,
        Requirement::Limit => {
            let limits = at.pointer("/resources/limits");
            amounts.iter().all(|(name, _)| limits.is_some_and(|limits| limits.get(name).is_some()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Edit, EditError, EditPlace, set_amounts};
    use super::*;

    #[test]
    fn amounts_are_set_where_they_stand_and_nothing_else_changes() {
        let edit = |key: &str, requirement, amounts: &[(&'static str, &str)]| Edit {
            place: EditPlace::Values(vec![key.to_owned()]),
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
        let edited = set_amounts(text, &edits).unwrap().unwrap();
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
        assert_eq!(set_amounts(&edited, &edits), Ok(None), "a second time");
        let values: Value = serde_saphyr::from_str(text).unwrap();
        let is_in = |key: &str, requirement| {
            are_in_values(&values, &[key.to_owned()], requirement, &[("memory", Quantity::from_bytes(1 << 30))])
        };
        assert!(is_in("web", Requirement::Limit) && is_in("worker", Requirement::Request));
        assert!(!is_in("worker", Requirement::Limit) && !is_in("cache", Requirement::Request));
        let shared = "web: &web\n  resources: {}\nother: *web\n";
        let refused = set_amounts(shared, &[edit("web", Requirement::Request, &[("cpu", "1")])]);
        assert!(matches!(refused, Err(EditError::Shared { .. })), "{refused:?}");
    }
}
