//! `check` beside the API server's own answer to the same request: the verdict, whether the object is invalid or forbidden, the
//! resources that are stored, and what is used of the quotas afterwards.
//!
//! `HEADROOM_DIFFERENTIAL_CASES` (2,000) and `HEADROOM_DIFFERENTIAL_SEED` as in the other test.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::{StreamExt, stream};
use headroom_admission::amount::{Family, Quantity};
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, Run, Verdict};
use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_objects::cluster_reader::Folder;
use serde_json::{Map, Value, json};

use super::Comparison;
use super::case::Case;
use super::departures::Departure;
use super::outcome::{Difference, Kind, Outcome, differences, values};
use super::plane::{Plane, runtime_class, text_of, within};
use crate::workload_forecast::number;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn check_decides_as_the_api_server_does() {
    let cluster = Cluster::start(InTreePlugins::On, Controllers::Off).await.unwrap();
    let minor = cluster.minor_version().await.unwrap();
    let departures = Departure::of_check(minor);
    Departure::assert_documented(&departures, 10);
    let has_resize = cluster.serves("v1", "pods/resize");
    let first = number("HEADROOM_DIFFERENTIAL_SEED", 20_261_128);
    let seeds = first..first + number("HEADROOM_DIFFERENTIAL_CASES", 2_000);
    let cases: Vec<Case> = seeds.map(|seed| Case::for_check(seed, has_resize)).collect();
    let began = Instant::now();
    let plane = Plane { client: cluster.client().await.unwrap(), labels: json!({}), prefix: "check" };
    plane.prepare_latest().await.unwrap();
    plane.prepare_all(&cases).await;
    plane.wait_for_latest().await.unwrap();
    let read = plane.read_all(&cases).await;
    let answers = plane.ask_all(&cases).await;
    let after = plane.read_all(&cases).await;

    let mut comparison = Comparison { departures: &departures, ..Comparison::default() };
    let (mut admitted, mut invalid) = (0, 0);
    for (((case, there), answer), after) in cases.iter().zip(read).zip(answers).zip(after) {
        let theirs = match answer.outcome {
            Outcome::Admitted(stored) => Outcome::Admitted(with_usage(stored, &after)),
            refused => refused,
        };
        admitted += usize::from(matches!(theirs, Outcome::Admitted(_)));
        invalid += usize::from(matches!(theirs, Outcome::Refused { is_invalid: true, .. }));
        let ours = checked(case, plane.namespace_of(case), there, minor);
        for difference in all_differences(&theirs, &ours) {
            comparison.add("check", case, &difference, &format!("kubernetes {theirs}\ncheck {ours}"));
        }
    }
    let forbidden = cases.len() - admitted - invalid;
    println!(
        "Kubernetes 1.{minor} admitted {admitted}, forbade {forbidden} and found {invalid} invalid in {:?}; departures that are listed: {:#?}",
        began.elapsed(),
        comparison.met
    );
    let least = admitted.min(forbidden).min(5 * invalid);
    assert!(cases.len() < 100 || least > cases.len() / 5, "too few of a kind");
    comparison.assert_all_are_listed();
}

/// Each value that differs is a difference of its own.
fn all_differences(theirs: &Outcome, ours: &Outcome) -> Vec<Difference> {
    let difference = |kind, kubernetes, headroom| Difference { kind, kubernetes, headroom };
    match (theirs, ours) {
        (Outcome::Admitted(a), Outcome::Admitted(b)) => {
            let names: BTreeSet<&String> =
                [a, b].into_iter().filter_map(Value::as_object).flat_map(Map::keys).collect();
            let differ = names.into_iter().filter(|name| a[name.as_str()] != b[name.as_str()]);
            let text = |name: &String, of: &Value| format!("{name}: {}", of[name.as_str()]);
            differ.map(|name| difference(Kind::ValuesDiffer, text(name, a), text(name, b))).collect()
        }
        (Outcome::Refused { is_invalid: a, .. }, Outcome::Refused { is_invalid: b, .. }) if a != b => {
            vec![difference(Kind::ClassDiffers, theirs.to_string(), ours.to_string())]
        }
        _ => differences(theirs, ours),
    }
}

impl Plane {
    /// The objects of each case that the API server has: the one that is updated, LimitRanges and quotas.
    async fn read_all(&self, cases: &[Case]) -> Vec<Vec<Value>> {
        stream::iter(cases).map(|case| self.read(case)).buffered(12).collect().await
    }

    async fn read(&self, case: &Case) -> Vec<Value> {
        let namespace = self.namespace_of(case);
        let mut objects = Vec::new();
        for object in case.request.before.iter().chain(&case.rules) {
            let found = self.api(object, &namespace).get(object["metadata"]["name"].as_str().unwrap()).await;
            let mut found = serde_json::to_value(found.unwrap()).unwrap();
            (found["apiVersion"], found["kind"]) = (object["apiVersion"].clone(), object["kind"].clone());
            objects.push(found);
        }
        objects
    }
}

/// The outcome that `check` foretells.
fn checked(case: &Case, namespace: String, objects: Vec<Value>, minor: u16) -> Outcome {
    let object = within(&case.request.object, &namespace);
    let before = case.request.before.as_ref().map(|_| objects[0].clone());
    let mut quotas: Vec<Value> = objects.iter().filter(|object| object["kind"] == "ResourceQuota").cloned().collect();
    let mut cluster = Folder::default();
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    for object in objects.into_iter().chain([own, runtime_class()]) {
        cluster.put(object).unwrap();
    }
    let settings = json!({
        "estimates": {"mode": "never"}, "limitRanges": {"raiseDefaultLimits": false},
        "kubernetesVersion": format!("1.{minor}"),
    });
    let cluster = Overlay::new(Folder::default(), Some(Box::new(cluster)));
    let mut run = Run::new(cluster, Admission::of_settings(&settings), &namespace);
    let evaluation = match before.filter(|_| case.request.subresource.is_some()) {
        Some(before) => {
            let mut resized = before.clone();
            let containers = resized["spec"]["containers"].as_array_mut().unwrap();
            for (container, new) in containers.iter_mut().zip(object["spec"]["containers"].as_array().unwrap()) {
                container["resources"] = new["resources"].clone();
            }
            run.preview_resize(before, resized)
        }
        None => run.evaluate(&object),
    };
    match evaluation.verdict {
        Verdict::Error => panic!("seed {}: {}\n{}", case.seed, evaluation.message(), text_of(case)),
        Verdict::Rejected | Verdict::Invalid => {
            Outcome::Refused { is_invalid: evaluation.verdict == Verdict::Invalid, message: evaluation.message() }
        }
        _ => {
            for charge in &evaluation.charges {
                let quota = quotas.iter_mut().find(|quota| quota["metadata"]["name"] == charge.quota.as_str()).unwrap();
                for amount in &charge.added {
                    quota["status"]["used"][&amount.name] = json!(amount.used);
                }
            }
            let stored = serde_json::from_value(evaluation.outcome().clone()).unwrap();
            Outcome::Admitted(with_usage(values(&stored, false), &quotas))
        }
    }
}

/// The resources of a stored object, and what is used of each quota, in amounts that are written in one way.
fn with_usage(mut stored: Value, objects: &[Value]) -> Value {
    let stored_values = stored.as_object_mut().unwrap();
    stored_values.remove("kubernetes.io/limit-ranger");
    for quota in objects.iter().filter(|object| object["kind"] == "ResourceQuota") {
        let name = quota["metadata"]["name"].as_str().unwrap();
        stored_values.insert(format!("used of {name}"), quota["status"]["used"].clone());
    }
    plain(stored)
}

fn plain(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .into_iter()
                .map(|(name, value)| (name, plain(value)))
                .filter(|(_, value)| !value.is_null())
                .collect();
            if fields.is_empty() { Value::Null } else { Value::Object(fields) }
        }
        Value::String(text) => match text.parse::<Quantity>() {
            Ok(amount) => json!(amount.to_family(Family::DecimalSi).to_string()),
            Err(_) => Value::String(text),
        },
        Value::Number(number) => plain(json!(number.to_string())),
        other => other,
    }
}
