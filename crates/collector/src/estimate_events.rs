//! Reports estimates as Events of the workloads whose pods got them: warnings reach only whoever creates a pod, and for most pods
//! that is a controller.
//!
//! Only pods without a node are watched, as metadata: each passes there once, whatever becomes of it later. Everybody may write
//! annotations, so what they say is only quoted, in the namespace of the pod, and no namespace delays the others. Where the policy
//! writes none, one pod of each template is read and compared with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Mutex;
use std::time::Duration;

use headroom_admission::amount::Requirement;
use headroom_admission::annotations::headroom_annotation::{self, NAME, REPORTED};
use headroom_admission::json::Node;
use headroom_admission::request::is_of_estimate;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, value};
use headroom_api_server::derived_name::derived_name;
use headroom_api_server::event::{EventType, Recorder};
use headroom_api_server::parts::locked;
use headroom_api_server::watch::{WatchUpdate, follow};
use headroom_objects::kinds::{ApiKind, controller_of, items, metadata, text};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const PODS: ApiPath = ApiPath::new("/api/v1/pods");
const WITHOUT_NODE: ListOptions<'static> = ListOptions { field_selector: "spec.nodeName=", ..ListOptions::METADATA };
/// The time from one Event to the next.
const PAUSE: Duration = Duration::from_secs(6);
/// The most that one namespace has waiting.
const WAITING: usize = 20;
/// The most messages that are remembered. A forgotten one is sent again, and the API server refuses it: it has an Event of that name.
const REMEMBERED: usize = 10_000;
/// The most kinds that the log names as forbidden: whoever creates a pod may name any as its controller's.
const MOST_FORBIDDEN: usize = 20;

/// The place that tells what was set in a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReadFrom {
    Annotations,
    Templates,
}

/// A message for a workload.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    /// The pod's controller, such as a ReplicaSet, as the pod refers to it.
    controller: Value,
    /// The pod template and the estimated amounts. Each combination gets one Event.
    subject: String,
    /// Empty if the pod is still to be compared with its template.
    message: String,
    pod: String,
}

pub async fn report(api: ApiClient, read_from: ReadFrom, stop: CancellationToken) {
    let queue = Queue::default();
    let read = |pod: Node<'_>| {
        value(pod).and_then(|pod| Some((metadata(&pod, "namespace").to_owned(), note(&pod, read_from)?)))
    };
    let seen = |seen| match seen {
        WatchUpdate::Listed(_, notes) => notes.into_iter().for_each(|(namespace, note)| queue.add(namespace, note)),
        WatchUpdate::Stored((namespace, note)) => queue.add(namespace, note),
        WatchUpdate::Deleted(_) | WatchUpdate::UpTo(_) | WatchUpdate::Lost(_) => {}
    };
    let recorder = Recorder { api: api.clone(), component: "headroom-collector", instance: String::new() };
    let telling = async {
        let (mut last, mut reader) = (String::new(), ControllerReader { api: api.clone(), forbidden: BTreeSet::new() });
        loop {
            let mut note;
            (last, note) = queue.next(&last).await;
            let reason = if note.message.is_empty() { "ResourcesSet" } else { "RequestsEstimated" };
            if note.message.is_empty() && reader.compare(&last, &mut note).await.is_none() {
                continue;
            }
            let Some(workload) = reader.workload(&last, &note.controller).await else { continue };
            let [uid, name] = ["/uid", "/name"].map(|field| text(&workload, field));
            let about = json!({"metadata": {"namespace": last, "name": name, "uid": uid}});
            let about = (text(&workload, "/apiVersion"), text(&workload, "/kind"), &about);
            // Another collector, or this one before it was started again, has told the same under this name.
            let name = derived_name("headroom-estimated", &format!("{uid} {}", note.subject));
            if recorder.record_as(&name, about, EventType::Normal, reason, &note.message).await {
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    tokio::select! {
        () = follow(api.clone(), PODS, WITHOUT_NODE, stop.clone(), read, seen) => {}
        () = telling => {}
        () = stop.cancelled() => {}
    }
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    by_namespace: BTreeMap<String, VecDeque<Note>>,
    /// The messages that waited earlier, too, each by a name of one length.
    known: BTreeSet<String>,
}

impl Queue {
    fn add(&self, namespace: String, note: Note) {
        let mut waiting = locked(&self.waiting);
        let Waiting { by_namespace, known } = &mut *waiting;
        let key = derived_name("note", &format!("{namespace} {} {}", note.controller, note.subject));
        let notes = by_namespace.entry(namespace).or_default();
        if notes.len() < WAITING && !known.contains(&key) {
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(key);
            notes.push_back(note);
            self.added.notify_one();
        }
    }

    /// The next note, of the namespace after the last one.
    async fn next(&self, last: &str) -> (String, Note) {
        loop {
            if let Some(found) = locked(&self.waiting).next(last) {
                return found;
            }
            self.added.notified().await;
        }
    }
}

impl Waiting {
    fn next(&mut self, last: &str) -> Option<(String, Note)> {
        self.by_namespace.retain(|_, notes| !notes.is_empty());
        let after = self.by_namespace.range::<str, _>((Excluded(last), Unbounded)).next();
        let (namespace, _) = after.or_else(|| self.by_namespace.first_key_value())?;
        let namespace = namespace.clone();
        let note = self.by_namespace.get_mut(&namespace)?.pop_front()?;
        Some((namespace, note))
    }
}

/// The message about a new pod for its workload; none if nothing was estimated, or no controller made the pod.
fn note(pod: &Value, read_from: ReadFrom) -> Option<Note> {
    let about = pod.get("metadata")?;
    let annotation = |name: &str| about.get("annotations")?.get(name)?.as_str();
    let (mut subject, mut message) = (String::new(), String::new());
    for (name, begin) in [(NAME, "estimated for its pods: "), (REPORTED, "estimated, but not set: ")] {
        let mut next = begin;
        headroom_annotation::read(annotation(name).unwrap_or_default(), |claim| {
            if !is_of_estimate(claim.reason) {
                return;
            }
            message.push_str(if next == begin && !message.is_empty() { "; " } else { "" });
            let (container, field) = (claim.container, claim.requirement.field().trim_end_matches('s'));
            // Writing into a string does not fail.
            _ = write!(message, "{next}{container} {} {field} {} ({})", claim.resource, claim.value, claim.reason);
            // Reasons count samples, so they differ from pod to pod.
            _ = write!(subject, "{name} {container} {field} {} {};", claim.resource, claim.value);
            next = ", ";
        });
    }
    let controller = controller_of(pod)?.clone();
    let label = |name: &str| about.get("labels")?.get(name)?.as_str();
    let template = label("pod-template-hash").or_else(|| label("controller-revision-hash")).unwrap_or_default();
    let subject = format!("{template} {subject}");
    let is_told = read_from == ReadFrom::Templates || !message.is_empty();
    is_told.then(|| Note { controller, subject, message, pod: metadata(pod, "name").to_owned() })
}

/// Reads what a note does not say.
struct ControllerReader {
    api: ApiClient,
    /// The kinds that are known to be forbidden.
    forbidden: BTreeSet<String>,
}

impl ControllerReader {
    /// The workload that people know: the controller's own controller if that is a ReplicaSet or a Job that has one.
    async fn workload(&mut self, namespace: &str, controller: &Value) -> Option<Value> {
        let kind = ApiKind::of(controller);
        if !matches!((kind.group.as_str(), kind.kind.as_str()), ("apps", "ReplicaSet") | ("batch", "Job")) {
            return Some(controller.clone());
        }
        let read = self.get(namespace, &kind, text(controller, "/name")).await?;
        Some(controller_of(&read).unwrap_or(controller).clone())
    }

    /// Compares the pod of a note with its template; none if there is nothing to say.
    async fn compare(&mut self, namespace: &str, note: &mut Note) -> Option<()> {
        let (kind, name) = (ApiKind::of(&note.controller), text(&note.controller, "/name"));
        let controller = self.get(namespace, &kind, name).await?;
        let pod = self.get(namespace, &ApiKind::new("v1", "Pod"), &note.pod).await?;
        let set = set_beside_template(&pod, &controller)?;
        note.subject.push_str(&set);
        note.message =
            format!("its pods have what its template does not (from an estimate, a LimitRange or a webhook): {set}");
        Some(())
    }

    async fn get(&mut self, namespace: &str, kind: &ApiKind, name: &str) -> Option<Value> {
        let path = ApiPath::of_version(&kind.api_version()).collection(Some(namespace), &kind.plural).at(name);
        let read = self.api.get(&path).await;
        if let Err(failure) = &read {
            let kind = kind.qualified();
            tracing::debug!(%path, %failure, "cannot read a pod or its controller");
            if is_news(&mut self.forbidden, &kind, failure) {
                tracing::warn!(?kind, "controllers that may not be read are told nothing: grant `get` of them");
            }
        }
        read.ok()
    }
}

/// True if the failure says for the first time that a kind may not be read.
fn is_news(forbidden: &mut BTreeSet<String>, kind: &str, failure: &ApiError) -> bool {
    let is_one = matches!(failure, ApiError::Forbidden { .. }) && forbidden.len() < MOST_FORBIDDEN;
    is_one && forbidden.insert(kind.to_owned())
}

/// Requests and limits of a pod's containers for which the template of its controller has others or none; none if there are none,
/// or if that is not the pod's template.
fn set_beside_template(pod: &Value, controller: &Value) -> Option<String> {
    // A StatefulSet may still create pods of an earlier template.
    let revision = controller.pointer("/status/updateRevision");
    if revision.is_some_and(|revision| pod.pointer("/metadata/labels/controller-revision-hash") != Some(revision)) {
        return None;
    }
    let (spec, template) = (pod.get("spec")?, controller.pointer("/spec/template/spec")?);
    let mut found = Vec::new();
    for list in ["/initContainers", "/containers"] {
        let written: BTreeMap<&str, &Value> = containers(template, list).collect();
        for (name, container) in containers(spec, list) {
            let template = written.get(name).copied();
            for requirement in Requirement::BOTH {
                for (resource, amount) in amounts(container, requirement).into_iter().flatten() {
                    let of_template = |requirement| amounts(template?, requirement)?.get(resource);
                    // The API server copies a limit into the request, but not in templates.
                    if of_template(requirement).or_else(|| of_template(Requirement::Limit)) == Some(amount) {
                        continue;
                    }
                    let amount = amount.as_str().unwrap_or_default();
                    let before = of_template(requirement).and_then(Value::as_str);
                    let before = before.map(|before| format!(" in place of {before}")).unwrap_or_default();
                    found.push(format!("{name} {resource} {requirement} {amount}{before}"));
                }
            }
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// The containers of a pod's list, by name.
fn containers<'a>(spec: &'a Value, list: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    items(spec, list).filter_map(|container| Some((container.get("name")?.as_str()?, container)))
}

fn amounts(container: &Value, requirement: Requirement) -> Option<&Map<String, Value>> {
    container.get("resources")?.get(requirement.field())?.as_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::kinds::LONGEST_REFERENCE;

    const HISTORY: &str = "p90 of 7d nginx:1.27 in this namespace, 10080 samples, 1h old";

    #[test]
    fn a_workload_is_told_what_was_estimated_for_its_pods() {
        let check = |set: &str, reported: &str, expected: Option<&str>| {
            let annotations = [(NAME, set), (REPORTED, reported)].into_iter().filter(|(_, text)| !text.is_empty());
            let annotations: BTreeMap<&str, String> =
                annotations.map(|(name, text)| (name, text.replace('H', HISTORY))).collect();
            let owners = json!([{"kind": "Other", "uid": "1"}, {"kind": "ReplicaSet", "controller": true, "uid": "2"}]);
            let labels = json!({"pod-template-hash": "5d"});
            let mut pod =
                json!({"metadata": {"annotations": annotations, "labels": labels, "ownerReferences": owners}});
            let found = note(&pod, ReadFrom::Annotations);
            assert_eq!(found.as_ref().map(|note| note.message.replace(HISTORY, "H")).as_deref(), expected, "{set}");
            // Without a message the pod is compared with its template, if that is where to look.
            let compared = note(&pod, ReadFrom::Templates).unwrap();
            assert_eq!(compared.message.is_empty(), expected.is_none(), "{set}");
            assert!(
                [found, Some(compared)]
                    .into_iter()
                    .flatten()
                    .all(|note| note.controller["uid"] == "2" && note.subject.starts_with("5d "))
            );
            pod["metadata"]["ownerReferences"] = json!([{"kind": "Other", "uid": "1"}]);
            assert_eq!(note(&pod, ReadFrom::Templates), None, "nobody's pod");
            pod["metadata"]["ownerReferences"] = json!([{"controller": true, "name": "x".repeat(LONGEST_REFERENCE)}]);
            assert_eq!(note(&pod, ReadFrom::Templates), None, "of no name");
        };
        check("", "", None);
        check("no JSON", "", None);
        check(r#"{"web":{"requests.cpu":"50m: default of LimitRange a"}}"#, "", None);
        check(r#"{"web":{"limits.cpu":"1: raised to the request from 500m, the default of LimitRange a"}}"#, "", None);
        // Longer than ours, which nobody needs to keep.
        check(&format!(r#"{{"web":{{"requests.cpu":"120m: {}"}}}}"#, "H".repeat(20)), "", None);
        // Without room for reasons, defaults and estimates look alike.
        check(r#"{"web":{"requests.cpu":"1"},"…":"90 more values set"}"#, "", None);
        check(
            r#"{"web":{"requests.cpu":"120m: H","limits.cpu":"1: default of rule b"},"sidecar":{"requests.memory":"200Mi: H; raised from 128Mi to the floor"}}"#,
            "",
            Some(
                "estimated for its pods: web cpu request 120m (H), sidecar memory request 200Mi (H; raised from 128Mi to the floor)",
            ),
        );
        check(
            r#"{"web":{"requests.cpu":"120m: H"}}"#,
            r#"{"web":{"requests.memory":"1Gi: H; kept, because the change is small"}}"#,
            Some(
                "estimated for its pods: web cpu request 120m (H); estimated, but not set: web memory request 1Gi (H; kept, because the change is small)",
            ),
        );
    }

    #[test]
    fn a_pod_is_compared_with_the_template_that_it_is_made_of() {
        let check = |template: Value, pod: Value, expected: Option<&str>| {
            let spec = |resources: Value, sidecar: Value| json!({"initContainers": [{"name": "setup", "resources": sidecar}], "containers": [{"name": "web", "resources": resources}]});
            let own = json!({"limits": {"cpu": "1"}});
            let mut pod = json!({"metadata": {"labels": {"controller-revision-hash": "a"}}, "spec": spec(pod, json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}))});
            let mut controller =
                json!({"spec": {"template": {"spec": spec(template, own)}}, "status": {"updateRevision": "a"}});
            assert_eq!(set_beside_template(&pod, &controller).as_deref(), expected, "{pod}");
            controller["status"]["updateRevision"] = json!("b");
            assert_eq!(set_beside_template(&pod, &controller), None, "of another revision");
            controller["spec"] = json!({"selector": {}});
            controller["status"] = json!({});
            assert_eq!(set_beside_template(&pod, &controller), None, "without a template");
            pod["spec"] = Value::Null;
            assert_eq!(set_beside_template(&pod, &controller), None, "nothing to read");
        };
        let written = json!({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}});
        let copied = json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}});
        check(written.clone(), copied, None);
        check(json!({}), written.clone(), Some("web cpu request 100m, web memory limit 1Gi"));
        let raised = json!({"requests": {"cpu": "335m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}});
        check(
            written,
            raised,
            Some(
                "web cpu request 335m in place of 100m, web memory request 200Mi, web cpu limit 1, web memory limit 2Gi in place of 1Gi",
            ),
        );
    }

    #[test]
    fn of_a_forbidden_kind_the_log_says_so_once() {
        let mut forbidden = BTreeSet::new();
        let refused = ApiError::Forbidden { message: String::new() };
        let mut check = |kind: &str, failure: &ApiError, expected: bool| {
            assert_eq!(is_news(&mut forbidden, kind, failure), expected, "{kind}: {failure:?}");
        };
        check("rollouts.argoproj.io", &ApiError::TimedOut(PAUSE), false);
        check("rollouts.argoproj.io", &refused, true);
        check("rollouts.argoproj.io", &refused, false);
        (1..MOST_FORBIDDEN).for_each(|number| check(&format!("forged{number}"), &refused, true));
        check("one more", &refused, false);
    }

    #[tokio::test]
    async fn each_is_told_once_and_no_namespace_delays_another() {
        let queue = Queue::default();
        let add = |namespace: &str, subject: &str| {
            let (subject, message, pod) = (subject.to_owned(), String::new(), String::new());
            let note = Note { controller: Value::Null, subject, message, pod };
            queue.add(namespace.to_owned(), note);
        };
        (0..1_000).for_each(|number| add("noisy", &number.to_string()));
        ["a", "a", "b"].iter().for_each(|subject| add("shop", subject));
        let mut told = Vec::new();
        let mut last = String::new();
        while told.len() < WAITING + 2 {
            let (namespace, note) = queue.next(&last).await;
            told.push(format!("{namespace} {}", note.subject));
            last = namespace;
        }
        assert_eq!(told[..5], ["noisy 0", "shop a", "noisy 1", "shop b", "noisy 2"]);
        add("shop", "a");
        assert!(tokio::time::timeout(Duration::from_millis(50), queue.next(&last)).await.is_err());
    }
}
