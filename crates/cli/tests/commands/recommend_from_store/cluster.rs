//! Prometheus data for the small cluster in `world`: four days, up to the time in `moment.yaml`.

use std::fmt::Write as _;

/// The time in `moment.yaml`. Output depends on how many calendar days these touch, and so on the time of day.
pub const NOW: i64 = 1_795_255_200;
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

const OWNERS: [(&str, &str, &str); 4] = [
    ("web-6d4cf56db6-zzzzz", "ReplicaSet", "web-6d4cf56db6"),
    ("web-5d8f7c6b5-bcdfg", "ReplicaSet", "web-5d8f7c6b5"),
    ("canary-7c9bfd5f4d-qqqqq", "ReplicaSet", "canary-7c9bfd5f4d"),
    ("gone-0", "StatefulSet", "gone"),
];

/// Out-of-memory kills of a container, six hours after each other, the first a day ago.
struct Kills {
    pod: &'static str,
    container: &'static str,
    count: i64,
    /// In mebibytes.
    limit: f64,
    span: (i64, i64),
}

const KILLS: [Kills; 2] = [
    Kills { pod: "db-0", container: "postgres", count: 1, limit: 256.0, span: (0, 100) },
    Kills { pod: "canary-7c9bfd5f4d-qqqqq", container: "canary", count: 2, limit: 128.0, span: (40, 100) },
];

impl Kills {
    fn labels(&self) -> String {
        format!(r#"namespace="shop",pod="{}",container="{}""#, self.pod, self.container)
    }

    fn first(&self, to: i64) -> i64 {
        to - 86_400
    }

    /// The number by then.
    fn until(&self, time: i64, to: i64) -> i64 {
        (0..self.count).filter(|kill| time >= self.first(to) + kill * 6 * 3_600).count() as i64
    }
}

/// OpenMetrics text.
pub fn history(with_state: bool) -> String {
    let (from, to) = (NOW - 4 * 86_400, NOW);
    let mut text = String::new();
    let times = |span: (i64, i64)| {
        let at = move |percent: i64| from + (to - from) * percent / 100 / STEP * STEP;
        (at(span.0)..=at(span.1)).step_by(STEP as usize)
    };
    let labels =
        |container: &Container| format!(r#"namespace="shop",pod="{}",container="{}""#, container.pod, container.name);
    text.push_str("# TYPE container_cpu_usage_seconds counter\n");
    for container in &CONTAINERS {
        for time in times(container.span) {
            let value = container.cpu * (time - from) as f64;
            let _ = writeln!(text, "container_cpu_usage_seconds_total{{{}}} {value} {time}", labels(container));
        }
    }
    text.push_str("# TYPE container_memory_working_set_bytes gauge\n");
    for container in &CONTAINERS {
        for time in times(container.span) {
            let mebi = if time.rem_euclid(3600) < 120 { container.peak } else { container.memory };
            let bytes = mebi * MEBI;
            let _ = writeln!(text, "container_memory_working_set_bytes{{{}}} {bytes} {time}", labels(container));
        }
    }
    for (metric, each_minute) in [("throttled_periods", 150), ("periods", 600)] {
        let _ = writeln!(text, "# TYPE container_cpu_cfs_{metric} counter");
        let front = &CONTAINERS[0];
        for time in times(front.span) {
            let value = (time - from) / 60 * each_minute;
            let _ = writeln!(text, "container_cpu_cfs_{metric}_total{{{}}} {value} {time}", labels(front));
        }
    }
    if with_state {
        state(&mut text, from, to, &|span| times(span).collect());
    }
    text.push_str("# EOF\n");
    text
}

fn state(text: &mut String, from: i64, to: i64, times: &dyn Fn((i64, i64)) -> Vec<i64>) {
    text.push_str("# TYPE kube_pod_container_info gauge\n");
    for Container { pod, name, span, .. } in &CONTAINERS {
        for time in times(*span) {
            let _ = writeln!(
                text,
                r#"kube_pod_container_info{{namespace="shop",pod="{pod}",container="{name}",image_spec="x:1"}} 1 {time}"#
            );
        }
    }
    text.push_str("# TYPE kube_pod_owner gauge\n");
    for (pod, kind, name) in OWNERS {
        for time in [from, from + 3600] {
            let _ = writeln!(
                text,
                r#"kube_pod_owner{{namespace="shop",pod="{pod}",owner_kind="{kind}",owner_name="{name}"}} 1 {time}"#
            );
        }
    }
    text.push_str("# TYPE kube_replicaset_owner gauge\n");
    let _ = writeln!(
        text,
        r#"kube_replicaset_owner{{namespace="shop",replicaset="web-5d8f7c6b5",owner_kind="Deployment",owner_name="web"}} 1 {from}"#
    );
    text.push_str("# TYPE kube_pod_container_status_last_terminated_reason gauge\n");
    for kills in &KILLS {
        for time in (kills.first(to)..=to).step_by(STEP as usize) {
            let of = kills.labels();
            let _ = writeln!(
                text,
                r#"kube_pod_container_status_last_terminated_reason{{{of},reason="OOMKilled"}} 1 {time}"#
            );
        }
    }
    text.push_str("# TYPE kube_pod_container_status_restarts counter\n");
    for kills in &KILLS {
        for time in times(kills.span) {
            let (of, restarts) = (kills.labels(), kills.until(time, to));
            let _ = writeln!(text, "kube_pod_container_status_restarts_total{{{of}}} {restarts} {time}");
        }
    }
    // CPU grows by half a core a day, and memory is counted since this morning.
    text.push_str("# TYPE kube_resourcequota gauge\n");
    for (resource, span, growth) in [("requests.cpu", (0, 100), 0.5), ("requests.memory", (90, 100), MEBI)] {
        let quota = format!(r#"namespace="shop",resourcequota="team",resource="{resource}",type="used""#);
        for time in times(span) {
            let used = 2.5 + growth * (2.0 + (time - to) as f64 / 86_400.0);
            let _ = writeln!(text, "kube_resourcequota{{{quota}}} {used} {time}");
        }
    }
    // Two replicas of the ledger led after each other.
    text.push_str("# TYPE headroom_tenantquota gauge\n");
    for (pod, span) in [("ledger-0", (0, 50)), ("ledger-1", (50, 100))] {
        let quota = format!(r#"pod="{pod}",quota="commerce",resource="requests.cpu",type="used""#);
        for time in times(span) {
            let used = 10.0 + 2.0 * (2.0 + (time - to) as f64 / 86_400.0);
            let _ = writeln!(text, "headroom_tenantquota{{{quota}}} {used} {time}");
        }
    }
    text.push_str("# TYPE kube_pod_container_resource_limits gauge\n");
    for kills in &KILLS {
        for time in times(kills.span) {
            let (of, limit) = (kills.labels(), kills.limit * MEBI);
            let _ = writeln!(text, r#"kube_pod_container_resource_limits{{{of},resource="memory"}} {limit} {time}"#);
        }
    }
}
