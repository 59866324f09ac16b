//! `headroom-controller resize` and `kubectl headroom resize` as programs, against an API server that fails.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headroom_api_server::clock::now;
use headroom_fixtures::api_server::{ApiServer, Kubelet, Outcome, kubeconfig, status};
use headroom_fixtures::http::{FakeServer, Reply, answer};
use headroom_fixtures::process::Running;
use headroom_fixtures::servers;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::DAY;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const MI: u64 = 1 << 20;
/// The requests of the pods when they start.
const START: [&str; 2] = ["1", "900Mi"];
/// A third less.
const LOWERED: [&str; 2] = ["670m", "603Mi"];

struct Cluster {
    server: Arc<ApiServer>,
    folder: TempDir,
    pods: usize,
}

/// A running program, and the port of its probes and metrics.
struct Program(Running, u16);

fn time(at: i64) -> String {
    headroom_admission::timestamp::Timestamp::from_unix_seconds(at).unwrap().to_string()
}

/// With letters that Kubernetes generates.
fn pod_name(place: usize) -> String {
    format!("web-6d4b9c6f5-bcdf{}", place + 4)
}

fn pod_path(place: usize) -> String {
    format!("/api/v1/namespaces/shop/pods/{}", pod_name(place))
}

impl Cluster {
    /// Pods of a Deployment that use a tenth of the CPU and a third of the memory that they request, and have for nine days.
    fn new(pods: usize, mode: &str) -> Self {
        let cluster = Self { server: ApiServer::new(), folder: tempfile::tempdir().unwrap(), pods };
        let server = &cluster.server;
        let labels = json!({"app": "web", "pod-template-hash": "6d4b9c6f5"});
        let resources = json!({"requests": {"cpu": START[0], "memory": START[1]}, "limits": {"memory": "1Gi"}});
        let spec = json!({"containers": [{"name": "app", "image": "nginx:1.27", "resources": resources}]});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let controlled = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "o", "controller": true}]);
        let counts = json!({"replicas": pods, "updatedReplicas": pods, "observedGeneration": 1});
        let namespace = json!({"headroom.dev/estimates": "always", "headroom.dev/resize": mode});
        let settings = json!({"estimates": {"mode": "always", "namespace": "headroom"}});
        let rules =
            json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]);
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": namespace}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}}),
            json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": "headroom-fill"},
                "spec": {"module": "registry://example.com/headroom:v1", "mutating": true, "rules": rules, "settings": settings},
                "status": {"policyStatus": "active"}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "generation": 1},
                "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template}, "status": counts}),
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-6d4b9c6f5", "namespace": "shop",
                "ownerReferences": controlled("Deployment", "web")}, "spec": {"replicas": pods, "template": template}}),
        ] {
            server.put(object);
        }
        for place in 0..pods {
            let mut spec = spec.clone();
            spec["nodeName"] = json!("a");
            server.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name(place),
                "namespace": "shop", "labels": labels, "generation": 1, "ownerReferences": controlled("ReplicaSet", "web-6d4b9c6f5")},
                "spec": spec, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
        }
        cluster.kubelet(Kubelet::Done);
        cluster.uses(100, 250 * MI);
        cluster.collect();
        fs::write(cluster.folder.path().join("kubeconfig"), kubeconfig(&[("it", &server.listen(), "shop")])).unwrap();
        cluster
    }

    /// Collects nine days of usage into profiles.
    fn collect(&self) {
        let mut csv = "time,namespace,pod,container,image,cpu,memory\n".to_owned();
        let end = now() / 600 * 600;
        for (sample, at) in (end - 9 * DAY..end).step_by(600).enumerate() {
            let memory = if sample % 100 == 7 { 300 } else { 250 };
            _ = writeln!(csv, "{at},shop,{},app,nginx:1.27,0.1,{memory}Mi", pod_name(0));
        }
        let folder = self.folder.path();
        fs::write(folder.join("usage.csv"), csv).unwrap();
        let mut command = crate::collect(folder);
        let collected = command.args(["files", "--step", "10m"]).arg(folder.join("usage.csv")).output().unwrap();
        assert!(collected.status.success(), "{collected:?}");
        let files = fs::read_dir(folder.join("profiles/headroom")).unwrap();
        for file in files {
            let mut profile: Value =
                serde_saphyr::from_str(&fs::read_to_string(file.unwrap().path()).unwrap()).unwrap();
            // Files have no workloads; the only pod of an image has the image's history.
            if let Some(same) = profile.pointer_mut("/spec/images/docker,io~1library~1nginx/own/shop/all/same") {
                *same = json!(["1,27", "web/app"]);
            }
            self.server.put(profile);
        }
    }

    fn uses(&self, cpu: u64, memory: u64) {
        for place in 0..self.pods {
            let usage = json!({"cpu": format!("{cpu}m"), "memory": memory.to_string()});
            self.server.put(json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "Pod",
                "metadata": {"name": pod_name(place), "namespace": "shop"},
                "timestamp": time(now()), "containers": [{"name": "app", "usage": usage}]}));
        }
    }

    fn kubelet(&self, verdict: Kubelet) {
        (0..self.pods).for_each(|place| self.server.kubelet(&pod_path(place), verdict));
    }

    fn start(&self) -> Program {
        self.start_with(&[])
    }

    fn start_with(&self, more: &[&str]) -> Program {
        let port = servers::free_port();
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let program = Command::new(env!("CARGO_BIN_EXE_headroom-controller"))
            .args(["resize", "--every", "1s", "--listen-status", &format!("127.0.0.1:{port}")])
            .args(more)
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Program(Running(program), port)
    }

    fn requests(&self, place: usize) -> [String; 2] {
        let pod = self.server.get(&pod_path(place)).unwrap();
        ["cpu", "memory"].map(|name| {
            pod["spec"]["containers"][0]["resources"]["requests"][name].as_str().unwrap_or_default().to_owned()
        })
    }

    fn reasons(&self) -> Vec<String> {
        let events = self.server.list("/api/v1/events");
        events.iter().filter_map(|event| Some(event["reason"].as_str()?.to_owned())).collect()
    }

    fn until(&self, what: &str, is_met: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_met() {
            let state = || format!("{:?} {:?}\n{}", self.requests(0), self.reasons(), self.log());
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {}", state());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn has_event(&self, reason: &str) -> bool {
        self.reasons().iter().any(|of| of == reason)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Runs `kubectl headroom`. Returns its exit code, output and errors.
    fn kubectl(&self, arguments: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
        command.args(arguments.split(' ')).env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        let done = command.output().unwrap();
        let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
        (done.status.code().unwrap(), out, err)
    }
}

impl Program {
    fn metrics(&self) -> String {
        servers::request(self.1, "GET", "/metrics", b"").unwrap_or_default().1
    }

    fn is_ready(&self) -> bool {
        servers::request(self.1, "GET", "/readyz", b"").is_ok_and(|(status, _)| status == 200)
    }
}

#[test]
fn observing_changes_nothing_and_tells_what_would_be() {
    let cluster = Cluster::new(1, "observe");
    let program = cluster.start();
    cluster.until("an event", || cluster.has_event("WouldResize"));
    cluster.until("metrics", || program.metrics().contains("\nheadroom_resize_pods_would_change 1\n"));
    let told = program.metrics();
    for line in [
        "headroom_resize_would_change{resource=\"cpu\",direction=\"down\"} 0.33\n",
        "headroom_resize_pods_measured 1\n",
        "headroom_resize_leads 1\n",
        "headroom_resize_supported 1\n",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let event = cluster.server.list("/api/v1/events").remove(0);
    assert_eq!(event["involvedObject"]["kind"], "Deployment");
    assert_eq!(
        event["message"],
        "pod web-6d4b9c6f5-bcdf4: would resize app (cpu request 1 -> 670m, memory request 900Mi -> 603Mi): it would be admitted so today"
    );
    let writes = cluster.server.requests().into_iter().filter(|request| request.method != "GET");
    let paths: Vec<String> = writes.map(|request| request.path).collect();
    assert!(paths.iter().all(|path| path.ends_with("/events") || path.contains("/leases")), "{paths:?}");
}

#[test]
fn the_alert_of_a_team_takes_a_decrease_back() {
    let cluster = Cluster::new(1, "on");
    let alert = json!({"metadata": {"annotations": {"headroom.dev/resize-alert": "errors > 1"}}});
    cluster.server.edit(DEPLOYMENT, &alert);
    let suffers = Arc::new(AtomicBool::new(true));
    let is_result = Arc::clone(&suffers);
    let prometheus = FakeServer::start(move |asked| {
        let has_result = asked.contains("errors > 1") && is_result.load(Ordering::Relaxed);
        let rows = if has_result { r#"{"metric":{},"value":[1,"3"]}"# } else { "" };
        answer(200, &format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{rows}]}}}}"#))
    });
    let _program = cluster.start_with(&["--prometheus", &prometheus.url()]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(cluster.requests(0), START, "nothing is lowered while it suffers");
    suffers.store(false, Ordering::Relaxed);
    cluster.until("a decrease", || cluster.requests(0) == LOWERED);
    cluster.kubelet(Kubelet::Done);
    suffers.store(true, Ordering::Relaxed);
    cluster.until("the size of before", || cluster.requests(0) == START);
    cluster.until("an event", || cluster.has_event("ResizeTakenBack"));
    assert!(prometheus.asked.lock().unwrap().iter().any(|asked| asked.contains("pressure_cpu_waiting")));
}

/// The expression of a tenant takes longer than anybody waits.
#[test]
fn an_alert_without_an_answer_delays_nobody_and_not_the_end() {
    let cluster = Cluster::new(1, "on");
    let alert = json!({"metadata": {"annotations": {"headroom.dev/resize-alert": "slow # )"}}});
    cluster.server.edit(DEPLOYMENT, &alert);
    let prometheus = FakeServer::start(|asked| match asked.contains("slow") {
        true => Reply::Stall(Vec::new()),
        false => answer(200, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#),
    });
    let mut program = cluster.start_with(&["--prometheus", &prometheus.url()]);
    let is_asked = || prometheus.asked.lock().unwrap().iter().any(|asked| asked.contains("query=count(slow # )\n)"));
    cluster.until("a question", is_asked);
    assert_eq!(cluster.requests(0), START, "nothing is lowered before there is an answer");
    let is_raised = || cluster.requests(0)[1] != START[1];
    cluster.uses(100, 950 * MI);
    let begun = Instant::now();
    cluster.until("a raise", is_raised);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let begun = Instant::now();
    Command::new("kill").arg(program.0.0.id().to_string()).status().unwrap();
    assert!(program.0.0.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn a_raise_that_the_node_has_no_room_for_is_not_begun() {
    let cluster = Cluster::new(1, "on");
    cluster.server.edit("/api/v1/nodes/a", &json!({"status": {"allocatable": {"memory": "1000Mi"}}}));
    cluster.uses(100, 950 * MI);
    let _program = cluster.start();
    cluster.until("an event", || cluster.has_event("ResizeDoesNotFit"));
    assert_eq!(cluster.requests(0), START);
    cluster.server.edit("/api/v1/nodes/a", &json!({"status": {"allocatable": {"memory": "2Gi"}}}));
    cluster.uses(100, 950 * MI);
    cluster.until("a raise", || cluster.requests(0) == ["1", "1Gi"]);
}

/// The pod of a container that is killed again and again has another version at any moment.
#[test]
fn a_pod_that_changes_between_look_and_request_is_looked_at_again() {
    let cluster = Cluster::new(1, "on");
    let (server, left) = (Arc::clone(&cluster.server), [true, false].map(|of| (of, AtomicBool::new(true))));
    cluster.server.on_request(move |request| {
        let is_dry_run = request.parameter("dryRun").is_some();
        let is_first = || left.iter().any(|(of, left)| *of == is_dry_run && left.swap(false, Ordering::Relaxed));
        if request.path.ends_with("/resize") && is_first() {
            server.edit(&pod_path(0), &json!({"metadata": {"annotations": {"dry-run": is_dry_run.to_string()}}}));
        }
        Outcome::Serve
    });
    let _program = cluster.start();
    cluster.until("a decrease", || cluster.requests(0) == LOWERED);
    cluster.until("an event", || !cluster.reasons().is_empty());
    assert_eq!(cluster.reasons(), ["Resizing"]);
    let limits = &cluster.server.get(&pod_path(0)).unwrap()["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(*limits, json!({"memory": "1Gi"}), "it stays as it was written");
}

#[test]
fn an_outage_is_one_line_of_each_replica_and_one_at_its_end() {
    let cluster = Cluster::new(1, "observe");
    let away = Arc::new(AtomicBool::new(false));
    let is_away = Arc::clone(&away);
    cluster.server.on_request(move |_| is_away.load(Ordering::Relaxed).then(|| status(503, "away")));
    let replicas = [cluster.start(), cluster.start()];
    let lines = |text: &str| cluster.log().matches(text).count();
    let leaders = || replicas.iter().filter(|of| of.metrics().contains("\nheadroom_resize_leads 1\n")).count();
    cluster.until("a leader", || leaders() == 1 && replicas.iter().all(Program::is_ready));
    away.store(true, Ordering::Relaxed);
    // A pass that had begun may say of its own what it could not read, or that usage grows old.
    let others = ["the pods of a namespace are left", "no pod has recent usage"];
    let outages = || lines("\"WARN\"") - others.map(lines).iter().sum::<usize>();
    cluster.until("nobody leads", || leaders() == 0 && outages() == 2);
    assert!(!replicas.iter().any(Program::is_ready));
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!((outages(), lines("answers again")), (2, 0));
    away.store(false, Ordering::Relaxed);
    cluster.until("the end", || lines("answers again") == 2 && leaders() == 1);
}

#[test]
fn an_api_server_without_resizes_is_told_and_left() {
    let cluster = Cluster::new(1, "on");
    cluster.server.on_request(|request| {
        let resources = || json!({"kind": "APIResourceList", "resources": [{"name": "pods"}]});
        (request.path == "/api/v1").then(|| (200_u16, resources()))
    });
    let program = cluster.start();
    cluster.until("a metric", || program.metrics().contains("\nheadroom_resize_supported 0\n"));
    cluster.until("a log", || cluster.log().contains("the API server has no pods/resize"));
    assert!(cluster.server.requests().iter().all(|request| !request.path.ends_with("/pods")));
}

#[test]
fn everybody_s_events_count_for_their_own_namespace() {
    let cluster = Cluster::new(1, "observe");
    cluster.server.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}));
    let event = |namespace: &str, name: String, about: &str, message: &str| {
        cluster.server.put(
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": namespace, "name": name},
            "involvedObject": {"kind": "Deployment", "namespace": about, "name": name}, "reason": "WouldResize",
            "reportingComponent": "headroom-resizer", "message": message, "lastTimestamp": time(now())}),
        );
    };
    (0..5_001).for_each(|of| event("mine", format!("a-{of:04}"), "shop", "forged"));
    event("shop", "web.1".to_owned(), "shop", "true");
    let found: Value = serde_json::from_str(&cluster.kubectl("resize -A -o json").1).unwrap();
    let rows = found["notDone"].as_array().unwrap();
    let of_shop: Vec<&Value> = rows.iter().filter(|row| row["namespace"] == "shop").map(|row| &row["what"]).collect();
    assert_eq!(of_shop, ["true"]);
    assert!(rows.len() < 602, "{}", rows.len());
}

#[test]
fn a_person_resizes_once_reads_what_was_done_and_takes_it_back() {
    let cluster = Cluster::new(2, "observe");
    let kubectl = |arguments: &str| cluster.kubectl(arguments);
    const WOULD: &str = "\
deployment/web: pod web-6d4b9c6f5-bcdf4: would resize app (cpu request 1 -> 670m, memory request 900Mi -> 603Mi): it would be admitted so today
deployment/web: pod web-6d4b9c6f5-bcdf5: a resize waits: other pods come first
";
    assert_eq!(kubectl("resize --all --dry-run"), (0, WOULD.to_owned(), String::new()));
    let (code, out, err) = kubectl("resize deployment/web");
    assert_eq!((code, out.as_str()), (0, WOULD));
    let asked = "nothing was changed: pass --yes to answer `Resize 1 pod in namespace shop of context it (http://127";
    assert!(err.starts_with(asked), "{err}");
    assert_eq!(cluster.requests(0), START);
    let (code, _, err) = kubectl("resize web --yes");
    assert!(code == 2 && err.contains("pod/web has no running pods in namespace shop"), "{err}");

    let (code, out, err) = kubectl("resize deployment/web --yes");
    const UNDO: &str = "resize deployment/web --undo --namespace shop --context it";
    assert!(err.starts_with(&format!("to take the last changes back, run `kubectl headroom {UNDO}`\n")), "{err}");
    let resized =
        "bcdf4: resizes app (cpu request 1 -> 670m, memory request 900Mi -> 603Mi): it would be admitted so today\n";
    assert!(code == 0 && out.ends_with(resized), "{out}");
    assert_eq!(cluster.requests(0), LOWERED);
    cluster.kubelet(Kubelet::Done);
    let (_, out, _) = kubectl("resize");
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[2][..4], ["shop/Deployment/web", "0", "1", "0"], "{out}");
    let sent = "shop/Deployment/web web-6d4b9c6f5-bcdf4 app: cpu request 1 -> 670m, memory request 900Mi -> 603Mi sent";
    assert_eq!(rows[6].join(" "), sent);

    let asked = "pass --yes to answer `Take back the last resize of each pod of deployment/web in namespace shop of context it (";
    let (_, _, err) = kubectl(UNDO);
    assert!(err.contains(asked), "{err}");
    let mode = |mode: &str| json!({"metadata": {"labels": {"headroom.dev/resize": mode}}});
    cluster.server.edit("/api/v1/namespaces/shop", &mode("off"));
    let (_, _, err) = kubectl("resize deployment/web --yes");
    assert!(err.contains("or asks to be left"), "{err}");
    let (code, out, err) = kubectl(&format!("{UNDO} --yes"));
    cluster.server.edit("/api/v1/namespaces/shop", &mode("observe"));
    let done = "took back the last resize of 1 pod of deployment/web in namespace shop of context it (http://127";
    assert!(err.starts_with(done), "{err}");
    let taken = "deployment/web: pod web-6d4b9c6f5-bcdf4: takes the resize back, app (cpu request 670m -> 1, memory request 603Mi -> 900Mi): somebody has asked for it\n";
    assert_eq!((code, out.as_str()), (0, taken));
    assert_eq!(cluster.requests(0), START);
    cluster.kubelet(Kubelet::Done);
    let (_, out, _) = kubectl("resize -o json");
    let found: Value = serde_json::from_str(&out).unwrap();
    let [left, changed] = [&found["leftAlone"][0], &found["changes"][0]];
    assert_eq!([&left["workload"], &left["why"]], ["shop/Deployment/web", "somebody has asked for it"]);
    assert_eq!([&changed["lowered"], &changed["why"]], [&json!(1), &json!("it would be admitted so today")]);
    assert!(
        kubectl("resize --all --dry-run").1.starts_with("no pod is resized: after a change that was taken back or")
    );
    let (_, out, err) = kubectl(&format!("{UNDO} --yes"));
    assert_eq!(out, taken.replace("takes the resize back, app (cpu request 670m -> 1, memory request 603Mi -> 900Mi): somebody has asked for it", "does not take the resize back: the pod has the size from before"));
    assert!(err.starts_with("nothing was taken back of deployment/web in namespace shop of context it (http"), "{err}");
    let usage = |place| format!("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/{}", pod_name(place));
    (0..2).for_each(|place| cluster.server.remove(&usage(place)));
    let (_, out, _) = kubectl("resize --all --dry-run");
    assert!(out.contains("\nno size can be judged: the metrics API has no recent usage of these pods"), "{out}");
}
