//! Prints quantities canonically: without fraction, and with the largest suffix that leaves a whole number.

use std::fmt;

use super::{Family, MAX_UNITS, NANOS_PER_MILLI, NANOS_PER_UNIT, Quantity};

/// By powers of 1000, from nanos up.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const EXPONENTS: [&str; 13] = ["e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18", "e21", "e24", "e27"];
/// By powers of 1024, from single units up.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The place of single units in the decimal tables.
const UNITS: usize = 3;
const KIBI: u128 = 1024;

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_out_of_range() {
            if let Family::Beyond { mantissa, exponent } = self.family {
                return f.pad(&format!("{mantissa}e{exponent}"));
            }
            let direction = if self.is_negative() { "<-" } else { ">" };
            return f.pad(&format!("{direction}{MAX_UNITS}"));
        }
        let mut text = Text::new();
        let (units, nanos) = split(self.nanos.unsigned_abs());
        fill(&mut text, units, nanos, self.family);
        if self.is_negative() {
            text.prepend(b'-');
        }
        f.pad(text.as_str())
    }
}

/// Whole units and the nanos beyond them.
fn split(magnitude: u128) -> (u128, u32) {
    const UNIT: u64 = NANOS_PER_UNIT as u64;
    match u64::try_from(magnitude) {
        // Much cheaper in WebAssembly, which has no division of 128 bits.
        Ok(small) => ((small / UNIT).into(), (small % UNIT) as u32),
        // OK because the remainder is below 10^9.
        Err(_) => (magnitude / u128::from(UNIT), (magnitude % u128::from(UNIT)) as u32),
    }
}

/// Writes a magnitude, last character first.
fn fill(text: &mut Text, units: u128, nanos: u32, family: Family) {
    const PER_MILLI: u32 = NANOS_PER_MILLI as u32;
    if nanos > 0 {
        let (step, width, fraction) = match nanos {
            _ if nanos.is_multiple_of(PER_MILLI) => (2, 3, nanos / PER_MILLI),
            _ if nanos.is_multiple_of(1000) => (1, 6, nanos / 1000),
            _ => (0, 9, nanos),
        };
        text.prepend_text(decimal_suffix(step, family).unwrap_or_default());
        if units == 0 {
            text.prepend_number(fraction.into(), 1);
        } else {
            text.prepend_number(fraction.into(), width);
            text.prepend_number(units, 1);
        }
    } else if units == 0 {
        text.prepend(b'0');
    } else if family == Family::BinarySi && units >= KIBI {
        let step = (units.trailing_zeros() / 10).min(6);
        text.prepend_text(BINARY_SUFFIXES.get(step as usize).copied().unwrap_or_default());
        text.prepend_number(units >> (10 * step), 1);
    } else {
        let (mantissa, thousands) = without_thousands(units);
        match decimal_suffix(UNITS + thousands, family) {
            Some(suffix) => {
                text.prepend_text(suffix);
                text.prepend_number(mantissa, 1);
            }
            // Beyond the last suffix only the digits are unambiguous.
            None => text.prepend_number(units, 1),
        }
    }
}

/// A number other than zero without its factors of a thousand, and how many there are.
fn without_thousands(mut number: u128) -> (u128, usize) {
    let mut thousands = 0;
    while number > u64::MAX.into() && number.is_multiple_of(1000) {
        number /= 1000;
        thousands += 1;
    }
    let Ok(mut small) = u64::try_from(number) else { return (number, thousands) };
    while small.is_multiple_of(1000) {
        small /= 1000;
        thousands += 1;
    }
    (small.into(), thousands)
}

fn decimal_suffix(step: usize, family: Family) -> Option<&'static str> {
    let suffixes: &[&str] = match family {
        Family::DecimalExponent | Family::Beyond { .. } => &EXPONENTS,
        // Binary suffixes cannot express a part of a byte, nor anything below 1Ki.
        Family::DecimalSi | Family::BinarySi => &DECIMAL_SUFFIXES,
    };
    suffixes.get(step).copied()
}

/// A short text that grows to the left, so that printing allocates nothing.
struct Text {
    bytes: [u8; Self::ROOM],
    free: usize,
}

impl Text {
    /// A sign, 30 digits of units, 9 of nanos and `e-9`.
    const ROOM: usize = 43;

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
    fn prepend_number(&mut self, mut number: u128, width: usize) {
        /// So that the digits are divided in 64 bits.
        const AT_ONCE: u128 = 1_000_000_000_000_000_000;
        while number > AT_ONCE {
            self.prepend_small((number % AT_ONCE) as u64, 18);
            number /= AT_ONCE;
        }
        self.prepend_small(number as u64, width);
    }

    fn prepend_small(&mut self, mut number: u64, width: usize) {
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
