//! The questions, as InfluxQL text. Nothing is sent from here.

use headroom_usage::sample::{Resource, Window};

use crate::cluster_id::LABELS;

/// The schema of Heapster's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// A measurement for each metric, its field called `value`: `cpu/usage_rate`.
    Measurements,
    /// With `withfields=true`: measurement `cpu`, field `usage_rate`.
    Fields,
}

pub const LIST_MEASUREMENTS: &str = "SHOW MEASUREMENTS";

/// Tags that say whose usage it is.
pub const POD: &str = "pod_name";
pub const CONTAINER: &str = "container_name";
pub const IMAGE: &str = "container_base_image";
pub const NAMESPACE: &str = "namespace_name";

impl Schema {
    pub const ALL: [Self; 2] = [Self::Measurements, Self::Fields];

    fn metric(self, resource: Resource) -> (&'static str, &'static str) {
        match (self, resource) {
            (Self::Measurements, Resource::Cpu) => ("cpu/usage_rate", "value"),
            (Self::Fields, Resource::Cpu) => ("cpu", "usage_rate"),
            // InfluxDB is not asked about ephemeral storage.
            (Self::Measurements, _) => ("memory/working_set", "value"),
            (Self::Fields, _) => ("memory", "working_set"),
        }
    }

    /// The name of a resource in this schema, for people.
    pub fn name(self, resource: Resource) -> String {
        match (self, self.metric(resource)) {
            (Self::Measurements, (measurement, _)) => format!("`{measurement}`"),
            (Self::Fields, (measurement, field)) => format!("`{field}` of `{measurement}`"),
        }
    }

    pub fn measurement(self, resource: Resource) -> &'static str {
        self.metric(resource).0
    }
}

/// The factor of values in nanocores or bytes.
pub fn scale(resource: Resource) -> f64 {
    if resource == Resource::Cpu { 1e6 } else { 1.0 }
}

#[derive(Debug, Clone, Copy)]
pub struct Questions<'a> {
    pub schema: Schema,
    /// Put into every question, such as `cluster = 'prod'`; may be empty.
    pub condition: &'a str,
}

impl Questions<'_> {
    /// Usage of one namespace by container, one value a step, with the time of the step's beginning. The peak of memory and the
    /// mean of CPU, which is a mean already. Several points in a step (a finer resolution, a container reported by two
    /// nodes) become one, and a step without any stays a gap.
    pub fn usage(&self, resource: Resource, namespace: &str, window: Window, step_seconds: u32) -> String {
        let (measurement, field) = self.schema.metric(resource);
        let (merged, namespace) = (if resource == Resource::Cpu { "MEAN" } else { "MAX" }, quoted(namespace));
        format!(
            "SELECT {merged}(\"{field}\") FROM \"{measurement}\" WHERE {} AND \"{NAMESPACE}\" = {namespace} AND {} \
             GROUP BY time({step_seconds}s), \"{POD}\", \"{CONTAINER}\", \"{IMAGE}\" fill(none)",
            self.of_containers(),
            within(window),
        )
    }

    /// All namespaces that the index knows, of any time: that costs the store little, and a namespace without data in
    /// a window costs one quick read.
    pub fn namespaces(&self) -> String {
        self.values_of_tags(&format!("= \"{NAMESPACE}\""))
    }

    /// The values of the tags with the cluster's name.
    pub fn clusters(&self) -> String {
        let tags = LABELS.map(|tag| format!("\"{tag}\"")).join(", ");
        self.values_of_tags(&format!("IN ({tags})"))
    }

    fn values_of_tags(&self, keys: &str) -> String {
        let measurement = self.schema.measurement(Resource::Memory);
        format!("SHOW TAG VALUES FROM \"{measurement}\" WITH KEY {keys} WHERE {}", self.of_containers())
    }

    pub fn oldest(&self) -> String {
        let (measurement, field) = self.schema.metric(Resource::Memory);
        // Some time has to be given to those who would else look at the last hour only.
        format!(
            "SELECT \"{field}\" FROM \"{measurement}\" WHERE {} AND time > 0s ORDER BY time ASC LIMIT 1",
            self.of_containers()
        )
    }

    /// The newest points of each container of all namespaces, as they are stored.
    pub fn newest(&self, window: Window) -> String {
        let (measurement, field) = self.schema.metric(Resource::Memory);
        format!(
            "SELECT \"{field}\" FROM \"{measurement}\" WHERE {} AND {} \
             GROUP BY \"{NAMESPACE}\", \"{POD}\", \"{CONTAINER}\", \"{IMAGE}\"",
            self.of_containers(),
            within(window),
        )
    }

    /// Selects containers, without pods and nodes; and adds the condition.
    fn of_containers(&self) -> String {
        let mut text = "\"type\" = 'pod_container'".to_owned();
        if !self.condition.is_empty() {
            text.push_str(&format!(" AND ({})", self.condition));
        }
        text
    }
}

fn within(window: Window) -> String {
    format!("time >= {}s AND time < {}s", window.from, window.to)
}

/// A text from elsewhere as a string of InfluxQL, with nothing in it that could end it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { from: 600, to: 4200 };

    fn check(schema: Schema, resource: Resource, namespace: &str, expected: &str) {
        let questions = Questions { schema, condition: "" };
        assert_eq!(questions.usage(resource, namespace, WINDOW, 60), expected);
    }

    #[test]
    fn usage_is_asked_for_one_value_a_step() {
        check(
            Schema::Measurements,
            Resource::Memory,
            "shop",
            r#"SELECT MAX("value") FROM "memory/working_set" WHERE "type" = 'pod_container' AND "namespace_name" = 'shop' AND time >= 600s AND time < 4200s GROUP BY time(60s), "pod_name", "container_name", "container_base_image" fill(none)"#,
        );
        check(
            Schema::Fields,
            Resource::Cpu,
            "it's\\\n",
            r#"SELECT MEAN("usage_rate") FROM "cpu" WHERE "type" = 'pod_container' AND "namespace_name" = 'it\'s\\\n' AND time >= 600s AND time < 4200s GROUP BY time(60s), "pod_name", "container_name", "container_base_image" fill(none)"#,
        );
    }

    #[test]
    fn a_condition_stands_in_every_question() {
        let of = |schema| Questions { schema, condition: "cluster = 'prod' OR cluster = 'old'" };
        for schema in Schema::ALL {
            let questions = of(schema);
            for question in [
                questions.usage(Resource::Cpu, "shop", WINDOW, 60),
                questions.namespaces(),
                questions.clusters(),
                questions.oldest(),
                questions.newest(WINDOW),
            ] {
                assert!(question.contains("(cluster = 'prod' OR cluster = 'old')"), "{question}");
            }
        }
    }
}
