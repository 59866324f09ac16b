//! Whole numbers of any size, for the few quantities that outgrow a machine word.
//!
//! Nothing here is fast: it serves amounts past 2^63 units and texts of many digits. The limbs count in
//! billions, so the lowest limb of a number of nanos holds exactly its fraction of a unit, and decimal text
//! needs no division.

use std::cmp::Ordering;

const BASE: u64 = 1_000_000_000;
const DIGITS_PER_LIMB: usize = 9;

/// Limbs in base 10^9, lowest first, none above the highest that is not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Natural(Vec<u32>);

impl From<u128> for Natural {
    fn from(mut rest: u128) -> Self {
        let mut limbs = Vec::new();
        while rest > 0 {
            // OK because the remainder is below 10^9.
            limbs.push((rest % u128::from(BASE)) as u32);
            rest /= u128::from(BASE);
        }
        Self(limbs)
    }
}

impl Natural {
    /// The number the ASCII digits of `text` spell; every other byte is passed over.
    pub(super) fn from_digits(text: &[u8]) -> Self {
        let digits: Vec<u32> =
            text.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| u32::from(byte - b'0')).collect();
        let limbs = digits.rchunks(DIGITS_PER_LIMB).map(|chunk| chunk.iter().fold(0, |limb, digit| limb * 10 + digit));
        Self(limbs.collect()).trimmed()
    }

    pub(super) fn power_of_ten(exponent: u32) -> Self {
        let exponent = exponent as usize;
        let mut limbs = vec![0; exponent / DIGITS_PER_LIMB];
        let top = (0..exponent % DIGITS_PER_LIMB).fold(1, |limb, _| limb * 10);
        limbs.push(top);
        Self(limbs)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_odd(&self) -> bool {
        self.limb(0) % 2 == 1
    }

    /// Whole units and the nanos of the last one, reading the number as nanos.
    pub(super) fn split_unit(&self) -> (Self, u32) {
        let fraction = self.0.first().copied().unwrap_or(0);
        (Self(self.0.iter().skip(1).copied().collect()), fraction)
    }

    /// The number, if 128 bits hold it.
    pub(super) fn to_u128(&self) -> Option<u128> {
        self.0
            .iter()
            .rev()
            .try_fold(0_u128, |sum, limb| sum.checked_mul(u128::from(BASE))?.checked_add(u128::from(*limb)))
    }

    /// The decimal digits, none for zero.
    pub(super) fn digits(&self) -> String {
        let mut limbs = self.0.iter().rev();
        let mut text = limbs.next().map(u32::to_string).unwrap_or_default();
        for limb in limbs {
            text.push_str(&format!("{limb:09}"));
        }
        text
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let mut limbs = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for place in 0..self.0.len().max(other.0.len()) {
            let sum = self.limb(place) + other.limb(place) + carry;
            limbs.push(low_limb(sum));
            carry = sum / BASE;
        }
        limbs.push(low_limb(carry));
        Self(limbs).trimmed()
    }

    /// The distance between the two, whichever is larger.
    pub(super) fn distance(&self, other: &Self) -> Self {
        let (larger, smaller) = if *self >= *other { (self, other) } else { (other, self) };
        let mut borrow = 0;
        let mut limbs = Vec::with_capacity(larger.0.len());
        for place in 0..larger.0.len() {
            let difference = BASE + larger.limb(place) - smaller.limb(place) - borrow;
            limbs.push(low_limb(difference));
            borrow = u64::from(difference < BASE);
        }
        Self(limbs).trimmed()
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let mut product = Self(Vec::new());
        for limb in other.0.iter().rev() {
            product = product.shifted_up(0).plus(&self.times_limb(u64::from(*limb)));
        }
        product
    }

    /// Quotient and remainder; by zero, zero and the number itself.
    pub(super) fn divided_by(&self, divisor: &Self) -> (Self, Self) {
        let mut quotient = Self(Vec::new());
        let mut rest = Self(Vec::new());
        for limb in self.0.iter().rev() {
            rest = rest.shifted_up(*limb);
            let mut digit = rest.quotient_estimate(divisor);
            let mut part = divisor.times_limb(digit);
            // OK because the estimate is at most two too large.
            while part > rest {
                digit -= 1;
                part = part.distance(divisor);
            }
            rest = rest.distance(&part);
            quotient = quotient.shifted_up(low_limb(digit));
        }
        (quotient, rest)
    }

    /// The quotient, one more if there is a remainder.
    pub(super) fn divided_up_by(&self, divisor: &Self) -> Self {
        let (quotient, rest) = self.divided_by(divisor);
        if rest.is_zero() { quotient } else { quotient.plus(&Self::from(1)) }
    }

    /// The quotient of a rest less than `divisor` x 10^9, never too small: from the two highest limbs of
    /// the divisor and those of `self` that stand over them.
    fn quotient_estimate(&self, divisor: &Self) -> u64 {
        let Some(top) = divisor.0.len().checked_sub(1) else {
            return 0;
        };
        let below = |number: &Self| top.checked_sub(1).map_or(0, |place| number.limb(place));
        let leading = u128::from(divisor.limb(top) * BASE + below(divisor));
        let standing =
            u128::from(self.limb(top + 1) * BASE + self.limb(top)) * u128::from(BASE) + u128::from(below(self));
        u64::try_from(standing / leading).map_or(BASE - 1, |estimate| estimate.min(BASE - 1))
    }

    fn times_limb(&self, factor: u64) -> Self {
        let mut carry = 0;
        let mut limbs = Vec::with_capacity(self.0.len() + 1);
        for limb in &self.0 {
            let product = u64::from(*limb) * factor + carry;
            limbs.push(low_limb(product));
            carry = product / BASE;
        }
        limbs.push(low_limb(carry));
        Self(limbs).trimmed()
    }

    /// The number x 10^9 + `lowest`.
    fn shifted_up(&self, lowest: u32) -> Self {
        let mut limbs = Vec::with_capacity(self.0.len() + 1);
        limbs.push(lowest);
        limbs.extend_from_slice(&self.0);
        Self(limbs).trimmed()
    }

    fn limb(&self, place: usize) -> u64 {
        self.0.get(place).copied().map_or(0, u64::from)
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What stays in this limb; the rest is the caller's carry.
fn low_limb(value: u64) -> u32 {
    // OK because the remainder is below 10^9.
    (value % BASE) as u32
}
