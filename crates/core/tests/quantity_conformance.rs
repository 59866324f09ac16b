//! Kubernetes' own results for quantities, replayed from data.
//!
//! The cases were recorded from Kubernetes' parser; `DEPARTURES` lists those where we differ on purpose.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop on data it cannot read")]

use headroom_core::amount::{Family, Quantity};
use serde_json::Value;

const CASES: &str = include_str!("../../../conformance/quantity.json");

/// Texts that Kubernetes reads as zero and we refuse, because no author intends them.
const DEPARTURES: [&str; 2] = ["n-parse-bare-suffix-is-zero", "n-parse-bare-sign-is-zero"];

#[test]
fn every_conformance_case_holds_except_for_the_departures() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut faults = Vec::new();
    for case in &cases {
        let found = match text(case, "check") {
            "parse" => parse(case),
            "compare" => compare(case),
            "arith" => arith(case),
            other => vec![format!("unknown check `{other}`")],
        };
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", text(case, "name"))));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!cases.is_empty());
}

fn parse(case: &Value) -> Vec<String> {
    let (written, expect) = (text(&case["input"], "value"), &case["expect"]);
    let valid = expect["valid"] == true && !DEPARTURES.contains(&text(case, "name"));
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
    check("canonical", field(expect, "canonical"), quantity.to_string());
    check("format", field(expect, "format"), format_name(&quantity));
    check("value", field(expect, "value"), quantity.value().to_string());
    check("milliValue", field(expect, "milliValue").map(unwrapped(&quantity)), quantity.milli_value().to_string());
    check("apiDefaulted", field(expect, "apiDefaulted"), quantity.rounded_up_to_milli().to_string());
    faults
}

fn compare(case: &Value) -> Vec<String> {
    let (a, b) = operands(case);
    let found = a.cmp(&b) as i64;
    if case["expect"]["cmp"] == found { vec![] } else { vec![format!("cmp is {found}")] }
}

fn arith(case: &Value) -> Vec<String> {
    let (a, b) = operands(case);
    let found = match text(&case["input"], "op") {
        "add" => a.plus(&b),
        "sub" => a.minus(&b),
        other => return vec![format!("unknown operation `{other}`")],
    };
    if case["expect"]["result"] == found.to_string() { vec![] } else { vec![format!("result is {found}")] }
}

/// Kubernetes wraps at 64 bits; we saturate.
fn unwrapped(quantity: &Quantity) -> impl Fn(String) -> String {
    let most = Quantity::from_milli(i64::MAX);
    let beyond = *quantity > most;
    move |milli| if beyond { i64::MAX.to_string() } else { milli }
}

fn format_name(quantity: &Quantity) -> String {
    let name = match quantity.family() {
        Family::DecimalSi => "DecimalSI",
        Family::BinarySi => "BinarySI",
        Family::DecimalExponent => "DecimalExponent",
    };
    name.to_owned()
}

fn operands(case: &Value) -> (Quantity, Quantity) {
    let operand = |name| text(&case["input"], name).parse().unwrap();
    (operand("a"), operand("b"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

fn field(expect: &Value, key: &str) -> Option<String> {
    expect[key].as_str().map(str::to_owned)
}
