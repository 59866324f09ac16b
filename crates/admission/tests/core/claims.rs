//! Claims with their cases in YAML: a file names each claim and lists its cases.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<Case> {
    /// Values that the cases refer to.
    #[serde(default, rename = "shared")]
    _shared: IgnoredAny,
    claims: BTreeMap<String, Vec<Case>>,
}

/// Checks all cases. A test that fails shows the claim last.
pub fn check_each<Case: DeserializeOwned>(yaml: &str, check: fn(&Case)) {
    let file: File<Case> = serde_saphyr::from_str(yaml).unwrap();
    for (claim, cases) in &file.claims {
        println!("{claim}");
        cases.iter().for_each(check);
    }
}

/// True if the text is the expected one, in which `...` stands for any text.
pub fn is_like(text: &str, expected: &str) -> bool {
    let Some((start, mut rest)) = expected.split_once("...") else { return text == expected };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    while let Some((part, further)) = rest.split_once("...") {
        let Some((_, after)) = text.split_once(part) else { return false };
        (text, rest) = (after, further);
    }
    text.ends_with(rest)
}

/// Sets the value at a JSON pointer whose parent is there.
pub fn set(value: &mut Value, pointer: &str, part: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[name] = part;
}
