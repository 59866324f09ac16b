//! Compares quantities with exact big rationals: up to three texts, one per line, are parsed, compared and printed.
//! Amounts beyond the largest must be refused as texts, and out of range as results.

#![no_main]

use headroom_core::amount::{Family, Quantity};
use libfuzzer_sys::fuzz_target;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut amounts = Vec::new();
    for line in text.split('\n').take(3) {
        let (read, model) = (line.parse::<Quantity>(), model(line));
        assert_eq!(read.is_ok(), model.is_some(), "{line}: {read:?}");
        match (read, model) {
            (Ok(quantity), Some((nanos, family))) => {
                assert_eq!(quantity.family(), family, "{line}");
                amounts.push((quantity, nanos));
            }
            (Err(error), _) => {
                let message = error.to_string();
                assert!(message.chars().count() <= 256 && !message.contains(char::is_control), "{message}");
            }
            _ => {}
        }
    }
    let Some((first, _)) = amounts.first() else { return };
    for (quantity, nanos) in &amounts {
        check_alone(quantity, nanos);
        check_together((quantity, nanos), &amounts[0]);
    }
    if let [(limit, a), (request, b), (ratio, c)] = &amounts[..] {
        let product = b.abs() * c.abs();
        let limit_in_square = a.abs() * nanos_per_unit();
        assert_eq!(Quantity::exceeds_ratio(limit, request, ratio), limit_in_square > product);
        assert_eq!(Quantity::falls_short_of_ratio(limit, request, ratio), limit_in_square < product);
    }
    assert_eq!(first, &first.clone());
});

fn check_alone(quantity: &Quantity, nanos: &BigInt) {
    is(quantity, nanos);
    for family in [Family::DecimalSi, Family::BinarySi, Family::DecimalExponent] {
        is(&quantity.to_family(family), nanos);
    }
    assert_eq!((quantity.is_zero(), quantity.is_negative()), (nanos.is_zero(), nanos.is_negative()));
    is(&quantity.rounded_up_to_milli(), &away_from_zero(nanos, &BigInt::from(1_000_000)));
    is(&quantity.rounded_up_to_units(), &away_from_zero(nanos, &nanos_per_unit()));
    for count in [0, 3, u64::MAX] {
        is(&quantity.times_count(count), &(nanos * count));
        let scaled = away_from_zero(&(nanos * count), &BigInt::from(7)) / 7;
        is(&quantity.scaled(count, 7), &scaled);
    }
    let units = away_from_zero(nanos, &nanos_per_unit()) / nanos_per_unit();
    let bound = if nanos.is_negative() { i64::MIN } else { i64::MAX };
    assert_eq!(quantity.value(), i64::try_from(units).unwrap_or(bound));
}

fn check_together((one, a): (&Quantity, &BigInt), (other, b): &(Quantity, BigInt)) {
    assert_eq!(one.cmp(other), a.cmp(b));
    is(&one.plus(other), &(a + b));
    is(&one.minus(other), &(a - b));
    is(&other.minus(one), &(b - a));
    let multiple = if b.is_zero() { a.clone() } else { away_from_zero(a, &b.abs()) };
    is(&one.rounded_up_to_multiple_of(other), &multiple);
    let text = Quantity::ratio_text(one, other);
    if b.is_zero() {
        assert_eq!(text, "+Inf");
        return;
    }
    // To six decimals, half to even.
    let millionths: BigInt = text.replace('.', "").parse().expect("a number with six decimals");
    let rest: BigInt = (&millionths * b - a * BigInt::from(1_000_000)).abs() * 2;
    let is_even = (&millionths % 2_u32).is_zero();
    assert!(rest < b.abs() || (rest == b.abs() && is_even), "{one} / {other} is printed as {text}");
}

/// The largest amount is a whole number of units.
fn is_in_range(nanos: &BigInt) -> bool {
    nanos.abs() <= BigInt::from(i128::MAX) / nanos_per_unit() * nanos_per_unit()
}

/// Checks that a quantity prints as exactly this many nanos, or is out of range in their direction.
fn is(quantity: &Quantity, nanos: &BigInt) {
    assert_eq!(quantity.is_out_of_range(), !is_in_range(nanos), "{quantity}");
    if quantity.is_out_of_range() {
        assert_eq!(quantity.is_negative(), nanos.is_negative(), "{quantity}");
        return;
    }
    let text = quantity.to_string();
    let (printed, _) = exact(&text).unwrap_or_else(|| panic!("`{text}` cannot be read"));
    assert_eq!(printed * nanos_per_unit(), BigRational::from(nanos.clone()), "{text}");
}

/// The expected value of a text in billionths, rounded away from zero, and its family.
fn model(text: &str) -> Option<(BigInt, Family)> {
    if text.len() > 200 {
        return None;
    }
    let (amount, family) = exact(text)?;
    let nanos = away_from_zero_to_whole(&(amount * nanos_per_unit()));
    if family != Family::BinarySi {
        return is_in_range(&nanos).then_some((nanos, family));
    }
    let most = BigInt::from(i64::MAX) * nanos_per_unit();
    let capped = nanos.clamp(-&most, most);
    let is_part_of_a_byte = !capped.is_zero() && capped.abs() < nanos_per_unit();
    Some((capped, if is_part_of_a_byte { Family::DecimalSi } else { Family::BinarySi }))
}

/// The exact amount of a text; only its exponent is bounded.
fn exact(text: &str) -> Option<(BigRational, Family)> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // A second point belongs to no suffix.
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (unit, family) = unit(suffix)?;
    let digits: BigInt = format!("{whole}{fraction}").parse().ok()?;
    let amount = BigRational::new(digits, power(10, fraction.len())) * unit;
    Some((if negative { -amount } else { amount }, family))
}

fn unit(suffix: &str) -> Option<(BigRational, Family)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(step) = BINARY.iter().position(|known| *known == suffix) {
        return Some((power(1024, step + 1).into(), Family::BinarySi));
    }
    if let Some(step) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((BigRational::new(power(1000, step), power(1000, 3)), Family::DecimalSi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let (negative, digits) = match exponent.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size: usize = format!("0{digits}").parse().ok()?;
    if size > 100 {
        return None;
    }
    let scale: BigRational = power(10, size).into();
    Some((if negative { scale.recip() } else { scale }, Family::DecimalExponent))
}

fn power(base: u32, exponent: usize) -> BigInt {
    (0..exponent).fold(BigInt::one(), |power, _| power * base)
}

fn nanos_per_unit() -> BigInt {
    power(10, 9)
}

fn away_from_zero_to_whole(amount: &BigRational) -> BigInt {
    if amount.is_negative() { amount.floor().to_integer() } else { amount.ceil().to_integer() }
}

fn away_from_zero(number: &BigInt, step: &BigInt) -> BigInt {
    away_from_zero_to_whole(&BigRational::new(number.clone(), step.clone())) * step
}
