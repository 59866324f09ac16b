//! Claims with their cases in YAML: a file names each claim and lists its cases, and [`claims`] makes a test of each.

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

pub fn read<Case: DeserializeOwned>(yaml: &str) -> BTreeMap<String, Vec<Case>> {
    let file: File<Case> = serde_saphyr::from_str(yaml).unwrap();
    file.claims
}

/// A test for each claim of a file beside this one, and one that no claim is left out.
macro_rules! claims {
    ($case:ty, $file:literal, $($claim:ident)*) => {
        static CLAIMS: std::sync::LazyLock<std::collections::BTreeMap<String, Vec<$case>>> =
            std::sync::LazyLock::new(|| $crate::claims::read(include_str!($file)));
        $(
            #[test]
            fn $claim() {
                CLAIMS[stringify!($claim)].iter().for_each(<$case>::check);
            }
        )*
        #[test]
        fn every_claim_of_the_file_is_a_test() {
            let tests = [$(stringify!($claim)),*];
            CLAIMS.keys().for_each(|claim| assert!(tests.contains(&claim.as_str()), "{claim} is not listed"));
        }
    };
}
pub(crate) use claims;

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
