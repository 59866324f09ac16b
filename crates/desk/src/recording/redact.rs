//! What stays out of a recording: the values of environment variables, Secrets and ConfigMaps, and the API server's
//! bookkeeping, which repeats them. No decision depends on any of it, but on whether two of them are the same: so each
//! value gets a number.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::surroundings::without_bookkeeping;

/// What was left out so far, and its number.
#[derive(Debug, Default)]
pub struct Redaction(BTreeMap<String, usize>);

/// Fields of a Secret or a ConfigMap that hold its contents.
const CONTENTS: [&str; 3] = ["data", "stringData", "binaryData"];

impl Redaction {
    /// Leaves out of an object what may be confidential.
    pub fn redact(&mut self, object: &mut Value) {
        without_bookkeeping(object);
        if matches!(object.get("kind").and_then(Value::as_str), Some("Secret" | "ConfigMap")) {
            for field in CONTENTS {
                let values = object.get_mut(field).and_then(Value::as_object_mut);
                values.into_iter().flatten().for_each(|(_, value)| self.leave_out(value));
            }
        }
        self.redact_variables(object);
    }

    fn redact_variables(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    if field == "env" {
                        let variables = value.as_array_mut().into_iter().flatten();
                        variables
                            .filter_map(|variable| variable.get_mut("value"))
                            .for_each(|value| self.leave_out(value));
                    }
                    self.redact_variables(value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_variables(item)),
            _ => {}
        }
    }

    fn leave_out(&mut self, value: &mut Value) {
        let number = self.0.len() + 1;
        let number = *self.0.entry(value.to_string()).or_insert(number);
        *value = json!(format!("left out ({number})"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_and_their_sameness_stays() {
        let container =
            |password: &str| json!({"env": [{"name": "A", "value": password}, {"name": "B", "valueFrom": {}}]});
        let mut pod = json!({"kind": "Pod", "metadata": {"managedFields": [], "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"password\": \"x\"}"}},
            "spec": {"containers": [container("x"), container("y"), container("x")]}});
        let mut redaction = Redaction::default();
        redaction.redact(&mut pod);
        let variables = |number| json!({"env": [{"name": "A", "value": format!("left out ({number})")}, {"name": "B", "valueFrom": {}}]});
        assert_eq!(
            pod,
            json!({"kind": "Pod", "metadata": {"annotations": {}},
                "spec": {"containers": [variables(1), variables(2), variables(1)]}})
        );
        let mut secret = json!({"kind": "Secret", "data": {"password": "eA=="}, "stringData": {"b": "x"}});
        redaction.redact(&mut secret);
        assert_eq!(secret["stringData"], json!({"b": "left out (1)"}));
        assert!(!secret.to_string().contains("eA=="));
    }
}
