//! Finds the profiles that have to be written.
//!
//! Each collection adds samples, so no two profiles have the same text, and writing all of them every hour would only load
//! etcd. A profile is written if a change can change an estimate: an added or removed image, tag or window; a percentile or peak
//! that is more than a bucket of its distribution away; an out-of-memory kill; or a count of samples, pods or namespaces that
//! changed by more than a tenth. Otherwise it is written once it is older than the rewrite interval, so that it never looks stale.

use headroom_admission::amount::Quantity;
use headroom_admission::timestamp::Timestamp;
use serde_json::Value;

/// Fields whose change alone is no reason to write: a profile that is rewritten in time is only a little behind.
const PASSING: [&str; 2] = ["collectedAt", "lastSeen"];
const COUNTS: [&str; 3] = ["samples", "pods", "namespaces"];
const AMOUNTS: [&str; 6] = ["percentiles", "peak", "busiest", "needs", "growth", "notCovered"];
/// A bucket of [`headroom_usage::sketch`] is at most this part of its amounts wide.
const BUCKET: u128 = 64;

/// The seconds after which an unchanged profile is written again.
const REWRITE: i64 = 6 * 3600;

/// True if `new` has to replace `old`. Both are whole objects; only their specs are compared.
pub fn is_due(old: &Value, new: &Value) -> bool {
    let moments = collected_at(old).zip(collected_at(new));
    let (Some((before, now)), Some(old), Some(new)) = (moments, old.get("spec"), new.get("spec")) else { return true };
    now - before >= REWRITE || differs(old, new)
}

/// The time when a profile was collected, in Unix seconds.
pub fn collected_at(object: &Value) -> Option<i64> {
    let text = object.get("spec")?.get("header")?.get("collectedAt")?.as_str()?;
    Some(text.parse::<Timestamp>().ok()?.unix_seconds())
}

fn differs(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.len() != new.len()
                || new.iter().any(|(key, new)| match old.get(key) {
                    None => true,
                    Some(_) if PASSING.contains(&key.as_str()) => false,
                    Some(old) if COUNTS.contains(&key.as_str()) => counts_differ(old.as_u64(), new.as_u64()),
                    Some(old) if AMOUNTS.contains(&key.as_str()) => amounts_differ(old, new),
                    Some(old) => differs(old, new),
                })
        }
        _ => old != new,
    }
}

/// By more than a bucket: an amount, or one of a list.
fn amounts_differ(old: &Value, new: &Value) -> bool {
    if let (Value::Array(old), Value::Array(new)) = (old, new) {
        return old.len() != new.len() || old.iter().zip(new).any(|(old, new)| amounts_differ(old, new));
    }
    let nanos = |amount: &Value| Some(amount.as_str()?.parse::<Quantity>().ok()?.scaled(1_000_000_000, 1).units());
    match (nanos(old), nanos(new)) {
        (Some(old), Some(new)) => old.abs_diff(new).saturating_mul(BUCKET) > old.unsigned_abs(),
        _ => old != new,
    }
}

/// By more than a tenth of the smaller; a first or second pod is always news.
fn counts_differ(old: Option<u64>, new: Option<u64>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.abs_diff(new).saturating_mul(10) > old.min(new),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn profile(collected_at: &str, samples: u64, pods: u64, p90: &str) -> Value {
        let cpu = json!({"samples": samples, "peak": "1", "percentiles": [p90]});
        let all = json!({"lastSeen": collected_at, "oomKills": [], "windows": {"7d": {"pods": pods, "namespaces": 1, "cpu": cpu}}});
        json!({"spec": {"header": {"format": 3, "collectedAt": collected_at}, "images": {"nginx": {"own": {"shop": {"all": all}}}}}})
    }

    #[track_caller]
    fn check(old: &Value, new: &Value, due: bool) {
        assert_eq!(is_due(old, new), due, "{old} to {new}");
    }

    #[test]
    fn a_profile_is_due_when_an_estimate_could_change_or_it_is_old() {
        let old = profile("2026-11-21T00:00:00Z", 1000, 5, "100m");
        check(&old, &profile("2026-11-21T01:00:00Z", 1060, 5, "100m"), false);
        check(&old, &profile("2026-11-21T01:00:00Z", 1060, 5, "101m"), false);
        check(&old, &profile("2026-11-21T01:00:00Z", 1060, 5, "102m"), true);
        check(&old, &profile("2026-11-21T01:00:00Z", 1060, 5, "98m"), true);
        check(&old, &profile("2026-11-21T01:00:00Z", 1101, 5, "100m"), true);
        check(&old, &profile("2026-11-21T01:00:00Z", 899, 5, "100m"), true);
        check(&old, &profile("2026-11-21T01:00:00Z", 1000, 6, "100m"), true);
        // It is old.
        check(&old, &profile("2026-11-21T05:59:59Z", 1000, 5, "100m"), false);
        check(&old, &profile("2026-11-21T06:00:00Z", 1000, 5, "100m"), true);
        // Something was added or removed.
        let mut without = old.clone();
        without["spec"]["images"] = json!({});
        check(&old, &without, true);
        check(&without, &old, true);
        let mut killed = old.clone();
        killed["spec"]["images"]["nginx"]["own"]["shop"]["all"]["oomKills"] =
            json!([{"at": "2026-11-20T00:00:00Z", "memory": "1Gi"}]);
        check(&old, &killed, true);
        check(&json!({}), &old, true);
    }
}
