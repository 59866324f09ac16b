//! The fields that the ledger writes of the kinds TenantQuota and QuotaLedger. Their CustomResourceDefinitions are in
//! `deploy/charts/headroom/files/ledger/crds.yaml`.
//!
//! The quota server reads TenantQuotas with [`headroom_admission::cluster::tenant_quota`], like all other readers: the dry run
//! and the playground need that reader, which keeps exact amounts. It writes the status and ledgers with these types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Amounts by name, such as `requests.cpu`.
pub type Amounts = BTreeMap<String, String>;

/// None is absent in what is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantQuotaStatus {
    pub observed_generation: Option<i64>,
    /// Enforced bounds. A suspended quota has none.
    pub hard: Option<Amounts>,
    /// Counted from stored objects.
    pub used: Option<Amounts>,
    /// Held by unfinished requests.
    pub reserved: Option<Amounts>,
    /// Namespaces that are never charged, even if the quota covers them.
    pub exempt_namespaces: Option<Vec<String>>,
    pub namespace_count: Option<i64>,
    /// The ten largest namespaces of each bound, 50 at most.
    pub namespaces: Option<Vec<Consumer>>,
    /// The 50 largest children.
    pub children: Option<Vec<Consumer>>,
    pub request: Option<String>,
    pub limit: Option<String>,
    pub conditions: Option<Vec<Condition>>,
}

/// A namespace or child quota, and its usage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Consumer {
    pub name: String,
    pub used: Amounts,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Usage of a tree of TenantQuotas, and amounts held by unfinished requests.
///
/// Either a plan's lists or a state's lists. Never nested: see `headroom_quota_protocol::encoding`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaLedger {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<u64>,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The API server drops what its schema does not have, and refuses another type.
    #[track_caller]
    fn check(schema: &Value, written: &Value) {
        let properties = schema["properties"].as_object();
        match written {
            Value::Object(fields) => {
                let is_same = properties.is_none_or(|properties| properties.keys().eq(fields.keys()));
                assert!(is_same, "{schema}\n{written}");
                fields.iter().for_each(|(name, value)| {
                    check(properties.map_or(&schema["additionalProperties"], |properties| &properties[name]), value);
                });
            }
            Value::Array(items) => items.iter().for_each(|item| check(&schema["items"], item)),
            value => assert_eq!(schema["type"], if value.is_i64() { "integer" } else { "string" }, "{written}"),
        }
    }

    #[test]
    fn the_definitions_have_the_fields_that_are_written() {
        let deployed = include_str!("../../../deploy/charts/headroom/files/ledger/crds.yaml");
        let deployed: Vec<Value> = serde_saphyr::from_multiple(deployed).unwrap();
        let [tenant_quota, quota_ledger] =
            [0, 1].map(|at| &deployed[at]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        let (text, list) = (|| "1".to_owned(), || vec!["1".to_owned()]);
        let amounts = || Amounts::from([("pods".to_owned(), "1".to_owned())]);
        let consumers = || Some(vec![Consumer { name: "1".to_owned(), used: amounts() }]);
        let status = TenantQuotaStatus {
            observed_generation: Some(1),
            hard: Some(amounts()),
            used: Some(amounts()),
            reserved: Some(amounts()),
            exempt_namespaces: Some(list()),
            namespace_count: Some(1),
            namespaces: consumers(),
            children: consumers(),
            request: Some(text()),
            limit: Some(text()),
            conditions: Some(vec![Condition {
                r#type: text(),
                status: text(),
                reason: text(),
                message: text(),
                last_transition_time: text(),
                observed_generation: Some(1),
            }]),
        };
        check(&tenant_quota["properties"]["status"], &json!(status));
        let ledger = QuotaLedger {
            plan: Some(1),
            nodes: list(),
            namespaces: list(),
            used: list(),
            counted_at: list(),
            shapes: list(),
            claims: list(),
        };
        check(quota_ledger, &json!(ledger));
    }
}
