//! The types of the page's TypeScript are those of what the engine answers: `playground/site/src/answers.ts` is made of the Rust
//! types, and written anew by `UPDATE_EXPECT=1`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a type that it does not know")]

use std::path::Path;

use expect_test::expect_file;
use headroom_playground::example::Example;
use headroom_playground::play::Outcome;
use headroom_playground::replay::Files;
use headroom_playground::whatif::{Overview, Trial};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

#[test]
fn typescript_has_the_types_that_the_engine_answers() {
    let mut generator = SchemaSettings::default().for_serialize().into_generator();
    generator.subschema_for::<Outcome>();
    generator.subschema_for::<Overview>();
    generator.subschema_for::<Trial>();
    generator.subschema_for::<Files>();
    generator.subschema_for::<Example>();
    let mut text = "// Made of the engine's types by playground/engine/tests/engine/types.rs.\n".to_owned();
    for (name, schema) in generator.definitions() {
        text.push_str(&format!("\n{}", comment(schema, "")));
        match schema.get("properties") {
            Some(_) => text.push_str(&format!("export interface {name} {}\n", interface(schema))),
            None => text.push_str(&format!("export type {name} = {};\n", typescript(schema))),
        }
    }
    expect_file![Path::new(env!("CARGO_MANIFEST_DIR")).join("../site/src/answers.ts")].assert_eq(&text);
}

fn interface(schema: &Value) -> String {
    let required = list(schema, "required");
    let mut text = "{\n".to_owned();
    for (name, property) in schema.get("properties").and_then(Value::as_object).unwrap_or(&Map::new()) {
        let written = typescript(property);
        // A field that may be left out is never null.
        let (optional, written) = match required.iter().any(|one| *one == **name) {
            true => ("", written.as_str()),
            false => ("?", written.trim_end_matches(" | null")),
        };
        text.push_str(&format!("{}  {name}{optional}: {written};\n", comment(property, "  ")));
    }
    text + "}"
}

fn typescript(schema: &Value) -> String {
    let union = |all: &[Value]| all.iter().map(typescript).collect::<Vec<_>>().join(" | ");
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return reference.rsplit('/').next().unwrap().to_owned();
    }
    for one_of in ["oneOf", "anyOf"] {
        if !list(schema, one_of).is_empty() {
            return union(list(schema, one_of));
        }
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    if !list(schema, "enum").is_empty() {
        return list(schema, "enum").iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema.get("type") {
        Some(Value::Array(types)) => {
            let one = |kind: &Value| typescript_of(kind.as_str().unwrap(), schema);
            types.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        Some(Value::String(kind)) => typescript_of(kind, schema),
        _ => "unknown".to_owned(),
    }
}

fn typescript_of(kind: &str, schema: &Value) -> String {
    let inner = |field: &str| schema.get(field).map(typescript);
    match kind {
        "string" | "boolean" | "null" => kind.to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" if !list(schema, "prefixItems").is_empty() => {
            format!("[{}]", list(schema, "prefixItems").iter().map(typescript).collect::<Vec<_>>().join(", "))
        }
        "array" => match inner("items").unwrap() {
            union if union.contains(' ') => format!("({union})[]"),
            item => format!("{item}[]"),
        },
        "object" => match inner("additionalProperties") {
            Some(value) => format!("Record<string, {value}>"),
            None => "object".to_owned(),
        },
        other => panic!("{other} is no type of JSON"),
    }
}

fn list<'s>(schema: &'s Value, field: &str) -> &'s [Value] {
    schema.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The documentation of the Rust type.
fn comment(schema: &Value, indent: &str) -> String {
    let text = schema.get("description").and_then(Value::as_str);
    text.map(|text| format!("{indent}/** {} */\n", text.replace('\n', " "))).unwrap_or_default()
}
