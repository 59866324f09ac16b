//! Text of others, made harmless for a terminal and for a CI log: names, images and messages come from clusters, files and
//! metrics stores, and a terminal obeys escape sequences, a CI log obeys workflow commands.

use std::borrow::Cow;

/// The text on one line, with nothing in it that a terminal or a CI runner obeys.
pub fn clean(text: &str) -> Cow<'_, str> {
    let visible = visible(text);
    if !is_command(&visible) {
        return visible;
    }
    let mut harmless = visible.replace("##[", "#\u{fffd}[").replace("##vso[", "#\u{fffd}vso[");
    if harmless.trim_start().starts_with("::") {
        harmless = harmless.replacen("::", ":\u{fffd}", 1);
    }
    Cow::Owned(harmless)
}

/// The text on one line, with the replacement character for everything that is not plainly visible.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| if is_hidden(character) { '\u{fffd}' } else { character }).collect())
}

/// The text as a cell of a Markdown table: nothing in it ends the cell, is markup, or mentions an account.
pub fn markdown_cell(text: &str) -> String {
    let mut cell = clean(&text.replace(['\n', '\r'], " ")).replace('\\', "\\\\").replace('&', "&amp;");
    for (special, escaped) in [("<", "&lt;"), ("|", "\\|"), ("`", "\\`"), ("@", "&#64;")] {
        cell = cell.replace(special, escaped);
    }
    cell
}

/// True for a line that a CI runner obeys: it looks for `##[` and `##vso[` anywhere, and for `::` where a line begins.
pub fn is_command(line: &str) -> bool {
    line.trim_start().starts_with("::") || line.contains("##[") || line.contains("##vso[")
}

/// True for what acts on a terminal or hides: control characters, line ends, directions of writing, tags.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal_or_a_log() {
        let check = |text: &str, expected: &str| assert_eq!(clean(text), expected);
        check("deployment/web Größe 日本", "deployment/web Größe 日本");
        check("\u{1b}]0;x\u{7}\u{9b}2Ka\nb\tc", "\u{fffd}]0;x\u{fffd}\u{fffd}2Ka\u{fffd}b\u{fffd}c");
        check("a\u{202e}b\u{200b}\u{e0041}", "a\u{fffd}b\u{fffd}\u{fffd}");
        check("  ::add-mask::x", "  :\u{fffd}add-mask::x");
        check("\n::stop-commands::x", "\u{fffd}::stop-commands::x");
        check("x ##[error]y ##vso[task]", "x #\u{fffd}[error]y #\u{fffd}vso[task]");
        check("std::vec", "std::vec");
    }

    #[test]
    fn no_markdown_cell_ends_early_is_markup_or_mentions_an_account() {
        assert_eq!(markdown_cell("a|b\n<c> `d` & @e"), "a\\|b &lt;c> \\`d\\` &amp; &#64;e");
    }
}
