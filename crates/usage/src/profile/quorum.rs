//! One figure from the figures of many namespaces, such that a few namespaces cannot choose it.
//!
//! Each namespace has one figure, regardless of its number of pods. With a quorum of three, at least three namespaces
//! use at least the chosen figure, and at least three use at most that. So two colluding namespaces cannot move it out
//! of the range of the others: at least one of the others is on each side of it, or is the chosen one.
//!
//! That takes five namespaces, twice the quorum minus one. With fewer, two may be the majority. Then a figure is chosen
//! only if the two figures in the middle that could decide agree, so that it hardly matters which of them are honest.

/// The two figures agree if the higher is at most this percentage of the lower.
const AGREEMENT_PERCENT: u128 = 125;

/// The figure at `permille` of the namespaces, as close as the quorum allows. None if there are fewer namespaces than
/// the quorum, or too few that agree. Sorts the figures.
pub fn agreed(figures: &mut [u64], permille: u16, quorum: u64) -> Option<u64> {
    figures.sort_unstable();
    let quorum = usize::try_from(quorum.max(1)).ok()?;
    let count = figures.len();
    // A quorum of namespaces uses at least the highest allowed figure, and a quorum uses at most the lowest.
    let highest = count.checked_sub(quorum)?;
    let lowest = quorum - 1;
    if lowest <= highest {
        let wanted = (count * usize::from(permille)).div_ceil(1000).saturating_sub(1);
        return figures.get(wanted.clamp(lowest, highest)).copied();
    }
    let (lower, upper) = (*figures.get(highest)?, *figures.get(lowest)?);
    (u128::from(upper) * 100 <= u128::from(lower) * AGREEMENT_PERCENT).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[track_caller]
    fn check(figures: &[u64], permille: u16, expected: Option<u64>) {
        assert_eq!(agreed(&mut figures.to_vec(), permille, 3), expected, "{figures:?}");
    }

    #[test]
    fn many_choose_by_rank_with_a_quorum_at_or_above_the_figure_and_one_at_or_below() {
        let hundred: Vec<u64> = (1..=100).rev().collect();
        check(&hundred, 700, Some(70));
        check(&hundred, 900, Some(90));
        check(&hundred, 0, Some(3));
        check(&hundred, 1000, Some(98));
        check(&[1, 2, 3, 4, 5], 900, Some(3));
        check(&[1, 2, 3, 4, 5, 6], 900, Some(4));
        check(&[1, 2, 3, 4, 5, 6], 100, Some(3));
    }

    #[test]
    fn few_namespaces_must_agree() {
        check(&[], 700, None);
        check(&[50, 50], 700, None);
        check(&[50, 50, 50], 700, Some(50));
        check(&[50, 60, 62], 700, Some(50));
        check(&[50, 60, 63], 700, None);
        // A single outlier is ignored.
        check(&[50, 50, 50, 8000], 900, Some(50));
        check(&[0, 50, 51, 52], 900, Some(50));
        check(&[50, 50, 8000, 8000], 900, None);
    }

    proptest! {
        #[test]
        fn fewer_than_the_quorum_cannot_move_a_figure_out_of_the_range_of_others(
            honest in vec(0..1_000_000_u64, 1..40),
            hostile in vec(prop_oneof![0..10_u64, 0..2_000_000_u64, Just(u64::MAX)], 0..6),
            quorum in 1..7_u64,
            permille in 0..=1000_u16,
        ) {
            prop_assume!((hostile.len() as u64) < quorum);
            let mut all = [honest.as_slice(), hostile.as_slice()].concat();
            if let Some(chosen) = agreed(&mut all, permille, quorum) {
                let (least, most) = (*honest.iter().min().unwrap(), *honest.iter().max().unwrap());
                // Within a quarter if hostile namespaces may be the majority.
                let may_be_most = (all.len() as u64) < 2 * quorum - 1;
                let slack = if may_be_most { 100 } else { 0 };
                prop_assert!(chosen <= most + most * slack / 400 && chosen + chosen * slack / 400 + 1 >= least,
                    "{chosen} is not within {least} and {most}");
            }
        }

        #[test]
        fn honest_namespaces_that_agree_always_get_a_figure(
            base in 1_000..1_000_000_u64, spread in vec(0..200_u64, 3..20), permille in 0..=1000_u16,
        ) {
            let mut all: Vec<u64> = spread.iter().map(|spread| base + base * spread / 1000).collect();
            prop_assert!(agreed(&mut all, permille, 3).is_some());
        }
    }
}
