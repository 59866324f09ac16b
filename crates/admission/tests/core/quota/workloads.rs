//! The messages about the pods of workloads, before any pod is created: the claims of `workloads.yaml`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Quota;
use crate::claims::{check_each, is_like};
use crate::harness::answer;

#[test]
fn every_claim_holds() {
    check_each(include_str!("workloads.yaml"), Case::check);
}

/// A workload that is created, updated or scaled, and what is expected of the decision. In an expected text, `...`
/// stands for any text.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Case {
    /// The case holds for each of these kinds, or for a Deployment.
    kinds: Vec<String>,
    /// The fields of the spec, beside those that [`workload`] reads itself.
    new: Map<String, Value>,
    old: Option<Map<String, Value>>,
    /// The status of the old object. Without it, all its replicas are of the last template.
    #[serde(deserialize_with = "some")]
    status: Option<Value>,
    /// The replicas before and after a request for the subresource `scale`, and the workload that is scaled.
    scale: Option<[u32; 2]>,
    scaled: Map<String, Value>,
    user: Option<String>,
    /// The cpu of quota `team` that is used, or none.
    used: Option<String>,
    /// Other quotas than this one.
    quotas: Option<Vec<Quota>>,
    tenant_quotas: Vec<Value>,
    /// The limits of LimitRange `small`.
    limits: Vec<Value>,
    /// The case holds for each of these settings, or for the defaults.
    settings: Vec<Value>,

    /// All warnings in their order.
    warnings: Vec<String>,
    /// The message of a refusal. Without it, the request is admitted.
    refused: Option<String>,
    /// The most that the pods add to the quotas.
    adds: Option<Vec<String>>,
}

/// A null that is written is not a field that is left out.
fn some<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// A workload with these fields of its spec. Of its pods' container `web`, `cpu` is the request, `cpuAndLimit` request
/// and limit, `resources` all that it sets, and `container` replaces it. `pod` has more fields of the pods' spec.
fn workload(kind: &str, fields: &Map<String, Value>) -> Value {
    let mut spec = fields.clone();
    let mut metadata = json!({"name": "web", "namespace": "shop", "resourceVersion": "1"});
    for field in ["labels", "ownerReferences", "deletionTimestamp"] {
        if let Some(value) = spec.remove(field) {
            metadata[field] = value;
        }
    }
    if let Some(partition) = spec.remove("partition") {
        spec.insert("ordinals".to_owned(), json!({"start": 5}));
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        spec.insert("updateStrategy".to_owned(), strategy);
    }
    let cpu = spec.remove("cpu").unwrap_or_else(|| json!("500m"));
    let mut resources = json!({"requests": {"cpu": cpu}});
    if let Some(cpu) = spec.remove("cpuAndLimit") {
        resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    }
    let resources = spec.remove("resources").unwrap_or(resources);
    let container = spec.remove("container").unwrap_or_else(|| json!({"name": "web", "resources": resources}));
    let mut template = json!({"metadata": {"labels": spec.remove("podLabels")}, "spec": spec.remove("pod")});
    template["spec"]["containers"] = json!([container]);
    let mut spec = Value::Object(spec);
    let of_job = if kind == "CronJob" { "/jobTemplate/spec" } else { "" };
    spec.pointer_mut(of_job).unwrap()["template"] = template;
    json!({"kind": kind, "metadata": metadata, "spec": spec})
}

impl Case {
    fn check(&self) {
        let (deployment, defaults) = (["Deployment".to_owned()], [json!({})]);
        let kinds = if self.kinds.is_empty() { &deployment[..] } else { &self.kinds };
        let settings = if self.settings.is_empty() { &defaults[..] } else { &self.settings };
        for (kind, settings) in kinds.iter().flat_map(|kind| settings.iter().map(move |of| (kind, of))) {
            let answer = answer(&self.request(kind), settings, &self.lists(kind), None);
            let found = format!("{kind} {settings} {:?} {:?} for {self:#?}", answer.message, answer.warnings);
            assert_eq!(answer.admitted, self.refused.is_none(), "{found}");
            assert!(self.refused.as_ref().is_none_or(|refused| is_like(&answer.message, refused)), "{found}");
            assert_eq!(answer.warnings.len(), self.warnings.len(), "{found}");
            assert!(answer.warnings.iter().zip(&self.warnings).all(|(text, like)| is_like(text, like)), "{found}");
            let adds = answer.pods_add;
            assert!(self.adds.as_ref().is_none_or(|expected| adds == *expected), "{adds:?} {found}");
        }
    }

    fn request(&self, kind: &str) -> Value {
        let group = if kind.ends_with("Job") { "batch" } else { "apps" };
        let resource = format!("{}s", kind.to_lowercase());
        let scale = |replicas: u32, of: u32| json!({"kind": "Scale", "spec": {"replicas": replicas}, "status": {"replicas": of}});
        let (object, old) = match self.scale {
            Some([before, after]) => (scale(after, before), Some(scale(before, before))),
            None => (workload(kind, &self.new), self.old.as_ref().map(|old| self.before(kind, old))),
        };
        let mut request = json!({
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "namespace": "shop", "name": "web",
            "resource": {"group": group, "resource": resource}, "object": object, "oldObject": old,
        });
        if self.scale.is_some() {
            request["subResource"] = json!("scale");
        }
        if let Some(user) = &self.user {
            request["userInfo"] = json!({"username": user});
        }
        request
    }

    fn before(&self, kind: &str, old: &Map<String, Value>) -> Value {
        let replicas = old.get("replicas");
        let mut object = workload(kind, old);
        object["status"] =
            self.status.clone().unwrap_or_else(|| json!({"replicas": replicas, "updatedReplicas": replicas}));
        object
    }

    fn lists(&self, kind: &str) -> Value {
        let team = Quota {
            hard: json!({"requests.cpu": "4"}),
            used: json!({"requests.cpu": self.used.as_deref().unwrap_or("0")}),
            ..Quota::default()
        };
        let quotas: Vec<Value> = self.quotas.as_ref().unwrap_or(&vec![team]).iter().map(Quota::object).collect();
        let scaled = self.scale.map(|_| self.before(kind, &self.scaled));
        let range = json!({"metadata": {"name": "small"}, "spec": {"limits": self.limits}});
        json!({
            "ResourceQuota": {"items": quotas}, "LimitRange": {"items": [range]}, "Scaled": scaled,
            "TenantQuota": {"items": self.tenant_quotas},
        })
    }
}
