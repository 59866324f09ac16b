//! The text of a profile in files and on standard output.

use headroom_objects::manifest::yaml;
use headroom_output::page::escaped;
use serde_json::Value;

/// One document, which others may follow.
pub fn write(object: &Value) -> String {
    // Names are from a metrics store, and the document may be printed.
    escaped(format!("---\n{}", yaml::write(object)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_in_a_document_acts_on_a_terminal_or_a_log() {
        let object = json!({"##[error]\u{9b}2K": "\u{202e}##vso[task]", "n": ["1", 1, {"50": "12m"}, {}]});
        let text = write(&object);
        assert!(text.is_ascii() && !text.contains("##"), "{text}");
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, object);
    }
}
