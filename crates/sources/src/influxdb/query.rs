//! The questions, as InfluxQL text. Nothing is sent from here.

use std::fmt;

use headroom_usage::sample::{Resource, Window};

/// The schema of the data, by its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// Heapster's: a measurement for each metric, its field called `value`: `cpu/usage_rate`.
    Measurements,
    /// Heapster's with `withfields=true`: measurement `cpu`, field `usage_rate`.
    Fields,
    /// Telegraf's: usage from its input `kubernetes`, images from its input `kube_inventory`, in one measurement.
    Telegraf,
}

pub const LIST_MEASUREMENTS: &str = "SHOW MEASUREMENTS";

/// Tags that say whose usage it is.
pub const POD: &str = "pod_name";
pub const CONTAINER: &str = "container_name";
/// Heapster's.
pub const IMAGE: &str = "container_base_image";
/// Telegraf's, in two parts.
pub const IMAGE_NAME: &str = "image";
pub const IMAGE_VERSION: &str = "version";

const KILLED: &str = "OOMKilled";
const DAY_SECONDS: i64 = 86_400;
/// Telegraf writes its inventory rarely: images are searched for in this time before a window.
const INVENTORY_SECONDS: i64 = 3_600;

impl Schema {
    pub const ALL: [Self; 3] = [Self::Measurements, Self::Fields, Self::Telegraf];

    fn metric(self, resource: Resource) -> (&'static str, &'static str) {
        match (self, resource) {
            (Self::Measurements, Resource::Cpu) => ("cpu/usage_rate", "value"),
            (Self::Measurements, Resource::Memory) => ("memory/working_set", "value"),
            (Self::Fields, Resource::Cpu) => ("cpu", "usage_rate"),
            (Self::Fields, Resource::Memory) => ("memory", "working_set"),
            (Self::Telegraf, Resource::Cpu) => ("kubernetes_pod_container", "cpu_usage_nanocores"),
            (Self::Telegraf, Resource::Memory) => ("kubernetes_pod_container", "memory_working_set_bytes"),
            // Only Telegraf has it by container.
            (_, Resource::EphemeralStorage) => ("kubernetes_pod_container", "rootfs_used_bytes"),
        }
    }

    /// The factor of values in nanocores or bytes.
    pub fn scale(self, resource: Resource) -> f64 {
        match (self, resource) {
            (Self::Measurements | Self::Fields, Resource::Cpu) => 1e6,
            _ => 1.0,
        }
    }

    pub fn writer(self) -> &'static str {
        match self {
            Self::Measurements | Self::Fields => "Heapster",
            Self::Telegraf => "Telegraf",
        }
    }

    /// The name of a resource in this schema, for people.
    pub fn name(self, resource: Resource) -> String {
        match (self, self.metric(resource)) {
            (Self::Measurements, (measurement, _)) => format!("`{measurement}`"),
            (Self::Fields | Self::Telegraf, (measurement, field)) => format!("`{field}` of `{measurement}`"),
        }
    }

    /// The measurement that has this resource.
    pub fn measurement(self, resource: Resource) -> &'static str {
        self.metric(resource).0
    }

    /// The tag with the namespace.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Measurements | Self::Fields => "namespace_name",
            Self::Telegraf => "namespace",
        }
    }

    /// Returns true if usage is tagged with the image.
    pub fn has_images_on_usage(self) -> bool {
        self != Self::Telegraf
    }
}

/// The usual tags with the cluster's name.
const CLUSTER_TAGS: [&str; 5] = ["cluster", "cluster_name", "k8s_cluster", "k8s_cluster_name", "cluster_id"];

/// Builds questions for one database.
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
    pub fn usage(&self, resource: Resource, namespace: Literal<'_>, window: Window, step_seconds: u32) -> String {
        let (measurement, field) = self.schema.metric(resource);
        let amount = match resource {
            Resource::Cpu => format!("MEAN(\"{field}\")"),
            Resource::Memory => format!("MAX(\"{field}\")"),
            // Logs are apart.
            Resource::EphemeralStorage => format!("MAX(\"{field}\") + MAX(\"logsfs_used_bytes\")"),
        };
        format!(
            "SELECT {amount} FROM \"{measurement}\" WHERE {}\"{}\" = {namespace} AND {} \
             GROUP BY time({step_seconds}s), {} fill(none)",
            self.of_containers(),
            self.schema.namespace(),
            within(window),
            self.container(),
        )
    }

    /// The last time of each image of each container of a namespace, up to the window's end.
    pub fn images(&self, namespace: Literal<'_>, window: Window) -> String {
        let Window { from, to } = window;
        format!(
            "SELECT LAST(\"restarts_total\") FROM \"{}\" WHERE {}\"{}\" = {namespace} AND \"{IMAGE_NAME}\" != '' AND {} \
             GROUP BY \"{POD}\", \"{CONTAINER}\", \"{IMAGE_NAME}\", \"{IMAGE_VERSION}\"",
            self.schema.measurement(Resource::Memory),
            self.of_containers(),
            self.schema.namespace(),
            within(Window { from: from - INVENTORY_SECONDS, to }),
        )
    }

    /// The first time within a day before the window's end at which each container was terminated by an OOM kill, with its
    /// limit. One that stays down, as a job's does, is reported again each time, but its first time is in one window
    /// only.
    pub fn kills(&self, namespace: Literal<'_>, window: Window) -> String {
        let Window { from, to } = window;
        format!(
            "SELECT FIRST(\"resource_limits_memory_bytes\") FROM \"{}\" WHERE {}\"{}\" = {namespace} AND {} \
             AND (\"state_reason\" = '{KILLED}' OR \"terminated_reason\" = '{KILLED}') GROUP BY \"{POD}\", \"{CONTAINER}\"",
            self.schema.measurement(Resource::Memory),
            self.of_containers(),
            self.schema.namespace(),
            within(Window { from: from - DAY_SECONDS, to }),
        )
    }

    /// All namespaces that the index knows, of any time: that costs the store little, and a namespace without data in
    /// a window costs one quick read.
    pub fn namespaces(&self) -> String {
        format!("{} = \"{}\"{}", self.values_of_tags(), self.schema.namespace(), self.where_containers())
    }

    /// The values of the tags with the cluster's name.
    pub fn clusters(&self) -> String {
        let tags = CLUSTER_TAGS.map(|tag| format!("\"{tag}\"")).join(", ");
        format!("{} IN ({tags}){}", self.values_of_tags(), self.where_containers())
    }

    fn values_of_tags(&self) -> String {
        format!("SHOW TAG VALUES FROM \"{}\" WITH KEY", self.schema.measurement(Resource::Memory))
    }

    fn where_containers(&self) -> String {
        match self.of_containers().strip_suffix(" AND ") {
            None => String::new(),
            Some(condition) => format!(" WHERE {condition}"),
        }
    }

    /// The oldest point there is.
    pub fn oldest(&self) -> String {
        let (measurement, field) = self.schema.metric(Resource::Memory);
        // Some time has to be given to those who would else look at the last hour only.
        format!(
            "SELECT \"{field}\" FROM \"{measurement}\" WHERE {}time > 0s ORDER BY time ASC LIMIT 1",
            self.of_containers()
        )
    }

    /// The newest points of each container of all namespaces, as they are stored.
    pub fn newest(&self, window: Window) -> String {
        let (measurement, field) = self.schema.metric(Resource::Memory);
        format!(
            "SELECT \"{field}\" FROM \"{measurement}\" WHERE {}{} GROUP BY \"{}\", {}",
            self.of_containers(),
            within(window),
            self.schema.namespace(),
            self.container(),
        )
    }

    /// Selects containers, without pods and nodes, for which Telegraf has measurements of their own; and adds the
    /// condition.
    fn of_containers(&self) -> String {
        let mut text = match self.schema {
            Schema::Measurements | Schema::Fields => "\"type\" = 'pod_container' AND ".to_owned(),
            Schema::Telegraf => String::new(),
        };
        if !self.condition.is_empty() {
            text.push_str(&format!("({}) AND ", self.condition));
        }
        text
    }

    /// The tags of a container in its namespace, and its image if that is a tag.
    fn container(&self) -> String {
        let image = if self.schema.has_images_on_usage() { format!(", \"{IMAGE}\"") } else { String::new() };
        format!("\"{POD}\", \"{CONTAINER}\"{image}")
    }
}

fn within(window: Window) -> String {
    format!("time >= {}s AND time < {}s", window.from, window.to)
}

/// A text from elsewhere as a string of InfluxQL, with nothing in it that could end it.
#[derive(Debug, Clone, Copy)]
pub struct Literal<'a>(pub &'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { from: 600, to: 4200 };

    fn check(schema: Schema, resource: Resource, namespace: &str, expected: &str) {
        let questions = Questions { schema, condition: "" };
        assert_eq!(questions.usage(resource, Literal(namespace), WINDOW, 60), expected);
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
        check(
            Schema::Telegraf,
            Resource::Cpu,
            "shop",
            r#"SELECT MEAN("cpu_usage_nanocores") FROM "kubernetes_pod_container" WHERE "namespace" = 'shop' AND time >= 600s AND time < 4200s GROUP BY time(60s), "pod_name", "container_name" fill(none)"#,
        );
        check(
            Schema::Telegraf,
            Resource::EphemeralStorage,
            "shop",
            r#"SELECT MAX("rootfs_used_bytes") + MAX("logsfs_used_bytes") FROM "kubernetes_pod_container" WHERE "namespace" = 'shop' AND time >= 600s AND time < 4200s GROUP BY time(60s), "pod_name", "container_name" fill(none)"#,
        );
    }

    #[test]
    fn a_condition_stands_in_every_question() {
        let of = |schema| Questions { schema, condition: "cluster = 'prod' OR cluster = 'old'" };
        for schema in Schema::ALL {
            let questions = of(schema);
            for question in [
                questions.usage(Resource::Cpu, Literal("shop"), WINDOW, 60),
                questions.images(Literal("shop"), WINDOW),
                questions.kills(Literal("shop"), WINDOW),
                questions.namespaces(),
                questions.clusters(),
                questions.oldest(),
                questions.newest(WINDOW),
            ] {
                assert!(question.contains("(cluster = 'prod' OR cluster = 'old')"), "{question}");
            }
        }
        assert_eq!(
            of(Schema::Telegraf).namespaces(),
            "SHOW TAG VALUES FROM \"kubernetes_pod_container\" WITH KEY = \"namespace\" WHERE (cluster = 'prod' OR cluster = 'old')"
        );
    }
}
