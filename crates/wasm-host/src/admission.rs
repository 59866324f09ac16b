//! Input and output of an evaluation, as in Kubewarden's evaluator: the admission request for a policy, and the
//! admission response built from the policy's answer.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An `admission.k8s.io/v1` AdmissionRequest. Fields the evaluator does not know do not reach the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    pub uid: String,
    pub kind: Value,
    pub resource: Value,
    pub sub_resource: Option<String>,
    pub request_kind: Option<Value>,
    pub request_resource: Option<Value>,
    pub request_sub_resource: Option<String>,
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub operation: String,
    pub user_info: Value,
    pub object: Option<Value>,
    pub old_object: Option<Value>,
    pub dry_run: Option<bool>,
    pub options: Option<Value>,
}

impl AdmissionRequest {
    /// Reads an AdmissionReview, or an AdmissionRequest alone.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| format!("the request is not JSON: {error}"))?;
        Self::from_value(document)
    }

    /// Like [`Self::from_json`], for a parsed document.
    pub fn from_value(mut document: Value) -> Result<Self, String> {
        if document.get("kind").and_then(Value::as_str) == Some("AdmissionReview") {
            document = document.get_mut("request").map(Value::take).ok_or("invalid AdmissionReview object")?;
        }
        serde_json::from_value(document)
            .map_err(|error| format!("cannot build AdmissionRequest object from given input: {error}"))
    }

    /// The payload of the guest operation `validate`: compact, without absent fields, and with the keys of every object
    /// sorted, because the evaluator passes everything through `serde_json::Value`.
    pub fn payload(&self, settings: &Value) -> Vec<u8> {
        let mut payload = serde_json::json!({ "request": self, "settings": settings });
        if let Some(request) = payload.get_mut("request").and_then(Value::as_object_mut) {
            request.retain(|_, field| !field.is_null());
        }
        payload.to_string().into_bytes()
    }
}

/// A policy's answer to a request: the result of the guest operation `validate`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ValidationResponse {
    pub accepted: bool,
    pub message: Option<String>,
    pub code: Option<u16>,
    pub mutated_object: Option<Value>,
    pub audit_annotations: Option<BTreeMap<String, String>>,
    pub warnings: Option<Vec<String>>,
}

/// The response to the API server, which `kwctl run` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    pub uid: String,
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// A JSON Patch, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    pub audit_annotations: Option<BTreeMap<String, String>>,
    pub warnings: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

impl Status {
    fn new(message: String, code: Option<u16>) -> Self {
        Self { message: Some(message), code }
    }
}

impl AdmissionResponse {
    pub fn internal_server_error(uid: &str, message: &str) -> Self {
        let status = Status::new(format!("internal server error: {message}"), Some(500));
        Self { uid: uid.to_owned(), status: Some(status), ..Self::default() }
    }

    /// The patch is the difference between the object in the request and the one that the policy returns.
    pub fn from_validation(request: &AdmissionRequest, validation: ValidationResponse) -> Self {
        let uid = request.uid.clone();
        let patch = match (&request.object, &validation.mutated_object) {
            (_, None) => None,
            (None, Some(_)) => {
                let message = "Incoming object is null, which happens only with DELETE operations, but the policy is attempting a mutation. This is not allowed";
                let status = Some(Status::new(message.to_owned(), None));
                return Self { uid, status, ..Self::default() };
            }
            (Some(before), Some(after)) => {
                let patch = json_patch::diff(before, after);
                (!patch.0.is_empty()).then(|| BASE64.encode(serde_json::json!(patch).to_string()))
            }
        };
        let has_status = validation.message.is_some() || validation.code.is_some();
        Self {
            uid,
            allowed: validation.accepted,
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch,
            status: has_status.then_some(Status { message: validation.message, code: validation.code }),
            audit_annotations: validation.audit_annotations,
            warnings: validation.warnings,
        }
    }

    /// Refuses the request if the policy has made a patch but may not mutate.
    #[must_use]
    pub fn without_mutation(self, policy_id: &str) -> Self {
        if self.patch.is_none() {
            return self;
        }
        let message = format!(
            "Request rejected by policy {policy_id}. The policy attempted to mutate the request, but it is currently configured to not allow mutations."
        );
        let status = Some(Status::new(message, None));
        Self { allowed: false, status, patch: None, patch_type: None, ..self }
    }

    /// Monitor mode: everything is allowed and nothing is changed; warnings and audit annotations stay.
    #[must_use]
    pub fn monitored(self) -> Self {
        Self { allowed: true, patch: None, patch_type: None, status: None, ..self }
    }

    pub fn message(&self) -> Option<&str> {
        self.status.as_ref()?.message.as_deref()
    }

    pub fn patched(&self, object: &Value) -> Result<Value, String> {
        let mut object = object.clone();
        let Some(patch) = &self.patch else { return Ok(object) };
        let text = BASE64.decode(patch).map_err(|error| format!("the patch is not base64: {error}"))?;
        let patch: json_patch::Patch =
            serde_json::from_slice(&text).map_err(|error| format!("the patch is not a JSON Patch: {error}"))?;
        json_patch::patch(&mut object, &patch.0).map_err(|error| error.to_string())?;
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(object: Value) -> AdmissionRequest {
        AdmissionRequest::from_value(json!({
            "kind": "AdmissionReview",
            "request": {
                "uid": "u", "kind": {}, "resource": {}, "operation": "CREATE", "userInfo": {},
                "object": object, "oldObject": null, "unheardOf": 1
            }
        }))
        .unwrap()
    }

    /// The response to a request for this object where the policy accepts it as another.
    fn response(object: Value, mutated: Value) -> AdmissionResponse {
        let validation = json!({"accepted": true, "mutated_object": mutated, "warnings": ["w"]});
        AdmissionResponse::from_validation(&request(object), serde_json::from_value(validation).unwrap())
    }

    #[test]
    fn the_payload_is_compact_sorted_and_without_nulls_and_unknown_fields() {
        let payload = request(json!({"b": 1, "a": null})).payload(&json!({}));
        assert_eq!(
            String::from_utf8(payload).unwrap(),
            r#"{"request":{"kind":{},"object":{"a":null,"b":1},"operation":"CREATE","resource":{},"uid":"u","userInfo":{}},"settings":{}}"#
        );
    }

    #[test]
    fn a_request_without_a_required_field_is_refused_with_its_name() {
        let error = AdmissionRequest::from_json(r#"{"uid": "u"}"#).unwrap_err();
        assert!(error.contains("missing field `kind`"), "{error}");
    }

    #[test]
    fn the_patch_is_the_difference_and_leads_to_the_mutated_object() {
        let (before, after) = (json!({"a": 1}), json!({"a": 1, "b": {"c": 2}}));
        let changed = response(before.clone(), after.clone());
        let operations = BASE64.encode(r#"[{"op":"add","path":"/b","value":{"c":2}}]"#);
        assert_eq!((changed.patch_type, &changed.patch), (Some("JSONPatch"), &Some(operations)));
        assert_eq!(changed.patched(&before).unwrap(), after);
        let same = response(before.clone(), before);
        assert_eq!((same.patch_type, same.patch), (None, None));
        assert!(!response(Value::Null, after).allowed, "there is nothing to change");
    }

    #[test]
    fn a_policy_that_may_not_mutate_has_its_patch_refused() {
        let response = response(json!({}), json!({"a": 1}));
        let refused = response.clone().without_mutation("p");
        assert!(!refused.allowed && refused.patch.is_none());
        assert!(refused.message().unwrap().starts_with("Request rejected by policy p."));
        let monitored = response.monitored();
        assert!(monitored.allowed && monitored.patch.is_none());
        assert_eq!(monitored.warnings, Some(vec!["w".to_owned()]));
    }
}
