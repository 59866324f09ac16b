//! The effect of each setting, history and bound on an estimate: the claims of `cases.yaml`, and the few that no row can
//! hold.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::situation::{NGINX, Situation, history, object, own, pool, usage, web, window};
use crate::claims::{check_each, is_like, set};
use crate::harness::Outcome;

/// nginx's root, as fixed by `address`.
const QUARTER: &str = "usage-26.c";

#[test]
fn every_claim_holds() {
    check_each(include_str!("cases.yaml"), Case::check);
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
        let is_same = without_annotations(&bare) == without_annotations(annotated);
        assert!(bare.admitted && is_same, "{bare:#?} for {self:#?}");
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
        let mut pod = web();
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
        situation.lists["ResourceQuota"] = json!({"items": self.quotas});
        situation.lists["HorizontalPodAutoscaler"] = json!({"items": self.autoscalers});
        if let Some(namespace) = &self.namespace {
            situation.lists["Namespace"] = json!({"items": [namespace]});
        }
        for (kind, problem) in &self.unreadable {
            situation.lists[kind] = json!(problem);
        }
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
        let reads = |kind: &String| outcome.reads.iter().any(|(read, _)| read == kind);
        let reads_only = |kinds: &Vec<String>| outcome.reads.iter().all(|(kind, _)| kinds.contains(kind));
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
    let paged_in = |name: &str, pages: &str| {
        // By this key nginx belongs to the first half three times, and then to the second.
        let header = json!({
            "format": 3, "collectedAt": "2026-11-21T05:00:00Z", "quorum": 3, "pages": pages, "pageKey": "0f1e",
        });
        Case::default().situation().with_profile(object(name, json!({"header": header})))
    };
    let paged = |pages: &str| paged_in(QUARTER, pages);
    let page = |name: &str| {
        let mut page = nginx("120m", "200Mi").situation().lists["UsageProfile"]["items"][0].take();
        page["metadata"]["name"] = json!(name);
        page
    };
    let estimates = |situation: &Situation, cpu: &str| {
        let outcome = situation.evaluate();
        assert_eq!(outcome.value("web", "requests.cpu"), cpu, "{outcome:#?}");
        outcome
    };
    let outcome = estimates(
        &paged("////##...").with_profile(page("usage-26.c-0000")).with_profile(page("usage-26.c-0001")),
        "120m",
    );
    let read = |outcome: &Outcome| {
        let names = outcome.reads.iter().map(|(_, name)| name.clone());
        names.filter(|name| !name.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(read(&outcome), [QUARTER, "shop", "usage-26.c-0001"]);
    // Where there is no quarter yet, a root of the older layout is read, and its page.
    let outcome = estimates(&paged_in("usage-26", "////##...").with_profile(page("usage-26-0001")), "120m");
    assert_eq!(read(&outcome), [QUARTER, "usage-26", "shop", "usage-26-0001"]);
    // A list of pages in a page is ignored, and a missing page is no history.
    let mut further = page("usage-26.c-0001");
    further["spec"] = json!({"header": {"format": 3, "collectedAt": "2026-11-21T05:00:00Z", "pages": "/##"}});
    for situation in [paged("////##...").with_profile(further), paged("////##..."), paged("////#....")] {
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
