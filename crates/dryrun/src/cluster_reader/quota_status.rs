//! The status of a quota that no quota controller has seen yet: its bounds as in the spec, and the usage counted
//! from the objects around it.

use std::collections::BTreeMap;

use headroom_core::cluster::resource_quota::ResourceQuota;
use headroom_core::json::Document;
use headroom_core::quota::stored::Stored;
use headroom_core::quota::{Kind, Object, recount};
use headroom_core::timestamp::Timestamp;
use serde_json::{Value, json};

use super::folder::amounts;
use super::{ClusterReader, ReadError};
use crate::clock;
use crate::kinds::{ApiKind, metadata};

/// True if a quota has its usage in its status.
pub fn is_counted(quota: &Value) -> bool {
    let has = |field: &str| quota.pointer(field).is_some_and(Value::is_object);
    has("/status/hard") && has("/status/used")
}

/// Gives a quota the status that the quota controller would give it. What cannot be listed is not counted.
pub fn count(quota: &mut Value, cluster: &mut dyn ClusterReader) -> Result<(), ReadError> {
    let namespace = metadata(quota, "namespace").to_owned();
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut kinds: BTreeMap<String, ApiKind> = BTreeMap::new();
    for kind in hard.keys().filter_map(|name| ApiKind::charged_under(name)) {
        kinds.insert(kind.qualified(), kind);
    }
    let mut texts: Vec<(String, String)> = Vec::new();
    for (qualified, kind) in kinds {
        let objects = cluster.list((&kind.api_version(), &kind.kind, Some(&namespace)))?;
        texts.extend(objects.iter().map(|object| (qualified.clone(), object.to_string())));
    }
    let text = quota.to_string();
    let status = status_of(&text, &texts).map_err(|problem| {
        format!("the usage of ResourceQuota {} cannot be counted: {problem}", metadata(quota, "name"))
    })?;
    if let Value::Object(fields) = quota {
        fields.insert("status".to_owned(), status);
    }
    Ok(())
}

fn status_of(quota: &str, objects: &[(String, String)]) -> Result<Value, String> {
    let documents: Vec<(&str, Document<'_>)> = objects
        .iter()
        .map(|(kind, text)| Ok((kind.as_str(), Document::read(text)?)))
        .collect::<Result<_, headroom_core::json::SyntaxError>>()
        .map_err(|error| error.to_string())?;
    let document = Document::read(quota).map_err(|error| error.to_string())?;
    let quota = ResourceQuota::read(document.root()).map_err(|error| error.to_string())?;
    let stored = documents
        .iter()
        .map(|(kind, document)| Stored::read(Kind::from_qualified(kind), document.root()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    let objects: Vec<Object<'_, '_>> = stored.iter().map(Stored::object).collect();
    let used = recount::used(&quota, &objects, |_| true, Timestamp::from_unix_seconds(clock::now()))
        .map_err(|error| error.to_string())?;
    Ok(json!({"hard": amounts(&quota.spec_hard), "used": amounts(&used)}))
}
