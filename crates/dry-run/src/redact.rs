//! Leaves confidential data out of files for others: the values of environment variables but for settings of CPU and memory, of Secrets and ConfigMaps; the commands, paths and headers
//! of probes and lifecycle hooks; parameters for drivers of storage and devices; addresses of git repositories; what containers wrote before they ended, and other messages
//! of a pod's status; all of custom resources by which nothing is decided; the API server's bookkeeping, which repeats all this; and the values of annotations, because other
//! tools keep the whole manifest in one, compressed or not. No decision depends on any of it, but on whether two of them are the same: so each
//! value gets a number.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use headroom_admission::actions::estimate_targets::CHOICE;
use headroom_admission::annotations::headroom_annotation;
use headroom_admission::annotations::limit_ranger::LIMIT_RANGER;
use serde_json::{Value, json};

use headroom_objects::cluster_reader::without_bookkeeping;
use headroom_workloads::{applier, pod_makers, program};

/// The values that were left out so far, with their numbers. Of each there are two hashes, because some are whole manifests.
#[derive(Debug, Default)]
pub struct Redaction {
    numbers: HashMap<[u64; 2], usize>,
    hashers: [RandomState; 2],
}

/// Fields of a Secret or a ConfigMap that hold its contents.
const CONTENTS: [&str; 3] = ["data", "stringData", "binaryData"];

/// Fields that hold named values: lists of `{name, value}`.
const NAMED_VALUES: [&str; 2] = ["env", "httpHeaders"];

/// Annotations that decisions and advice read.
pub(crate) const READ: [&str; 6] = [
    CHOICE,
    headroom_annotation::NAME,
    headroom_annotation::REPORTED,
    LIMIT_RANGER,
    "volume.beta.kubernetes.io/storage-class",
    "resource.kubernetes.io/extended-resource-claim",
];

/// Fields of free text: of a probe or a hook, by the object around the field, and of a status.
const FREE_TEXT: [(&str, &str); 8] = [
    ("exec", "command"),
    ("httpGet", "path"),
    ("csi", "volumeAttributes"),
    ("flexVolume", "options"),
    // Its address may contain a password.
    ("gitRepo", "repository"),
    ("opaque", "parameters"),
    ("terminated", "message"),
    ("waiting", "message"),
];

impl Redaction {
    pub fn redact(&mut self, object: &mut Value) {
        without_bookkeeping(object);
        if matches!(object.get("kind").and_then(Value::as_str), Some("Secret" | "ConfigMap")) {
            for field in CONTENTS {
                let values = object.get_mut(field).and_then(Value::as_object_mut);
                values.into_iter().flatten().for_each(|(_, value)| self.leave_out(value));
            }
        }
        if object.get("kind").and_then(Value::as_str) == Some("Pod")
            && let Some(message) = object.pointer_mut("/status/message")
        {
            self.leave_out(message);
        }
        pod_makers::visit_unread(object, &mut |value| self.leave_out(value));
        self.redact_fields(object);
    }

    fn redact_fields(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    if NAMED_VALUES.contains(&field.as_str()) {
                        value.as_array_mut().into_iter().flatten().for_each(|named| self.leave_out_named(named));
                    }
                    for (_, inner) in FREE_TEXT.iter().filter(|(around, _)| around == field) {
                        if let Some(text) = value.get_mut(inner) {
                            self.leave_out_all(text);
                        }
                    }
                    if field == "annotations" {
                        let is_read = |name: &str| READ.contains(&name) || applier::is_mark(name);
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

    /// Leaves out a text, or each of a list or map.
    fn leave_out_all(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.leave_out(item)),
            Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| self.leave_out(field)),
            text => self.leave_out(text),
        }
    }

    /// Leaves out the value of a variable or header, but for settings of CPU and memory.
    fn leave_out_named(&mut self, named: &mut Value) {
        let text = |field: &str| named.get(field).and_then(Value::as_str).unwrap_or_default();
        let kept = program::settings_in(text("name"), text("value"));
        match named.get_mut("value") {
            Some(value) if kept.is_empty() => self.leave_out(value),
            Some(value) if *value != kept => {
                self.leave_out(value);
                *value = json!(format!("{kept} {}", value.as_str().unwrap_or_default()));
            }
            _ => {}
        }
    }

    fn leave_out(&mut self, value: &mut Value) {
        let number = self.numbers.len() + 1;
        let text = value.to_string();
        let hashes = self.hashers.each_ref().map(|hasher| hasher.hash_one(&text));
        let number = *self.numbers.entry(hashes).or_insert(number);
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
            "argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web",
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
            for read in ["headroom.dev/estimates", "kubernetes.io/limit-ranger", "argocd.argoproj.io/tracking-id"] {
                assert_eq!(left[read], annotations[read]);
            }
            assert_eq!(left["kapp.k14s.io/original"], "left out (1)");
        }
    }

    #[test]
    fn what_a_container_runs_for_others_or_wrote_at_its_end_is_left_out() {
        let mut pod = json!({"kind": "Pod", "metadata": {"annotations": {"headroom.dev/x": "s3cret"}},
            "spec": {
                "containers": [{"name": "a", "args": ["kept"],
                    "livenessProbe": {"exec": {"command": ["curl", "-u", "u:s3cret"]}},
                    "readinessProbe": {"httpGet": {"path": "/?token=s3cret", "port": 80}},
                    "lifecycle": {"preStop": {"exec": {"command": ["s3cret"]}}}}],
                "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": "s3cret"}}},
                    {"name": "g", "gitRepo": {"repository": "https://u:s3cret@git.example/a"}}]},
            "status": {"message": "s3cret", "containerStatuses": [{"name": "a", "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "s3cret"}},
                "lastState": {"terminated": {"reason": "OOMKilled", "message": "postgres://u:s3cret@db"}}}]}});
        Redaction::default().redact(&mut pod);
        assert!(!pod.to_string().contains("s3cret"), "{pod}");
        assert_eq!(pod.pointer("/status/containerStatuses/0/lastState/terminated/reason"), Some(&json!("OOMKilled")));
        assert_eq!(pod.pointer("/spec/containers/0/args/0"), Some(&json!("kept")));
    }

    #[test]
    fn of_custom_resources_only_what_decides_is_kept() {
        let check = |mut object: Value, expected: Value| {
            Redaction::default().redact(&mut object);
            assert_eq!(object, expected);
        };
        let out = |number| format!("left out ({number})");
        let template =
            json!({"spec": {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"cpu": "1"}}}]}});
        let widget = |password: &str, pin: Value, options: &str| {
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}},
                "spec": {"password": password, "pin": pin, "replicas": 3, "jvmOptions": [options], "template": template,
                    "resources": {"requests": {"cpu": "1"}}}})
        };
        check(widget("s3cret", json!(1234), "-Dpass=s3cret"), widget(&out(2), json!(out(3)), &out(1)));
        let cluster = |version: &str| {
            json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"},
                "spec": {"rayVersion": version, "enableInTreeAutoscaling": true,
                    "workerGroupSpecs": [{"maxReplicas": 3, "template": template}]}})
        };
        check(cluster("2.9"), cluster(&out(1)));
        let kinds = [
            ("v1", "Service"),
            ("headroom.dev/v1alpha1", "TenantQuota"),
            ("policies.kubewarden.io/v1", "ClusterAdmissionPolicy"),
        ];
        for (api_version, kind) in kinds {
            let object =
                json!({"apiVersion": api_version, "kind": kind, "spec": {"module": "a", "settings": {"b": "c"}}});
            check(object.clone(), object);
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
        let mut options = json!({"env": [{"name": "JAVA_OPTS", "value": "-Xmx6g -Dpassword=s3cret"}, {"name": "GOMEMLIMIT", "value": "3GiB"}]});
        redaction.redact(&mut options);
        assert_eq!(
            options["env"],
            json!([{"name": "JAVA_OPTS", "value": "-Xmx6g left out (3)"}, {"name": "GOMEMLIMIT", "value": "3GiB"}])
        );
        let mut secret = json!({"kind": "Secret", "data": {"password": "eA=="}, "stringData": {"b": "x"}});
        redaction.redact(&mut secret);
        assert_eq!(secret["stringData"], json!({"b": "left out (1)"}));
        assert!(!secret.to_string().contains("eA=="));
    }
}
