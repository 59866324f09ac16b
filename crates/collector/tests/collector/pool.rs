//! Colluding namespaces: fewer than the quorum cannot move a figure of the pool out of the range of the others.

use headroom_admission::amount::Quantity;
use headroom_collector::profile::Pooling;
use headroom_usage::sample::{Batch, OomKill, Resource, Sample, SampledContainer, Window};
use serde_json::Value;

use crate::support::*;

const REPOSITORY: &str = "docker.io/library/nginx";
const MIB: u64 = 1 << 20;

/// A namespace: pods that all use these amounts, an hour each, on this many days.
#[derive(Debug, Clone)]
struct Tenant {
    pods: usize,
    days: i64,
    mebibytes: Vec<u64>,
    /// Mebibytes at which a container was killed.
    killed_at: Option<u64>,
}

/// The pool's history of all tags of the image.
fn pooled(tenants: &[Tenant], pooling: &Pooling) -> Value {
    let (_folder, store) = new_store();
    let mut batches = Vec::new();
    for (number, tenant) in tenants.iter().enumerate() {
        for pod in 0..tenant.pods {
            let (namespace, pod_name) = (format!("team-{number}"), format!("web-{pod}"));
            let of = |resource, samples| used(&namespace, &pod_name, "nginx:1.27", resource, samples);
            let times = (1..=tenant.days).flat_map(|day| (0..).zip(&tenant.mebibytes).map(move |at| (day, at)));
            let sample = |(day, (hour, mebibytes)): (i64, (i64, &u64))| Sample {
                time: NOW - day * DAY + hour * 3600,
                value: mebibytes * MIB,
                seconds: 3600,
            };
            let memory: Vec<Sample> = times.map(sample).collect();
            // As many millicores as mebibytes, and the first pod uses twice as many.
            let factor = if pod == 0 { 2 } else { 1 };
            let cores = |of: &Sample| Sample { value: of.value / MIB * 1_000_000 * factor, ..*of };
            let cpu = memory.iter().map(cores).collect();
            batches.extend([of(Resource::Cpu, cpu), of(Resource::Memory, memory)]);
            if let Some(mebibytes) = tenant.killed_at {
                let container = SampledContainer::of([&namespace, &pod_name, "web", "nginx:1.27"]);
                let kill = OomKill { container, at: NOW - DAY, memory: mebibytes * MIB };
                batches.push(Batch::OomKills(vec![kill]));
            }
        }
    }
    add(&store, Window { from: 0, to: NOW }, batches);
    histories(&objects(&store, NOW, pooling), REPOSITORY, "pool")["all"].take()
}

fn mebibytes(text: &str) -> f64 {
    text.parse::<Quantity>().unwrap().value() as f64 / MIB as f64
}

fn steady(mebibytes: u64) -> Tenant {
    Tenant { pods: 2, days: 3, mebibytes: vec![mebibytes], killed_at: None }
}

fn p90(all: &Value) -> String {
    figure(&all["windows"]["7d"]["memory"], "90")
}

#[test]
fn a_kill_in_one_namespace_does_not_affect_others() {
    let attacker = Tenant { pods: 200, days: 1, mebibytes: vec![8192], killed_at: Some(8192) };
    let all = pooled(&[steady(50), steady(50), steady(50), attacker], &Pooling::default());
    assert!(mebibytes(&p90(&all)) <= 50.5, "{all}");
    assert_eq!(all["oomKills"], serde_json::json!([]));
    // If enough namespaces have kills, the pool has an amount and time that enough of them reached.
    let killed = |mebibytes| Tenant { killed_at: Some(mebibytes), ..steady(50) };
    let all = pooled(&[killed(60), killed(70), killed(80), killed(9000)], &Pooling::default());
    assert_eq!(all["oomKills"][0]["memory"], "70Mi");
}

#[test]
fn a_tenant_counts_once_however_many_namespaces_he_has() {
    let honest = (0..20).map(|number| steady(100 + 5 * number));
    let namespaces: Vec<Tenant> = honest.chain([60 << 10; 3].map(steady)).collect();
    // Three namespaces may decide, but not so far from all others.
    let all = pooled(&namespaces, &Pooling::default());
    assert_eq!(p90(&all), "null", "{all}");
    assert_eq!(all["windows"]["7d"]["namespaces"], 23);
    let of_mallory = [20, 21, 22].map(|number| (format!("team-{number}"), "mallory".to_owned()));
    let all = pooled(&namespaces, &Pooling { tenants: of_mallory.into(), ..Pooling::default() });
    assert!((180.0..200.0).contains(&mebibytes(&p90(&all))), "{all}");
    assert_eq!(all["windows"]["7d"]["namespaces"], 21);
}

#[test]
fn the_busiest_pod_of_one_namespace_does_not_affect_others() {
    // One of so many pods uses twice as much as the others, which is in no percentile up to 95.
    let tenant = |mebibytes| Tenant { pods: 25, days: 2, mebibytes: vec![mebibytes; 24], killed_at: None };
    let busiest = |last: Tenant| {
        let all = pooled(&[tenant(50), tenant(50), tenant(50), last], &Pooling::default());
        figure(&all["windows"]["7d"]["cpu"], "busiest").parse::<Quantity>().unwrap().milli_value()
    };
    let expected = busiest(tenant(50));
    assert!((100..=102).contains(&expected), "{expected}");
    assert_eq!(busiest(tenant(50_000)), expected);
}

#[test]
fn usage_of_few_namespaces_is_not_published_for_all() {
    assert_eq!(pooled(&[steady(50), steady(50)], &Pooling::default()), Value::Null);
    let all = pooled(&[steady(10), steady(50), steady(900)], &Pooling::default());
    let memory = &all["windows"]["7d"]["memory"];
    assert_eq!(
        (figure(memory, "samples"), figure(memory, "peak"), figure(memory, "90")),
        ("1080".to_owned(), "null".to_owned(), "null".to_owned()),
        "{all}"
    );
    assert_eq!((&all["windows"]["7d"]["namespaces"], &all["days"]), (&3.into(), &3.into()));
}

#[test]
fn only_chosen_namespaces_are_in_the_pool() {
    let pooling = Pooling { namespaces: vec!["team-0".to_owned(), "team-[12]".to_owned()], ..Pooling::default() };
    assert_eq!(pooled(&[steady(50), steady(50), steady(50)], &pooling), Value::Null);
    let pooling = Pooling { namespaces: vec!["team-*".to_owned()], ..Pooling::default() };
    assert!(mebibytes(&p90(&pooled(&[steady(50), steady(50), steady(50)], &pooling))) > 49.0);
}
