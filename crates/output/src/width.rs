//! The width of text in columns of a terminal: some characters take two, marks of colour none.

use unicode_width::UnicodeWidthChar as _;

use super::color::{is_color, is_mark};
use super::terminal;

/// The width to keep to: `COLUMNS` if it is set, else the terminal's, else none.
pub fn wished() -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    let of_terminal = || terminal::sees_output().then(|| usize::from(console::Term::stdout().size().1));
    named.or_else(of_terminal).map(|columns: usize| columns.max(40))
}

pub fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

fn width_of(character: char) -> usize {
    if is_mark(character) { 0 } else { character.width().unwrap_or(0) }
}

/// A line in lines of at most that width, broken between words, with a hanging indent of two columns more than its own.
pub fn wrapped(line: &str, most: usize) -> Vec<String> {
    if width(line) <= most {
        return vec![line.to_owned()];
    }
    let own = line.chars().take_while(|character| *character == ' ').count();
    let indent = if own + 2 < most / 2 { own + 2 } else { 0 };
    let mut lines = folded(line.trim_start_matches(' '), most - own, most - indent).into_iter();
    let first = lines.next().map(|first| format!("{:own$}{first}", ""));
    first.into_iter().chain(lines.map(|rest| format!("{:indent$}{rest}", ""))).collect()
}

/// A text in lines of at most that width: the first, and the others. Words that are longer are broken.
pub fn folded(text: &str, first: usize, others: usize) -> Vec<String> {
    if width(text) <= first {
        return vec![text.to_owned()];
    }
    let (mut lines, mut line, mut most) = (Vec::new(), String::new(), first);
    let mut open = None;
    for word in text.split(' ') {
        let is_begun = !line.is_empty();
        if is_begun && width(&line) + 1 + width(word) > most {
            lines.push(std::mem::take(&mut line));
            most = others;
        } else if is_begun {
            line.push(' ');
        }
        // A path that is too long is broken between folders, not at the number of its line.
        for part in word.split_inclusive('/') {
            if !line.is_empty() && width(&line) + width(part) > most && width(part) <= others {
                lines.push(std::mem::take(&mut line));
                most = others;
            }
            for character in part.chars() {
                if width(&line) + width_of(character) > most.max(1) {
                    lines.push(std::mem::take(&mut line));
                    most = others;
                }
                line.push(character);
            }
        }
    }
    lines.push(line);
    // A colour ends with its line and begins again on the next.
    for line in &mut lines {
        let begun = open;
        for mark in line.chars().filter(|character| is_color(*character)) {
            open = (mark != super::color::END).then_some(mark);
        }
        line.insert_str(0, &begun.map(String::from).unwrap_or_default());
        line.push_str(&open.map(|_| String::from(super::color::END)).unwrap_or_default());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_between_words() {
        let check = |line: &str, expected: &[&str]| assert_eq!(wrapped(line, 12), expected);
        check("short", &["short"]);
        check("one two three four", &["one two", "  three four"]);
        check("  - one two three", &["  - one two", "    three"]);
        check("abcdefghijklmnop", &["abcdefghijkl", "  mnop"]);
        check("app/shop/web.yaml:1", &["app/shop/", "  web.yaml:1"]);
        check("日本日本日本日本", &["日本日本日本", "  日本"]);
    }
}
