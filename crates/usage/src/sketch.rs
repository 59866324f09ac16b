//! A distribution of amounts, mergeable, in which every percentile is known within 1 %.
//!
//! Amounts below 128 are counted one by one. From there each power of two is cut into 64 buckets of equal width, so a
//! bucket is at most 1/64 as wide as its amounts are large, and its middle is at most 1/128 (0.78 %) off any of them.
//! That is all integers: a shift finds the bucket. (A logarithm would do with half as many buckets, at the price of
//! floats, and of results that depend on the machine's `ln`.) Merging adds counts, so it is exact, commutative and
//! associative: the sketch of a month is the merged sketches of its days.
//!
//! Buckets count seconds: a sample counts for its step, so samples of different resolution can be merged.

use crate::varint::{self, Damaged};

/// Buckets per power of two.
const CUTS: u64 = 64;
const CUT_BITS: u32 = CUTS.trailing_zeros();
/// Amounts below are their own bucket.
const EXACT: u64 = 2 * CUTS;
/// No bucket has this number.
const BUCKETS: u64 = bucket_of(u64::MAX) as u64 + 1;
/// Room made beside a new bucket, because the next amount is probably near.
const SLACK: usize = 8;

#[derive(Debug, Clone, Default)]
pub struct Sketch {
    /// The bucket that `seconds` begins with.
    first: usize,
    /// Seconds observed, by bucket.
    seconds: Vec<u64>,
    /// The sum of `seconds`.
    total: u64,
    peak: u64,
}

const fn bucket_of(amount: u64) -> u32 {
    if amount < EXACT {
        return amount as u32;
    }
    // In 1..=57: how often the amount has to be halved to be below `EXACT`.
    let halvings = u64::BITS - CUT_BITS - 1 - amount.leading_zeros();
    halvings * CUTS as u32 + (amount >> halvings) as u32
}

/// The middle of a bucket.
fn amount_of(bucket: u64) -> u64 {
    let halvings = (bucket / CUTS).saturating_sub(1);
    match halvings {
        0 => bucket,
        _ => ((bucket - halvings * CUTS) << halvings) + (1 << (halvings - 1)),
    }
}

/// The highest amount of a bucket.
fn end_of(bucket: u64) -> u64 {
    let halvings = (bucket / CUTS).saturating_sub(1);
    ((bucket - halvings * CUTS) << halvings) + ((1 << halvings) - 1)
}

impl Sketch {
    /// Counts an amount that was observed for so many seconds.
    pub fn add(&mut self, amount: u64, seconds: u64) {
        if seconds == 0 {
            return;
        }
        self.peak = self.peak.max(amount);
        self.total = self.total.saturating_add(seconds);
        self.count(bucket_of(amount) as usize, seconds);
    }

    pub fn merge(&mut self, other: &Self) {
        self.merge_weighted(other, 1);
    }

    /// Adds the counts of the other sketch, multiplied by `weight`.
    pub fn merge_weighted(&mut self, other: &Self, weight: u64) {
        if other.is_empty() || weight == 0 {
            return;
        }
        self.peak = self.peak.max(other.peak);
        for (bucket, seconds) in other.counted() {
            let seconds = seconds.saturating_mul(weight);
            self.total = self.total.saturating_add(seconds);
            self.count(bucket, seconds);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Observed seconds in all.
    pub fn seconds(&self) -> u64 {
        self.total
    }

    /// The highest amount, exactly.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The lowest amount that was enough for `permille` of the time (nearest rank), within 1 %; 0 if nothing was
    /// observed.
    pub fn percentile(&self, permille: u16) -> u64 {
        let [percentile] = self.percentiles([permille]);
        percentile
    }

    /// Like [`Self::percentile`], for many in rising order in one pass.
    pub fn percentiles<const N: usize>(&self, permilles: [u16; N]) -> [u64; N] {
        let mut counted = self.counted();
        let (mut reached, mut last) = (0_u128, 0);
        permilles.map(|permille| {
            let wanted = (u128::from(self.total) * u128::from(permille)).div_ceil(1000).max(1);
            while reached < wanted {
                let Some((bucket, seconds)) = counted.next() else { return self.peak };
                reached += u128::from(seconds);
                // The middle of the last bucket may lie above all that was observed.
                last = amount_of(bucket as u64).min(self.peak);
            }
            last
        })
    }

    /// The highest amounts, so many that they were observed for longer than `seconds`; all if there are no more.
    pub fn top(&self, seconds: u64) -> Self {
        let (mut place, mut total) = (self.seconds.len(), 0_u64);
        for (at, counted) in self.seconds.iter().enumerate().rev() {
            if total > seconds {
                break;
            }
            (place, total) = (at, total.saturating_add(*counted));
        }
        let counted = self.seconds.get(place..).unwrap_or_default().to_vec();
        Self { first: self.first + place, seconds: counted, total, peak: self.peak }
    }

    /// The lowest amount, within 1 %; 0 if nothing was observed.
    pub fn least(&self) -> u64 {
        self.counted().next().map_or(0, |(bucket, _)| amount_of(bucket as u64).min(self.peak))
    }

    /// Only what is not above an amount, which was the peak of it.
    pub fn up_to(&self, peak: u64) -> Self {
        let mut below = Self { peak: peak.min(self.peak), ..Self::default() };
        for (bucket, seconds) in self.counted().take_while(|(bucket, _)| *bucket <= bucket_of(peak) as usize) {
            below.total = below.total.saturating_add(seconds);
            below.count(bucket, seconds);
        }
        below
    }

    /// The lowest amount that was exceeded for no longer than `seconds`, or at most 1.6 % more; 0 if nothing was observed for
    /// longer.
    pub fn exceeded_for(&self, seconds: u64) -> u64 {
        let mut reached = 0_u64;
        let bucket = self.counted().rev().find(|(_, counted)| {
            reached = reached.saturating_add(*counted);
            reached > seconds
        });
        bucket.map_or(0, |(bucket, _)| end_of(bucket as u64).min(self.peak))
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        self.seconds.capacity() * size_of::<u64>()
    }

    /// The buckets with anything in them, in rising order.
    fn counted(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let numbered = self.seconds.iter().enumerate();
        numbered.filter(|(_, seconds)| **seconds > 0).map(|(place, seconds)| (self.first + place, *seconds))
    }

    fn count(&mut self, bucket: usize, seconds: u64) {
        if bucket < self.first || self.first + self.seconds.len() <= bucket {
            self.make_room(bucket);
        }
        // OK because of `make_room`.
        if let Some(counted) = self.seconds.get_mut(bucket - self.first) {
            *counted = counted.saturating_add(seconds);
        }
    }

    fn make_room(&mut self, bucket: usize) {
        if self.seconds.is_empty() {
            self.first = bucket.saturating_sub(SLACK);
        }
        if bucket < self.first {
            let first = bucket.saturating_sub(SLACK);
            self.seconds.splice(0..0, std::iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        if self.first + self.seconds.len() <= bucket {
            self.seconds.resize(bucket - self.first + 1 + SLACK, 0);
        }
    }

    /// The peak, the common divisor of all counts, how many buckets, then for each the distance from the one before
    /// and its count over the divisor. With one-minute samples a bucket takes two bytes or three.
    pub fn write(&self, out: &mut Vec<u8>) {
        let divisor = self.counted().fold(0, |divisor, (_, seconds)| gcd(divisor, seconds)).max(1);
        varint::write(out, self.peak);
        varint::write(out, divisor);
        varint::write(out, self.counted().count() as u64);
        let mut last = 0;
        for (bucket, seconds) in self.counted() {
            varint::write(out, (bucket - last) as u64);
            varint::write(out, seconds / divisor);
            last = bucket;
        }
    }

    pub fn read(rest: &mut &[u8]) -> Result<Self, Damaged> {
        let peak = varint::read(rest)?;
        let divisor = varint::read(rest)?;
        let mut sketch = Self { peak, ..Self::default() };
        let mut bucket = 0_u64;
        for _ in 0..varint::read(rest)? {
            bucket = bucket.checked_add(varint::read(rest)?).filter(|bucket| *bucket < BUCKETS).ok_or(Damaged)?;
            let seconds = varint::read(rest)?.checked_mul(divisor).ok_or(Damaged)?;
            sketch.total = sketch.total.checked_add(seconds).ok_or(Damaged)?;
            sketch.count(bucket as usize, seconds);
        }
        Ok(sketch)
    }
}

/// Compares counts, not capacity.
impl PartialEq for Sketch {
    fn eq(&self, other: &Self) -> bool {
        (self.peak, self.total) == (other.peak, other.total) && self.counted().eq(other.counted())
    }
}

impl Eq for Sketch {}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PUBLISHED: [u16; 11] = [500, 600, 700, 750, 800, 850, 900, 950, 980, 990, 999];

    fn sketch(samples: &[(u64, u64)]) -> Sketch {
        let mut sketch = Sketch::default();
        samples.iter().for_each(|(amount, seconds)| sketch.add(*amount, *seconds));
        sketch
    }

    fn merged(parts: &[&Sketch]) -> Sketch {
        let mut sum = Sketch::default();
        parts.iter().for_each(|part| sum.merge(part));
        sum
    }

    /// Nearest rank over the amounts themselves, each repeated for each of its seconds.
    fn exact(samples: &[(u64, u64)], permille: u16) -> u64 {
        let mut all: Vec<u64> =
            samples.iter().flat_map(|(amount, seconds)| std::iter::repeat_n(*amount, *seconds as usize)).collect();
        all.sort_unstable();
        let rank = (all.len() * usize::from(permille)).div_ceil(1000).max(1);
        all[rank - 1]
    }

    fn check_error(found: u64, exact: u64) {
        assert!(found.abs_diff(exact) as u128 * 100 <= u128::from(exact), "{found} is more than 1 % off {exact}");
    }

    /// Amounts of every order of magnitude.
    fn amounts() -> impl Strategy<Value = u64> {
        (0..64_u32, any::<u64>()).prop_map(|(bits, amount)| amount >> bits)
    }

    fn samples() -> impl Strategy<Value = Vec<(u64, u64)>> {
        vec((amounts(), prop_oneof![Just(60), 1..100_u64]), 0..60)
    }

    #[test]
    fn small_amounts_are_exact_and_buckets_follow_each_other_without_gap() {
        let mut last = bucket_of(0);
        for amount in 0..1_000_000 {
            let bucket = bucket_of(amount);
            assert!(bucket == last || bucket == last + 1, "{amount}");
            assert!(amount >= EXACT || amount_of(u64::from(bucket)) == amount, "{amount}");
            last = bucket;
        }
        assert_eq!(bucket_of(u64::MAX) as u64, BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn every_amount_is_within_one_percent_of_its_bucket_and_before_its_end(amount in amounts()) {
            let bucket = u64::from(bucket_of(amount));
            check_error(amount_of(bucket), amount);
            let end = end_of(bucket);
            prop_assert!(end >= amount && bucket_of(end) == bucket_of(amount), "{end} of {amount}");
        }

        #[test]
        fn percentiles_are_within_one_percent_and_rise_to_the_peak(samples in samples()) {
            let sketch = sketch(&samples);
            let percentiles = PUBLISHED.map(|permille| sketch.percentile(permille));
            for (permille, percentile) in PUBLISHED.into_iter().zip(percentiles).filter(|_| !samples.is_empty()) {
                check_error(percentile, exact(&samples, permille));
            }
            prop_assert_eq!(percentiles, sketch.percentiles(PUBLISHED));
            prop_assert!(percentiles.is_sorted());
            prop_assert!(percentiles.iter().all(|percentile| *percentile <= sketch.peak()));
            prop_assert_eq!(sketch.peak(), samples.iter().map(|(amount, _)| *amount).max().unwrap_or(0));
            prop_assert_eq!(sketch.seconds(), samples.iter().map(|(_, seconds)| *seconds).sum::<u64>());
        }

        #[test]
        fn merging_is_adding_the_samples_in_any_order(a in samples(), b in samples(), c in samples()) {
            let together = sketch(&[a.clone(), b.clone(), c.clone()].concat());
            let (a, b, c) = (sketch(&a), sketch(&b), sketch(&c));
            prop_assert_eq!(&merged(&[&merged(&[&a, &b]), &c]), &together);
            prop_assert_eq!(&merged(&[&a, &merged(&[&b, &c])]), &together);
            prop_assert_eq!(&merged(&[&c, &a, &b]), &together);
        }

        #[test]
        fn a_weight_multiplies_counts(samples in samples(), weight in 0..5_u64) {
            let mut weighted = Sketch::default();
            weighted.merge_weighted(&sketch(&samples), weight);
            prop_assert_eq!(weighted, sketch(&samples.repeat(weight as usize)));
        }

        #[test]
        fn what_is_written_is_read(samples in samples()) {
            let sketch = sketch(&samples);
            let mut out = Vec::new();
            sketch.write(&mut out);
            let mut rest = out.as_slice();
            prop_assert_eq!(Sketch::read(&mut rest), Ok(sketch));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Ok(sketch) = Sketch::read(&mut bytes.as_slice()) {
                sketch.percentile(900);
            }
        }
    }
}
