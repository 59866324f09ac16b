//! Checks the reference of settings (docs/src/reference/settings.md) against the code: exactly the same settings,
//! defaults and choices.
//!
//! The code's settings are taken from its error messages: the error for an unknown name lists the valid names, and the
//! error for a wrong word the expected words.

use std::collections::BTreeSet;
use std::fs;

use headroom_admission::Settings;
use headroom_admission::json::Document;
use headroom_wasm_host::built;
use serde_json::{Value, json};

struct Row {
    setting: String,
    values: String,
    default: String,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(built::workspace_file("docs/src/reference/settings.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let setting = only_code(cells[0].trim_start_matches("| ")).unwrap().to_owned();
        Row { setting, values: cells[1].to_owned(), default: cells[2].to_owned() }
    })
    .collect()
}

/// The text of a cell that consists of code only.
fn only_code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`').filter(|code| !code.contains('`'))
}

/// Settings with one value at a place such as `limitRanges.rules[].name`.
fn with(place: &str, value: &Value) -> Value {
    place.rsplit('.').fold(value.clone(), |inner, step| match step.strip_suffix("[]") {
        Some(name) => json!({name: [inner]}),
        None => json!({step: inner}),
    })
}

/// The settings that the code reads, or the problems that it reports.
fn read(settings: &Value) -> Result<String, Vec<String>> {
    let text = settings.to_string();
    let document = Document::read(&text).unwrap();
    let read = Settings::read(Some(document.root()));
    read.map(|settings| format!("{settings:?}")).map_err(|error| error.problems)
}

fn in_backticks(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names that the code knows in a section; none if there is no such section.
fn known_in(section: &str) -> Vec<String> {
    // Unlike any name, so that no name is proposed instead.
    let unknown = "~".repeat(60);
    let place = if section.is_empty() { unknown.clone() } else { format!("{section}.{unknown}") };
    let prefix = format!("`{}` is not a setting; valid names are ", place.replace("[]", "[0]"));
    let problems = read(&with(&place, &json!(1))).err().unwrap_or_default();
    problems.iter().find_map(|problem| problem.strip_prefix(&prefix)).map(in_backticks).unwrap_or_default()
}

/// Every setting below a section, and whether it is a section itself.
fn all_in(section: &str, found: &mut Vec<(String, bool)>) {
    for name in known_in(section) {
        let place = if section.is_empty() { name } else { format!("{section}.{name}") };
        let before = found.len();
        found.push((place.clone(), false));
        all_in(&place, found);
        all_in(&format!("{place}[]"), found);
        found[before].1 = found.len() > before + 1;
    }
}

#[test]
fn every_setting_has_its_row() {
    let mut all = Vec::new();
    all_in("", &mut all);
    let known: BTreeSet<&str> = all.iter().map(|(place, _)| place.as_str()).collect();
    assert!(known.len() > 45, "{known:?}");
    let rows = rows();
    for row in &rows {
        assert!(known.contains(row.setting.as_str()), "the policy does not know `{}`", row.setting);
    }
    // Fields of Kubernetes' own types, and of resources, have no rows of their own.
    let covers = |row: &Row, place: &str| {
        let Some(rest) = place.strip_prefix(row.setting.as_str()) else { return false };
        let of_kubernetes = ["label selector", "LimitRange items", "list of limited resources"];
        rest.is_empty()
            || [".cpu", ".memory", ".ephemeral-storage"].contains(&rest)
            || (rest.starts_with(['.', '[']) && of_kubernetes.contains(&row.values.as_str()))
    };
    for (place, is_section) in &all {
        assert!(*is_section || rows.iter().any(|row| covers(row, place)), "`{place}` is not in the reference");
    }
}

#[test]
fn documented_defaults_are_the_defaults() {
    // With history, which has defaults of its own.
    let untouched = read(&json!({"estimates": {"namespace": "headroom"}}));
    assert!(untouched.is_ok(), "{untouched:?}");
    let mut count = 0;
    for row in rows() {
        let Some(default) = only_code(&row.default) else { continue };
        let value: Value = serde_saphyr::from_str(default).unwrap();
        let mut settings = with(&row.setting, &value);
        settings["estimates"]["namespace"] = json!("headroom");
        assert_eq!(read(&settings), untouched, "{settings}");
        count += 1;
    }
    assert!(count > 20, "the reference has defaults");
}

#[test]
fn documented_choices_are_the_choices() {
    let mut count = 0;
    for row in rows() {
        let choices = in_backticks(&row.values);
        let is_choice = choices.len() > 1 && row.values == format!("`{}`", choices.join("`, `"));
        let wrong = format!("`{}` is wrong: expected ", row.setting.replace("[]", "[0]"));
        let problems = read(&with(&row.setting, &json!("~"))).err().unwrap_or_default();
        let expected = problems.iter().find_map(|problem| problem.strip_prefix(&wrong)?.split_once(", found"));
        if is_choice {
            let (expected, _) = expected.unwrap_or_else(|| panic!("`{}` takes any word", row.setting));
            let sorted = |words: Vec<String>| words.into_iter().collect::<BTreeSet<_>>();
            assert_eq!(sorted(choices), sorted(in_backticks(expected)), "{}", row.setting);
            count += 1;
        }
        let is_boolean = expected.is_some_and(|(expected, _)| expected == "true or false");
        assert_eq!(row.values == "boolean", is_boolean, "{}", row.setting);
    }
    assert!(count > 10, "the reference has choices");
}
