//! Compares the JSON reader with serde_json: both must accept the same texts, with the same values.

#![no_main]

use headroom_admission::json::{Document, Malformed, Node, json_string, write_string_with};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|bytes: &[u8]| {
    let theirs = match serde_json::from_slice::<Value>(bytes) {
        // serde_json refuses numbers beyond a float, which are valid syntax.
        Err(error) if error.to_string().starts_with("number out of range") => return,
        theirs => theirs.ok(),
    };
    let ours = Document::read_bytes(bytes);
    assert_eq!(ours.is_ok(), theirs.is_some(), "ours: {:?}", ours.err());
    let owned = Document::own(bytes.to_vec());
    match (&ours, &owned, theirs) {
        (Ok(ours), Ok(owned), Some(theirs)) => {
            let root = ours.root();
            assert_eq!(value_of(root), Ok(theirs.clone()));
            assert_eq!(root.text(), owned.root().text());
            check(root, &theirs);
        }
        (Err(ours), Err(owned), None) => assert_eq!(ours, owned),
        _ => panic!("an owned document is read differently"),
    }
});

/// The value as serde_json reads it: the last field of a name counts.
fn value_of(node: Node<'_>) -> Result<Value, Malformed> {
    if let Ok(fields) = node.fields() {
        let mut object = Map::new();
        for (name, value) in fields {
            object.insert(name.str()?.into_owned(), value_of(value)?);
        }
        return Ok(Value::Object(object));
    }
    if let Ok(items) = node.items() {
        return items.map(value_of).collect();
    }
    if let Ok(text) = node.str() {
        return Ok(Value::String(text.into_owned()));
    }
    if let Ok(truth) = node.bool() {
        return Ok(Value::Bool(truth));
    }
    Ok(if node.is_null() { Value::Null } else { serde_json::from_str(node.text()).expect("a number") })
}

/// Checks the other functions of a value.
fn check(node: Node<'_>, theirs: &Value) {
    assert_eq!(serde_json::from_str::<Value>(node.text()).as_ref().ok(), Some(theirs));
    assert_eq!(node.span().len(), node.text().len());
    match theirs {
        Value::Object(theirs) => {
            for (name, value) in theirs {
                let found = node.get(name).expect("an object");
                assert_eq!(found.is_none(), value.is_null());
                let same_name = node.fields().expect("an object").filter(|(key, _)| key.is(name));
                let last = same_name.last().and_then(|(_, last)| last.present());
                assert_eq!(last.map(Node::span), found.map(Node::span));
                if let Some(found) = found {
                    assert!(node.span().start < found.span().start && found.span().end < node.span().end);
                    check(found, value);
                }
            }
        }
        Value::Array(theirs) => {
            let items: Vec<_> = node.items().expect("a list").collect();
            assert_eq!(items.len(), theirs.len());
            items.into_iter().zip(theirs).for_each(|(item, theirs)| check(item, theirs));
        }
        Value::String(theirs) => {
            let written = json_string(theirs);
            assert_eq!(serde_json::from_str::<String>(&written).as_ref().ok(), Some(theirs));
            let mut also_written = String::new();
            write_string_with(&mut also_written, |out| out.push_str(theirs));
            assert_eq!(also_written, written);
        }
        Value::Number(_) => assert_eq!(node.integer().ok(), node.text().parse().ok()),
        Value::Null | Value::Bool(_) => {}
    }
    let message = node.expected("something else").to_string();
    assert!(message.chars().count() < 600, "{message}");
    assert!(!message.contains(char::is_control), "{message}");
}
