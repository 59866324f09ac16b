//! Objects and answers that are remembered.

use serde_json::Value;

pub use text::CompressedObject;
#[cfg(not(target_arch = "wasm32"))]
pub use text::ListCompressor;

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
    #[derive(Debug, Clone)]
    pub struct CompressedObject {
        compressed: Arc<[u8]>,
        /// The object of whose text it repeats most, instead of [`USUAL_FIELDS`].
        model: Option<Arc<[u8]>>,
    }

    impl CompressedObject {
        /// An object, or another answer, that is written as JSON.
        pub fn of(text: &str) -> Self {
            Self { compressed: compressed(text, USUAL_FIELDS), model: None }
        }

        pub fn text(&self) -> String {
            let model = self.model.as_ref().map(|model| decompressed(model, USUAL_FIELDS));
            let text = decompressed(&self.compressed, model.as_deref().unwrap_or(USUAL_FIELDS));
            String::from_utf8(text).unwrap_or_default()
        }

        /// The bytes that it takes, without its model.
        pub fn size(&self) -> usize {
            self.compressed.len()
        }
    }

    fn compressed(text: &str, model: &[u8]) -> Arc<[u8]> {
        compress_prepend_size_with_dict(text.as_bytes(), model).into()
    }

    fn decompressed(compressed: &[u8], model: &[u8]) -> Vec<u8> {
        decompress_size_prepended_with_dict(compressed, model).unwrap_or_default()
    }

    /// Compresses the objects of a list. Many repeat one before them, as pods of one template do, and then take a third as much.
    #[derive(Default)]
    pub struct ListCompressor {
        model: Option<(Arc<[u8]>, String)>,
    }

    impl ListCompressor {
        pub fn compress(&mut self, text: String) -> CompressedObject {
            if let Some((model, of_model)) = &self.model {
                let compressed = compressed(&text, of_model.as_bytes());
                if compressed.len() < model.len() / 2 {
                    return CompressedObject { compressed, model: Some(Arc::clone(model)) };
                }
            }
            let object = CompressedObject::of(&text);
            self.model = Some((Arc::clone(&object.compressed), text));
            object
        }
    }
}

/// In the page, where few objects are remembered, texts stay as they are: its engine is smaller without compression.
#[cfg(target_arch = "wasm32")]
mod text {
    use std::rc::Rc;

    #[derive(Debug, Clone)]
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

    #[test]
    fn objects_of_a_list_are_whole_and_take_less_the_more_they_repeat() {
        let pod = |number: usize, image: &str| {
            let labels: Vec<u64> =
                image.bytes().map(|byte| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(byte.into())).collect();
            json!({"metadata": {"name": format!("web-{number}"), "labels": labels}, "spec": {"image": image}})
                .to_string()
        };
        let texts: Vec<String> = ["nginx", "nginx", "redis:7", "redis:7", "", "nginx"]
            .into_iter()
            .enumerate()
            .map(|(number, image)| pod(number, image))
            .collect();
        let mut compressor = ListCompressor::default();
        let list: Vec<CompressedObject> = texts.iter().map(|text| compressor.compress(text.clone())).collect();
        assert!(list.iter().map(CompressedObject::text).eq(texts));
        assert!(list[1].size() < list[0].size() / 2 && list[3].size() < list[2].size() / 2);
    }
}
