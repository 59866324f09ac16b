//! Whole numbers of any size, for the few quantities that do not fit a machine word.
//!
//! The base is a billion, so the lowest limb of a number of nanos is exactly its fraction of a unit, decimal text needs
//! no division, and multiplying by a power of ten is a shift. Texts of quantities are short, which bounds every number;
//! everything except products and quotients takes time linear in the digits.

use std::cmp::Ordering;

const BASE: u64 = 1_000_000_000;
const DIGITS_PER_LIMB: usize = 9;
const POWERS_OF_TEN: [u32; DIGITS_PER_LIMB] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Limbs in base 10^9, lowest first, none above the highest that is not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(number: u64) -> Self {
        Self(vec![low_limb(number), low_limb(number / BASE), low_limb(number / BASE / BASE)]).trimmed()
    }
}

impl Natural {
    /// These units and nanos, as a number of nanos.
    pub(super) fn of_nanos(units: u64, nanos: u32) -> Self {
        let mut number = Self::from(units);
        number.0.insert(0, nanos);
        number.trimmed()
    }

    /// The number of the ASCII digits of `text`, x 10^`power`, rounded up. All other bytes are ignored.
    pub(super) fn from_decimal(text: &[u8], power: i32) -> Self {
        let highest = text.len().saturating_add_signed(power as isize);
        let mut limbs = vec![0; highest / DIGITS_PER_LIMB + 1];
        let mut lost = false;
        let digits = text.iter().rev().filter(|byte| byte.is_ascii_digit());
        for (place, digit) in (power..).zip(digits.map(|byte| u32::from(byte - b'0'))) {
            let Ok(place) = usize::try_from(place) else {
                lost |= digit > 0;
                continue;
            };
            let scale = POWERS_OF_TEN.get(place % DIGITS_PER_LIMB).copied().unwrap_or_default();
            if let Some(limb) = limbs.get_mut(place / DIGITS_PER_LIMB) {
                *limb += digit * scale;
            }
        }
        Self(limbs).trimmed().rounded_up_if(lost)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_odd(&self) -> bool {
        self.limb(0) % 2 == 1
    }

    /// The whole units of a number of nanos, if they fit 64 bits.
    pub(super) fn units(&self) -> Option<u64> {
        let higher = self.0.get(1..).unwrap_or_default();
        higher.iter().rev().try_fold(0_u64, |units, limb| units.checked_mul(BASE)?.checked_add(u64::from(*limb)))
    }

    /// The nanos of a number of nanos beyond its whole units.
    pub(super) fn nanos(&self) -> u32 {
        self.0.first().copied().unwrap_or_default()
    }

    /// The decimal digits, none for zero.
    pub(super) fn digits(&self) -> String {
        let mut text = Vec::with_capacity(self.0.len() * DIGITS_PER_LIMB);
        for limb in self.0.iter().rev() {
            for scale in POWERS_OF_TEN.iter().rev() {
                let digit = limb / scale % 10;
                if digit > 0 || !text.is_empty() {
                    // OK because the remainder is one digit.
                    text.push(b'0' + digit as u8);
                }
            }
        }
        String::from_utf8(text).unwrap_or_default()
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let (longer, shorter) = if self.0.len() >= other.0.len() { (self, other) } else { (other, self) };
        let mut sum = Vec::with_capacity(longer.0.len() + 1);
        sum.extend_from_slice(&longer.0);
        let carry = add(&mut sum, &shorter.0);
        sum.push(low_limb(carry));
        Self(sum).trimmed()
    }

    /// The absolute difference.
    pub(super) fn distance(&self, other: &Self) -> Self {
        let (larger, smaller) = if *self >= *other { (self, other) } else { (other, self) };
        let mut distance = larger.clone();
        subtract(&mut distance.0, &smaller.0, 1);
        distance.trimmed()
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let mut product = vec![0; self.0.len() + other.0.len()];
        for (place, factor) in self.0.iter().enumerate().filter(|(_, factor)| **factor > 0) {
            let mut carry = 0;
            for (limb, other) in product.iter_mut().skip(place).zip(other.0.iter().chain([&0])) {
                let sum = u64::from(*limb) + u64::from(*factor) * u64::from(*other) + carry;
                *limb = low_limb(sum);
                carry = sum / BASE;
            }
        }
        Self(product).trimmed()
    }

    /// The number x 10^9.
    pub(super) fn times_base(&self) -> Self {
        let mut product = self.clone();
        product.0.insert(0, 0);
        product.trimmed()
    }

    /// The number / 10^`power`, rounded up.
    pub(super) fn divided_up_by_power_of_ten(mut self, power: usize) -> Self {
        let whole_limbs = (power / DIGITS_PER_LIMB).min(self.0.len());
        let lost = self.0.drain(..whole_limbs).any(|limb| limb > 0);
        let scale = POWERS_OF_TEN.get(power % DIGITS_PER_LIMB).copied().unwrap_or(1);
        let rest = self.divide_by_limb(scale);
        self.rounded_up_if(lost || rest > 0)
    }

    /// Replaces the number by the quotient and returns the remainder, for a divisor that is not zero.
    pub(super) fn divide_by_limb(&mut self, divisor: u32) -> u32 {
        let divisor = u64::from(divisor.max(1));
        let mut rest = 0;
        for limb in self.0.iter_mut().rev() {
            let standing = rest * BASE + u64::from(*limb);
            *limb = low_limb(standing / divisor);
            rest = standing % divisor;
        }
        self.trim();
        low_limb(rest)
    }

    /// Quotient and remainder; by zero, zero and the number itself.
    pub(super) fn divided_by(&self, divisor: &Self) -> (Self, Self) {
        if divisor.is_zero() {
            return (Self(Vec::new()), self.clone());
        }
        let mut rest = self.0.clone();
        let mut quotient = vec![0; rest.len()];
        for (place, digit) in quotient.iter_mut().enumerate().rev() {
            let Some(standing) = rest.get_mut(place..) else { continue };
            let mut estimate = divisor.quotient_estimate(standing);
            let mut too_much = subtract(standing, &divisor.0, estimate);
            // OK because the estimate is at most two too large.
            while too_much > 0 {
                estimate -= 1;
                too_much -= add(standing, &divisor.0);
            }
            *digit = low_limb(estimate);
        }
        (Self(quotient).trimmed(), Self(rest).trimmed())
    }

    /// The quotient, one more if there is a remainder.
    pub(super) fn divided_up_by(&self, divisor: &Self) -> Self {
        let (quotient, rest) = self.divided_by(divisor);
        quotient.rounded_up_if(!rest.is_zero())
    }

    /// An estimate, never too small, of the quotient of `standing` (less than the divisor x 10^9) by this divisor, from
    /// the two highest limbs of the divisor and the limbs of `standing` at their places and above.
    fn quotient_estimate(&self, standing: &[u32]) -> u64 {
        let top = self.0.len().saturating_sub(1);
        let over = |place: usize| standing.get(place).copied().map_or(0, u64::from);
        let (below, over_below) = match top.checked_sub(1) {
            Some(place) => (self.limb(place), over(place)),
            None => (0, 0),
        };
        let leading = u128::from(self.limb(top) * BASE + below);
        let over = u128::from(over(top + 1) * BASE + over(top)) * u128::from(BASE) + u128::from(over_below);
        u64::try_from(over / leading).map_or(BASE - 1, |estimate| estimate.min(BASE - 1))
    }

    fn limb(&self, place: usize) -> u64 {
        self.0.get(place).copied().map_or(0, u64::from)
    }

    fn rounded_up_if(self, lost: bool) -> Self {
        if lost { self.plus(&Self(vec![1])) } else { self }
    }

    fn trimmed(mut self) -> Self {
        self.trim();
        self
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

/// Adds to a number that is at least as long, and returns the carry beyond its end.
fn add(sum: &mut [u32], more: &[u32]) -> u64 {
    let mut carry = 0;
    for (place, limb) in sum.iter_mut().enumerate() {
        let total = u64::from(*limb) + more.get(place).copied().map_or(0, u64::from) + carry;
        *limb = low_limb(total);
        carry = total / BASE;
    }
    carry
}

/// Subtracts `less` x `times` from a number, and returns the borrow beyond its end.
fn subtract(rest: &mut [u32], less: &[u32], times: u64) -> u64 {
    let mut borrow = 0;
    for (place, limb) in rest.iter_mut().enumerate() {
        let taken = less.get(place).copied().map_or(0, u64::from) * times + borrow;
        let (have, low) = (u64::from(*limb), taken % BASE);
        *limb = low_limb(have + BASE - low);
        borrow = taken / BASE + u64::from(have < low);
    }
    borrow
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

/// The part that stays in this limb; the caller carries the rest.
fn low_limb(value: u64) -> u32 {
    // OK because the remainder is below 10^9.
    (value % BASE) as u32
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::Natural;

    fn model(number: &Natural) -> BigUint {
        BigUint::parse_bytes(format!("0{}", number.digits()).as_bytes(), 10).unwrap()
    }

    /// Limbs at the edges, where carries, borrows and estimates of quotients may go wrong.
    fn natural() -> impl Strategy<Value = Natural> {
        let limb = prop_oneof![Just(0), Just(1), Just(999_999_999), Just(500_000_000), 0..1_000_000_000_u32];
        prop::collection::vec(limb, 0..12).prop_map(|limbs| Natural(limbs).trimmed())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn arithmetic_agrees_with_a_big_number_library(a in natural(), b in natural(), limb in 1..=u32::MAX) {
            let (x, y) = (model(&a), model(&b));
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            prop_assert_eq!(model(&a.plus(&b)), &x + &y);
            prop_assert_eq!(model(&a.times(&b)), &x * &y);
            prop_assert_eq!(model(&a.times_base()), &x * 1_000_000_000_u32);
            prop_assert_eq!(model(&a.distance(&b)), if x > y { &x - &y } else { &y - &x });
            prop_assert_eq!(a.units(), u64::try_from(&x / 1_000_000_000_u32).ok());
            prop_assert_eq!(BigUint::from(a.nanos()), &x % 1_000_000_000_u32);
            let mut quotient = a.clone();
            let rest = quotient.divide_by_limb(limb % 1_000_000_000 + 1);
            prop_assert_eq!((model(&quotient), BigUint::from(rest)), (&x / (limb % 1_000_000_000 + 1), &x % (limb % 1_000_000_000 + 1)));
            if !b.is_zero() {
                let (quotient, rest) = a.divided_by(&b);
                prop_assert_eq!((model(&quotient), model(&rest)), (&x / &y, &x % &y));
                prop_assert_eq!(model(&a.divided_up_by(&b)), (&x + &y - 1_u32) / &y);
            }
        }

        #[test]
        fn a_product_is_divided_without_a_remainder(a in natural(), b in natural()) {
            let (quotient, rest) = a.times(&b).divided_by(&b);
            prop_assert!(b.is_zero() || (quotient == a && rest.is_zero()));
        }

        #[test]
        fn digits_read_back(a in natural(), power in 0..40_i32) {
            let digits = a.digits();
            prop_assert_eq!(&Natural::from_decimal(digits.as_bytes(), 0), &a);
            let (x, scale) = (model(&a), BigUint::from(10_u32).pow(power.unsigned_abs()));
            prop_assert_eq!(model(&Natural::from_decimal(digits.as_bytes(), power)), &x * &scale);
            let quotient = (&x + &scale - 1_u32) / &scale;
            prop_assert_eq!(&model(&Natural::from_decimal(digits.as_bytes(), -power)), &quotient);
            prop_assert_eq!(model(&a.divided_up_by_power_of_ten(power as usize)), quotient);
        }

        #[test]
        fn machine_words_are_converted_exactly(units in any::<u64>(), nanos in 0..1_000_000_000_u32) {
            prop_assert_eq!(model(&Natural::from(units)), BigUint::from(units));
            let number = Natural::of_nanos(units, nanos);
            prop_assert_eq!((number.units(), number.nanos()), (Some(units), nanos));
        }
    }

    #[test]
    fn division_by_zero_ends() {
        let (quotient, rest) = Natural::from(7).divided_by(&Natural::from(0));
        assert_eq!((quotient.digits(), rest.digits()), (String::new(), "7".to_owned()));
    }
}
