//! The findings of `doctor` about a source, each with advice. Pure: the sources make them,
//! and the command prints.

use headroom_usage::batch::Impossible;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceVerdict {
    Good,
    /// Collecting works, but something will be missing or less exact.
    Doubtful,
    /// Collecting cannot work.
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceFinding {
    pub verdict: SourceVerdict,
    /// The subject of the check: `memory metric`.
    pub subject: &'static str,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl SourceFinding {
    pub fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Self { verdict: SourceVerdict::Good, subject, found: found.into(), advice: None }
    }

    pub fn doubtful(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: SourceVerdict::Doubtful, subject, found: found.into(), advice: Some(advice.into()) }
    }

    pub fn bad(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: SourceVerdict::Bad, subject, found: found.into(), advice: Some(advice.into()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// Kind and address of the source: `prometheus at http://localhost:9090`.
    pub source: String,
    pub findings: Vec<SourceFinding>,
}

/// Compares the clocks. Windows are cut by the source's clock, so a skew loses nothing; but pods' times and
/// profiles' ages are by the clock of this machine.
pub fn clock(ours: i64, theirs: i64) -> SourceFinding {
    let found = match theirs - ours {
        0 => "the same as here".to_owned(),
        ahead @ 1.. => format!("{ahead} s ahead of this machine"),
        behind => format!("{} s behind this machine", -behind),
    };
    let advice = "synchronize both clocks with NTP; until then the newest samples are missing or in the future";
    let is_near = theirs.abs_diff(ours) <= 30;
    if is_near { SourceFinding::good("clock", found) } else { SourceFinding::doubtful("clock", found, advice) }
}

/// Reports how many containers with usage have an image. `example` is one without.
pub fn matched(matched: usize, found: String, example: Option<String>, none: &str, advice: &str) -> SourceFinding {
    let subject = "matched images";
    match example {
        None if matched == 0 => SourceFinding::bad(subject, found, none),
        None => SourceFinding::good(subject, found),
        Some(example) if matched == 0 => SourceFinding::bad(subject, format!("{found}; none for {example}"), advice),
        Some(example) => SourceFinding::doubtful(subject, format!("{found}; none for {example}"), advice),
    }
}

/// Reports amounts that no container can use.
pub fn impossible(found: &Impossible) -> Option<SourceFinding> {
    let advice = "they are left out; look at what reports them, such as the kubelet of the pod's node, or a counter named as `cpuIsRate`";
    (found.count > 0).then(|| SourceFinding::doubtful("amounts", found.to_string(), advice))
}

/// Reports how long the history is.
pub fn history(found: String, is_long: bool) -> SourceFinding {
    let advice = "nothing to do if the store or cluster is young, since what is collected is kept; else raise the store's retention";
    if is_long { SourceFinding::good("history", found) } else { SourceFinding::doubtful("history", found, advice) }
}

/// The usual distance between samples, or age of them: others may be missing or late.
pub fn median(mut seconds: Vec<i64>) -> Option<i64> {
    seconds.sort_unstable();
    seconds.get(seconds.len() / 2).copied()
}

/// For people: `3 d 2 h`, with the two largest units.
pub fn duration(seconds: i64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut left = seconds.max(0);
    let mut parts = Vec::new();
    for (size, name) in units {
        if left >= size && parts.len() < 2 {
            parts.push(format!("{} {name}", left / size));
            left %= size;
        }
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_be_a_little_off() {
        assert_eq!(clock(100, 100).found, "the same as here");
        assert_eq!(clock(100, 75), SourceFinding::good("clock", "25 s behind this machine"));
        assert_eq!(clock(100, 200).verdict, SourceVerdict::Doubtful);
    }

    #[test]
    fn durations_have_two_units() {
        let check = |seconds, expected| assert_eq!(duration(seconds), expected);
        check(0, "0 s");
        check(75, "1 min 15 s");
        check(86_400 * 3 + 7_300, "3 d 2 h");
    }
}
