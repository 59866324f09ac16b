//! Properties for any quotas and pods.

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::quota::{ChargedKind, ObjectUsage, Stored};
use headroom_fixtures::any_json::any_json;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{Outcome, answer, node, to_json};

const NAMES: [&str; 6] = ["count/pods", "limits.memory", "memory", "pods", "requests.cpu", "requests.example.com/gpu"];

fn pods() -> impl Strategy<Value = Value> {
    (0..9_usize, 0..3000_u32, 0..2048_u32, 0..3_u32).prop_map(|(name, cpu, memory, gpus)| {
        let (cpu, memory, gpus) = (format!("{cpu}m"), format!("{memory}Mi"), gpus.to_string());
        let resources = json!({
            "requests": {"cpu": cpu, "memory": memory, "example.com/gpu": gpus},
            "limits": {"memory": memory, "example.com/gpu": gpus},
        });
        json!({
            "metadata": {"name": format!("p{name}"), "resourceVersion": "1"},
            "spec": {"containers": [{"name": "c", "resources": resources}]},
        })
    })
}

fn unit(name: &str) -> &'static str {
    if name.ends_with("memory") { "Gi" } else { "" }
}

/// A quota on some of the names, with bounds and usage up to 9.
fn quotas(name: usize) -> impl Strategy<Value = Value> {
    prop::collection::vec((any::<bool>(), 0..9_u32, 0..9_u32), NAMES.len()).prop_map(move |bounds| {
        let (mut hard, mut used) = (json!({}), json!({}));
        for (name, (_, bound, level)) in NAMES.iter().zip(bounds).filter(|(_, (is_bound, _, _))| *is_bound) {
            hard[name] = json!(format!("{bound}{}", unit(name)));
            used[name] = json!(format!("{level}{}", unit(name)));
        }
        json!({"metadata": {"name": format!("q{name}")}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
    })
}

fn create(object: &Value) -> Value {
    json!({"operation": "CREATE", "namespace": "shop", "resource": {"group": "", "resource": "pods"}, "object": object})
}

fn resize(object: &Value, old: &Value) -> Value {
    json!({
        "operation": "UPDATE", "namespace": "shop", "resource": {"group": "", "resource": "pods"},
        "subResource": "resize", "object": object, "oldObject": old,
    })
}

fn evaluate(request: &Value, quotas: &[Value]) -> Outcome {
    answer(request, &json!({}), &json!({"ResourceQuota": {"items": quotas}}), None)
}

fn ample() -> Value {
    let each = |amount: &str| Value::from_iter(NAMES.map(|name| (name, amount)));
    let (hard, used) = (each("1P"), each("0"));
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

/// Any JSON, mostly with the fields of a quota.
fn junk() -> impl Strategy<Value = Value> {
    let odd = prop_oneof![
        "[-+0-9.eEmkKMGTPi]{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["Exists", "In", "BestEffort", "Terminating", "PriorityClass"]).prop_map(Value::from),
    ];
    let names = "metadata|name|namespace|spec|status|hard|used|pods|requests\\.cpu|memory\
        |scopes|scopeSelector|matchExpressions|scopeName|operator|values";
    any_json(odd, names)
}

proptest! {
    #[test]
    fn the_charges_of_a_sequence_add_up_to_the_usage_of_the_stored_pods(
        made in prop::collection::vec(pods(), 1..5), grown in 0..2000_u32,
    ) {
        let mut quota = ample();
        let mut charge = |request: &Value| {
            let answer = evaluate(request, std::slice::from_ref(&quota));
            assert!(answer.admitted, "{}", answer.message);
            if let Some(used) = answer.used.get("q") {
                quota["status"]["used"] = used.clone();
            }
        };
        made.iter().for_each(|pod| charge(&create(pod)));
        // The first pod grows. Admission never lowers usage, so nothing may shrink here.
        let mut left = made.clone();
        left[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(format!("{}m", 3000 + grown));
        charge(&resize(&left[0], &made[0]));

        let quota = ResourceQuota::read(node(&quota)).unwrap();
        let mut recounted = ResourceList::default();
        for pod in &left {
            let stored = Stored::read(ChargedKind::POD, node(pod)).unwrap();
            let usage = ObjectUsage::of(&stored.object(), None).unwrap().list(stored.object().kind);
            usage.iter().filter(|(name, _)| quota.hard.contains(name)).for_each(|(name, more)| recounted.add(name, more));
        }
        for name in quota.hard.names() {
            recounted.add(name, &Quantity::ZERO);
        }
        prop_assert_eq!(&quota.used, &recounted, "{} and {}", to_json(&quota.used), to_json(&recounted));
    }

    #[test]
    fn a_larger_bound_never_refuses_what_a_smaller_one_admits(
        pod in pods(), quota in quotas(0), name in prop::sample::select(NAMES.to_vec()), more in 1..9_u32,
    ) {
        let mut larger = quota.clone();
        if let Some(hard) = larger["status"]["hard"].get_mut(name) {
            let digits: u32 = hard.as_str().unwrap().trim_end_matches("Gi").parse().unwrap();
            *hard = json!(format!("{}{}", digits + more, unit(name)));
        }
        let request = create(&pod);
        if evaluate(&request, &[quota]).admitted {
            let answer = evaluate(&request, &[larger]);
            prop_assert!(answer.admitted, "{}", answer.message);
        }
    }

    #[test]
    fn the_order_of_quotas_changes_nothing(
        pod in pods(), (quotas, shuffled) in (quotas(0), quotas(1), quotas(2))
            .prop_map(|(a, b, c)| vec![a, b, c]).prop_flat_map(|quotas| (Just(quotas.clone()), Just(quotas).prop_shuffle())),
    ) {
        let request = create(&pod);
        let (one, other) = (evaluate(&request, &quotas), evaluate(&request, &shuffled));
        prop_assert_eq!((one.admitted, one.message, one.used), (other.admitted, other.message, other.used));
    }

    #[test]
    fn every_quota_that_refuses_is_named(pod in pods(), quotas in (quotas(0), quotas(1)).prop_map(|(a, b)| [a, b])) {
        let request = create(&pod);
        let together = evaluate(&request, &quotas);
        for quota in &quotas {
            let refuses = !evaluate(&request, std::slice::from_ref(quota)).admitted;
            let name = quota["metadata"]["name"].as_str().unwrap();
            prop_assert_eq!(together.message.contains(&format!("; quota {name}: ")), refuses, "{}", together.message);
        }
    }

    #[test]
    fn no_quota_makes_the_decision_panic(quotas in prop::collection::vec(junk(), 0..4), pod in pods()) {
        evaluate(&create(&pod), &quotas);
    }
}
