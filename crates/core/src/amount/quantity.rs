//! An exact amount of a resource, and the family of suffixes it prints with.
//!
//! Mirrors [Kubernetes' quantity](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/):
//! decimals down to a billionth (smaller parts round away from zero), compared by amount alone, added exactly.
//!
//! It differs from Kubernetes in quirks that authors do not intend:
//! - a text without a digit (`m`, `-`, `.`) is refused, not zero;
//! - exponents outside ±100 are refused, not truncated or expanded, and so are texts of more than 200 bytes;
//! - it always prints canonically, where Kubernetes may echo `+1` or `1.500` as written;
//! - decimal multiples of 10^21 print their digits, where Kubernetes drops the zeros;
//! - the 64-bit accessors saturate, where Kubernetes wraps.
//!
//! Reading a printed amount gives the same amount, with two exceptions for huge ones. As in Kubernetes, amounts with
//! binary suffixes are capped at 2^63-1 when read, while sums of them may be larger. And an amount above 10^180 may
//! print as a text that is too long to be read.

mod natural;
mod number;
mod parse;
mod parse_error;
mod print;

use std::cmp::Ordering;
use std::fmt;

use number::{NANOS_PER_MILLI, NANOS_PER_UNIT, Number};

pub use parse_error::ParseQuantityError;

/// The suffixes a quantity prints with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `n` `u` `m`, none, `k` `M` `G` `T` `P` `E`
    DecimalSi,
    /// `Ki` `Mi` `Gi` `Ti` `Pi` `Ei`; decimal below 1024 and for parts of a byte
    BinarySi,
    /// `e3`, `e6`, …
    DecimalExponent,
}

/// An exact amount in billionths of a unit; the family only affects printing.
#[derive(Clone)]
pub struct Quantity {
    number: Number,
    family: Family,
}

impl Quantity {
    pub const ZERO: Self = Self::from_units(0);

    /// Whole units, in decimal suffixes.
    pub const fn from_units(units: i64) -> Self {
        Self { number: Number::from_units(units), family: Family::DecimalSi }
    }

    /// Thousandths, in decimal suffixes.
    pub const fn from_milli(milli: i64) -> Self {
        Self { number: Number::from_milli(milli), family: Family::DecimalSi }
    }

    /// Bytes, in binary suffixes.
    pub fn from_bytes(bytes: u64) -> Self {
        Self { number: Number::from_unsigned(bytes), family: Family::BinarySi }
    }

    /// Reads the text of a JSON string or number, and ignores blanks around it.
    pub fn from_json_text(text: &str) -> Result<Self, ParseQuantityError> {
        match text.parse() {
            // Tried second because blanks are rare and trimming is not free.
            Err(_) if text.trim().len() < text.len() => text.trim().parse(),
            outcome => outcome,
        }
    }

    pub fn family(&self) -> Family {
        self.family
    }

    pub fn is_zero(&self) -> bool {
        self.number.is_zero()
    }

    pub fn is_negative(&self) -> bool {
        self.number.is_negative()
    }

    pub fn is_positive(&self) -> bool {
        !self.is_negative() && !self.is_zero()
    }

    /// Whole units, rounded away from zero; saturates at 64 bits.
    pub fn value(&self) -> i64 {
        self.number.value()
    }

    /// Thousandths, rounded away from zero; saturates at 64 bits.
    pub fn milli_value(&self) -> i64 {
        self.number.milli_value()
    }

    /// Rounded away from zero to whole units.
    pub fn rounded_up_to_units(&self) -> Self {
        self.with(self.number.rounded_up_to_nanos(NANOS_PER_UNIT))
    }

    /// Rounded away from zero to thousandths, as the API server does with every amount it stores.
    pub fn rounded_up_to_milli(&self) -> Self {
        self.with(self.number.rounded_up_to_nanos(NANOS_PER_MILLI))
    }

    /// Rounded away from zero to a multiple of `step`; unchanged for a zero step.
    pub fn rounded_up_to_multiple_of(&self, step: &Self) -> Self {
        self.with(self.number.rounded_up_to_multiple_of(&step.number))
    }

    /// The sum, in this family, or in the other's if this is zero.
    pub fn plus(&self, other: &Self) -> Self {
        Self { number: self.number.plus(&other.number), family: self.family_with(other) }
    }

    /// The difference, in this family, or in the other's if this is zero.
    pub fn minus(&self, other: &Self) -> Self {
        Self { number: self.number.minus(&other.number), family: self.family_with(other) }
    }

    pub fn times_count(&self, count: u64) -> Self {
        self.with(self.number.times_count(count))
    }

    /// This x `num` / `den`, away from zero to a billionth; a zero `den` counts as one.
    pub fn scaled(&self, num: u64, den: u64) -> Self {
        self.with(self.number.scaled(num, den))
    }

    /// Whether |limit| > |request| x |ratio|, exactly.
    pub fn exceeds_ratio(limit: &Self, request: &Self, ratio: &Self) -> bool {
        Number::cmp_to_product(&limit.number, &request.number, &ratio.number).is_gt()
    }

    /// Whether |limit| < |request| x |ratio|, exactly.
    pub fn falls_short_of_ratio(limit: &Self, request: &Self, ratio: &Self) -> bool {
        Number::cmp_to_product(&limit.number, &request.number, &ratio.number).is_lt()
    }

    /// limit / request to six decimals, half to even; `+Inf` for a zero request.
    pub fn ratio_text(limit: &Self, request: &Self) -> String {
        let Some(millionths) = Number::ratio_in_millionths(&limit.number, &request.number) else {
            return "+Inf".to_owned();
        };
        let digits = format!("{:0>7}", millionths.digits());
        let (whole, fraction) = digits.split_at(digits.len() - 6);
        let negative = limit.is_negative() != request.is_negative() && !millionths.is_zero();
        format!("{}{whole}.{fraction}", if negative { "-" } else { "" })
    }

    /// The same amount in other suffixes.
    pub fn to_family(&self, family: Family) -> Self {
        Self { number: self.number.clone(), family }
    }

    fn with(&self, number: Number) -> Self {
        Self { number, family: self.family }
    }

    fn family_with(&self, other: &Self) -> Family {
        if self.is_zero() { other.family } else { self.family }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
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
        self.number == other.number
    }
}

impl Eq for Quantity {}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}
