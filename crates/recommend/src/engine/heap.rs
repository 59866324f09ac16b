//! The heap that a container's own arguments give to its runtime, which it may come to use however little it has used so far.

use headroom_admission::amount::Quantity;
use serde_json::Value;

/// The largest heap that a container's command, arguments or variables name, of a JVM or of Node.
pub fn of(container: &Value) -> Option<Quantity> {
    let list = |field: &str| container.get(field).and_then(Value::as_array).into_iter().flatten();
    let arguments = list("command").chain(list("args"));
    let variables = list("env").filter_map(|variable| variable.get("value"));
    let texts = arguments.chain(variables).filter_map(Value::as_str);
    let heaps = texts.flat_map(|text| text.split(|c: char| c.is_whitespace() || "\"'".contains(c))).filter_map(heap);
    heaps.max().map(Quantity::from_bytes)
}

fn heap(argument: &str) -> Option<u64> {
    if let Some(mebibytes) = argument.strip_prefix("--max-old-space-size=") {
        return mebibytes.parse::<u64>().ok()?.checked_mul(1 << 20);
    }
    let size =
        argument.strip_prefix("-Xmx").or_else(|| argument.strip_prefix("-XX:MaxHeapSize="))?.to_ascii_lowercase();
    let shift = match size.bytes().last()? {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        b't' => 40,
        _ => 0,
    };
    size.trim_end_matches(|c: char| c.is_ascii_lowercase()).parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_largest_heap_that_arguments_name_is_found() {
        let check = |container: Value, expected: Option<&str>| {
            assert_eq!(of(&container).map(|heap| heap.to_string()).as_deref(), expected, "{container}");
        };
        check(json!({"args": ["-Xms512m", "-Xmx4g", "-jar", "app.jar"]}), Some("4Gi"));
        check(json!({"command": ["sh", "-c", "exec java \"-XX:MaxHeapSize=512M\" -jar app.jar"]}), Some("512Mi"));
        check(
            json!({"env": [{"name": "JAVA_OPTS", "value": "-Xmx1g -Xmx2048m"}, {"name": "A", "valueFrom": {}}]}),
            Some("2Gi"),
        );
        check(json!({"env": [{"name": "NODE_OPTIONS", "value": "--max-old-space-size=3072"}]}), Some("3Gi"));
        check(json!({"args": ["-Xmx", "-Xmxg", "-Xmx99999999999t", "-Xmx$HEAP"]}), None);
        check(json!({"args": "-Xmx1g", "env": {}}), None);
    }
}
