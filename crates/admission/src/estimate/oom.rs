//! Raises an estimate of memory after out-of-memory kills.
//!
//! A killed container needed more than its samples show. Each kill raises the estimate to somewhat more than the memory
//! at the kill; the raise shrinks day by day and ends after a month, because by then the samples are representative.
//! Kills do not add up, so a leaking container does not get ever more memory.

use std::time::Duration;

use crate::amount::Quantity;
use crate::cluster::usage::OomKill;
use crate::timestamp::Timestamp;

const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 86_400);
const MIN_RAISE: i64 = 100 << 20;
/// An estimate is raised to at most this many times the observed peak.
const MAX_PEAKS: u64 = 3;

/// Raises an estimate for the kill that needs most, and returns that kill; none if no kill needs more than the estimate.
pub fn raise<'k>(
    estimate: &Quantity,
    kills: &'k [OomKill],
    peak: &Quantity,
    now: Timestamp,
) -> Option<(Quantity, &'k OomKill)> {
    let most = peak.times_count(MAX_PEAKS);
    let raises = kills.iter().filter_map(|kill| {
        let age = now.since(kill.at).unwrap_or_default();
        let left = FORGOTTEN_AFTER.checked_sub(age)?;
        let wanted = kill.memory.scaled(6, 5).max(kill.memory.plus(&Quantity::from_units(MIN_RAISE)));
        let missing = wanted.minus(estimate);
        if !missing.is_positive() {
            return None;
        }
        let to = estimate.plus(&missing.scaled(left.as_secs(), FORGOTTEN_AFTER.as_secs())).min(most.clone());
        (to > *estimate).then_some((to, kill))
    });
    raises.max_by(|(one, _), (other, _)| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in MiB, each kill with its age in days.
    #[track_caller]
    fn check(estimate: u64, kills: &[(u64, i64)], peak: u64, expected: Option<u64>) {
        let mib = |amount: u64| Quantity::from_bytes(amount << 20);
        let now = Timestamp::from_unix_seconds(1_795_232_606).unwrap();
        let kills: Vec<OomKill> = kills
            .iter()
            .map(|(memory, days)| OomKill {
                at: Timestamp::from_unix_seconds(now.unix_seconds() - days * 86_400).unwrap(),
                memory: mib(*memory),
            })
            .collect();
        let raised = raise(&mib(estimate), &kills, &mib(peak), now).map(|(to, _)| to);
        assert_eq!(raised, expected.map(mib), "{estimate} {kills:?} {peak}");
    }

    #[test]
    fn a_kill_raises_to_a_fifth_more_or_100_mib_more() {
        check(300, &[(310, 0)], 1000, Some(410));
        check(300, &[(1000, 0)], 1000, Some(1200));
        check(2000, &[(1000, 0)], 3000, None);
    }

    #[test]
    fn the_raise_shrinks_day_by_day_and_ends_after_a_month() {
        check(300, &[(500, 10)], 1000, Some(500));
        check(300, &[(500, 20)], 1000, Some(400));
        check(300, &[(500, 30)], 1000, None);
        check(300, &[(500, 400)], 1000, None);
    }

    #[test]
    fn kills_do_not_add_up() {
        check(300, &[(310, 0), (310, 0), (310, 1)], 1000, Some(410));
        check(300, &[(310, 0), (500, 0)], 1000, Some(600));
    }

    #[test]
    fn the_raise_is_capped_at_three_times_the_peak() {
        check(100, &[(900, 0)], 120, Some(360));
        check(400, &[(900, 0)], 120, None);
    }
}
