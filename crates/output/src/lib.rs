//! Results in the forms that people and their tools read: tables for terminals, JSON and YAML for programs, and what code
//! hosts show beside a change (SARIF, GitHub annotations, JUnit). What they contain is the commands' business.
//!
//! Modules in reading order.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![expect(clippy::disallowed_methods, reason = "this is where the names of others are cleaned")]

pub mod file;

pub mod terminal;

pub mod color;

pub mod clean;
pub mod width;

pub mod people;
pub mod table;

pub mod draw;

pub mod page;

pub mod github;
pub mod junit;
pub mod sarif;

pub mod list_writer;

pub mod progress;

pub mod log;

use std::path::Path;

use headroom_objects::manifest::Origin;
use serde::Serialize;

pub use clean::{clean, markdown_cell};
pub use color::Paint;
pub use file::{LONGEST_TEXT, WholeFile, read_bounded, read_bounded_from, write_file};
pub use page::{Page, ask, json, print};
pub use table::Table;

/// A result about one object, with its place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static FindingRule,
    pub level: FindingLevel,
    pub text: String,
    /// The part of the object concerned, whatever the words: `container web: cpu`. With rule and object it tells the finding
    /// from others, also after its words have changed.
    pub about: String,
    /// `pod/db-0` with its namespace in front.
    pub subject: String,
    pub origin: Origin,
}

#[derive(Debug, PartialEq, Eq)]
pub struct FindingRule {
    /// Stable, for machines: `limits`.
    pub id: &'static str,
    pub title: &'static str,
    pub help: &'static str,
}

/// As SARIF names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    Error,
    Warning,
    Note,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    Ok = 0,
    Refused = 1,
    /// Something could not be evaluated, or the question was not understood.
    Error = 2,
}

/// The address of a file on this machine, for terminals that open links; none for standard input.
pub fn address(origin: &Origin) -> Option<String> {
    let file = std::path::absolute(&origin.file).ok().filter(|_| is_file(origin))?;
    Some(format!("file://{}", uri(&file)))
}

/// A file's place as a link: relative where it was given so, with `/` and percent escapes.
fn uri(file: &Path) -> String {
    let mut uri = String::new();
    for byte in file.to_string_lossy().replace('\\', "/").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.strip_prefix("./").map(str::to_owned).unwrap_or(uri)
}

/// True for a place in a file, which a code host can show, and false for standard input.
fn is_file(origin: &Origin) -> bool {
    origin.file.as_os_str() != "-"
}
