//! Compares quantities with a slow model: a big whole number of nanos, computed without any shortcuts. What the model
//! finds beyond the largest amount must be refused in a text, and out of range as a result.

use headroom_admission::amount::{Family, Quantity};
use num_bigint::{BigInt, Sign};
use proptest::prelude::*;

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// A text with its exact amount in nanos, rounded away from zero, and its family.
#[derive(Debug, Clone)]
struct Written {
    text: String,
    nanos: BigInt,
    family: Family,
}

impl Written {
    /// None for a text that is not a quantity, whatever its amount.
    fn of(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // A second point belongs to no suffix.
        if text.len() > 200 || fraction.contains('.') || number.trim_matches('.').is_empty() {
            return None;
        }
        let (base, exponent, mut family) = unit(suffix)?;
        let power = BigInt::from(base).pow(exponent.unsigned_abs());
        let one = BigInt::from(1);
        let (times, divided) = if exponent >= 0 { (power, one) } else { (one, power) };
        let numerator = big(&format!("0{whole}{fraction}")) * big("1000000000") * times;
        let mut nanos = ceiling(&numerator, &(BigInt::from(10).pow(fraction.len() as u32) * divided));
        if family == Family::BinarySi {
            nanos = nanos.min(BigInt::from(i64::MAX) * big("1000000000"));
            if nanos > BigInt::ZERO && nanos < big("1000000000") {
                family = Family::DecimalSi;
            }
        }
        let nanos = if text.starts_with('-') { -nanos } else { nanos };
        Some(Self { text: text.to_owned(), nanos, family })
    }

    /// The quantity of the text; none if the text is refused because its amount is too large.
    fn quantity(&self) -> Option<Quantity> {
        let read = self.text.parse::<Quantity>();
        assert_eq!(read.is_ok(), is_in_range(&self.nanos), "{read:?}");
        read.ok()
    }
}

/// The base, the exponent and the family of a suffix.
fn unit(suffix: &str) -> Option<(u32, i32, Family)> {
    if let Some(step) = BINARY.iter().position(|known| *known == suffix) {
        return Some((1024, step as i32 + 1, Family::BinarySi));
    }
    if let Some(step) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((1000, step as i32 - 3, Family::DecimalSi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = match digits.trim_start_matches('0') {
        "" => 0,
        significant => significant.parse::<i32>().ok().filter(|size| *size <= 100)?,
    };
    Some((10, if exponent.starts_with('-') { -size } else { size }, Family::DecimalExponent))
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
        let units = nanos / unit;
        let divides = |step: &usize| &units % BigInt::from(1024).pow(*step as u32) == BigInt::ZERO;
        let step = (0..=BINARY.len()).rev().find(divides).unwrap();
        let suffix = if step > 0 { BINARY[step - 1] } else { "" };
        return format!("{}{suffix}", units / BigInt::from(1024).pow(step as u32));
    }
    let divides = |step: u32| nanos % BigInt::from(1000).pow(step) == BigInt::ZERO;
    let step = (0..).take_while(|step| divides(*step)).last().unwrap();
    let mantissa = nanos / BigInt::from(1000).pow(step);
    if family == Family::DecimalExponent {
        let exponent = 3 * step as i32 - 9;
        return if exponent == 0 { mantissa.to_string() } else { format!("{mantissa}e{exponent}") };
    }
    match DECIMAL.get(step as usize) {
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
    let rounded = ceiling(&magnitude(nanos), step) * step;
    if nanos.sign() == Sign::Minus { -rounded } else { rounded }
}

fn saturated(number: &BigInt) -> i64 {
    let bound = if number.sign() == Sign::Minus { i64::MIN } else { i64::MAX };
    i64::try_from(number).unwrap_or(bound)
}

/// The largest amount is a whole number of units.
fn is_in_range(nanos: &BigInt) -> bool {
    magnitude(nanos) <= BigInt::from(i128::MAX) / big("1000000000") * big("1000000000")
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
        1 => "0{0,80}[0-9]{1,32}",
        1 => "[1-9]{1,4}0{0,30}",
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let sign = prop::sample::select(vec!["", "", "", "+", "-"]);
    let fraction = prop_oneof![3 => Just(None), 1 => "[0-9]{1,3}".prop_map(Some), 1 => "[0-9]{0,24}".prop_map(Some)];
    let suffix = prop_oneof![
        4 => prop::sample::select([&BINARY[..], &DECIMAL].concat()).prop_map(str::to_owned),
        1 => (prop::sample::select(vec!["e", "E", "e+", "e0", "E-", "e-00"]), prop_oneof![4 => 0..=20_i32, 1 => 0..=100])
            .prop_map(|(mark, size)| format!("{mark}{size}")),
    ];
    (sign, whole_digits(), fraction, suffix).prop_map(|(sign, whole, fraction, suffix)| {
        let point = fraction.map(|fraction| format!(".{fraction}")).unwrap_or_default();
        Written::of(&format!("{sign}{whole}{point}{suffix}")).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quantities_are_read_printed_compared_and_computed_as_the_model_does(
        texts in [written(), written(), written()],
        num in prop_oneof![0..500_u64, any::<u64>()],
        den in prop_oneof![1..500_u64, 1..=u64::MAX],
    ) {
        let quantities: Vec<Quantity> = texts.iter().filter_map(Written::quantity).collect();
        let (Ok([x, y, z]), [a, b, c]) = (<[Quantity; 3]>::try_from(quantities), &texts) else { return Ok(()) };

        for (quantity, Written { nanos, family, .. }) in [(&x, a), (&y, b), (&z, c)] {
            prop_assert_eq!(quantity.family(), *family);
            prop_assert_eq!(quantity.is_zero(), nanos.sign() == Sign::NoSign);
            prop_assert_eq!(quantity.is_negative(), nanos.sign() == Sign::Minus);
            prop_assert_eq!(quantity.is_positive(), nanos.sign() == Sign::Plus);
            for family in [*family, Family::DecimalSi, Family::BinarySi, Family::DecimalExponent] {
                prop_assert_eq!(quantity.to_family(family).to_string(), canonical(nanos, family));
            }
        }
        prop_assert_eq!(x.cmp(&y), a.nanos.cmp(&b.nanos));
        prop_assert_eq!(x == y, a.nanos == b.nanos);

        let family = if a.nanos == BigInt::ZERO { b.family } else { a.family };
        check(&x.plus(&y), &(&a.nanos + &b.nanos), family)?;
        check(&x.minus(&y), &(&a.nanos - &b.nanos), family)?;
        let family = a.family;
        check(&x.times_count(num), &(&a.nanos * num), family)?;
        check(&x.rounded_up_to_units(), &away_from_zero(&a.nanos, &big("1000000000")), family)?;
        check(&x.rounded_up_to_milli(), &away_from_zero(&a.nanos, &big("1000000")), family)?;
        let scaled = ceiling(&(magnitude(&a.nanos) * num), &BigInt::from(den));
        check(&x.scaled(num, den), &if x.is_negative() { -scaled } else { scaled }, family)?;
        let stepped = if b.nanos == BigInt::ZERO { a.nanos.clone() } else { away_from_zero(&a.nanos, &magnitude(&b.nanos)) };
        check(&x.rounded_up_to_multiple_of(&y), &stepped, family)?;
        prop_assert_eq!(x.value(), saturated(&(away_from_zero(&a.nanos, &big("1000000000")) / big("1000000000"))));
        prop_assert_eq!(x.milli_value(), saturated(&(away_from_zero(&a.nanos, &big("1000000")) / big("1000000"))));

        let [limit, request, ratio] = [a, b, c].map(|written| magnitude(&written.nanos));
        let product = &request * ratio;
        prop_assert_eq!(Quantity::exceeds_ratio(&x, &y, &z), &limit * big("1000000000") > product);
        prop_assert_eq!(Quantity::falls_short_of_ratio(&x, &y, &z), &limit * big("1000000000") < product);
        prop_assert_eq!(Quantity::ratio_text(&x, &y), ratio_text(&limit, &request, x.is_negative() != y.is_negative()));
    }

    #[test]
    fn texts_are_read_as_by_the_model_and_errors_are_short(text in prop_oneof![
        any::<String>(),
        "[-+]?[0-9.]{0,30}[eEinumkKMGTPb ]{0,3}[-+]?[0-9]{0,12}",
        "[-+]?[0-9]{0,220}\\.?[0-9]{0,120}(e[-+]?1?[0-9]{1,2})?",
    ]) {
        let expected = Written::of(&text).filter(|written| is_in_range(&written.nanos));
        prop_assert_eq!(text.parse::<Quantity>().is_ok(), expected.is_some(), "{}", text);
        match Quantity::from_json_text(&text) {
            Ok(quantity) => {
                // The family may be lost: `1500000` in binary suffixes reads as decimal.
                prop_assert_eq!(quantity.to_string().parse::<Quantity>().unwrap(), quantity);
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

fn check(found: &Quantity, expected: &BigInt, family: Family) -> Result<(), TestCaseError> {
    if is_in_range(expected) {
        prop_assert_eq!(found.to_string(), canonical(expected, family));
    } else {
        prop_assert!(found.is_out_of_range() && found.is_negative() == (expected.sign() == Sign::Minus), "{}", found);
    }
    Ok(())
}

/// To six decimals, half to even.
fn ratio_text(limit: &BigInt, request: &BigInt, is_negative: bool) -> String {
    if *request == BigInt::ZERO {
        return "+Inf".to_owned();
    }
    let scaled = limit * 1_000_000;
    let (quotient, rest) = (&scaled / request, (&scaled % request) * 2);
    let odd = &quotient % 2 == BigInt::from(1);
    let up = rest > *request || (rest == *request && odd);
    let millionths: BigInt = if up { quotient + 1 } else { quotient };
    let sign = if millionths > BigInt::ZERO && is_negative { "-" } else { "" };
    let million = BigInt::from(1_000_000);
    let fraction: BigInt = &millionths % &million;
    format!("{sign}{}.{:0>6}", millionths / million, fraction.to_string())
}
