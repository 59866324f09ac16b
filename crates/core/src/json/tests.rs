use proptest::prelude::*;

use super::*;

const POD: &str = r#" {"kind":"Pod", "metadata": {"name":"a\"b\u00e9\ud83d\ude00","labels":null, "annotations":{"a.b/c":"x"}},
 "spec":{"containers":[{"name":"one"},{"name":"two","image":7,"n":-1.5e+3}],"hostNetwork":true}, "kind":"Last"} "#;

#[test]
fn values_are_found_by_their_path() {
    let document = Document::read(POD).unwrap();
    let root = document.root();
    assert_eq!(root.string("kind").unwrap().unwrap(), "Last");
    let metadata = root.get("metadata").unwrap().unwrap();
    assert_eq!(metadata.string("name").unwrap().unwrap(), "a\"bé😀");
    assert!(metadata.get("labels").unwrap().is_none());
    let names: Vec<_> = root
        .at(&["spec"])
        .unwrap()
        .unwrap()
        .list("containers")
        .unwrap()
        .map(|c| c.string("name").unwrap().unwrap())
        .collect();
    assert_eq!(names, ["one", "two"]);
    assert!(root.at(&["spec", "hostNetwork"]).unwrap().unwrap().bool().unwrap());
    assert!(root.at(&["status", "phase"]).unwrap().is_none());
}

#[test]
fn a_document_of_its_own_keeps_the_bytes_where_they_are() {
    let bytes = POD.as_bytes().to_vec();
    let place = bytes.as_ptr();
    let document: Document<'static> = Document::own(bytes).unwrap();
    assert_eq!(document.text.as_ptr(), place);
    assert_eq!(document.root().text(), Document::read(POD).unwrap().root().text());
    assert_eq!(Document::own(b"[1,]".to_vec()).unwrap_err(), Document::read("[1,]").unwrap_err());
    assert_eq!(
        Document::own(vec![b'"', 0xff, b'"']).unwrap_err().to_string(),
        "not JSON at byte 1: expected text in UTF-8"
    );
}

/// Sixteen bytes are looked at at once, so each place in and beside them counts.
#[test]
fn an_escape_is_found_wherever_it_stands() {
    for length in 0..40 {
        for at in 0..=length {
            for special in ["\"", "\\", "\n", "\u{1f}", "\u{7f}", "é", " "] {
                let text = ["x".repeat(at).as_str(), special, &"y".repeat(length - at)].concat();
                let mut written = String::new();
                write_string_with(&mut written, |out| out.push_str(&text));
                assert_eq!(written, json_string(&text));
                assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
                assert_eq!(Document::read(&written).unwrap().root().str().unwrap(), text);
                assert_eq!(
                    Document::read(&format!("[{written},{written}]")).unwrap().root().items().unwrap().count(),
                    2
                );
            }
        }
    }
}

#[test]
fn an_error_says_where_and_what() {
    let document = Document::read(POD).unwrap();
    let spec = document.root().get("spec").unwrap().unwrap();
    let second = spec.list("containers").unwrap().nth(1).unwrap();
    assert_eq!(
        second.string("image").unwrap_err().to_string(),
        "spec.containers[1].image: expected a string, found `7`"
    );
    assert_eq!(spec.get("containers").unwrap().unwrap().get("x").unwrap_err().path, "spec.containers");
    let annotation = document.root().at(&["metadata", "annotations", "a.b/c"]).unwrap().unwrap();
    assert_eq!(annotation.path(), "metadata.annotations[a.b/c]");
}

#[test]
fn managed_fields_are_passed_over_unread() {
    let text = r#"{"metadata":{"managedFields":[{"f:a":{"k:{\"x\":\"]\"}":{}}},{}],"name":"web"},"spec":{}}"#;
    let document = Document::read(text).unwrap();
    let metadata = document.root().get("metadata").unwrap().unwrap();
    assert_eq!(metadata.string("name").unwrap().unwrap(), "web");
    let opaque = metadata.get("managedFields").unwrap().unwrap();
    assert_eq!(opaque.text(), r#"[{"f:a":{"k:{\"x\":\"]\"}":{}}},{}]"#);
    assert!(opaque.items().is_err());
    assert!(document.root().get("spec").unwrap().is_some());
    assert!(Document::read(r#"{"managedFields":[{}"#).is_err());
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    fn check(text: &str, message: &str) {
        assert_eq!(Document::read(text).unwrap_err().to_string(), message);
    }
    check("", "not JSON at byte 0: expected a value");
    check("{\"a\" 1}", "not JSON at byte 5: expected `:`");
    check("{\"a\":1,}", "not JSON at byte 7: expected a name in quotes");
    check("[1 2]", "not JSON at byte 3: expected `,` or `]`");
    check("{\"a\":1]", "not JSON at byte 6: expected `,` or `}`");
    check("[01]", "not JSON at byte 2: expected `,` or `]`");
    check("\"a\nb\"", "not JSON at byte 2: expected the end of a string");
    check("\"\\ud800\"", "not JSON at byte 7: expected the second half of a surrogate pair");
    check("\"\\x\"", "not JSON at byte 1: expected an escape such as `\\n`");
    check("nul", "not JSON at byte 0: expected a value");
    check("1 1", "not JSON at byte 2: expected the end of the text");
    check(&"[".repeat(200), "not JSON at byte 128: expected at most 128 levels");
    assert!(Document::read_bytes(&[b'"', 0xff, b'"']).is_err());
}

/// Any JSON value of serde_json's model.
fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "\\PC*".prop_map(Into::into),
        "[\\\\\"\n\t a-z]*".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec(("[a-z\"\\\\]{0,9}", inner), 0..6)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn to_value(node: Node<'_>) -> serde_json::Value {
    match node.entry().shape {
        Shape::Null => serde_json::Value::Null,
        Shape::True | Shape::False => node.bool().unwrap().into(),
        Shape::Number => node.integer().unwrap().into(),
        Shape::Text | Shape::EscapedText => node.str().unwrap().into_owned().into(),
        Shape::Opaque => serde_json::from_str(node.text()).unwrap(),
        Shape::List => node.items().unwrap().map(to_value).collect(),
        Shape::Object => {
            node.fields().unwrap().map(|(key, value)| (key.str().unwrap().into_owned(), to_value(value))).collect()
        }
    }
}

proptest! {
    #[test]
    fn reads_what_serde_json_writes(value in any_value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let document = Document::read(&text).unwrap();
        prop_assert_eq!(to_value(document.root()), value);
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts(text in r#"[\[\]{}:,"\\a-fnrtu0-9eE.+ \n-]{0,24}"#) {
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(Document::read(&text).is_ok(), theirs, "{}", text);
    }

    #[test]
    fn strings_are_written_as_they_are_read(text in any::<String>()) {
        let mut written = String::new();
        write_string(&mut written, &text);
        prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text.clone());
        let document = Document::read(&written).unwrap();
        prop_assert_eq!(document.root().str().unwrap(), text);
    }
}
