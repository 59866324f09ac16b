//! Kubernetes' own results for quantities, replayed from data.
//!
//! The cases were recorded from Kubernetes' parser; `DEPARTURES` lists those where we differ on purpose.

use headroom_admission::amount::{Family, Quantity};
use headroom_fixtures::conformance::{self, Check, Operation, Parsed};

use super::quantity;

/// Texts that Kubernetes reads as zero and we refuse, because no author intends them.
const DEPARTURES: [&str; 2] = ["bare-suffix-is-zero", "bare-sign-is-zero"];

#[test]
fn every_conformance_case_holds_except_for_the_departures() {
    let mut faults = Vec::new();
    for case in conformance::cases("quantity") {
        let found = match &case.check {
            Check::Parse { input, expect } => {
                parse(&input.value, expect, expect.valid && !DEPARTURES.contains(&case.name.as_str()))
            }
            Check::Compare { input, expect } => {
                let found = quantity(&input.a).cmp(&quantity(&input.b)) as i64;
                if expect.cmp == found { vec![] } else { vec![format!("cmp is {found}")] }
            }
            Check::Arith { input, expect } => {
                let (a, b) = (quantity(&input.a), quantity(&input.b));
                let found = match input.op {
                    Operation::Add => a.plus(&b),
                    Operation::Sub => a.minus(&b),
                };
                if expect.result == found.to_string() { vec![] } else { vec![format!("result is {found}")] }
            }
            other => vec![format!("unknown check {other:?}")],
        };
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", case.name)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn parse(written: &str, expect: &Parsed, valid: bool) -> Vec<String> {
    let quantity = match written.parse::<Quantity>() {
        Ok(_) if !valid => return vec![format!("`{written}` was read")],
        Err(_) if !valid => return vec![],
        Err(error) => return vec![error.to_string()],
        Ok(quantity) => quantity,
    };
    let mut faults = Vec::new();
    let mut check = |what: &str, expected: Option<String>, found: String| {
        if expected.is_some_and(|expected| expected != found) {
            faults.push(format!("{what} is {found}"));
        }
    };
    check("canonical", expect.canonical.clone(), quantity.to_string());
    check("format", expect.format.clone(), format_name(&quantity).to_owned());
    check("value", expect.value.clone(), quantity.value().to_string());
    check("milliValue", expect.milli_value.clone().map(unwrapped(&quantity)), quantity.milli_value().to_string());
    check("apiDefaulted", expect.api_defaulted.clone(), quantity.rounded_up_to_milli().to_string());
    faults
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
