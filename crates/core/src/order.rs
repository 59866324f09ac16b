//! Puts short lists in order.
//!
//! By insertion: the lists of a request are short and nearly always in order already, and each use of the standard
//! library's sort, made for long ones, would add some six kilobytes to the policy.

use std::cmp::Ordering;

/// Sorts by a comparison; what compares as equal keeps its order.
pub fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    for end in 1..list.len() {
        let Some((new, sorted)) = list.get(..=end).and_then(<[T]>::split_last) else { return };
        let place = sorted.iter().rposition(|have| compare(have, new).is_le()).map_or(0, |before| before + 1);
        if let Some(moved) = list.get_mut(place..=end) {
            moved.rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
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
}
