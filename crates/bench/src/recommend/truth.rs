//! A cluster whose usage is known minute by minute, so that recommendations can be compared with the truth: workloads of the
//! kinds that recommenders get wrong, each with a reason to be here.

#![expect(clippy::indexing_slicing, clippy::expect_used, reason = "minutes and shapes are counted here")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use headroom_fixtures::open_metrics::OpenMetrics;
use serde_json::Value;

use crate::measure::MIB;

/// A pod's usage in one minute: CPU in thousandths of a core, and memory in MiB at the end of the minute.
type Minute = (f32, f32);

pub const DAY: usize = 1440;
/// Nothing after the window is read: the next week shows how good the advice was.
const AFTER: usize = 7 * DAY;

/// A container of a workload, and all pods that it has and will have had.
pub struct Workload {
    pub kind: &'static str,
    pub name: String,
    pub shape: &'static str,
    flag: &'static str,
    pub replicas: usize,
    pub pods: Vec<Pod>,
}

pub struct Pod {
    pub name: String,
    /// The minute of the window in which it started.
    pub from: usize,
    usage: Vec<Minute>,
    /// The minutes of the window.
    window: usize,
}

impl Pod {
    pub fn past(&self) -> &[Minute] {
        &self.usage[..self.window.saturating_sub(self.from).min(self.usage.len())]
    }

    fn next(&self) -> &[Minute] {
        &self.usage[self.past().len()..]
    }
}

/// A minute, and what differs between the workloads of a shape.
struct At {
    minute: usize,
    window: usize,
    slot: usize,
    replicas: usize,
    /// Minutes since the pod's start.
    alive: usize,
    /// From 0 to 1.
    odds: [f64; 4],
    /// A random walk, and true in bursts.
    walk: f64,
    is_burst: bool,
    /// Thousandths of a core that are a level of 1.
    cpu: f64,
}

/// The kinds of load, each with the flag that it should have: what pooled percentiles, averages over minutes, single days and
/// short histories get wrong. The last is for plain ones.
const SHAPES: [(&str, &str); 21] = [
    ("steady", ""),
    ("daily", ""),
    ("office", "weekly"),
    ("weekly", "weekly"),
    ("one-day", "weekly"),
    ("nightly", "nightly"),
    ("walk", ""),
    ("bursts", "bursts"),
    ("hot-pod", "pods differ"),
    ("roaming", ""),
    ("growth", " grows "),
    ("leak", " grows "),
    ("step-up", ""),
    ("step-down", ""),
    ("hourly-job", ""),
    ("daily-job", ""),
    ("young", "short history"),
    ("minutes-old", "too little data"),
    ("java", "at start"),
    ("spike", "once"),
    ("app", ""),
];

/// CPU and memory in a minute, as parts of what the workload is scaled to.
fn level(shape: &str, at: &At) -> (f64, f64) {
    let [a, b, c, d] = at.odds;
    let hour = (at.minute % DAY) as f64 / 60.0;
    let weekday = (at.minute / DAY + (d * 7.0) as usize) % 7;
    let ago = (at.window as f64 - at.minute as f64) / DAY as f64;
    let is_in = |from: f64, hours: f64| (hour - from).rem_euclid(24.0) < hours;
    let or = |is_busy: bool, idle: f64| if is_busy { (1.0, 1.0) } else { (idle, 0.5) };
    match shape {
        "daily" => {
            let wave = 0.5 + 0.5 * ((hour / 24.0 + b) * std::f64::consts::TAU).sin();
            (0.1 + 0.9 * wave.powf(0.5 + 1.5 * a), 0.8 + 0.2 * wave)
        }
        "office" => or(weekday < 5 && is_in(8.0, 7.0 + 2.0 * a), 0.05 + 0.2 * b),
        "weekly" => or(weekday == 0 && is_in(18.0 * b, 1.0 + 5.0 * a), 0.03 + 0.15 * c),
        "one-day" => or(weekday == 0 && is_in(0.0, 12.0 + 14.0 * a), 0.05 + 0.1 * b),
        "nightly" => or(is_in(24.0 * b, 0.5 + 3.0 * a), 0.03 + 0.15 * c),
        "walk" => (0.3 * at.walk.exp(), 0.6 * (0.3 * at.walk).exp()),
        "bursts" => (if at.is_burst { 0.5 + 2.0 * c } else { 0.1 }, 1.0),
        "hot-pod" => or(at.slot == 0, 0.04 + 0.4 * a),
        "roaming" => {
            let turn = [DAY, DAY / 4, 2 * DAY][(a * 2.99) as usize];
            or(at.minute / turn % at.replicas == at.slot, 0.05 + 0.2 * b)
        }
        "growth" => (0.3 * (1.0 + (1.0 + 3.0 * a) * (1.0 - ago / 14.0)), 0.3 * (1.0 + (1.0 + b) * (1.0 - ago / 14.0))),
        "leak" => (1.0, 0.2 + (1.0 + a) * (1.0 - ago / 14.0)),
        "step-up" => or(ago < 0.3 + 9.0 * a, 0.1 + 0.5 * b),
        "step-down" => or(ago >= 0.3 + 12.0 * a, 0.05 + 0.5 * b),
        "java" => (if at.alive < 3 { 1_900.0 / at.cpu } else { 0.4 }, 1.0),
        "spike" if at.minute + 5 * DAY == at.window => (3_000.0 / at.cpu, 4.0),
        "app" => (0.7 + 0.6 * (hour / 24.0 - 0.5).abs(), 1.0),
        _ => (1.0, 1.0),
    }
}

/// Workloads of each shape but the last, which is for plain ones.
const EACH: usize = 3;

/// The requests for a workload: CPU in thousandths of a core, and memory in bytes.
pub type Advice = (Option<f64>, Option<f64>);

#[derive(Debug, Default)]
pub struct Accuracy {
    pub advised: usize,
    /// Workloads whose busiest pod was above its CPU in more than a tenth of its minutes, with that share; and next week's.
    pub starved: Vec<String>,
    pub starved_next: Vec<String>,
    /// Workloads with less memory than they used; and than they use next week.
    pub below_peak: Vec<String>,
    pub below_peak_next: usize,
    /// Cores and GiB, over the workloads with an advice.
    pub cores: f64,
    pub gibibytes: f64,
}

impl Workload {
    /// The greatest share of a pod's minutes above an amount of CPU, in percent. The runs of a Job, one after the other, count as
    /// one pod.
    fn starved(&self, cpu: f64, minutes: fn(&Pod) -> &[Minute]) -> u64 {
        let above = |pod: &Pod| minutes(pod).iter().filter(|(used, _)| f64::from(*used) > cpu).count();
        let counted = self.pods.iter().map(|pod| (above(pod), minutes(pod).len()));
        let share = |(above, all): (usize, usize)| (above * 1000).checked_div(all).unwrap_or(0) as u64;
        match self.kind == "CronJob" {
            true => share(counted.fold((0, 0), |sum, pod| (sum.0 + pod.0, sum.1 + pod.1))),
            false => counted.filter(|(_, all)| *all >= 60).map(share).max().unwrap_or(0),
        }
    }

    fn memory_peak(&self, minutes: fn(&Pod) -> &[Minute]) -> f64 {
        let all = self.pods.iter().flat_map(|pod| minutes(pod).iter().map(|(_, memory)| *memory));
        f64::from(all.fold(0.0, f32::max)) * MIB
    }

    /// KRR's simple strategy with its defaults: p95 of the busiest pod at a point each 75 s, the memory peak with 15 %, and
    /// nothing below 100 points.
    pub fn krr(&self) -> Advice {
        let minutes: usize = self.pods.iter().map(|pod| pod.past().len()).sum();
        if minutes * 60 / 75 < 100 {
            return (None, None);
        }
        let p95 = |pod: &Pod| percentile(pod.past().iter().map(|(cpu, _)| (*cpu, 1.0)).collect(), 0.95);
        let p95 = self.pods.iter().map(p95);
        (Some(p95.fold(10.0, f64::max)), Some((self.memory_peak(Pod::past) * 1.15).max(100.0 * MIB)))
    }

    /// The VerticalPodAutoscaler's target with its defaults: p90 of CPU, and of the peaks of memory on each day, with half the
    /// weight for each day before, and 15 %.
    pub fn vpa(&self) -> Advice {
        let at = |pod: &Pod, place: usize| 0.5_f64.powf((pod.window - pod.from - place) as f64 / DAY as f64);
        let (mut cpu, mut memory) = (Vec::new(), Vec::new());
        for pod in &self.pods {
            cpu.extend(pod.past().iter().enumerate().map(|(place, (cpu, _))| (*cpu, at(pod, place))));
            let days = pod.past().chunks(DAY).enumerate();
            memory.extend(
                days.map(|(day, of)| (of.iter().map(|(_, used)| *used).fold(0.0, f32::max), at(pod, day * DAY))),
            );
        }
        let memory = percentile(memory, 0.9) * MIB * 1.15;
        (Some((percentile(cpu, 0.9) * 1.15).max(25.0)), Some(memory.max(250.0 * MIB)))
    }
}

/// A percentile of weighted amounts.
fn percentile(mut amounts: Vec<(f32, f64)>, part: f64) -> f64 {
    amounts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut left = amounts.iter().map(|(_, weight)| weight).sum::<f64>() * part;
    let reached = amounts.iter().find(|(_, weight)| {
        left -= weight;
        left <= 1e-9
    });
    reached.map_or(0.0, |(amount, _)| f64::from(*amount))
}

impl Accuracy {
    /// Adds a workload. Those for which only some of the rules have a recommendation should be in none.
    pub fn add(&mut self, of: &Workload, (cpu, memory): Advice) {
        let (Some(cpu), Some(memory)) = (cpu, memory) else { return };
        self.advised += 1;
        let named = |share: u64| (share > 100).then(|| format!("{} {}%", of.name, share / 10));
        self.starved.extend(named(of.starved(cpu, Pod::past)));
        self.starved_next.extend(named(of.starved(cpu, Pod::next)));
        // No request covers what happened once.
        let is_below = memory < of.memory_peak(Pod::past) && of.flag != "once";
        self.below_peak.extend(is_below.then(|| of.name.clone()));
        self.below_peak_next += usize::from(memory < of.memory_peak(Pod::next));
        self.cores += cpu / 1000.0 * of.replicas as f64;
        self.gibibytes += memory / MIB / 1024.0 * of.replicas as f64;
    }
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// As likely between 1 and 2 as between 10 and 20.
    fn scale(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.next())
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() * from.len() as f64) as usize]
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.next().max(1e-12).ln()).sqrt() * (std::f64::consts::TAU * self.next()).cos()
    }
}

/// The workloads of a seed over a window of so many minutes and the week after it, with so many plain ones.
pub fn world(seed: u64, window: usize, plain: usize) -> Vec<Workload> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (apps, others) = SHAPES.split_last().expect("there are shapes");
    let all = others.iter().flat_map(|shape| (0..EACH).map(move |number| (shape, number)));
    let all = all.chain((0..plain).map(|number| (apps, number)));
    all.map(|(shape, number)| workload(shape, number, window, &mut random)).collect()
}

fn workload(shape: &'static (&str, &str), number: usize, window: usize, random: &mut Random) -> Workload {
    let end = window + AFTER;
    let (cpu, memory) = (random.scale(30.0, 1_500.0), random.scale(60.0, 2_000.0));
    let (noise, inertia) = (random.scale(0.03, 0.3), random.pick(&[0.0, 0.9, 0.97]));
    let kind = match shape.0 {
        "hourly-job" | "daily-job" => "CronJob",
        "hot-pod" | "roaming" => "StatefulSet",
        _ => "Deployment",
    };
    let replicas = match (kind, shape.0) {
        ("CronJob", _) | (_, "app") => 1,
        ("StatefulSet", _) => random.pick(&[3, 5, 8]),
        (_, "minutes-old") => 12,
        _ => random.pick(&[1, 1, 2, 3]),
    };
    let each = |generations: usize| -> Vec<(usize, usize, usize)> {
        let of = |number: usize| {
            (0..replicas).map(move |slot| (slot, number * end / generations, (number + 1) * end / generations))
        };
        (0..generations).flat_map(of).collect()
    };
    let repeated = |every: usize, length: usize| {
        (0..end / every).map(|run| (0, run * every + 7, run * every + 7 + length)).collect()
    };
    let lives = match shape.0 {
        "hourly-job" => repeated(60, random.pick(&[2, 4, 8])),
        "daily-job" => repeated(DAY, random.pick(&[2, 20, 120])),
        "young" => {
            (0..replicas).map(|slot| (slot, window - random.pick(&[240, 600, 1_200]).min(window), end)).collect()
        }
        "minutes-old" => (0..replicas).map(|slot| (slot, window - 20, end)).collect(),
        "java" => each(random.pick(&[3, 7, 10])),
        _ if kind == "Deployment" && shape.0 != "app" => each(random.pick(&[1, 1, 2, 4])),
        _ => each(1),
    };
    let odds = [(); 4].map(|()| random.next());
    let (volatility, burst, share) = (random.scale(0.01, 0.05), 2.0 + 18.0 * odds[0], random.scale(0.012, 0.12));
    let mut walk = 0.0;
    let walks: Vec<f64> = (0..end)
        .map(|_| {
            walk = walk * 0.9995 + volatility * random.normal();
            walk
        })
        .collect();
    let name = format!("{}-{number}", shape.0);
    let pods = lives
        .into_iter()
        .enumerate()
        .map(|(place, (slot, from, to))| {
            let (mut drift, mut burst_ends) = (0.0, 0);
            let usage = (from..to).map(|minute| {
                if burst_ends < minute && random.next() < share / burst {
                    burst_ends = minute + burst as usize;
                }
                let at = At {
                    minute,
                    window,
                    slot,
                    replicas,
                    alive: minute - from,
                    odds,
                    walk: walks[minute],
                    is_burst: minute < burst_ends,
                    cpu,
                };
                let (of_cpu, of_memory) = level(shape.0, &at);
                drift = inertia * drift + (1.0_f64 - inertia * inertia).sqrt() * random.normal();
                let noisy = (noise * drift - noise * noise / 2.0).exp();
                ((cpu * of_cpu * noisy) as f32, (memory * of_memory * (0.98 + 0.04 * random.next())) as f32)
            });
            let usage = usage.collect();
            let place = if kind == "StatefulSet" { slot } else { place };
            Pod { name: pod_name(kind, &name, place), from, usage, window }
        })
        .collect();
    Workload { kind, name, shape: shape.0, flag: shape.1, replicas, pods }
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
    let all = || workloads.iter().enumerate().flat_map(|(number, of)| of.pods.iter().map(move |pod| (number, of, pod)));
    let pods = || all().filter(|(_, _, pod)| !pod.past().is_empty());
    let place = |number, pod: &Pod| format!(r#"namespace="{}",pod="{}",container="main""#, namespace(number), pod.name);
    let at = |pod: &Pod, minute: usize| from + (pod.from + minute) as u64 * 60;
    writeln!(out, "# TYPE container_cpu_usage_seconds counter")?;
    for (number, _, pod) in pods() {
        let (labels, mut used) = (place(number, pod), 0.0_f64);
        for (minute, (cpu, _)) in pod.past().iter().enumerate() {
            writeln!(out, "container_cpu_usage_seconds_total{{{labels}}} {used:.3} {}", at(pod, minute))?;
            used += f64::from(*cpu) / 1000.0 * 60.0;
        }
    }
    writeln!(out, "# TYPE container_memory_working_set_bytes gauge")?;
    for (number, _, pod) in pods() {
        let labels = place(number, pod);
        for (minute, (_, memory)) in pod.past().iter().enumerate() {
            let bytes = f64::from(*memory) * MIB;
            writeln!(out, "container_memory_working_set_bytes{{{labels}}} {bytes:.0} {}", at(pod, minute))?;
        }
    }
    let mut states = OpenMetrics::default();
    for (number, Workload { kind, name, .. }, pod) in pods() {
        let namespace = namespace(number);
        let mut add = |metric: &str, labels: &str, minute| states.add(metric, labels, [(at(pod, minute) as i64, 1)]);
        let last = pod.past().len() - 1;
        add("kube_pod_container_info", &format!(r#"{},image_spec="example.com/{name}:1""#, place(number, pod)), last);
        let job = pod.name.trim_end_matches("-x7x2k");
        let (owner_kind, owner) = match *kind {
            "Deployment" => ("ReplicaSet", format!("{name}-6d4cf56db6")),
            "CronJob" => ("Job", job.to_owned()),
            kind => (kind, name.clone()),
        };
        let of_pod = format!(r#"namespace="{namespace}",pod="{}""#, pod.name);
        add("kube_pod_owner", &format!(r#"{of_pod},owner_kind="{owner_kind}",owner_name="{owner}""#), last);
        if *kind == "CronJob" {
            let of_job = format!(r#"namespace="{namespace}",job_name="{job}""#);
            add("kube_job_owner", &format!(r#"{of_job},owner_kind="CronJob",owner_name="{name}""#), 0);
        }
    }
    write!(out, "{states}")?;
    out.flush()
}

/// The workloads with their ReplicaSets and pods, and the rules of their namespaces.
pub fn objects(workloads: &[Workload]) -> String {
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
        let runs = |pod: &&Pod| of.kind != "CronJob" && !pod.past().is_empty() && !pod.next().is_empty();
        for pod in of.pods.iter().filter(runs) {
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

/// The recommendations of a JSON report and the flags, by workload name.
pub fn advice(report: &Value) -> BTreeMap<String, (Advice, String)> {
    let mut found = BTreeMap::new();
    for workload in list(&report["workloads"]) {
        let containers = || list(&workload["containers"]);
        let flags: Vec<&str> =
            containers().flat_map(|container| list(&container["flags"])).filter_map(Value::as_str).collect();
        let mut advice = (None, None);
        for resource in containers().flat_map(|container| list(&container["resources"])) {
            let text = resource["recommended"].as_str().unwrap_or_default();
            let Ok(amount) = headroom_admission::amount::Quantity::from_json_text(text) else { continue };
            match resource["resource"].as_str() {
                Some("cpu") => advice.0 = Some(amount.milli_value() as f64),
                Some("memory") => advice.1 = Some(amount.value() as f64),
                _ => {}
            }
        }
        let name = workload["name"].as_str().unwrap_or_default().to_owned();
        found.insert(name, (advice, flags.join("; ")));
    }
    found
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// For each flag: the workloads that have it rightly, wrongly, and lack it.
pub type Flags = BTreeMap<&'static str, [Vec<String>; 3]>;

pub fn count_flags<'w>(found: impl Iterator<Item = (&'w Workload, &'w str)>, counted: &mut Flags) {
    for (of, flags) in found {
        for flag in SHAPES.iter().map(|(_, flag)| *flag).filter(|flag| !flag.is_empty()).collect::<BTreeSet<_>>() {
            let [right, wrong, missing] = counted.entry(flag).or_default();
            match (flags.contains(flag), of.flag == flag) {
                (true, true) => right.push(of.name.clone()),
                (true, false) => wrong.push(of.name.clone()),
                (false, true) => missing.push(of.name.clone()),
                (false, false) => {}
            }
        }
    }
}
