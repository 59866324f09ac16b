//! Finds the Services that look like a metrics store, by the labels and names of the usual installations, likeliest first.
//! Anybody who may create a Service can name it so: nothing is sent to a candidate that no person chose, and nobody's
//! Services push those of others out of a short list.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use headroom_metrics_stores::port_forward::ForwardTarget;
use headroom_objects::kinds::{metadata, number, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub target: ForwardTarget,
    pub product: &'static str,
    /// It answers only to a token of the cluster.
    pub wants_token: bool,
}

/// `monitoring/prometheus-k8s:9090 (Prometheus)`
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.target, self.product)
    }
}

/// Labels and names of a usual installation.
struct Product {
    name: &'static str,
    /// Any of these sets of labels.
    labels: &'static [&'static [(&'static str, &'static str)]],
    /// Or any of these names.
    names: &'static [&'static str],
    /// The likeliest first, by name or number.
    ports: &'static [&'static str],
    path: &'static str,
}

const NAME: &str = "app.kubernetes.io/name";
const COMPONENT: &str = "app.kubernetes.io/component";

/// Widest view first: a query layer over several stores, then a single store.
const PRODUCTS: [Product; 6] = [
    Product {
        name: "Thanos",
        labels: &[
            &[(NAME, "thanos-query")],
            &[(NAME, "thanos"), (COMPONENT, "query")],
            &[(NAME, "thanos"), (COMPONENT, "query-layer")],
            &[("app", "thanos-query")],
            &[("app", "thanos-querier")],
        ],
        names: &["thanos-querier", "thanos-query"],
        ports: &["http", "http-web", "web", "9090", "10902"],
        path: "",
    },
    Product {
        name: "VictoriaMetrics cluster",
        labels: &[&[(NAME, "vmselect")], &[("app", "vmselect")]],
        names: &[],
        ports: &["http", "8481"],
        path: "/select/0/prometheus",
    },
    Product {
        name: "VictoriaMetrics",
        labels: &[
            &[(NAME, "vmsingle")],
            &[(NAME, "victoria-metrics-single")],
            &[("app", "vmsingle")],
            &[("app", "victoria-metrics-single")],
        ],
        names: &["victoria-metrics"],
        ports: &["http", "8428", "8429"],
        path: "",
    },
    Product {
        name: "Mimir",
        labels: &[&[(NAME, "mimir"), (COMPONENT, "gateway")], &[(NAME, "mimir"), (COMPONENT, "query-frontend")]],
        names: &[],
        ports: &["http-metrics", "http", "80", "8080"],
        path: "/prometheus",
    },
    Product {
        name: "Cortex",
        labels: &[&[(NAME, "cortex"), (COMPONENT, "query-frontend")]],
        names: &[],
        ports: &["http-metrics", "http", "8080"],
        path: "/prometheus",
    },
    Product {
        name: "Prometheus",
        labels: &[
            &[("app", "kube-prometheus-stack-prometheus")],
            &[("app", "prometheus-operator-prometheus")],
            &[("app", "rancher-monitoring-prometheus")],
            &[("app", "prometheus"), ("component", "server")],
            &[("app", "prometheus-server")],
            &[("app", "prometheus-prometheus")],
            &[(NAME, "prometheus"), (COMPONENT, "server")],
            &[(NAME, "prometheus"), (COMPONENT, "prometheus")],
            &[(NAME, "prometheus"), ("app.kubernetes.io/part-of", "kube-prometheus")],
            &[("operated-prometheus", "true")],
        ],
        names: &["prometheus", "prometheus-server", "prometheus-k8s", "prometheus-operated"],
        ports: &["http-web", "web", "http", "9090", "80"],
        path: "",
    },
];

/// The usual namespaces of stores: first in a list, and searched by those who may not list the Services of all namespaces.
pub const USUAL_NAMESPACES: [&str; 10] = [
    "monitoring",
    "prometheus",
    "observability",
    "kube-prometheus-stack",
    "openshift-monitoring",
    "cattle-monitoring-system",
    "metrics",
    "victoria-metrics",
    "mimir",
    "thanos",
];

/// The Services that look like a store: of each namespace the best before the second of any, those in the usual namespaces
/// first, and then the oldest, since nobody can make a Service older than those that are there.
pub fn candidates(services: &[Value]) -> Vec<Candidate> {
    let mut found: Vec<(usize, bool, &str, Candidate)> = Vec::new();
    for service in services {
        let matched = PRODUCTS.iter().enumerate().find(|(_, product)| product.is(service));
        if let Some((rank, product)) = matched
            && let Some(candidate) = product.candidate(service)
        {
            // A Service with an address of its own is meant to be used; one without lists its pods.
            let is_headless = text(service, "/spec/clusterIP") == "None";
            found.push((rank, is_headless, metadata(service, "creationTimestamp"), candidate));
        }
    }
    found.sort_by_key(|(rank, is_headless, _, candidate)| (*rank, *is_headless, candidate.target.to_string()));
    let mut of_namespaces: HashMap<String, usize> = HashMap::new();
    found.sort_by_cached_key(|(_, _, created, Candidate { target, .. })| {
        let before = of_namespaces.entry(target.namespace.clone()).or_default();
        *before += 1;
        let is_usual = USUAL_NAMESPACES.contains(&target.namespace.as_str());
        (*before, Reverse(is_usual), (*created).to_owned())
    });
    found.into_iter().map(|(_, _, _, candidate)| candidate).collect()
}

impl Product {
    fn is(&self, service: &Value) -> bool {
        let label = |key: &str| service.pointer("/metadata/labels")?.get(key)?.as_str();
        // The sidecars of the store carry some of the same labels.
        let is_other = matches!(
            label(COMPONENT).or_else(|| label("component")),
            Some("alertmanager" | "exporter" | "node-exporter" | "pushgateway" | "operator" | "metrics" | "controller")
        );
        let has_all = |set: &&[(&str, &str)]| set.iter().all(|(key, value)| label(key) == Some(*value));
        !is_other && (self.labels.iter().any(has_all) || self.names.contains(&metadata(service, "name")))
    }

    fn candidate(&self, service: &Value) -> Option<Candidate> {
        let ports = service.pointer("/spec/ports").and_then(Value::as_array)?;
        let number_of = |port: &Value| number(port, "/port").map(|number| number.to_string());
        let is = |port: &Value, of: &str| text(port, "/name") == of || number_of(port).as_deref() == Some(of);
        let wanted = self.ports.iter().find_map(|wanted| ports.iter().find(|port| is(port, wanted)));
        let port = wanted.or_else(|| ports.first())?;
        let namespace = metadata(service, "namespace");
        let is_openshift = namespace.starts_with("openshift-");
        let target = ForwardTarget {
            namespace: namespace.to_owned(),
            service: metadata(service, "name").to_owned(),
            port: number_of(port)?,
            is_tls: is_openshift || text(port, "/name") == "https",
            path: self.path.to_owned(),
        };
        // Files may hold names that no API server allows.
        let target = ForwardTarget::parse(&target.to_string())?;
        Some(Candidate { target, product: self.name, wants_token: is_openshift })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(namespace: &str, name: &str, labels: Value, ports: Value) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name, "labels": labels},
            "spec": {"ports": ports, "clusterIP": if name.ends_with("operated") { "None" } else { "10.0.0.1" }}})
    }

    fn check(services: &[Value], expected: &[&str]) {
        let found: Vec<String> = candidates(services).iter().map(Candidate::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_usual_installations_are_known() {
        let web = json!([{"name": "http-web", "port": 9090}, {"name": "reloader-web", "port": 8080}]);
        let of_operator = [
            service("monitoring", "kps-prometheus", json!({"app": "kube-prometheus-stack-prometheus"}), web.clone()),
            service("monitoring", "prometheus-operated", json!({"operated-prometheus": "true"}), web.clone()),
            service("monitoring", "kps-alertmanager", json!({"app": "kube-prometheus-stack-alertmanager"}), web),
        ];
        check(
            &of_operator,
            &["monitoring/kps-prometheus:9090 (Prometheus)", "monitoring/prometheus-operated:9090 (Prometheus)"],
        );
        let alone = service("kube", "prometheus-server", json!({}), json!([{"port": 80}]));
        check(&[alone], &["kube/prometheus-server:80 (Prometheus)"]);
        let exporter = json!({NAME: "prometheus", COMPONENT: "exporter"});
        let frontend = json!({NAME: "mimir", COMPONENT: "query-frontend"});
        let of_frontend = json!([{"name": "grpc", "port": 9095}, {"name": "http-metrics", "port": 8080}]);
        let several = [
            service("m", "prom-node-exporter", exporter, json!([{"port": 9100}])),
            service("m", "mimir-query-frontend", frontend, of_frontend),
            service("m", "vmselect", json!({NAME: "vmselect"}), json!([{"name": "http", "port": 8481}])),
            service("m", "vmsingle-a", json!({NAME: "vmsingle"}), json!([{"name": "http", "port": 8428}])),
        ];
        check(
            &several,
            &[
                "m/vmselect:8481/select/0/prometheus (VictoriaMetrics cluster)",
                "m/vmsingle-a:8428 (VictoriaMetrics)",
                "m/mimir-query-frontend:8080/prometheus (Mimir)",
            ],
        );
    }

    #[test]
    fn nobody_s_services_push_those_of_others_out_of_a_short_list() {
        let ports = json!([{"name": "http", "port": 9090}]);
        let made = |namespace: &str, name: &str, created: &str| {
            let mut service = service(namespace, name, json!({"app": "thanos-query"}), ports.clone());
            service["metadata"]["creationTimestamp"] = json!(created);
            service
        };
        let hostile =
            (0..40).map(|number| made(&format!("evil-{}", number % 20), &format!("a-{number}"), "2026-02-01"));
        let mut services: Vec<Value> = hostile.collect();
        services.push(service("monitoring", "prometheus-k8s", json!({}), ports.clone()));
        services.push(made("infra", "thanos-query", "2026-01-01"));
        let found: Vec<String> = candidates(&services).iter().map(|candidate| candidate.target.to_string()).collect();
        assert_eq!(found[..3], ["monitoring/prometheus-k8s:9090", "infra/thanos-query:9090", "evil-0/a-0:9090"]);
        // A second of a namespace comes after the first of all.
        assert!(
            found[2..22].iter().all(|target| target.starts_with("evil"))
                && found[2..22].contains(&"evil-19/a-19:9090".to_owned())
        );
    }

    #[test]
    fn openshift_wants_a_token() {
        let ports = json!([{"name": "web", "port": 9091}, {"name": "tenancy", "port": 9092}]);
        let found = candidates(&[service("openshift-monitoring", "thanos-querier", json!({}), ports)]);
        assert_eq!(found[0].target.to_string(), "openshift-monitoring/https:thanos-querier:9091");
        assert!(found[0].wants_token);
    }

    #[test]
    fn other_services_are_no_stores() {
        check(&[service("shop", "web", json!({"app": "web"}), json!([{"port": 80}]))], &[]);
        check(&[service("shop", "prometheus", json!({}), json!([]))], &[]);
        check(&[service("a/../b", "prometheus", json!({}), json!([{"port": 80}]))], &[]);
    }
}
