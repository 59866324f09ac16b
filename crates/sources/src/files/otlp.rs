//! Lines of OTLP metrics in JSON, as the file exporter of an OpenTelemetry collector writes them: one export a line.
//!
//! Usage is what the receiver `kubeletstats` tells; the image is added by the processor `k8sattributes`. All else in the
//! lines is skipped.

use std::borrow::Cow;

use headroom_usage::sample::Resource;
use serde::Deserialize;

use super::LineError;

/// How an export begins, by the kind of its data.
const KINDS: [&[u8]; 4] = [b"\"resourceMetrics\"", b"\"resourceLogs\"", b"\"resourceSpans\"", b"\"resourceProfiles\""];

/// Whether a line is an export of OTLP.
pub fn is_export(line: &[u8]) -> bool {
    let inner = line.strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    KINDS.iter().any(|kind| inner.starts_with(kind))
}

/// What one container used at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<'p> {
    /// Empty if nobody tells it.
    pub cluster: &'p str,
    pub namespace: &'p str,
    pub pod: &'p str,
    pub container: &'p str,
    /// Empty if nobody tells it.
    pub image: &'p str,
    pub resource: Resource,
    /// Unix seconds.
    pub time: i64,
    /// Nanocores or bytes.
    pub amount: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Export<'l> {
    #[serde(borrow, default)]
    resource_metrics: Vec<ResourceMetrics<'l>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'l> {
    #[serde(borrow, default)]
    resource: Attributes<'l>,
    #[serde(borrow, default)]
    scope_metrics: Vec<ScopeMetrics<'l>>,
}

#[derive(Debug, Default, Deserialize)]
struct Attributes<'l> {
    #[serde(borrow, default)]
    attributes: Vec<Attribute<'l>>,
}

#[derive(Debug, Deserialize)]
struct Attribute<'l> {
    #[serde(borrow)]
    key: Cow<'l, str>,
    #[serde(borrow, default)]
    value: AttributeValue<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttributeValue<'l> {
    #[serde(borrow, default)]
    string_value: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    array_value: Option<ArrayValue<'l>>,
}

#[derive(Debug, Deserialize)]
struct ArrayValue<'l> {
    #[serde(borrow, default)]
    values: Vec<ArrayItem<'l>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArrayItem<'l> {
    #[serde(borrow, default)]
    string_value: Option<Cow<'l, str>>,
}

#[derive(Debug, Deserialize)]
struct ScopeMetrics<'l> {
    #[serde(borrow, default)]
    metrics: Vec<Metric<'l>>,
}

#[derive(Debug, Deserialize)]
struct Metric<'l> {
    #[serde(borrow, default)]
    name: Cow<'l, str>,
    #[serde(borrow, default)]
    gauge: Option<Points<'l>>,
    /// Some tell what rises and falls as a sum that is not monotonic.
    #[serde(borrow, default)]
    sum: Option<Points<'l>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Points<'l> {
    #[serde(default)]
    is_monotonic: bool,
    #[serde(borrow, default)]
    data_points: Vec<DataPoint<'l>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataPoint<'l> {
    #[serde(borrow, default)]
    time_unix_nano: Option<Number<'l>>,
    #[serde(borrow, default)]
    as_double: Option<Number<'l>>,
    #[serde(borrow, default)]
    as_int: Option<Number<'l>>,
}

/// Numbers of 64 bits are texts in JSON, and some writers tell them as numbers.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number<'l> {
    Text(#[serde(borrow)] Cow<'l, str>),
    Whole(i64),
    Float(f64),
}

impl Number<'_> {
    fn whole(&self) -> Option<i64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Whole(number) => Some(*number),
            Self::Float(_) => None,
        }
    }

    fn float(&self) -> Option<f64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Whole(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
        }
    }
}

impl Attributes<'_> {
    fn text(&self, key: &str) -> &str {
        let value = self.attributes.iter().find(|attribute| attribute.key == key).map(|attribute| &attribute.value);
        value.and_then(|value| value.string_value.as_deref()).unwrap_or_default()
    }

    /// The only text of a list.
    fn single(&self, key: &str) -> Option<&str> {
        let value = &self.attributes.iter().find(|attribute| attribute.key == key)?.value;
        match value.array_value.as_ref()?.values.as_slice() {
            [item] => item.string_value.as_deref(),
            _ => None,
        }
    }

    fn image(&self) -> String {
        let name = self.text("container.image.name");
        let tag = match self.text("container.image.tag") {
            "" => self.single("container.image.tags").unwrap_or_default(),
            tag => tag,
        };
        if name.is_empty() || tag.is_empty() { name.to_owned() } else { format!("{name}:{tag}") }
    }
}

impl DataPoint<'_> {
    /// Time and value. NaN, negative and missing values are no samples.
    fn read(&self, scale: f64) -> Option<(i64, u64)> {
        let time = self.time_unix_nano.as_ref()?.whole()?.div_euclid(1_000_000_000);
        let value = self.as_double.as_ref().or(self.as_int.as_ref())?.float()?;
        (value.is_finite() && value >= 0.0).then_some((time, (value * scale).round() as u64))
    }
}

/// What a metric measures, and what its values are multiplied with.
fn measured(name: &str) -> Option<(Resource, f64)> {
    match name {
        // The second is what older versions call it.
        "container.cpu.usage" | "container.cpu.utilization" => Some((Resource::Cpu, 1e9)),
        "container.memory.working_set" => Some((Resource::Memory, 1.0)),
        "container.filesystem.usage" => Some((Resource::EphemeralStorage, 1.0)),
        _ => None,
    }
}

/// Tells each point of usage in a line.
pub fn each_point(line: &[u8], mut each: impl FnMut(Point<'_>) -> Result<(), LineError>) -> Result<(), LineError> {
    let export: Export<'_> = serde_json::from_slice(line)
        .map_err(|error| LineError(format!("not an export of OTLP metrics in JSON ({error})")))?;
    for ResourceMetrics { resource, scope_metrics } in &export.resource_metrics {
        let names = ["k8s.namespace.name", "k8s.pod.name", "k8s.container.name"].map(|key| resource.text(key));
        let [namespace, pod, container] = names;
        if names.iter().any(|name| name.is_empty()) {
            // Of a node, a pod or a volume.
            continue;
        }
        let image = resource.image();
        let cluster = ["k8s.cluster.uid", "k8s.cluster.name"].map(|key| resource.text(key));
        let cluster = cluster.into_iter().find(|cluster| !cluster.is_empty()).unwrap_or_default();
        for metric in scope_metrics.iter().flat_map(|scope| &scope.metrics) {
            let Some((resource, scale)) = measured(&metric.name) else { continue };
            let points = [&metric.gauge, &metric.sum].into_iter().flatten().filter(|points| !points.is_monotonic);
            for (time, amount) in points.flat_map(|points| &points.data_points).filter_map(|point| point.read(scale)) {
                each(Point { cluster, namespace, pod, container, image: &image, resource, time, amount })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(attributes: &[(&str, serde_json::Value)], metrics: &serde_json::Value) -> Vec<u8> {
        let attributes: Vec<_> = attributes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        let resource =
            json!({"resource": {"attributes": attributes}, "scopeMetrics": [{"scope": {}, "metrics": metrics}]});
        json!({"resourceMetrics": [resource]}).to_string().into_bytes()
    }

    fn text(value: &str) -> serde_json::Value {
        json!({"stringValue": value})
    }

    fn read(line: &[u8]) -> Vec<(String, Resource, i64, u64)> {
        let mut points = Vec::new();
        each_point(line, |point| {
            let place = format!("{}/{}/{} {}", point.namespace, point.pod, point.container, point.image);
            points.push((place, point.resource, point.time, point.amount));
            Ok(())
        })
        .unwrap();
        points
    }

    #[test]
    fn usage_of_containers_is_read() {
        let of = [
            ("k8s.namespace.name", text("shop")),
            ("k8s.pod.name", text("web-0")),
            ("k8s.container.name", text("web")),
            ("container.image.name", text("nginx")),
        ];
        let metrics = json!([
            {"name": "container.cpu.usage", "gauge": {"dataPoints": [
                {"timeUnixNano": "1763683200500000000", "asDouble": 0.25},
                {"timeUnixNano": 1763683260000000000_i64, "asDouble": "NaN"},
                {"timeUnixNano": "1763683320000000000", "asDouble": -1},
            ]}},
            {"name": "container.cpu.time", "sum": {"isMonotonic": true, "dataPoints": [{"timeUnixNano": "1", "asDouble": 9}]}},
            {"name": "container.memory.working_set", "sum": {"dataPoints": [{"timeUnixNano": "1763683200000000000", "asInt": "52428800"}]}},
            {"name": "container.filesystem.usage", "gauge": {"dataPoints": [{"timeUnixNano": "1763683200000000000", "asInt": "1048576"}]}},
        ]);
        let tagged = |tag: (&'static str, serde_json::Value)| line(&[of.as_slice(), &[tag]].concat(), &metrics);
        let expected = |place: &str| {
            [
                (place.to_owned(), Resource::Cpu, 1_763_683_200, 250_000_000),
                (place.to_owned(), Resource::Memory, 1_763_683_200, 52_428_800),
                (place.to_owned(), Resource::EphemeralStorage, 1_763_683_200, 1_048_576),
            ]
        };
        assert_eq!(read(&line(&of, &metrics)), expected("shop/web-0/web nginx"));
        assert_eq!(read(&tagged(("container.image.tag", text("1.27")))), expected("shop/web-0/web nginx:1.27"));
        let tags = json!({"arrayValue": {"values": [{"stringValue": "1.27"}]}});
        assert_eq!(read(&tagged(("container.image.tags", tags))), expected("shop/web-0/web nginx:1.27"));
        // A pod is not a container.
        assert_eq!(read(&line(&of[..2], &metrics)), []);
        assert_eq!(read(b"{\"resourceLogs\": [{\"a\": 1}]}"), []);
    }

    #[test]
    fn an_export_is_known_by_its_beginning() {
        assert!(is_export(b"{\"resourceMetrics\":[]}") && is_export(b"{ \"resourceSpans\": []}"));
        assert!(!is_export(b"{\"time\": 1, \"resourceMetrics\": []}") && !is_export(b"time,cpu"));
        assert!(each_point(b"{\"resourceMetrics\": 7}", |_| Ok(())).is_err());
    }
}
