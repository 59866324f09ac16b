//! Recommendations that a person declined, in a file of the repository that they were made for: a line for each, with its
//! fingerprint, the date, and a reason for those who come later.
//!
//! A fingerprint names a container's resource and the direction, and not the amount: another amount the week after is no news, but
//! one who declined to lower a request is told that it is too small.

use std::collections::BTreeMap;

use headroom_workloads::WorkloadRef;

/// In the folder in which the command runs.
pub const FILE: &str = ".headroom-ignore";

/// The dates, by fingerprint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declined(BTreeMap<String, String>);

/// `9f3c01d2a4b7`
pub fn fingerprint(workload: &WorkloadRef, container: &str, resource: &str, is_raised: bool) -> String {
    let WorkloadRef { namespace, kind, name } = workload;
    let direction = if is_raised { "raise" } else { "lower" };
    // No name has a slash.
    let text = [namespace, &kind.to_lowercase(), name, container, resource, direction].join("/");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

impl Declined {
    /// Reads the lines `FINGERPRINT DATE REASON`; blank lines and those that begin with `#` are skipped.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let Some(fingerprint) = words.next().filter(|word| !word.starts_with('#')) else { continue };
            let is_fingerprint = fingerprint.len() == 12 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
            let date = words.next().filter(|date| is_fingerprint && date.parse::<jiff::civil::Date>().is_ok());
            let Some(date) = date else {
                let line = number + 1;
                return Err(format!(
                    "{FILE}:{line}: expected a fingerprint and a date, such as `9f3c01d2a4b7 2026-11-27`"
                ));
            };
            found.insert(fingerprint.to_lowercase(), date.to_owned());
        }
        Ok(Self(found))
    }

    pub fn date(&self, workload: &WorkloadRef, container: &str, resource: &str, is_raised: bool) -> Option<&str> {
        self.0.get(&fingerprint(workload, container, resource, is_raised)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_others_named() {
        let web = WorkloadRef::new("shop", "Deployment", "web");
        let [lower, raise] = [false, true].map(|is_raised| fingerprint(&web, "front", "cpu", is_raised));
        assert_ne!(lower, raise);
        let text = format!("# by the shop's team\n\n{lower} 2026-11-20 busy in December\n");
        let declined = Declined::read(&text).unwrap();
        let date = |container: &str, is_raised| declined.date(&web, container, "cpu", is_raised);
        assert_eq!([date("front", false), date("front", true), date("side", false)], [Some("2026-11-20"), None, None]);
        for wrong in ["nonsense", "9f3c01d2a4b7", "9f3c01d2a4b7 tomorrow", "9f3c01d2a4bx 2026-11-20"] {
            let problem = Declined::read(&format!("\n{wrong}")).unwrap_err();
            assert!(problem.starts_with(".headroom-ignore:2: expected"), "{problem}");
        }
    }
}
