//! Prometheus data for the small cluster in `world`: four days, up to the time in `moment.yaml`.

use headroom_fixtures::open_metrics::OpenMetrics;

/// The time in `moment.yaml`. Output depends on how many calendar days these touch, and so on the time of day.
pub const NOW: i64 = 1_795_255_200;
const FROM: i64 = NOW - 4 * 86_400;
const FIRST_KILL: i64 = NOW - 86_400;
const STEP: i64 = 60;
const MEBI: f64 = 1_048_576.0;

/// One container of one pod, for part of the time.
struct Container {
    pod: &'static str,
    name: &'static str,
    /// Cores, and mebibytes with an hourly peak.
    cpu: f64,
    memory: f64,
    peak: f64,
    /// The span of its existence, in percent of the four days.
    span: (i64, i64),
}

fn labels(pod: &str, container: &str) -> String {
    format!(r#"namespace="shop",pod="{pod}",container="{container}""#)
}

const CONTAINERS: [Container; 7] = [
    Container { pod: "web-6d4cf56db6-x7x2k", name: "front", cpu: 0.2, memory: 200.0, peak: 220.0, span: (20, 100) },
    Container { pod: "web-6d4cf56db6-x7x2k", name: "worker", cpu: 0.05, memory: 300.0, peak: 320.0, span: (20, 100) },
    Container { pod: "web-6d4cf56db6-zzzzz", name: "front", cpu: 0.2, memory: 200.0, peak: 220.0, span: (20, 100) },
    // A pod of an older revision, which only the store has.
    Container { pod: "web-5d8f7c6b5-bcdfg", name: "front", cpu: 0.4, memory: 300.0, peak: 400.0, span: (0, 20) },
    Container { pod: "db-0", name: "postgres", cpu: 0.02, memory: 180.0, peak: 250.0, span: (0, 100) },
    Container { pod: "canary-7c9bfd5f4d-qqqqq", name: "canary", cpu: 0.1, memory: 100.0, peak: 110.0, span: (75, 100) },
    Container { pod: "gone-0", name: "gone", cpu: 0.1, memory: 100.0, peak: 110.0, span: (0, 50) },
];

pub fn history(with_state: bool) -> OpenMetrics {
    let mut history = OpenMetrics::default();
    for container @ Container { cpu, span, .. } in &CONTAINERS {
        let of = labels(container.pod, container.name);
        let seconds = times(*span).map(|time| (time, cpu * (time - FROM) as f64));
        history.add("container_cpu_usage_seconds_total", &of, seconds);
        let mebi = |time: i64| if time.rem_euclid(3600) < 120 { container.peak } else { container.memory };
        let bytes = times(*span).map(|time| (time, mebi(time) * MEBI));
        history.add("container_memory_working_set_bytes", &of, bytes);
    }
    let front = &CONTAINERS[0];
    for (metric, each_minute) in [("throttled_periods", 150), ("periods", 600)] {
        let periods = times(front.span).map(|time| (time, (time - FROM) / 60 * each_minute));
        history.add(&format!("container_cpu_cfs_{metric}_total"), &labels(front.pod, front.name), periods);
    }
    if with_state {
        add_state(&mut history);
    }
    history
}

fn add_state(history: &mut OpenMetrics) {
    for container in &CONTAINERS {
        let labels = format!(r#"{},image_spec="x:1""#, labels(container.pod, container.name));
        history.add("kube_pod_container_info", &labels, times(container.span).map(|time| (time, 1)));
    }
    for pod in ["web-6d4cf56db6-zzzzz", "web-5d8f7c6b5-bcdfg", "canary-7c9bfd5f4d-qqqqq", "gone-0"] {
        let (name, _) = pod.rsplit_once('-').unwrap();
        let kind = if name == "gone" { "StatefulSet" } else { "ReplicaSet" };
        let labels = format!(r#"namespace="shop",pod="{pod}",owner_kind="{kind}",owner_name="{name}""#);
        history.add("kube_pod_owner", &labels, [(FROM, 1), (FROM + 3600, 1)]);
    }
    let web = r#"namespace="shop",replicaset="web-5d8f7c6b5",owner_kind="Deployment",owner_name="web""#;
    history.add("kube_replicaset_owner", web, [(FROM, 1)]);
    // Out-of-memory kills of a pod's container, six hours after each other, the first a day ago: their number, at so many mebibytes,
    // and the span of the history in percent in which the pod is.
    for (pod, container, count, limit, span) in
        [("db-0", "postgres", 1, 256.0, (0, 100)), ("canary-7c9bfd5f4d-qqqqq", "canary", 2, 128.0, (40, 100))]
    {
        let of = labels(pod, container);
        let terminated = (FIRST_KILL..=NOW).step_by(STEP as usize).map(|time| (time, 1));
        let reason = format!(r#"{of},reason="OOMKilled""#);
        history.add("kube_pod_container_status_last_terminated_reason", &reason, terminated);
        let until = |time: i64| (0..count).filter(|kill: &i64| time >= FIRST_KILL + kill * 6 * 3_600).count();
        let restarts = times(span).map(|time| (time, until(time)));
        history.add("kube_pod_container_status_restarts_total", &of, restarts);
        let limits = times(span).map(|time| (time, limit * MEBI));
        history.add("kube_pod_container_resource_limits", &format!(r#"{of},resource="memory""#), limits);
    }
    // CPU grows by half a core a day, and memory is counted since this morning.
    for (resource, span, growth) in [("requests.cpu", (0, 100), 0.5), ("requests.memory", (90, 100), MEBI)] {
        let quota = format!(r#"namespace="shop",resourcequota="team",resource="{resource}",type="used""#);
        history.add("kube_resourcequota", &quota, times(span).map(|time| (time, 2.5 + growth * days(time))));
    }
    // Two replicas of the ledger led after each other.
    for (pod, span) in [("ledger-0", (0, 50)), ("ledger-1", (50, 100))] {
        let quota =
            format!(r#"pod="{pod}",job="headroom-ledger",quota="commerce",resource="requests.cpu",type="used""#);
        history.add("headroom_tenantquota", &quota, times(span).map(|time| (time, 10.0 + 2.0 * days(time))));
    }
    let forged = r#"job="evil/exporter",quota="commerce",resource="requests.cpu",type="used""#;
    history.add("headroom_tenantquota", forged, times((0, 100)).map(|time| (time, 900.0)));
}

fn times(span: (i64, i64)) -> impl Iterator<Item = i64> {
    let at = |percent: i64| FROM + (NOW - FROM) * percent / 100 / STEP * STEP;
    (at(span.0)..=at(span.1)).step_by(STEP as usize)
}

/// Days since two days ago.
fn days(time: i64) -> f64 {
    2.0 + (time - NOW) as f64 / 86_400.0
}
