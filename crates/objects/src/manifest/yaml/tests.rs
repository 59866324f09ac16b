use headroom_fixtures::{files_below, workspace_file};
use serde_json::json;

use super::*;

const MANY: usize = 250_000;

/// As the general reader has it.
fn general(text: &str) -> Result<Value, ()> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|_| ())
}

/// Both readers make the same of a text.
#[track_caller]
fn check(text: &str) {
    assert_eq!(read(text, MANY.max(text.len())).map_err(|_| ()), general(text), "{text}");
}

#[test]
fn scalars_are_what_the_general_reader_makes_of_them() {
    let short = [
        "a", "1", "-1", "+1", "0", "-0", "00", "007", "0644", "08", "0.5", "-.5", ".5", "5.", "1e3", "1E-3", ".inf",
        "-.INF", "+.inf", ".nan", ".NaN", "0x1F", "0o17", "0b11", "0x", "1_000", "_1", "1Gi", "500m", "1:30",
        "12:30:45", "true", "True", "TRUE", "yes", "No", "on", "OFF", "y", "N", "null", "Null", "NULL", "~", "inf",
        "infinity", "nan", "- a", "'1'", "\"1\"", "'null'", "!!str 1", "!!null x", "!!int x", "! 1", "v1.27", "1.27",
        "1.30", "0.0.0.0", "0xg", "-0x10", "+0o7", "e5", "5e", "@a", "`a`", "%a", "-", "--", "?", "'it''s'", "a: b: c",
        "{a: 1}", "[1, two]",
    ];
    let long = [
        "2026-11-21",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "\"\\u00e9\"",
        "!!int \"3\"",
        "!!bool \"yes\"",
        "!!float 1",
        "|\n  a\n  b\n",
        ">-\n  a\n  b\n",
    ];
    short.iter().chain(&long).for_each(|scalar| check(&format!("value: {scalar}\n")));
    // kubectl reads a number that is too large as a text, such as a hash that nobody quoted.
    for text in ["1e999", "176e739808"] {
        assert_eq!(read(&format!("value: {text}\n"), 100), Ok(json!({"value": text})));
    }
}

#[test]
fn mappings_are_what_the_general_reader_makes_of_them() {
    let texts = [
        "1: a\ntrue: b\n'': d\n\"yes\": e\n",
        "~: a\n",
        ": a\n",
        "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\nf: {<<: [*x, {b: 3, g: 4}], b: 5}\n",
        "a: &x {b: 1}\nc: &y {<<: *x, d: 1}\ne: {<<: *y, b: 2}\n",
        "a: &x 1\nb: *x\n",
        "a:\nb:\n- c\n-\n",
        "? a\n: b\n",
        "a: &x [1]\nb: {<<: *x}\n",
        "a: 1\na: 2\n",
        "a: {b: 1, b: 2}\n",
        "a: *x\n",
        "",
        "# nothing\n",
        "- - 1\n  - 2\n- {}\n- []\n",
        "a: 'x\n  y'\n",
        "{a: 1",
        "\ta: 1",
        "&a a: 1\n*a : 2",
        "\"<<\": {a: 1}",
    ];
    texts.iter().for_each(|text| check(text));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read the repository")]
fn the_repositorys_yaml_is_what_the_general_reader_makes_of_it() {
    let folders = ["tests/scenarios", "docs/examples", "tests/data", "crates/cli/tests/commands/describe"];
    let mut files: Vec<_> = folders.iter().flat_map(|folder| files_below(&workspace_file(folder)).unwrap()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"));
    let mut count = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        for (_, part) in super::super::documents::parts(&text) {
            check(part);
            let ours = read(part, MANY.max(part.len())).unwrap();
            assert_eq!(read(&write(&ours), MANY.max(part.len())), Ok(ours), "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "there is YAML");
}

#[test]
fn what_is_written_is_read_again() {
    let texts = [
        "", "a", "1", "1Gi", "true", "null", "a: b", "a #b", "- a", "a:", " a", "a ", "a\nb", "{a}", "é", "\u{1}",
        "*a", "&a", "!a", "%", "@", "`", "'", "\"", "0x1", "=", "<<", "~", ".5", "a,b", "#", "\u{feff}", "\u{2028}",
        "\u{85}",
    ];
    for text in texts {
        let value = json!({"list": [text, {"key": text, "nested": [[text], {}]}], text: [], "none": {}, "number": [1, -2.5, null, true]});
        assert_eq!(read(&write(&value), MANY), Ok(value.clone()), "{}", write(&value));
    }
    assert_eq!(write(&json!("a")), "a\n");
    assert_eq!(read(&write(&json!("... a")), MANY), Ok(json!("... a")));
    assert_eq!(
        write(
            &json!({"kind": "Pod", "spec": {"containers": [{"image": "nginx:1.27", "name": "web", "args": ["-v", "1"]}], "none": []}})
        ),
        "kind: Pod\nspec:\n  containers:\n  - args:\n    - \"-v\"\n    - \"1\"\n    image: nginx:1.27\n    name: web\n  none: []\n"
    );
}

#[test]
fn problems_are_told_with_their_lines() {
    let check = |text: &str, line: usize, expected: &str| {
        assert_eq!(read(text, 100), Err((line, expected.to_owned())), "{text}")
    };
    check("a: 1\nb: 2\na: 3\n", 2, "duplicate key `a`, of which kubectl would take the last: remove one");
    check("a: 1\n? [b]\n: 2\n", 1, "a key must be text");
    check("\n<<: 1\n", 1, "`<<` takes a mapping, or a list of mappings");
    check("a: &x {b: *x}\n", 0, "recursive alias");
    check("a: !!int x\n", 0, "`x` is not of the kind !!int");
    // Whatever kubectl could read otherwise.
    let misplaced = "`<<` must be the first key of its mapping, once";
    check("a: 1\n<<: {a: 2}\n", 1, misplaced);
    check("{<<: {a: 1}, <<: {a: 2}}", 0, misplaced);
    check(
        "a: 1 # b\u{2028}a: 2\n",
        0,
        "U+2028 ends a line for kubectl: write `\\u2028` in double quotes, or remove it",
    );
    check("\na: \u{85}\n", 1, "U+0085 ends a line for kubectl: write `\\x85` in double quotes, or remove it");
    check("a: !!binary aGk=\n", 0, "tag !!binary: kubectl could read it otherwise; write the value without it");
    check("a: !own {}\n", 0, "tag !own: kubectl could read it otherwise; write the value without it");
    check("!%0a", 0, "tag ! : kubectl could read it otherwise; write the value without it");
    check("a: !!seq {}\n", 0, "tag !!seq: kubectl could read it otherwise; write the value without it");
    for (text, mark) in [("{?a: 1}", "?a"), ("[a::]", "a:"), ("{b: :a}", ":a"), ("[[{c: {?d: 1}}]]", "?d")] {
        check(text, 0, &format!("kubectl reads `{mark}` otherwise in brackets and braces: quote it"));
    }
    assert_eq!(read("args: [-c, --a, '?b']\nk: ?v\n", 100), Ok(json!({"args": ["-c", "--a", "?b"], "k": "?v"})));
    check("a: 0x_40\n", 0, "`0x_40` is a number for kubectl: quote it");
    check("a: 1\n# b\r\r\nc: 2\n", 1, "two carriage returns: kubectl counts them as one line break less; remove one");
    check("01: 1\n", 0, "kubectl reads the key `01` as a number, which it prints its own way: quote it");
    check("on: 1\ntrue: 2\n", 1, "duplicate key `true`, of which kubectl would take the last: remove one");
    check("a: 1_0.5\n", 0, "`1_0.5` is a number for kubectl: quote it");
    let deep = format!("{}1{}", "[".repeat(130), "]".repeat(130));
    assert_eq!(read(&deep, 1_000), Err((0, "nested more than 120 levels deep".to_owned())));
}

/// YAML asks for more, kubectl does not.
#[test]
fn quoted_texts_go_on_at_any_indentation() {
    let check = |text: &str, expected: Value| assert_eq!(read(text, MANY), Ok(expected), "{text}");
    check("a:\n  b: 'c\n  d'\n  e: 1\n", json!({"a": {"b": "c d", "e": 1}}));
    check("a:\n    b: \"c\n  d\\n\n  it's\n\n  e\"\nf: 1\n", json!({"a": {"b": "c d\n it's\ne"}, "f": 1}));
    check("- a: 'it''s\n  b\n  c'\n- d\n", json!([{"a": "it's b c"}, "d"]));
    check("a: 'b\nc'\nd: \"e\nf\"\n", json!({"a": "b c", "d": "e f"}));
    check(&format!("a:\n{}  b: 1\n", "  # why\n".repeat(200)), json!({"a": {"b": 1}}));
    // A text is read again only so often.
    let many = "a: 'b\nc'\n".repeat(20_000);
    assert!(read(&many, MANY).is_err());
}

#[test]
fn aliases_cannot_make_much_of_little() {
    let many = |value: &str, count: usize| format!("a: &x {value}\nb: [{}]\n", vec!["*x"; count].join(", "));
    assert!(read(&many("[1, 2, 3]", 20), 100).is_ok());
    assert_eq!(read(&many("[1, 2, 3]", 40), 100), Err((1, "too large after expanding aliases".to_owned())));
    assert!(read(&many(&"x".repeat(150), 20), 100).is_err());
}
