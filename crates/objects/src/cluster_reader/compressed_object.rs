//! Objects that are remembered.

use serde_json::Value;

/// An object as compressed text, which takes a twentieth of the memory or less, and none more for each clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressedObject(text::Compressed);

impl CompressedObject {
    pub fn value(&self) -> Value {
        // It was written here, so it can be read.
        serde_json::from_str(&text::expand(&self.0)).unwrap_or_default()
    }
}

impl From<&Value> for CompressedObject {
    fn from(object: &Value) -> Self {
        Self(text::compress(object.to_string()))
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod text {
    use std::cell::RefCell;
    use std::io::{Read as _, Write as _};
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::bufread::DeflateDecoder;
    use flate2::write::DeflateEncoder;

    pub type Compressed = Arc<[u8]>;

    thread_local! {
        /// A new one takes longer than most objects do.
        static ENCODER: RefCell<DeflateEncoder<Vec<u8>>> = RefCell::new(DeflateEncoder::new(Vec::new(), Compression::fast()));
    }

    pub fn compress(text: String) -> Compressed {
        ENCODER.with_borrow_mut(|encoder| {
            // OK because memory takes everything.
            _ = encoder.write_all(&text.into_bytes());
            encoder.reset(Vec::new()).unwrap_or_default().into()
        })
    }

    pub fn expand(compressed: &Compressed) -> String {
        let mut text = String::new();
        _ = DeflateDecoder::new(&**compressed).read_to_string(&mut text);
        text
    }
}

/// In the page, where few objects are remembered, texts stay as they are: its engine is smaller without compression.
#[cfg(target_arch = "wasm32")]
mod text {
    pub type Compressed = Box<str>;

    pub fn compress(text: String) -> Compressed {
        text.into()
    }

    pub fn expand(text: &Compressed) -> &str {
        text
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
            assert!(compressed.0.len() < 600, "{}", compressed.0.len());
        }
    }
}
