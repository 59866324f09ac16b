//! Finds what is wrong with a workload now, and who else decides about it: what an engineer would collect from conditions, Events,
//! pods, quotas and nodes, in order of weight and each with the command that goes on from there.

mod deciders;
mod pods;
mod refusals;

use headroom_admission::timestamp::Timestamp;
use headroom_admission::truncate::on_one_line;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{ApiKind, items, metadata, number, text};
use headroom_objects::shell::ShellCommand;
use serde::Serialize;
use serde_json::Value;

use crate::evaluate::Run;
use headroom_workloads::kinds::{DAEMON_SET, DEPLOYMENT, JOB, STATEFUL_SET, counts};
use headroom_workloads::running;

/// An answer: nothing is wrong if there are no findings but notes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkloadDiagnosis {
    pub object: String,
    pub namespace: String,
    /// `2 of 5 replicas are ready`; empty for kinds that count none.
    pub state: String,
    /// The worst first.
    pub findings: Vec<WorkloadProblem>,
    pub deciders: Vec<Decider>,
    /// Reads that failed, so that more may be wrong.
    pub unread: Vec<String>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkloadProblem {
    pub severity: Severity,
    /// `container app of 2 pods: crashes again and again, exit code 1, 17 restarts`
    pub problem: String,
    /// The cluster's own words, and what would resolve it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The command that resolves it, or shows what else to know.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "String"))]
    pub command: ShellCommand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Pods are missing, or do not run.
    Critical,
    /// They run, but not as they should.
    Warning,
    /// Nothing is wrong, but this may be what somebody wonders about.
    Note,
}

/// Somebody besides its author who changes the workload, or its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Decider {
    /// `HorizontalPodAutoscaler web`
    pub who: String,
    /// `sets the number of pods, between 2 and 5`
    pub decides: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "Option<String>"))]
    pub command: Option<ShellCommand>,
}

/// The ends of commands, by which they ask the same cluster: ` --context prod`.
#[derive(Debug, Clone, Default)]
pub struct Suffixes {
    pub kubectl: ShellCommand,
    /// The end of those of `kubectl headroom`, which may read files too.
    pub headroom: ShellCommand,
}

/// Characters of a text of the cluster.
const LONGEST: usize = 400;

pub fn of(run: &mut Run, workload: &Value, suffixes: &Suffixes, now: Option<Timestamp>) -> WorkloadDiagnosis {
    let (kind, has_status) = (ApiKind::of(workload), workload.get("status").is_some());
    let workload = &running::with_status(workload.clone(), &mut run.cluster);
    let why = WorkloadDiagnosis {
        object: kind.object_name(metadata(workload, "name")),
        namespace: metadata(workload, "namespace").to_owned(),
        state: if has_status { state(workload, &kind) } else { String::new() },
        ..WorkloadDiagnosis::default()
    };
    let mut search = Search { run, workload, kind: kind.kind.clone(), suffixes, now, why };
    search.add_refusals();
    search.add_own_state();
    search.add_pods();
    search.add_deciders();
    let is_short = kind.kind != JOB.kind && replicas(workload, &kind).is_some_and(|[ready, wanted]| ready < wanted);
    if search.why.findings.is_empty() && has_status && is_short {
        let command = search.kubectl(&["get", "pods"]);
        let problem = "not all replicas are ready, and nothing tells why: they may still be starting";
        search.add(Severity::Warning, problem, Vec::new(), "", command);
    }
    search.add_refusals_to_come();
    search.why.findings.sort_by_key(|finding| finding.severity);
    search.why
}

struct Search<'s> {
    run: &'s mut Run,
    workload: &'s Value,
    kind: String,
    suffixes: &'s Suffixes,
    now: Option<Timestamp>,
    why: WorkloadDiagnosis,
}

impl Search<'_> {
    /// Adds what the workload's own fields and conditions tell.
    fn add_own_state(&mut self) {
        let (workload, this) = (self.workload, self.this());
        let describe = self.kubectl(&["describe", &this]);
        if number(workload, "/spec/replicas") == Some(0) {
            let command = self.kubectl(&["scale", &this, "--replicas", "1"]);
            self.note("scaled to 0, so that it has no pods", command);
        }
        if workload.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
            let command =
                self.kubectl(&["patch", &this, "--type", "merge", "--patch", r#"{"spec":{"suspend":false}}"#]);
            self.note("suspended, so that it makes no pods", command);
        }
        if workload.pointer("/spec/paused") == Some(&Value::Bool(true)) && self.kind == DEPLOYMENT.kind {
            let command = self.kubectl(&["rollout", "resume", &this]);
            self.add(Severity::Warning, "paused: changes of its template are not rolled out", Vec::new(), "", command);
        }
        if self.kind == DAEMON_SET.kind && number(workload, "/status/desiredNumberScheduled") == Some(0) {
            self.note("no node matches its node selector, affinity and tolerations", describe.clone());
        }
        let is_on_delete = text(workload, "/spec/updateStrategy/type") == "OnDelete";
        if self.kind == STATEFUL_SET.kind
            && is_on_delete
            && text(workload, "/status/updateRevision") != text(workload, "/status/currentRevision")
        {
            let names = format!("controller-revision-hash={}", text(workload, "/status/currentRevision"));
            let command = self.kubectl(&["get", "pods", "-l", &names]);
            self.note("pods keep the earlier template until they are deleted (updateStrategy OnDelete)", command);
        } else if is_on_delete {
            let command = self.kubectl(&["get", &this, "-o", "jsonpath={.spec.selector.matchLabels}"]);
            self.note(
                "a changed template reaches its pods only once they are deleted (updateStrategy OnDelete)",
                command,
            );
        }
        if text(workload, "/spec/strategy/type") == "Recreate" {
            self.note("a changed template stops all pods before new ones start (strategy Recreate)", describe.clone());
        }
        for condition in items(workload, "/status/conditions") {
            let [kind, status, reason] = ["/type", "/status", "/reason"].map(|field| text(condition, field));
            let (details, since) = (self.said(condition, "/message"), text(condition, "/lastTransitionTime"));
            match (kind, status) {
                ("Progressing", "False") if reason == "ProgressDeadlineExceeded" => {
                    let revision = text(workload, "/metadata/annotations/deployment.kubernetes.io~1revision");
                    let has_earlier = revision.parse().is_ok_and(|revision: u64| revision > 1);
                    let command =
                        if has_earlier { self.kubectl(&["rollout", "undo", &this]) } else { describe.clone() };
                    self.add(Severity::Warning, "the rollout makes no progress", details, since, command);
                }
                ("Failed", "True") if self.kind == "Job" => {
                    let (problem, command) = (format!("failed: {reason}"), self.kubectl(&["logs", &this]));
                    self.add(Severity::Critical, &problem, details, since, command);
                }
                _ => {}
            }
        }
        if matches!(text(workload, "/status/phase"), "Degraded" | "Paused") && self.kind == "Rollout" {
            let problem = format!("the Rollout is {}", text(workload, "/status/phase").to_lowercase());
            self.add(Severity::Warning, &problem, self.said(workload, "/status/message"), "", describe);
        }
    }

    fn add(&mut self, severity: Severity, problem: &str, details: Vec<String>, since: &str, command: ShellCommand) {
        let since = (!since.is_empty()).then(|| since.to_owned());
        self.why.findings.push(WorkloadProblem { severity, problem: problem.to_owned(), details, since, command });
    }

    fn note(&mut self, problem: &str, command: ShellCommand) {
        self.add(Severity::Note, problem, Vec::new(), "", command);
    }

    /// A text of the cluster, if there is one.
    fn said(&self, object: &Value, at: &str) -> Vec<String> {
        let said = Some(text(object, at)).filter(|text| !text.is_empty());
        said.map(|text| on_one_line(text, LONGEST)).into_iter().collect()
    }

    /// `deployment/web`, as kubectl takes it.
    fn this(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), metadata(self.workload, "name"))
    }

    fn kubectl(&self, words: &[&str]) -> ShellCommand {
        self.kubectl_everywhere(&[words, &["-n", &self.why.namespace]].concat())
    }

    /// A command about something in no namespace.
    fn kubectl_everywhere(&self, words: &[&str]) -> ShellCommand {
        ShellCommand::of("kubectl").words(words).ending(&self.suffixes.kubectl)
    }

    fn headroom(&self, words: &[&str]) -> ShellCommand {
        let command = ShellCommand::of("kubectl headroom").words(words);
        command.words(["-n", &self.why.namespace]).ending(&self.suffixes.headroom)
    }

    /// The objects of a kind in the workload's namespace. A kind that the cluster does not know has none.
    fn list(&mut self, api_version: &str, kind: &str) -> Vec<Value> {
        let listed = self.run.cluster.list((api_version, kind, Some(&self.why.namespace)));
        self.or_unread(listed)
    }

    /// The result of a reading; a failure is listed as unread, and nothing was found.
    fn or_unread<T: Default>(&mut self, read: Result<T, ReadError>) -> T {
        read.unwrap_or_else(|error| {
            let problem = error.to_string();
            if !error.is_unknown_kind() && !self.why.unread.contains(&problem) {
                self.why.unread.push(problem);
            }
            T::default()
        })
    }
}

/// The number of replicas that are ready, and of those that are wanted; none for kinds that count none.
fn replicas(workload: &Value, kind: &ApiKind) -> Option<[u64; 2]> {
    let ready = number(workload, "/status/readyReplicas").or(number(workload, "/status/numberReady")).unwrap_or(0);
    let wanted = match counts(kind) {
        Some([wanted, _]) => number(workload, wanted).or(Some(1)),
        None => number(workload, "/spec/replicas"),
    };
    wanted.map(|wanted| [ready, wanted])
}

/// `2 of 5 replicas are ready`
fn state(workload: &Value, kind: &ApiKind) -> String {
    match kind.kind.as_str() {
        "Pod" => text(workload, "/status/phase").to_lowercase(),
        "Job" => {
            let [active, succeeded] =
                ["active", "succeeded"].map(|of| number(workload, &format!("/status/{of}")).unwrap_or(0));
            format!("{active} pods active, {succeeded} succeeded")
        }
        _ => {
            let text = |[ready, wanted]: [u64; 2]| format!("{ready} of {wanted} replicas are ready");
            replicas(workload, kind).map(text).unwrap_or_default()
        }
    }
}
