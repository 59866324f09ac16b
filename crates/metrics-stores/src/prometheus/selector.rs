//! Selectors of series in PromQL: the only place where a name or a value from elsewhere gets into a question. Values are
//! quoted, and a name within a pattern matches nothing but itself.

use std::fmt;

#[derive(Debug, Clone, Copy)]
pub enum Match<'a> {
    Is(&'a str),
    IsNot(&'a str),
    OneOf(&'a [&'a str]),
    Begins(&'a [&'a str]),
    Contains(&'a str),
    /// A pattern of ours.
    Like(&'a str),
    Unlike(&'a str),
}

/// Matches series that have the label.
pub const PRESENT: Match<'static> = Match::IsNot("");

impl fmt::Display for Match<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(value) | Self::OneOf([value]) => write!(f, "={}", quoted(value)),
            Self::IsNot(value) => write!(f, "!={}", quoted(value)),
            Self::Begins(values) => write!(f, "=~{}", quoted(&any_of(values, ".*"))),
            Self::Contains(value) => write!(f, "=~{}", quoted(&format!(".*{}.*", literally(value)))),
            Self::Like(pattern) => write!(f, "=~{}", quoted(pattern)),
            Self::Unlike(pattern) => write!(f, "!~{}", quoted(pattern)),
            Self::OneOf(values) => write!(f, "=~{}", quoted(&any_of(values, ""))),
        }
    }
}

fn any_of(values: &[&str], ending: &str) -> String {
    let values: Vec<String> = values.iter().map(|value| literally(value) + ending).collect();
    values.join("|")
}

/// Escapes what has a meaning in a regular expression.
fn literally(value: &str) -> String {
    let is_special = |letter: char| r"\.+*?()|[]{}^$".contains(letter);
    let mut text = String::with_capacity(value.len());
    for letter in value.chars() {
        if is_special(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// A text as PromQL writes it, with nothing in it that could end it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Matchers that are put into every selector, such as `cluster="prod"`, as a user wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matchers(String);

impl From<String> for Matchers {
    fn from(written: String) -> Self {
        Self(written)
    }
}

impl Matchers {
    /// The problem with matchers that a store could only tell by the place in a whole query.
    pub fn problem(&self) -> Option<String> {
        let mut rest = self.0.trim();
        while !rest.is_empty() {
            let (label, value) = rest.split_once(['=', '!']).unwrap_or((rest, ""));
            let (label, value) = (label.trim(), value.trim_start_matches(['=', '~']).trim_start());
            let Some(quote) = value.chars().next().filter(|first| ['"', '\'', '`'].contains(first)) else {
                let value = value.split(',').next().unwrap_or_default();
                return Some(format!("`matchers: {self}` lacks quotes: write `{label}=\"{value}\"`"));
            };
            let mut is_escaped = false;
            let end = value.char_indices().skip(1).find(|(_, letter)| {
                let ends = *letter == quote && !is_escaped;
                is_escaped = *letter == '\\' && !is_escaped && quote != '`';
                ends
            });
            let Some((end, _)) = end else { return Some(format!("`matchers: {self}` lacks a quote after `{value}`")) };
            rest = value.get(end + 1..).unwrap_or_default().trim_start_matches([',', ' ']);
        }
        None
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn and(mut self, label: &str, value: Match<'_>) -> Self {
        let separator = if self.is_empty() { "" } else { "," };
        self.0.push_str(&format!("{separator}{label}{value}"));
        self
    }

    pub fn and_all(mut self, others: &Self) -> Self {
        if !self.is_empty() && !others.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&others.0);
        self
    }

    /// True if the user wrote a matcher for this label.
    pub fn mentions(&self, label: &str) -> bool {
        self.0.split(',').filter_map(|matcher| matcher.split(['=', '!']).next()).any(|named| named.trim() == label)
    }
}

impl fmt::Display for Matchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(String);

impl Selector {
    pub fn of(metric: &str, labels: &[(&str, Match<'_>)], matchers: &Matchers) -> Self {
        let labels = labels.iter().fold(Matchers::default(), |all, (label, value)| all.and(label, *value));
        Self(format!("{metric}{{{}}}", labels.and_all(matchers)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(metric: &str, labels: &[(&str, Match<'_>)], matchers: &str, expected: &str) {
        assert_eq!(Selector::of(metric, labels, &matchers.to_owned().into()).as_str(), expected);
    }

    #[test]
    fn values_are_quoted() {
        check("m", &[("a", Match::Is("x\"\\\n"))], "", r#"m{a="x\"\\\n"}"#);
        check("m", &[], r#"c="d""#, r#"m{c="d"}"#);
        check("m", &[("a", PRESENT)], r#"c="d""#, r#"m{a!="",c="d"}"#);
    }

    #[test]
    fn names_in_a_pattern_match_themselves_only() {
        check("m", &[("a", Match::OneOf(&["web.1"]))], "", r#"m{a="web.1"}"#);
        check("m", &[("a", Match::OneOf(&["web.1", ".*|(\""]))], "", r#"m{a=~"web\\.1|\\.\\*\\|\\(\""}"#);
        check(
            "m",
            &[("a", Match::Begins(&["a", "b."])), ("c", Match::Contains("."))],
            "",
            r#"m{a=~"a.*|b\\..*",c=~".*\\..*"}"#,
        );
    }

    #[test]
    fn matchers_without_quotes_are_told_apart() {
        let check = |written: &str, expected: Option<&str>| {
            assert_eq!(Matchers::from(written.to_owned()).problem().as_deref(), expected, "{written}");
        };
        check(r#"cluster="prod""#, None);
        check(r#"cluster=~"a\"b,c", job!='x' , pod!~`a\`,"#, None);
        check("", None);
        check("cluster=prod", Some(r#"`matchers: cluster=prod` lacks quotes: write `cluster="prod"`"#));
        check(r#"a="b",job=~x,c="d""#, Some(r#"`matchers: a="b",job=~x,c="d"` lacks quotes: write `job="x"`"#));
        check("cluster", Some(r#"`matchers: cluster` lacks quotes: write `cluster=""`"#));
        check(r#"a="b"#, Some(r#"`matchers: a="b` lacks a quote after `"b`"#));
    }

    #[test]
    fn a_label_in_the_matchers_is_seen() {
        let names_a_job = |matchers: &str| Matchers::from(matchers.to_owned()).mentions("job");
        assert!(names_a_job(r#"job="a""#) && names_a_job(r#"cluster="x", job=~"a|b""#) && names_a_job(r#"job!="a""#));
        assert!(!names_a_job("") && !names_a_job(r#"cluster="job""#) && !names_a_job(r#"exported_job="a""#));
    }
}
