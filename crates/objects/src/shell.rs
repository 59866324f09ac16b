//! Words of commands that people are shown to run. Values in them come from clusters and metrics stores, so a word is one word
//! to a shell, whatever it holds.

use std::path::Path;

/// The text in quotes, if it needs any. Double ones are easier to read where a text has single ones and nothing that acts in
/// double ones.
pub fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    if text.contains('\'') && !text.contains(['"', '$', '`', '\\', '!']) {
        return format!("\"{text}\"");
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A path as one word: whoever named a folder is not who runs the command.
pub fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_quotes() {
        let check = |text: &str, expected: &str| assert_eq!(quoted(text), expected);
        check("statefulset.v1.apps/db-0", "statefulset.v1.apps/db-0");
        check("", "''");
        check("a b", "'a b'");
        check("~a=b", "'~a=b'");
        check("it's", "\"it's\"");
        check("$(curl a|sh)", "'$(curl a|sh)'");
        check("a' $(curl a|sh)", r"'a'\'' $(curl a|sh)'");
        check("a'; rm -rf /", "\"a'; rm -rf /\"");
        check(r#"a'"; rm -rf /"#, r#"'a'\''"; rm -rf /'"#);
        check("a'\\", r"'a'\''\'");
    }
}
