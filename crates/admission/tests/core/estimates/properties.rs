//! Properties of all estimates, for any history and ranges.

use headroom_admission::amount::Quantity;
use headroom_fixtures::any_json::any_json;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::situation::{NGINX, Situation, history, own, pool, web, window};
use crate::harness::Outcome;

fn nginx(window: Value) -> Value {
    json!({NGINX: {
        "all": history(json!({})),
        "tags": {"1,27": history(json!({"7d": window}))},
    }})
}

/// An amount of cpu, or nothing.
fn some_cpu() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![Just(None), (1_u32..2_000).prop_map(Some)]
}

fn list(cpu: Option<u32>) -> Value {
    cpu.map_or_else(|| json!({}), |milli| json!({"cpu": format!("{milli}m")}))
}

prop_compose! {
    fn item(kind: &'static str)(
        min in some_cpu(), max in some_cpu(), default in some_cpu(), default_request in some_cpu(), most in some_cpu(),
    ) -> Value {
        let mut item = json!({"type": kind, "min": list(min), "max": list(max)});
        item["maxLimitRequestRatio"] = list(most.map(|most| 1_000 + most * 2));
        if kind == "Container" {
            item["default"] = list(default);
            item["defaultRequest"] = list(default_request);
        }
        item
    }
}

prop_compose! {
    fn containers()(of in prop::collection::vec((some_cpu(), some_cpu(), 0..3_u8), 1..4)) -> (Vec<Value>, Vec<Value>) {
        let (mut main, mut init) = (Vec::new(), Vec::new());
        for (index, (request, limit, role)) in of.into_iter().enumerate() {
            let limit = limit.filter(|limit| request.is_none_or(|request| request <= *limit));
            // The API server copies an author's limit into the request.
            let request = request.or(limit);
            let mut container = json!({
                "name": format!("c{index}"), "image": "nginx:1.27",
                "resources": {"requests": list(request), "limits": list(limit)},
            });
            match role {
                0 => main.push(container),
                1 => init.push(container),
                _ => {
                    container["restartPolicy"] = json!("Always");
                    init.push(container);
                }
            }
        }
        (main, init)
    }
}

fn without_estimates(situation: &Situation) -> Situation {
    let mut settings = situation.settings.clone();
    settings["estimates"] = json!({"mode": "never"});
    situation.clone().with_settings(settings)
}

/// The request for cpu in thousandths.
fn cpu_of(outcome: &Outcome) -> i64 {
    outcome.value("web", "requests.cpu").parse::<Quantity>().unwrap().milli_value()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_estimate_causes_a_refusal_and_evaluating_again_changes_nothing(
        (main, init) in containers(),
        of_container in item("Container"),
        of_pod in item("Pod"),
        second in item("Container"),
        cpu in 0_u32..3_000,
        repairs in any::<bool>(),
        annotates in any::<bool>(),
        follows_plugin in any::<bool>(),
    ) {
        let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": main, "initContainers": init}});
        let mut situation = Situation::of_pod(pod)
            .with_settings(json!({"annotate": annotates, "limitRanges": {"raiseDefaultLimits": repairs}}))
            .with_limits(json!([of_container, of_pod]))
            .with_limits(json!([second]))
            .with_profile(own(nginx(window(100, &format!("{cpu}m"), "1Mi"))));
        if follows_plugin {
            // Our defaults are LimitRanger's, and so is our annotation of them.
            let mut plugin = without_estimates(&situation);
            plugin.settings["annotate"] = json!(true);
            situation.request["object"] = plugin.evaluate().object;
            let annotations = situation.request["object"].pointer_mut("/metadata/annotations");
            annotations.and_then(|annotations| annotations.as_object_mut()?.remove("headroom.dev/resources"));
        }
        let outcome = situation.evaluate();
        if without_estimates(&situation).evaluate().admitted {
            prop_assert!(outcome.admitted, "{}", outcome.message);
        }
        if outcome.admitted {
            let again = situation.evaluate_again(&outcome);
            prop_assert!(again.admitted, "{}", again.message);
            prop_assert!(!again.changed, "{} became {}", outcome.object, again.object);
        }
    }

    #[test]
    fn an_estimate_of_cpu_is_at_least_what_the_busiest_pod_used(
        cpu in 1_u32..3_000, busiest in 1_u32..9_000, days in prop::option::of(1_u64..40),
    ) {
        let mut images = nginx(window(10_080, &format!("{cpu}m"), "1Mi"));
        let tag = &mut images[NGINX]["tags"]["1,27"];
        tag["days"] = json!(days);
        tag["windows"]["7d"]["cpu"]["peak"] = json!("9");
        tag["windows"]["7d"]["cpu"]["busiest"] = json!(format!("{busiest}m"));
        for profile in [own(images.clone()), pool(images)] {
            let request = cpu_of(&Situation::of_pod(web()).with_real_settings(json!({})).with_profile(profile).evaluate());
            prop_assert!(request >= i64::from(busiest), "{request}m for {busiest}m");
        }
    }

    #[test]
    fn any_json_as_a_profile_is_at_worst_ignored(junk in junk(), place in 0..11_usize) {
        let mut profile = own(nginx(window(100, "100m", "100Mi")));
        profile["spec"]["header"]["pages"] = json!("/##");
        let entry = "/spec/images/docker,io~1library~1nginx";
        let places = [
            "", "/spec", "/spec/header", "/spec/header/pages", "/spec/images", entry, &format!("{entry}/own/shop"),
            &format!("{entry}/own/shop/tags/1,27"),
            &format!("{entry}/own/shop/tags/1,27/oomKills"),
            &format!("{entry}/own/shop/tags/1,27/windows/7d"),
            &format!("{entry}/own/shop/tags/1,27/windows/7d/cpu"),
        ];
        *profile.pointer_mut(places[place]).unwrap() = junk;
        if profile.is_object() {
            profile["metadata"] = json!({"name": "usage-26.c", "namespace": "headroom"});
        }
        let outcome = Situation::of_pod(web()).with_profile(profile).evaluate();
        prop_assert!(outcome.admitted, "{}", outcome.message);
    }
}

const ODD_VALUES: [&str; 8] =
    ["90=1e100", "90=", "1e100", "-1", "9Ei", "1n", "2026-11-21T05:00:00Z", "docker.io/library/nginx"];
/// A regular expression.
const NAMES: &str = "spec|format|collectedAt|images|docker,io/library/nginx|repository|all|tags|1,27|windows|7d|30d\
    |cpu|memory|pods|namespaces|oomKills|at";

/// Any JSON, with some of the format's names and some odd values.
fn junk() -> impl Strategy<Value = Value> {
    any_json(prop::sample::select(ODD_VALUES.to_vec()).prop_map(Value::from), NAMES)
}
