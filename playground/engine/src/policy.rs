//! The settings of the page as the policy objects that have them, to be applied to a cluster.

use headroom_dry_run::settings;
use headroom_objects::manifest::{documents, yaml};
use serde_json::{Value, json};

/// The policy objects as people deploy them.
const POLICIES: &str = include_str!("../../../deploy/charts/headroom/files/policies.yaml");

/// One policy that fills in, one that validates, and one for subresources, as they are deployed. Settings that choose
/// one of these roles are for the one policy that has it.
pub fn manifest(settings: &str) -> Result<String, String> {
    let wanted = settings::in_text(std::path::Path::new("settings"), settings)?;
    settings::check(&wanted).map_err(|wrong| wrong.to_string())?;
    let wanted = wanted.as_object().cloned().unwrap_or_default();
    let mut policies = documents::read(POLICIES).into_iter().filter_map(|read| Some(read.ok()?.1)).collect::<Vec<_>>();
    if let Some(role) = wanted.get("role").filter(|role| **role != json!("both")) {
        policies.retain(|policy| policy.pointer("/spec/settings/role") == Some(role));
    }
    let texts = policies.into_iter().map(|mut policy| {
        if let Some(settings) = policy.pointer_mut("/spec/settings") {
            let (mut merged, role) = (wanted.clone(), settings.get("role").cloned());
            merged.remove("role");
            // A validating policy does not accept the setting that changes templates.
            if role == Some(json!("validate")) {
                merged.remove("mutateTemplates");
            }
            merged.extend(role.map(|role| ("role".to_owned(), role)));
            *settings = Value::Object(merged);
        }
        yaml::write(&policy)
    });
    Ok(texts.collect::<Vec<_>>().join("---\n"))
}
