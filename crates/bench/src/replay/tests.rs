//! Small artificial recordings, measured as `make bench-estimates` does real ones.

use expect_test::expect_file;

use super::requests::ByMoment;
use super::*;

fn requests(name: &str, cores: f64) -> Requests {
    let images = [("web".to_owned(), [("cpu".to_owned(), cores)].into())].into();
    Requests { name: name.to_owned(), by_moment: ByMoment::from([("now".to_owned(), images)]) }
}

fn used(image: &str, amounts: &[f64]) -> Used {
    Used { moment: "now".to_owned(), image: image.to_owned(), amounts: amounts.to_vec() }
}

#[test]
fn requests_are_compared_with_later_usage() {
    let pods = [used("web", &[1.0, 1.0, 1.0, 5.0]), used("web", &[1.0, 1.0, 1.0, 1.0]), used("other", &[9.0])];
    let (yardstick, twice) = (requests("vpa", 2.0), requests("twice", 4.0));
    let measured = Accuracy::of(&pods, &[&yardstick, &twice], TraceColumn::Cpu);
    // Computed by hand: one of eight amounts is above 2, by 3 of the 12 used in total.
    let expected = "
set cpu: 2 of 3 pods have a request; headroom has none for 1 of 2 images
                     asked     time>     pods>  busiest>     peak>      use>   typical  as risky      +use
vpa                   1.33     12.50     50.00    100.00     50.00     25.00      1.50      50.0     100.0
twice                 2.67     12.50     50.00    100.00     50.00      8.33      3.00      50.0     100.0
";
    assert_eq!(table::text("set", TraceColumn::Cpu, &measured), expected);
}

#[test]
fn a_rule_that_cannot_reach_the_yardsticks_risk_has_no_factor() {
    let pods = [used("web", &[1.0, 100.0])];
    let measured = Accuracy::of(&pods, &[&requests("vpa", 100.0), &requests("none", 0.001)], TraceColumn::Cpu);
    let figures: Vec<_> = measured.columns.iter().map(|(_, figures)| figures.as_risky.is_some()).collect();
    assert_eq!(figures, [true, false]);
    assert_eq!(table::text("set", TraceColumn::Memory, &Accuracy::of(&[], &[], TraceColumn::Memory)), "");
}

#[test]
fn artificial_recordings_are_replayed_through_the_programs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let text = run(&folder).unwrap();
    expect_file!["../../traces/expected.txt"].assert_eq(&text);
}

#[test]
fn a_folder_without_traces_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let error = run(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("has no traces"), "{error}");
}
