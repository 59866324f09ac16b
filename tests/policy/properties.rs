//! Properties for any pod and any LimitRanges.

use headroom_wasm_host::admission::ValidationResponse;
use headroom_wasm_host::cluster::Cluster;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::request_for;
use crate::runner::Runner;

const CPU: [&str; 6] = ["0", "50m", "100m", "1", "1500m", "4"];

fn amounts() -> impl Strategy<Value = Value> {
    let one = |name: &'static str| prop::option::of(prop::sample::select(&CPU[..])).prop_map(move |cpu| (name, cpu));
    (one("cpu"), one("memory"), one("example.com/gpu")).prop_map(|(cpu, memory, gpu)| {
        let given = [cpu, memory, gpu].into_iter().filter_map(|(name, amount)| Some((name.to_owned(), json!(amount?))));
        Value::Object(given.collect())
    })
}

fn container(name: String) -> impl Strategy<Value = Value> {
    (amounts(), amounts(), any::<bool>(), any::<bool>()).prop_map(
        move |(requests, limits, has_resources, is_sidecar)| {
            let mut container = json!({"name": name, "image": "nginx", "x-unknown": {"kept": [1, null, "é\n"]}});
            if has_resources {
                container["resources"] = json!({"requests": requests, "limits": limits, "claims": []});
            }
            if is_sidecar {
                container["restartPolicy"] = json!("Always");
            }
            container
        },
    )
}

fn pod() -> impl Strategy<Value = Value> {
    let names = |prefix: &'static str, most: usize| {
        (0..=most).prop_flat_map(move |count| {
            (0..count).map(|index| container(format!("{prefix}{index}"))).collect::<Vec<_>>()
        })
    };
    (names("c", 3), names("i", 2), any::<bool>()).prop_map(|(containers, init, is_annotated)| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "shop"},
            "spec": {"containers": containers, "initContainers": init, "futureField": {"a": 1}}});
        if is_annotated {
            pod["metadata"]["annotations"] = json!({"team": "x"});
        }
        pod
    })
}

fn range(index: usize) -> impl Strategy<Value = Value> {
    let lists = prop::collection::vec(amounts(), 5);
    (lists, prop::sample::select(&["Container", "Pod"][..])).prop_map(move |(lists, kind)| {
        let mut item = json!({"type": kind, "min": lists[0], "max": lists[1], "maxLimitRequestRatio": lists[4]});
        if kind == "Container" {
            item["default"] = lists[2].clone();
            item["defaultRequest"] = lists[3].clone();
        }
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": format!("r{index}"), "namespace": "shop"},
            "spec": {"limits": [item]}})
    })
}

fn ranges() -> impl Strategy<Value = Vec<Value>> {
    (0..4_usize).prop_flat_map(|count| (0..count).map(range).collect::<Vec<_>>())
}

fn evaluate(settings: &Value, pod: &Value, ranges: &[Value]) -> ValidationResponse {
    let mut cluster = ranges.iter().cloned().fold(Cluster::new(), Cluster::with);
    Runner::Native.evaluate(&request_for(pod), settings, &mut cluster)
}

fn assert_keeps(before: &Value, after: &Value) -> Result<(), TestCaseError> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                prop_assert!(after.contains_key(name), "{} is lost", name);
                assert_keeps(value, &after[name])?;
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            prop_assert_eq!(before.len(), after.len());
            for (before, after) in before.iter().zip(after) {
                assert_keeps(before, after)?;
            }
        }
        _ => prop_assert_eq!(before, after),
    }
    Ok(())
}

fn without_max(range: &Value) -> Value {
    let mut looser = range.clone();
    for item in looser["spec"]["limits"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("max");
    }
    looser
}

proptest! {
    #[test]
    fn the_authors_values_stay_and_deciding_again_on_our_own_output_changes_nothing(
        pod in pod(), ranges in ranges(), annotates in any::<bool>(),
    ) {
        let settings = json!({"annotate": annotates});
        if let Some(after) = evaluate(&settings, &pod, &ranges).mutated_object {
            assert_keeps(&pod, &after)?;
            let second = evaluate(&settings, &after, &ranges);
            prop_assert!(second.accepted, "{:?}", second.message);
            prop_assert_eq!(second.mutated_object, None);
        }
    }

    #[test]
    fn the_order_in_which_ranges_are_listed_does_not_matter(pod in pod(), ranges in ranges()) {
        let mut reversed = ranges.clone();
        reversed.reverse();
        let settings = json!({});
        prop_assert_eq!(evaluate(&settings, &pod, &ranges), evaluate(&settings, &pod, &reversed));
    }

    #[test]
    fn without_a_maximum_nothing_is_refused_that_was_admitted(pod in pod(), ranges in ranges()) {
        if evaluate(&json!({}), &pod, &ranges).accepted {
            let looser: Vec<Value> = ranges.iter().map(without_max).collect();
            let response = evaluate(&json!({}), &pod, &looser);
            prop_assert!(response.accepted, "{:?}", response.message);
        }
    }
}
