//! Which workload a container is of, as far as names tell: the part of a pod's name that outlives the pod.
//!
//! The collector knows pods by their names alone, long after they are gone, and the policy sees a pod before it has an
//! owner that could be read cheaply. So both go by the name, with this function. Two workloads whose names come to the same
//! share a history, which is no worse than sharing that of their image.

use super::address::key_of;
use crate::request::Request;

/// The name of the workload that a request's pod is of, or that the request is about.
pub fn of<'r>(request: &'r Request<'_>) -> &'r str {
    let name = request.name.as_ref();
    match request.kind.as_ref() {
        "Pod" => of_pod(name),
        "ReplicaSet" => without(name, is_hash),
        // That of a CronJob, made at a minute since the epoch.
        "Job" => without(name, is_minute),
        _ => name,
    }
}

/// The same for a pod by its name, or by the name that its own is generated from: `web` for `web-7d4b9c6f5-x2x4z`,
/// `db` for `db-0`.
pub fn of_pod(name: &str) -> &str {
    let of_controller = match name.strip_suffix('-') {
        // What is generated still follows.
        Some(name) => name,
        None => {
            let (rest, last) = split(name);
            let is_generated =
                is_random(last) || last.len() == RANDOM && is_lower_case(last) && is_hash(split(rest).1);
            if is_ordinal(last) || is_generated { rest } else { return name }
        }
    };
    without(without(of_controller, is_hash), is_minute)
}

/// The place of a container's history beside that of its namespace.
pub fn key(workload: &str, container: &str) -> String {
    [&key_of(workload), "/", container].concat()
}

/// The name without its last part, if that is of such a kind.
fn without(name: &str, is_it: fn(&str) -> bool) -> &str {
    let (rest, last) = split(name);
    if is_it(last) { rest } else { name }
}

/// Before and after the last dash. What begins with a dash is no name, and left whole.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('-').filter(|(rest, _)| !rest.is_empty()).unwrap_or((name, ""))
}

/// How many letters are generated.
const RANDOM: usize = 5;

/// Letters and digits as Kubernetes generates them: without those that could make words.
fn is_random(text: &str) -> bool {
    text.len() == RANDOM && text.bytes().all(is_safe)
}

fn is_safe(byte: u8) -> bool {
    b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)
}

fn is_lower_case(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The hash of a pod template.
fn is_hash(text: &str) -> bool {
    (6..=10).contains(&text.len()) && text.bytes().all(is_safe) && text.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_ordinal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_minute(text: &str) -> bool {
    text.len() >= 8 && is_ordinal(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_told_from_its_workload() {
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
            ("-0", "-0"),
            ("-", ""),
            ("", ""),
        ] {
            assert_eq!(of_pod(name), workload, "{name}");
        }
    }

    #[test]
    fn a_place_holds_no_dot() {
        assert_eq!(key("my.db", "main"), "my,db/main");
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_generated_for_a_deployment_is_found_again(
            name in "[a-z]{1,8}(-[a-z]{1,8}){0,2}", hash in "[bcdfghjklmnpqrstvwxz2456789]{8}[2456789]",
            random in "[bcdfghjklmnpqrstvwxz2456789]{5}",
        ) {
            let (made, before) = (format!("{name}-{hash}-{random}"), format!("{name}-{hash}-"));
            proptest::prop_assert_eq!(of_pod(&made), of_pod(&before));
        }
    }
}
