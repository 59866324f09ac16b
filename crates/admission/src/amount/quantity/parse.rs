//! Parses quantities.
//!
//! A text is a number and a suffix. The usual case (up to 19 digits, none of them lost) is read in one pass with 64-bit
//! arithmetic; everything else is computed again, equally exactly, digit by digit.

use std::str::FromStr;

use super::parse_error::{MAX_EXPONENT, MAX_LENGTH, ParseQuantityError, Problem};
use super::{Family, NANOS_PER_UNIT, Quantity, is_in_range, product_of_small};

/// Every number with this many digits fits 64 bits.
const MAX_FAST_DIGITS: usize = 19;
/// A nano is the ninth digit after the point.
const NANO_DIGITS: i32 = 9;
/// Amounts with a binary suffix are capped at this many units, as in Kubernetes.
const BINARY_CAP: u128 = i64::MAX.unsigned_abs() as u128;
const POWERS_OF_TEN: [u64; 20] = powers_of_ten();

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        parse(text).map_err(|problem| ParseQuantityError::new(text, problem))
    }
}

fn parse(text: &str) -> Result<Quantity, Problem> {
    if text.len() > MAX_LENGTH {
        return Err(Problem::TooLong);
    }
    let (parts, suffix) = split_number(text.as_bytes())?;
    let unit = Unit::from_suffix(suffix, text.len() - suffix.len())?;
    let magnitude = parts.small(unit).or_else(|| parts.exact(unit)).and_then(|nanos| i128::try_from(nanos).ok());
    let nanos = magnitude.filter(|nanos| is_in_range(*nanos)).ok_or(Problem::OutOfRange)?;
    Ok(Quantity { nanos: if parts.negative { -nanos } else { nanos }, family: unit.family_of(nanos) })
}

/// The text of an amount with an exponent that is out of range: without zeros at the end, and with a multiple of three.
pub(super) fn family_beyond(text: &str) -> Option<Family> {
    let (Parts { digits, fraction_digits, mut mantissa, .. }, suffix) = split_number(text.as_bytes()).ok()?;
    let Ok(Unit::Decimal { power, family: Family::DecimalExponent }) = Unit::from_suffix(suffix, 0) else {
        return None;
    };
    let mut exponent = power - fraction_digits;
    if digits > MAX_FAST_DIGITS || mantissa == 0 {
        return None;
    }
    while mantissa.is_multiple_of(10) {
        (mantissa, exponent) = (mantissa / 10, exponent + 1);
    }
    let over = exponent.rem_euclid(3);
    let mantissa = mantissa.checked_mul(*POWERS_OF_TEN.get(over.unsigned_abs() as usize)?)?;
    Some(Family::Beyond { mantissa, exponent: u8::try_from(exponent - over).ok()? })
}

/// The number before the suffix, as written.
struct Parts<'a> {
    negative: bool,
    /// The digits, with or without a point.
    text: &'a [u8],
    digits: usize,
    fraction_digits: i32,
    /// All digits as one whole number; meaningful up to `MAX_FAST_DIGITS`.
    mantissa: u64,
}

fn split_number(text: &[u8]) -> Result<(Parts<'_>, &[u8]), Problem> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut mantissa = 0_u64;
    let mut rest = digits_into(&mut mantissa, unsigned);
    let mut digits = unsigned.len() - rest.len();
    let mut fraction_digits = 0;
    if let [b'.', fraction @ ..] = rest {
        rest = digits_into(&mut mantissa, fraction);
        fraction_digits = fraction.len() - rest.len();
        digits += fraction_digits;
    }
    if digits == 0 {
        return Err(Problem::NoDigits);
    }
    let number = unsigned.get(..unsigned.len() - rest.len()).unwrap_or_default();
    // OK because the text has no more than MAX_LENGTH characters.
    let fraction_digits = fraction_digits as i32;
    Ok((Parts { negative, text: number, digits, fraction_digits, mantissa }, rest))
}

/// Appends the leading digits of `text` to `mantissa` and returns the rest.
fn digits_into<'a>(mantissa: &mut u64, mut text: &'a [u8]) -> &'a [u8] {
    while let [digit @ b'0'..=b'9', rest @ ..] = text {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        text = rest;
    }
    text
}

impl Parts<'_> {
    /// The magnitude in nanos, if 64 bits are enough for the digits and none is below a nano.
    fn small(&self, unit: Unit) -> Option<u128> {
        if self.digits > MAX_FAST_DIGITS {
            return None;
        }
        match unit {
            Unit::Decimal { power, .. } => {
                let power = usize::try_from(NANO_DIGITS + power - self.fraction_digits).ok()?;
                POWERS_OF_TEN.get(power).map(|power| product_of_small(self.mantissa, *power))
            }
            Unit::Binary { shift } if self.fraction_digits == 0 => {
                let is_below_cap = self.mantissa.leading_zeros() > shift;
                let units = if is_below_cap { self.mantissa << shift } else { i64::MAX.unsigned_abs() };
                Some(product_of_small(units, NANOS_PER_UNIT as u64))
            }
            Unit::Binary { .. } => None,
        }
    }

    /// The magnitude in nanos, rounded up, of a number with any digits; none if it does not fit.
    fn exact(&self, unit: Unit) -> Option<u128> {
        match unit {
            Unit::Decimal { power, .. } => {
                let power = NANO_DIGITS + power - self.fraction_digits;
                let (nanos, lost) = self.leading(self.digits as i32 + power.min(0))?;
                if nanos == 0 {
                    return Some(u128::from(lost));
                }
                nanos.checked_mul(power_of_ten(power.max(0))?)?.checked_add(u128::from(lost))
            }
            Unit::Binary { shift } => {
                let cap = BINARY_CAP * NANOS_PER_UNIT.unsigned_abs();
                let whole_digits = self.digits as i32 - self.fraction_digits;
                let Some(whole) =
                    self.leading(whole_digits).map(|(whole, _)| whole).filter(|whole| *whole <= BINARY_CAP)
                else {
                    return Some(cap);
                };
                let whole = (whole << shift).min(BINARY_CAP) * NANOS_PER_UNIT.unsigned_abs();
                Some((whole + self.binary_fraction(shift)).min(cap))
            }
        }
    }

    /// The number of the first `count` digits, and whether any of the others is not zero; none if it does not fit.
    fn leading(&self, count: i32) -> Option<(u128, bool)> {
        let count = usize::try_from(count).unwrap_or(0);
        let mut digits = self.text.iter().filter(|byte| **byte != b'.').map(|digit| digit - b'0');
        let mut number = 0_u128;
        for digit in digits.by_ref().take(count) {
            number = number.checked_mul(10)?.checked_add(digit.into())?;
        }
        Some((number, digits.any(|digit| digit > 0)))
    }

    /// The digits behind the point x 2^`shift`, in nanos, rounded up.
    fn binary_fraction(&self, shift: u32) -> u128 {
        /// 2^60 units are less than 10^28 nanos, so all digits behind these add less than one nano to them. They cannot
        /// add up to a whole one: what is missing there is a multiple of the last digit's weight.
        const COUNTED: usize = 36;
        const AT_ONCE: usize = 9;
        let start = self.text.len().saturating_sub(self.fraction_digits.unsigned_abs() as usize);
        let digits = self.text.get(start..).unwrap_or_default();
        let (counted, others) = digits.split_at(digits.len().min(COUNTED));
        let mut lost = others.iter().any(|digit| *digit != b'0');
        let unit = NANOS_PER_UNIT.unsigned_abs() << shift;
        let mut nanos = 0_u128;
        for part in counted.rchunks(AT_ONCE) {
            // OK because the part is below 10^9 and the unit below 2^90.
            let number = part.iter().fold(0_u128, |number, digit| number * 10 + u128::from(digit - b'0'));
            let divisor = POWERS_OF_TEN.get(part.len()).copied().map_or(1, u128::from);
            let sum = number * unit + nanos;
            lost |= !sum.is_multiple_of(divisor);
            nanos = sum / divisor;
        }
        nanos + u128::from(lost)
    }
}

/// 10^`power`, if it is whole and fits.
fn power_of_ten(power: i32) -> Option<u128> {
    let power = usize::try_from(power).ok()?;
    let first = power.min(POWERS_OF_TEN.len() - 1);
    Some(product_of_small(*POWERS_OF_TEN.get(first)?, *POWERS_OF_TEN.get(power - first)?))
}

#[derive(Clone, Copy)]
enum Unit {
    Decimal { power: i32, family: Family },
    Binary { shift: u32 },
}

impl Unit {
    /// Reads a suffix that starts at a place in the text.
    fn from_suffix(suffix: &[u8], start: usize) -> Result<Self, Problem> {
        let si = |power| Ok(Self::Decimal { power, family: Family::DecimalSi });
        match suffix {
            [] => si(0),
            [b'm'] => si(-3),
            [b'M', b'i'] => Ok(Self::Binary { shift: 20 }),
            [b'G', b'i'] => Ok(Self::Binary { shift: 30 }),
            [b'K', b'i'] => Ok(Self::Binary { shift: 10 }),
            [b'T', b'i'] => Ok(Self::Binary { shift: 40 }),
            [b'P', b'i'] => Ok(Self::Binary { shift: 50 }),
            [b'E', b'i'] => Ok(Self::Binary { shift: 60 }),
            [b'k'] => si(3),
            [b'M'] => si(6),
            [b'G'] => si(9),
            [b'T'] => si(12),
            [b'P'] => si(15),
            [b'E'] => si(18),
            [b'u'] => si(-6),
            [b'n'] => si(-9),
            [b'e' | b'E', exponent @ ..] => {
                let power = read_exponent(exponent).ok_or(Problem::UnknownSuffix { start })?;
                let is_allowed = (-MAX_EXPONENT..=MAX_EXPONENT).contains(&power);
                let unit = Self::Decimal { power, family: Family::DecimalExponent };
                if is_allowed { Ok(unit) } else { Err(Problem::ExponentOutOfBounds) }
            }
            _ => Err(Problem::UnknownSuffix { start }),
        }
    }

    /// Kubernetes uses decimal suffixes for a part of a byte, so that sums stay readable.
    fn family_of(self, nanos: i128) -> Family {
        match self {
            Self::Decimal { family, .. } => family,
            Self::Binary { .. } if (1..NANOS_PER_UNIT).contains(&nanos) => Family::DecimalSi,
            Self::Binary { .. } => Family::BinarySi,
        }
    }
}

/// An exponent, or one beyond the bounds; none if it is no number.
fn read_exponent(text: &[u8]) -> Option<i32> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // OK because the text has no more than MAX_LENGTH digits, and ten times the bound is little.
    let size = digits.iter().fold(0, |size: i32, digit| (size * 10 + i32::from(digit - b'0')).min(MAX_EXPONENT + 1));
    Some(sign * size)
}

#[expect(clippy::indexing_slicing, reason = "evaluated only by the compiler")]
const fn powers_of_ten() -> [u64; 20] {
    let mut powers = [1; 20];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = powers[place - 1] * 10;
        place += 1;
    }
    powers
}
