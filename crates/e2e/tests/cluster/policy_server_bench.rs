//! The cost of a request in Kubewarden's own policy server, beside a policy that is written the SDK's usual way:
//! `make bench-policy-server`.

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{Repository, Root, TagKey, Window};
use headroom_admission::image::ImageName;
use headroom_admission::timestamp::Timestamp;
use headroom_api_server::clock;
use headroom_e2e::cluster::{Cluster, api_in, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::kubewarden::Kubewarden;
use headroom_e2e::policy_server::{Deployment, GROUP, Policy, USER, grant};
use headroom_usage::profile::{Histories, History, ImageHistory, Images, Percentiles, Share, Usage, WindowUsage};
use headroom_wasm_host::built::workspace_file;
use serde_json::{Value, json};

use crate::guarded_namespace::wait_for;
use crate::objects::{limit_range, quota};

const REQUESTS: usize = 1_000;
/// That of the request.
const NAMESPACE: &str = "default";
const SDK: &str = "sdk";
/// The rows, each with the namespace of its history and the number of images in it, and in the namespace of the request.
const ROWS: [(&str, &str, usize, usize); 6] = [
    ("never", "", 0, 0),
    ("{}", "empty", 0, 0),
    ("1 image", "one", 1, 1),
    ("7 images in one object", "full", 7, 7),
    ("64 images", "few", 64, 8),
    ("700 images", "many", 700, 200),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make bench-policy-server"]
async fn policy_server_bench() {
    let programs = ["POLICY_SERVER", "SDK_POLICY"].map(|name| std::env::var(name).ok());
    let [Some(server), Some(sdk)] = programs else { return };
    let cluster = Cluster::start(InTreePlugins::Off, Controllers::On).await.unwrap();
    cluster.install("deploy/charts/headroom/files/crd.yaml").unwrap();
    let client = cluster.client().await.unwrap();
    let item = json!({"defaultRequest": {"memory": "64Mi"}, "default": {"memory": "512Mi"}, "max": {"cpu": "4"}});
    create(&client, limit_range(NAMESPACE, item)).await.unwrap();
    create(&client, quota(NAMESPACE, json!({"requests.cpu": "40"}))).await.unwrap();
    let quotas = api_in(&client, NAMESPACE, "v1", "ResourceQuota");
    wait_for(&quotas, "team", "it is observed", |quota| quota["status"]["used"]["requests.cpu"] == "0").await;

    let policy = Policy::built().unwrap();
    grant(&cluster, &policy).await.unwrap();
    let mut policies = BTreeMap::new();
    for (row, home, images, of_namespace) in ROWS {
        let settings = match home {
            "" => json!({"estimates": {"mode": "never"}}),
            _ => json!({"estimates": {"namespace": home}}),
        };
        policies.insert(id(row), Deployment::mutating(settings).served(&policy));
        if home.is_empty() {
            continue;
        }
        cluster.run_kubectl(&["create", "namespace", home]).unwrap();
        for share in shares(home, images, of_namespace) {
            for object in share.lay_out() {
                create(&client, object.to_value()).await.unwrap();
            }
        }
    }
    let mut usual = policies[&id("never")].clone();
    usual["module"] = json!(format!("file://{sdk}"));
    policies.insert(SDK.to_owned(), usual);
    let kubeconfig = cluster.kubeconfig_file_as(USER, GROUP).unwrap();
    let server = Kubewarden::start(&server, &json!(policies), &kubeconfig).await.unwrap();

    let text = std::fs::read_to_string(workspace_file("tests/data/requests/pod-create-plain.json")).unwrap();
    let review: Value = serde_json::from_str(&text).unwrap();
    let names = [SDK].into_iter().chain(ROWS.map(|(row, ..)| row));
    let mut rows: Vec<(&str, Vec<Duration>)> = names.map(|name| (name, Vec::new())).collect();
    for round in 0..REQUESTS + 20 {
        for (name, taken) in &mut rows {
            let cpu = server.cpu_of(&format!("/validate/{}", id(name)), &review).await.unwrap();
            // The first ones start watches. A thread that ends takes its time with it.
            if round >= 20 && !cpu.is_zero() {
                taken.push(cpu);
            }
        }
    }
    println!(
        "| CPU of a request, us | least | median | least, of the SDK's | median, of the SDK's |\n|---|--:|--:|--:|--:|"
    );
    let mut usual = None;
    for (name, mut taken) in rows {
        taken.sort();
        let [least, median] = [taken[0], taken[taken.len() / 2]].map(|time| time.as_secs_f64() * 1e6);
        let (of_least, of_median) = *usual.get_or_insert((least, median));
        println!("| {name} | {least:.0} | {median:.0} | {:.2} | {:.2} |", least / of_least, median / of_median);
    }
}

/// A row's name in a path.
fn id(row: &str) -> String {
    let id = row.replace(|other: char| !other.is_ascii_alphanumeric(), "");
    if id.is_empty() { "default".to_owned() } else { id }
}

/// The history of images, the first of them that of the request, some of which its namespace runs.
fn shares(home: &str, images: usize, of_namespace: usize) -> Vec<Share> {
    let collected_at = Timestamp::from_unix_seconds(clock::now() / 60 * 60).unwrap();
    let mut roots: BTreeMap<Root, Images> = Root::all().map(|root| (root, Images::new())).collect();
    let root_of = |name: &str| Root::of(ImageName::parse(name).unwrap().repository());
    let others = (0..).map(|number| format!("registry.example.com/team/app-{number}:1.0"));
    let others = others.filter(|name| images > 7 || root_of(name) == root_of("nginx"));
    for (number, name) in ["nginx:1.25".to_owned()].into_iter().chain(others).take(images).enumerate() {
        let name = ImageName::parse(&name).unwrap();
        let histories = histories(&name, number as i64, collected_at);
        let others = (0..if number == 0 { 4 } else { usize::from(number >= of_namespace) })
            .map(|other| format!("team-{}", (number + other) % 50));
        let namespaces = others.chain((number < of_namespace).then(|| NAMESPACE.to_owned()));
        let own = namespaces.map(|namespace| (namespace, histories.clone())).collect();
        let image = ImageHistory { pool: (number == 0).then_some(histories.clone()), own };
        roots.get_mut(&Root::of(name.repository())).unwrap().insert(Repository::of(&name), image);
    }
    let share = |(root, images)| Share { images, quorum: Some(3), ..Share::empty(home, root, collected_at, "0f1e") };
    roots.into_iter().map(share).collect()
}

/// Usage by an image with this number, under its tag too.
pub fn histories(name: &ImageName<'_>, number: i64, last_seen: Timestamp) -> Histories {
    let usage = |amount: &dyn Fn(i64) -> Quantity| {
        let percentiles = Percentiles::agreed(|at| Some(amount(i64::from(at.permille()) + number)));
        Some(Box::new(Usage {
            samples: 10_080,
            peak: Some(amount(1_000 + number)),
            percentiles,
            busiest: None,
            each_pod: None,
            not_covered: None,
        }))
    };
    let cpu = usage(&Quantity::from_milli);
    let memory = usage(&|amount| Quantity::from_bytes((amount as u64) << 10));
    let usage = WindowUsage { pods: 12, namespaces: 5, cpu, memory, ephemeral_storage: None };
    let windows = Window::PUBLISHED.map(|window| (window, usage.clone())).into();
    let all = History { last_seen, days: 30, oom_kills: Vec::new(), windows };
    Histories { tags: TagKey::of(name).map(|tag| (tag, all.clone())).collect(), ..Histories::of(all) }
}
