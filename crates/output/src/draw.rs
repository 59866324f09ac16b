//! Bars, lines of small columns and plots in text, with the characters that the terminal has. Pure: numbers in, text out.

use super::terminal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    Unicode,
    Ascii,
}

impl Charset {
    /// Unicode where standard output is a terminal of a UTF-8 locale, else what every program can read.
    pub fn of_stdout() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = variable("LC_ALL").or_else(|| variable("LC_CTYPE")).or_else(|| variable("LANG"));
        Self::of(terminal::sees_output(), locale.as_deref())
    }

    /// The first of LC_ALL, LC_CTYPE and LANG that is set names the locale.
    pub fn of(is_terminal: bool, locale: Option<&str>) -> Self {
        let is_utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        if is_terminal && is_utf8 { Self::Unicode } else { Self::Ascii }
    }
}

/// Draws how full something is in so many columns; more than full is full.
pub fn gauge(part: u64, whole: u64, columns: usize, charset: Charset) -> String {
    let filled = bar(part, whole, columns, charset);
    let rest = columns.saturating_sub(filled.chars().count());
    match charset {
        Charset::Unicode => filled + &"░".repeat(rest),
        Charset::Ascii => format!("[{filled}{}]", ".".repeat(rest)),
    }
}

/// A length, with nothing behind it. What is not nothing is seen.
pub fn bar(part: u64, whole: u64, columns: usize, charset: Charset) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let steps = if charset == Charset::Unicode { 8 } else { 1 };
    let most = columns as u64 * steps;
    let length = scaled(part, whole, most).max(u64::from(part > 0)).min(most);
    let whole_columns = (length / steps) as usize;
    match charset {
        Charset::Unicode => {
            let rest = EIGHTHS.get((length % steps) as usize).copied().unwrap_or_default();
            "█".repeat(whole_columns) + rest
        }
        Charset::Ascii => "#".repeat(whole_columns),
    }
}

/// One small column for each value, the greatest the highest.
pub fn columns(values: &[u64], charset: Charset) -> String {
    let heights: &[char] = match charset {
        Charset::Unicode => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        Charset::Ascii => &['_', '.', ':', '-', '=', '+', '*', '#'],
    };
    let greatest = values.iter().copied().max().unwrap_or(0);
    let last = heights.len() - 1;
    values
        .iter()
        .filter_map(|value| {
            let height = if greatest == 0 { 0 } else { scaled(*value, greatest, last as u64) as usize };
            heights.get(height.min(last))
        })
        .collect()
}

/// One line of a plot: its label, and the amount as text and as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub label: String,
    pub amount: String,
    pub value: u64,
    /// A note after the bar.
    pub note: String,
}

/// A bar for each line, to one scale.
pub fn plot(lines: &[Line], columns: usize, charset: Charset) -> String {
    let width = |text: fn(&Line) -> &str| lines.iter().map(|line| text(line).chars().count()).max().unwrap_or(0);
    let (labels, amounts) = (width(|line| &line.label), width(|line| &line.amount));
    let greatest = lines.iter().map(|line| line.value).max().unwrap_or(0);
    let axis = if charset == Charset::Unicode { '│' } else { '|' };
    let mut text = String::new();
    for Line { label, amount, value, note } in lines {
        let bar = bar(*value, greatest, columns, charset);
        let line = format!("  {label:<labels$}  {amount:>amounts$} {axis}{bar} {note}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `value` of `whole` parts, in parts of `into`, rounded to the nearest.
fn scaled(value: u64, whole: u64, into: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let (value, whole, into) = (u128::from(value), u128::from(whole), u128::from(into));
    u64::try_from((value * into + whole / 2) / whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_gauge(part: u64, whole: u64, unicode: &str, ascii: &str) {
        assert_eq!(gauge(part, whole, 8, Charset::Unicode), unicode);
        assert_eq!(gauge(part, whole, 8, Charset::Ascii), ascii);
    }

    #[test]
    fn a_gauge_shows_how_full_something_is() {
        check_gauge(0, 100, "░░░░░░░░", "[........]");
        check_gauge(1, 1000, "▏░░░░░░░", "[#.......]");
        check_gauge(50, 100, "████░░░░", "[####....]");
        check_gauge(55, 100, "████▍░░░", "[####....]");
        check_gauge(100, 100, "████████", "[########]");
        check_gauge(300, 100, "████████", "[########]");
        check_gauge(1, 0, "▏░░░░░░░", "[#.......]");
        check_gauge(u64::MAX, u64::MAX, "████████", "[########]");
    }

    #[test]
    fn columns_are_as_high_as_their_values() {
        assert_eq!(columns(&[0, 1, 4, 7], Charset::Unicode), "▁▂▅█");
        assert_eq!(columns(&[0, 1, 4, 7], Charset::Ascii), "_.=#");
        assert_eq!(columns(&[0, 0], Charset::Unicode), "▁▁");
        assert_eq!(columns(&[], Charset::Unicode), "");
    }

    #[test]
    fn a_plot_stands_on_one_axis() {
        let line = |label: &str, amount: &str, value, note: &str| Line {
            label: label.to_owned(),
            amount: amount.to_owned(),
            value,
            note: note.to_owned(),
        };
        let lines = [line("p50", "12m", 12, ""), line("p90", "120m", 120, "<- advised"), line("peak", "240m", 240, "")];
        assert_eq!(
            plot(&lines, 10, Charset::Ascii),
            "  p50    12m |#\n  p90   120m |##### <- advised\n  peak  240m |##########\n"
        );
        assert_eq!(
            plot(&lines, 10, Charset::Unicode),
            "  p50    12m │▌\n  p90   120m │█████ <- advised\n  peak  240m │██████████\n"
        );
    }

    #[test]
    fn only_a_terminal_that_says_so_gets_unicode() {
        for (is_terminal, locale, expected) in [
            (true, Some("de_DE.UTF-8"), Charset::Unicode),
            (true, Some("C.utf8"), Charset::Unicode),
            (true, Some("C"), Charset::Ascii),
            (true, None, Charset::Ascii),
            (false, Some("C.UTF-8"), Charset::Ascii),
        ] {
            assert_eq!(Charset::of(is_terminal, locale), expected, "{is_terminal} {locale:?}");
        }
    }
}
