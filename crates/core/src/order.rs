//! Sorts lists.
//!
//! Most lists of a request are sorted already, which one pass detects. Others are merge-sorted by the indices of their
//! items, so that this code is not repeated for each type: each use of the standard library's sort would add six
//! kilobytes to the policy.

use std::cmp::Ordering;
use std::mem;

/// Up to this many items are sorted by insertion.
const SHORT: usize = 12;

/// Sorts by a comparison, in at most n log n steps; equal items keep their order.
pub fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if list.len() <= SHORT {
        // Without allocating, which would be most of the cost of a short list.
        for end in 1..list.len() {
            let mut place = end;
            while let Some([a, b]) = list.get_mut(place.wrapping_sub(1)..=place)
                && compare(a, b).is_gt()
            {
                mem::swap(a, b);
                place -= 1;
            }
        }
        return;
    }
    let mut places = sorted_places(list.len(), &|a, b| match (list.get(a), list.get(b)) {
        (Some(a), Some(b)) => compare(a, b).is_le(),
        _ => true,
    });
    // Each round moves the items of one cycle of the permutation.
    for start in 0..places.len() {
        let mut place = start;
        while let Some(wanted) = places.get_mut(place) {
            let from = mem::replace(wanted, place);
            if from == start || from == place {
                break;
            }
            list.swap(place, from);
            place = from;
        }
    }
}

/// The indices below `length`, sorted by their items; empty if they are sorted already. Sorted runs are merged two by
/// two.
fn sorted_places(length: usize, in_order: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut run_ends: Vec<usize> = (1..length).filter(|place| !in_order(place - 1, *place)).collect();
    if run_ends.is_empty() {
        return Vec::new();
    }
    run_ends.push(length);
    let mut places: Vec<usize> = (0..length).collect();
    // The policy never frees memory, so two lists take turns.
    let mut merged = Vec::with_capacity(length);
    while run_ends.len() > 1 {
        merged.clear();
        let mut runs = 0;
        for pair in 0..run_ends.len().div_ceil(2) {
            let end_of = |run: usize| run_ends.get(run).copied();
            let middle = end_of(2 * pair).unwrap_or(length);
            let end = end_of(2 * pair + 1).unwrap_or(middle);
            let mut left = places.get(merged.len()..middle).unwrap_or_default();
            let mut right = places.get(middle..end).unwrap_or_default();
            while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
                if in_order(*a, *b) {
                    merged.push(*a);
                    left = left_rest;
                } else {
                    merged.push(*b);
                    right = right_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
            if let Some(merged_end) = run_ends.get_mut(pair) {
                *merged_end = end;
            }
            runs += 1;
        }
        run_ends.truncate(runs);
        mem::swap(&mut places, &mut merged);
    }
    places
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn sorts_as_the_standard_library_does() {
        proptest::proptest!(|(list: Vec<(u8, u8)>)| {
            let (mut ours, mut theirs) = (list.clone(), list);
            sort_by(&mut ours, |a, b| a.0.cmp(&b.0));
            theirs.sort_by_key(|pair| pair.0);
            proptest::prop_assert_eq!(ours, theirs);
        });
    }

    #[test]
    fn a_long_list_takes_n_log_n_comparisons_and_a_sorted_one_n() {
        fn comparisons(list: impl Iterator<Item = u32>) -> usize {
            let mut list: Vec<u32> = list.collect();
            let count = Cell::new(0);
            sort_by(&mut list, |a, b| {
                count.set(count.get() + 1);
                a.cmp(b)
            });
            assert!(list.is_sorted());
            count.get()
        }
        let length = 1 << 14;
        assert_eq!(comparisons(0..length), length as usize - 1);
        assert!(comparisons((0..length).rev()) < 15 * length as usize);
        assert!(comparisons((0..length).map(|number| number.wrapping_mul(2_654_435_761))) < 15 * length as usize);
        // Two sorted lists, one after the other.
        assert!(comparisons((0..length).chain(0..length)) < 5 * length as usize);
    }
}
