//! The effect of each setting, history and bound on an estimate.

use headroom_core::cluster::usage::profile_layout::{Halves, ProfileKey, page_of};
use serde_json::{Value, json};

use super::situation::{Outcome, Situation, history, object, own, pool, usage, window};

/// nginx's key and root, as fixed by `address`.
const NGINX: &str = "docker,io/library/nginx";
const ROOT: &str = "usage-26";

fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"containers": containers}})
}

fn container(image: &str) -> Value {
    json!([{"name": "web", "image": image, "resources": {}}])
}

fn nginx_pod() -> Situation {
    Situation::of_pod(pod(container("nginx:1.27")))
}

/// The entry of nginx with the history of its tag 1.27 and that of all tags.
fn nginx(tag: Value, all: Value) -> Value {
    json!({NGINX: {"all": history(all), "tags": {"1,27": history(tag)}}})
}

/// Enough samples for the first step.
fn busy(cpu: &str, memory: &str) -> Value {
    nginx(json!({"7d": window(10_080, cpu, memory)}), json!({}))
}

#[track_caller]
fn check(outcome: &Outcome, cpu: &str, memory: &str) {
    assert!(outcome.admitted, "{}", outcome.message);
    let found = (outcome.value("web", "requests.cpu"), outcome.value("web", "requests.memory"));
    assert_eq!((found.0.as_str(), found.1.as_str()), (cpu, memory), "{:#?}", outcome.warnings);
}

/// Estimates of nginx with these settings of `estimates` from its own namespace's history.
#[track_caller]
fn check_settings(settings: Value, images: Value, cpu: &str, memory: &str) {
    let situation = nginx_pod().with_settings(json!({"estimates": settings})).with_profile(own(images));
    check(&situation.evaluate(), cpu, memory);
}

#[test]
fn the_percentile_of_the_own_namespace_becomes_the_request_and_nothing_else() {
    let outcome = nginx_pod().with_profile(own(busy("120m", "200Mi"))).evaluate();
    check(&outcome, "120m", "200Mi");
    assert_eq!(outcome.object["spec"]["containers"][0]["resources"]["limits"], Value::Null);
    assert_eq!(
        outcome.warnings,
        [
            "container web: cpu request set to 120m (usage of nginx:1.27 in this namespace over 7 days)",
            "container web: memory request set to 200Mi (usage of nginx:1.27 in this namespace over 7 days)",
        ]
    );
    assert_eq!(
        outcome.annotation("headroom.dev/resources").unwrap(),
        r#"{"web":{"requests.cpu":"120m: p90 of 7d nginx:1.27 in this namespace, 10080 samples, 1h old","requests.memory":"200Mi: p90 of 7d nginx:1.27 in this namespace, 10080 samples, 1h old"}}"#
    );
    assert_eq!(outcome.audit["resources"], outcome.annotation("headroom.dev/resources").unwrap());
    assert!(!outcome.audit.contains_key("estimates"));
}

#[test]
fn the_first_step_with_enough_samples_decides_and_skipped_ones_are_listed() {
    let tag = json!({"7d": window(12, "1", "1Gi"), "30d": window(59, "2", "2Gi")});
    let outcome = nginx_pod().with_profile(own(nginx(tag, json!({"30d": window(71, "150m", "100Mi")})))).evaluate();
    check(&outcome, "150m", "100Mi");
    assert_eq!(
        outcome.explained("web", "requests.cpu"),
        "150m: p90 of 30d nginx:* in this namespace, 71 samples, 1h old; skipped: \
         7d nginx:1.27 in this namespace: 12 samples, 60 needed; 7d nginx:1.27 in all namespaces: none; 30d \
         nginx:1.27 in this namespace: 59 samples, 60 needed; 30d nginx:1.27 in all namespaces: none"
    );
    assert!(outcome.warnings.iter().all(|warning| warning.len() <= 256), "{:?}", outcome.warnings);
    assert!(outcome.annotation("headroom.dev/resources").unwrap().len() <= 1024);
}

#[test]
fn the_scope_decides_whose_history_counts() {
    let both = || nginx_pod().with_profile(own(busy("100m", "100Mi"))).with_profile(pool(busy("300m", "300Mi")));
    for (scope, cpu, memory, reads) in
        [("namespaceFirst", "100m", "100Mi", 1), ("namespace", "100m", "100Mi", 1), ("cluster", "300m", "300Mi", 1)]
    {
        let outcome = both().with_settings(json!({"estimates": {"scope": scope}})).evaluate();
        check(&outcome, cpu, memory);
        assert_eq!(outcome.profiles_read(), reads, "{scope}");
    }
    check(&nginx_pod().with_profile(pool(busy("300m", "300Mi"))).evaluate(), "300m", "300Mi");
}

#[test]
fn pooled_history_needs_several_namespaces_and_pods() {
    for (pods, namespaces, why) in [(12, 2, "2 namespaces, 3 needed"), (4, 3, "4 pods, 5 needed")] {
        let mut images = busy("300m", "300Mi");
        let window = &mut images[NGINX]["tags"]["1,27"]["windows"]["7d"];
        window["pods"] = json!(pods);
        window["namespaces"] = json!(namespaces);
        let situation = nginx_pod().with_profile(pool(images));
        let outcome = situation.clone().with_settings(json!({"estimates": {"wellKnownImages": false}})).evaluate();
        assert!(!outcome.changed);
        assert!(situation.evaluate().explained("web", "requests.cpu").contains(why), "{why}");
        let fewer = json!({"estimates": {"pool": {"minNamespaces": 2, "minPods": 4}}});
        check(&situation.with_settings(fewer).evaluate(), "300m", "300Mi");
    }
}

#[test]
fn a_digest_is_looked_up_before_the_tag() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let image = format!("nginx:1.27@{digest}");
    let situation = Situation::of_pod(pod(container(&image)));
    check(&situation.clone().with_profile(own(busy("120m", "200Mi"))).evaluate(), "120m", "200Mi");
    let mut images = busy("120m", "200Mi");
    images[NGINX]["tags"][&digest] = history(json!({"7d": window(60, "70m", "70Mi")}));
    let outcome = situation.with_profile(own(images)).evaluate();
    check(&outcome, "70m", "70Mi");
    assert!(outcome.warnings[0].contains("nginx@sha256:aaaaaaaaaaaa in"), "{:?}", outcome.warnings);
}

#[test]
fn an_image_without_history_gets_well_known_requests_or_none() {
    let outcome = nginx_pod().evaluate();
    check(&outcome, "100m", "128Mi");
    assert_eq!(
        outcome.warnings[0],
        "container web: cpu request set to 100m (typical for this image; no usage data yet)"
    );
    assert_eq!(
        outcome.explained("web", "requests.cpu"),
        "100m: typical for this image: Bitnami chart, preset nano; no usage data yet"
    );
    check(&nginx_pod().with_settings(json!({"estimates": {"wellKnownImages": false}})).evaluate(), "", "");
    check(&Situation::of_pod(pod(container("registry.example.com/team/app:v1"))).evaluate(), "", "");
    check(&Situation::of_pod(pod(container("NOT an image"))).evaluate(), "", "");
}

#[test]
fn margin_min_and_rounding_are_applied() {
    check_settings(json!({}), busy("3m", "5Mi"), "10m", "32Mi");
    check_settings(json!({"min": {"cpu": "1m", "memory": "4Mi"}}), busy("3m", "5Mi"), "3m", "5Mi");
    check_settings(json!({"margin": {"cpu": 15, "memory": "50%"}}), busy("101m", "200Mi"), "117m", "300Mi");
    check_settings(json!({}), busy("100500u", "209715201"), "101m", "201Mi");
    check_settings(json!({"resources": ["memory"]}), busy("101m", "100Mi"), "", "100Mi");
}

#[test]
fn any_published_percentile_can_be_chosen() {
    let mut images = busy("900m", "900Mi");
    let window = &mut images[NGINX]["tags"]["1,27"]["windows"]["7d"];
    window["cpu"] = usage("samples=60 peak=900m 50=50m 60=900m 90=900m");
    window["memory"] = usage("samples=60 peak=900Mi 50=900Mi 90=900Mi 99=900Mi 99.9=899Mi");
    check_settings(json!({"percentile": {"cpu": 50, "memory": 99.9}}), images.clone(), "50m", "899Mi");
    check_settings(json!({"percentile": "50"}), images, "50m", "900Mi");
}

/// The observations of a window: these figures.
fn observed(cpu: &str, memory: &str) -> Value {
    let text = |peak: &str, figures: &str| usage(&format!("samples=10080 peak={peak} {figures}"));
    json!({"pods": 12, "namespaces": 4, "cpu": text("9", cpu), "memory": text("1Gi", memory)})
}

/// Three windows with a different value for each figure that the defaults use.
fn with_figures() -> Value {
    nginx(
        json!({
            "recent": observed("80=60m 90=90m", "99=700Mi 99.9=500Mi"),
            "7d": observed("80=70m 90=300m", "99=300Mi 99.9=900Mi"),
            "30d": observed("80=200m 90=400m", "99=450Mi 99.9=900Mi"),
        }),
        json!({}),
    )
}

#[track_caller]
fn check_defaults(images: &Value, cpu: &str, memory: &str) {
    let outcome = nginx_pod().with_real_settings(json!({})).with_profile(own(images.clone())).evaluate();
    let explained = |place| outcome.explained("web", place).split(" nginx").next().unwrap().to_owned();
    assert_eq!((explained("requests.cpu"), explained("requests.memory")), (cpu.to_owned(), memory.to_owned()));
}

#[test]
fn the_largest_of_the_default_figures_decides_and_gets_a_margin() {
    let mut images = with_figures();
    check_defaults(&images, "124m: p90 of recent", "614Mi: p99.9 of recent");
    let windows = |images: &mut Value| images[NGINX]["tags"]["1,27"]["windows"].take();
    let mut of_tag = windows(&mut images);
    of_tag["7d"] = observed("80=100m 90=300m", "99=300Mi 99.9=900Mi");
    of_tag["30d"] = observed("80=200m 90=400m", "99=600Mi 99.9=900Mi");
    images[NGINX]["tags"]["1,27"]["windows"] = of_tag;
    check_defaults(&images, "135m: p80 of 7d", "724Mi: p99 of 30d");
    let outcome = nginx_pod().with_real_settings(json!({})).with_profile(own(images)).evaluate();
    assert_eq!(
        outcome.explained("web", "requests.memory"),
        "724Mi: p99 of 30d nginx:1.27 in this namespace, 10080 samples, 1h old; 600Mi + 10% + 64Mi"
    );
}

#[test]
fn a_short_history_raises_the_estimate() {
    let mut images = with_figures();
    for (days, cpu, memory) in
        [(1, "131m", "676Mi"), (2, "127m", "645Mi"), (5, "126m", "627Mi"), (10, "124m", "621Mi"), (11, "124m", "614Mi")]
    {
        images[NGINX]["tags"]["1,27"]["days"] = json!(days);
        check_defaults(&images, &format!("{cpu}: p90 of recent"), &format!("{memory}: p99.9 of recent"));
    }
    images[NGINX]["tags"]["1,27"]["days"] = json!(2);
    let outcome = nginx_pod().with_real_settings(json!({})).with_profile(own(images.clone())).evaluate();
    assert!(outcome.explained("web", "requests.cpu").ends_with("; 90m + 10% + 25m; +2% for 2 days of history"));
    images[NGINX]["tags"]["1,27"]["days"] = json!(1);
    let settings = json!({"percentile": {"cpu": "p90 of recent", "memory": 99}, "shortHistoryMargin": {"cpu": "50%"}});
    check_settings(settings, images, "135m", "330Mi");
}

#[test]
fn a_week_of_its_own_history_bounds_the_estimate_by_what_was_used() {
    let images = |days: u64| {
        let mut images = with_figures();
        let tag = &mut images[NGINX]["tags"]["1,27"];
        tag["days"] = json!(days);
        tag["windows"]["recent"]["cpu"] = usage("samples=10080 peak=9 80=60m 90=90m 99=95m 99.9=100m");
        tag["windows"]["30d"] = observed("80=70m 90=90m", "99=450Mi 99.9=500Mi");
        tag["windows"]["30d"]["memory"]["peak"] = json!("510Mi");
        images
    };
    let check = |settings: Value, profile: Value, cpu: &str, memory: &str| {
        check(&nginx_pod().with_real_settings(settings).with_profile(profile).evaluate(), cpu, memory);
    };
    let short = json!({"shortHistoryMargin": {"cpu": 0, "memory": 0}, "pool": {"smallSampleMargin": 0}});
    let with = |name: &str, value: Value| {
        let mut settings = short.clone();
        settings[name] = value;
        json!({"estimates": settings})
    };
    let default = json!({"estimates": short});
    check(default.clone(), own(images(6)), "124m", "614Mi");
    check(default.clone(), own(images(7)), "100m", "577Mi");
    // Other namespaces are not known that well, and whoever chooses a rule gets that rule.
    check(default.clone(), pool(images(30)), "124m", "614Mi");
    check(with("margin", json!({"cpu": "20%"})), own(images(30)), "108m", "577Mi");
    check(with("percentile", json!({"memory": "p99 of 30d"})), own(images(30)), "100m", "559Mi");
    // The busiest pod still counts.
    let mut busy = images(30);
    busy[NGINX]["tags"]["1,27"]["windows"]["7d"]["cpu"]["busiest"] = json!("110m");
    check(default.clone(), own(busy), "110m", "577Mi");
    let outcome = nginx_pod().with_real_settings(default).with_profile(own(images(30))).evaluate();
    assert_eq!(
        [outcome.explained("web", "requests.cpu"), outcome.explained("web", "requests.memory")],
        [
            "100m: p99.9 of recent nginx:1.27 in this namespace, 10080 samples, 1h old",
            "577Mi: peak of 30d nginx:1.27 in this namespace, 10080 samples, 1h old; 510Mi + 10% + 16Mi"
        ]
    );
}

#[test]
fn a_pool_of_few_pods_raises_the_estimate() {
    let mut images = with_figures();
    let check = |images: &Value, small_sample_margin: Value, cpu, memory| {
        let situation = nginx_pod().with_real_settings(json!({"estimates": {"pool": small_sample_margin}}));
        check(&situation.with_profile(pool(images.clone())).evaluate(), cpu, memory);
    };
    check(&images, json!({}), "134m", "664Mi");
    check(&images, json!({"smallSampleMargin": 0}), "124m", "614Mi");
    // Few days count for twice as much in the pool.
    images[NGINX]["tags"]["1,27"]["days"] = json!(1);
    check(&images, json!({"smallSampleMargin": 0}), "137m", "737Mi");
    images[NGINX]["tags"]["1,27"]["days"].take();
    images[NGINX]["tags"]["1,27"]["windows"]["7d"]["pods"] = json!(500);
    check(&images, json!({}), "124m", "614Mi");
}

#[test]
fn a_pool_is_only_used_where_enough_namespaces_agree() {
    let check = |profile: Value, why: &str| {
        let situation = nginx_pod().with_real_settings(json!({})).with_profile(profile);
        let explained = situation.evaluate().explained("web", "requests.cpu");
        assert!(explained.contains(why), "{explained}");
    };
    let mut agreed = pool(with_figures());
    agreed["spec"]["header"]["quorum"] = json!(2);
    check(agreed.clone(), "7d nginx:1.27 in all namespaces: agreed on by 2 namespaces, 3 needed");
    agreed["spec"]["header"]["quorum"].take();
    check(agreed, "agreed on by 0 namespaces, 3 needed");
    let mut images = with_figures();
    let week = &mut images[NGINX]["tags"]["1,27"]["windows"]["7d"];
    week["cpu"] = usage("samples=10080");
    check(pool(images.clone()), "7d nginx:1.27 in all namespaces: namespaces disagree");
    // A window with too few namespaces is not used, and the others are.
    let month = &mut images[NGINX]["tags"]["1,27"]["windows"]["30d"];
    month["namespaces"] = json!(2);
    month["memory"] = usage("samples=10080 peak=1Gi 99=900Mi");
    let situation = nginx_pod().with_real_settings(json!({})).with_profile(pool(images));
    let explained = situation.evaluate().explained("web", "requests.memory");
    assert!(explained.starts_with("664Mi: p99.9 of recent"), "{explained}");
}

#[test]
fn figures_are_chosen_by_window() {
    let of =
        |percentile: Value, cpu, memory| check_settings(json!({"percentile": percentile}), with_figures(), cpu, memory);
    of(json!({"cpu": "p90 of 30d", "memory": "p99 of 30d"}), "400m", "450Mi");
    of(json!({"cpu": "90", "memory": "peak"}), "300m", "1Gi");
    // If no configured window has samples, the window of the step is used.
    let only_month = nginx(json!({"30d": observed("90=40m", "90=40Mi")}), json!({}));
    check_settings(json!({"percentile": "p90 of 7d"}), only_month, "40m", "40Mi");
}

#[test]
fn an_out_of_memory_kill_raises_memory_and_is_reported() {
    let mut images = busy("100m", "300Mi");
    images[NGINX]["tags"]["1,27"]["oomKills"] = json!([{"at": "2026-11-21T04:00:00Z", "memory": "310Mi"}]);
    let outcome = nginx_pod().with_profile(own(images.clone())).evaluate();
    check(&outcome, "100m", "410Mi");
    assert!(
        outcome.warnings[1].contains("raised from 300Mi for an out-of-memory kill at 310Mi 2h ago"),
        "{:?}",
        outcome.warnings
    );
    // A kill after the collection cannot have been collected, and is ignored.
    // Amounts in the text are rounded, whatever unit the history has.
    images[NGINX]["tags"]["1,27"]["oomKills"][0]["memory"] = json!("325058559500m");
    let exact = nginx_pod().with_profile(own(images.clone())).evaluate();
    assert!(exact.warnings[1].contains("for an out-of-memory kill at 310Mi 2h ago"), "{:?}", exact.warnings);
    images[NGINX]["tags"]["1,27"]["oomKills"][0]["at"] = json!("2036-11-21T04:00:00Z");
    check_settings(json!({}), images, "100m", "300Mi");
}

#[test]
fn what_an_author_set_stays_and_is_not_estimated() {
    let resources = json!({"requests": {"cpu": "7m"}, "limits": {"memory": "9Mi"}});
    let containers = json!([{"name": "web", "image": "nginx:1.27", "resources": resources}]);
    let situation = Situation::of_pod(pod(containers)).with_profile(own(busy("120m", "200Mi")));
    let outcome = situation.evaluate();
    check(&outcome, "7m", "");
    assert!(!outcome.changed && outcome.read_no_more_than_usual(), "{:?}", outcome.reads);
    let always = situation.with_settings(json!({"estimates": {"mode": "always"}}));
    let outcome = always.evaluate();
    check(&outcome, "7m", "");
    assert_eq!(
        outcome.annotation("headroom.dev/estimated").unwrap(),
        r#"{"web":{"requests.cpu":"120m: p90 of 7d nginx:1.27 in this namespace, 10080 samples, 1h old","requests.memory":"200Mi: p90 of 7d nginx:1.27 in this namespace, 10080 samples, 1h old"}}"#
    );
    assert!(outcome.warnings[0].starts_with("container web: cpu is set to 7m, estimated at 120m (usage of nginx"));
    assert!(!always.evaluate_again(&outcome).changed);
}

/// Found by the fuzzer. The API server refuses such a pod, but only after our webhook.
#[test]
fn two_containers_of_one_name_are_not_estimated_again() {
    let twin = json!({"name": "web", "image": "nginx:1.27"});
    let situation = Situation::of_pod(pod(json!([twin, twin]))).with_settings(json!({"estimates": {"mode": "always"}}));
    let outcome = situation.evaluate();
    assert!(outcome.changed);
    assert!(!situation.evaluate_again(&outcome).changed);
}

/// Found by the fuzzer: such a request looks like the API server's copy of a default limit.
#[test]
fn a_request_that_equals_a_default_limit_of_ours_stays_its_authors() {
    let containers =
        json!([{"name": "web", "image": "nginx:1.27", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]);
    let situation =
        Situation::of_pod(pod(containers)).with_limits(json!([{"type": "Container", "default": {"memory": "1Gi"}}]));
    let situation = situation.with_settings(json!({"estimates": {"mode": "always"}}));
    let outcome = situation.evaluate();
    assert_eq!(outcome.value("web", "limits.memory"), "1Gi");
    let again = situation.evaluate_again(&outcome);
    assert!(!again.changed, "{}", again.object);
}

#[test]
fn an_estimate_close_to_the_authors_value_gives_no_warning() {
    let containers =
        json!([{"name": "web", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m", "memory": "241Mi"}}}]);
    let situation = Situation::of_pod(pod(containers)).with_profile(own(busy("120m", "200Mi")));
    let outcome = situation.with_settings(json!({"estimates": {"mode": "always"}})).evaluate();
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    assert!(outcome.warnings[0].contains("memory is set to 241Mi"));
}

#[test]
fn a_dry_run_reports_and_sets_nothing() {
    let situation = nginx_pod().with_profile(own(busy("120m", "200Mi")));
    let outcome = situation.with_settings(json!({"estimates": {"dryRun": true}})).evaluate();
    assert!(!outcome.changed);
    assert!(outcome.warnings[0].starts_with("container web: cpu request would be set to 120m"));
    assert!(outcome.audit["estimates"].contains("would be set to 200Mi"));
}

#[test]
fn a_monitored_policy_says_what_it_would_set() {
    let situation = nginx_pod().with_profile(own(busy("120m", "200Mi")));
    let outcome = situation.with_settings(json!({"mode": "monitor"})).evaluate();
    assert!(outcome.changed && outcome.warnings[0].starts_with("container web: cpu request would be set to 120m"));
}

#[test]
fn a_history_that_was_used_is_not_said_to_be_missing() {
    let mut images = nginx(json!({}), json!({"7d": window(10_080, "120m", "200Mi")}));
    images[NGINX]["tags"].take();
    let outcome = nginx_pod()
        .with_profile(own(images))
        .with_settings(
            json!({"estimates": {"history": [{"window": "7d", "match": "tag"}, {"window": "7d", "match": "image"}]}}),
        )
        .evaluate();
    let expected = "container web: cpu request set to 120m (usage of nginx:* in this namespace over 7 days; nginx:1.27 has no history yet)";
    assert_eq!(outcome.warnings[0], expected);
    let explained = outcome.explained("web", "requests.cpu");
    assert!(
        explained.contains("skipped: 7d nginx:1.27 in this namespace: none") && !explained.contains("no usage data"),
        "{explained}"
    );
}

#[test]
fn namespaces_and_pods_may_ask_for_fewer_estimates_but_not_for_more() {
    let situation = nginx_pod().with_profile(own(busy("120m", "200Mi")));
    for field in ["labels", "annotations"] {
        let mut without = situation.clone();
        without.namespace = json!({"metadata": {field: {"headroom.dev/estimates": "never"}}});
        let outcome = without.evaluate();
        assert!(!outcome.changed, "{field}: {:?}", outcome.reads);
    }
    let mut without = situation.clone();
    without.request["object"]["metadata"]["annotations"] = json!({"headroom.dev/estimates": "never"});
    assert!(without.evaluate().read_no_more_than_usual());
    let mut never = situation.clone().with_settings(json!({"estimates": {"mode": "never"}}));
    never.namespace = json!({"metadata": {"labels": {"headroom.dev/estimates": "always"}}});
    let outcome = never.evaluate();
    assert!(!outcome.changed && outcome.profiles_read() == 0, "{:?}", outcome.reads);
    let mut mistyped = situation;
    mistyped.namespace = json!({"metadata": {"labels": {"headroom.dev/estimates": "off"}}});
    let outcome = mistyped.evaluate();
    check(&outcome, "120m", "200Mi");
    assert_eq!(
        outcome.warnings[2],
        "`headroom.dev/estimates: off` of the namespace is ignored: expected one of `ifNotSet`, `always`, `never`"
    );
}

#[test]
fn the_namespace_is_read_unless_its_root_says_that_it_asks_for_nothing() {
    let evaluate = |header: Value, namespace: Value| {
        let mut profile = own(busy("120m", "200Mi"));
        profile["spec"]["header"].as_object_mut().unwrap().extend(header.as_object().unwrap().clone());
        let mut situation = nginx_pod().with_profile(profile);
        situation.namespace = json!({"metadata": {"labels": namespace}});
        let outcome = situation.evaluate();
        (outcome.reads.iter().any(|(kind, _, _)| kind == "Namespace"), outcome.changed)
    };
    let listed = |names: &str| json!({"restrictedNamespaces": names});
    for other in ["", "lab", "shopping web-shop"] {
        assert_eq!(evaluate(listed(other), json!({})), (false, true), "{other}");
    }
    let never = json!({"headroom.dev/estimates": "never"});
    // Listed, too many to list, of an older collector, unreadable, and of a collector that stopped a day ago.
    for unknown in [
        listed("lab shop"),
        listed("*"),
        json!({}),
        json!({"restrictedNamespaces": 1}),
        json!({"restrictedNamespaces": "", "collectedAt": "2026-11-20T05:59:59Z"}),
        json!({"restrictedNamespaces": "", "collectedAt": "2026-11-22T06:00:00Z"}),
    ] {
        assert_eq!(evaluate(unknown.clone(), never.clone()), (true, false), "{unknown}");
        assert!(evaluate(unknown, json!({})).0);
    }
}

#[test]
fn without_history_the_namespace_is_read_only_for_images_of_the_table() {
    let evaluate = |image: &str| {
        let settings = json!({"estimates": {"history": [], "scope": "namespace"}});
        let mut situation = Situation::of_pod(pod(container(image))).with_settings(settings);
        situation.namespace = json!({"metadata": {"labels": {"headroom.dev/estimates": "never"}}});
        situation.evaluate()
    };
    assert!(evaluate("registry.example.com/shop/api:1").read_no_more_than_usual());
    let outcome = evaluate("nginx:1.27");
    assert!(!outcome.changed && !outcome.read_no_more_than_usual(), "{:?}", outcome.reads);
}

#[test]
fn init_containers_and_sidecars_are_estimated_too() {
    let mut situation = nginx_pod().with_profile(own(busy("120m", "200Mi")));
    situation.request["object"]["spec"]["initContainers"] = json!([
        {"name": "prepare", "image": "nginx:1.27"},
        {"name": "proxy", "image": "nginx:1.27", "restartPolicy": "Always"},
    ]);
    let outcome = situation.evaluate();
    for container in ["web", "prepare", "proxy"] {
        assert_eq!(outcome.value(container, "requests.cpu"), "120m", "{container}");
    }
    // Three containers of one image share their reads.
    assert_eq!(outcome.profiles_read(), 1);
}

#[test]
fn each_root_is_read_once() {
    let images = ["nginx:1.27", "nginx:1.28", "redis:7", "postgres:17"];
    let containers: Vec<Value> =
        images.iter().enumerate().map(|(n, image)| json!({"name": format!("c{n}"), "image": image})).collect();
    let outcome = Situation::of_pod(pod(json!(containers))).evaluate();
    assert_eq!(outcome.profiles_read(), 3, "{:?}", outcome.reads);
}

#[test]
fn a_container_range_bounds_the_estimate_and_is_named() {
    let range = json!([{"type": "Container", "min": {"cpu": "200m"}, "max": {"memory": "1Gi"}, "default": {"memory": "1Gi", "cpu": "4"}}]);
    let situation = nginx_pod().with_limits(range).with_profile(own(busy("50m", "4Gi")));
    let outcome = situation.evaluate();
    check(&outcome, "200m", "1Gi");
    assert!(
        outcome.warnings[0].contains("; raised from 50m to the min of LimitRange limits-0"),
        "{:?}",
        outcome.warnings
    );
    assert!(
        outcome.warnings[1].contains("; lowered from 4Gi to the max of LimitRange limits-0"),
        "{:?}",
        outcome.warnings
    );
    assert!(!situation.evaluate_again(&outcome).changed);
}

#[test]
fn the_ratio_to_the_default_limit_is_kept() {
    let range = json!([{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "250m"}, "maxLimitRequestRatio": {"cpu": "4"}}]);
    let outcome = nginx_pod().with_limits(range).with_profile(own(busy("50m", "100Mi"))).evaluate();
    check(&outcome, "125m", "100Mi");
    assert_eq!(outcome.value("web", "limits.cpu"), "500m");
}

#[test]
fn a_default_limit_below_the_estimate_is_raised_or_without_repair_the_estimate_is_lowered() {
    let range = json!([{"type": "Container", "default": {"cpu": "100m"}, "defaultRequest": {"cpu": "50m"}}]);
    let situation = nginx_pod().with_limits(range).with_profile(own(busy("700m", "100Mi")));
    let outcome = situation.evaluate();
    check(&outcome, "700m", "100Mi");
    assert_eq!(outcome.value("web", "limits.cpu"), "700m");
    let outcome = situation.with_settings(json!({"limitRanges": {"raiseDefaultLimits": false}})).evaluate();
    check(&outcome, "100m", "100Mi");
    assert_eq!(outcome.value("web", "limits.cpu"), "100m");
}

#[test]
fn values_set_by_limit_ranger_are_replaced_and_its_limit_is_raised() {
    let range = json!([{"type": "Container", "default": {"cpu": "100m", "memory": "64Mi"}, "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}]);
    let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}});
    let mut object = pod(json!([{"name": "web", "image": "nginx:1.27", "resources": resources}]));
    object["metadata"]["annotations"] = json!({"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container web; cpu, memory limit for container web"});
    let situation = Situation::of_pod(object).with_limits(range).with_profile(own(busy("30m", "200Mi")));
    let outcome = situation.evaluate();
    check(&outcome, "30m", "200Mi");
    assert_eq!(outcome.value("web", "limits.cpu"), "100m");
    assert_eq!(outcome.value("web", "limits.memory"), "200Mi");
    let again = situation.evaluate_again(&outcome);
    assert!(!again.changed && again.admitted);
    // Without any history LimitRanger's values stay.
    let mut cold = situation;
    cold.profiles.clear();
    cold = cold.with_settings(json!({"estimates": {"wellKnownImages": false}}));
    let outcome = cold.evaluate();
    assert!(!outcome.changed);
    check(&outcome, "100m", "64Mi");
}

#[test]
fn a_pod_maximum_shrinks_estimates_and_not_what_authors_set() {
    let containers = json!([
        {"name": "web", "image": "nginx:1.27"},
        {"name": "more", "image": "nginx:1.27"},
        {"name": "own", "image": "nginx:1.27", "resources": {"requests": {"cpu": "400m", "memory": "1Mi"}, "limits": {"cpu": "400m"}}},
    ]);
    let range = json!([
        {"type": "Pod", "max": {"cpu": "1"}},
        {"type": "Container", "default": {"cpu": "100m"}, "defaultRequest": {"cpu": "100m"}},
    ]);
    let situation = Situation::of_pod(pod(containers)).with_limits(range).with_profile(own(busy("500m", "100Mi")));
    let outcome = situation.evaluate();
    check(&outcome, "300m", "100Mi");
    assert_eq!(outcome.value("more", "requests.cpu"), "300m");
    assert_eq!(outcome.value("own", "requests.cpu"), "400m");
    assert!(
        outcome.warnings[0].contains("; lowered from 500m for the pod max of LimitRange limits-0"),
        "{:?}",
        outcome.warnings
    );
    assert!(!situation.evaluate_again(&outcome).changed);
}

#[test]
fn an_estimate_that_would_break_a_bound_is_dropped() {
    // The defaults reach the pod's minimum, the estimates do not.
    let range = json!([
        {"type": "Pod", "min": {"cpu": "400m"}},
        {"type": "Container", "defaultRequest": {"cpu": "400m"}},
    ]);
    let outcome = nginx_pod().with_limits(range).with_profile(own(busy("50m", "100Mi"))).evaluate();
    check(&outcome, "400m", "100Mi");
    assert!(
        outcome.warnings.iter().any(|warning| warning.starts_with("pod total: cpu estimate dropped: minimum cpu")),
        "{:?}",
        outcome.warnings
    );
}

#[test]
fn with_limit_ranges_off_they_still_bound_estimates() {
    let range = json!([{"type": "Container", "max": {"cpu": "100m"}, "default": {"cpu": "100m"}}]);
    let situation = nginx_pod().with_limits(range).with_profile(own(busy("700m", "100Mi")));
    let outcome = situation.with_settings(json!({"limitRanges": {"mode": "off"}})).evaluate();
    check(&outcome, "100m", "100Mi");
    assert_eq!(outcome.value("web", "limits.cpu"), "");
}

#[test]
fn a_template_is_evaluated_as_its_pods_would_be_and_changed_only_if_asked() {
    let template = pod(container("nginx:1.27"));
    let request = json!({
        "uid": "1", "operation": "CREATE", "namespace": "shop", "name": "web",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "object": {"metadata": {"name": "web"}, "spec": {"template": template}},
    });
    let situation = Situation::of_request(request).with_profile(own(busy("120m", "200Mi")));
    let outcome = situation.evaluate();
    assert!(!outcome.changed);
    assert!(outcome.warnings[0].starts_with("its pods: container web: cpu request set to 120m"));
    let outcome = situation.with_settings(json!({"mutateTemplates": true})).evaluate();
    let container = &outcome.object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"], json!({"cpu": "120m", "memory": "200Mi"}));
}

#[test]
fn a_cut_explanation_is_kept_when_the_pod_is_evaluated_again() {
    let amounts = json!({"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "1"});
    let range = json!([{"type": "Container", "defaultRequest": amounts, "default": amounts}]);
    let containers: Vec<_> =
        (0..6).map(|number| json!({"name": format!("container-{number}"), "image": "app"})).collect();
    let object = json!({"metadata": {"name": "web"}, "spec": {"containers": containers}});
    check_cut(&Situation::of_pod(object).with_limits(range));
}

#[test]
fn storage_is_estimated_if_the_settings_include_it() {
    let mut usage = window(10_080, "120m", "200Mi");
    usage["ephemeral-storage"] = window(10_080, "1", "1Gi")["memory"].take();
    let situation = nginx_pod().with_profile(own(nginx(json!({"7d": usage}), json!({}))));
    assert_eq!(situation.evaluate().value("web", "requests.ephemeral-storage"), "");
    let all = json!({"estimates": {"resources": ["cpu", "memory", "ephemeral-storage"]}});
    let outcome = situation.with_settings(all).evaluate();
    assert_eq!(outcome.value("web", "requests.ephemeral-storage"), "1191Mi", "{:#?}", outcome.warnings);
}

#[test]
fn an_estimate_equal_to_limit_rangers_limit_is_kept_when_the_history_changes() {
    let mut object = pod(container("nginx:1.27"));
    object["metadata"]["annotations"] =
        json!({"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu limit for container web"});
    object["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "100m"}});
    let evaluate = |object: Value, cpu: &str| {
        let range = json!([{"type": "Container", "default": {"cpu": "100m"}, "max": {"cpu": "100m"}}]);
        let mut situation = nginx_pod().with_limits(range).with_profile(own(busy(cpu, "200Mi")));
        situation.request["object"] = object;
        situation.evaluate()
    };
    let first = evaluate(object, "500m");
    assert_eq!(first.value("web", "requests.cpu"), "100m", "{:#?}", first.warnings);
    let again = evaluate(first.object.clone(), "50m");
    assert!(!again.changed, "{}", again.object);
}

/// The omitted values look like LimitRanger's, which may be replaced; and with fewer such values, other estimates would
/// fit into the pod than before.
#[test]
fn values_omitted_from_an_explanation_are_kept_too() {
    let ranges = json!([
        {"type": "Container", "default": {"example.com/gpu": "1536Mi", "hugepages-2Mi": "1Gi", "memory": "0"}},
        {"type": "Container", "defaultRequest": {"storage": "250m"}, "max": {"memory": "1k"}},
        {"type": "Pod", "max": {"memory": "1m"}},
    ]);
    check_cut(&six_of_nginx().with_limits(ranges).with_real_settings(json!({"limitRanges": {"mode": "warn"}})));
}

/// The same if they look like the author's, which get estimates for comparison.
#[test]
fn values_omitted_from_an_explanation_get_no_reported_estimate() {
    let defaults =
        json!({"ephemeral-storage": "64Mi", "example.com/gpu": "1", "hugepages-2Mi": "2Mi", "storage": "250m"});
    let ranges = json!([{"type": "Container", "default": defaults, "defaultRequest": defaults}]);
    check_cut(&six_of_nginx().with_limits(ranges).with_real_settings(json!({"estimates": {"mode": "always"}})));
}

fn six_of_nginx() -> Situation {
    let mut containers: Vec<_> = (0..6).map(|number| json!({"name": format!("c{number}"), "image": "nginx"})).collect();
    containers[0]["resources"] = json!({"limits": {"cpu": "2"}});
    Situation::of_pod(json!({"metadata": {"name": "web"}, "spec": {"containers": containers}}))
}

/// A pod with more values of ours than the annotation can explain is not changed when it is evaluated again.
#[track_caller]
fn check_cut(situation: &Situation) {
    let first = situation.evaluate();
    let annotation = &first.object["metadata"]["annotations"]["headroom.dev/resources"];
    assert!(annotation.as_str().unwrap().contains("more values set"), "{annotation}");
    let again = situation.evaluate_again(&first);
    assert!(!again.changed, "{}", again.object);
}

#[test]
fn a_template_derived_by_a_controller_is_not_changed() {
    let owner = json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "controller": true}]);
    let evaluate = |user: &str| {
        let request = json!({
            "uid": "1", "operation": "CREATE", "namespace": "shop", "name": "web-1", "userInfo": {"username": user},
            "kind": {"group": "apps", "version": "v1", "kind": "ReplicaSet"},
            "resource": {"group": "apps", "version": "v1", "resource": "replicasets"},
            "object": {"metadata": {"name": "web-1", "ownerReferences": owner}, "spec": {"template": pod(container("nginx:1.27"))}},
        });
        let situation = Situation::of_request(request).with_profile(own(busy("120m", "200Mi")));
        situation.with_settings(json!({"mutateTemplates": true})).evaluate().changed
    };
    assert!(!evaluate("system:serviceaccount:kube-system:deployment-controller"));
    assert!(!evaluate("system:serviceaccount:argo-rollouts:argo-rollouts"));
    assert!(evaluate("jane"));
}

#[test]
fn a_resource_that_an_autoscaler_scales_by_is_not_estimated() {
    let mut situation = nginx_pod().with_profile(own(busy("120m", "200Mi")));
    let metadata = &mut situation.request["object"]["metadata"];
    metadata["labels"] = json!({"pod-template-hash": "7b89ff4ccb"});
    metadata["ownerReferences"] = json!([{"kind": "ReplicaSet", "name": "web-7b89ff4ccb", "controller": true}]);
    let scaler = |target: &str, kind: &str| {
        json!({"spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": target},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": kind}}}],
        }})
    };
    situation.autoscalers = vec![scaler("web", "Utilization")];
    let outcome = situation.evaluate();
    check(&outcome, "120m", "200Mi");
    assert!(outcome.reads.iter().all(|(kind, _, _)| kind != "HorizontalPodAutoscaler"));
    situation = situation.with_settings(json!({"estimates": {"excludeAutoscaled": true}}));
    let outcome = situation.evaluate();
    check(&outcome, "", "200Mi");
    assert!(
        outcome
            .warnings
            .contains(&"container web: no cpu estimate, because a HorizontalPodAutoscaler scales by it".to_owned())
    );
    for other in
        [scaler("web", "AverageValue"), scaler("web-7b89ff4ccb", "Utilization"), scaler("other", "Utilization")]
    {
        situation.autoscalers = vec![other];
        check(&situation.evaluate(), "120m", "200Mi");
    }
    situation.failing = [("HorizontalPodAutoscaler", "forbidden")].into();
    let outcome = situation.evaluate();
    check(&outcome, "120m", "200Mi");
    assert!(outcome.warnings[0].starts_with("cannot list HorizontalPodAutoscaler in namespace `shop`"));
}

/// A profile that is broken by `change` is ignored, with a warning.
#[track_caller]
fn check_broken(change: impl Fn(&mut Value), warning: &str) {
    let mut broken = own(busy("120m", "200Mi"));
    change(&mut broken);
    let situation = nginx_pod().with_settings(json!({"estimates": {"wellKnownImages": false}})).with_profile(broken);
    let outcome = situation.evaluate();
    assert!(outcome.admitted && outcome.value("web", "requests.cpu").is_empty(), "{outcome:#?}");
    assert_eq!(outcome.warnings, [format!("usage history in UsageProfile {ROOT} ignored: {warning}")]);
}

#[test]
fn broken_stale_and_hostile_history_is_ignored() {
    check_broken(|p| p["spec"]["header"]["format"] = json!(1), "spec.header.format: expected 3, found `1`");
    check_broken(|p| p["spec"]["header"]["format"] = json!("2"), "spec.header.format: expected 3, found `\"2\"`");
    check_broken(|p| p["spec"] = json!({}), "spec: `header` is missing");
    check_broken(|p| p["spec"] = json!([]), "spec: expected an object, found `[]`");
    check_broken(|p| p["spec"]["header"]["collectedAt"] = Value::Null, "spec.header: `collectedAt` is missing");
    check_broken(
        |p| p["spec"]["header"]["collectedAt"] = json!("yesterday"),
        "spec.header.collectedAt: not a point in time: expected one such as `2026-11-21T00:00:00Z`, found `\"yesterday\"`",
    );
    check_broken(
        |p| p["spec"]["header"]["collectedAt"] = json!("2026-11-06T05:59:59Z"),
        "collected at 2026-11-06T05:59:59Z, more than 15d ago",
    );
    check_broken(
        |p| p["spec"]["header"]["collectedAt"] = json!("2026-11-21T07:00:01Z"),
        "collected at 2026-11-21T07:00:01Z: timestamp is in the future",
    );
    check_broken(
        |p| p["spec"]["images"][NGINX]["own"]["shop"]["all"]["collectedAt"] = json!("2026-11-06T05:59:59Z"),
        "collected at 2026-11-06T05:59:59Z, more than 15d ago",
    );
    for pages in ["", "/", "x#", "/x#"] {
        let change = |p: &mut Value| p["spec"]["header"]["pages"] = json!(pages);
        check_broken(change, "spec.header.pages: not a list of pages");
    }
    check_broken(|p| p["spec"]["images"] = json!(7), "spec.images: expected an object, found `7`");
    let tag = "spec.images[docker,io/library/nginx].own.shop.tags.1,27";
    for (observed, problem) in [
        (usage("samples=60 peak=1 90=-5m"), ".percentiles[6]: impossible value `\"-5m\"`"),
        (usage("samples=60 peak=1 90=20E"), ".percentiles[6]: impossible value `\"20E\"`"),
        (usage("samples=60 peak=1 90=1e29"), ".percentiles[6]: impossible value `\"1e29\"`"),
        (usage("samples=60 peak=1 90=2"), ".percentiles[6]: impossible value `\"2\"`"),
        (usage("samples=60 peak=-1 90=1"), ".peak: impossible value `\"-1\"`"),
        (usage("samples=-1 peak=1 90=1"), ".samples: impossible value `-1`"),
        (usage("samples=1.5 peak=1 90=1"), ".samples: expected a whole number, found `1.5`"),
        (
            usage("samples=60 peak=1 90="),
            ".percentiles[6]: `` is not a quantity: expected a number such as `500m` or `1.5Gi`",
        ),
        (usage("samples=60 peak= 90=1"), ".peak: `` is not a quantity: expected a number such as `500m` or `1.5Gi`"),
        (usage("samples=60 peak=1 50=1m 99=2m"), ": no p90"),
        (usage("samples=60 90=1m"), ": no peak"),
        (usage("peak=1 90=1m"), ": `samples` is missing"),
        (json!("samples=60"), ": expected an object, found `\"samples=60\"`"),
        (json!({"samples": 60, "percentiles": 7}), ".percentiles: expected a list, found `7`"),
    ] {
        let mut broken = own(busy("120m", "200Mi"));
        for resource in ["cpu", "memory"] {
            broken["spec"]["images"][NGINX]["own"]["shop"]["tags"]["1,27"]["windows"]["7d"][resource] =
                observed.clone();
        }
        let situation =
            nginx_pod().with_settings(json!({"estimates": {"wellKnownImages": false}})).with_profile(broken);
        let outcome = situation.evaluate();
        assert!(outcome.admitted && outcome.value("web", "requests.cpu").is_empty(), "{observed}: {outcome:#?}");
        let warning = format!("{tag}.windows.7d.cpu{problem}");
        assert!(outcome.warnings[0].ends_with(&warning), "{observed}: {:?}", outcome.warnings);
    }
}

#[test]
fn a_root_points_to_the_page_with_the_entry() {
    // A key by which nginx is in the second half of the first half.
    let nginx = ProfileKey::of("docker.io/library/nginx");
    let is_second = |key: &String| page_of("//##.", Halves::of(&nginx, "shop", key)) == Ok(Some("01".to_owned()));
    let page_key = (0..).map(|key| key.to_string()).find(is_second).unwrap();
    let paged = |pages: &str| {
        nginx_pod().with_profile(object(
            ROOT,
            json!({"header": {
                "format": 3, "collectedAt": "2026-11-21T05:00:00Z", "quorum": 3, "pages": pages,
                "pageKey": page_key,
            }}),
        ))
    };
    let page = |name: &str| {
        let mut page = own(busy("120m", "200Mi"));
        page["metadata"]["name"] = json!(name);
        page
    };
    let outcome = paged("//##.").with_profile(page("usage-26-00")).with_profile(page("usage-26-01")).evaluate();
    check(&outcome, "120m", "200Mi");
    let read: Vec<&str> =
        outcome.reads.iter().map(|(_, _, name)| name.as_str()).filter(|name| !name.is_empty()).collect();
    assert_eq!(read, [ROOT, "shop", "usage-26-01"]);
    // A list of pages in a page is ignored, and a missing page is no history.
    let mut further = page("usage-26-01");
    further["spec"] = json!({"header": {"format": 3, "collectedAt": "2026-11-21T05:00:00Z", "pages": "/##"}});
    for situation in [paged("//##.").with_profile(further), paged("//##."), paged("//#..")] {
        let outcome = situation.evaluate();
        check(&outcome, "100m", "128Mi");
        assert!(outcome.profiles_read() <= 2 && outcome.warnings.len() == 2, "{outcome:#?}");
    }
    // An empty root is no history, and gives no warning.
    let mut empty = object(ROOT, json!({}));
    empty.as_object_mut().unwrap().remove("spec");
    let outcome = nginx_pod().with_profile(empty).evaluate();
    check(&outcome, "100m", "128Mi");
    assert_eq!((outcome.profiles_read(), outcome.warnings.len()), (1, 2));
}

#[test]
fn a_tag_whose_history_is_that_of_all_is_only_named() {
    let mut images = nginx(json!({}), json!({"7d": window(10_080, "120m", "200Mi")}));
    images[NGINX]["tags"].take();
    images[NGINX]["all"]["same"] = json!(["1,26", "1,27"]);
    let outcome = nginx_pod().with_profile(own(images.clone())).evaluate();
    check(&outcome, "120m", "200Mi");
    assert!(outcome.warnings[0].contains("usage of nginx:1.27 in"), "{:?}", outcome.warnings);
    images[NGINX]["all"]["same"] = json!(["1,2", "1,277"]);
    check(&nginx_pod().with_profile(own(images)).evaluate(), "100m", "128Mi");
}

/// The entry of nginx with the history of these workloads' containers.
fn with_workloads(workloads: Value) -> Value {
    let mut images = nginx(json!({}), json!({"7d": window(10_080, "900m", "900Mi")}));
    images[NGINX]["workloads"] = workloads;
    images
}

#[test]
fn the_usage_of_the_pods_own_workload_comes_first() {
    let front = history(json!({"7d": window(10_080, "120m", "200Mi")}));
    let other = history(json!({"7d": window(10_080, "700m", "700Mi")}));
    let images = with_workloads(json!({"front/web": front, "front/log": other, "other/web": other}));
    for name in ["front-7d4b9c6f5-x2x4z", "front-0", "front"] {
        let mut pod = pod(container("nginx:1.27"));
        pod["metadata"]["name"] = json!(name);
        let outcome = Situation::of_pod(pod.clone()).with_profile(own(images.clone())).evaluate();
        check(&outcome, "120m", "200Mi");
        assert_eq!(
            outcome.explained("web", "requests.cpu"),
            "120m: p90 of 7d workload front in this namespace, 10080 samples, 1h old"
        );
        assert_eq!(outcome.profiles_read(), 1);
        pod["metadata"] = json!({"generateName": "front-7d4b9c6f5-"});
        check(&Situation::of_pod(pod).with_profile(own(images.clone())).evaluate(), "120m", "200Mi");
    }
    // Too little history of the workload is reported; a missing one is not.
    let few = with_workloads(json!({"web/web": history(json!({"7d": window(12, "1", "1Gi")}))}));
    let outcome = nginx_pod().with_settings(json!({"estimates": {"history": [
        {"window": "7d", "match": "workload"}, {"window": "7d", "match": "image"},
    ]}}));
    let explained = outcome.with_profile(own(few)).evaluate().explained("web", "requests.cpu");
    assert!(explained.ends_with("skipped: 7d workload web in this namespace: 12 samples, 60 needed"), "{explained}");
    let mut same = with_workloads(json!({}));
    same[NGINX]["all"]["same"] = json!(["1,26", "web/web"]);
    let outcome = nginx_pod().with_profile(own(same)).evaluate();
    assert!(outcome.explained("web", "requests.cpu").starts_with("900m: p90 of 7d workload web"));
}

#[test]
fn workload_history_is_used_only_in_its_namespace() {
    let images = with_workloads(json!({"web/web": history(json!({"7d": window(10_080, "120m", "200Mi")}))}));
    let steps = json!([{"window": "7d", "match": "workload"}]);
    let settings = json!({"estimates": {"history": steps, "scope": "cluster", "wellKnownImages": false}});
    let outcome = nginx_pod().with_profile(own(images)).with_settings(settings).evaluate();
    assert!(!outcome.changed, "{outcome:#?}");
}

#[test]
fn history_is_read_only_if_needed() {
    for settings in
        [json!({"estimates": {"history": [], "scope": "namespace"}}), json!({"estimates": {"mode": "never"}})]
    {
        let outcome = nginx_pod().with_profile(own(busy("120m", "200Mi"))).with_settings(settings).evaluate();
        assert_eq!(outcome.profiles_read(), 0);
    }
    let mut whole = container("nginx:1.27");
    whole[0]["resources"] = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let outcome = Situation::of_pod(pod(whole)).with_profile(own(busy("120m", "200Mi"))).evaluate();
    assert!(outcome.read_no_more_than_usual(), "{:?}", outcome.reads);
    let exempt = json!({"exempt": {"serviceAccounts": ["shop/default"]}});
    let outcome = nginx_pod().with_profile(own(busy("120m", "200Mi"))).with_settings(exempt).evaluate();
    assert!(outcome.reads.is_empty(), "{:?}", outcome.reads);
}

#[test]
fn an_unreadable_profile_gives_a_warning_and_a_missing_one_does_not() {
    let mut situation = nginx_pod();
    situation.failing = [("UsageProfile", "not granted")].into();
    let outcome = situation.evaluate();
    check(&outcome, "100m", "128Mi");
    assert!(
        outcome.warnings[0].starts_with("cannot get UsageProfile `usage-26`, so usage history is ignored (check `contextAwareResources` and RBAC): not granted")
    );
    for absent in [
        "Cannot find resource headroom.dev/v1alpha1/UsageProfile",
        "error finding resource headroom.dev/v1alpha1 / UsageProfile: 404 page not found",
    ] {
        situation.failing = [("UsageProfile", absent)].into();
        let outcome = situation.evaluate();
        check(&outcome, "100m", "128Mi");
        assert_eq!(outcome.warnings.len(), 2, "{:?}", outcome.warnings);
    }
    situation.failing = [("Namespace", "forbidden")].into();
    check(&situation.evaluate(), "100m", "128Mi");
}

#[test]
fn without_the_ranges_nothing_is_estimated() {
    let mut situation = nginx_pod().with_settings(json!({"onMissingContext": "warn"}));
    situation.failing = [("LimitRange", "forbidden")].into();
    let outcome = situation.evaluate();
    assert!(outcome.admitted && !outcome.changed && outcome.profiles_read() == 0);
}

#[test]
fn an_estimate_beyond_what_a_quota_has_left_is_kept_or_shrunk() {
    let containers = json!([{"name": "web", "image": "nginx:1.27"}, {"name": "more", "image": "nginx:1.27"}]);
    let mut object = pod(containers);
    object["spec"]["overhead"] = json!({"cpu": "100m"});
    let mut situation = Situation::of_pod(object).with_profile(own(busy("500m", "100Mi")));
    situation.quotas = vec![json!({
        "metadata": {"name": "compute", "namespace": "shop"},
        "status": {"hard": {"requests.cpu": "2", "memory": "1Gi"}, "used": {"requests.cpu": "1300m", "memory": "0"}},
    })];
    let outcome = situation.evaluate();
    assert!(!outcome.admitted && outcome.message.contains("exceeded quota: compute"), "{}", outcome.message);
    let mut situation = situation.with_settings(json!({"estimates": {"shrinkToQuota": true}}));
    let outcome = situation.evaluate();
    check(&outcome, "300m", "100Mi");
    assert_eq!(outcome.value("more", "requests.cpu"), "300m");
    assert!(outcome.warnings[0].contains("; lowered from 500m to what the quota has left"), "{:?}", outcome.warnings);
    assert!(!situation.evaluate_again(&outcome).changed);
    // Estimates do not shrink below the floor, so the quota refuses.
    situation.quotas[0]["status"]["used"]["requests.cpu"] = json!("1885m");
    assert!(!situation.evaluate().admitted);
}

#[test]
fn the_busiest_pod_counts_where_it_uses_more_than_the_estimate_from_all() {
    let situation = |busiest: &str| {
        let mut images = with_figures();
        images[NGINX]["tags"]["1,27"]["windows"]["7d"]["cpu"]["busiest"] = json!(busiest);
        nginx_pod().with_profile(own(images))
    };
    let estimated = |busiest: &str| {
        let outcome = situation(busiest).with_real_settings(json!({})).evaluate();
        (outcome.explained("web", "requests.cpu"), outcome.warnings[0].clone())
    };
    assert!(estimated("120m").0.ends_with("; 90m + 10% + 25m"));
    let (reason, warning) = estimated("150m");
    assert!(
        reason.starts_with("150m: ") && reason.ends_with("; raised from 124m for the busiest pod, which used 150m")
    );
    assert!(!warning.contains("busiest"), "{warning}");
    let (reason, warning) = estimated("954123u");
    assert!(reason.starts_with("955m: "), "{reason}");
    assert!(warning.contains("; raised from 124m for the busiest pod, which used 955m"), "{warning}");
    assert!(!estimated("10").0.contains("of recent"), "above the peak it cannot be");
    // Whoever chooses a percentile chooses it for all pods together.
    let chosen = situation("954m").with_settings(json!({"estimates": {"percentile": {"cpu": "p90 of 7d"}}}));
    assert_eq!(chosen.evaluate().value("web", "requests.cpu"), "300m");
}

#[test]
fn memory_is_at_least_the_weeks_peak_where_that_is_far_above_the_estimate() {
    let situation = |of: fn(Value) -> Value, peak: Value| {
        let mut images = with_figures();
        images[NGINX]["tags"]["1,27"]["windows"]["7d"]["memory"]["peak"] = peak;
        nginx_pod().with_profile(of(images))
    };
    let estimated = |of: fn(Value) -> Value, peak: Value| {
        let outcome = situation(of, peak).with_real_settings(json!({})).evaluate();
        (outcome.explained("web", "requests.memory"), outcome.warnings[1].clone())
    };
    // Twice the estimate of 614Mi is 1228Mi.
    assert!(estimated(own, json!("1200Mi")).0.ends_with("; 500Mi + 10% + 64Mi"));
    let (reason, warning) = estimated(own, json!("2000000000"));
    assert!(reason.starts_with("1908Mi: ") && reason.ends_with("; raised from 614Mi for the peak of 7d, 1908Mi"));
    assert!(warning.contains("; raised from 614Mi for the peak of 7d, 1908Mi"), "{warning}");
    let chosen = json!({"estimates": {"percentile": {"memory": "p99.9 of recent"}}});
    assert_eq!(situation(own, json!("2Gi")).with_settings(chosen).evaluate().value("web", "requests.memory"), "500Mi");
    assert!(estimated(pool, json!("2Gi")).0.contains("; raised from 614Mi for the peak of 7d, 2Gi; "));
}
