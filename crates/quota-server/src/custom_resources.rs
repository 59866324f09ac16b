//! The kinds TenantQuota and QuotaLedger: their fields, and the CustomResourceDefinitions generated from them.
//!
//! The quota server reads TenantQuotas with [`headroom_quota_protocol::tenant_quota`], like all other readers: the dry run
//! and the playground need that reader, which keeps exact amounts. It writes the status and ledgers with these types.

#![expect(clippy::duplicated_attributes, reason = "columns of one type are no duplicates")]

use std::collections::BTreeMap;

use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, json_schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Amounts by name, such as `requests.cpu`.
pub type Amounts = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "headroom.dev",
    version = "v1alpha1",
    kind = "TenantQuota",
    plural = "tenantquotas",
    shortname = "tq",
    status = "TenantQuotaStatus",
    doc = "A quota for several namespaces.",
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parent"),
    printcolumn(name = "Namespaces", type_ = "integer", json_path = ".status.namespaceCount"),
    printcolumn(name = "Request", type_ = "string", json_path = ".status.request"),
    printcolumn(name = "Limit", type_ = "string", json_path = ".status.limit"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TenantQuotaSpec {
    /// Name of the parent TenantQuota, which is charged too.
    #[schemars(length(max = 253))]
    pub parent: Option<String>,
    /// If true, usage is counted but nothing is rejected.
    pub suspend: Option<bool>,
    /// The namespaces that the quota covers, by name or by label. With neither, only its children are charged.
    pub namespaces: Option<Namespaces>,
    /// The same fields as the spec of a ResourceQuota, with the same meaning.
    pub quota: Quota,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Namespaces {
    #[schemars(length(max = 1000), inner(length(max = 63)))]
    pub names: Option<Vec<String>>,
    /// Label selector for namespaces.
    pub selector: Option<Selector>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    pub match_labels: Option<BTreeMap<String, String>>,
    pub match_expressions: Option<Vec<LabelRequirement>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: Operator,
    pub values: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    #[schemars(schema_with = "bounds")]
    pub hard: BTreeMap<String, Value>,
    pub scopes: Option<Vec<String>>,
    pub scope_selector: Option<ScopeSelector>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScopeSelector {
    pub match_expressions: Option<Vec<ScopeRequirement>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScopeRequirement {
    pub scope_name: String,
    pub operator: Operator,
    pub values: Option<Vec<String>>,
}

/// Written by the ledger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantQuotaStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Enforced bounds. A suspended quota has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<Amounts>,
    /// Counted from stored objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Amounts>,
    /// Held by unfinished requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Amounts>,
    /// Namespaces that are never charged, even if the quota covers them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exempt_namespaces: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_count: Option<i64>,
    /// The ten largest namespaces of each bound, 50 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<Consumer>>,
    /// The 50 largest children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<Consumer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// A namespace or child quota, and its usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consumer {
    pub name: String,
    pub used: Amounts,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Usage of a tree of TenantQuotas, and amounts held by unfinished requests. Do not edit: after an edit, usage is
/// recounted.
///
/// Either a plan's lists or a state's lists. Never nested: see `headroom_quota_protocol::encoding`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaLedger {
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub plan: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted_at: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Amounts as authors write them: `2` or `"500m"`.
fn bounds(_: &mut schemars::SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 100,
        "additionalProperties": {"x-kubernetes-int-or-string": true}
    })
}

/// The CustomResourceDefinitions of the chart, `deploy/charts/headroom/files/ledger/crds.yaml`.
pub fn definitions() -> serde_json::Result<[Value; 2]> {
    let mut tenant_quota = serde_json::to_value(TenantQuota::crd())?;
    let mut schema = serde_json::to_value(schema_for!(QuotaLedger))?;
    // Only the doc comment's first paragraph is for users.
    let description = schema.get("description").and_then(Value::as_str).and_then(|text| text.split("\n\n").next());
    let description = description.unwrap_or_default().replace('\n', " ");
    if let Value::Object(fields) = &mut schema {
        fields.remove("$schema");
        fields.insert("description".to_owned(), json!(description));
    }
    for schema in [&mut tenant_quota, &mut schema] {
        simplify(schema);
    }
    // kube's derive expects a `spec`, which a ledger does not have.
    let quota_ledger = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "quotaledgers.headroom.dev"},
        "spec": {
            "group": "headroom.dev",
            "names": {"kind": "QuotaLedger", "listKind": "QuotaLedgerList", "plural": "quotaledgers", "singular": "quotaledger"},
            "scope": "Namespaced",
            "versions": [{
                "additionalPrinterColumns": [
                    {"jsonPath": ".plan", "name": "Plan", "type": "integer"},
                    {"jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date"}
                ],
                "name": "v1alpha1",
                "schema": {"openAPIV3Schema": schema},
                "served": true,
                "storage": true
            }]
        }
    });
    Ok([tenant_quota, quota_ledger])
}

/// Removes keywords that Kubernetes does not need: an optional field is absent, never null, and has no default.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // Under `properties` such a name may be a field's, and its value a schema.
            fields.retain(|name, value| match name.as_str() {
                "nullable" => !value.is_boolean(),
                "title" => !value.is_string(),
                "default" => false,
                _ => true,
            });
            fields.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployed_definitions_are_up_to_date() {
        let deployed = include_str!("../../../deploy/charts/headroom/files/ledger/crds.yaml");
        let deployed: Vec<Value> = serde_saphyr::from_multiple(deployed).unwrap();
        assert!(
            deployed == definitions().unwrap(),
            "the chart's CustomResourceDefinitions are out of date: run `cargo xtask codegen`"
        );
    }
}
