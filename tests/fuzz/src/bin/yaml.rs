//! Arbitrary YAML: it is read or refused with a place in the text, and what was read is read again as it was written.

#![no_main]

use std::path::Path;

use headroom_objects::manifest::yaml;
use headroom_objects::manifest::{read_each, yaml_spans};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match yaml::read(text, 10_000) {
        Ok(value) => assert_eq!(yaml::read(&yaml::write(&value), 100_000), Ok(value)),
        Err((_, problem)) => assert!(!problem.contains('\n'), "{problem}"),
    }
    let _ = yaml_spans::documents(text);
    // A carriage return ends a line, too.
    let lines = text.split(['\n', '\r']).count();
    for read in read_each(Path::new("app.yaml"), text) {
        let line = match read {
            Ok(manifest) => {
                assert!(manifest.object.is_object());
                manifest.origin.line
            }
            Err(malformed) => malformed.origin.line,
        };
        assert!((1..=lines).contains(&line), "line {line} of {lines}");
    }
});
