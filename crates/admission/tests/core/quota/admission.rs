//! Requests that are charged partly or not at all, and quotas that are read again: the claims of `admission.yaml`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Quota;
use crate::claims::{check_each, is_like};
use crate::harness::{Outcome, answer};

#[test]
fn every_claim_holds() {
    check_each(include_str!("admission.yaml"), Case::check);
}

/// A request in a namespace with quotas. In an expected text, `...` stands for any text.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Case {
    /// The containers and the status of the pod.
    containers: Option<Value>,
    /// More fields of its spec.
    spec: Map<String, Value>,
    status: Value,
    /// Fields of the AdmissionRequest that differ from those of a new pod.
    request: Map<String, Value>,
    /// True if the audit scanner sends the pod, which is stored already.
    is_audit: bool,
    settings: Map<String, Value>,
    quotas: Vec<Quota>,
    /// The failure of the read of the device classes.
    classes_problem: Option<String>,
    /// The quotas of a second read.
    fresh: Vec<Quota>,

    /// The message of a refusal. Without it, the request is admitted.
    refused: Option<String>,
    warnings: Vec<String>,
    /// False if nothing is charged.
    charges: Option<bool>,
    /// The names of the quotas that are read again.
    read_again: Option<Vec<String>>,
}

impl Case {
    fn check(&self) {
        let Outcome { admitted, message, warnings, used, read_again, .. } = self.evaluate();
        let found = format!("{message} {warnings:?} {read_again:?} for {self:#?}");
        assert_eq!(admitted, self.refused.is_none(), "{found}");
        assert!(self.refused.as_ref().is_none_or(|refused| is_like(&message, refused)), "{found}");
        assert_eq!(warnings, self.warnings, "{found}");
        assert!(self.charges.is_none_or(|charges| charges != used.is_empty()), "{found}");
        assert!(self.read_again.as_ref().is_none_or(|names| read_again == *names), "{found}");
    }

    fn evaluate(&self) -> Outcome {
        let one = || json!([{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]);
        let containers = self.containers.clone().unwrap_or_else(one);
        let metadata = json!({"name": "p", "uid": "42", "resourceVersion": "1"});
        let mut pod = json!({"metadata": metadata, "spec": self.spec, "status": self.status});
        pod["spec"]["containers"] = containers;
        let mut request = json!({
            "uid": if self.is_audit { "42" } else { "7" }, "operation": "CREATE", "namespace": "shop",
            "resource": {"group": "", "resource": "pods"}, "object": pod,
        });
        if self.request.contains_key("subResource") {
            request["oldObject"] = pod;
        }
        request.as_object_mut().unwrap().extend(self.request.clone());
        let quotas = |quotas: &[Quota]| json!({"items": quotas.iter().map(Quota::object).collect::<Vec<_>>()});
        let gpu = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
        let classes = self.classes_problem.as_ref().map_or_else(|| json!({"items": [gpu]}), |problem| json!(problem));
        let lists = json!({
            "ResourceQuota": quotas(&self.quotas), "Fresh": quotas(&self.fresh), "DeviceClass": classes,
        });
        answer(&request, &json!(self.settings), &lists, None)
    }
}

#[test]
fn at_most_eight_quotas_are_read_again_and_refusing_ones_come_first() {
    let quota = |name: String, hard: u32| Quota {
        name,
        hard: json!({"pods": hard.to_string()}),
        used: json!({"pods": "1"}),
        ..Quota::default()
    };
    let close = (0..20).map(|index| quota(format!("close-{index:02}"), 9));
    let quotas: Vec<Quota> = close.chain([quota("full".to_owned(), 1)]).collect();
    let settings = json!({"quotas": {"freshness": "live"}}).as_object().unwrap().clone();
    let answer = Case { settings, fresh: quotas.clone(), quotas, ..Case::default() }.evaluate();
    assert!(!answer.admitted);
    assert_eq!(answer.read_again.len(), 8);
    assert!(answer.read_again.contains(&"full".to_owned()) && answer.read_again.is_sorted());
}
