//! Text of others, made harmless for a terminal and for a CI log: names, images and messages come from clusters, files and
//! metrics stores, and a terminal obeys escape sequences, a CI log obeys workflow commands.

use std::borrow::Cow;

use super::color::is_mark;

/// Commands that CI runners obey anywhere in a line, and their replacements.
const COMMANDS: [(&str, &str); 3] =
    [("##[", "#\u{fffd}["), ("##vso[", "#\u{fffd}vso["), ("##teamcity[", "#\u{fffd}teamcity[")];

/// The text on one line, with nothing in it that a terminal or a CI runner obeys.
pub fn clean(text: &str) -> Cow<'_, str> {
    let visible = visible(text);
    if !is_command(&visible) {
        return visible;
    }
    let mut harmless =
        COMMANDS.iter().fold(unmarked(&visible), |text, (command, written)| text.replace(command, written));
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

/// The text as a cell of a Markdown table: nothing in it ends the cell, is markup such as a link, or mentions an account.
pub fn markdown_cell(text: &str) -> String {
    let mut cell = String::new();
    for character in clean(&text.replace(['\n', '\r'], " ")).chars() {
        match character {
            '&' => cell.push_str("&amp;"),
            '<' => cell.push_str("&lt;"),
            '@' => cell.push_str("&#64;"),
            '\\' | '|' | '`' | '[' | '*' | '_' | '~' => cell.extend(['\\', character]),
            plain => cell.push(plain),
        }
    }
    cell
}

/// True for a line that a CI runner obeys, which looks for some commands anywhere and for `::` where a line begins. Marks of
/// colours count for nothing, since printing takes them out.
pub fn is_command(line: &str) -> bool {
    let line = unmarked(line);
    line.trim_start().starts_with("::") || COMMANDS.iter().any(|(command, _)| line.contains(command))
}

fn unmarked(text: &str) -> String {
    text.chars().filter(|character| !is_mark(*character)).collect()
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
        check("##teamcity[x]", "#\u{fffd}teamcity[x]");
        check("std::vec", "std::vec");
        // Marks of colours, which are not printed.
        check("\u{fdd0}:\u{fdd1}:add-mask::x", ":\u{fffd}add-mask::x");
        check("#\u{fdd0}#[error]y", "#\u{fffd}[error]y");
        check("\u{fdd3}rejected\u{fdd0}", "\u{fdd3}rejected\u{fdd0}");
    }

    #[test]
    fn no_markdown_cell_ends_early_is_markup_or_mentions_an_account() {
        let check = |text: &str, expected: &str| assert_eq!(markdown_cell(text), expected);
        check("a|b\n<c> `d` & @e", "a\\|b &lt;c> \\`d\\` &amp; &#64;e");
        check("![x](https://a) *y*_z_", "!\\[x](https://a) \\*y\\*\\_z\\_");
    }
}
