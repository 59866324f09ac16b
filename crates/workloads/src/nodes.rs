//! The room that nodes have for pods.

use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use headroom_objects::cluster_reader::folder::amount_of;
use serde_json::Value;

/// The most CPU and memory that any of some nodes can give, by the resource's name; nothing if none says.
#[derive(Debug, Default)]
pub struct LargestNode(pub BTreeMap<&'static str, Quantity>);

impl LargestNode {
    pub fn add(&mut self, node: &Value) {
        for name in ["cpu", "memory"] {
            if let Some(amount) = node.pointer(&format!("/status/allocatable/{name}")).and_then(amount_of) {
                self.0.entry(name).and_modify(|most| *most = amount.clone().max(most.clone())).or_insert(amount);
            }
        }
    }
}
