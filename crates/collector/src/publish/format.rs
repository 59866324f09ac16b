//! The text of a profile in files and on standard output: YAML, or indented JSON.

use headroom_objects::manifest::yaml;
use headroom_report::page::escaped;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProfileFormat {
    Yaml,
    Json,
}

impl ProfileFormat {
    /// `yaml`, `json`; also the extension of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Json => "json",
        }
    }

    /// One document, which others may follow.
    pub fn write(self, object: &Value) -> String {
        // Names are from a metrics store, and the document may be printed.
        escaped(match self {
            Self::Json => format!("{object:#}\n"),
            Self::Yaml => format!("---\n{}", yaml::write(object)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_in_a_document_acts_on_a_terminal_or_a_log() {
        let object = json!({"##[error]\u{9b}2K": "\u{202e}##vso[task]", "n": ["1", 1, {"50": "12m"}, {}]});
        for format in [ProfileFormat::Json, ProfileFormat::Yaml] {
            let text = format.write(&object);
            assert!(text.is_ascii() && !text.contains("##"), "{text}");
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, object);
        }
    }
}
