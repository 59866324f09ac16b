//! Encoding of words and amounts in the lines of a ledger.
//!
//! Ledgers store lists of strings instead of nested objects: the API server then tracks no field ownership for each
//! entry, and writes them in less than half the time.

use std::borrow::Cow;
use std::fmt::{self, Write};

use headroom_admission::amount::{Family, Quantity, ResourceList};

/// The message about a line that cannot be read.
pub fn unreadable(line: &str, problem: &str) -> String {
    format!("cannot read `{}`: {problem}", headroom_admission::truncate::on_one_line(line, 120))
}

/// A name as one word. Bytes that could separate words are written like `%20`.
pub fn escape(name: &str) -> Cow<'_, str> {
    if name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut word = String::with_capacity(name.len());
    for byte in name.bytes() {
        if is_plain(byte) {
            word.push(byte.into());
        } else {
            // Writing to a String cannot fail.
            _ = write!(word, "%{byte:02X}");
        }
    }
    Cow::Owned(word)
}

/// The length of what [`escape`] makes of a name, without making it.
pub fn escaped_length(name: &str) -> usize {
    name.bytes().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum()
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/')
}

pub fn unescape(word: &str) -> Result<String, String> {
    if !word.contains('%') {
        return Ok(word.to_owned());
    }
    let broken = || unreadable(word, "expected `%` and two hexadecimal digits");
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(broken()) };
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| broken())?);
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

/// The largest amount that an object or a bound may have, 1e20: far more than any cluster has, and so little that the
/// sum over a billion objects can be read back.
pub fn max_amount() -> Quantity {
    Quantity::from_units(10_000_000_000).times_count(10_000_000_000)
}

pub fn capped(amount: Quantity) -> Quantity {
    if is_small(&amount) {
        return amount;
    }
    amount.clamp(Quantity::ZERO.minus(&max_amount()), max_amount())
}

/// Returns true if [`capped`] may have lowered this amount.
pub fn is_capped(amount: &Quantity) -> bool {
    !is_small(amount) && *amount >= max_amount()
}

/// Returns true if the amount is below 2^63, which every family of suffixes can express.
fn is_small(amount: &Quantity) -> bool {
    amount.value().unsigned_abs() < i64::MAX.unsigned_abs()
}

/// `pods=412 requests.cpu=61200m`
pub fn write_amounts(f: &mut impl Write, amounts: &ResourceList<'_>) -> fmt::Result {
    for (index, (name, amount)) in amounts.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        match is_small(amount) {
            true => write!(f, "{space}{}={amount}", escape(name))?,
            // Amounts with a binary suffix are read as 2^63-1 at most.
            false => write!(f, "{space}{}={}", escape(name), amount.to_family(Family::DecimalSi))?,
        }
    }
    Ok(())
}

pub fn line_of_amounts(amounts: &ResourceList<'_>) -> String {
    let mut line = String::new();
    // Writing to a String cannot fail.
    _ = write_amounts(&mut line, amounts);
    line
}

/// The length of a text; none if it is longer than `max`. A longer text is not made.
pub fn length(text: &impl fmt::Display, max: usize) -> Option<usize> {
    struct Room(usize);

    impl Write for Room {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 = self.0.checked_sub(part.len()).ok_or(fmt::Error)?;
            Ok(())
        }
    }

    let mut room = Room(max);
    write!(room, "{text}").ok()?;
    max.checked_sub(room.0)
}

/// Reads one word of such a line.
pub fn read_amount(word: &str) -> Result<(String, Quantity), String> {
    let (name, amount) = word.split_once('=').ok_or_else(|| unreadable(word, "expected `name=amount`"))?;
    let amount = amount.parse().map_err(|_| unreadable(word, "expected a quantity such as `500m`"))?;
    Ok((unescape(name)?, amount))
}

pub fn read_amounts(line: &str) -> Result<ResourceList<'static>, String> {
    line.split_whitespace().map(|word| read_amount(word).map(|(name, amount)| (name.into(), amount))).collect()
}

pub fn read_number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| unreadable(word, "expected a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_name_becomes_one_word_and_can_be_read_back(name in ".*") {
            let word = escape(&name);
            prop_assert!(!word.contains([' ', '=', ':', ',', '~', '\n']));
            prop_assert_eq!(escaped_length(&name), word.len());
            prop_assert_eq!(unescape(&word).unwrap(), name);
        }
    }
}
