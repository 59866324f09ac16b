//! Compares quantities with a slow model: a big whole number of nanos, computed without any shortcuts.

use headroom_core::amount::{Family, Quantity};
use num_bigint::{BigInt, Sign};
use proptest::prelude::*;

const SUFFIXES: [(&str, u32, i32); 16] = [
    ("", 10, 0),
    ("n", 10, -9),
    ("u", 10, -6),
    ("m", 10, -3),
    ("k", 10, 3),
    ("M", 10, 6),
    ("G", 10, 9),
    ("T", 10, 12),
    ("P", 10, 15),
    ("E", 10, 18),
    ("Ki", 2, 10),
    ("Mi", 2, 20),
    ("Gi", 2, 30),
    ("Ti", 2, 40),
    ("Pi", 2, 50),
    ("Ei", 2, 60),
];

/// A text, with its value in nanos and its family.
#[derive(Debug, Clone)]
struct Written {
    text: String,
    nanos: BigInt,
    family: Family,
}

impl Written {
    fn new(sign: &str, whole: &str, fraction: Option<&str>, suffix: &str, base: u32, exponent: i32) -> Self {
        let point = fraction.map(|fraction| format!(".{fraction}")).unwrap_or_default();
        let fraction = fraction.unwrap_or_default();
        let mut numerator = big(&format!("0{whole}{fraction}")) * big("1000000000");
        let mut denominator = BigInt::from(10).pow(fraction.len() as u32);
        let power = BigInt::from(base).pow(exponent.unsigned_abs());
        if exponent >= 0 {
            numerator *= power
        } else {
            denominator *= power
        }
        let mut nanos = ceiling(&numerator, &denominator);
        let mut family = match (base, suffix.get(..1)) {
            (2, _) => Family::BinarySi,
            (_, Some("e" | "E")) if suffix.len() > 1 => Family::DecimalExponent,
            _ => Family::DecimalSi,
        };
        if family == Family::BinarySi {
            nanos = nanos.min(BigInt::from(i64::MAX) * big("1000000000"));
            if nanos > BigInt::ZERO && nanos < big("1000000000") {
                family = Family::DecimalSi;
            }
        }
        let nanos = if sign == "-" { -nanos } else { nanos };
        Self { text: format!("{sign}{whole}{point}{suffix}"), nanos, family }
    }

    fn quantity(&self) -> Quantity {
        self.text.parse().unwrap()
    }
}

/// The canonical text; tries the suffixes one after another for the largest that divides.
fn canonical(nanos: &BigInt, family: Family) -> String {
    if *nanos == BigInt::ZERO {
        return "0".to_owned();
    }
    let unit = big("1000000000");
    let whole = nanos % &unit == BigInt::ZERO;
    let kibi = magnitude(nanos) >= &unit * BigInt::from(1024);
    if family == Family::BinarySi && whole && kibi {
        let steps = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let units = nanos / unit;
        let divides = |step: &usize| &units % BigInt::from(1024).pow(*step as u32) == BigInt::ZERO;
        let step = (0..steps.len()).rev().find(divides).unwrap();
        return format!("{}{}", units / BigInt::from(1024).pow(step as u32), steps[step]);
    }
    let most = if family == Family::DecimalExponent { 36 } else { u32::MAX };
    let divides = |step: u32| step <= most && nanos % BigInt::from(1000).pow(step) == BigInt::ZERO;
    let step = (0..).take_while(|step| divides(*step)).last().unwrap();
    let mantissa = nanos / BigInt::from(1000).pow(step);
    if family == Family::DecimalExponent {
        let exponent = 3 * step as i32 - 9;
        return if exponent == 0 { mantissa.to_string() } else { format!("{mantissa}e{exponent}") };
    }
    match ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].get(step as usize) {
        Some(suffix) => format!("{mantissa}{suffix}"),
        None => (nanos / unit).to_string(),
    }
}

fn big(digits: &str) -> BigInt {
    digits.parse().unwrap()
}

/// For numbers that are not negative.
fn ceiling(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    (numerator + denominator - 1) / denominator
}

fn away_from_zero(nanos: &BigInt, step: &BigInt) -> BigInt {
    let magnitude = BigInt::from(nanos.magnitude().clone());
    let rounded = ceiling(&magnitude, step) * step;
    if nanos.sign() == Sign::Minus { -rounded } else { rounded }
}

fn saturated(number: &BigInt) -> i64 {
    let bound = if number.sign() == Sign::Minus { i64::MIN } else { i64::MAX };
    i64::try_from(number).unwrap_or(bound)
}

fn magnitude(nanos: &BigInt) -> BigInt {
    BigInt::from(nanos.magnitude().clone())
}

fn whole_digits() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..5000_u32).prop_map(|number| number.to_string()),
        2 => any::<u64>().prop_map(|number| number.to_string()),
        2 => ((0..200_i128), prop::sample::select(vec![1_i128 << 53, 1 << 62, 1 << 63, 1 << 64, 1_000_000_000_000_000_000, 10_000_000_000_000_000_000]))
            .prop_map(|(near, edge)| (edge + near - 100).to_string()),
        1 => "0{0,3}[0-9]{1,60}",
        1 => "[1-9]{1,4}0{0,30}",
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let sign = prop::sample::select(vec!["", "", "", "+", "-"]);
    let fraction = prop_oneof![3 => Just(None), 1 => "[0-9]{1,3}".prop_map(Some), 1 => "[0-9]{0,24}".prop_map(Some)];
    let suffix = prop_oneof![
        4 => prop::sample::select(SUFFIXES.to_vec()).prop_map(|(suffix, base, exponent)| (suffix.to_owned(), base, exponent)),
        1 => (prop::sample::select(vec!["e", "E", "e+", "e0", "E-", "e-00"]), 0..=100_i32).prop_map(|(mark, size)| {
            (format!("{mark}{size}"), 10, if mark.contains('-') { -size } else { size })
        }),
    ];
    (sign, whole_digits(), fraction, suffix).prop_map(|(sign, whole, fraction, (suffix, base, exponent))| {
        Written::new(sign, &whole, fraction.as_deref(), &suffix, base, exponent)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_is_read_and_printed_as_the_model_does(written in written()) {
        let quantity = written.quantity();
        prop_assert_eq!(quantity.family(), written.family);
        prop_assert_eq!(quantity.to_string(), canonical(&written.nanos, written.family));
        for family in [Family::DecimalSi, Family::BinarySi, Family::DecimalExponent] {
            prop_assert_eq!(quantity.to_family(family).to_string(), canonical(&written.nanos, family));
        }
        prop_assert_eq!(quantity.is_zero(), written.nanos.sign() == Sign::NoSign);
        prop_assert_eq!(quantity.is_negative(), written.nanos.sign() == Sign::Minus);
        prop_assert_eq!(quantity.is_positive(), written.nanos.sign() == Sign::Plus);
    }

    #[test]
    fn printing_then_reading_is_the_identity(written in written()) {
        let quantity = written.quantity();
        let text = quantity.to_string();
        let again: Quantity = text.parse().unwrap();
        prop_assert_eq!(&again, &quantity);
        // The family may be lost: `1500000` in binary suffixes reads as decimal.
        prop_assert_eq!(again.to_family(quantity.family()).to_string(), text);
    }

    #[test]
    fn order_is_that_of_the_amounts(a in written(), b in written()) {
        let (x, y) = (a.quantity(), b.quantity());
        prop_assert_eq!(x.cmp(&y), a.nanos.cmp(&b.nanos));
        prop_assert_eq!(x == y, a.nanos == b.nanos);
        prop_assert_eq!(&x, &x.clone());
    }

    #[test]
    fn sums_and_differences_are_exact(a in written(), b in written()) {
        let (x, y) = (a.quantity(), b.quantity());
        let family = if a.nanos == BigInt::ZERO { b.family } else { a.family };
        prop_assert_eq!(x.plus(&y).to_string(), canonical(&(&a.nanos + &b.nanos), family));
        prop_assert_eq!(x.minus(&y).to_string(), canonical(&(&a.nanos - &b.nanos), family));
        // Equal amounts have one form, however they were computed.
        prop_assert_eq!(x.plus(&y).minus(&y), x);
    }

    #[test]
    fn multiples_and_roundings_are_exact(
        a in written(),
        step in written(),
        num in prop_oneof![0..500_u64, any::<u64>()],
        den in prop_oneof![1..500_u64, 1..=u64::MAX],
    ) {
        let quantity = a.quantity();
        let check = |found: Quantity, expected: BigInt| prop_assert_eq_text(found, canonical(&expected, a.family));
        check(quantity.times_count(num), &a.nanos * num)?;
        check(quantity.rounded_up_to_units(), away_from_zero(&a.nanos, &big("1000000000")))?;
        check(quantity.rounded_up_to_milli(), away_from_zero(&a.nanos, &big("1000000")))?;
        let scaled = ceiling(&(magnitude(&a.nanos) * num), &BigInt::from(den));
        check(quantity.scaled(num, den), if quantity.is_negative() { -scaled } else { scaled })?;
        let stepped = if step.nanos == BigInt::ZERO { a.nanos.clone() } else { away_from_zero(&a.nanos, &magnitude(&step.nanos)) };
        check(quantity.rounded_up_to_multiple_of(&step.quantity()), stepped)?;
        prop_assert_eq!(quantity.value(), saturated(&(away_from_zero(&a.nanos, &big("1000000000")) / big("1000000000"))));
        prop_assert_eq!(quantity.milli_value(), saturated(&(away_from_zero(&a.nanos, &big("1000000")) / big("1000000"))));
    }

    #[test]
    fn ratios_are_compared_and_printed_exactly(limit in written(), request in written(), ratio in written()) {
        let [limit_nanos, request_nanos, ratio_nanos] = [&limit, &request, &ratio].map(|written| magnitude(&written.nanos));
        let (limit, request, ratio) = (limit.quantity(), request.quantity(), ratio.quantity());
        let exceeds = &limit_nanos * big("1000000000") > &request_nanos * ratio_nanos;
        prop_assert_eq!(Quantity::exceeds_ratio(&limit, &request, &ratio), exceeds);
        // A ratio is never above itself, and always above anything less.
        let tight = limit.scaled(1, 1);
        prop_assert!(!Quantity::exceeds_ratio(&tight, &Quantity::from_units(1), &limit));

        let text = Quantity::ratio_text(&limit, &request);
        if request.is_zero() {
            prop_assert_eq!(text, "+Inf");
            return Ok(());
        }
        let scaled = limit_nanos * 1_000_000;
        let (quotient, rest) = (&scaled / &request_nanos, (&scaled % &request_nanos) * 2);
        let odd = &quotient % 2 == BigInt::from(1);
        let up = rest > request_nanos || (rest == request_nanos && odd);
        let millionths: BigInt = if up { quotient + 1 } else { quotient };
        let sign = if millionths > BigInt::ZERO && limit.is_negative() != request.is_negative() { "-" } else { "" };
        let million = BigInt::from(1_000_000);
        let fraction: BigInt = &millionths % &million;
        let expected = format!("{sign}{}.{:0>6}", millionths / million, fraction.to_string());
        prop_assert_eq!(text, expected);
    }

    #[test]
    fn constructors_agree_with_text(number in any::<i64>(), bytes in any::<u64>()) {
        prop_assert_eq!(Quantity::from_units(number), number.to_string().parse().unwrap());
        prop_assert_eq!(Quantity::from_milli(number), format!("{number}m").parse().unwrap());
        prop_assert_eq!(Quantity::from_bytes(bytes), bytes.to_string().parse().unwrap());
    }

    #[test]
    fn no_text_panics_or_grows_without_bound(text in prop_oneof![
        any::<String>(),
        "[-+]?[0-9.]{0,30}[eEinumkKMGTPb ]{0,3}[-+]?[0-9]{0,12}",
        "[-+]?[0-9]{0,220}\\.?[0-9]{0,120}(e[-+]?1?[0-9]{1,2})?",
    ]) {
        match Quantity::from_json_text(&text) {
            Ok(quantity) => {
                prop_assert!(quantity.to_string().len() <= 320);
                let large = quantity.times_count(u64::MAX).plus(&quantity);
                prop_assert!(Quantity::ratio_text(&large, &quantity).len() <= 320);
            }
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with('`') && !message.ends_with('.'), "{}", message);
                prop_assert!(!message.chars().any(char::is_control), "{}", message);
                prop_assert!(message.chars().count() <= 256, "{}", message);
            }
        }
    }
}

fn prop_assert_eq_text(found: Quantity, expected: String) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.to_string(), expected);
    Ok(())
}
