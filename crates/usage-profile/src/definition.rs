//! The `UsageProfile` kind: one table of its fields, and the CustomResourceDefinition generated from it.
//!
//! The API server drops fields that are not in the schema, and refuses values of another type and strings and lists
//! longer than a collector writes them, because a policy host copies the stored object for every request. A test checks
//! the table against the output of [`super::manifest`].

use std::fmt::{self, Write};

use headroom_core::cluster::usage::MAX_OOM_KILLS;
use headroom_core::cluster::usage::profile_layout::{GROUP, KIND, VERSION};

use super::bounds::MOST_PARTS;
use super::layout::MOST_NODES;

/// The CustomResourceDefinition of the chart, `deploy/charts/headroom/files/crd.yaml`.
#[derive(Debug, Clone, Copy)]
pub struct CustomResourceDefinition;

/// The label with the root of an object, for listing all objects of a root.
pub const ROOT_LABEL: &str = "headroom.dev/root";

/// The default namespace of the collector.
pub const NAMESPACE: &str = "headroom";

/// The schema of a value.
enum Schema {
    /// Only these fields. If `atomic`, the object is replaced as a whole on apply.
    Object {
        atomic: bool,
        fields: &'static [Field],
    },
    /// An object with at most `most` fields of any name.
    Map {
        most: usize,
        of: &'static Schema,
    },
    List {
        most: usize,
        of: &'static Schema,
    },
    /// At most `most` bytes.
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
        "Collected usage. Absent in an empty root. The collector replaces it as a whole.",
        SPEC,
    )],
};

// Atomic, because the API server would otherwise track field ownership for each figure, which takes as many bytes as
// the figures.
const SPEC: Schema = Schema::Object {
    atomic: true,
    fields: &[
        required("header", "Metadata that readers need.", HEADER),
        optional("summary", "Figures for kubectl's columns. Not used for decisions.", SUMMARY),
        optional(
            "images",
            "Histories of images by repository, with a comma in place of each dot. Absent if they are in pages.",
            Schema::Map { most: MOST_IMAGES, of: &IMAGE },
        ),
    ],
};

/// Never reached: a text of 10,752 bytes has room for no more than a few dozen histories.
const MOST_IMAGES: usize = 64;
const MOST_NAMESPACES: usize = 64;
const MOST_WINDOWS: usize = 3;
const LONGEST_USAGE: usize = 512;
const LONGEST_QUANTITY: usize = 40;
/// Digests, tags and workloads of the greatest length, for each that is kept.
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
            "For pools: fewer namespaces than this cannot move a figure out of the range of the others.",
            Schema::Count { least: 1 },
        ),
        optional(
            "pages",
            "For a root whose images are in pages: the tree of pages. `/` is a fork, followed by its two halves; `#` is a page, whose name ends with the halves that lead to it; `.` is an empty half.",
            Schema::Text { most: MOST_NODES },
        ),
    ],
};

const IMAGE: Schema = Schema::Object {
    atomic: false,
    fields: &[
        optional("pool", "History in all namespaces together, where enough of them agree.", HISTORIES),
        optional("own", "History by namespace.", Schema::Map { most: MOST_NAMESPACES, of: &HISTORIES }),
    ],
};

const HISTORIES: Schema = Schema::Object {
    atomic: false,
    fields: &[
        required("all", "History of all tags together.", ALL),
        optional(
            "tags",
            "Histories by tag or digest, with a comma in place of each dot, except those that `same` names.",
            Schema::Map { most: MOST_PARTS, of: &PART },
        ),
        optional(
            "workloads",
            "In a namespace: histories by `workload/container`, except those that `same` names.",
            Schema::Map { most: MOST_PARTS, of: &PART },
        ),
        optional(
            "estimates",
            "In a namespace: the accuracy of estimates. Not used for decisions.",
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

const ACCURACY_TEXT: &str = "Such as `containers=12 above=1 estimated=1200m used=310m`.";

const ALL: Schema = Schema::Object {
    atomic: false,
    fields: &[
        optional("collectedAt", "When the history was collected, if that was before the whole object.", Schema::Moment),
        optional("same", "Tags, digests and workloads with the same history.", Schema::Text { most: LONGEST_SAME }),
        LAST_SEEN,
        DAYS,
        OOM_KILLS,
        WINDOWS,
    ],
};

const PART: Schema = Schema::Object { atomic: false, fields: &[LAST_SEEN, DAYS, OOM_KILLS, WINDOWS] };

const LAST_SEEN: Field = required("lastSeen", "When a container last ran.", Schema::Moment);
const DAYS: Field =
    optional("days", "Number of days in the longest window on which a container ran.", Schema::Count { least: 0 });
const OOM_KILLS: Field = optional(
    "oomKills",
    "Out-of-memory kills of containers, latest first.",
    Schema::List { most: MAX_OOM_KILLS, of: &OOM_KILL },
);
const WINDOWS: Field = required(
    "windows",
    "Usage in `7d`, `30d`, and `recent`: 30 days, each with half the weight of the next.",
    Schema::Map { most: MOST_WINDOWS, of: &WINDOW },
);

const OOM_KILL: Schema = Schema::Object {
    atomic: false,
    fields: &[
        required("at", "Time of the kill.", Schema::Moment),
        required("memory", "Memory that the container used, or its limit.", Schema::Text { most: LONGEST_QUANTITY }),
    ],
};

const WINDOW: Schema = Schema::Object {
    atomic: false,
    fields: &[
        required("pods", "Number of distinct pods.", Schema::Count { least: 0 }),
        required("namespaces", "Number of distinct namespaces.", Schema::Count { least: 0 }),
        optional("cpu", USAGE_TEXT, Schema::Text { most: LONGEST_USAGE }),
        optional("memory", USAGE_TEXT, Schema::Text { most: LONGEST_USAGE }),
        optional("ephemeral-storage", USAGE_TEXT, Schema::Text { most: LONGEST_USAGE }),
    ],
};

const USAGE_TEXT: &str =
    "Such as `samples=10080 peak=45m 50=12m 90=38m`: the number of samples, the peak, and percentiles by number.";

const SUMMARY: Schema = Schema::Object {
    atomic: false,
    fields: &[
        optional("images", "Number of images; in a root, including its pages.", Schema::Count { least: 0 }),
        optional("histories", "Number of histories of images in namespaces.", Schema::Count { least: 0 }),
        optional("pages", "Number of pages of a root.", Schema::Count { least: 0 }),
        optional("oomKilledImages", "Number of images with out-of-memory kills.", Schema::Count { least: 0 }),
        optional(
            "droppedHistories",
            "Number of histories of images in namespaces that were dropped for lack of room.",
            Schema::Count { least: 0 },
        ),
        optional("droppedTags", "Number of tags that were dropped for lack of room.", Schema::Count { least: 0 }),
    ],
};

const PLURAL: &str = "usageprofiles";
const SINGULAR: &str = "usageprofile";
const SHORT_NAMES: [&str; 2] = ["usage", "uprof"];

/// Name, type, path and priority; columns with priority 1 are only shown by `-o wide`.
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
# Made from crates/usage-profile/src/definition.rs by `cargo run -p headroom-usage-profile --example crd`
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
        schema(f, 10, Some("Usage history of images, from which the policy estimates requests."), &OBJECT)
    }
}

/// Writes one schema as YAML, indented by `indent`.
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

/// A string quoted for YAML.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use headroom_core::timestamp::Timestamp;
    use serde_json::Value;

    /// Asserts that the API server would accept `value` and keep all its fields.
    fn check(place: &str, value: &Value, of: &Schema) {
        match of {
            Schema::Object { fields, .. } => {
                let object = value.as_object().unwrap_or_else(|| panic!("{place} is not an object"));
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
                let fields = value.as_object().unwrap_or_else(|| panic!("{place} is not an object"));
                assert!(fields.len() <= *most, "{place}");
                fields.iter().for_each(|(name, value)| check(&format!("{place}.{name}"), value, of));
            }
            Schema::List { most, of } => {
                let items = value.as_array().unwrap_or_else(|| panic!("{place} is not a list"));
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
    fn every_written_field_is_in_the_schema() {
        let mut written: Value = serde_json::from_str(&sample::profile().to_string()).unwrap();
        for envelope in ["apiVersion", "kind", "metadata"] {
            written.as_object_mut().unwrap().remove(envelope).unwrap();
        }
        check("", &written, &OBJECT);
    }

    #[test]
    fn every_column_shows_a_written_field() {
        let written: Value = serde_json::from_str(&sample::profile().to_string()).unwrap();
        for (name, _, path, _) in COLUMNS {
            assert!(written.pointer(&path.replace('.', "/")).is_some(), "column {name}");
        }
    }

    #[test]
    fn deployed_definition_is_up_to_date() {
        assert!(
            include_str!("../../../deploy/charts/headroom/files/crd.yaml") == CustomResourceDefinition.to_string(),
            "the chart's CustomResourceDefinition is out of date: run `cargo xtask codegen`"
        );
    }
}
