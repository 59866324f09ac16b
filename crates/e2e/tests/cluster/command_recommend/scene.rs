//! A shop whose pods Prometheus has monitored for four days, and helpers to run the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use headroom_e2e::cluster::{api_in, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::Deployment;
use headroom_wasm_host::built::workspace_file;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::audit_log::{ApiRequest, AuditLog};
use crate::guarded_namespace::{Guarded, eventually, guard};
use crate::objects::deployment;

use headroom_fixtures::servers::{PrometheusServer, Server};

/// The namespace of Prometheus, and its `--prometheus` there. It is only recognized by its labels, not by its name.
pub const MONITORING: &str = "monitoring";
pub const STORE: &str = "monitoring/metrics:9090";

/// The requests of the shop's web server, and its usage.
pub const REQUESTED: &str = r#"{"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}"#;
const CORES: f64 = 0.333;
const BYTES: u64 = 200 << 20;

pub struct Scene {
    pub shop: Guarded,
    /// The working folder of programs.
    pub folder: TempDir,
    audit: AuditLog,
    _store: Server,
}

/// The result of a run.
pub struct Said {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl Scene {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, audit) = AuditLog::start(InTreePlugins::On, Controllers::On).await;
        let shop = guard(cluster, Deployment::mutating(settings())).await;
        let requested = serde_json::from_str(REQUESTED).unwrap();
        shop.create(deployment(&shop.namespace, 2, requested)).await.unwrap();
        let pods = pods(&shop, 2).await;
        let names: Vec<&str> = pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        let history = history(&shop.namespace, &names);
        let store = PrometheusServer { history, on_all_addresses: true, ..PrometheusServer::default() }.start();
        put_behind_a_service(&shop, store.port).await;
        Self { shop, folder, audit, _store: store }
    }

    /// Runs `kubectl headroom` as a user.
    pub fn run_as(&self, user: &str, arguments: &[&str]) -> Said {
        said(self.program(env!("CARGO_BIN_EXE_kubectl-headroom-under-test")).args(arguments).args(["--as", user]))
    }

    /// Runs `kubectl headroom` as the administrator.
    pub fn run(&self, arguments: &[&str]) -> Said {
        said(self.program(env!("CARGO_BIN_EXE_kubectl-headroom-under-test")).args(arguments))
    }

    /// Runs `headroom-controller collect` as the administrator.
    pub fn collect(&self, arguments: &[&str]) -> Said {
        said(self.program(env!("CARGO_BIN_EXE_headroom-controller-under-test")).arg("collect").args(arguments))
    }

    fn program(&self, path: &str) -> Command {
        let mut command = Command::new(path);
        command.current_dir(self.folder.path()).env("KUBECONFIG", self.shop.cluster.kubeconfig_file().unwrap());
        command.env("LC_ALL", "C.UTF-8");
        command
    }

    /// Writes a file for a program, and returns its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.shop.cluster.run_kubectl(arguments).unwrap()
    }

    /// Applies a role of the Helm chart, binds a user to its role, and waits until that is effective.
    pub fn grant(&self, user: &str, namespace: &str, file: &str, role: &str, can: &[&str]) {
        let path = workspace_file("deploy/charts/headroom/files/people").join(file);
        self.kubectl(&["apply", "-n", namespace, "-f", path.to_str().unwrap()]);
        self.bind(user, namespace, role, can);
    }

    /// Binds a user to a role, `role/…` or `clusterrole/…`, in a namespace, or in all namespaces if it is empty.
    pub fn bind(&self, user: &str, namespace: &str, role: &str, can: &[&str]) {
        let (kind, name) = role.split_once('/').unwrap();
        let (binding, scope) = match namespace {
            "" => ("clusterrolebinding", ["--all-namespaces=true", "--all-namespaces=true"]),
            namespace => ("rolebinding", ["--namespace", namespace]),
        };
        let binding_name = format!("{user}-{name}");
        let mut arguments = vec!["create", binding, &binding_name];
        let (role, user_argument) = (format!("--{kind}={name}"), format!("--user={user}"));
        arguments.extend([role.as_str(), &user_argument]);
        if !namespace.is_empty() {
            arguments.extend(scope);
        }
        self.kubectl(&arguments);
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let mut command = self.shop.cluster.kubectl().unwrap();
            let said = said(command.args(["auth", "can-i", "--as", user]).args(can).args(scope));
            if said.out.trim() == "yes" {
                return;
            }
            assert!(Instant::now() < deadline, "{user} still cannot {}: {}", can.join(" "), said.err);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The current Deployment.
    pub async fn deployment(&self) -> DynamicObject {
        self.shop.all("apps/v1", "Deployment").get("web").await.unwrap()
    }

    /// A user's requests to the API server by our program, in order.
    pub fn requests_by(&self, user: &str) -> Vec<ApiRequest> {
        self.audit.requests(|event| {
            let is_kubectl = event["userAgent"].as_str().unwrap_or_default().starts_with("kubectl/");
            event["impersonatedUser"]["username"] == user && !is_kubectl
        })
    }
}

/// The policy's.
pub fn settings() -> Value {
    json!({"estimates": {"namespace": "headroom"}})
}

fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Said { exit: output.status.code().unwrap(), out, err }
}

/// Waits until the shop has `count` pods, and returns them.
pub async fn pods(shop: &Guarded, count: usize) -> Vec<DynamicObject> {
    eventually("pods are created", async || {
        let pods = shop.all("v1", "Pod").list(&ListParams::default()).await.unwrap().items;
        if pods.len() >= count { Ok(pods) } else { Err(format!("{} of {count}", pods.len())) }
    })
    .await
}

const DAYS: i64 = 4;

/// Four days of metrics of cAdvisor and kube-state-metrics for pods with equal usage, as OpenMetrics text. The days of a store end
/// now, and those of collected history at midnight, so these may lie in five; as much is added for four as for five.
fn history(namespace: &str, pods: &[&str]) -> String {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap() / 60 * 60;
    let times = || (now - DAYS * 86_400..=now).step_by(60);
    let mut text = String::new();
    let mut add_series = |metric: &str, kind: &str, more: &str, value: &dyn Fn(i64) -> String| {
        let name = metric.strip_suffix("_total").unwrap_or(metric);
        writeln!(text, "# TYPE {name} {kind}").unwrap();
        for pod in pods {
            for time in times() {
                let place = format!(r#"namespace="{namespace}",pod="{pod}""#);
                writeln!(text, "{metric}{{{place},{more}}} {} {time}", value(time)).unwrap();
            }
        }
    };
    let container = r#"container="web""#;
    let begin = now - DAYS * 86_400;
    add_series("container_cpu_usage_seconds_total", "counter", container, &|time| {
        format!("{:.3}", CORES * f64::from(i32::try_from(time - begin).unwrap()))
    });
    add_series("container_memory_working_set_bytes", "gauge", container, &|_| BYTES.to_string());
    let image = r#"container="web",image_spec="registry.example.com/shop/web:1""#;
    add_series("kube_pod_container_info", "gauge", image, &|_| "1".to_owned());
    text.push_str("# EOF\n");
    text
}

/// Creates a Service for Prometheus, which runs on this machine: its endpoint is a pod with this machine's address.
async fn put_behind_a_service(shop: &Guarded, port: u16) {
    let client = &shop.client;
    create(client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MONITORING}})).await.unwrap();
    let labels = BTreeMap::from([("app", "prometheus"), ("component", "server")]);
    let container = json!({"name": "prometheus", "image": "prom/prometheus", "ports": [{"containerPort": port}]});
    create(
        client,
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "prometheus-0", "namespace": MONITORING, "labels": labels},
            "spec": {"containers": [container]}}),
    )
    .await
    .unwrap();
    let address = own_address().to_string();
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}]}});
    let of = |kind: &str| -> Api<DynamicObject> { api_in(client, MONITORING, "v1", kind) };
    of("Pod").patch_status("prometheus-0", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    create(
        client,
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "metrics", "namespace": MONITORING, "labels": labels},
            "spec": {"ports": [{"name": "web", "port": 9090, "targetPort": port}]}}),
    )
    .await
    .unwrap();
    // The API server only connects to addresses in a pod's status.
    let pod = json!({"kind": "Pod", "name": "prometheus-0", "namespace": MONITORING});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "metrics", "namespace": MONITORING},
        "subsets": [{"addresses": [{"ip": address, "targetRef": pod}], "ports": [{"name": "web", "port": port}]}]});
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, &endpoints).unwrap();
    let path = file.path().to_str().unwrap();
    let said = said(shop.cluster.kubectl().unwrap().args(["apply", "-f", path]));
    assert_eq!(said.exit, 0, "{}", said.err);
}

/// An address of this machine to which its API server may connect: not loopback.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    // Nothing is sent: this only selects the source address. The machine needs one besides loopback.
    socket.connect(("198.51.100.1", 9)).unwrap();
    socket.local_addr().unwrap().ip()
}
