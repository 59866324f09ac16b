//! Objects as the core reads them.

use headroom_admission::json::Document;
use serde_json::Value;

/// Reads a value with the core's JSON reader. The error is one line.
pub fn document(value: &Value) -> Result<Document<'static>, String> {
    Document::own(value.to_string().into_bytes()).map_err(|error| error.to_string())
}
