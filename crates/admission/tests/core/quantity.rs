//! Examples of parsing, printing and adding quantities.

mod model;

use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use serde::Deserialize;

use crate::claims::check_each;

pub fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

const MAX: &str = "170141183460469231731687303715";

#[test]
fn every_claim_holds() {
    check_each(include_str!("quantity/cases.yaml"), Case::check);
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Case {
    prints: BTreeMap<String, String>,
    refused: BTreeMap<String, String>,
    sums: Vec<[String; 4]>,
}

impl Case {
    fn check(&self) {
        for (written, canonical) in &self.prints {
            assert_eq!(quantity(written).to_string(), *canonical, "`{written}`");
        }
        for (written, message) in &self.refused {
            check_refused(written, message);
        }
        for [a, b, sum, difference] in &self.sums {
            assert_eq!(quantity(a).plus(&quantity(b)).to_string(), *sum, "{a} + {b}");
            assert_eq!(quantity(a).minus(&quantity(b)).to_string(), *difference, "{a} - {b}");
        }
    }
}

fn check_refused(written: &str, message: &str) {
    assert_eq!(written.parse::<Quantity>().unwrap_err().to_string(), message);
}

#[test]
fn long_numbers_are_refused() {
    let digits = "9".repeat(200);
    assert!(digits.parse::<Quantity>().is_err());
    assert!(format!("{digits}e-100").parse::<Quantity>().is_err());
    let longest = format!("{}1", "0".repeat(199));
    assert_eq!(quantity(&longest).to_string(), "1");
    let shown = "0".repeat(40);
    let message = format!("`{shown}…` is not a quantity: it must have at most 200 characters");
    check_refused(&format!("{longest}1"), &message);
}

#[test]
fn a_result_beyond_the_largest_amount_exceeds_every_amount_and_stays_beyond() {
    let (max, one) = (quantity(MAX), quantity("1n"));
    let beyond = max.plus(&one);
    for result in
        [beyond.clone(), beyond.minus(&max), one.plus(&beyond), beyond.times_count(0), beyond.rounded_up_to_milli()]
    {
        assert!(result.is_out_of_range() && result > max, "{result}");
        assert_eq!(result.to_string(), format!(">{MAX}"));
        assert!(result.to_string().parse::<Quantity>().is_err());
    }
    assert!(max.times_count(3).scaled(1, 9).is_out_of_range() && one.minus(&beyond).is_out_of_range());
    assert!(one.minus(&beyond) < one.minus(&max));
    assert_eq!(one.minus(&beyond).to_string(), format!("<-{MAX}"));
    assert!(!max.is_out_of_range() && !max.rounded_up_to_units().is_out_of_range());
    // Nothing is known of its ratio, so a bound of the ratio refuses it.
    assert!(Quantity::exceeds_ratio(&beyond, &max, &max) && Quantity::exceeds_ratio(&one, &beyond, &max));
    assert_eq!(Quantity::ratio_text(&beyond, &max), "out of range");
}

#[test]
fn a_bound_beyond_the_largest_amount_prints_as_by_kubernetes_if_it_has_an_exponent() {
    for (written, printed) in
        [("1e30", "1e30"), ("15e29", "1500e27"), ("0.25E32", "25e30"), ("+2e31", "20e30"), ("2E", "2E")]
    {
        let bound = Quantity::bound_from_json_text(written).unwrap();
        assert_eq!((bound.to_string().as_str(), bound > quantity(MAX)), (printed, written != "2E"));
    }
    let without_exponent = Quantity::bound_from_json_text(&format!("{MAX}0")).unwrap();
    assert_eq!(without_exponent.to_string(), format!(">{MAX}"));
}

/// Found by `make fuzz`.
#[test]
fn escapes_do_not_make_a_message_long() {
    let shown = r"\u{0}".repeat(8);
    let suffix = r"\u{0}".repeat(8);
    let allowed = "allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and exponents such as `e3`";
    let message = format!("`1{shown}…` is not a quantity: `{suffix}…` is not a suffix, {allowed}");
    check_refused(&format!("1{}", "\0".repeat(40)), &message);
}

#[test]
fn json_text_may_have_blanks_around_it() {
    for (written, same) in [(" 1Gi\t\n", "1Gi"), ("1e3", "1k"), ("0.5", "500m"), ("\u{a0}4", "4")] {
        assert_eq!(Quantity::from_json_text(written).unwrap(), quantity(same));
    }
    assert!(Quantity::from_json_text("1 Gi").is_err());
}

#[test]
fn a_ratio_prints_to_six_decimals_half_to_even() {
    let text = |limit, request| Quantity::ratio_text(&quantity(limit), &quantity(request));
    assert_eq!(text("1", "2000000"), "0.000000");
    assert_eq!(text("3", "2000000"), "0.000002");
    assert_eq!(text("-1n", "1E"), "0.000000");
    assert_eq!(text("1e29", "1e-9"), format!("1{}.000000", "0".repeat(38)));
    assert_eq!(text("1e29", MAX), "0.587747");
    assert_eq!(text("170141183460469231731687303714", MAX), "1.000000");
    assert_eq!(text("1", "0"), "+Inf");
}

#[test]
fn printing_respects_a_width() {
    assert_eq!(format!("{:>6}|{:<6}|", quantity("1Gi"), quantity("500m")), "   1Gi|500m  |");
}
