//! Names that commands had before the first release, for those whose fingers remember them.

use std::ffi::OsString;

/// The words that named a command, and what does the same today.
pub const OLD_NAMES: [(&str, &str); 14] = [
    ("simulate", "kubectl headroom check --against-running"),
    ("explain", "kubectl headroom why"),
    ("record", "kubectl headroom snapshot"),
    ("describe usage", "kubectl headroom recommend -o wide"),
    ("describe resizes", "kubectl headroom resize"),
    ("describe tenantquota", "kubectl headroom describe quota"),
    ("recommend quota", "kubectl headroom recommend bounds"),
    ("recommend limits", "kubectl headroom recommend bounds"),
    ("recommend images", "kubectl headroom recommend image IMAGE"),
    ("doctor prometheus", "kubectl headroom doctor URL"),
    ("doctor influxdb", "kubectl headroom doctor URL?db=NAME"),
    ("doctor metrics-api", "kubectl headroom doctor"),
    ("doctor files", "kubectl headroom doctor FILE"),
    ("ledger check", "headroom-controller check-ledgers"),
];

/// The answer to somebody who types an old name.
pub fn renamed(arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().map_while(|argument| argument.to_str()).collect();
    let is_typed = |old: &str| words.iter().copied().take(old.split(' ').count()).eq(old.split(' '));
    let (old, new) = OLD_NAMES.iter().find(|(old, _)| is_typed(old))?;
    Some(format!("`kubectl headroom {old}` is now `{new}`"))
}
