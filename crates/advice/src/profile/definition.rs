//! The kind as the cluster knows it: one table of what a profile holds, and the CustomResourceDefinition made of it.
//!
//! The API server drops fields that the schema does not name and refuses values of another type, so the table is held
//! to what [`super::manifest`] writes by a test. The histories themselves it neither knows nor checks.

use std::fmt::{self, Write};

use headroom_core::cluster::usage::address::{GROUP, KIND, VERSION};

/// `deploy/crd.yaml`, from its first line to its last.
#[derive(Debug, Clone, Copy)]
pub struct CustomResourceDefinition;

/// What a value may be.
enum Schema {
    /// These fields and no others, each written or refused as a whole if `atomic`.
    Object {
        atomic: bool,
        fields: &'static [Field],
    },
    /// An object of any fields, which the API server neither looks into nor takes apart.
    Opaque,
    Count {
        least: u32,
    },
    Choice(&'static [&'static str]),
    Moment,
}

struct Field {
    name: &'static str,
    /// A sentence for `kubectl explain`.
    description: &'static str,
    required: bool,
    schema: Schema,
}

const fn required(name: &'static str, description: &'static str, schema: Schema) -> Field {
    Field { name, description, required: true, schema }
}

const fn optional(name: &'static str, description: &'static str, schema: Schema) -> Field {
    Field { name, description, required: false, schema }
}

const OBJECT: Schema = Schema::Object {
    atomic: false,
    fields: &[required("spec", "What was collected. The companion writes it as a whole.", SPEC)],
};

// Atomic, because the API server would otherwise note the writer of each figure, in as many bytes as the figures take.
const SPEC: Schema = Schema::Object {
    atomic: true,
    fields: &[
        required(
            "format",
            "The version of the format. Readers ignore a profile of another version.",
            Schema::Count { least: 1 },
        ),
        required(
            "collectedAt",
            "When the figures were collected. Readers ignore a profile that is too old.",
            Schema::Moment,
        ),
        optional(
            "quorum",
            "In a pool: with fewer namespaces than this behind it, nothing moves a figure out of what the others use.",
            Schema::Count { least: 1 },
        ),
        optional("summary", "What kubectl shows. No decision is made by it.", SUMMARY),
        required(
            "images",
            "The images' histories, by the end of the repository's path and a hash of the whole: `repository`, `all` for all tags together, and `tags`, each history with `lastSeen`, `days`, `oomKills` and `windows` (`7d`, `30d`, and `recent`, 30 days of which each weighs half of the next). A window has `pods`, `namespaces`, and of `cpu` and `memory` a text such as `samples=10080 peak=45m 50=12m 90=38m`, its percentiles by their numbers.",
            // With a schema for each figure, server-side apply of a few hundred kilobytes ran into the API server's time
            // limit. Readers check what they read, whoever wrote it.
            Schema::Opaque,
        ),
    ],
};

const SUMMARY: Schema = Schema::Object {
    atomic: false,
    fields: &[
        optional(
            "scope",
            "Whose usage it is: that of this namespace, or that of all, for a share of the images.",
            Schema::Choice(&["namespace", "pool"]),
        ),
        optional("images", "How many images there are.", Schema::Count { least: 0 }),
        optional("tags", "How many tags and digests they have together.", Schema::Count { least: 0 }),
        optional(
            "oomKilledImages",
            "How many images had a container killed because its memory ran out.",
            Schema::Count { least: 0 },
        ),
        optional("droppedImages", "How many images found no room.", Schema::Count { least: 0 }),
        optional("droppedTags", "How many tags found no room.", Schema::Count { least: 0 }),
    ],
};

const PLURAL: &str = "usageprofiles";
const SINGULAR: &str = "usageprofile";
const SHORT_NAMES: [&str; 2] = ["usage", "uprof"];

/// Name, type, path, and 1 for those that only `-o wide` shows.
const COLUMNS: [(&str, &str, &str, u8); 7] = [
    ("Scope", "string", ".spec.summary.scope", 0),
    ("Images", "integer", ".spec.summary.images", 0),
    ("Tags", "integer", ".spec.summary.tags", 0),
    ("OOM-Killed", "integer", ".spec.summary.oomKilledImages", 0),
    ("Collected", "date", ".spec.collectedAt", 0),
    ("Dropped-Images", "integer", ".spec.summary.droppedImages", 1),
    ("Dropped-Tags", "integer", ".spec.summary.droppedTags", 1),
];

impl fmt::Display for CustomResourceDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\
# Made from crates/advice/src/profile/definition.rs by `cargo run -p headroom-advice --example crd`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {PLURAL}.{GROUP}
spec:
  group: {GROUP}
  scope: Namespaced
  names:
    kind: {KIND}
    listKind: {KIND}List
    plural: {PLURAL}
    singular: {SINGULAR}
    shortNames: [{}]
  versions:
    - name: {VERSION}
      served: true
      storage: true
      additionalPrinterColumns:
",
            SHORT_NAMES.join(", ")
        )?;
        for (name, of_type, path, priority) in COLUMNS {
            writeln!(f, "        - name: {name}")?;
            writeln!(f, "          type: {of_type}")?;
            writeln!(f, "          jsonPath: {path}")?;
            if priority > 0 {
                writeln!(f, "          priority: {priority}")?;
            }
        }
        writeln!(f, "      schema:")?;
        writeln!(f, "        openAPIV3Schema:")?;
        schema(f, 10, Some("What images have used before, for estimating what their containers need."), &OBJECT)
    }
}

/// One schema in YAML, each line this far to the right.
fn schema(out: &mut impl Write, indent: usize, description: Option<&str>, of: &Schema) -> fmt::Result {
    let here = " ".repeat(indent);
    if let Some(description) = description {
        writeln!(out, "{here}description: {}", quoted(description))?;
    }
    match of {
        Schema::Object { atomic, fields } => {
            writeln!(out, "{here}type: object")?;
            if *atomic {
                writeln!(out, "{here}x-kubernetes-map-type: atomic")?;
            }
            let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
            if !required.is_empty() {
                writeln!(out, "{here}required: [{}]", required.join(", "))?;
            }
            writeln!(out, "{here}properties:")?;
            fields.iter().try_for_each(|field| {
                writeln!(out, "{here}  {}:", field.name)?;
                schema(out, indent + 4, Some(field.description), &field.schema)
            })
        }
        Schema::Opaque => {
            writeln!(out, "{here}type: object")?;
            writeln!(out, "{here}x-kubernetes-map-type: atomic")?;
            writeln!(out, "{here}x-kubernetes-preserve-unknown-fields: true")
        }
        Schema::Count { least } => {
            writeln!(out, "{here}type: integer\n{here}format: int64\n{here}minimum: {least}")
        }
        Schema::Choice(choices) => writeln!(out, "{here}type: string\n{here}enum: [{}]", choices.join(", ")),
        Schema::Moment => writeln!(out, "{here}type: string\n{here}format: date-time"),
    }
}

/// A text as YAML takes it whatever stands in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use headroom_core::timestamp::Timestamp;
    use serde_json::Value;

    /// Whether the API server would take `value` and keep all of it; panics with the place where not.
    fn check(place: &str, value: &Value, of: &Schema) {
        match of {
            Schema::Object { fields, .. } => {
                let object = value.as_object().unwrap_or_else(|| panic!("{place} is no object"));
                for field in fields.iter().filter(|field| field.required) {
                    assert!(object.contains_key(field.name), "{place} has no {}", field.name);
                }
                for (name, value) in object {
                    let field = fields.iter().find(|field| field.name == name);
                    let field = field.unwrap_or_else(|| panic!("{place}.{name} is not in the schema"));
                    check(&format!("{place}.{name}"), value, &field.schema);
                }
            }
            Schema::Opaque => assert!(value.is_object(), "{place} is no object"),
            Schema::Count { least } => {
                assert!(value.as_u64().is_some_and(|count| count >= u64::from(*least)), "{place}")
            }
            Schema::Choice(choices) => assert!(value.as_str().is_some_and(|text| choices.contains(&text)), "{place}"),
            Schema::Moment => assert!(value.as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok()), "{place}"),
        }
    }

    #[test]
    fn the_schema_knows_every_field_that_is_written() {
        let mut written: Value = serde_json::from_str(&sample::profile().to_string()).unwrap();
        for envelope in ["apiVersion", "kind", "metadata"] {
            written.as_object_mut().unwrap().remove(envelope).unwrap();
        }
        check("", &written, &OBJECT);
    }

    #[test]
    fn every_column_shows_a_field_that_is_written() {
        let written: Value = serde_json::from_str(&sample::profile().to_string()).unwrap();
        for (name, _, path, _) in COLUMNS {
            assert!(written.pointer(&path.replace('.', "/")).is_some(), "column {name}");
        }
    }

    #[test]
    fn the_deployed_definition_is_this_one() {
        assert!(
            include_str!("../../../../deploy/crd.yaml") == CustomResourceDefinition.to_string(),
            "deploy/crd.yaml is out of date: cargo run -p headroom-advice --example crd > deploy/crd.yaml"
        );
    }
}
