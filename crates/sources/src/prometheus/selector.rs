//! Selectors of series in PromQL: the only place where a name or a value from elsewhere gets into a question. Values are
//! quoted, and a name within a pattern matches nothing but itself.

use std::fmt;

/// A condition for the value of a label.
#[derive(Debug, Clone, Copy)]
pub enum Match<'a> {
    Is(&'a str),
    IsNot(&'a str),
    OneOf(&'a [&'a str]),
    Begins(&'a str),
}

/// Matches series that have the label.
pub const PRESENT: Match<'static> = Match::IsNot("");

impl fmt::Display for Match<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(value) | Self::OneOf([value]) => write!(f, "={}", Quoted(value)),
            Self::IsNot(value) => write!(f, "!={}", Quoted(value)),
            Self::Begins(value) => write!(f, "=~{}", Quoted(&(literally(value) + ".*"))),
            Self::OneOf(values) => {
                let values: Vec<String> = values.iter().map(|value| literally(value)).collect();
                write!(f, "=~{}", Quoted(&values.join("|")))
            }
        }
    }
}

/// Escapes what has a meaning in a regular expression.
fn literally(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

/// A text as PromQL writes it, with nothing in it that could end it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    }
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

/// The series of one metric.
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
    }

    #[test]
    fn a_label_in_the_matchers_is_seen() {
        let names_a_job = |matchers: &str| Matchers::from(matchers.to_owned()).mentions("job");
        assert!(names_a_job(r#"job="a""#) && names_a_job(r#"cluster="x", job=~"a|b""#) && names_a_job(r#"job!="a""#));
        assert!(!names_a_job("") && !names_a_job(r#"cluster="job""#) && !names_a_job(r#"exported_job="a""#));
    }
}
