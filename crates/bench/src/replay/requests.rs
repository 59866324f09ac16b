//! Requests for a new pod of an image at a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use headroom_admission::amount::Quantity;
use headroom_fixtures::files_below;
use headroom_resizer::decision::ComputeResource;
use serde_json::Value;

use crate::Result;

/// By image and resource.
pub type ByImage = BTreeMap<String, BTreeMap<String, f64>>;
pub type ByMoment = BTreeMap<String, ByImage>;

#[derive(Debug)]
pub struct Requests {
    pub name: String,
    pub by_moment: ByMoment,
}

impl Requests {
    /// In cores or bytes.
    pub fn of(&self, moment: &str, image: &str, resource: ComputeResource) -> Option<f64> {
        self.by_moment.get(moment)?.get(image)?.get(resource.name()).copied()
    }
}

/// The requests in each file of a folder, in the order of the files' names.
pub fn of_others(folder: &Path) -> Result<Vec<Requests>> {
    let mut all = Vec::new();
    for path in files_below(folder)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let written: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>> =
            serde_json::from_str(&fs::read_to_string(&path)?)?;
        let mut by_moment = ByMoment::new();
        for (moment, images) in written {
            for (image, amounts) in images {
                for (resource, text) in amounts {
                    let of_image = by_moment.entry(moment.clone()).or_default().entry(image.clone()).or_default();
                    of_image.insert(resource, amount(&text)?);
                }
            }
        }
        all.push(Requests { name, by_moment });
    }
    Ok(all)
}

/// Amounts of resources in the output of `recommend -o json`, by image.
pub fn in_report(json: &Value, amount_of: impl Fn(&Value) -> Option<&str>) -> Result<ByImage> {
    let mut images = ByImage::new();
    let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    for container in list(json, "workloads").iter().flat_map(|workload| list(workload, "containers")) {
        let Some(image) = container.get("image").and_then(Value::as_str) else { continue };
        for resource in list(&container, "resources") {
            let name = resource.get("resource").and_then(Value::as_str);
            if let (Some(name), Some(text)) = (name, amount_of(&resource)) {
                images.entry(image.to_owned()).or_default().insert(name.to_owned(), amount(text)?);
            }
        }
    }
    Ok(images)
}

fn amount(text: &str) -> Result<f64> {
    let amount: Quantity = text.parse().map_err(|error| format!("`{text}`: {error}"))?;
    Ok(amount.milli_value() as f64 / 1000.0)
}
