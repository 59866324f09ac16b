//! The kind as the cluster knows it: one table of what a profile holds, and the CustomResourceDefinition made of it.
//!
//! The API server drops fields that the schema does not name and refuses values of another type, and texts and lists that
//! are longer than a collector ever writes them: a policy host copies what is stored for every request. A test holds the
//! table to what [`super::manifest`] writes.

use std::fmt::{self, Write};

use headroom_core::cluster::usage::address::{API_VERSION, GROUP, KIND, VERSION};
use headroom_core::cluster::usage::{MOST_OOM_KILLS, Root};

use super::bounds::MOST_PARTS;
use super::layout::MOST_NODES;

/// `deploy/crd.yaml`, from its first line to its last.
#[derive(Debug, Clone, Copy)]
pub struct CustomResourceDefinition;

/// `deploy/roots.yaml`: every root, for clusters in which the policy is there before a collector is. A policy host asks the
/// API server for what is not there on every request. They have no `spec`, so that the collector may give them one.
#[derive(Debug, Clone, Copy)]
pub struct EmptyRoots;

/// The label by which the objects of a root are found.
pub const ROOT_LABEL: &str = "headroom.dev/root";

/// Where the collector writes unless it is told otherwise.
pub const NAMESPACE: &str = "headroom";

impl fmt::Display for EmptyRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "# Made from crates/advice/src/profile/definition.rs by `cargo run -p headroom-advice --example roots`\n",
        )?;
        Root::all().try_for_each(|root| {
            write!(
                f,
                "\
---
apiVersion: {API_VERSION}
kind: {KIND}
metadata:
  name: {root}
  namespace: {NAMESPACE}
  labels: {{{ROOT_LABEL}: {root}}}
"
            )
        })
    }
}

/// What a value may be.
enum Schema {
    /// These fields and no others, each written or refused as a whole if `atomic`.
    Object {
        atomic: bool,
        fields: &'static [Field],
    },
    /// An object of at most so many fields of any name.
    Map {
        most: usize,
        of: &'static Schema,
    },
    List {
        most: usize,
        of: &'static Schema,
    },
    /// Of at most so many bytes.
    Text {
        most: usize,
    },
    Count {
        least: u32,
    },
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
    fields: &[optional(
        "spec",
        "What was collected; none yet in an empty root. The companion writes it as a whole.",
        SPEC,
    )],
};

// Atomic, because the API server would otherwise note the writer of each figure, in as many bytes as the figures take.
const SPEC: Schema = Schema::Object {
    atomic: true,
    fields: &[
        required("header", "What a reader has to know of the object.", HEADER),
        optional("summary", "What kubectl shows. No decision is made by it.", SUMMARY),
        optional(
            "images",
            "The images' histories, by the repository with a comma for each dot. None where they are in pages.",
            Schema::Map { most: MOST_IMAGES, of: &IMAGE },
        ),
    ],
};

/// None of them reached: a text of 10,752 bytes has room for no more than a few dozen histories.
const MOST_IMAGES: usize = 64;
const MOST_NAMESPACES: usize = 64;
const MOST_WINDOWS: usize = 3;
const LONGEST_USAGE: usize = 512;
const LONGEST_QUANTITY: usize = 40;
/// A digest, or a tag or workload as long as they may be, for each of those that are kept.
const LONGEST_SAME: usize = 2 * MOST_PARTS * 320;

const HEADER: Schema = Schema::Object {
    atomic: false,
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
            "Of a pool: with fewer namespaces than this behind it, nothing moves a figure out of what the others use.",
            Schema::Count { least: 1 },
        ),
        optional(
            "pages",
            "Of a root whose images are in pages: which pages there are, as a tree. A `/` is a fork with its two halves behind it, a `#` a page whose name ends with the halves taken, a `.` is nothing.",
            Schema::Text { most: MOST_NODES },
        ),
    ],
};

const IMAGE: Schema = Schema::Object {
    atomic: false,
    fields: &[
        optional("pool", "In all namespaces together, as far as enough of them agree.", HISTORIES),
        optional("own", "In each namespace.", Schema::Map { most: MOST_NAMESPACES, of: &HISTORIES }),
    ],
};

const HISTORIES: Schema = Schema::Object {
    atomic: false,
    fields: &[
        required("all", "All tags together.", ALL),
        optional(
            "tags",
            "Tags and digests with a comma for each dot, except those that `same` names.",
            Schema::Map { most: MOST_PARTS, of: &PART },
        ),
        optional(
            "workloads",
            "Of a namespace: the containers of each workload, as `workload/container`, except those that `same` names.",
            Schema::Map { most: MOST_PARTS, of: &PART },
        ),
        optional(
            "estimates",
            "Of a namespace: how good estimates were. No decision is made by it.",
            Schema::Object {
                atomic: false,
                fields: &[
                    optional("cpu", ACCURACY_TEXT, Schema::Text { most: LONGEST_USAGE }),
                    optional("memory", ACCURACY_TEXT, Schema::Text { most: LONGEST_USAGE }),
                    optional("ephemeral-storage", ACCURACY_TEXT, Schema::Text { most: LONGEST_USAGE }),
                ],
            },
        ),
    ],
};

const ACCURACY_TEXT: &str = "A text such as `containers=12 above=1 estimated=1200m used=310m`.";

const ALL: Schema = Schema::Object {
    atomic: false,
    fields: &[
        optional("collectedAt", "If that was before the whole object was collected.", Schema::Moment),
        optional("same", "Tags, digests and workloads with this very history.", Schema::Text { most: LONGEST_SAME }),
        LAST_SEEN,
        DAYS,
        OOM_KILLS,
        WINDOWS,
    ],
};

const PART: Schema = Schema::Object { atomic: false, fields: &[LAST_SEEN, DAYS, OOM_KILLS, WINDOWS] };

const LAST_SEEN: Field = required("lastSeen", "When a container last ran.", Schema::Moment);
const DAYS: Field =
    optional("days", "On how many days of the longest window there was one.", Schema::Count { least: 0 });
const OOM_KILLS: Field = optional(
    "oomKills",
    "Containers killed because their memory ran out, the latest first.",
    Schema::List { most: MOST_OOM_KILLS, of: &OOM_KILL },
);
const WINDOWS: Field = required(
    "windows",
    "`7d`, `30d`, and `recent`, 30 days of which each weighs half of the next.",
    Schema::Map { most: MOST_WINDOWS, of: &WINDOW },
);

const OOM_KILL: Schema = Schema::Object {
    atomic: false,
    fields: &[
        required("at", "When.", Schema::Moment),
        required("memory", "What it used, or was limited to.", Schema::Text { most: LONGEST_QUANTITY }),
    ],
};

const WINDOW: Schema = Schema::Object {
    atomic: false,
    fields: &[
        required("pods", "Distinct pods behind the figures.", Schema::Count { least: 0 }),
        required("namespaces", "Distinct namespaces behind the figures.", Schema::Count { least: 0 }),
        optional("cpu", USAGE_TEXT, Schema::Text { most: LONGEST_USAGE }),
        optional("memory", USAGE_TEXT, Schema::Text { most: LONGEST_USAGE }),
        optional("ephemeral-storage", USAGE_TEXT, Schema::Text { most: LONGEST_USAGE }),
    ],
};

const USAGE_TEXT: &str = "A text such as `samples=10080 peak=45m 50=12m 90=38m`, its percentiles by their numbers.";

const SUMMARY: Schema = Schema::Object {
    atomic: false,
    fields: &[
        optional("images", "How many images there are, in a root with its pages.", Schema::Count { least: 0 }),
        optional("histories", "In how many namespaces they run, added up.", Schema::Count { least: 0 }),
        optional("pages", "How many pages a root has.", Schema::Count { least: 0 }),
        optional(
            "oomKilledImages",
            "How many images had a container killed because its memory ran out.",
            Schema::Count { least: 0 },
        ),
        optional("droppedHistories", "How many images in namespaces found no room.", Schema::Count { least: 0 }),
        optional("droppedTags", "How many tags found no room.", Schema::Count { least: 0 }),
    ],
};

const PLURAL: &str = "usageprofiles";
const SINGULAR: &str = "usageprofile";
const SHORT_NAMES: [&str; 2] = ["usage", "uprof"];

/// Name, type, path, and 1 for those that only `-o wide` shows.
const COLUMNS: [(&str, &str, &str, u8); 7] = [
    ("Images", "integer", ".spec.summary.images", 0),
    ("Histories", "integer", ".spec.summary.histories", 0),
    ("Pages", "integer", ".spec.summary.pages", 0),
    ("OOM-Killed", "integer", ".spec.summary.oomKilledImages", 0),
    ("Collected", "date", ".spec.header.collectedAt", 0),
    ("Dropped-Histories", "integer", ".spec.summary.droppedHistories", 1),
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
        Schema::Map { most, of } => {
            writeln!(out, "{here}type: object\n{here}maxProperties: {most}\n{here}additionalProperties:")?;
            schema(out, indent + 2, None, of)
        }
        Schema::List { most, of } => {
            writeln!(out, "{here}type: array\n{here}maxItems: {most}\n{here}items:")?;
            schema(out, indent + 2, None, of)
        }
        Schema::Text { most } => writeln!(out, "{here}type: string\n{here}maxLength: {most}"),
        Schema::Count { least } => {
            writeln!(out, "{here}type: integer\n{here}format: int64\n{here}minimum: {least}")
        }
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
            Schema::Map { most, of } => {
                let fields = value.as_object().unwrap_or_else(|| panic!("{place} is no object"));
                assert!(fields.len() <= *most, "{place}");
                fields.iter().for_each(|(name, value)| check(&format!("{place}.{name}"), value, of));
            }
            Schema::List { most, of } => {
                let items = value.as_array().unwrap_or_else(|| panic!("{place} is no list"));
                assert!(items.len() <= *most, "{place}");
                items.iter().for_each(|item| check(&format!("{place}[]"), item, of));
            }
            Schema::Text { most } => assert!(value.as_str().is_some_and(|text| text.len() <= *most), "{place}"),
            Schema::Count { least } => {
                assert!(value.as_u64().is_some_and(|count| count >= u64::from(*least)), "{place}")
            }
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
    fn the_deployed_roots_are_these() {
        assert!(
            include_str!("../../../../deploy/roots.yaml") == EmptyRoots.to_string(),
            "deploy/roots.yaml is out of date: cargo run -p headroom-advice --example roots > deploy/roots.yaml"
        );
    }

    #[test]
    fn the_deployed_definition_is_this_one() {
        assert!(
            include_str!("../../../../deploy/crd.yaml") == CustomResourceDefinition.to_string(),
            "deploy/crd.yaml is out of date: cargo run -p headroom-advice --example crd > deploy/crd.yaml"
        );
    }
}
