//! What recommending for a large cluster costs, and whose work it is: `make bench-recommend`.
//!
//! Fills a real Prometheus with days of usage, scraped each minute, and lets the real program recommend for the workloads,
//! which it reads from files; then asks the same store about each workload by itself, as other tools do. Reports wall time,
//! and the processor time and peak memory of both sides. `HEADROOM_BENCH_DAYS` and `HEADROOM_BENCH_WORKLOADS` change its
//! size; `HEADROOM_BENCH_HOLD=1` leaves Prometheus running until Enter is pressed, so that another tool can be run on the
//! same data.

mod measure;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use headroom_fixtures::servers::{self, PrometheusServer, Server};
use measure::{Result, processor_seconds_of, setting, usage};

const NAMESPACES: u64 = 20;
const SCRAPE: u64 = 60;

fn main() -> Result<()> {
    if !measure::is_asked_for() {
        return Ok(());
    }
    let (days, workloads) = (setting("HEADROOM_BENCH_DAYS", 14)?, setting("HEADROOM_BENCH_WORKLOADS", 1_000)?);
    let to = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / SCRAPE * SCRAPE;
    let begun = Instant::now();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("history.om");
    history(&file, workloads, to - days * 86_400, to)?;
    let server = PrometheusServer { file: Some(file.clone()), ..PrometheusServer::default() }.start();
    fs::remove_file(&file)?;
    let world = folder.path().join("world");
    fs::create_dir(&world)?;
    objects(&world.join("objects.yaml"), workloads)?;
    println!(
        "{workloads} workloads in {NAMESPACES} namespaces, {days} days, scraped each minute (filled in {:.0} s)",
        begun.elapsed().as_secs_f64()
    );
    println!(
        "{:24}{:>10}{:>12}{:>16}{:>10}{:>16}",
        "", "seconds", "our cpu s", "store's cpu s", "peak MB", "store's peak MB"
    );
    let typed = days.to_string();
    for (what, more) in [("step 5m (default)", vec![]), ("step 1m", vec!["--step", "1m"])] {
        report(what, &server, &world, &[["--days", &typed].as_slice(), &more].concat())?;
    }
    by_workload(&server, workloads, days)?;
    if std::env::var_os("HEADROOM_BENCH_HOLD").is_some() {
        println!("Prometheus is at {} until Enter is pressed", server.url());
        std::io::stdin().read_line(&mut String::new())?;
    }
    Ok(())
}

/// So many workloads are asked about one by one, and so many at a time.
const SAMPLE: u64 = 50;
const AT_A_TIME: u64 = 10;

/// What the same store takes for questions about each workload by itself, in the form in which KRR asks them: who made the
/// pods, then percentile, peak and number of samples with a point each 75 s. Measured for some, and told for all.
fn by_workload(server: &Server, workloads: u64, days: u64) -> Result<()> {
    let sample = SAMPLE.min(workloads);
    let before = processor_seconds_of(server.child.id());
    let begun = Instant::now();
    let ask = |number: u64| -> std::result::Result<(), String> {
        for question in questions(number, days * 24) {
            let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", &question).finish();
            match servers::request(server.port, "GET", &format!("/api/v1/query?{query}"), b"") {
                Ok((200, _)) => {}
                Ok((status, said)) => return Err(format!("{status}: {said}")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let ask = &ask;
        let workers = (0..AT_A_TIME)
            .map(|first| scope.spawn(move || (first..sample).step_by(AT_A_TIME as usize).try_for_each(ask)));
        let workers: Vec<_> = workers.collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?)
    })?;
    let all = workloads as f64 / sample as f64;
    println!(
        "{:24}{:>10.2}{:>12}{:>16.2}{:>10}{:>16}",
        "workload by workload",
        begun.elapsed().as_secs_f64() * all,
        "-",
        (processor_seconds_of(server.child.id()) - before) * all,
        "-",
        measure::high_water_mark(server.child.id()) >> 10
    );
    Ok(())
}

fn questions(number: u64, hours: u64) -> [String; 6] {
    let (namespace, pod) = (number % NAMESPACES, pod(number));
    let place = format!(r#"namespace="team-{namespace}",pod=~"{pod}",container="main""#);
    let by = "by (container, pod, job)";
    let of = |metric: &str| format!("max({metric}{{{place}}}) {by}");
    let window = format!("[{hours}h:75s]");
    let (cpu, memory) = ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes");
    [
        format!(r#"kube_replicaset_owner{{namespace="team-{namespace}",owner_name="app-{number}"}}[{hours}h]"#),
        format!(
            r#"last_over_time(kube_pod_owner{{namespace="team-{namespace}",owner_name=~"app-{number}-6d4cf56db6"}}[{hours}h])"#
        ),
        format!("quantile_over_time(0.95, max(rate({cpu}{{{place}}}[75s])) {by}{window})"),
        format!("count_over_time({}{window})", of(cpu)),
        format!("max_over_time({}{window})", of(memory)),
        format!("count_over_time({}{window})", of(memory)),
    ]
}

fn pod(number: u64) -> String {
    format!("app-{number}-6d4cf56db6-x7x2k")
}

/// CPU and memory of each container, and what kube-state-metrics tells, as OpenMetrics text.
fn history(file: &Path, workloads: u64, from: u64, to: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let place =
        |number: u64| format!(r#"namespace="team-{}",pod="{}",container="main""#, number % NAMESPACES, pod(number));
    usage(&mut out, workloads, place, (from..=to).step_by(SCRAPE as usize))?;
    writeln!(out, "# TYPE kube_pod_container_info gauge")?;
    for number in 0..workloads {
        for time in (to - 3_600..=to).step_by(SCRAPE as usize) {
            writeln!(
                out,
                "kube_pod_container_info{{{},image_spec=\"example.com/app-{number}:1\"}} 1 {time}",
                place(number)
            )?;
        }
    }
    writeln!(out, "# TYPE kube_pod_owner gauge")?;
    for number in 0..workloads {
        let namespace = number % NAMESPACES;
        writeln!(
            out,
            r#"kube_pod_owner{{namespace="team-{namespace}",pod="{}",owner_kind="ReplicaSet",owner_name="app-{number}-6d4cf56db6"}} 1 {to}"#,
            pod(number)
        )?;
    }
    writeln!(out, "# TYPE kube_replicaset_owner gauge")?;
    for number in 0..workloads {
        let namespace = number % NAMESPACES;
        writeln!(
            out,
            r#"kube_replicaset_owner{{namespace="team-{namespace}",replicaset="app-{number}-6d4cf56db6",owner_kind="Deployment",owner_name="app-{number}"}} 1 {to}"#
        )?;
    }
    writeln!(out, "# EOF")?;
    Ok(out.flush()?)
}

/// The workloads with their ReplicaSets and pods, and the rules of their namespaces.
fn objects(file: &Path, workloads: u64) -> Result<()> {
    let mut text = String::new();
    for namespace in 0..NAMESPACES {
        write!(
            text,
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{namespace}}}\n---\n\
             apiVersion: v1\nkind: LimitRange\nmetadata: {{name: limits, namespace: team-{namespace}}}\n\
             spec: {{limits: [{{type: Container, max: {{memory: 8Gi}}}}]}}\n---\n\
             apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: team, namespace: team-{namespace}}}\n\
             spec: {{hard: {{requests.cpu: \"100\"}}}}\n\
             status: {{hard: {{requests.cpu: \"100\"}}, used: {{requests.cpu: \"25\"}}}}\n---\n"
        )?;
    }
    for number in 0..workloads {
        let namespace = number % NAMESPACES;
        let resources = "{requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}";
        write!(
            text,
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: app-{number}, namespace: team-{namespace}}}\n\
             spec: {{replicas: 1, template: {{spec: {{containers: [{{name: main, image: \"example.com/app-{number}:1\", \
             resources: {resources}}}]}}}}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: {}, namespace: team-{namespace}, ownerReferences: [{{apiVersion: \
             apps/v1, kind: ReplicaSet, name: app-{number}-6d4cf56db6, controller: true}}]}}\nstatus: {{phase: Running}}\n---\n",
            pod(number)
        )?;
    }
    Ok(fs::write(file, text)?)
}

fn report(what: &str, server: &Server, world: &Path, more: &[&str]) -> Result<()> {
    let before = processor_seconds_of(server.child.id());
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
    command
        .args(["recommend", "-A", "-o", "json", "--prometheus", &server.url(), "--cluster-dir"])
        .arg(world)
        .args(more)
        .env("KUBECONFIG", "/dev/null")
        .stdout(File::create(world.with_extension("json"))?)
        .stderr(Stdio::inherit());
    let cost = measure::run(&mut command)?;
    let theirs = processor_seconds_of(server.child.id()) - before;
    println!(
        "{what:24}{:>10.2}{:>12.2}{theirs:>16.2}{:>10}{:>16}",
        cost.time.as_secs_f64(),
        cost.processor_seconds,
        cost.peak_kib >> 10,
        measure::high_water_mark(server.child.id()) >> 10
    );
    let found: serde_json::Value = serde_json::from_slice(&fs::read(world.with_extension("json"))?)?;
    let without = found.pointer("/total/withoutAdvice").and_then(serde_json::Value::as_u64);
    if without != Some(0) { Err(format!("{without:?} containers are without advice").into()) } else { Ok(()) }
}
