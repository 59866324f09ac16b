//! Parses quantities.
//!
//! A text is a number and a suffix. The usual case (up to 19 digits, up to 9 of them after the point) is read in one
//! pass with 64-bit arithmetic; everything else is computed again, equally exactly, with [`Natural`]s.

use std::str::FromStr;

use super::natural::Natural;
use super::number::Number;
use super::parse_error::{MAX_EXPONENT, MAX_LENGTH, ParseQuantityError, Problem};
use super::{Family, Quantity};

/// Every number with this many digits fits 64 bits.
const MAX_FAST_DIGITS: usize = 19;
/// A nano is the ninth digit after the point.
const NANO_DIGITS: u32 = 9;
/// Amounts with a binary suffix are capped at this many units, as in Kubernetes.
const BINARY_CAP: u64 = i64::MAX.unsigned_abs();
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
    let unit = match Unit::from_suffix(suffix) {
        Ok(unit) => unit,
        Err(SuffixProblem::Unknown) => {
            return Err(Problem::UnknownSuffix { start: text.len() - suffix.len() });
        }
        Err(SuffixProblem::ExponentOutOfBounds) => return Err(Problem::ExponentOutOfBounds),
    };
    let number = parts.small(unit).unwrap_or_else(|| parts.exact(unit));
    Ok(Quantity { family: unit.family_of(&number), number })
}

/// The number before the suffix, as written.
struct Parts<'a> {
    negative: bool,
    /// The digits, with or without a point.
    text: &'a [u8],
    digits: usize,
    fraction_digits: u32,
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
    let fraction_digits = fraction_digits as u32;
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
    /// The value, if 64-bit arithmetic is enough.
    fn small(&self, unit: Unit) -> Option<Number> {
        if self.digits > MAX_FAST_DIGITS {
            return None;
        }
        let (units, nanos) = match unit {
            Unit::Decimal { power, .. } => {
                split_decimal(self.mantissa, power.checked_sub_unsigned(self.fraction_digits)?)?
            }
            Unit::Binary { shift } => {
                let room = self.mantissa.leading_zeros();
                if self.fraction_digits == 0 {
                    // A result below 2^63 needs no cap.
                    (if room > shift { self.mantissa << shift } else { BINARY_CAP }, 0)
                } else if room >= shift {
                    split_decimal(self.mantissa << shift, 0_i32.checked_sub_unsigned(self.fraction_digits)?)?
                } else {
                    return None;
                }
            }
        };
        Number::small(self.negative, units, nanos)
    }

    /// The value of any size.
    fn exact(&self, unit: Unit) -> Number {
        let nano_power = NANO_DIGITS as i32 - self.fraction_digits as i32;
        match unit {
            Unit::Decimal { power, .. } => {
                Number::from_nanos(self.negative, Natural::from_decimal(self.text, nano_power + power))
            }
            Unit::Binary { shift } => {
                let whole = Natural::from_decimal(self.text, nano_power.max(0)).times(&Natural::from(1_u64 << shift));
                let nanos = whole.divided_up_by_power_of_ten(nano_power.min(0).unsigned_abs() as usize);
                capped(Number::from_nanos(self.negative, nanos))
            }
        }
    }
}

/// `mantissa` x 10^`power` as units and nanos, if no digit is lost.
fn split_decimal(mantissa: u64, power: i32) -> Option<(u64, u32)> {
    if power == 0 {
        return Some((mantissa, 0));
    }
    if power > 0 {
        return Some((mantissa.checked_mul(power_of_ten(power.unsigned_abs())?)?, 0));
    }
    let divisor = power_of_ten(power.unsigned_abs())?;
    // OK because the power is at most the ninth, and the rest is below `divisor`, so their product is below 10^9.
    let nanos_per_rest = power_of_ten(NANO_DIGITS.checked_sub(power.unsigned_abs())?)? as u32;
    Some((mantissa / divisor, (mantissa % divisor) as u32 * nanos_per_rest))
}

fn power_of_ten(power: u32) -> Option<u64> {
    POWERS_OF_TEN.get(power as usize).copied()
}

fn capped(number: Number) -> Number {
    let cap = Number::from_units(i64::MAX);
    let lowest = Number::from_units(-i64::MAX);
    number.clamp(lowest, cap)
}

#[derive(Clone, Copy)]
enum Unit {
    Decimal { power: i32, family: Family },
    Binary { shift: u32 },
}

enum SuffixProblem {
    Unknown,
    ExponentOutOfBounds,
}

impl Unit {
    fn from_suffix(suffix: &[u8]) -> Result<Self, SuffixProblem> {
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
                Ok(Self::Decimal { power: read_exponent(exponent)?, family: Family::DecimalExponent })
            }
            _ => Err(SuffixProblem::Unknown),
        }
    }

    /// Kubernetes uses decimal suffixes for a part of a byte, so that sums stay readable.
    fn family_of(self, number: &Number) -> Family {
        match self {
            Self::Decimal { family, .. } => family,
            Self::Binary { .. } => match number.small_magnitude() {
                Some((0, nanos)) if nanos > 0 => Family::DecimalSi,
                _ => Family::BinarySi,
            },
        }
    }
}

fn read_exponent(text: &[u8]) -> Result<i32, SuffixProblem> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(SuffixProblem::Unknown);
    }
    // OK because the text has no more than MAX_LENGTH digits, and ten times the bound is little.
    let size = digits.iter().fold(0, |size: i32, digit| (size * 10 + i32::from(digit - b'0')).min(MAX_EXPONENT + 1));
    if size > MAX_EXPONENT { Err(SuffixProblem::ExponentOutOfBounds) } else { Ok(sign * size) }
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
