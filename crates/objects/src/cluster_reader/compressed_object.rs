//! Objects and answers that are remembered.

use serde_json::Value;

pub use text::CompressedObject;

impl CompressedObject {
    pub fn value(&self) -> Value {
        // It was written here, so it can be read.
        serde_json::from_str(&self.text()).unwrap_or_default()
    }
}

impl From<&Value> for CompressedObject {
    fn from(object: &Value) -> Self {
        Self::of(&object.to_string())
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod text {
    use std::sync::Arc;

    use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

    /// The beginning that all texts are given: the fields of most objects, in the order of their names and in that of the API server.
    /// With it small ones take half as much.
    const USUAL_FIELDS: &[u8] = include_bytes!("usual_fields.txt");

    /// An object as compressed text, which takes a twentieth of the memory or less, and none more for each clone.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CompressedObject(Arc<[u8]>);

    impl CompressedObject {
        /// An object, or another answer, that is written as JSON.
        pub fn of(text: &str) -> Self {
            Self(compress_prepend_size_with_dict(text.as_bytes(), USUAL_FIELDS).into())
        }

        pub fn text(&self) -> String {
            let text = decompress_size_prepended_with_dict(&self.0, USUAL_FIELDS).unwrap_or_default();
            String::from_utf8(text).unwrap_or_default()
        }

        /// The bytes that it takes.
        pub fn size(&self) -> usize {
            self.0.len()
        }
    }
}

/// In the page, where few objects are remembered, texts stay as they are: its engine is smaller without compression.
#[cfg(target_arch = "wasm32")]
mod text {
    use std::rc::Rc;

    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CompressedObject(Rc<str>);

    impl CompressedObject {
        pub fn of(text: &str) -> Self {
            Self(text.into())
        }

        pub fn text(&self) -> String {
            self.0.to_string()
        }

        pub fn size(&self) -> usize {
            self.0.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_of_any_length_are_remembered_whole() {
        for length in [0, 1, 600, 100_000] {
            let object = json!({"kind": "Pod", "é": "x".repeat(length)});
            let compressed = CompressedObject::from(&object);
            assert_eq!(compressed.value(), object);
            assert!(compressed.size() < 600, "{}", compressed.size());
        }
    }
}
