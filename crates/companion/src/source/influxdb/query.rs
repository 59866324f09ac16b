//! The questions, as InfluxQL text. Nothing is sent from here.

use crate::source::{Resource, Window};

/// How Heapster laid out its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// A measurement for each metric, its field called `value`: `cpu/usage_rate`.
    Measurements,
    /// With Heapster's `withfields=true`: measurement `cpu`, field `usage_rate`.
    Fields,
}

pub const LIST_MEASUREMENTS: &str = "SHOW MEASUREMENTS";

/// Tags that say whose usage it is.
pub const POD: &str = "pod_name";
pub const CONTAINER: &str = "container_name";
pub const IMAGE: &str = "container_base_image";
pub const NAMESPACE: &str = "namespace_name";

impl Schema {
    fn metric(self, resource: Resource) -> (&'static str, &'static str) {
        match (self, resource) {
            (Self::Measurements, Resource::Cpu) => ("cpu/usage_rate", "value"),
            (Self::Measurements, Resource::Memory) => ("memory/working_set", "value"),
            (Self::Fields, Resource::Cpu) => ("cpu", "usage_rate"),
            (Self::Fields, Resource::Memory) => ("memory", "working_set"),
        }
    }

    /// What this schema calls a resource, for people.
    pub fn name(self, resource: Resource) -> String {
        match (self, self.metric(resource)) {
            (Self::Measurements, (measurement, _)) => format!("`{measurement}`"),
            (Self::Fields, (measurement, field)) => format!("`{field}` of `{measurement}`"),
        }
    }

    /// The measurement that has this resource.
    pub fn measurement(self, resource: Resource) -> &'static str {
        self.metric(resource).0
    }

    /// Usage of one namespace by container, one value a step, told at the step's beginning. The peak of memory and the
    /// mean of CPU: Heapster's CPU is a mean already. Several points in a step (a finer resolution, a container told of
    /// by two nodes) become one, and a step without any stays a gap.
    pub fn usage(self, resource: Resource, namespace: &str, window: Window, step_seconds: u32) -> String {
        let (measurement, field) = self.metric(resource);
        let function = match resource {
            Resource::Cpu => "MEAN",
            Resource::Memory => "MAX",
        };
        format!(
            "SELECT {function}(\"{field}\") FROM \"{measurement}\" WHERE \"type\" = 'pod_container' \
             AND \"{NAMESPACE}\" = {} AND time >= {}s AND time < {}s \
             GROUP BY time({step_seconds}s), \"{POD}\", \"{CONTAINER}\", \"{IMAGE}\" fill(none)",
            quoted(namespace),
            window.from,
            window.to
        )
    }

    /// All namespaces that the index knows, of any time: that costs the store little, and a namespace without data in
    /// a window costs one quick read.
    pub fn namespaces(self) -> String {
        let measurement = self.measurement(Resource::Memory);
        format!("SHOW TAG VALUES FROM \"{measurement}\" WITH KEY = \"{NAMESPACE}\" WHERE \"type\" = 'pod_container'")
    }

    /// The oldest point there is.
    pub fn oldest(self) -> String {
        let (measurement, field) = self.metric(Resource::Memory);
        format!("SELECT \"{field}\" FROM \"{measurement}\" WHERE \"type\" = 'pod_container' ORDER BY time ASC LIMIT 1")
    }

    /// The newest points of each container, as they are stored.
    pub fn newest(self, window: Window) -> String {
        let (measurement, field) = self.metric(Resource::Memory);
        format!(
            "SELECT \"{field}\" FROM \"{measurement}\" WHERE \"type\" = 'pod_container' \
             AND time >= {}s AND time < {}s GROUP BY \"{NAMESPACE}\", \"{POD}\", \"{CONTAINER}\", \"{IMAGE}\"",
            window.from, window.to
        )
    }
}

/// A string of InfluxQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { from: 600, to: 4200 };

    fn check(schema: Schema, resource: Resource, namespace: &str, expected: &str) {
        assert_eq!(schema.usage(resource, namespace, WINDOW, 60), expected);
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
            r"it's\",
            r#"SELECT MEAN("usage_rate") FROM "cpu" WHERE "type" = 'pod_container' AND "namespace_name" = 'it\'s\\' AND time >= 600s AND time < 4200s GROUP BY time(60s), "pod_name", "container_name", "container_base_image" fill(none)"#,
        );
    }
}
