//! The exact number inside a quantity: arithmetic and order, without suffixes.
//!
//! Nearly every amount in a cluster is within 2^63 units, so it is stored like a time of day: whole units and
//! additional billionths. Comparison and sums then need neither multiplication nor division. Larger numbers are a boxed
//! [`Natural`] number of nanos.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::natural::Natural;

pub(super) const NANOS_PER_UNIT: u32 = 1_000_000_000;
pub(super) const NANOS_PER_MILLI: u32 = 1_000_000;

/// Each value has exactly one form: `Small` if its whole units, rounded down, fit.
#[derive(Debug, Clone)]
pub(super) enum Number {
    /// `units` rounded down, so `nanos` (below 10^9) count upwards for negative numbers too.
    Small {
        units: i64,
        nanos: u32,
    },
    Large(Box<Large>),
}

#[derive(Debug, Clone)]
pub(super) struct Large {
    pub(super) negative: bool,
    pub(super) nanos: Natural,
}

impl Number {
    pub(super) const fn from_units(units: i64) -> Self {
        Self::Small { units, nanos: 0 }
    }

    pub(super) fn from_unsigned(units: u64) -> Self {
        Self::small(false, units, 0).unwrap_or_else(|| Self::from_nanos(false, Natural::of_nanos(units, 0)))
    }

    pub(super) const fn from_milli(milli: i64) -> Self {
        // OK because the remainder is from 0 to 999.
        Self::Small { units: milli.div_euclid(1000), nanos: milli.rem_euclid(1000) as u32 * NANOS_PER_MILLI }
    }

    /// The number with this sign and magnitude (`nanos` below 10^9), if it is small.
    pub(super) fn small(negative: bool, units: u64, nanos: u32) -> Option<Self> {
        if !negative {
            return Some(Self::Small { units: i64::try_from(units).ok()?, nanos });
        }
        let units = 0_i64.checked_sub_unsigned(units)?;
        if nanos == 0 {
            return Some(Self::Small { units, nanos });
        }
        Some(Self::Small { units: units.checked_sub(1)?, nanos: NANOS_PER_UNIT - nanos })
    }

    pub(super) fn from_nanos(negative: bool, nanos: Natural) -> Self {
        nanos
            .units()
            .and_then(|units| Self::small(negative, units, nanos.nanos()))
            .unwrap_or_else(|| Self::Large(Box::new(Large { negative, nanos })))
    }

    fn small_from_nanos(negative: bool, nanos: u128) -> Option<Self> {
        let units = u64::try_from(nanos / u128::from(NANOS_PER_UNIT)).ok()?;
        // OK because the remainder is below 10^9.
        Self::small(negative, units, (nanos % u128::from(NANOS_PER_UNIT)) as u32)
    }

    /// Whole units and nanos of the magnitude, if the number is small.
    pub(super) fn small_magnitude(&self) -> Option<(u64, u32)> {
        match *self {
            Self::Small { units, nanos } if units < 0 && nanos > 0 => {
                Some((units.unsigned_abs() - 1, NANOS_PER_UNIT - nanos))
            }
            Self::Small { units, nanos } => Some((units.unsigned_abs(), nanos)),
            Self::Large(_) => None,
        }
    }

    /// The magnitude in nanos, if the number is small (it is then below 2^94).
    fn small_nanos(&self) -> Option<u128> {
        let (units, nanos) = self.small_magnitude()?;
        Some(u128::from(units) * u128::from(NANOS_PER_UNIT) + u128::from(nanos))
    }

    /// The magnitude in thousandths, if it is a whole number of them and fits.
    fn exact_milli(&self) -> Option<u64> {
        const MAX_UNITS: u64 = u64::MAX / 1000 - 1;
        match self.small_magnitude()? {
            (units, 0) if units <= MAX_UNITS => Some(units * 1000),
            (units, nanos) if units <= MAX_UNITS && nanos.is_multiple_of(NANOS_PER_MILLI) => {
                Some(units * 1000 + u64::from(nanos / NANOS_PER_MILLI))
            }
            _ => None,
        }
    }

    /// The magnitude in nanos.
    pub(super) fn nanos(&self) -> Cow<'_, Natural> {
        match self {
            Self::Large(large) => Cow::Borrowed(&large.nanos),
            Self::Small { .. } => {
                let (units, nanos) = self.small_magnitude().unwrap_or_default();
                Cow::Owned(Natural::of_nanos(units, nanos))
            }
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        matches!(self, Self::Small { units: 0, nanos: 0 })
    }

    pub(super) fn is_negative(&self) -> bool {
        match self {
            Self::Small { units, .. } => *units < 0,
            Self::Large(large) => large.negative,
        }
    }

    /// Whole units, rounded away from zero; saturates at 64 bits.
    pub(super) fn value(&self) -> i64 {
        match *self {
            Self::Small { units, nanos } if units >= 0 && nanos > 0 => units.saturating_add(1),
            Self::Small { units, .. } => units,
            Self::Large(ref large) => saturated(large.negative),
        }
    }

    /// Thousandths, rounded away from zero; saturates at 64 bits.
    pub(super) fn milli_value(&self) -> i64 {
        match *self {
            Self::Small { units, nanos } => {
                let above = if units < 0 { nanos / NANOS_PER_MILLI } else { nanos.div_ceil(NANOS_PER_MILLI) };
                let milli = i128::from(units) * 1000 + i128::from(above);
                i64::try_from(milli).unwrap_or_else(|_| saturated(units < 0))
            }
            Self::Large(ref large) => saturated(large.negative),
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        self.small_plus(other).unwrap_or_else(|| {
            let (left, right) = (self.nanos(), other.nanos());
            if self.is_negative() == other.is_negative() {
                return Self::from_nanos(self.is_negative(), left.plus(&right));
            }
            let negative = if left > right { self.is_negative() } else { other.is_negative() };
            Self::from_nanos(negative, left.distance(&right))
        })
    }

    fn small_plus(&self, other: &Self) -> Option<Self> {
        let (Self::Small { units: left, nanos: low }, Self::Small { units: right, nanos: more }) = (self, other) else {
            return None;
        };
        let units = left.checked_add(*right)?;
        let nanos = low + more;
        if nanos < NANOS_PER_UNIT {
            return Some(Self::Small { units, nanos });
        }
        Some(Self::Small { units: units.checked_add(1)?, nanos: nanos - NANOS_PER_UNIT })
    }

    pub(super) fn minus(&self, other: &Self) -> Self {
        self.small_minus(other)
            .unwrap_or_else(|| self.plus(&Self::from_nanos(!other.is_negative(), other.nanos().into_owned())))
    }

    fn small_minus(&self, other: &Self) -> Option<Self> {
        let (Self::Small { units: left, nanos: low }, Self::Small { units: right, nanos: less }) = (self, other) else {
            return None;
        };
        let units = left.checked_sub(*right)?;
        if low >= less {
            return Some(Self::Small { units, nanos: low - less });
        }
        Some(Self::Small { units: units.checked_sub(1)?, nanos: low + NANOS_PER_UNIT - less })
    }

    pub(super) fn times_count(&self, count: u64) -> Self {
        self.small_times_count(count)
            .unwrap_or_else(|| Self::from_nanos(self.is_negative(), self.nanos().times(&Natural::from(count))))
    }

    fn small_times_count(&self, count: u64) -> Option<Self> {
        let Self::Small { units, nanos } = *self else {
            return None;
        };
        let units = units.checked_mul(i64::try_from(count).ok()?)?;
        if nanos == 0 {
            return Some(Self::Small { units, nanos });
        }
        let above = u64::from(nanos).checked_mul(count)?;
        // OK because the remainder is below 10^9.
        let nanos = (above % u64::from(NANOS_PER_UNIT)) as u32;
        Some(Self::Small { units: units.checked_add_unsigned(above / u64::from(NANOS_PER_UNIT))?, nanos })
    }

    /// The number x `num` / `den`, rounded away from zero to a nano; a zero `den` counts as one.
    pub(super) fn scaled(&self, num: u64, den: u64) -> Self {
        let den = den.max(1);
        if let Some(scaled) = self.small_scaled(num, den) {
            return scaled;
        }
        let small = |nanos: u128| {
            Self::small_from_nanos(self.is_negative(), nanos.checked_mul(u128::from(num))?.div_ceil(u128::from(den)))
        };
        self.small_nanos().and_then(small).unwrap_or_else(|| {
            let nanos = self.nanos().times(&Natural::from(num)).divided_up_by(&Natural::from(den));
            Self::from_nanos(self.is_negative(), nanos)
        })
    }

    /// The same if 64 bits are enough for each step, as they are for usual amounts.
    fn small_scaled(&self, num: u64, den: u64) -> Option<Self> {
        const NANOS: u64 = NANOS_PER_UNIT as u64;
        if num > NANOS || den > NANOS {
            return None;
        }
        let (units, nanos) = self.small_magnitude()?;
        let product = units.checked_mul(num)?;
        // OK because both products are at most 10^18.
        let more = ((product % den) * NANOS + u64::from(nanos) * num).div_ceil(den);
        // OK because the remainder is below 10^9.
        Self::small(self.is_negative(), (product / den).checked_add(more / NANOS)?, (more % NANOS) as u32)
    }

    /// The next multiple of `step` nanos away from zero, for a step of a unit or a part of one.
    pub(super) fn rounded_up_to_nanos(&self, step: u32) -> Self {
        match *self {
            Self::Small { units, nanos: 0 } => Self::Small { units, nanos: 0 },
            Self::Small { units, nanos } if units < 0 => Self::Small { units, nanos: nanos - nanos % step },
            Self::Small { units, nanos } if nanos.next_multiple_of(step) < NANOS_PER_UNIT => {
                Self::Small { units, nanos: nanos.next_multiple_of(step) }
            }
            Self::Small { units, .. } => Self::from_units(units).plus(&Self::from_units(1)),
            Self::Large(ref large) => match large.nanos.nanos() % step {
                0 => self.clone(),
                over => {
                    let nanos = large.nanos.plus(&Natural::of_nanos(0, step - over));
                    Self::from_nanos(large.negative, nanos)
                }
            },
        }
    }

    /// The next multiple of `step` away from zero; unchanged for a zero step.
    pub(super) fn rounded_up_to_multiple_of(&self, step: &Self) -> Self {
        if step.is_zero() {
            return self.clone();
        }
        let rounded_small = || {
            let ((units, nanos), step_parts) = (self.small_magnitude()?, step.small_magnitude()?);
            if let (whole_units, 0) = step_parts {
                let units = units.checked_add(u64::from(nanos > 0))?.checked_next_multiple_of(whole_units)?;
                return Self::small(self.is_negative(), units, 0);
            }
            let nanos = self.small_nanos()?.checked_next_multiple_of(step.small_nanos()?)?;
            Self::small_from_nanos(self.is_negative(), nanos)
        };
        rounded_small().unwrap_or_else(|| {
            let step = step.nanos();
            Self::from_nanos(self.is_negative(), self.nanos().divided_up_by(&step).times(&step))
        })
    }

    /// How |limit| compares to |request| x |ratio|.
    pub(super) fn cmp_to_product(limit: &Self, request: &Self, ratio: &Self) -> Ordering {
        if let (Some(limit), Some(request), Some(ratio)) =
            (limit.exact_milli(), request.exact_milli(), ratio.exact_milli())
        {
            return (u128::from(limit) * 1000).cmp(&(u128::from(request) * u128::from(ratio)));
        }
        // Nanos x nanos are billionths of nanos.
        limit.nanos().times_base().cmp(&request.nanos().times(&ratio.nanos()))
    }

    /// |limit| / |request| in millionths, half to even; `None` for a zero request.
    pub(super) fn ratio_in_millionths(limit: &Self, request: &Self) -> Option<Natural> {
        if request.is_zero() {
            return None;
        }
        let divisor = request.nanos();
        let (quotient, rest) = limit.nanos().times(&Natural::from(1_000_000)).divided_by(&divisor);
        let round_up = match rest.plus(&rest).cmp(&divisor) {
            Ordering::Less => false,
            Ordering::Equal => quotient.is_odd(),
            Ordering::Greater => true,
        };
        Some(if round_up { quotient.plus(&Natural::from(1)) } else { quotient })
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small { units: left, nanos: low }, Self::Small { units: right, nanos: other_low }) => {
                left.cmp(right).then(low.cmp(other_low))
            }
            (Self::Large(large), Self::Small { .. }) => large.against_small(),
            (Self::Small { .. }, Self::Large(large)) => large.against_small().reverse(),
            (Self::Large(left), Self::Large(right)) => match (left.negative, right.negative) {
                (false, false) => left.nanos.cmp(&right.nanos),
                (true, true) => right.nanos.cmp(&left.nanos),
                (negative, _) => {
                    if negative {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    }
                }
            },
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

impl Large {
    /// Every large number is outside the range of the small ones.
    fn against_small(&self) -> Ordering {
        if self.negative { Ordering::Less } else { Ordering::Greater }
    }
}

fn saturated(negative: bool) -> i64 {
    if negative { i64::MIN } else { i64::MAX }
}
