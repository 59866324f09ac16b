//! Compares the problems found by validation with a conformance case.

use headroom_core::cluster::problem::Problem;
use serde_json::{Value, json};

/// Checks for exactly the expected problems, each with its field and text.
#[track_caller]
pub fn check(case: &Value, problems: &[Problem]) {
    let expected = case["expect"]["errors"].as_array().unwrap();
    assert_eq!(problems.len(), expected.len(), "{}: {problems:?}", case["name"]);
    for error in expected {
        let (field, detail) = (&error["field"], error["detailContains"].as_str().unwrap());
        assert!(
            problems.iter().any(|problem| *field == json!(problem.field) && problem.detail.contains(detail)),
            "{}: {error} not in {problems:?}",
            case["name"]
        );
    }
}
