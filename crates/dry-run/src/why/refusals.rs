//! The pods of a workload that the API server refuses to create.

use headroom_admission::truncate::on_one_line;
use headroom_objects::kinds::ApiKind;
use headroom_objects::shell::ShellCommand;
use serde_json::Value;

use super::{LONGEST, Search, Severity};
use crate::evaluate::{Blocked, FITS_NOW, Topic};
use headroom_workloads::WorkloadRef;
use headroom_workloads::kinds::{JOB, REPLICA_SET, counts};
use headroom_workloads::refusal::PodRefusal;

impl Search<'_> {
    pub(super) fn add_refusals(&mut self) {
        for subject in self.makers() {
            let Some(Blocked { state, refusal, needed }) = self.run.blocked(&subject) else { continue };
            let (message, since) = refusal
                .map(|PodRefusal { message, first, .. }| (on_one_line(&message, LONGEST), first))
                .unwrap_or_default();
            let since = since.map(|since| since.to_string()).unwrap_or_default();
            let (cause, command) = self.cause(&message, needed.first().and_then(|warning| warning.blocks_pods));
            let mut needed: Vec<String> = needed.into_iter().map(|warning| warning.text).collect();
            if needed.is_empty() && message.contains("exceeded quota: ") {
                needed.push(format!("the missing pods {FITS_NOW}"));
            }
            let details = Some(message).filter(|message| !message.is_empty()).into_iter().chain(needed).collect();
            self.add(Severity::Critical, &format!("{state}: {cause}"), details, &since, command);
        }
    }

    /// Adds bounds that are younger than the pods, which would reject them if they were created again.
    pub(super) fn add_refusals_to_come(&mut self) {
        if self.kind == "Pod" || !self.why.findings.iter().all(|finding| finding.severity == Severity::Note) {
            return;
        }
        let Some(pod) = self.run.preview_pod_of(self.workload) else { return };
        let details: Vec<String> =
            pod.reasons.iter().filter(|reason| reason.topic == Topic::Limits).map(ToString::to_string).collect();
        if !details.is_empty() {
            let command = self.headroom(&["describe", "limits"]);
            let problem = "its pods would be rejected if they were created again: a LimitRange does not allow them";
            self.add(Severity::Warning, problem, details, "", command);
        }
    }

    /// The objects whose controllers create the pods: the workload itself, or the Jobs and ReplicaSets that it owns.
    fn makers(&mut self) -> Vec<Value> {
        if counts(&ApiKind::of(self.workload)).is_some() {
            return vec![self.workload.clone()];
        }
        let this = WorkloadRef::of(self.workload);
        let (jobs, sets) = (self.list(JOB.api_version, JOB.kind), self.list(REPLICA_SET.api_version, REPLICA_SET.kind));
        let is_unfinished = |job: &Value| job.pointer("/status/completionTime").is_none();
        let owned = jobs.into_iter().filter(is_unfinished).chain(sets);
        owned.filter(|object| WorkloadRef::owner_of(object).as_ref() == Some(&this)).collect()
    }

    /// The cause of a refusal, by Kubernetes' own words or else by what does not hold, and the command that goes on from there.
    fn cause(&self, message: &str, topic: Option<Topic>) -> (String, ShellCommand) {
        let this = self.this();
        let webhook =
            || message.split('"').skip_while(|part| !part.ends_with("webhook ")).nth(1).unwrap_or("a webhook");
        let webhooks = ["get", "validatingwebhookconfigurations,mutatingwebhookconfigurations"];
        let has = |part: &str| message.contains(part);
        let (cause, command) = match topic {
            _ if has("failed quota: ") || has("must specify ") => {
                ("a quota wants requests or limits that they lack", self.headroom(&["recommend", &this]))
            }
            _ if has("exceeded quota: ") => ("a quota has no room for more", self.headroom(&["describe", "quota"])),
            _ if has("violates PodSecurity ") => (
                "the pod security level of the namespace does not allow them",
                self.kubectl_everywhere(&["get", "namespace", &self.why.namespace, "--show-labels"]),
            ),
            _ if has("failed calling webhook ") => {
                return (format!("webhook {} does not answer", webhook()), self.kubectl_everywhere(&webhooks));
            }
            _ if has(" denied the request") => {
                let command = if webhook().contains("kubewarden") {
                    self.kubectl_everywhere(&["get", "clusteradmissionpolicies,admissionpolicies", "-A"])
                } else {
                    self.kubectl_everywhere(&webhooks)
                };
                return (format!("webhook {} refuses them", webhook()), command);
            }
            _ if has("service account ") || has("serviceaccount ") => {
                ("their service account does not exist", self.kubectl(&["get", "serviceaccounts"]))
            }
            _ if has(" usage per ") || has(" limit to request ratio ") => {
                ("a LimitRange does not allow them", self.headroom(&["describe", "limits"]))
            }
            Some(Topic::Quota) => ("a quota has no room for more", self.headroom(&["describe", "quota"])),
            Some(Topic::Limits) => ("a LimitRange does not allow them", self.headroom(&["describe", "limits"])),
            _ => ("the API server refuses more", self.kubectl(&["describe", &this])),
        };
        (cause.to_owned(), command)
    }
}
