//! A cluster of any size, made by a formula: what its metrics store and its API server answer, and how much that is.
//!
//! A node runs 30 pods of two namespaces. A namespace has five Deployments of its own, each being rolled out, so that its two
//! pods have two images, and one of an image that runs in every namespace, with five pods. A CronJob starts a pod every
//! eight minutes, which runs for three: in 10,000 namespaces 20 pods a second.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_admission::timestamp::Timestamp;
use headroom_api_server::http_server::{ServerLimits, serve_pages};
use headroom_api_server::parts::locked;
use headroom_fixtures::api_server::not_found;
use headroom_usage::DAY;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const NAMESPACES_OF_NODE: u64 = 2;
const OWN_DEPLOYMENTS: u64 = 5;
/// A pod of a CronJob is updated so many times before it is deleted.
const UPDATES_OF_POD: u64 = 6;
const PODS_OF_GATEWAY: u64 = 5;
pub const PODS: u64 = 2 * OWN_DEPLOYMENTS + PODS_OF_GATEWAY;
/// Pods of the CronJob of a namespace start so many seconds apart, and run so many.
const JOB_INTERVAL: i64 = 480;
const JOB_SECONDS: i64 = 180;
/// In one of so many namespaces a pod was killed for memory a minute ago.
const KILLED_IN: u64 = 10;
/// One tree of quotas for so many namespaces.
const NAMESPACES_OF_TENANT: u64 = 100;
/// When kube-system was created, for the metrics store and the API server.
const CREATED: (i64, &str) = (1_735_689_600, "2025-01-01T00:00:00Z");

/// Traffic between a program and the servers.
#[derive(Debug, Default, Clone, Copy)]
pub struct Passed {
    pub queries: u64,
    /// Compressed, as a metrics store sends it.
    pub query_bytes: u64,
    pub unpacked_bytes: u64,
    pub reads: u64,
    pub read_bytes: u64,
    /// Writes of objects other than Leases.
    pub writes: u64,
    pub written_bytes: u64,
    /// The first and the last read of objects other than Leases.
    pub between: Option<[Instant; 2]>,
}

pub struct World {
    pub namespaces: u64,
    /// The clock of the metrics store.
    pub now: AtomicI64,
    pod: String,
    passed: Mutex<Passed>,
    /// Objects that programs wrote, by path.
    stored: Mutex<BTreeMap<String, String>>,
    revision: AtomicU64,
}

/// A container while it runs.
pub struct Container {
    pub pod: String,
    pub image: String,
    number: u64,
    /// None for a pod that was there before and is there afterwards.
    life: Option<(i64, i64)>,
}

impl Container {
    pub fn runs_at(&self, time: i64) -> bool {
        self.life.is_none_or(|(from, to)| (from..to).contains(&time))
    }
}

pub fn namespace(number: u64) -> String {
    format!("team-{number:05}")
}

impl World {
    pub fn new(nodes: u64) -> Arc<Self> {
        // Without the line breaks that people need.
        let pod = include_str!("pod.json").lines().map(str::trim).collect();
        let namespaces = nodes * NAMESPACES_OF_NODE;
        let (now, revision) = (AtomicI64::new(0), AtomicU64::new(7));
        Arc::new(Self { namespaces, now, pod, passed: Mutex::default(), stored: Mutex::default(), revision })
    }

    /// Returns the traffic since the last call.
    pub fn take(&self) -> Passed {
        std::mem::take(&mut locked(&self.passed))
    }

    /// Number and bytes of the stored objects whose path begins so.
    pub fn stored(&self, path: &str) -> (u64, u64) {
        let stored = locked(&self.stored);
        let of_path = stored.iter().filter(|(of, _)| of.starts_with(path));
        of_path.fold((0, 0), |(count, bytes), (_, object)| (count + 1, bytes + object.len() as u64))
    }

    /// The number of objects in a collection that is made, of all namespaces or of one, and the function that makes each.
    pub fn made<'w>(&'w self, path: &str) -> Option<(u64, impl Fn(u64) -> String + 'w)> {
        let in_one = path.split_once("/namespaces/").and_then(|(api, rest)| Some((api, rest.split_once('/')?)));
        let (path, first) = match in_one {
            Some((api, (name, plural))) => (format!("{api}/{plural}"), name.strip_prefix("team-")?.parse::<u64>().ok()),
            None => (path.to_owned(), None),
        };
        let (_, each, object) = KINDS.iter().find(|(of, ..)| *of == path)?;
        let count = match (each, first) {
            (0, _) => self.namespaces.div_ceil(NAMESPACES_OF_TENANT),
            (each, None) => self.namespaces * each,
            (each, Some(_)) => *each,
        };
        let (each, first) = ((*each).max(1), first.unwrap_or(0));
        Some((count, move |number| object(self, first + number / each, number % each, number)))
    }

    /// The containers of a namespace that run at some time of a window.
    pub fn containers(&self, namespace: u64, from: i64, to: i64) -> Vec<Container> {
        let lasting = |pod: String, image: String, number: u64| Container { pod, image, number, life: None };
        let own = (0..OWN_DEPLOYMENTS).flat_map(|app| {
            let of_revision = move |(number, revision): (u64, char)| {
                let pod = format!("app-{app}-7d4b9c6f{revision}-x2x4z");
                lasting(pod, own_image(namespace, app, number), app * 2 + number)
            };
            [(0, '5'), (1, '8')].map(of_revision)
        });
        let gateway = (0..PODS_OF_GATEWAY).map(|pod| {
            let name = format!("gateway-7d4b9c6f5-x2x4{}", pod + 4);
            lasting(name, "registry.example/mesh/gateway:1.30".to_owned(), 10 + pod)
        });
        let first = (from - JOB_SECONDS).div_euclid(JOB_INTERVAL) + 1;
        let jobs =
            (first..).map(|number| number * JOB_INTERVAL).take_while(|start| *start < to).map(|start| Container {
                pod: format!("report-{}-{}", start / 60, generated(namespace << 32 | start as u64)),
                image: own_image(namespace, 0, 0),
                number: 20,
                life: Some((start, start + JOB_SECONDS)),
            });
        own.chain(gateway).chain(jobs).collect()
    }

    /// Usage of a container in a minute: millionths of a core, and bytes.
    pub fn usage(&self, namespace: u64, container: &Container, time: i64) -> (u64, u64) {
        let number = namespace * 32 + container.number;
        let random = random((number << 32) ^ (time as u64 / 60));
        let (micros, mebibytes) = (5_000 << (number % 6), 32 + number * 13 % 400);
        (micros * (500 + random % 1000) / 1000, ((mebibytes << 10) * (900 + (random >> 32) % 200) / 1000) << 10)
    }

    /// Answers as a metrics store: the address, until the runtime ends.
    pub fn serve_metrics(self: &Arc<Self>, runtime: &Runtime) -> std::io::Result<u16> {
        let world = Arc::clone(self);
        serve(runtime, move |request| {
            // A question that is too long for an address comes as a form.
            let asked = [request.uri().query().unwrap_or_default().as_bytes(), request.body()].concat();
            let answer = world.answer_query(&asked);
            let body = gzip(answer.as_bytes());
            let mut passed = locked(&world.passed);
            passed.queries += 1;
            passed.query_bytes += body.len() as u64;
            passed.unpacked_bytes += answer.len() as u64;
            Some(Response::builder().header("content-encoding", "gzip").body(body.into()))
        })
    }

    /// Answers as an API server.
    pub fn serve_api(self: &Arc<Self>, runtime: &Runtime) -> std::io::Result<u16> {
        let world = Arc::clone(self);
        serve(runtime, move |request| {
            let query = request.uri().query().unwrap_or_default();
            let (status, answer) = match query.contains("watch=1") {
                false => world.answer_api(&request, query),
                true if query.contains("timeoutSeconds=1&") => (200, world.changes(request.uri().path())),
                // Nothing changes for who watches all the time.
                true => return None,
            };
            let is_lease = request.uri().path().contains("/leases");
            let mut passed = locked(&world.passed);
            if request.method() == Method::GET {
                passed.reads += 1;
                passed.read_bytes += answer.len() as u64;
                if !is_lease {
                    let now = Instant::now();
                    passed.between = Some([passed.between.map_or(now, |[first, _]| first), now]);
                }
            } else if !is_lease {
                passed.writes += 1;
                passed.written_bytes += request.body().len() as u64;
            }
            Some(Response::builder().status(status).body(answer.into()))
        })
    }

    /// The answer to a watch for the changes of a minute: the pods of CronJobs start and end.
    fn changes(&self, path: &str) -> String {
        let started = if path == KINDS[0].0 { self.namespaces * 60 / JOB_INTERVAL as u64 } else { 0 };
        let pod = self.made(path).map(|(_, pod)| pod);
        let changed = (0..started * UPDATES_OF_POD).filter_map(|number| Some(pod.as_ref()?(number)));
        let line = |pod: String| format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", pod.replace('\n', ""));
        let mut lines: String = changed.map(line).collect();
        lines.push_str(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#);
        lines + "\n"
    }

    fn answer_query(&self, asked: &[u8]) -> String {
        let mut query = String::new();
        let mut range = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(asked) {
            match value.parse::<i64>() {
                Ok(number) => _ = range.insert(name.into_owned(), number),
                Err(_) if name == "query" => query = value.into_owned(),
                Err(_) => {}
            }
        }
        let mut rows = String::new();
        let kind = match (range.get("start"), range.get("end"), range.get("step")) {
            (Some(&from), Some(&to), Some(&step)) => {
                self.rows(&query, (from..=to).step_by(step.max(1) as usize), &mut rows);
                "matrix"
            }
            (None, ..) if query.contains("last_over_time(kube_pod_container_info{") => {
                let to = range.get("time").map_or(0, |to| to - 600);
                self.rows(&query, std::iter::once(to), &mut rows);
                "vector"
            }
            _ => self.figures(&query, &mut rows),
        };
        let rows = rows.trim_end_matches(',');
        format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":[{rows}]}}}}"#)
    }

    /// The series of a range query.
    fn rows(&self, query: &str, times: impl Iterator<Item = i64> + Clone, rows: &mut String) {
        if query.starts_with("group by (namespace)") {
            for number in 0..self.namespaces {
                let label = format!(r#""namespace":"{}""#, namespace(number));
                row(rows, &label, times.clone().map(|time| (time, "1".to_owned())));
            }
        }
        // Those of the first selector.
        let named = query.split_once("namespace=").and_then(|(_, rest)| rest.split('"').nth(1)).unwrap_or_default();
        let numbers = named.split('|').filter_map(|name| name.strip_prefix("team-")?.parse().ok());
        let (first, last) = (times.clone().next().unwrap_or(0), times.clone().last().unwrap_or(0));
        for number in numbers {
            // A day that ends at the first or only moment.
            let is_of_day = query.contains("[86400s") || query.contains("[87000s]");
            let from = if is_of_day { first - DAY + 60 } else { first };
            let is_in_one = query.contains("headroom_job");
            let is_asked = |container: &Container| match container.life {
                Some(_) => !query.contains("pod!~"),
                None => !is_in_one,
            };
            let asked = self.containers(number, from, last + 1).into_iter().filter(is_asked);
            for container in asked.take(if is_in_one { 1 } else { usize::MAX }) {
                self.row_of_container(query, number, &container, is_of_day, times.clone(), rows);
            }
        }
    }

    fn row_of_container(
        &self,
        query: &str,
        number: u64,
        container: &Container,
        is_of_day: bool,
        times: impl Iterator<Item = i64> + Clone,
        rows: &mut String,
    ) {
        let (pod, namespace) = (&container.pod, namespace(number));
        let place = match query.contains("headroom_job") {
            true => format!(r#""namespace":"{namespace}","headroom_job":"report","container":"main""#),
            false => format!(r#""namespace":"{namespace}","pod":"{pod}","container":"main""#),
        };
        let added = if query.contains("2251799813685248") { 1 << 51 } else { 0 };
        let times = times.filter(|time| is_of_day || container.runs_at(*time));
        let cores = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        // As unlike as percentiles are.
        let seconds = container.life.map_or(DAY, |(from, to)| to - from);
        let mut moments = container.life.map_or(0, |(from, _)| from)..;
        let mut at =
            |time: i64| moments.next().filter(|_| query.contains("quantile_over_time(")).map_or(time, |of| of * 60);
        let usage = |time| (time, self.usage(number, container, at(time)));
        if query.contains("count by (") {
            // Each container has one series.
        } else if query.contains("kube_pod_container_info{") {
            let labels = format!(r#"{place},"image_spec":"{}""#, container.image);
            row(rows, &labels, times.map(|time| (time, "1".to_owned())));
        } else if query.contains("count_over_time(") {
            row(rows, &place, times.map(|time| (time, (seconds / 30).to_string())));
        } else if query.contains("ceil(1e6 * ") {
            row(rows, &place, times.map(usage).map(|(time, (micros, _))| (time, micros.to_string())));
        } else if query.contains("container_cpu_usage_seconds_total{") {
            row(rows, &place, times.map(usage).map(|(time, (micros, _))| (time, cores(micros))));
        } else if query.contains("container_memory_working_set_bytes{") {
            row(rows, &place, times.map(usage).map(|(time, (_, bytes))| (time, (added + bytes).to_string())));
        }
    }

    /// The answers of a query about one moment, which may hold several questions.
    fn figures(&self, query: &str, rows: &mut String) -> &'static str {
        let (now, containers) = (self.now.load(Ordering::Relaxed), self.namespaces * PODS);
        if query.ends_with("[10m]") {
            row(rows, "", (now - 600..now).step_by(30).map(|time| (time, "1".to_owned())));
            return "matrix";
        }
        for part in query.split("label_replace(").filter(|part| !part.is_empty()) {
            let (question, number) = part.split_once(r#", "headroom_question", ""#).unwrap_or((part, ""));
            let number = number.split('"').next().filter(|number| !number.is_empty());
            let of_containers = [
                r#"container_cpu_usage_seconds_total{namespace!="""#,
                r#"container_memory_working_set_bytes{namespace!="""#,
                r#"kube_pod_container_info{namespace!="",pod!="",container!="",container!="POD",image_spec!="""#,
            ];
            let is_asked = |of: &&str| question.contains(*of) && !question.contains(r#",image!="""#);
            let (labels, value) = match question {
                "vector(time())" => ("", now as u64),
                _ if question.contains("kube_namespace_created{") => ("", CREATED.0 as u64),
                _ if question.starts_with("topk(") => (r#""namespace":"team-00000","pod":"p""#, 20),
                _ if question.starts_with("count by (") || of_containers.iter().any(is_asked) => ("", containers),
                _ => continue,
            };
            let number = number.map(|number| format!(r#""headroom_question":"{number}""#)).unwrap_or_default();
            let comma = if labels.is_empty() || number.is_empty() { "" } else { "," };
            _ = write!(rows, r#"{{"metric":{{{labels}{comma}{number}}},"value":[{now},"{value}"]}},"#);
        }
        "vector"
    }

    fn answer_api(&self, request: &Request<Bytes>, query: &str) -> (u16, String) {
        let path = request.uri().path();
        if request.method() != Method::GET {
            return self.write(request.method(), path, request.body());
        }
        let parameter =
            |name: &str| form_urlencoded::parse(query.as_bytes()).find(|(of, _)| of == name).map(|(_, value)| value);
        let resources = |served: [(&str, &str, bool); 2]| {
            let resources =
                served.map(|(name, kind, namespaced)| json!({"name": name, "kind": kind, "namespaced": namespaced}));
            (200, json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}).to_string())
        };
        match path {
            "/version" => return (200, json!({"major": "1", "minor": "33"}).to_string()),
            "/api/v1" => return resources([("pods", "Pod", true), ("pods/resize", "Pod", true)]),
            "/apis/headroom.dev/v1alpha1" => {
                return resources([("usageprofiles", "UsageProfile", true), ("tenantquotas", "TenantQuota", false)]);
            }
            "/api/v1/namespaces/kube-system" => {
                let metadata = json!({"name": "kube-system", "uid": "e3b0c442", "creationTimestamp": CREATED.1});
                return (200, json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}).to_string());
            }
            _ => {}
        }
        let limit = parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(u64::MAX);
        let from = parameter("continue").unwrap_or_default();
        if let Some((count, object)) = self.made(path) {
            let from: u64 = from.parse().unwrap_or(0);
            let to = count.min(from.saturating_add(limit));
            return (200, list((from..to).map(object), (to < count).then(|| to.to_string())));
        }
        let stored = locked(&self.stored);
        if let Some(object) = stored.get(path) {
            return (200, object.clone());
        }
        let mut names = path.rsplit('/');
        if let (Some(name), Some("leases" | "usageprofiles" | "quotaledgers")) = (names.next(), names.next()) {
            let (status, answer) = not_found(name);
            return (status, answer.to_string());
        }
        // The objects of a collection, or those of a root, whose names begin with its own.
        let root = parameter("labelSelector").and_then(|label| label.split_once('=').map(|(_, root)| root.to_owned()));
        let path = path.replace("v1alpha1/usageprofiles", "v1alpha1/namespaces/headroom/usageprofiles");
        let begin = format!("{path}/{}", root.unwrap_or_default());
        let after = if from.is_empty() { begin.clone() } else { format!("{from}\0") };
        let mut found = stored
            .range(after..)
            .take_while(|(path, _)| path.starts_with(&begin))
            .take(limit.saturating_add(1) as usize);
        let page: Vec<_> = found.by_ref().take(limit as usize).collect();
        let next = found.next().and(page.last()).map(|(path, _)| (*path).clone());
        (200, list(page.into_iter().map(|(_, object)| object.clone()), next))
    }

    fn write(&self, method: &Method, path: &str, body: &[u8]) -> (u16, String) {
        let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
        let revision = self.revision.fetch_add(1, Ordering::Relaxed).to_string();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.extend([("resourceVersion".to_owned(), json!(revision)), ("uid".to_owned(), json!("e3b0c442"))]);
        }
        let (text, mut stored) = (object.to_string(), locked(&self.stored));
        let path = match (method, object.pointer("/metadata/name").and_then(Value::as_str)) {
            (&Method::POST, Some(name)) => format!("{path}/{name}"),
            _ => path.to_owned(),
        };
        match *method {
            Method::DELETE => _ = stored.remove(&path),
            // The status of what is not stored here.
            _ if path.ends_with("/status") => {}
            _ => _ = stored.insert(path, text.clone()),
        }
        (200, text)
    }
}

fn own_image(namespace: u64, app: u64, revision: u64) -> String {
    format!("registry.example/team-{namespace:05}/app-{app}:1.{revision}")
}

fn random(of: u64) -> u64 {
    // Constants of splitmix64.
    let random = of.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    random ^ (random >> 27)
}

/// Five letters as in names that Kubernetes generates.
fn generated(of: u64) -> String {
    let letters = (0..5).map(|place| b"bcdfghjklmnpqrstvwxz24567"[(random(of) >> (8 * place)) as usize % 25]);
    letters.map(char::from).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Memory takes everything.
    _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default()
}

/// Appends a series with at least one point, and a comma.
fn row(rows: &mut String, labels: &str, points: impl Iterator<Item = (i64, String)>) {
    let mut points = points.peekable();
    if points.peek().is_none() {
        return;
    }
    _ = write!(rows, r#"{{"metric":{{{labels}}},"values":["#);
    for (number, (time, value)) in points.enumerate() {
        let comma = if number == 0 { "" } else { "," };
        _ = write!(rows, r#"{comma}[{time},"{value}"]"#);
    }
    rows.push_str("]},");
}

fn list(items: impl Iterator<Item = String>, next: Option<String>) -> String {
    let metadata = json!({"resourceVersion": "7", "continue": next.unwrap_or_default()});
    let items = items.collect::<Vec<_>>().join(",");
    format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":[{items}]}}"#)
}

/// A moment so many seconds ago.
fn ago(seconds: i64) -> (i64, String) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let time = now - seconds;
    (time, Timestamp::from_unix_seconds(time).map(|time| time.to_string()).unwrap_or_default())
}

/// An object by its namespace, its number there, and its number.
type Object = fn(&World, u64, u64, u64) -> String;

/// The collections that are made: path, objects in each namespace (0: one for each tree of quotas).
const KINDS: [(&str, u64, Object); 10] = [
    ("/api/v1/pods", PODS, |world, of, number, _| {
        let container = world.containers(of, 0, 0).into_iter().nth(number as usize);
        let (pod, image) = container.map(|container| (container.pod, container.image)).unwrap_or_default();
        let owner = pod.rsplit_once('-').map_or("", |(owner, _)| owner);
        let app = owner.rsplit_once('-').map_or("", |(app, _)| app);
        // One Deployment of five leaves its requests to Headroom.
        let domain = if app == "app-0" { "headroom.dev" } else { "example.com" };
        let replaced = world.pod.replace("NAMESPACE", &namespace(of)).replace("POD", &pod).replace("OWNER", owner);
        let replaced = replaced.replace("IMAGE", &image).replace("APP", app).replace("DOMAIN", domain);
        if of % KILLED_IN != 0 || number + 1 != PODS {
            return replaced;
        }
        let killed = json!({"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": ago(60).1}});
        replaced.replace(r#""lastState": {}"#, &format!(r#""lastState": {killed}"#))
    }),
    ("/apis/metrics.k8s.io/v1beta1/pods", PODS, |world, of, number, _| {
        let ((time, text), containers) = (ago(15), world.containers(of, 0, 0));
        let Some(container) = containers.get(number as usize) else { return String::new() };
        let (micros, bytes) = world.usage(of, container, time);
        let used = json!({"name": "main", "usage": {"cpu": format!("{micros}u"), "memory": bytes.to_string()}});
        json!({"metadata": {"name": container.pod, "namespace": namespace(of)}, "timestamp": text, "window": "15s", "containers": [used]})
            .to_string()
    }),
    ("/api/v1/namespaces", 1, |_, of, _, _| {
        let labels = json!({"kubernetes.io/metadata.name": namespace(of), "tenant": format!("tenant-{}", of / NAMESPACES_OF_TENANT)});
        json!({"metadata": {"name": namespace(of), "labels": labels, "creationTimestamp": CREATED.1}}).to_string()
    }),
    ("/api/v1/limitranges", 1, |_, of, _, _| {
        let limit = json!({"type": "Container", "default": {"memory": "512Mi"}, "defaultRequest": {"cpu": "100m", "memory": "256Mi"}, "max": {"memory": "8Gi"}});
        object("limits", of, json!({"spec": {"limits": [limit]}})).to_string()
    }),
    ("/api/v1/resourcequotas", 1, |_, of, _, _| {
        let amounts =
            |cpu: &str, memory: &str, pods: &str| json!({"requests.cpu": cpu, "requests.memory": memory, "pods": pods});
        let hard = amounts("20", "40Gi", "50");
        let status = json!({"hard": hard, "used": amounts("3750m", "7680Mi", "15")});
        object("team", of, json!({"spec": {"hard": hard}, "status": status})).to_string()
    }),
    ("/apis/headroom.dev/v1alpha1/tenantquotas", 0, |_, _, _, number| {
        let selector = json!({"matchLabels": {"tenant": format!("tenant-{number}")}});
        let hard = json!({"requests.cpu": "10k", "pods": "50k"});
        let spec = json!({"namespaces": {"selector": selector}, "quota": {"hard": hard}});
        let status = json!({"hard": hard, "used": {"requests.cpu": "375", "pods": "1500"}});
        json!({"metadata": {"name": format!("tenant-{number}"), "generation": 1, "resourceVersion": "7", "creationTimestamp": CREATED.1}, "spec": spec, "status": status}).to_string()
    }),
    ("/apis/apps/v1/deployments", OWN_DEPLOYMENTS + 1, |world, of, number, _| workload(world, of, number, None)),
    // The two ReplicaSets of each Deployment that have pods, and an old one.
    ("/apis/apps/v1/replicasets", 3 * (OWN_DEPLOYMENTS + 1), |world, of, number, _| {
        workload(world, of, number / 3, Some(number % 3))
    }),
    ("/api/v1/services", OWN_DEPLOYMENTS + 1, |_, of, number, _| {
        let port = json!({"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"});
        let selector = json!({"app.kubernetes.io/name": app(number)});
        let spec = json!({"type": "ClusterIP", "clusterIP": "10.96.4.7", "ports": [port], "selector": selector});
        object(&app(number), of, json!({"spec": spec})).to_string()
    }),
    ("/apis/batch/v1/cronjobs", 1, |_, of, _, _| {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": own_image(of, 0, 0)}]});
        let job = json!({"spec": {"template": {"spec": pod}}});
        object("report", of, json!({"spec": {"schedule": "*/8 * * * *", "jobTemplate": job}})).to_string()
    }),
];

fn app(number: u64) -> String {
    if number == OWN_DEPLOYMENTS { "gateway".to_owned() } else { format!("app-{number}") }
}

fn object(name: &str, of: u64, mut object: Value) -> Value {
    object["metadata"] = json!({"name": name, "namespace": namespace(of), "uid": "3b1c8a0e-09a1-47fb-a6a3-5de0a3c8f0d2", "resourceVersion": "7",
        "creationTimestamp": CREATED.1, "labels": {"app.kubernetes.io/name": name, "team": namespace(of)}});
    object
}

/// A Deployment, or one of its ReplicaSets, with the template of its pods.
fn workload(world: &World, of: u64, number: u64, replica_set: Option<u64>) -> String {
    let pod = (KINDS[0].2)(world, of, number * 2, 0);
    let spec = serde_json::from_str::<Value>(&pod).unwrap_or_default();
    let app = app(number);
    let replicas = match replica_set {
        Some(2) => 0,
        _ if app == "gateway" && replica_set == Some(1) => 0,
        None if app != "gateway" => 2,
        _ if app == "gateway" => PODS_OF_GATEWAY,
        _ => 1,
    };
    let labels = json!({"app.kubernetes.io/name": app, "team": namespace(of)});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec["spec"]}});
    let name = replica_set.map_or(app.clone(), |number| format!("{app}-7d4b9c6f{}", [5, 8, 2][number as usize % 3]));
    let mut made = object(&name, of, json!({"spec": spec, "status": {"replicas": replicas}}));
    if replica_set.is_some() {
        made["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "uid": "3b1c8a0e", "controller": true}]);
    }
    made.to_string()
}

/// Serves on a free port of loopback until the runtime ends; what has no answer is left waiting.
fn serve(
    runtime: &Runtime,
    answer: impl Fn(Request<Bytes>) -> Option<http::Result<Response<Full<Bytes>>>> + Clone + Send + Sync + 'static,
) -> std::io::Result<u16> {
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let port = listener.local_addr()?.port();
    let patience = Duration::from_secs(600);
    let limits = ServerLimits {
        connections: 1000,
        body: 8 << 20,
        bodies: 256 << 20,
        answers: 1 << 30,
        patience,
        idle: Some(patience),
        ..ServerLimits::PAGES
    };
    let respond = move |request| {
        let answered = answer(request);
        async move {
            match answered {
                Some(answered) => answered.unwrap_or_default(),
                None => std::future::pending().await,
            }
        }
    };
    runtime.spawn(serve_pages(listener, limits, respond));
    Ok(port)
}
