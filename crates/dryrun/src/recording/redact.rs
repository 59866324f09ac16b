//! What stays out of a recording: the values of environment variables, of HTTP headers of probes, of Secrets and ConfigMaps;
//! the API server's bookkeeping, which repeats them; and the values of annotations, because other tools keep the whole
//! manifest in one, compressed or not. No decision depends on any of it, but on whether two of them are the same: so each
//! value gets a number.

use std::collections::BTreeMap;

use headroom_core::annotations::OURS;
use headroom_core::annotations::limit_ranger::LIMIT_RANGER;
use serde_json::{Value, json};

use crate::cluster_reader::without_bookkeeping;

/// The values that were left out so far, with their numbers.
#[derive(Debug, Default)]
pub struct Redaction(BTreeMap<String, usize>);

/// Fields of a Secret or a ConfigMap that hold its contents.
const CONTENTS: [&str; 3] = ["data", "stringData", "binaryData"];

/// Fields that hold named values: lists of `{name, value}`.
const NAMED_VALUES: [&str; 2] = ["env", "httpHeaders"];

/// Annotations that decisions and advice read.
const READ: [&str; 3] =
    [LIMIT_RANGER, "volume.beta.kubernetes.io/storage-class", "resource.kubernetes.io/extended-resource-claim"];

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
        self.redact_fields(object);
    }

    fn redact_fields(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    if NAMED_VALUES.contains(&field.as_str()) {
                        let named = value.as_array_mut().into_iter().flatten();
                        named.filter_map(|named| named.get_mut("value")).for_each(|value| self.leave_out(value));
                    }
                    if field == "annotations" {
                        let is_read = |name: &str| name.starts_with(OURS) || READ.contains(&name);
                        let annotations = value.as_object_mut().into_iter().flatten();
                        annotations.filter(|(name, _)| !is_read(name)).for_each(|(_, value)| self.leave_out(value));
                    }
                    self.redact_fields(value);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_fields(item)),
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
    fn other_tools_annotations_and_headers_of_probes_are_left_out_too() {
        let annotations = json!({
            "kapp.k14s.io/original": "{\"env\": \"s3cret\"}", "headroom.dev/estimates": "never",
            "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container a",
        });
        let probe = json!({"httpGet": {"path": "/", "httpHeaders": [{"name": "Authorization", "value": "s3cret"}]}});
        let template = json!({"metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "a", "livenessProbe": probe}]}});
        let mut deployment =
            json!({"kind": "Deployment", "metadata": {"annotations": annotations}, "spec": {"template": template}});
        Redaction::default().redact(&mut deployment);
        assert!(!deployment.to_string().contains("s3cret"), "{deployment}");
        for at in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
            let left = deployment.pointer(at).unwrap();
            assert_eq!(left["headroom.dev/estimates"], annotations["headroom.dev/estimates"]);
            assert_eq!(left["kubernetes.io/limit-ranger"], annotations["kubernetes.io/limit-ranger"]);
            assert_eq!(left["kapp.k14s.io/original"], "left out (1)");
        }
    }

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
