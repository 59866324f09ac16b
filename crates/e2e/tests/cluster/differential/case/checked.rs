//! Requests for `check`: what releases after 1.20 know of a pod, and objects that the API server's validation refuses.

use serde_json::{Value, json};

use super::Request;
use super::amounts::{COUNTS, CPU, MEMORY, RESOURCES, Random, STORAGE};
use super::objects::{claim, pod, workload};

/// A request that `check` can evaluate: the manifest of an object that is new or there, or a resize. An API server without
/// resizes gets none of the fields that came before them either: it would drop them.
pub fn request(random: &mut Random, has_resize: bool) -> Request {
    let mut request = any(random, has_resize);
    if !has_resize {
        request.before.iter_mut().chain([&mut request.object]).for_each(impoverish);
    }
    request
}

/// Undoes [`enrich`] in a pod or a template.
fn impoverish(object: &mut Value) {
    let at = if object["kind"] == "Pod" { "/spec" } else { "/spec/template/spec" };
    let Some(Value::Object(spec)) = object.pointer_mut(at) else { return };
    spec.remove("resources");
    for container in spec.get_mut("initContainers").and_then(Value::as_array_mut).into_iter().flatten() {
        container.as_object_mut().unwrap().remove("restartPolicy");
    }
}

fn any(random: &mut Random, has_resize: bool) -> Request {
    match random.count(0..=99) {
        0..40 => {
            let mut pod = new_pod(random);
            damage(random, &mut pod["spec"]);
            Request::create(pod)
        }
        40..50 => {
            let Request { object, before, .. } = resize(random);
            match has_resize {
                true => Request { before, object, subresource: Some("resize") },
                false => Request::create(object),
            }
        }
        50..54 => {
            let mut before = new_pod(random);
            if let Some(resources) = before["spec"].get_mut("resources") {
                // Enough for all containers, so that the pod is valid.
                *resources = json!({"requests": {"cpu": "40", "memory": "64Gi"}});
            }
            let mut after = before.clone();
            after["metadata"]["labels"] = json!({"touched": "yes"});
            Request::update(before, after)
        }
        54..64 => {
            let mut object = workload(random);
            enrich(random, &mut object["spec"]["template"]["spec"]);
            damage(random, &mut object["spec"]["template"]["spec"]);
            Request::create(object)
        }
        64..70 => workload_update(random),
        70..74 => {
            let mut object = claim(random);
            object["spec"]["resources"]["requests"]["storage"] = json!(random.pick(&["0", "1.5", "100Gi", "1e30"]));
            object["spec"]["resources"]["limits"] = json!({"storage": random.pick(STORAGE)});
            Request::create(object)
        }
        _ => loop {
            let request = Request::new(random);
            if request.subresource.is_none() {
                break request;
            }
        },
    }
}

fn new_pod(random: &mut Random) -> Value {
    let mut pod = pod(random);
    enrich(random, &mut pod["spec"]);
    pod
}

/// Sidecars and pod-level resources.
fn enrich(random: &mut Random, spec: &mut Value) {
    for container in spec.get_mut("initContainers").and_then(Value::as_array_mut).into_iter().flatten() {
        if random.chance(40) {
            container["restartPolicy"] = json!("Always");
        }
    }
    if random.chance(30) {
        for (name, table) in &RESOURCES[..2] {
            let [request, limit] = random.rising(&table[table.len() / 2..]);
            for (list, amount) in [("requests", request), ("limits", limit)] {
                if random.chance(50) {
                    spec["resources"][list][name] = json!(amount);
                }
            }
        }
    }
}

/// Makes a few pods invalid, or some of them only nearly so.
fn damage(random: &mut Random, spec: &mut Value) {
    if !random.chance(15) {
        return;
    }
    let resources = &mut spec["containers"][0]["resources"];
    let any = |random: &mut Random| match random.count(0..=3) {
        0 => ("cpu", *random.pick(CPU)),
        1 => ("memory", *random.pick(MEMORY)),
        2 => ("example.com/gpu", *random.pick(COUNTS)),
        _ => *random.pick(&[
            ("cpu", "-1"),
            ("memory", "1GB"),
            ("memory", "1e30"),
            ("cpu", "0.0001"),
            ("memmory", "1Gi"),
            ("storage", "1Gi"),
            ("example.com/gpu", "500m"),
            ("hugepages-2Mi", "3Mi"),
            ("hugepages-2Mi", "2Mi"),
        ]),
    };
    for list in ["requests", "limits"] {
        if random.chance(70) {
            let (name, amount) = any(random);
            resources[list][name] = json!(amount);
        }
    }
}

/// A Deployment, or another workload, with another number of pods or other resources.
fn workload_update(random: &mut Random) -> Request {
    let before = workload(random);
    let mut after = super::objects::scaled_up(&before);
    if !matches!(before["kind"].as_str(), Some("Job")) && random.chance(60) {
        let other = pod(random);
        after["spec"]["template"]["spec"]["containers"] = other["spec"]["containers"].clone();
        damage(random, &mut after["spec"]["template"]["spec"]);
    }
    Request::update(before, after)
}

/// Other amounts for a running pod. Which amounts it sets, and so its class of quality of service, stays.
fn resize(random: &mut Random) -> Request {
    let mut before =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}});
    let mut after = before.clone();
    for name in &["web", "log"][..random.count(1..=2)] {
        let (has_limit, is_resized) = (random.chance(60), random.chance(70));
        let resources = |random: &mut Random| {
            let ([cpu, limit], [memory, more]) = (random.rising(&CPU[5..]), random.rising(&MEMORY[4..]));
            let mut resources = json!({"requests": {"cpu": cpu, "memory": memory}});
            if has_limit {
                resources["limits"] = json!({"cpu": limit, "memory": more});
            }
            resources
        };
        let old = resources(random);
        let new = if is_resized { resources(random) } else { old.clone() };
        for (pod, resources) in [(&mut before, old), (&mut after, new)] {
            let container = json!({"name": name, "image": "nginx", "resources": resources});
            pod["spec"]["containers"].as_array_mut().unwrap().push(container);
        }
    }
    // A container without limits makes the pod Burstable, whatever the others set.
    let plain = json!({"name": "plain", "image": "nginx", "resources": {"requests": {"cpu": "1m"}}});
    for pod in [&mut before, &mut after] {
        pod["spec"]["containers"].as_array_mut().unwrap().push(plain.clone());
    }
    if random.chance(70) {
        let statuses = before["spec"]["containers"].as_array().unwrap().iter().map(|container| {
            json!({
                "name": container["name"], "image": "nginx", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": container["resources"]["requests"], "resources": container["resources"],
            })
        });
        let statuses: Vec<Value> = statuses.collect();
        before["status"] = json!({"phase": "Running", "containerStatuses": statuses});
        if random.chance(20) {
            let reason = random.pick(&["Infeasible", "Deferred"]);
            before["status"]["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        }
    }
    Request::update(before, after)
}
