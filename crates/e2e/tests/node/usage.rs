//! Usage: a real Prometheus that asks the kubelet, with days before the test; kube-state-metrics' series; and the metrics API, which
//! answers from Prometheus as its adapter does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headroom_admission::timestamp::Timestamp;
pub use headroom_api_server::clock::now;
use headroom_api_server::http_server::{ServerLimits, serve_pages};
use headroom_e2e::cluster::{Cluster, api, create};
use headroom_e2e::webhook::serve_https;
use headroom_fixtures::open_metrics::OpenMetrics;
use headroom_fixtures::servers::{PrometheusServer, Server, request};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::Client;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::node::{ADDRESS, HOST};

const DAYS: i64 = 9;

/// Starts Prometheus with nine days of equal usage for a Deployment `web` in each of these namespaces, in millicores and Mi.
pub async fn prometheus(cluster: &Cluster, past: &[(&str, i64, u64)]) -> Server {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let state = listener.local_addr().unwrap();
    let client = cluster.client().await.unwrap();
    tokio::spawn(serve_pages(listener, ServerLimits::PAGES, move |_: Request<Bytes>| {
        let client = client.clone();
        async move { Response::new(Full::from(containers(&client).await)) }
    }));
    let kubeconfig = cluster.control_plane.as_ref().unwrap().kubeconfig();
    let kubeconfig = serde_json::to_value(kubeconfig).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    let scrapes = json!([
        {"job_name": "kubelet", "scheme": "https", "metrics_path": "/metrics/resource", "scrape_interval": "20s", "scrape_timeout": "20s", "honor_labels": true,
            "honor_timestamps": false, "authorization": {"credentials": token}, "tls_config": {"insecure_skip_verify": true},
            "static_configs": [{"targets": [format!("{ADDRESS}:10250")]}]},
        {"job_name": "kube-state-metrics", "scrape_interval": "20s", "honor_labels": true,
            "static_configs": [{"targets": [state.to_string()]}]},
    ]);
    let history = history(past);
    tokio::task::spawn_blocking(move || {
        PrometheusServer { history, scrape_configs: Some(scrapes.to_string()), ..PrometheusServer::default() }.start()
    })
    .await
    .unwrap()
}

/// The containers of all pods, as kube-state-metrics tells of them.
async fn containers(client: &Client) -> String {
    // While the API server is away, it tells of none.
    let pods = api(client, "v1", "Pod").list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    pods.iter().fold(String::new(), |mut text, pod| {
        let [namespace, name] = [&pod.metadata.namespace, &pod.metadata.name].map(|name| name.as_deref().unwrap_or_default());
        _ = writeln!(text, r#"kube_pod_container_info{{namespace="{namespace}",pod="{name}",container="app",image_spec="localhost/load:1"}} 1"#);
        text
    })
}

fn history(past: &[(&str, i64, u64)]) -> String {
    let (begin, mut history) = (now() / 60 * 60 - 300 - DAYS * 86_400, OpenMetrics::default());
    for (namespace, cpu, mi) in past {
        let place = format!(r#"namespace="{namespace}",pod="web-6d4b9c6f5-bcdf4",container="app""#);
        let seconds = (0..=DAYS * 86_400).step_by(60).map(|second| (begin + second, second));
        // As of the series that are scraped.
        let kubelet = format!(r#"{place},job="kubelet""#);
        let used = seconds.clone().map(|(time, second)| (time, second * cpu / 1000));
        history.add("container_cpu_usage_seconds_total", &kubelet, used);
        history.add("container_memory_working_set_bytes", &kubelet, seconds.clone().map(|(time, _)| (time, mi << 20)));
        let state = format!(r#"{place},job="kube-state-metrics",image_spec="localhost/load:1""#);
        history.add("kube_pod_container_info", &state, seconds.map(|(time, _)| (time, 1)));
    }
    history.to_string()
}

/// Serves the metrics API through the API server.
pub async fn serve_metrics_api(client: &Client, prometheus: u16) {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let respond = move |request: Request<Bytes>| async move {
        let path = request.uri().path().to_owned();
        let answer = tokio::task::spawn_blocking(move || answer(&path, prometheus)).await.unwrap();
        let response = Response::builder().header("content-type", "application/json");
        response.body(Full::from(answer.to_string())).unwrap()
    };
    serve_https(listener, HOST, ServerLimits::PAGES, CancellationToken::new(), respond).unwrap();
    let metadata =
        json!({"name": "metrics", "namespace": "kube-system", "labels": {"kubernetes.io/service-name": "metrics"}});
    let service = json!({"name": "metrics", "namespace": "kube-system"});
    for object in [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": {"ports": [{"port": 443, "targetPort": port}]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4",
            "ports": [{"name": "", "port": port}], "endpoints": [{"addresses": [HOST], "conditions": {"ready": true}}]}),
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "service": service, "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 100, "versionPriority": 100}}),
    ] {
        create(client, object).await.unwrap();
    }
}

fn answer(path: &str, prometheus: u16) -> Value {
    const VERSION: &str = "metrics.k8s.io/v1beta1";
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["apis", _, "v1beta1", "namespaces", namespace, "pods"] => {
            json!({"kind": "PodMetricsList", "apiVersion": VERSION, "metadata": {}, "items": usage(namespace, prometheus)})
        }
        _ => json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": [
            {"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]}]}),
    }
}

fn usage(namespace: &str, prometheus: u16) -> Vec<Value> {
    let memory = format!(r#"container_memory_working_set_bytes{{namespace="{namespace}",job="kubelet"}}"#);
    let cpu = format!(r#"rate(container_cpu_usage_seconds_total{{namespace="{namespace}",job="kubelet"}}[2m])"#);
    let [cpu, memory, time] = [cpu, memory.clone(), format!("timestamp({memory})")].map(|of| query(prometheus, &of));
    let both = cpu.iter().filter_map(|(place, cpu)| Some((place, cpu, memory.get(place)?, time.get(place)?)));
    both.map(|((pod, container), cpu, memory, time)| {
        let time = Timestamp::from_unix_seconds(*time as i64).unwrap().to_string();
        let usage = json!({"cpu": format!("{}n", (cpu * 1e9) as u64), "memory": format!("{}", *memory as u64)});
        json!({"metadata": {"name": pod, "namespace": namespace}, "timestamp": time, "window": "2m",
            "containers": [{"name": container, "usage": usage}]})
    })
    .collect()
}

/// The values of a query by pod and container; none if Prometheus does not answer.
fn query(prometheus: u16, query: &str) -> BTreeMap<(String, String), f64> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = request(prometheus, "GET", &format!("/api/v1/query?query={encoded}"), b"").unwrap_or_default();
    let answer: Value = serde_json::from_str(&answer.1).unwrap_or_default();
    let found = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        let [pod, container] =
            ["pod", "container"].map(|name| row["metric"][name].as_str().unwrap_or_default().to_owned());
        Some(((pod, container), row["value"][1].as_str()?.parse().ok()?))
    };
    found.iter().filter_map(row).collect()
}
