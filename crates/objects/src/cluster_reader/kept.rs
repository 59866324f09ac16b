//! Objects that are remembered.

use serde_json::Value;

/// An object as text, which takes a tenth of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept(Box<str>);

impl Kept {
    pub fn value(&self) -> Value {
        // It was written here, so it can be read.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for Kept {
    fn from(object: &Value) -> Self {
        Self(object.to_string().into())
    }
}
