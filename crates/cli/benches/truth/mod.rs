//! A cluster whose usage is known minute by minute, so that recommendations can be compared with the truth: workloads of the
//! kinds that recommenders get wrong, each with a reason to be here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// A pod's usage in one minute: CPU in thousandths of a core, and memory in MiB at the end of the minute.
type Minute = (f64, f64);

/// A container of a workload, and all pods that it has had.
pub struct Workload {
    pub kind: &'static str,
    pub name: String,
    pub replicas: usize,
    pub pods: Vec<Pod>,
}

pub struct Pod {
    pub name: String,
    /// The minute of the window in which it started.
    pub from: usize,
    pub usage: Vec<Minute>,
}

/// A recommendation: CPU in thousandths of a core, and memory in bytes.
pub type Advice = (Option<f64>, Option<f64>);

/// How good the advice for all workloads is.
#[derive(Debug, Default)]
pub struct Accuracy {
    /// Workloads whose busiest pod is above its CPU in more than a tenth of its minutes, with that share.
    pub starved: Vec<(String, u64)>,
    /// Workloads with less memory than they used.
    pub below_peak: Vec<String>,
    /// Cores and GiB, over the workloads with an advice.
    pub cores: f64,
    pub gibibytes: f64,
    pub without: Vec<String>,
}

/// How pods run: those of a Job one after the other, all others at the same time.
impl Workload {
    fn is_job(&self) -> bool {
        self.kind == "CronJob"
    }

    fn lives(&self) -> Vec<Vec<Minute>> {
        let lives = self.pods.iter().map(|pod| pod.usage.clone());
        if self.is_job() { vec![lives.flatten().collect()] } else { lives.collect() }
    }

    /// The CPU of each minute of the pod that needs most.
    fn busiest(&self) -> Vec<f64> {
        let cpu = |life: Vec<Minute>| life.into_iter().map(|(cpu, _)| cpu).collect::<Vec<f64>>();
        let lives = self.lives().into_iter().map(cpu);
        lives.max_by(|one, other| percentile(one, 0.95).total_cmp(&percentile(other, 0.95))).unwrap_or_default()
    }

    fn memory_peak(&self) -> f64 {
        let all = self.pods.iter().flat_map(|pod| pod.usage.iter().map(|(_, memory)| *memory));
        all.fold(0.0, f64::max) * MIB
    }

    /// KRR's simple strategy with its defaults: p95 of the busiest pod at a point each 75 s, the memory peak with 15 %, and
    /// nothing below 100 points.
    pub fn krr(&self) -> Advice {
        let minutes: usize = self.pods.iter().map(|pod| pod.usage.len()).sum();
        if minutes * 60 / 75 < 100 {
            return (None, None);
        }
        let p95 = self.pods.iter().map(|pod| {
            let cpu: Vec<f64> = pod.usage.iter().map(|(cpu, _)| *cpu).collect();
            percentile(&cpu, 0.95)
        });
        (Some(p95.fold(10.0, f64::max)), Some((self.memory_peak() * 1.15).max(100.0 * MIB)))
    }
}

pub const MIB: f64 = 1_048_576.0;

fn percentile(amounts: &[f64], part: f64) -> f64 {
    let mut sorted = amounts.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

pub fn accuracy(workloads: &[Workload], advice: impl Fn(&Workload) -> Advice) -> Accuracy {
    let mut found = Accuracy::default();
    for workload in workloads {
        let (cpu, memory) = advice(workload);
        if cpu.is_none() && memory.is_none() {
            found.without.push(workload.name.clone());
        }
        if let Some(cpu) = cpu {
            let busiest = workload.busiest();
            let above = busiest.iter().filter(|used| **used > cpu).count() * 100 / busiest.len().max(1);
            if above > 10 {
                found.starved.push((workload.name.clone(), above as u64));
            }
            found.cores += cpu / 1000.0 * workload.replicas as f64;
        }
        if let Some(memory) = memory {
            if memory < workload.memory_peak() {
                found.below_peak.push(workload.name.clone());
            }
            found.gibibytes += memory / MIB / 1024.0 * workload.replicas as f64;
        }
    }
    found
}

/// A number from 0 to 1 that is the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % 10_000) as f64 / 10_000.0
    }
}

/// The workloads over a window of so many minutes, with so many plain ones. Times are given in fourteenths of the window,
/// so that a small window has everything, too.
pub fn world(minutes: usize, plain: usize) -> Vec<Workload> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let day = minutes / 14;
    let ago = |days: f64| minutes - (days * day as f64) as usize;
    let mut all: Vec<Workload> = Vec::new();
    let mut add =
        |kind, name: &str, replicas: usize, lives: &[(usize, usize)], usage: &dyn Fn(usize, usize) -> Minute| {
            let pod = |(number, &(from, to)): (usize, &(usize, usize))| {
                let mut noisy = |(cpu, memory): Minute| {
                    (cpu * (0.85 + 0.3 * random.next()), memory * (0.98 + 0.04 * random.next()))
                };
                let usage = (from..to).map(|minute| noisy(usage(number, minute))).collect();
                Pod { name: pod_name(kind, name, number), from, usage }
            };
            let pods = lives.iter().enumerate().map(pod).collect();
            all.push(Workload { kind, name: name.to_owned(), replicas, pods });
        };
    let whole = (0, minutes);
    let hour_of = |minute: usize| (minute % 1440) as f64 / 60.0;
    let by_day = |minute: usize| 0.5 + 0.5 * ((hour_of(minute) - 9.0) / 24.0 * std::f64::consts::TAU).sin();

    // A hot pod among many, which pooled percentiles hide.
    add("StatefulSet", "shard", 12, &[whole; 12], &|pod, minute| match pod {
        0 => (700.0 + 200.0 * by_day(minute), 1500.0),
        _ => (50.0, 600.0),
    });
    add("Deployment", "pair", 2, &[whole; 2], &|pod, minute| {
        (if pod == 0 { 400.0 } else { 100.0 } * (0.6 + 0.4 * by_day(minute)), 300.0)
    });
    add("Deployment", "web", 3, &[whole; 3], &|_, minute| (100.0 + 250.0 * by_day(minute), 300.0));
    // Pods of earlier revisions count, too.
    let generations: Vec<_> =
        (0..10).map(|number| (number / 2 * minutes / 5, (number / 2 + 1) * minutes / 5)).collect();
    add("Deployment", "api", 2, &generations, &|_, minute| (350.0 + 250.0 * by_day(minute), 400.0));
    add("StatefulSet", "kafka", 3, &[whole; 3], &|_, minute| (500.0 + 250.0 * by_day(minute), 3500.0));
    add("Deployment", "cart", 1, &[whole], &|_, minute| (if minute % 250 < 3 { 1750.0 } else { 50.0 }, 250.0));
    for (name, days) in [("rare-peak", 10.0), ("recent-peak", 3.0)] {
        let at = ago(days);
        add("Deployment", name, 1, &[whole], &|_, minute| {
            (50.0, if (at..at + 8).contains(&minute) { 2000.0 } else { 400.0 })
        });
    }
    let sunday = ago(5.0) % (7 * day);
    add("Deployment", "sunday", 1, &[whole], &|_, minute| match (minute + 7 * day - sunday) % (7 * day) < day / 4 {
        true => (1500.0, 4096.0),
        false => (50.0, 300.0),
    });
    add("Deployment", "shrunk", 1, &[whole], &|_, minute| {
        if minute < ago(9.0) { (1000.0, 1600.0) } else { (50.0, 150.0) }
    });
    add("Deployment", "grown", 1, &[whole], &|_, minute| {
        if minute > ago(3.0) { (850.0, 1300.0) } else { (100.0, 300.0) }
    });
    // Bursts at the start of each pod.
    let starts: Vec<_> = (0..7).map(|number| (number * minutes / 7, (number + 1) * minutes / 7)).collect();
    add("Deployment", "java", 1, &starts, &|pod, minute| {
        (if minute - pod * minutes / 7 < 3 { 1900.0 } else { 270.0 }, 1500.0)
    });
    add(
        "CronJob",
        "report",
        1,
        &(0..minutes / 60).map(|hour| (hour * 60 + 7, hour * 60 + 11)).collect::<Vec<_>>(),
        &|_, _| (800.0, 600.0),
    );
    add(
        "CronJob",
        "nightly",
        1,
        &(0..14).map(|night| (night * day + day / 8, night * day + day / 8 + day / 12)).collect::<Vec<_>>(),
        &|_, _| (1800.0, 3000.0),
    );
    add("Deployment", "minutes-old", 1, &[(minutes - 20, minutes)], &|_, _| (300.0, 300.0));
    add("Deployment", "hours-old", 1, &[(minutes - 240, minutes)], &|_, _| (200.0, 200.0));
    add("Deployment", "fresh", 1, &[(ago(2.0), minutes)], &|_, _| (100.0, 220.0));
    (0..8).for_each(|number| add("Deployment", &format!("idle-{number}"), 1, &[whole], &|_, _| (1.0, 24.0)));
    for number in 0..plain {
        let (cpu, memory) = ((5 << (number % 8)) as f64, (30 + number * 7 % 900) as f64);
        add("Deployment", &format!("app-{number}"), 1, &[whole], &|_, minute| {
            (cpu * (0.7 + 0.6 * by_day(minute)), memory)
        });
    }
    // A hot pod that is steady: p95 of all pods together is what it uses, and what lies below knows nothing of it.
    let (kind, name) = ("StatefulSet", "steady-shard");
    let steady = |number| {
        let cpu = if number == 0 { 800.0 } else { 50.0 };
        Pod { name: pod_name(kind, name, number), from: 0, usage: vec![(cpu, 600.0); minutes] }
    };
    all.push(Workload { kind, name: name.to_owned(), replicas: 12, pods: (0..12).map(steady).collect() });
    all
}

fn pod_name(kind: &str, name: &str, number: usize) -> String {
    match kind {
        "StatefulSet" => format!("{name}-{number}"),
        "CronJob" => format!("{name}-{}-x7x2k", 29_000_000 + number),
        _ => format!("{name}-6d4cf56db6-{number:05}"),
    }
}

const NAMESPACES: usize = 20;

pub fn namespace(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

/// CPU and memory of each container at the end of each minute, and what kube-state-metrics tells, as OpenMetrics text.
pub fn history(out: &mut impl Write, workloads: &[Workload], from: u64) -> io::Result<()> {
    let pods =
        || workloads.iter().enumerate().flat_map(|(number, of)| of.pods.iter().map(move |pod| (number, of, pod)));
    let place = |number, pod: &Pod| format!(r#"namespace="{}",pod="{}",container="main""#, namespace(number), pod.name);
    let at = |pod: &Pod, minute: usize| from + (pod.from + minute) as u64 * 60;
    writeln!(out, "# TYPE container_cpu_usage_seconds counter")?;
    for (number, _, pod) in pods() {
        let (labels, mut used) = (place(number, pod), 0.0);
        for (minute, (cpu, _)) in pod.usage.iter().enumerate() {
            writeln!(out, "container_cpu_usage_seconds_total{{{labels}}} {used:.3} {}", at(pod, minute))?;
            used += cpu / 1000.0 * 60.0;
        }
    }
    writeln!(out, "# TYPE container_memory_working_set_bytes gauge")?;
    for (number, _, pod) in pods() {
        let labels = place(number, pod);
        for (minute, (_, memory)) in pod.usage.iter().enumerate() {
            writeln!(out, "container_memory_working_set_bytes{{{labels}}} {:.0} {}", memory * MIB, at(pod, minute))?;
        }
    }
    writeln!(out, "# TYPE kube_pod_container_info gauge")?;
    for (number, of, pod) in pods() {
        let last = at(pod, pod.usage.len() - 1);
        writeln!(
            out,
            "kube_pod_container_info{{{},image_spec=\"example.com/{}:1\"}} 1 {last}",
            place(number, pod),
            of.name
        )?;
    }
    writeln!(out, "# TYPE kube_pod_owner gauge")?;
    for (number, of, pod) in pods() {
        let (kind, owner) = match of.kind {
            "Deployment" => ("ReplicaSet", format!("{}-6d4cf56db6", of.name)),
            "CronJob" => ("Job", pod.name.trim_end_matches("-x7x2k").to_owned()),
            kind => (kind, of.name.clone()),
        };
        let (last, namespace) = (at(pod, pod.usage.len() - 1), namespace(number));
        writeln!(
            out,
            r#"kube_pod_owner{{namespace="{namespace}",pod="{}",owner_kind="{kind}",owner_name="{owner}"}} 1 {last}"#,
            pod.name
        )?;
    }
    writeln!(out, "# TYPE kube_job_owner gauge")?;
    for (number, of, pod) in pods().filter(|(_, of, _)| of.is_job()) {
        let (last, namespace, job) = (at(pod, 0), namespace(number), pod.name.trim_end_matches("-x7x2k"));
        writeln!(
            out,
            r#"kube_job_owner{{namespace="{namespace}",job_name="{job}",owner_kind="CronJob",owner_name="{}"}} 1 {last}"#,
            of.name
        )?;
    }
    writeln!(out, "# EOF")?;
    out.flush()
}

/// The workloads with their ReplicaSets and pods, and the rules of their namespaces.
pub fn objects(workloads: &[Workload], minutes: usize) -> String {
    let mut text = String::new();
    for namespace in (0..NAMESPACES).map(namespace) {
        let _ = write!(
            text,
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n---\n\
             apiVersion: v1\nkind: LimitRange\nmetadata: {{name: limits, namespace: {namespace}}}\n\
             spec: {{limits: [{{type: Container, max: {{memory: 8Gi}}}}]}}\n---\n\
             apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: team, namespace: {namespace}}}\n\
             spec: {{hard: {{requests.cpu: \"100\"}}}}\n\
             status: {{hard: {{requests.cpu: \"100\"}}, used: {{requests.cpu: \"25\"}}}}\n---\n"
        );
    }
    for (number, of) in workloads.iter().enumerate() {
        let Workload { kind, name, replicas, .. } = of;
        let place = format!("{{name: {name}, namespace: {}}}", namespace(number));
        let resources = "{requests: {cpu: 500m, memory: 512Mi}}";
        let pod = format!("{{containers: [{{name: main, image: \"example.com/{name}:1\", resources: {resources}}}]}}");
        let _ = match *kind {
            "CronJob" => write!(
                text,
                "apiVersion: batch/v1\nkind: CronJob\nmetadata: {place}\n\
                 spec: {{schedule: '7 * * * *', jobTemplate: {{spec: {{template: {{spec: {pod}}}}}}}}}\n---\n"
            ),
            kind => write!(
                text,
                "apiVersion: apps/v1\nkind: {kind}\nmetadata: {place}\nspec: {{replicas: {replicas}, template: {{spec: {pod}}}}}\n---\n"
            ),
        };
        let (owner, kind) = match *kind {
            "Deployment" => (format!("{name}-6d4cf56db6"), "ReplicaSet"),
            kind => (name.clone(), kind),
        };
        for pod in of.pods.iter().filter(|pod| !of.is_job() && pod.from + pod.usage.len() == minutes) {
            let _ = write!(
                text,
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {}, namespace: {}, ownerReferences: [{{apiVersion: apps/v1, \
                 kind: {kind}, name: {owner}, controller: true}}]}}\nstatus: {{phase: Running}}\n---\n",
                pod.name,
                namespace(number)
            );
        }
        if kind == "ReplicaSet" {
            let _ = write!(
                text,
                "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: {owner}, namespace: {}, ownerReferences: \
                 [{{apiVersion: apps/v1, kind: Deployment, name: {name}, controller: true}}]}}\nspec: {{replicas: {replicas}}}\n---\n",
                namespace(number)
            );
        }
    }
    text
}

/// The recommendations of a JSON report, by workload name.
pub fn advice(report: &serde_json::Value) -> BTreeMap<String, Advice> {
    let list =
        |value: &serde_json::Value, key: &str| value.get(key).and_then(|of| of.as_array()).cloned().unwrap_or_default();
    let mut found = BTreeMap::new();
    for workload in list(report, "workloads") {
        let mut advice = (None, None);
        for resource in list(&workload, "containers").iter().flat_map(|container| list(container, "resources")) {
            let text = resource.get("recommended").and_then(|of| of.as_str()).unwrap_or_default();
            let Ok(amount) = headroom_core::amount::Quantity::from_json_text(text) else { continue };
            match resource.get("resource").and_then(|of| of.as_str()) {
                Some("cpu") => advice.0 = Some(amount.milli_value() as f64),
                Some("memory") => advice.1 = Some(amount.value() as f64),
                _ => {}
            }
        }
        found.insert(workload.get("name").and_then(|of| of.as_str()).unwrap_or_default().to_owned(), advice);
    }
    found
}
