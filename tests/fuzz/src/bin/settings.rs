//! Arbitrary settings: they are accepted or refused, and a refusal names the setting.

#![no_main]

use headroom_admission::Settings;
use headroom_admission::json::Document;
use libfuzzer_sys::fuzz_target;

const SETTINGS: [&str; 9] = [
    "role",
    "mode",
    "kubernetesVersion",
    "limitRanges",
    "quotas",
    "estimates",
    "mutateTemplates",
    "onMissingContext",
    "exempt",
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = Document::read_bytes(bytes) else { return };
    let Err(error) = Settings::read(Some(document.root())) else { return };
    assert!(!error.problems.is_empty());
    for problem in &error.problems {
        let names_a_setting = SETTINGS.iter().any(|name| problem.trim_start_matches('`').starts_with(name));
        assert!(
            names_a_setting || problem.contains("is not a setting") || document.root().fields().is_err(),
            "the problem names no setting: {problem}"
        );
        assert!(!problem.contains('\n'), "the problem has more than one line: {problem}");
    }
});
