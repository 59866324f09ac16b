//! Kubernetes' own results for quantities, replayed from data.
//!
//! The cases were recorded from Kubernetes' parser; `DEPARTURES` lists those where we differ on purpose.

use headroom_admission::amount::{Family, Quantity};
use headroom_fixtures::conformance::{self, Case, Check, Operation, Parsed};

use super::quantity;

/// Texts that Kubernetes reads as zero and we refuse, because no author intends them.
const DEPARTURES: [&str; 2] = ["bare-suffix-is-zero", "bare-sign-is-zero"];

#[test]
fn every_conformance_case_holds_except_for_the_departures() {
    for Case { name, check, .. } in conformance::cases("quantity") {
        match &check {
            Check::Parse { input, expect } => {
                let read = input.value.parse::<Quantity>();
                assert_eq!(read.is_ok(), expect.valid && !DEPARTURES.contains(&name.as_str()), "{name}: {read:?}");
                read.into_iter().for_each(|quantity| check_parsed(&name, &quantity, expect));
            }
            Check::Compare { a, b, cmp } => assert_eq!(quantity(a).cmp(&quantity(b)) as i64, *cmp, "{name}"),
            Check::Arith { a, b, op, result } => {
                let (a, b) = (quantity(a), quantity(b));
                let found = match op {
                    Operation::Add => a.plus(&b),
                    Operation::Sub => a.minus(&b),
                };
                assert_eq!(found.to_string(), *result, "{name}");
            }
            other => panic!("{name}: unknown check {other:?}"),
        }
    }
}

fn check_parsed(name: &str, quantity: &Quantity, expect: &Parsed) {
    for (field, expected, found) in [
        ("canonical", expect.canonical.clone(), quantity.to_string()),
        ("format", expect.format.clone(), format_name(quantity).to_owned()),
        ("value", expect.value.clone(), quantity.value().to_string()),
        ("milliValue", expect.milli_value.clone().map(unwrapped(quantity)), quantity.milli_value().to_string()),
        ("apiDefaulted", expect.api_defaulted.clone(), quantity.rounded_up_to_milli().to_string()),
    ] {
        assert!(expected.is_none_or(|expected| expected == found), "{name}: {field} is {found}");
    }
}

/// Kubernetes wraps at 64 bits; we saturate.
fn unwrapped(quantity: &Quantity) -> impl Fn(String) -> String {
    let most = Quantity::from_milli(i64::MAX);
    let beyond = *quantity > most;
    move |milli| if beyond { i64::MAX.to_string() } else { milli }
}

fn format_name(quantity: &Quantity) -> &'static str {
    match quantity.family() {
        Family::DecimalSi => "DecimalSI",
        Family::BinarySi => "BinarySI",
        Family::DecimalExponent | Family::Beyond { .. } => "DecimalExponent",
    }
}
