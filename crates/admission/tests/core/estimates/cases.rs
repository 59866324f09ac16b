//! The effect of each setting, history and bound on an estimate: the claims of `cases.yaml`, and the few that no row can
//! hold.

use std::collections::BTreeMap;

use headroom_admission::cluster::usage::profile_layout::{Halves, ProfileKey, page_of};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::situation::{Situation, history, object, own, pool, usage, window};
use crate::claims::{claims, is_like, set};
use crate::harness::Outcome;

/// nginx's key and root, as fixed by `address`.
const NGINX: &str = "docker,io/library/nginx";
const QUARTER: &str = "usage-26.c";

claims! {
    Case, "cases.yaml",
    the_percentile_of_the_own_namespace_becomes_the_request_and_nothing_else
    the_first_step_with_enough_samples_decides_and_skipped_ones_are_listed
    the_scope_decides_whose_history_counts
    pooled_history_needs_several_namespaces_and_pods
    a_digest_is_looked_up_before_the_tag
    an_image_without_history_gets_well_known_requests_or_none
    margin_min_and_rounding_are_applied
    any_published_percentile_can_be_chosen
    the_largest_of_the_default_figures_decides_and_gets_a_margin
    a_short_history_raises_the_estimate
    a_week_of_its_own_history_bounds_the_estimate_by_what_was_used
    a_pool_of_few_pods_raises_the_estimate
    a_pool_is_only_used_where_enough_namespaces_agree
    figures_are_chosen_by_window
    an_out_of_memory_kill_raises_memory_and_is_reported
    what_an_author_set_stays_and_is_not_estimated
    an_estimate_replaces_what_an_author_set_where_that_is_asked_for
    a_limit_changes_with_its_request_where_its_author_allows_it
    an_authors_value_stays_where_its_estimate_is_not_asked_for_or_not_allowed
    an_authors_value_stays_without_evidence_or_where_another_would_hurt
    two_containers_of_one_name_are_not_estimated_again
    a_request_that_equals_a_default_limit_of_ours_stays_its_authors
    an_estimate_close_to_the_authors_value_gives_no_warning
    a_dry_run_reports_and_sets_nothing
    a_monitored_policy_says_what_it_would_set
    a_history_that_was_used_is_not_said_to_be_missing
    namespaces_and_pods_may_ask_for_fewer_estimates_but_not_for_more
    the_namespace_is_read_unless_its_root_says_that_it_asks_for_nothing
    without_history_the_namespace_is_read_only_for_images_of_the_table
    init_containers_and_sidecars_are_estimated_too
    each_root_is_read_once
    a_container_range_bounds_the_estimate_and_is_named
    the_ratio_to_the_default_limit_is_kept
    a_default_limit_below_the_estimate_is_raised_or_without_repair_the_estimate_is_lowered
    values_set_by_limit_ranger_are_replaced_and_its_limit_is_raised
    a_pod_maximum_shrinks_estimates_and_not_what_authors_set
    an_estimate_that_would_break_a_bound_is_dropped
    with_limit_ranges_off_they_still_bound_estimates
    a_template_is_evaluated_as_its_pods_would_be_and_changed_only_if_asked
    a_template_derived_by_a_controller_is_not_changed
    a_cut_explanation_is_kept_when_the_pod_is_evaluated_again
    values_omitted_from_an_explanation_are_kept_too
    values_omitted_from_an_explanation_get_no_reported_estimate
    storage_is_estimated_if_the_settings_include_it
    a_value_that_an_autoscaler_scales_by_is_not_replaced
    broken_stale_and_hostile_history_is_ignored
    a_tag_whose_history_is_that_of_all_is_only_named
    the_usage_of_the_pods_own_workload_comes_first
    workload_history_is_used_only_in_its_namespace
    history_is_read_only_if_needed
    an_unreadable_profile_gives_a_warning_and_a_missing_one_does_not
    without_the_ranges_nothing_is_estimated
    an_estimate_beyond_what_a_quota_has_left_is_kept_or_shrunk
    the_busiest_pod_counts_where_it_uses_more_than_the_estimate_from_all
    memory_covers_every_peak_of_its_own_history_and_far_ones_of_the_pool
    estimates_are_those_of_the_design_and_of_the_retired_plugin
}

/// A pod in a cluster, and what is expected of the decision. In an expected text, `...` stands for any text.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Case {
    /// The image of the container `web`.
    image: Option<String>,
    /// Merged into the pod.
    pod: Map<String, Value>,
    /// Fields of the AdmissionRequest that differ from those of a new pod.
    request: Map<String, Value>,
    user: Option<String>,
    /// The history of nginx in the pod's namespace and in all: `cpu memory` of its tag 1.27 over a week, or histories by
    /// tag, of `all` and of `workloads`, each with its windows.
    own: Option<Value>,
    pool: Option<Value>,
    /// Values by JSON pointer within that history, and within the UsageProfile around it.
    change: BTreeMap<String, Value>,
    profile: BTreeMap<String, Value>,
    settings: Map<String, Value>,
    /// True for the default percentiles and margins, instead of one percentile without margins.
    defaults: bool,
    /// The limits of each LimitRange: `limits-0`, `limits-1` and so on.
    limits: Vec<Value>,
    quotas: Vec<Value>,
    autoscalers: Vec<Value>,
    namespace: Option<Value>,
    /// The errors of kinds that cannot be read.
    unreadable: BTreeMap<String, String>,

    /// The message of a refusal. Without it, the request is admitted.
    refused: Option<String>,
    /// True if the object is changed.
    changed: Option<bool>,
    /// The requests of `web` for cpu and memory, empty if they are not set.
    requests: Option<[String; 2]>,
    /// Other values, such as `web limits.cpu`.
    values: BTreeMap<String, String>,
    /// Parts of the resulting object by JSON pointer.
    object: BTreeMap<String, Value>,
    annotations: BTreeMap<String, String>,
    audit: BTreeMap<String, Option<String>>,
    /// All warnings in their order, texts of some of them, and a text that none has.
    warnings: Option<Vec<String>>,
    says: Vec<String>,
    unsaid: Option<String>,
    /// The explanations of the requests of `web` by resource, and a text that none has.
    explains: BTreeMap<String, String>,
    unexplained: Option<String>,
    /// The problem for which the UsageProfile is ignored, in the only warning.
    ignored: Option<String>,
    /// The number of UsageProfiles that are read, kinds that are read, and all kinds that may be read.
    profiles_read: Option<usize>,
    reads: Vec<String>,
    reads_only: Option<Vec<String>>,
}

impl Case {
    fn check(&self) {
        let situation = self.situation();
        let outcome = situation.evaluate();
        if let Some(refused) = &self.refused {
            assert!(!outcome.admitted && is_like(&outcome.message, refused), "{outcome:#?} for {self:#?}");
            return;
        }
        assert!(outcome.admitted && self.is_met_by(&outcome), "{outcome:#?} for {self:#?}");
        assert!(outcome.warnings.iter().all(|warning| warning.len() <= 256), "{:?}", outcome.warnings);
        assert!(outcome.annotation("headroom.dev/resources").is_none_or(|text| text.len() <= 1024), "{outcome:#?}");
        let again = situation.evaluate_again(&outcome);
        assert!(again.admitted && !again.changed, "evaluated again: {again:#?} for {self:#?}");
        self.check_unannotated(situation, &outcome);
    }

    /// Checks that without annotations the same is set and said, and that the validating policy then decides alike.
    fn check_unannotated(&self, mut situation: Situation, annotated: &Outcome) {
        situation.settings["annotate"] = json!(false);
        let bare = situation.evaluate();
        assert!(
            bare.admitted && without_annotations(&bare) == without_annotations(annotated),
            "{bare:#?} for {self:#?}"
        );
        let annotations = |object: &Value| {
            ["/metadata/annotations", "/spec/template/metadata/annotations"].map(|at| object.pointer(at).cloned())
        };
        assert_eq!(annotations(&bare.object), annotations(&situation.request["object"]), "{self:#?}");
        let again = situation.evaluate_again(&bare);
        assert!(again.admitted && !again.changed, "evaluated again: {again:#?} for {self:#?}");
        situation.settings["role"] = json!("validate");
        situation.settings.as_object_mut().unwrap().remove("mutateTemplates");
        let of_both = [&bare, annotated].map(|outcome| situation.evaluate_again(outcome));
        assert_eq!(of_both[0].message, of_both[1].message, "{self:#?}");
    }

    fn situation(&self) -> Situation {
        let mut pod =
            json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}});
        json_patch::merge(&mut pod, &self.pod.clone().into());
        if let Some(image) = &self.image {
            pod["spec"]["containers"][0]["image"] = json!(image);
        }
        let mut situation = Situation::of_pod(pod);
        situation.request.as_object_mut().unwrap().extend(self.request.clone());
        if let Some(user) = &self.user {
            situation.request["userInfo"] = json!({"username": user});
        }
        let mut settings: Value = self.settings.clone().into();
        if self.ignored.is_some() {
            settings["estimates"]["wellKnownImages"] = json!(false);
        }
        situation =
            if self.defaults { situation.with_real_settings(settings) } else { situation.with_settings(settings) };
        for (compact, of) in [(&self.own, own as fn(Value) -> Value), (&self.pool, pool)] {
            let Some(compact) = compact else { continue };
            let mut profile = of(json!({NGINX: self.histories(compact)}));
            self.profile.iter().for_each(|(pointer, value)| set(&mut profile, pointer, value.clone()));
            situation = situation.with_profile(profile);
        }
        situation = self.limits.iter().cloned().fold(situation, Situation::with_limits);
        (situation.quotas, situation.autoscalers) = (self.quotas.clone(), self.autoscalers.clone());
        situation.failing = self.unreadable.clone();
        situation.namespace = self.namespace.clone().unwrap_or(situation.namespace);
        situation
    }

    /// The histories of nginx as a UsageProfile has them.
    fn histories(&self, compact: &Value) -> Value {
        let mut by_name = match compact {
            Value::String(of_tag) => json!({"1,27": {"7d": of_tag}}),
            histories => histories.clone(),
        };
        let by_name = by_name.as_object_mut().unwrap();
        let expanded = |mut windows: Value| {
            windows.as_object_mut().unwrap().values_mut().for_each(expand_window);
            history(windows)
        };
        let all_expanded = |mut histories: Value| {
            histories.as_object_mut().unwrap().values_mut().for_each(|windows| *windows = expanded(windows.take()));
            histories
        };
        let mut histories = json!({"all": expanded(by_name.remove("all").unwrap_or_else(|| json!({})))});
        if let Some(workloads) = by_name.remove("workloads") {
            histories["workloads"] = all_expanded(workloads);
        }
        histories["tags"] = all_expanded(std::mem::take(by_name).into());
        for (pointer, value) in &self.change {
            set(&mut histories, pointer, value.clone());
        }
        // A change may be written as compactly as the windows are.
        let tags = histories["tags"].as_object_mut().into_iter().flatten();
        tags.flat_map(|(_, tag)| tag["windows"].as_object_mut().unwrap()).for_each(|(_, window)| expand_window(window));
        histories
    }

    fn is_met_by(&self, outcome: &Outcome) -> bool {
        let warnings = &outcome.warnings;
        let is_value = |(place, expected): (&String, &String)| {
            let (container, place) = place.split_once(' ').unwrap();
            outcome.value(container, place) == *expected
        };
        let is_audited =
            |(name, expected): (&String, &Option<String>)| match (outcome.audit.get(name.as_str()), expected) {
                (Some(text), Some(expected)) => is_like(text, expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
        let is_explained = |(resource, expected): (&String, &String)| {
            let explained = outcome.explained("web", &format!("requests.{resource}"));
            is_like(&explained, expected) && self.unexplained.as_ref().is_none_or(|text| !explained.contains(text))
        };
        let requests = || ["cpu", "memory"].map(|resource| outcome.value("web", &format!("requests.{resource}")));
        let are_warnings = |expected: &Vec<String>| {
            expected.len() == warnings.len() && warnings.iter().zip(expected).all(|(text, like)| is_like(text, like))
        };
        let is_ignored = |problem: &String| {
            *warnings == [format!("usage history in UsageProfile {QUARTER} ignored: {problem}")]
                && requests()[0].is_empty()
        };
        let reads = |kind: &String| outcome.reads.iter().any(|(read, _, _)| read == kind);
        let reads_only = |kinds: &Vec<String>| outcome.reads.iter().all(|(kind, _, _)| kinds.contains(kind));
        self.changed.is_none_or(|changed| outcome.changed == changed)
            && self.requests.as_ref().is_none_or(|expected| requests() == *expected)
            && self.values.iter().all(is_value)
            && self.object.iter().all(|(pointer, part)| outcome.object.pointer(pointer) == Some(part))
            && self.annotations.iter().all(|(name, text)| is_like(outcome.annotation(name).unwrap(), text))
            && self.audit.iter().all(is_audited)
            && self.warnings.as_ref().is_none_or(are_warnings)
            && self.says.iter().all(|like| warnings.iter().any(|warning| is_like(warning, like)))
            && self.unsaid.as_ref().is_none_or(|text| warnings.iter().all(|warning| !warning.contains(text)))
            && self.explains.iter().all(is_explained)
            && self.ignored.as_ref().is_none_or(is_ignored)
            && self.profiles_read.is_none_or(|count| outcome.profiles_read() == count)
            && self.reads.iter().all(reads)
            && self.reads_only.as_ref().is_none_or(reads_only)
    }
}

/// The object without annotations, and what was said.
fn without_annotations(outcome: &Outcome) -> (Value, &[String], &BTreeMap<&'static str, String>) {
    let mut object = outcome.object.clone();
    for at in ["/metadata", "/spec/template/metadata"] {
        object.pointer_mut(at).and_then(|metadata| metadata.as_object_mut()?.remove("annotations"));
    }
    (object, &outcome.warnings, &outcome.audit)
}

/// Expands `cpu memory` or `cpu memory samples` of a window, or its resources, each a text for [`usage`] or one amount
/// for all percentiles.
fn expand_window(compact: &mut Value) {
    if let Some(text) = compact.as_str() {
        let words: Vec<&str> = text.split(' ').collect();
        let samples = words.get(2).map_or(10_080, |samples| samples.parse().unwrap());
        *compact = window(samples, words[0], words[1]);
    }
    for resource in compact.as_object_mut().unwrap().values_mut() {
        if let Some(text) = resource.as_str() {
            *resource = if text.contains('=') { usage(text) } else { window(10_080, text, text)["cpu"].take() };
        }
    }
}

/// nginx with a week of usage in its own namespace.
fn nginx(cpu: &str, memory: &str) -> Case {
    Case { own: Some(json!(format!("{cpu} {memory}"))), ..Case::default() }
}

#[test]
fn unreadable_observations_are_ignored_with_their_place() {
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
        let mut case = nginx("120m", "200Mi");
        case.settings = json!({"estimates": {"wellKnownImages": false}}).as_object().unwrap().clone();
        let window = "/spec/images/docker,io~1library~1nginx/own/shop/tags/1,27/windows/7d";
        case.profile = ["cpu", "memory"].map(|resource| (format!("{window}/{resource}"), observed.clone())).into();
        let outcome = case.situation().evaluate();
        assert!(outcome.admitted && outcome.value("web", "requests.cpu").is_empty(), "{observed}: {outcome:#?}");
        let warning = format!("{tag}.windows.7d.cpu{problem}");
        assert!(outcome.warnings[0].ends_with(&warning), "{observed}: {:?}", outcome.warnings);
    }
}

#[test]
fn a_quarter_points_to_the_page_with_the_entry() {
    // A key by which nginx is in the second half of the first half.
    let key = ProfileKey::of("docker.io/library/nginx");
    let is_second =
        |page_key: &String| page_of("//##.", Halves::of(&key, "shop", page_key)) == Ok(Some("01".to_owned()));
    let page_key = (0..).map(|key| key.to_string()).find(is_second).unwrap();
    let paged_in = |name: &str, pages: &str| {
        let header = json!({
            "format": 3, "collectedAt": "2026-11-21T05:00:00Z", "quorum": 3, "pages": pages, "pageKey": page_key,
        });
        Case::default().situation().with_profile(object(name, json!({"header": header})))
    };
    let paged = |pages: &str| paged_in(QUARTER, pages);
    let page = |name: &str| {
        let mut page = nginx("120m", "200Mi").situation().profiles.remove(0);
        page["metadata"]["name"] = json!(name);
        page
    };
    let estimates = |situation: &Situation, cpu: &str| {
        let outcome = situation.evaluate();
        assert_eq!(outcome.value("web", "requests.cpu"), cpu, "{outcome:#?}");
        outcome
    };
    let outcome =
        estimates(&paged("//##.").with_profile(page("usage-26.c-00")).with_profile(page("usage-26.c-01")), "120m");
    let read = |outcome: &Outcome| {
        let names = outcome.reads.iter().map(|(_, _, name)| name.clone());
        names.filter(|name| !name.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(read(&outcome), [QUARTER, "shop", "usage-26.c-01"]);
    // Where there is no quarter yet, a root of the older layout is read, and its page.
    let outcome = estimates(&paged_in("usage-26", "//##.").with_profile(page("usage-26-01")), "120m");
    assert_eq!(read(&outcome), [QUARTER, "usage-26", "shop", "usage-26-01"]);
    // A list of pages in a page is ignored, and a missing page is no history.
    let mut further = page("usage-26.c-01");
    further["spec"] = json!({"header": {"format": 3, "collectedAt": "2026-11-21T05:00:00Z", "pages": "/##"}});
    for situation in [paged("//##.").with_profile(further), paged("//##."), paged("//#..")] {
        let outcome = estimates(&situation, "100m");
        assert!(outcome.profiles_read() <= 2 && outcome.warnings.len() == 2, "{outcome:#?}");
    }
    // An empty quarter is no history, and gives no warning.
    let mut empty = object(QUARTER, json!({}));
    empty.as_object_mut().unwrap().remove("spec");
    let outcome = estimates(&Case::default().situation().with_profile(empty), "100m");
    assert_eq!((outcome.profiles_read(), outcome.warnings.len()), (1, 2));
}

#[test]
fn an_estimate_equal_to_limit_rangers_limit_is_kept_when_the_history_changes() {
    let evaluate = |object: &Value, cpu: &str| {
        let range = json!([{"type": "Container", "default": {"cpu": "100m"}, "max": {"cpu": "100m"}}]);
        let mut situation = nginx(cpu, "200Mi").situation().with_limits(range);
        situation.request["object"] = object.clone();
        situation.evaluate()
    };
    let annotation = "LimitRanger plugin set: cpu limit for container web";
    let limited = json!({"name": "web", "image": "nginx:1.27", "resources": {"limits": {"cpu": "100m"}}});
    let metadata = json!({"name": "web", "annotations": {"kubernetes.io/limit-ranger": annotation}});
    let first = evaluate(&json!({"metadata": metadata, "spec": {"containers": [limited]}}), "500m");
    assert_eq!(first.value("web", "requests.cpu"), "100m", "{:#?}", first.warnings);
    let again = evaluate(&first.object, "50m");
    assert!(!again.changed, "{}", again.object);
}
