//! End to end: from a real Prometheus through `headroom-controller collect` to a profile, whose percentiles must equal those
//! of the data.

use std::path::Path;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Percentile;
use headroom_api_server::clock::now;
use headroom_fixtures::open_metrics::OpenMetrics;
use headroom_fixtures::servers::PrometheusServer;
use headroom_usage::profile::Usage;
use serde_json::Value;

const MINUTES: u64 = 180;

/// The memory of a pod in a minute, in bytes, and its CPU usage in millicores.
fn used(pod: u64, minute: u64) -> [u64; 2] {
    let random = (pod * MINUTES + minute).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    [(20 + random % 400) << 20, 50 + random % 900]
}

/// Usage of two pods, old enough to be read by the first run, and recent enough to be found by probing.
fn open_metrics() -> String {
    let first = now() / 60 * 60 - (MINUTES as i64 + 3) * 60;
    let mut history = OpenMetrics::default();
    for pod in 0..2 {
        let labels = format!(r#"namespace="shop",pod="web-{pod}",container="web""#);
        let scrapes = (1..=MINUTES * 4).map(|scrape| (first + scrape as i64 * 15, used(pod, (scrape - 1) / 4)));
        let mut milliseconds = 0;
        let cpu = scrapes.clone().map(|(time, [_, millicores])| {
            milliseconds += millicores * 15;
            (time, format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000))
        });
        history.add("container_cpu_usage_seconds_total", &labels, [(first, "0.000".to_owned())].into_iter().chain(cpu));
        let memory = scrapes.clone().map(|(time, [bytes, _])| (time, bytes));
        history.add("container_memory_working_set_bytes", &labels, memory);
        let image = format!(r#"{labels},image_spec="nginx:1.27""#);
        let times = [first].into_iter().chain(scrapes.map(|(time, _)| time));
        history.add("kube_pod_container_info", &image, times.map(|time| (time, 1)));
    }
    history.to_string()
}

/// Runs `collect`, which reads a day that is over by percentiles, and
/// today by samples. Returns the history of nginx and the log.
fn collect(url: &str, folder: &Path) -> (Value, String) {
    let output = crate::collect(folder).args(["prometheus", url, "--days", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let root = std::fs::read_to_string(folder.join("profiles/headroom/usage-26.c.yaml")).unwrap();
    let root: Value = serde_saphyr::from_str(&root).unwrap();
    let own = &root["spec"]["images"]["docker,io/library/nginx"]["own"]["shop"];
    (own["all"]["windows"]["7d"].clone(), String::from_utf8(output.stderr).unwrap())
}

/// The store's limits are so low that it is read in small pieces.
#[test]
fn published_percentiles_are_those_of_the_data() {
    let more_arguments = vec!["--query.max-samples=120".to_owned()];
    let server = PrometheusServer { history: open_metrics(), more_arguments, ..PrometheusServer::default() }.start();
    let folder = tempfile::tempdir().unwrap();
    let (history, log) = collect(&server.url(), folder.path());
    // Soon after midnight most of the data is of a day that is over, which is read by percentiles, interpolated in between.
    let tolerance = if now() % 86_400 < (MINUTES as i64 + 3) * 60 { 0.1 } else { 0.02 };
    for (place, resource, unit) in [(0, "memory", 1), (1, "cpu", 1_000)] {
        let minutes = (0..2).flat_map(|pod| (0..MINUTES).map(move |minute| used(pod, minute)[place]));
        let mut exact: Vec<u64> = minutes.collect();
        exact.sort_unstable();
        let usage: Usage = serde_json::from_value(history[resource].clone()).unwrap();
        assert_eq!(usage.samples, exact.len() as u64, "{history}");
        let amount = |quantity: &Quantity| quantity.scaled(unit, 1).value() as f64;
        for percentile in Percentile::PUBLISHED {
            let rank = (exact.len() * usize::from(percentile.permille())).div_ceil(1000);
            let (found, exact) = (amount(usage.percentiles.get(percentile).unwrap()), exact[rank - 1] as f64);
            assert!((found - exact).abs() <= exact * tolerance, "{resource} {}: {found} {exact}", percentile.name());
        }
        assert!((amount(&usage.peak.unwrap()) / exact[exact.len() - 1] as f64 - 1.0).abs() <= 0.01);
    }
    // A second run finds nothing new, and counts nothing twice.
    assert_eq!(collect(&server.url(), folder.path()).0, history);
    assert!(log.contains("too many samples") && log.contains("asking for less"), "{log}");
}
