//! Finds who decides about a workload besides its author: autoscalers, owners, and what applies it again and again.

use headroom_admission::truncate::on_one_line;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{ApiKind, metadata};
use serde_json::Value;

use super::{Decider, LONGEST, Search, Severity, items, text};
use headroom_workloads::applier::{Applier, CHANGE_SOURCE, appliers};
use headroom_workloads::autoscaler::{
    Autoscalers, HORIZONTAL, HorizontalAutoscaler, ScalingProblem, VerticalAutoscaler,
};
use headroom_workloads::owner::workload_ref;
use headroom_workloads::{Owner, WorkloadRef, running};

/// Field managers that people and Kubernetes itself have.
const ORDINARY: [&str; 3] = ["kubectl", "kube-", "k3s"];

impl Search<'_> {
    pub(super) fn add_deciders(&mut self) {
        self.add_owner();
        self.add_autoscalers();
        for object in self.list("argoproj.io/v1alpha1", "Rollout") {
            if workload_ref(&object).is_some_and(|of| of == WorkloadRef::of(self.workload)) {
                let decides = "makes the pods of its template, and scales it".to_owned();
                self.decider("Rollout", "rollout", metadata(&object, "name"), decides);
            }
        }
        self.add_appliers();
    }

    fn decider(&mut self, kind: &str, resource: &str, name: &str, decides: String) {
        let command = Some(self.kubectl(&["describe", &format!("{resource}/{name}")]));
        self.why.deciders.push(Decider { who: format!("{kind} {name}"), decides, command });
    }

    fn add_owner(&mut self) {
        let Some(Owner { api_version, kind, name }) = Owner::of(self.workload) else { return };
        if kind == "Node" {
            let decides = "runs this static pod from a file on the node: change it there".to_owned();
            let command = None;
            return self.why.deciders.push(Decider { who: format!("the kubelet of {name}"), decides, command });
        }
        let group = ApiKind::new(&api_version, &kind).group;
        let resource =
            if group.contains('.') { format!("{}.{group}", kind.to_lowercase()) } else { kind.to_lowercase() };
        self.decider(&kind, &resource, &name, "controls it, and may revert what is changed here".to_owned());
    }

    fn add_autoscalers(&mut self) {
        let (this, owner) = (WorkloadRef::of(self.workload), WorkloadRef::owner_of(self.workload));
        let is_it = |of: &HorizontalAutoscaler| of.target == this || owner.as_ref() == Some(&of.target);
        let scaled_objects = self.list("keda.sh/v1alpha1", "ScaledObject");
        for autoscaler in scaled_objects.iter().filter_map(HorizontalAutoscaler::of).filter(is_it) {
            if let Some(Owner { kind, name, .. }) = &autoscaler.controller {
                let decides = "writes its HorizontalPodAutoscaler: change targets and bounds there".to_owned();
                self.decider(kind, "scaledobject", name, decides);
            }
        }
        let mut autoscalers = Autoscalers::default();
        let read = autoscalers.add_horizontal(&mut self.run.cluster, Some(&this.namespace));
        self.or_unread(read);
        let read = autoscalers.add_vertical(&mut self.run.cluster, Some(&this.namespace));
        self.or_unread(read);
        owner.iter().for_each(|owner| autoscalers.add_of_owner(&this, owner));
        for HorizontalAutoscaler { name, least, most, wanted, problems, .. } in autoscalers.horizontal(&this) {
            let most = most.unwrap_or(0);
            let wanted = wanted.map(|wanted| format!(", now {wanted}")).unwrap_or_default();
            let decides = format!("sets the number of pods, between {least} and {most}{wanted}");
            self.decider(HORIZONTAL, "hpa", name, decides);
            for ScalingProblem { kind, reason, message, since } in problems {
                let problem = match kind.as_str() {
                    "ScalingLimited" => format!("wants more than its maximum of {most} pods"),
                    _ => format!("does not scale it: {reason}"),
                };
                let problem = format!("HorizontalPodAutoscaler {name} {problem}");
                let command = self.kubectl(&["describe", &format!("hpa/{name}")]);
                let details = Some(on_one_line(message, LONGEST)).filter(|message| !message.is_empty());
                self.add(Severity::Warning, &problem, details.into_iter().collect(), since, command);
            }
        }
        for VerticalAutoscaler { name, mode, .. } in autoscalers.vertical(&this) {
            let decides = match mode.as_str() {
                "Off" => "recommends requests, and sets none (mode Off)".to_owned(),
                "Initial" => "sets the requests of new pods (mode Initial)".to_owned(),
                mode => format!("sets the requests of its pods, whatever the template says (mode {mode})"),
            };
            self.decider("VerticalPodAutoscaler", "vpa", name, decides);
        }
    }

    /// Adds the tools that apply the workload, by their marks, and other managers of its requests and replicas.
    fn add_appliers(&mut self) {
        let before = self.why.deciders.len();
        for Applier { who, name, place } in appliers(self.workload) {
            let command =
                place.map(|(resource, namespace)| self.kubectl_everywhere(&["get", resource, &name, "-n", &namespace]));
            let decides = format!("applies it: {CHANGE_SOURCE}");
            self.why.deciders.push(Decider { who: format!("{who} {name}"), decides, command });
        }
        let is_marked = self.why.deciders.len() > before;
        for managed in items(self.workload, "/metadata/managedFields") {
            let manager = on_one_line(text(managed, "/manager"), LONGEST);
            let fields = managed.get("fieldsV1").map(Value::to_string).unwrap_or_default();
            let set = [("f:replicas", "replicas"), ("f:requests", "requests"), ("f:limits", "limits")];
            let set: Vec<&str> =
                set.iter().filter(|(field, _)| fields.contains(field)).map(|(_, name)| *name).collect();
            let is_ordinary = ORDINARY.iter().any(|start| manager.starts_with(start));
            if set.is_empty() || is_marked || is_ordinary || text(managed, "/subresource") == "status" {
                continue;
            }
            let decides = format!("set its {} last ({})", set.join(" and "), text(managed, "/time"));
            self.why.deciders.push(Decider { who: format!("field manager {manager}"), decides, command: None });
        }
        if let Some(resizer) = self.resizer() {
            let decides = "resizes its running pods in place".to_owned();
            self.why.deciders.push(Decider { who: format!("field manager {resizer}"), decides, command: None });
        }
    }

    /// The field manager that resized a pod of the workload. Lists leave out managers, so one pod is read by itself.
    fn resizer(&mut self) -> Option<String> {
        let pods = running::all_pods(self.workload, &mut self.run.cluster).unwrap_or_default();
        let pod = pods.into_iter().find(|pod| !running::has_ended(pod))?;
        let read = self.run.cluster.get(("v1", "Pod", Some(&self.why.namespace)), metadata(&pod, "name"));
        let pod = self.or_unread(read)?;
        let mut resizes = items(&pod, "/metadata/managedFields").filter(|of| text(of, "/subresource") == "resize");
        resizes.next().map(|of| on_one_line(text(of, "/manager"), LONGEST))
    }
}
