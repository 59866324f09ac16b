//! Derives a container's workload from the name of its pod, by removing the generated parts.
//!
//! The collector knows only the names of pods, long after they are gone, and the policy sees a pod before its owner
//! could be read cheaply. So both derive the workload from the name, with this function. Two workloads with the same
//! derived name share a history, which is no worse than sharing the image's history.

use std::ops::RangeInclusive;

use super::profile_layout::key_of;

/// The name of a pod's workload, from its name or its `generateName`: `web` for `web-7d4b9c6f5-x2x4z`, `db` for `db-0`.
pub fn of_pod(name: &str) -> &str {
    let (mut rest, last) = split(name);
    // The generated part is not there yet (`generateName`), or it is the last one.
    let is_generated = last.is_empty() && name.ends_with('-')
        || last.len() == RANDOM && (is_generated(last) || is_hash(split(rest).1));
    if !is_generated && !is_ordinal(last) {
        return name;
    }
    rest = without(rest, is_hash);
    without(rest, is_minute)
}

/// The key of a container's history within that of its namespace.
pub fn key(workload: &str, container: &str) -> String {
    key_of(&[workload, "/", container].concat())
}

/// The name without its last part, if `is_it` accepts that part.
#[inline(never)]
fn without(name: &str, is_it: fn(&str) -> bool) -> &str {
    let (rest, last) = split(name);
    if is_it(last) { rest } else { name }
}

/// The parts before and after the last dash.
#[inline(never)]
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('-').unwrap_or((name, ""))
}

/// The length of a generated name's suffix.
pub const RANDOM: usize = 5;

/// True if Kubernetes may have generated a part of a name: it uses no letters and digits that could form words.
pub fn is_generated(part: &str) -> bool {
    part.bytes().all(is_safe)
}

fn is_safe(byte: u8) -> bool {
    matches!(
        byte,
        b'2' | b'4'..=b'9' | b'b'..=b'd' | b'f'..=b'h' | b'j'..=b'n' | b'p'..=b't' | b'v'..=b'x' | b'z'
    )
}

/// The lengths of the hash of a pod template.
pub const HASH: RangeInclusive<usize> = 6..=10;

fn is_hash(text: &str) -> bool {
    HASH.contains(&text.len()) && is_generated(text) && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The number of a pod of a StatefulSet.
pub fn is_ordinal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The minute of a CronJob's run.
pub fn is_minute(text: &str) -> bool {
    text.len() >= 8 && is_ordinal(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_is_derived_from_a_pod_s_name() {
        for (name, workload) in [
            ("web-7d4b9c6f5-abcde", "web"),
            ("web-7d4b9c6f5-x2x4z", "web"),
            ("web-7d4b9c6f5-", "web"),
            ("shop-web-1-7d4b9c6f5-x2x4z", "shop-web-1"),
            ("db-0", "db"),
            ("my.db-12", "my.db"),
            ("agent-x2x4z", "agent"),
            ("agent-bcdfg", "agent"),
            ("agent-", "agent"),
            ("report-28934820-x2x4z", "report"),
            ("report-28934820-", "report"),
            ("migrate-x2x4z", "migrate"),
            ("web", "web"),
            ("web-front", "web-front"),
            ("web-proxy", "web-proxy"),
            ("0", "0"),
            ("-0", ""),
            ("-", ""),
            ("", ""),
        ] {
            assert_eq!(of_pod(name), workload, "{name}");
        }
    }

    #[test]
    fn a_key_has_no_dot() {
        assert_eq!(key("my.db", "main"), "my,db/main");
    }

    proptest::proptest! {
        #[test]
        fn names_and_generate_names_of_a_deployment_s_pods_give_the_same_workload(
            name in "[a-z]{1,8}(-[a-z]{1,8}){0,2}", hash in "[bcdfghjklmnpqrstvwxz2456789]{8}[2456789]",
            random in "[bcdfghjklmnpqrstvwxz2456789]{5}",
        ) {
            let (made, before) = (format!("{name}-{hash}-{random}"), format!("{name}-{hash}-"));
            proptest::prop_assert_eq!(of_pod(&made), of_pod(&before));
        }
    }
}
