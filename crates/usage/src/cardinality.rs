//! Counts distinct values, mergeable and in bounded memory.
//!
//! Keeps the [`MAX_HASHES`] smallest hashes. Up to that many the count is exact, which matters for small numbers of pods. Beyond,
//! the largest kept hash shows the density of hashes, and the count is right within about 6 % (one standard deviation,
//! 1/√[`MAX_HASHES`]).

use crate::varint::{self, Damaged};

/// The number of hashes that are kept; four bytes each.
const MAX_HASHES: usize = 256;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distinct {
    /// Rising, without repetition.
    hashes: Vec<u32>,
}

impl Distinct {
    pub fn add(&mut self, hash: u32) {
        if let Err(place) = self.hashes.binary_search(&hash)
            && place < MAX_HASHES
        {
            self.hashes.insert(place, hash);
            self.hashes.truncate(MAX_HASHES);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.hashes.iter().for_each(|hash| self.add(*hash));
    }

    pub fn count(&self) -> u64 {
        let held = self.hashes.len() as u64;
        match self.hashes.last() {
            Some(largest) if self.hashes.len() == MAX_HASHES => (held - 1) * (1 << 32) / (u64::from(*largest) + 1),
            _ => held,
        }
    }

    pub fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u32>()
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        varint::write(out, self.hashes.len() as u64);
        self.hashes.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
    }

    pub fn read(rest: &mut &[u8]) -> Result<Self, Damaged> {
        let mut distinct = Self::default();
        for _ in 0..varint::read(rest)? {
            let (hash, tail) = rest.split_first_chunk().ok_or(Damaged)?;
            *rest = tail;
            distinct.add(u32::from_le_bytes(*hash));
        }
        Ok(distinct)
    }
}

/// A hash whose values spread evenly, the same everywhere, of a name in its namespace.
pub fn hash(namespace: &str, name: &str) -> u32 {
    // FNV-1a, then the finalizer of SplitMix64, because FNV leaves the high bits of short texts alike.
    let bytes = namespace.bytes().chain([0]).chain(name.bytes());
    let mut hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pods(range: std::ops::Range<usize>) -> Distinct {
        let mut distinct = Distinct::default();
        range.for_each(|number| distinct.add(hash("shop", &format!("web-{number}"))));
        distinct
    }

    #[test]
    fn few_are_counted_exactly_and_many_within_a_fifth() {
        for count in [0, 1, 2, 5, 100, MAX_HASHES - 1, 300, 1_000, 20_000, 300_000] {
            let off = if count < MAX_HASHES { 0 } else { count as u64 / 5 };
            let found = pods(0..count).count();
            assert!(found.abs_diff(count as u64) <= off, "{found} for {count}");
        }
    }

    #[test]
    fn the_same_name_in_two_namespaces_is_two_pods() {
        assert_ne!(hash("a", "web-0"), hash("b", "web-0"));
        assert_ne!(hash("a", "b-0"), hash("ab", "-0"));
    }

    proptest! {
        #[test]
        fn merging_counts_each_once(a in 0..900_usize, b in 0..900_usize) {
            let mut merged = pods(0..a.max(1));
            merged.merge(&pods(a / 2..a / 2 + b));
            prop_assert_eq!(merged, pods(0..a.max(1).max(a / 2 + b)));
        }

        #[test]
        fn what_is_written_is_read(count in 0..600_usize) {
            let mut out = Vec::new();
            pods(0..count).write(&mut out);
            prop_assert_eq!(Distinct::read(&mut out.as_slice()), Ok(pods(0..count)));
        }
    }
}
