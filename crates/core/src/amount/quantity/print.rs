//! Prints quantities canonically: without fraction, and with the largest suffix that leaves a whole number.

use std::borrow::Cow;
use std::fmt;

use super::natural::Natural;
use super::number::NANOS_PER_MILLI;
use super::parse_error::MAX_EXPONENT;
use super::{Family, Quantity};

/// By powers of 1000, from nanos up.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const EXPONENTS: [&str; 10] = ["e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"];
/// By powers of 1024, from single units up.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The place of single units in the decimal tables.
const UNITS: usize = 3;
/// The last step whose exponent can be parsed.
const MAX_EXPONENT_STEP: usize = UNITS + MAX_EXPONENT.unsigned_abs() as usize / 3;
/// The least number of bytes for Ki.
const KIBI: u64 = 1024;

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number.small_magnitude() {
            Some((units, nanos)) => {
                let mut text = Text::new();
                fill_small(&mut text, units, nanos, self.family);
                if self.is_negative() {
                    text.prepend(b'-');
                }
                f.pad(text.as_str())
            }
            None => {
                let sign = if self.is_negative() { "-" } else { "" };
                f.pad(&format!("{sign}{}", large_text(&self.number.nanos(), self.family)))
            }
        }
    }
}

/// Writes the magnitude, last character first.
fn fill_small(text: &mut Text, mut units: u64, nanos: u32, family: Family) {
    if nanos > 0 {
        let (step, width, fraction) = match nanos {
            _ if nanos.is_multiple_of(NANOS_PER_MILLI) => (2, 3, nanos / NANOS_PER_MILLI),
            _ if nanos.is_multiple_of(1000) => (1, 6, nanos / 1000),
            _ => (0, 9, nanos),
        };
        text.prepend_text(decimal_suffix(step, family));
        if units == 0 {
            text.prepend_number(u64::from(fraction), 1);
        } else {
            text.prepend_number(u64::from(fraction), width);
            text.prepend_number(units, 1);
        }
    } else if units == 0 {
        text.prepend(b'0');
    } else if family == Family::BinarySi && units >= KIBI {
        let step = (units.trailing_zeros() / 10).min(6);
        text.prepend_text(BINARY_SUFFIXES.get(step as usize).copied().unwrap_or_default());
        text.prepend_number(units >> (10 * step), 1);
    } else {
        let mut step = UNITS;
        while units.is_multiple_of(1000) {
            units /= 1000;
            step += 1;
        }
        text.prepend_text(decimal_suffix(step, family));
        text.prepend_number(units, 1);
    }
}

/// The magnitude of a number beyond 2^63.
fn large_text(nanos: &Natural, family: Family) -> String {
    if family == Family::BinarySi && nanos.nanos() == 0 {
        return large_binary_text(nanos);
    }
    let digits = nanos.digits();
    let significant = digits.trim_end_matches('0');
    // Steps of three digits that are all zero.
    let mut step = (digits.len() - significant.len()) / 3;
    let suffix = match suffix_table(family).get(step) {
        Some(suffix) => Cow::Borrowed(*suffix),
        None if family == Family::DecimalExponent => {
            step = step.min(MAX_EXPONENT_STEP);
            Cow::Owned(format!("e{}", 3 * (step - UNITS)))
        }
        // Beyond the last suffix only the digits are unambiguous.
        None => {
            step = UNITS;
            Cow::Borrowed("")
        }
    };
    let mantissa = digits.get(..digits.len() - 3 * step).unwrap_or_default();
    [mantissa, &suffix].concat()
}

/// The magnitude in bytes, of a number without nanos.
fn large_binary_text(nanos: &Natural) -> String {
    let mut units = nanos.clone().divided_up_by_power_of_ten(9);
    let mut text_suffix = "";
    for suffix in BINARY_SUFFIXES.iter().skip(1) {
        let mut quotient = units.clone();
        if quotient.divide_by_limb(KIBI as u32) > 0 {
            break;
        }
        units = quotient;
        text_suffix = suffix;
    }
    [&units.digits(), text_suffix].concat()
}

fn decimal_suffix(step: usize, family: Family) -> &'static str {
    suffix_table(family).get(step).copied().unwrap_or_default()
}

fn suffix_table(family: Family) -> &'static [&'static str; 10] {
    match family {
        Family::DecimalExponent => &EXPONENTS,
        // Binary suffixes cannot express a part of a byte, nor anything below 1Ki.
        Family::DecimalSi | Family::BinarySi => &DECIMAL_SUFFIXES,
    }
}

/// A short text that grows to the left, so that printing allocates nothing.
struct Text {
    bytes: [u8; Self::ROOM],
    free: usize,
}

impl Text {
    /// A sign, 19 digits of units, 9 of nanos and `e-9`.
    const ROOM: usize = 32;

    fn new() -> Self {
        Self { bytes: [0; Self::ROOM], free: Self::ROOM }
    }

    fn prepend(&mut self, byte: u8) {
        self.free = self.free.saturating_sub(1);
        if let Some(place) = self.bytes.get_mut(self.free) {
            *place = byte;
        }
    }

    fn prepend_text(&mut self, text: &str) {
        for byte in text.bytes().rev() {
            self.prepend(byte);
        }
    }

    /// The number, with leading zeros up to `width` digits.
    fn prepend_number(&mut self, mut number: u64, width: usize) {
        let mut written = 0;
        while number > 0 || written < width {
            // OK because the remainder is one digit.
            self.prepend(b'0' + (number % 10) as u8);
            number /= 10;
            written += 1;
        }
    }

    fn as_str(&self) -> &str {
        let written = self.bytes.get(self.free..).unwrap_or_default();
        // OK because only ASCII was written.
        str::from_utf8(written).unwrap_or_default()
    }
}
