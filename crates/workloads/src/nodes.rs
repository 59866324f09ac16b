//! The room that nodes have for pods.

use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use serde_json::Value;

/// The most CPU and memory that any of some nodes can give, by the resource's name; nothing if none says.
#[derive(Debug, Default)]
pub struct LargestNode(pub BTreeMap<&'static str, Quantity>);

impl LargestNode {
    pub fn add(&mut self, node: &Value) {
        for name in ["cpu", "memory"] {
            let amount = node.pointer(&format!("/status/allocatable/{name}"));
            let text = amount.map(|amount| amount.as_str().map_or_else(|| amount.to_string(), str::to_owned));
            if let Some(amount) = text.and_then(|text| text.parse::<Quantity>().ok()) {
                self.0.entry(name).and_modify(|most| *most = amount.clone().max(most.clone())).or_insert(amount);
            }
        }
    }
}
