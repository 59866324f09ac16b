//! Updates, and objects other than pods: many or large parts, each valid by itself.

use serde_json::json;

use super::pods::amounts;
use super::row::{
    CLAIM, CONFIG_MAP, DEPLOYMENT, DEVICE_CLAIM, FITTING, GREEDY, JOB, POD, Row, Rows, SERVICE, STATEFUL_SET,
    container, containers, fields, list,
};

pub const ROWS: Rows = &[
    ("5,000 containers that get a deadline", || {
        let containers = containers(5_000, FITTING);
        Row::update(&POD, "")
            .with("object/spec", format!(r#"{{"activeDeadlineSeconds":30,"containers":{containers}}}"#))
            .with("oldObject/spec/containers", containers)
    }),
    ("5,000 containers resized", || resize(5_000, |number| number)),
    ("5,000 containers resized, in opposite orders", || resize(5_000, |number| 4_999 - number)),
    ("5,000 containers resized beyond every bound", || {
        Row::update(&POD, "resize")
            .with("object/spec/containers", containers(5_000, GREEDY))
            .with("oldObject/spec/containers", containers(5_000, FITTING))
            .with("oldObject/status", statuses(5_000))
    }),
    ("20,000 allocated resources at a resize", || {
        let amounts = amounts(20_000);
        let status = format!(r#"{{"containerStatuses":[{{"name":"c0","allocatedResources":{amounts}}}]}}"#);
        let web = containers(1, FITTING);
        Row::update(&POD, "resize")
            .with("object/spec/containers", web.clone())
            .with("oldObject/spec/containers", web)
            .with("object/status", status.clone())
            .with("oldObject/status", status)
    }),
    ("20,000 conditions at a resize", || {
        let web = containers(1, FITTING);
        let condition = |_| r#"{"type":"PodResizePending","status":"True","reason":"Deferred"}"#.to_owned();
        Row::update(&POD, "resize")
            .with("object/spec/containers", web.clone())
            .with("oldObject/spec/containers", web)
            .with("oldObject/status/conditions", list(20_000, condition))
    }),
    ("a Deployment of 5,000 containers beyond every bound", || {
        Row::create(&DEPLOYMENT).with("object/spec/template/spec/containers", containers(5_000, GREEDY))
    }),
    ("a Deployment of 5,000 containers, updated", || {
        Row::update(&DEPLOYMENT, "")
            .with("object/spec/template/spec/containers", containers(5_000, FITTING))
            .with("oldObject/spec/template/spec/containers", containers(5_000, "{}"))
    }),
    ("a Job of 5,000 containers that set nothing", || {
        Row::create(&JOB).with("object/spec/template/spec/containers", containers(5_000, "{}"))
    }),
    ("a StatefulSet of 5,000 claims", || {
        let claim = |number| {
            format!(
                r#"{{"metadata":{{"name":"d{number}"}},"spec":{{"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
            )
        };
        Row::create(&STATEFUL_SET)
            .with("object/spec/template/spec/containers", containers(1, "{}"))
            .with("object/spec/volumeClaimTemplates", list(5_000, claim))
    }),
    ("10,000 ports of a new service", || {
        Row::create(&SERVICE)
            .with("object/spec/type", r#""NodePort""#)
            .with("object/spec/ports", ports(10_000, |_| None))
    }),
    ("10,000 ports whose node ports an update leaves out", || {
        load_balancer(ports(10_000, |_| None), ports(10_000, |number| Some(30_000 + number)))
    }),
    ("10,000 ports that swap their node ports", || {
        load_balancer(ports(10_000, |number| Some(39_999 - number)), ports(10_000, |number| Some(30_000 + number)))
    }),
    ("10,000 ports of one name, without node ports", || {
        let port = |node_port: &str| list(10_000, |number| format!(r#"{{"name":"web","port":{number}{node_port}}}"#));
        load_balancer(port(""), port(r#","nodePort":30000"#))
    }),
    ("a claim of 20,000 resources", || Row::create(&CLAIM).with("object/spec/resources/requests", amounts(20_000))),
    ("a claim of 20,000 resources, updated", || {
        let backwards = fields(20_000, |number| format!(r#""example.com/r{}":"1""#, 19_999 - number));
        Row::update(&CLAIM, "")
            .with("object/spec/resources/requests", amounts(20_000))
            .with("oldObject/spec/resources/requests", backwards)
    }),
    ("5,000 devices of one class", || devices(5_000, |_| 0)),
    ("5,000 devices of 5,000 classes", || devices(5_000, |number| number)),
    ("a choice of 5,000 devices of 5,000 classes", || {
        let alternative = |number| format!(r#"{{"name":"a{number}","deviceClassName":"class-{number}","count":2}}"#);
        let choice = list(5_000, alternative);
        Row::create(&DEVICE_CLAIM)
            .with("object/spec/devices/requests", format!(r#"[{{"name":"gpu","firstAvailable":{choice}}}]"#))
    }),
    ("10,000 requests of a device claim", || devices(10_000, |number| number % 7)),
    ("a ConfigMap of 50,000 keys", || {
        Row::create(&CONFIG_MAP).with("object/data", fields(50_000, |number| format!(r#""k{number}":"v""#)))
    }),
    ("a user in 20,000 groups", || {
        let groups = list(20_000, |number| format!(r#""group-{number}""#));
        Row::create(&POD).with("object/spec/containers", containers(1, "{}")).with("userInfo/groups", groups)
    }),
    ("a user's name of 1 MB that is exempt from nothing", || {
        let user = format!(r#""system:serviceaccount:default:{}""#, "x".repeat(1_000_000));
        let settings = json!({"estimates": {"mode": "never"}, "exempt": {"serviceAccounts": ["*/*a*b*c"]}});
        Row::create(&POD)
            .with("object/spec/containers", containers(1, "{}"))
            .with("userInfo/username", user)
            .settings(settings)
    }),
];

/// A resize of `count` containers, with the old ones ordered by `place`.
fn resize(count: usize, place: fn(usize) -> usize) -> Row {
    let larger = r#"{"requests":{"cpu":"150m","memory":"64Mi"},"limits":{"cpu":"150m","memory":"64Mi"}}"#;
    let old = list(count, |number| container(&format!("c{}", place(number)), FITTING));
    Row::update(&POD, "resize")
        .with("object/spec/containers", containers(count, larger))
        .with("oldObject/spec/containers", old)
        .with("object/status", statuses(count))
        .with("oldObject/status", statuses(count))
}

fn statuses(count: usize) -> String {
    let status = |number| {
        format!(
            r#"{{"name":"c{number}","allocatedResources":{{"cpu":"100m","memory":"32Mi"}},"resources":{{"requests":{{"cpu":"100m"}}}}}}"#
        )
    };
    format!(r#"{{"phase":"Running","containerStatuses":{}}}"#, list(count, status))
}

fn ports(count: usize, node_port: impl Fn(usize) -> Option<usize>) -> String {
    list(count, |number| {
        let node_port = node_port(number).map_or(String::new(), |port| format!(r#","nodePort":{port}"#));
        format!(r#"{{"name":"p{number}","port":{number}{node_port}}}"#)
    })
}

/// The update of a service that only has the node ports it names.
fn load_balancer(ports: String, old_ports: String) -> Row {
    let spec = |ports| format!(r#"{{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"ports":{ports}}}"#);
    Row::update(&SERVICE, "").with("object/spec", spec(ports)).with("oldObject/spec", spec(old_ports))
}

fn devices(count: usize, class: fn(usize) -> usize) -> Row {
    let device = |number| {
        let class = class(number);
        format!(r#"{{"name":"d{number}","exactly":{{"deviceClassName":"class-{class}","count":1}}}}"#)
    };
    Row::create(&DEVICE_CLAIM).with("object/spec/devices/requests", list(count, device))
}
