//! An exact amount of a resource, and the family of suffixes it prints with.
//!
//! Mirrors [Kubernetes' quantity](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/):
//! decimals down to a billionth (smaller parts round away from zero), compared by amount alone, added exactly.
//!
//! It differs from Kubernetes in quirks that authors do not intend:
//! - a text without a digit (`m`, `-`, `.`) is refused, not zero;
//! - exponents outside ±100 are refused, not truncated or expanded, and so are texts of more than 200 bytes;
//! - amounts beyond ±1.7 x 10^29 are refused, and as bounds of a LimitRange or quota nothing exceeds them. Kubernetes itself
//!   documents 2^63-1 as the largest;
//! - it always prints canonically, where Kubernetes may echo `+1` or `1.500` as written;
//! - decimal multiples of 10^21 print their digits, where Kubernetes drops the zeros;
//! - the 64-bit accessors saturate, where Kubernetes wraps.
//!
//! Reading a printed amount gives the same amount, except that binary suffixes are capped at 2^63-1 when read, as in
//! Kubernetes, while sums of them may be larger.
//!
//! Arithmetic is checked. A result that does not fit is [out of range](Quantity::is_out_of_range): all that is known of
//! it is that it lies beyond every amount that can be read. So it exceeds every bound, and is refused by it, in the
//! bound's own words. It stays out of range in all further arithmetic, and its text cannot be read as an amount.

mod parse_error;

mod parse;
mod print;

use std::cmp::Ordering;
use std::fmt;

pub use parse_error::ParseQuantityError;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The largest amount, in units. Whole, so that rounding never leaves the range.
const MAX_UNITS: i128 = i128::MAX / NANOS_PER_UNIT;
const MAX_NANOS: i128 = MAX_UNITS * NANOS_PER_UNIT;

/// The nanos of a quantity above the range. Those of one below the range are the same with the other sign.
const BEYOND: i128 = i128::MAX;

/// The suffixes a quantity prints with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `n` `u` `m`, none, `k` `M` `G` `T` `P` `E`
    DecimalSi,
    /// `Ki` `Mi` `Gi` `Ti` `Pi` `Ei`; decimal below 1024 and for parts of a byte
    BinarySi,
    /// `e3`, `e6`, …
    DecimalExponent,
    /// A bound that is out of range, with its text: `4e30`.
    Beyond { mantissa: u64, exponent: u8 },
}

/// An exact amount in billionths of a unit; the family only affects printing.
#[derive(Clone)]
pub struct Quantity {
    /// From `-MAX_NANOS` to `MAX_NANOS`, or `BEYOND` in either direction.
    nanos: i128,
    family: Family,
}

impl Quantity {
    pub const ZERO: Self = Self::from_units(0);

    /// Whole units, in decimal suffixes.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT, family: Family::DecimalSi }
    }

    /// Thousandths, in decimal suffixes.
    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * NANOS_PER_MILLI, family: Family::DecimalSi }
    }

    /// Bytes, in binary suffixes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self { nanos: bytes as i128 * NANOS_PER_UNIT, family: Family::BinarySi }
    }

    /// Reads the text of a JSON string or number, and ignores blanks around it.
    pub fn from_json_text(text: &str) -> Result<Self, ParseQuantityError> {
        match text.parse() {
            // Tried second because blanks are rare and trimming is not free.
            Err(_) if text.trim().len() < text.len() => text.trim().parse(),
            outcome => outcome,
        }
    }

    /// Reads a bound: one that is too large to be read lies beyond every amount, and prints as Kubernetes prints it if it is
    /// written with an exponent.
    pub fn bound_from_json_text(text: &str) -> Result<Self, ParseQuantityError> {
        match Self::from_json_text(text) {
            Err(error) if error.is_too_large() => {
                Ok(Self { nanos: BEYOND, family: parse::family_beyond(text.trim()).unwrap_or(Family::DecimalSi) })
            }
            read => read,
        }
    }

    pub fn family(&self) -> Family {
        self.family
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    pub fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    /// True if arithmetic left the range: the amount is only known to lie beyond every amount that can be read.
    pub fn is_out_of_range(&self) -> bool {
        !is_in_range(self.nanos)
    }

    /// Whole units, rounded away from zero.
    pub fn units(&self) -> i128 {
        self.rounded_up_to_units().nanos / NANOS_PER_UNIT
    }

    /// Whole units, rounded away from zero; saturates at 64 bits.
    pub fn value(&self) -> i64 {
        in_64_bits(self.nanos, NANOS_PER_UNIT)
    }

    /// Thousandths, rounded away from zero; saturates at 64 bits.
    pub fn milli_value(&self) -> i64 {
        in_64_bits(self.nanos, NANOS_PER_MILLI)
    }

    /// Rounded away from zero to whole units.
    pub fn rounded_up_to_units(&self) -> Self {
        self.rounded_up_to_nanos(NANOS_PER_UNIT)
    }

    /// Rounded away from zero to thousandths, as the API server does with every amount it stores.
    pub fn rounded_up_to_milli(&self) -> Self {
        self.rounded_up_to_nanos(NANOS_PER_MILLI)
    }

    /// Rounded away from zero to a multiple of `step`; unchanged for a zero step.
    pub fn rounded_up_to_multiple_of(&self, step: &Self) -> Self {
        if step.is_zero() || step.is_out_of_range() { self.clone() } else { self.rounded_up_to_nanos(step.nanos) }
    }

    /// Rounded away from zero to a multiple of a step other than zero.
    fn rounded_up_to_nanos(&self, step: i128) -> Self {
        match divided(self.nanos, step).1 {
            0 => self.clone(),
            over => self.with((self.nanos - over).checked_add(with_sign_of(self.nanos, step.abs()))),
        }
    }

    /// The sum, in this family, or in the other's if this is zero.
    pub fn plus(&self, other: &Self) -> Self {
        Self { nanos: sum(self.nanos, other.nanos), family: self.family_with(other) }
    }

    /// The difference, in this family, or in the other's if this is zero.
    pub fn minus(&self, other: &Self) -> Self {
        Self { nanos: sum(self.nanos, -other.nanos), family: self.family_with(other) }
    }

    pub fn times_count(&self, count: u64) -> Self {
        self.with(self.nanos.checked_mul(i128::from(count)))
    }

    /// This x `num` / `den`, away from zero to a billionth; a zero `den` counts as one.
    pub fn scaled(&self, num: u64, den: u64) -> Self {
        let nanos = self.nanos.unsigned_abs();
        if let Some(scaled) = u64::try_from(nanos).ok().and_then(|nanos| scaled_in_64_bits(nanos, num, den.max(1))) {
            return self.with(Some(with_sign_of(self.nanos, scaled.into())));
        }
        let (num, den) = (u128::from(num), u128::from(den.max(1)));
        let scaled = match nanos.checked_mul(num) {
            Some(product) => Some(product.div_ceil(den)),
            // OK because the remainder and `num` are both less than 2^64.
            None => {
                (nanos / den).checked_mul(num).and_then(|whole| whole.checked_add((nanos % den * num).div_ceil(den)))
            }
        };
        let scaled = scaled.and_then(|scaled| i128::try_from(scaled).ok());
        self.with(scaled.map(|scaled| with_sign_of(self.nanos, scaled)))
    }

    /// True if |limit| > |request| x |ratio|, exactly. An amount out of range exceeds every ratio that is not.
    pub fn exceeds_ratio(limit: &Self, request: &Self, ratio: &Self) -> bool {
        let is_unknown = limit.is_out_of_range() || request.is_out_of_range();
        !ratio.is_out_of_range() && (is_unknown || Self::cmp_to_product(limit, request, ratio).is_gt())
    }

    /// True if |limit| < |request| x |ratio|, exactly.
    pub fn falls_short_of_ratio(limit: &Self, request: &Self, ratio: &Self) -> bool {
        Self::cmp_to_product(limit, request, ratio).is_lt()
    }

    /// Compares |limit| with |request| x |ratio|. Nanos x nanos are billionths of nanos.
    fn cmp_to_product(limit: &Self, request: &Self, ratio: &Self) -> Ordering {
        let limit = product(limit.nanos.unsigned_abs(), NANOS_PER_UNIT.unsigned_abs());
        limit.cmp(&product(request.nanos.unsigned_abs(), ratio.nanos.unsigned_abs()))
    }

    /// limit / request to six decimals, half to even; `+Inf` for a zero request.
    pub fn ratio_text(limit: &Self, request: &Self) -> String {
        if limit.is_out_of_range() || request.is_out_of_range() {
            return "out of range".to_owned();
        }
        if request.is_zero() {
            return "+Inf".to_owned();
        }
        let divisor = request.nanos.unsigned_abs();
        let (mut whole, mut rest) = (limit.nanos.unsigned_abs() / divisor, limit.nanos.unsigned_abs() % divisor);
        let mut millionths = 0_u32;
        for _ in 0..6 {
            let (digit, next) = next_digit(rest, divisor);
            (millionths, rest) = (millionths * 10 + digit, next);
        }
        let round_up = match rest.cmp(&(divisor - rest)) {
            Ordering::Less => false,
            Ordering::Equal => millionths % 2 == 1,
            Ordering::Greater => true,
        };
        millionths += u32::from(round_up);
        whole += u128::from(millionths / 1_000_000);
        millionths %= 1_000_000;
        let negative = limit.is_negative() != request.is_negative() && (whole > 0 || millionths > 0);
        format!("{}{whole}.{millionths:0>6}", if negative { "-" } else { "" })
    }

    /// The same amount in other suffixes.
    pub fn to_family(&self, family: Family) -> Self {
        Self { nanos: self.nanos, family }
    }

    /// The result of arithmetic on this quantity; none if it overflowed in the quantity's direction.
    fn with(&self, nanos: Option<i128>) -> Self {
        let nanos = if self.is_out_of_range() { self.nanos } else { in_range(nanos, self.nanos) };
        Self { nanos, family: self.family }
    }

    fn family_with(&self, other: &Self) -> Family {
        if self.is_zero() { other.family } else { self.family }
    }
}

/// The sum of nanos. Of two summands out of range, the first counts.
fn sum(one: i128, other: i128) -> i128 {
    match (is_in_range(one), is_in_range(other)) {
        (true, true) => in_range(one.checked_add(other), one),
        (false, _) => one,
        (true, false) => other,
    }
}

fn is_in_range(nanos: i128) -> bool {
    (-MAX_NANOS..=MAX_NANOS).contains(&nanos)
}

/// A result in range, or `BEYOND` in the direction of the result, or of `sign` if there is none.
fn in_range(result: Option<i128>, sign: i128) -> i128 {
    match result {
        Some(nanos) if is_in_range(nanos) => nanos,
        Some(nanos) => with_sign_of(nanos, BEYOND),
        None => with_sign_of(sign, BEYOND),
    }
}

fn with_sign_of(sign: i128, magnitude: i128) -> i128 {
    if sign < 0 { -magnitude } else { magnitude }
}

/// Nanos as a number of steps, rounded away from zero; saturates at 64 bits.
fn in_64_bits(nanos: i128, step: i128) -> i64 {
    let (quotient, over) = divided(nanos, step);
    let saturated = if nanos < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(quotient + over.signum()).unwrap_or(saturated)
}

/// The product of two numbers. Nearly all fit 64 bits, and WebAssembly has no multiplication of 128 bits.
fn product_of_small(one: u64, other: u64) -> u128 {
    if has_small_product(one, other) { u128::from(one * other) } else { product_of_large(one, other) }
}

/// A function of its own, because the compiler would otherwise see that it does for all numbers, and use it for all.
#[inline(never)]
fn product_of_large(one: u64, other: u64) -> u128 {
    u128::from(one) * u128::from(other)
}

/// True if 64 bits are certainly enough for the product. A checked multiplication is one of 128 bits.
fn has_small_product(one: u64, other: u64) -> bool {
    one.leading_zeros() + other.leading_zeros() >= u64::BITS
}

/// `number` x `num` / `den`, rounded up; none if 64 bits are not enough.
fn scaled_in_64_bits(number: u64, num: u64, den: u64) -> Option<u64> {
    let (whole, rest) = (number / den, number % den);
    let is_small = has_small_product(whole, num) && has_small_product(rest, num);
    if is_small { (whole * num).checked_add((rest * num).div_ceil(den)) } else { None }
}

/// The quotient and the remainder of a division, which has the sign of the nanos.
// Inlined, it computes only what is asked for.
#[inline(always)]
fn divided(nanos: i128, step: i128) -> (i128, i128) {
    match (i64::try_from(nanos), i64::try_from(step)) {
        // Much cheaper in WebAssembly, which has no division of 128 bits. The guard excludes the one overflow.
        (Ok(nanos), Ok(step)) if step > 0 => (i128::from(nanos / step), i128::from(nanos % step)),
        _ => (nanos / step, nanos % step),
    }
}

/// The next decimal digit of `rest` / `divisor`, and the rest behind it. `rest` is less than `divisor`, which is less
/// than 2^127, so the double of `rest` fits where ten times `rest` may not.
fn next_digit(rest: u128, divisor: u128) -> (u32, u128) {
    (0..10).fold((0, 0), |(digit, sum), _| match sum + rest {
        sum if sum >= divisor => (digit + 1, sum - divisor),
        sum => (digit, sum),
    })
}

/// The product as its high and its low 128 bits.
fn product(one: u128, other: u128) -> (u128, u128) {
    let (low, high) = one.carrying_mul(other, 0);
    (high, low)
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares only the amounts: `1Gi` equals `1024Mi`.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}
