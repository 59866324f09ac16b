//! The UsageProfile object: its envelope, and the CustomResourceDefinition generated from the types.
//!
//! The API server drops fields that are not in the schema, and refuses values of another type and strings and lists
//! longer than a collector writes them, because a policy host copies the stored object for every request.

#![expect(clippy::duplicated_attributes, reason = "columns of one type are no duplicates")]

use std::collections::BTreeMap;

use headroom_admission::cluster::usage::{FORMAT, ProfileName};
use headroom_admission::timestamp::Timestamp;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bounds::{MAX_BYTES_OF_RESTRICTED, MAX_NODES, json_length};
use super::serialized::{keyed, text};
use super::{ImageHistory, Images};

/// The label with the root of an object, for listing all objects of a root.
pub const ROOT_LABEL: &str = "headroom.dev/root";

/// The default namespace of the collector.
pub const NAMESPACE: &str = "headroom";

/// Collected usage. The collector replaces it as a whole.
// Atomic, because the API server would otherwise track field ownership for each figure, which takes as many bytes as
// the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "headroom.dev",
    version = "v1alpha1",
    kind = "UsageProfile",
    plural = "usageprofiles",
    shortname = "usage",
    shortname = "uprof",
    namespaced,
    doc = "Usage history of images, from which the policy estimates requests.",
    printcolumn(name = "Images", type_ = "integer", json_path = ".spec.summary.images"),
    printcolumn(name = "Histories", type_ = "integer", json_path = ".spec.summary.histories"),
    printcolumn(name = "Pages", type_ = "integer", json_path = ".spec.summary.pages"),
    printcolumn(name = "OOM-Killed", type_ = "integer", json_path = ".spec.summary.oomKilledImages"),
    printcolumn(name = "Collected", type_ = "date", json_path = ".spec.header.collectedAt"),
    printcolumn(
        name = "Dropped-Histories",
        type_ = "integer",
        json_path = ".spec.summary.droppedHistories",
        priority = 1
    ),
    printcolumn(name = "Dropped-Tags", type_ = "integer", json_path = ".spec.summary.droppedTags", priority = 1)
)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct UsageProfileSpec {
    pub header: Header,
    #[serde(default)]
    pub summary: Summary,
    /// Histories of images by repository, with a comma in place of each dot, except those in pages.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default, with = "keyed")]
    #[schemars(with = "Option<BTreeMap<String, ImageHistory>>", extend("maxProperties" = 64))]
    pub images: Images,
}

/// Metadata that readers need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format. Readers ignore a profile of another version.
    pub format: u32,
    /// When the figures were collected. Readers ignore a profile that is too old.
    #[serde(with = "text")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub collected_at: Timestamp,
    /// For pools: fewer namespaces than this cannot move a figure out of the range of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u64>,
    /// If images are in pages: the tree of pages. `/` is a fork by repository and `|` a fork by namespace,
    /// followed by their two halves; `#` is a page, whose name ends with the halves that lead to it; `.` is an empty half.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NODES))]
    pub pages: Option<String>,
    /// If images are in pages: the key of the hashes that decide on halves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub page_key: Option<String>,
    /// Except in a page: the namespaces with the label or annotation `headroom.dev/estimates`, separated by spaces, or `*` if there
    /// are too many to list. Readers look at these Namespaces, and at every Namespace if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_BYTES_OF_RESTRICTED))]
    pub restricted_namespaces: Option<String>,
}

impl Header {
    pub fn new(collected_at: Timestamp, quorum: Option<u64>) -> Self {
        Self { format: FORMAT, collected_at, quorum, pages: None, page_key: None, restricted_namespaces: None }
    }
}

/// Figures for kubectl's columns, which include the pages. Not used for decisions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Number of images.
    pub images: usize,
    /// Number of histories of images in namespaces.
    pub histories: usize,
    /// Number of pages.
    pub pages: usize,
    /// Number of images with out-of-memory kills.
    pub oom_killed_images: usize,
    /// Number of histories of images in namespaces that were dropped for lack of room.
    pub dropped_histories: usize,
    /// Number of tags that were dropped for lack of room.
    pub dropped_tags: usize,
}

impl UsageProfile {
    pub fn named(name: &ProfileName, namespace: &str, spec: UsageProfileSpec) -> Self {
        let mut profile = Self::new(&name.to_string(), spec);
        profile.metadata.namespace = Some(namespace.to_owned());
        profile
    }

    /// The length of its JSON text.
    pub fn bytes(&self) -> usize {
        json_length(self)
    }

    /// The object as the API server has it.
    pub fn to_value(&self) -> Value {
        // OK because all fields have texts or numbers, and all keys are texts.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// The CustomResourceDefinition of the chart, `deploy/charts/headroom/files/crd.yaml`.
pub fn definition() -> serde_json::Result<Value> {
    let mut definition = serde_json::to_value(UsageProfile::crd())?;
    simplify(&mut definition);
    Ok(definition)
}

/// Removes what Kubernetes does not need: an optional field is absent, never null, and has no default. Kubernetes knows no
/// unsigned numbers.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| match name.as_str() {
                "title" => !value.is_string(),
                "default" => false,
                _ => true,
            });
            if fields.get("format").is_some_and(|format| format == "uint64" || format == "uint" || format == "uint32") {
                fields.insert("format".to_owned(), json!("int64"));
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// Asserts that the API server would accept `value` and keep all its fields.
    fn check(place: &str, value: &Value, schema: &Value) {
        if value.is_null() {
            assert_eq!(schema["nullable"], true, "{place}");
            return;
        }
        match schema["type"].as_str().unwrap() {
            "object" => {
                let object = value.as_object().unwrap_or_else(|| panic!("{place} is not an object"));
                for name in schema["required"].as_array().into_iter().flatten() {
                    assert!(object.contains_key(name.as_str().unwrap()), "{place} has no {name}");
                }
                for (name, value) in object {
                    let of = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                    assert!(of.is_object(), "{place}.{name} is not in the schema");
                    check(&format!("{place}.{name}"), value, of);
                }
                let most = schema["maxProperties"].as_u64().unwrap_or(u64::MAX);
                assert!(object.len() as u64 <= most, "{place}");
            }
            "array" => {
                let items = value.as_array().unwrap_or_else(|| panic!("{place} is not a list"));
                assert!(items.len() as u64 <= schema["maxItems"].as_u64().unwrap(), "{place}");
                items.iter().for_each(|item| check(&format!("{place}[]"), item, &schema["items"]));
            }
            "string" => {
                let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
                assert!(value.as_str().is_some_and(|text| text.len() as u64 <= most), "{place}");
            }
            "integer" => assert!(value.is_u64(), "{place}"),
            other => panic!("{place}: {other}"),
        }
    }

    #[test]
    fn every_written_field_is_in_the_schema_and_every_column_shows_one() {
        let (written, definition) = (sample::profile().to_value(), definition().unwrap());
        let version = &definition["spec"]["versions"][0];
        check("spec", &written["spec"], &version["schema"]["openAPIV3Schema"]["properties"]["spec"]);
        for column in version["additionalPrinterColumns"].as_array().unwrap() {
            let path = column["jsonPath"].as_str().unwrap();
            assert!(written.pointer(&path.replace('.', "/")).is_some(), "{column}");
        }
    }

    #[test]
    fn a_profile_is_read_as_it_was_written_now_or_by_the_first_versions() {
        let profile = sample::profile();
        let mut of_first_versions = profile.to_value();
        // They published how good estimates were.
        let own = &mut of_first_versions["spec"]["images"]["docker,io/library/nginx"]["own"]["shop"];
        own["estimates"] = json!({"cpu": {"containers": 2, "above": 1, "estimated": "1", "used": "500m"}});
        for written in [profile.to_value(), of_first_versions] {
            assert_eq!(serde_json::from_value::<UsageProfile>(written).unwrap().spec, profile.spec);
        }
    }

    #[test]
    fn a_profile_is_written_in_the_documented_format() {
        expect_test::expect_file!["expected/profile.yaml"]
            .assert_eq(&serde_saphyr::to_string(&sample::profile().to_value()).unwrap());
    }

    /// They are applied by hand, so the API server must accept them.
    #[test]
    fn usage_of_the_demo_has_all_required_fields() {
        for text in [
            include_str!("../../../../tests/data/usage/own.yaml"),
            include_str!("../../../../tests/data/usage/shop.yaml"),
        ] {
            let profile: Value = serde_saphyr::from_str(text).unwrap();
            let spec: UsageProfileSpec = serde_json::from_value(profile["spec"].clone()).unwrap();
            assert_eq!(spec.summary.images, 1);
        }
    }

    #[test]
    fn deployed_definition_is_up_to_date() {
        let deployed: Value =
            serde_saphyr::from_str(include_str!("../../../../deploy/charts/headroom/files/crd.yaml")).unwrap();
        assert!(
            deployed == definition().unwrap(),
            "the chart's CustomResourceDefinition is out of date: run `cargo xtask codegen`"
        );
    }
}
