use proptest::prelude::*;

use super::*;

#[test]
fn an_owned_document_does_not_copy_its_bytes() {
    let text = r#" {"kind":"Pod", "name":"a\"b\u00e9"} "#;
    let bytes = text.as_bytes().to_vec();
    let place = bytes.as_ptr();
    let document: Document<'static> = Document::own(bytes).unwrap();
    assert_eq!(document.text.as_ptr(), place);
    assert_eq!(document.root().text(), Document::read(text).unwrap().root().text());
    assert_eq!(Document::own(b"[1,]".to_vec()).unwrap_err(), Document::read("[1,]").unwrap_err());
    assert_eq!(
        Document::own(vec![b'"', 0xff, b'"']).unwrap_err().to_string(),
        "not JSON at byte 1: expected text in UTF-8"
    );
}

/// Sixteen bytes are checked at once, so every place in a block and next to it is tested.
#[test]
fn an_escape_is_found_at_every_place() {
    for length in 0..40 {
        for at in 0..=length {
            for special in ["\"", "\\", "\n", "\r", "\t", "\u{1f}", "\u{7f}", "é", " "] {
                let text = ["x".repeat(at).as_str(), special, &"y".repeat(length - at)].concat();
                let mut written = String::new();
                write_string_with(&mut written, |out| out.push_str(&text));
                assert_eq!(written, json_string(&text));
                assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
                let long = text.repeat(65);
                assert_eq!(serde_json::from_str::<String>(&json_string(&long)).unwrap(), long);
                assert_eq!(Document::read(&written).unwrap().root().str().unwrap(), text);
                assert_eq!(
                    Document::read(&format!("[{written},{written}]")).unwrap().root().items().unwrap().count(),
                    2
                );
            }
        }
    }
}

/// Sixty-four bytes are skipped at once, so every place in a block and next to it is tested.
#[test]
fn brackets_in_strings_end_nothing_wherever_they_are() {
    for length in 0..140 {
        for text in ["}", "]", "\\\"}", "\\\\", "\\\\\\\"]{", "{["] {
            let skipped = format!(r#"{{"{}":["{text}",{{}}],"{text}":{{"a":[["{text}"]]}}}}"#, "x".repeat(length));
            let list = format!(r#"{{"a":{skipped},"items":[{{"b":[{skipped}],"c":"{text}","d":1}},2]}}"#);
            let mut inside = |part, field: &str| match (part, field) {
                (Part::List, "items") => Part::Object,
                (Part::Object, "d") => Part::Whole,
                _ => Part::Nothing,
            };
            let found = Document::own_first_item(list.into_bytes(), &mut inside).unwrap().unwrap();
            assert_eq!(found.root().get("d").unwrap().unwrap().integer(), Ok(1), "{skipped}");
            // Escapes are read, and so is all else.
            assert_eq!(found.root().get("c").unwrap().is_some(), text.contains('\\'), "{skipped}");
        }
    }
    let unclosed = Document::own_first_item(br#"{"items":[{"a":{"b":"}"#.to_vec(), &mut |_, _| Part::Nothing);
    assert_eq!(unclosed.unwrap_err().to_string(), "not JSON at byte 22: expected the end of a string");
}

/// A trailing `null` removes an earlier value, both for a lookup and for a reader of all fields.
#[test]
fn the_last_field_of_a_name_counts() {
    let document =
        Document::read(r#"{"a":"1","b":"2","c":null,"a":null,"b":"3","\u0063":"4","d":true,"d":null}"#).unwrap();
    let root = document.root();
    let (mut a, mut b, mut c, mut d) = (None, None, None, None);
    for (name, value) in root.fields().unwrap() {
        match name.str().unwrap().as_ref() {
            "a" => a = value.present(),
            "b" => b = value.opt_str().unwrap(),
            "c" => c = value.opt_str().unwrap(),
            _ => d = value.present().map(|value| value.bool().unwrap()),
        }
    }
    assert_eq!((b.as_deref(), c.as_deref()), (Some("3"), Some("4")));
    assert!(a.is_none() && d.is_none());
    assert!(root.get("a").unwrap().is_none() && root.get("d").unwrap().is_none());
    assert_eq!((root.string("b").unwrap(), root.string("c").unwrap()), (b, c));
}

#[test]
fn a_name_may_be_written_with_escapes() {
    for (written, name) in [
        (r"\u0061b", "ab"),
        (r"\u00e9", "é"),
        (r"\ud83d\ude00", "😀"),
        (r"a\\b\/", "a\\b/"),
        (r#"\n\r\t\b\f\""#, "\n\r\t\u{8}\u{c}\""),
    ] {
        let text = format!(r#"{{"{written}":1}}"#);
        let document = Document::read(&text).unwrap();
        let (key, _) = document.root().fields().unwrap().next().unwrap();
        assert_eq!(key.str().unwrap(), name);
        assert!(key.is(name), "{written}");
        for other in [String::new(), format!("{name}x"), format!("x{name}"), name.chars().skip(1).collect()] {
            assert!(!key.is(&other), "{written} is not {other}");
        }
    }
}

#[test]
fn nesting_is_as_deep_as_in_serde_json() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for inner in ["0", "[]", "{}"] {
            for levels in 125..130 {
                let text = [&open.repeat(levels), inner, &close.repeat(levels)].concat();
                let theirs = serde_json::from_str::<serde_json::Value>(&text);
                let ours = Document::read(&text);
                assert_eq!(ours.is_ok(), theirs.is_ok(), "{levels} levels around {inner}");
                if let Ok(document) = ours {
                    assert_eq!(document.root().text(), text);
                }
            }
        }
    }
}

/// The end of a list or an object is found after its last value, past blanks and inner brackets.
#[test]
fn every_span_covers_its_value() {
    let text =
        " { \"a\" : [ [ 1 , { } ] , [ ] , \"b\" ] \t, \"c\" : { \"d\" : { \"e\" : [ { \"f\" : null } ] } \n } } ";
    let document = Document::read(text).unwrap();
    fn check(node: Node<'_>) {
        let span = node.span();
        assert_eq!(&node.document.text[span.clone()], node.text());
        assert_eq!(node.text().trim(), node.text());
        let alone = Document::read(node.text()).unwrap();
        assert_eq!(to_value(alone.root()), to_value(node));
        node.inside().for_each(check);
    }
    check(document.root());
    let c = document.root().get("c").unwrap().unwrap();
    assert_eq!(c.text(), "{ \"d\" : { \"e\" : [ { \"f\" : null } ] } \n }");
}

#[test]
fn errors_are_short_however_long_the_value_is() {
    let long = "a\u{7f}\\n".repeat(100_000);
    let text = format!(r#"[{{"{long}":[[],{{"b.c":"{long}"}}]}}]"#);
    let document = Document::read(&text).unwrap();
    let object = document.root().items().unwrap().next().unwrap();
    let (_, list) = object.fields().unwrap().next().unwrap();
    let value = list.items().unwrap().nth(1).unwrap().get("b.c").unwrap().unwrap();
    for error in [value.bool().unwrap_err(), value.expected("a quantity"), object.items().unwrap_err()] {
        let message = error.to_string();
        assert!(message.chars().count() < 200, "{message}");
        assert!(!message.contains(char::is_control), "{message}");
    }
    assert!(value.path().starts_with("[0][a  a  a"), "{}", value.path());
    assert!(value.path().ends_with("…][1][b.c]"), "{}", value.path());
    let deep = [&"{\"name\":".repeat(127), "0", &"}".repeat(127)].concat();
    let document = Document::read(&deep).unwrap();
    let mut node = document.root();
    while let Ok(Some(inside)) = node.get("name") {
        node = inside;
    }
    let path = node.path();
    assert!(path.starts_with("name.name.") && path.ends_with(".name…"), "{path}");
    assert!(path.len() < 420, "{path}");
}

/// So the table never needs a second allocation.
#[test]
fn the_table_has_an_entry_for_every_two_bytes_at_most() {
    for text in
        ["0", "[]", "[0]", "[0,0]", "[[]]", "[[],[]]", r#"{"":0}"#, r#"{"":0,"":[]}"#, "[[[[0]]]]", "\"\"", " 0 "]
    {
        let table = Document::read(text).unwrap().table;
        assert!(table.len() <= TableEntry::most_in(text.len()), "{text} has {}", table.len());
        assert_eq!(table.capacity(), table.len(), "{text}");
    }
    let text = format!("[{}0]", "0,".repeat(10_000));
    assert_eq!(Document::read(&text).unwrap().table.len(), TableEntry::most_in(text.len()));
}

#[test]
fn a_text_that_is_not_json_is_refused_with_its_place() {
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
    check(&"[".repeat(200), "not JSON at byte 127: expected at most 127 levels");
    check("1,", "not JSON at byte 1: expected the end of the text");
    check("1\0", "not JSON at byte 1: expected the end of the text");
    check("[1\0", "not JSON at byte 2: expected `,` or `]`");
    check("}", "not JSON at byte 0: expected a value");
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
    match node.shape() {
        Shape::Null => serde_json::Value::Null,
        Shape::True | Shape::False => node.bool().unwrap().into(),
        Shape::Number => node.integer().unwrap().into(),
        Shape::Text | Shape::EscapedText => node.str().unwrap().into_owned().into(),
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
        prop_assert!(document.table.len() <= TableEntry::most_in(text.len()));
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts(text in r#"[\[\]{}:,"\\a-fnrtu0-9eE.+ \n-]{0,24}"#) {
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(Document::read(&text).is_ok(), theirs, "{}", text);
    }

    #[test]
    fn of_the_first_item_only_what_is_chosen_is_read(
        values in proptest::collection::vec(any_value(), 3), pretty in any::<bool>(), items in 0..3_usize,
    ) {
        let [before, wanted, after] = &values[..] else { unreachable!() };
        let item = serde_json::json!({"a": before, "metadata": {"a": before, "labels": wanted, "z": after}, "z": after});
        let list = serde_json::json!({"a": before, "items": vec![&item; items], "z": after});
        let text = if pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) }.unwrap();
        let mut inside = |part, field: &str| match (part, field) {
            (Part::List, "items") => Part::Object,
            (Part::Object, "metadata") => Part::Spec,
            (Part::Spec, "labels") => Part::Whole,
            _ => Part::Nothing,
        };
        let found = Document::own_first_item(text.into_bytes(), &mut inside).unwrap();
        let labels = found.as_ref().and_then(|item| item.root().at(&["metadata", "labels"]).unwrap()).map(to_value);
        prop_assert_eq!(found.is_some(), items > 0);
        prop_assert_eq!(labels.as_ref(), Some(wanted).filter(|wanted| items > 0 && !wanted.is_null()));
    }
}
