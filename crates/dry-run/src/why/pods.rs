//! The pods of a workload that exist, and what each of them suffers from.

use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use headroom_admission::timestamp::Timestamp;
use headroom_admission::truncate::{count_of, on_one_line};
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::cluster_reader::{ClusterReader, Events};
use headroom_objects::kinds::metadata;
use headroom_objects::shell::ShellCommand;
use serde_json::{Value, json};

use super::{LONGEST, Search, Severity, items, number, text};
use headroom_workloads::nodes::Nodes;
use headroom_workloads::running;

/// Restarts that are too many to be chance.
const MANY_RESTARTS: u64 = 3;
/// The seconds after which an end of a container is not wrong now.
const RECENT: i64 = 24 * 60 * 60;
/// Within so many seconds, pods start and end.
const SOON: i64 = 120;
/// Events that are read of a reason.
const EVENTS: usize = 1_000;

/// The trouble of a pod, which the same trouble of others is counted with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Trouble {
    severity: Severity,
    /// Empty if it is about the pod as a whole.
    container: String,
    what: String,
}

type PodTrouble = (Trouble, PodGroup);

#[derive(Debug, Default)]
struct PodGroup {
    pods: Vec<String>,
    restarts: u64,
    details: Vec<String>,
    since: String,
    command: ShellCommand,
}

/// The trouble of a pod as a whole.
fn of_pod(severity: Severity, what: &str, details: Vec<String>, since: String, command: ShellCommand) -> PodTrouble {
    let trouble = Trouble { severity, container: String::new(), what: what.to_owned() };
    (trouble, PodGroup { details, since, command, ..PodGroup::default() })
}

impl Search<'_> {
    pub(super) fn add_pods(&mut self) {
        let mut groups: BTreeMap<Trouble, PodGroup> = BTreeMap::new();
        for pod in self.pods() {
            for (trouble, of_pod) in self.troubles(&pod) {
                let group = groups.entry(trouble).or_default();
                group.pods.push(metadata(&pod, "name").to_owned());
                group.restarts += of_pod.restarts;
                if group.command.is_empty() {
                    (group.details, group.since, group.command) = (of_pod.details, of_pod.since, of_pod.command);
                }
            }
        }
        let mut groups: Vec<(Trouble, PodGroup)> = groups.into_iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.pods.len()));
        for (Trouble { severity, container, what }, PodGroup { pods, restarts, details, since, command }) in groups {
            let of = match pods.as_slice() {
                [pod] => format!("pod {pod}"),
                pods => count_of(pods.len() as u64, "pod"),
            };
            let of = if container.is_empty() { of } else { format!("container {container} of {of}") };
            let restarts = if restarts == 0 { String::new() } else { format!(", {}", count_of(restarts, "restart")) };
            self.add(severity, &format!("{of}: {what}{restarts}"), details, &since, command);
        }
    }

    fn pods(&mut self) -> Vec<Value> {
        if self.kind == "Pod" {
            return vec![self.workload.clone()];
        }
        let pods = running::all_pods(self.workload, &mut self.run.cluster);
        self.or_unread(pods)
    }

    fn troubles(&mut self, pod: &Value) -> Vec<PodTrouble> {
        let name = metadata(pod, "name");
        let describe = self.kubectl(&["describe", &format!("pod/{name}")]);
        let mut found = Vec::new();
        let mut add =
            |severity, container: &str, what: &str, details: Vec<String>, since: &str, command: &ShellCommand| {
                let trouble = Trouble { severity, container: container.to_owned(), what: what.to_owned() };
                let (since, command) = (since.to_owned(), command.to_owned());
                found.push((trouble, PodGroup { details, since, command, ..PodGroup::default() }));
            };
        let (phase, deleted) = (text(pod, "/status/phase"), metadata(pod, "deletionTimestamp"));
        if phase == "Failed" {
            let reason = Some(text(pod, "/status/reason")).filter(|reason| !reason.is_empty()).unwrap_or("failed");
            let code =
                |status: &Value| status.pointer("/state/terminated/exitCode").and_then(Value::as_i64).unwrap_or(0);
            let ended = items(pod, "/status/containerStatuses").find(|status| code(status) != 0);
            let container = ended.map_or("", |status| text(status, "/name"));
            let (what, command) = match (reason, ended) {
                ("Evicted", _) => ("evicted by its node".to_owned(), describe.clone()),
                (_, Some(of)) if text(of, "/state/terminated/reason") == "OOMKilled" => {
                    ("OOM-killed".to_owned(), self.headroom(&["recommend", &self.this()]))
                }
                (_, Some(of)) => {
                    let command = self.kubectl(&["logs", name, "-c", container]);
                    (format!("ended with exit code {}", code(of)), command)
                }
                (reason, None) => (reason.to_owned(), describe.clone()),
            };
            add(Severity::Warning, container, &what, self.said(pod, "/status/message"), "", &command);
        }
        if !deleted.is_empty() && self.age(deleted) > SOON {
            let finalizers =
                items(pod, "/metadata/finalizers").filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
            let details = (!finalizers.is_empty()).then(|| format!("its finalizers are not done: {finalizers}"));
            let details = details.into_iter().collect();
            add(Severity::Warning, "", "should have terminated", details, deleted, &describe);
        }
        if running::has_ended(pod) {
            return found;
        }
        let (mut is_ready, mut not_ready_since) = (true, String::new());
        for condition in items(pod, "/status/conditions") {
            let [kind, status, reason] = ["/type", "/status", "/reason"].map(|field| text(condition, field));
            let (mut details, since) = (self.said(condition, "/message"), text(condition, "/lastTransitionTime"));
            match (kind, status) {
                ("PodScheduled", "False") if reason == "SchedulingGated" => {
                    let gates = items(pod, "/spec/schedulingGates").map(|gate| text(gate, "/name")).collect::<Vec<_>>();
                    let what = format!("waits for scheduling gates: {}", gates.join(", "));
                    add(Severity::Critical, "", &what, details, since, &describe);
                }
                ("PodScheduled", "False") => {
                    details.extend(self.too_large(pod));
                    let claim = self.unbound_claim(pod);
                    let command =
                        claim.map_or(describe.clone(), |claim| self.kubectl(&["describe", &format!("pvc/{claim}")]));
                    add(Severity::Critical, "", "no node takes it", details, since, &command);
                }
                ("PodResizePending", "True") => {
                    let what = format!("its resize is not done ({})", reason.to_lowercase());
                    add(Severity::Warning, "", &what, details, since, &describe);
                }
                ("PodResizeInProgress", "True") if reason == "Error" => {
                    add(Severity::Warning, "", "its resize failed", details, since, &describe);
                }
                ("Ready", "False") => (is_ready, not_ready_since) = (false, since.to_owned()),
                (gate, "False") if items(pod, "/spec/readinessGates").any(|of| text(of, "/conditionType") == gate) => {
                    add(Severity::Warning, "", &format!("readiness gate {gate} is false"), details, since, &describe);
                }
                _ => {}
            }
        }
        let node = text(pod, "/spec/nodeName");
        if !is_ready
            && !node.is_empty()
            && let Some(since) = self.node_failed_since(node)
        {
            let command = self.kubectl_everywhere(&["describe", &format!("node/{node}")]);
            add(Severity::Critical, "", &format!("its node {node} is not ready"), Vec::new(), &since, &command);
            return found;
        }
        for (list, spec) in STATUSES {
            for status in items(pod, list) {
                let container = items(pod, spec).find(|container| container.get("name") == status.get("name"));
                found.extend(self.trouble_of_container(pod, status, container.unwrap_or(&Value::Null)));
            }
        }
        let is_waiting =
            |status: &Value| matches!(text(status, "/state/waiting/reason"), "ContainerCreating" | "PodInitializing");
        if found.is_empty() && !is_ready && items(pod, "/status/containerStatuses").any(is_waiting) {
            found.extend(self.not_started(pod));
        }
        if found.is_empty() && phase == "Pending" && node.is_empty() {
            let problem = "no scheduler has placed it";
            found.push(of_pod(Severity::Critical, problem, Vec::new(), String::new(), describe.clone()));
        }
        if found.is_empty() && !is_ready && self.age(&not_ready_since) > SOON {
            found.push(of_pod(Severity::Warning, "is not ready", Vec::new(), not_ready_since, describe));
        }
        found
    }

    /// The trouble that a container suffers from most.
    fn trouble_of_container(&mut self, pod: &Value, status: &Value, container: &Value) -> Option<PodTrouble> {
        let (pod_name, name) = (metadata(pod, "name"), text(status, "/name"));
        let describe = self.kubectl(&["describe", &format!("pod/{pod_name}")]);
        let restarts = number(status, "/restartCount").unwrap_or(0);
        let (waiting, ended) = (text(status, "/state/waiting/reason"), ["/lastState", "/state"]);
        let ended = ended.iter().filter_map(|at| status.pointer(&format!("{at}/terminated"))).next_back();
        let ended_with = |field: &str| ended.map_or("", |ended| text(ended, field));
        let code = ended.and_then(|ended| ended.pointer("/exitCode")?.as_i64()).unwrap_or(0);
        let is_recent = ended_with("/finishedAt").is_empty() || self.age(ended_with("/finishedAt")) < RECENT;
        let crashes = waiting == "CrashLoopBackOff";
        let weight = match is_recent {
            _ if crashes => Severity::Critical,
            true => Severity::Warning,
            false => Severity::Note,
        };
        let is_running = status.pointer("/state/running").is_some();
        let is_init = items(pod, "/spec/initContainers").any(|container| text(container, "/name") == name);
        let mut details = self.said(status, "/state/waiting/message");
        let (severity, what, restarts, command) = match waiting {
            _ if ended_with("/reason") == "OOMKilled" => {
                let limit = text(container, "/resources/limits/memory");
                let at = if limit.is_empty() { String::new() } else { format!(" at its memory limit of {limit}") };
                let again = if crashes { " again and again" } else { "" };
                (weight, format!("OOM-killed{again}{at}"), restarts, self.headroom(&["recommend", &self.this()]))
            }
            "CrashLoopBackOff" => {
                details = ended.map(|ended| self.said(ended, "/message")).unwrap_or_default();
                let command = self.kubectl(&["logs", pod_name, "-c", name, "--previous"]);
                (weight, format!("ends again and again (CrashLoopBackOff), exit code {code}"), restarts, command)
            }
            "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" | "ImageInspectError" => {
                let image = text(container, "/image");
                (Severity::Critical, format!("its image {image} cannot be pulled ({waiting})"), 0, describe)
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" | "StartError" => {
                (Severity::Critical, format!("cannot start ({waiting})"), 0, describe)
            }
            _ if restarts >= MANY_RESTARTS && code != 0 => {
                let command = self.kubectl(&["logs", pod_name, "-c", name, "--previous"]);
                (weight, format!("ended with exit code {code}"), restarts, command)
            }
            _ if is_init && is_running => {
                let is_sidecar = text(container, "/restartPolicy") == "Always";
                if is_sidecar || status.pointer("/ready") == Some(&json!(true)) {
                    return None;
                }
                let command = self.kubectl(&["logs", pod_name, "-c", name]);
                (Severity::Warning, "the pod waits for this init container to end".to_owned(), 0, command)
            }
            _ if status.pointer("/ready") == Some(&json!(false))
                && is_running
                && ["readinessProbe", "startupProbe"].iter().any(|probe| container.get(probe).is_some()) =>
            {
                details = self.event("Unhealthy", pod_name).into_iter().collect();
                (Severity::Warning, "is not ready: its probe fails".to_owned(), 0, describe)
            }
            _ => return None,
        };
        let trouble = Trouble { severity, container: name.to_owned(), what };
        let since = if ended.is_some() { "" } else { text(status, "/state/running/startedAt") }.to_owned();
        if !ended_with("/finishedAt").is_empty() {
            details.push(format!("last at {}", ended_with("/finishedAt")));
        }
        Some((trouble, PodGroup { restarts, details, since, command, ..PodGroup::default() }))
    }

    /// A pod that a node has taken, and whose containers do not exist yet.
    fn not_started(&mut self, pod: &Value) -> Option<PodTrouble> {
        const REASONS: [(&str, &str); 3] = [
            ("FailedMount", "its volumes cannot be mounted"),
            ("FailedAttachVolume", "its volumes cannot be attached"),
            ("FailedCreatePodSandBox", "its node cannot create it"),
        ];
        let name = metadata(pod, "name");
        let reported = REASONS.iter().find_map(|(reason, what)| Some((*what, self.event(reason, name)?)));
        let since = text(pod, "/status/startTime").to_owned();
        let (what, details) = match reported {
            Some((what, message)) => (what, vec![message]),
            None if self.age(&since) > SOON => ("its containers are still being created", Vec::new()),
            None => return None,
        };
        let command = self.kubectl(&["describe", &format!("pod/{name}")]);
        Some(of_pod(Severity::Critical, what, details, since, command))
    }

    fn event(&mut self, reason: &str, pod: &str) -> Option<String> {
        let mut last: Option<(String, String)> = None;
        let mut add = |event: Value| {
            let at = text(&event, "/lastTimestamp").to_owned();
            if text(&event, "/involvedObject/name") == pod && last.as_ref().is_none_or(|(latest, _)| at >= *latest) {
                last = Some((at, on_one_line(text(&event, "/message"), LONGEST)));
            }
        };
        let events = Events { namespace: Some(&self.why.namespace), reason, most: EVENTS };
        let read = self.run.cluster.visit_events(events, &mut add);
        self.or_unread(read);
        last.map(|(_, message)| message)
    }

    /// Says that no node that takes a pod is large enough for it, whatever runs on it.
    fn too_large(&mut self, pod: &Value) -> Option<String> {
        let listed = self.run.cluster.list(("v1", "Node", None));
        let mut nodes = Nodes::default();
        self.or_unread(listed).iter().for_each(|node| nodes.add(node));
        ["cpu", "memory"].into_iter().find_map(|resource| {
            let largest = nodes.room(resource, &pod["spec"], false).max()?;
            let amount = |container: &Value| amount_of(container.pointer(&format!("/resources/requests/{resource}"))?);
            let requested = items(pod, "/spec/containers").filter_map(amount);
            let requested = requested.fold(Quantity::ZERO, |sum, request| sum.plus(&request));
            (requested > largest)
                .then(|| format!("it requests {requested} of {resource}, and no node has more than {largest}"))
        })
    }

    /// A claim of a pod that has no volume yet.
    fn unbound_claim(&mut self, pod: &Value) -> Option<String> {
        let names = items(pod, "/spec/volumes").map(|volume| text(volume, "/persistentVolumeClaim/claimName"));
        let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        let claims = if names.is_empty() { Vec::new() } else { self.list("v1", "PersistentVolumeClaim") };
        let pending = claims.iter().filter(|claim| text(claim, "/status/phase") == "Pending");
        pending.map(|claim| metadata(claim, "name")).find(|name| names.contains(name)).map(str::to_owned)
    }

    /// The time since which a node is not ready; none if it is, or is not known.
    fn node_failed_since(&mut self, name: &str) -> Option<String> {
        let read = self.run.cluster.get(("v1", "Node", None), name);
        let node = self.or_unread(read)?;
        let ready = items(&node, "/status/conditions").find(|condition| text(condition, "/type") == "Ready")?;
        (text(ready, "/status") != "True").then(|| text(ready, "/lastTransitionTime").to_owned())
    }

    /// The seconds since a time; 0 if either is not known.
    fn age(&self, time: &str) -> i64 {
        let time = time.parse::<Timestamp>().ok();
        time.zip(self.now).map_or(0, |(time, now)| now.unix_seconds().saturating_sub(time.unix_seconds()))
    }
}

const STATUSES: [(&str, &str); 2] =
    [("/status/initContainerStatuses", "/spec/initContainers"), ("/status/containerStatuses", "/spec/containers")];
