//! What `describe` tells: kubectl's own text, and what it means for the person who reads it.
//!
//! Each room takes what the core read and gives data; the data words itself as a table, and is JSON as it is.

pub mod limits;
pub mod quotas;
pub mod usage;

use std::fmt::Write;

/// A heading and the table below it, set off from what is above.
fn section(text: &mut String, heading: &str, table: &dyn std::fmt::Display) {
    if !text.is_empty() {
        text.push('\n');
    }
    // Writing into a string does not fail.
    let _ = write!(text, "{heading}\n{table}");
}
