//! Objects that are remembered.

use serde_json::Value;

/// An object as compressed text, which takes a twentieth of the memory or less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept(text::Kept);

impl Kept {
    pub fn value(&self) -> Value {
        // It was written here, so it can be read.
        serde_json::from_str(&text::expand(&self.0)).unwrap_or_default()
    }
}

impl From<&Value> for Kept {
    fn from(object: &Value) -> Self {
        Self(text::compress(object.to_string()))
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod text {
    use std::io::{Read as _, Write as _};

    use flate2::Compression;
    use flate2::read::DeflateDecoder;
    use flate2::write::DeflateEncoder;

    pub type Kept = Box<[u8]>;

    pub fn compress(text: String) -> Kept {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        // OK because memory takes everything.
        _ = encoder.write_all(&text.into_bytes());
        encoder.finish().unwrap_or_default().into()
    }

    pub fn expand(compressed: &Kept) -> String {
        let mut text = String::new();
        _ = DeflateDecoder::new(&**compressed).read_to_string(&mut text);
        text
    }
}

/// In the page, where few objects are remembered, texts stay as they are: its engine is smaller without compression.
#[cfg(target_arch = "wasm32")]
mod text {
    pub type Kept = Box<str>;

    pub fn compress(text: String) -> Kept {
        text.into()
    }

    pub fn expand(text: &Kept) -> &str {
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
            let kept = Kept::from(&object);
            assert_eq!(kept.value(), object);
            assert!(kept.0.len() < 600, "{}", kept.0.len());
        }
    }
}
