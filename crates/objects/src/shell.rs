//! Words of commands that people are shown to run. Values in them come from clusters and metrics stores, so a word is one word
//! to a shell, whatever it holds.

use std::fmt;
use std::path::Path;

use serde::Serialize;

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

/// A command that people are shown to run. Nothing but quoted words gets into it behind the program's own name, so that what somebody
/// named runs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShellCommand(String);

impl ShellCommand {
    pub fn of(program: &'static str) -> Self {
        Self(program.to_owned())
    }

    pub fn words<W: AsRef<str>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        for word in words {
            self = self.ending(&Self(quoted(word.as_ref())));
        }
        self
    }

    /// The same with the words of another at its end.
    pub fn ending(mut self, end: &Self) -> Self {
        if !self.0.is_empty() && !end.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(&end.0);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ShellCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path as one word: whoever named a folder is not who runs the command.
pub fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_only_words() {
        let end = ShellCommand::default().words(["--context", "a b"]);
        let command = ShellCommand::of("kubectl headroom").words(["resize", "rollout/x; touch PWNED"]).ending(&end);
        assert_eq!(command.to_string(), "kubectl headroom resize 'rollout/x; touch PWNED' --context 'a b'");
        assert_eq!(ShellCommand::of("kubectl").ending(&ShellCommand::default()).to_string(), "kubectl");
    }

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
