//! The room that nodes have for pods.

use std::borrow::Cow;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::label_selector::{Labels, Operator, Requirement};
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::kinds::{items, labels_of, metadata, text};
use serde_json::{Value, json};

/// Nodes with what they can give, and what decides which pods they take.
#[derive(Debug, Default)]
pub struct Nodes(Vec<Node>);

#[derive(Debug)]
struct Node {
    /// Its name is among them, as `metadata.name`.
    labels: Labels,
    taints: Vec<Value>,
    allocatable: Value,
}

impl Nodes {
    pub fn add(&mut self, node: &Value) {
        let (mut labels, at) = (labels_of(node), |at| node.pointer(at).cloned().unwrap_or_default());
        labels.insert("metadata.name".to_owned(), metadata(node, "name").to_owned());
        let cordoned = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
        let cordoned = Some(cordoned).filter(|_| at("/spec/unschedulable") == true);
        let taints = items(node, "/spec/taints").cloned().chain(cordoned).collect();
        self.0.push(Node { labels, taints, allocatable: at("/status/allocatable") });
    }

    /// The amounts of a resource of the nodes that take pods with this spec, or a DaemonSet's. What is not understood excludes none.
    pub fn room(&self, resource: &str, spec: &Value, is_of_daemon_set: bool) -> impl Iterator<Item = Quantity> {
        let nodes = self.0.iter().filter(move |node| node.takes(spec, is_of_daemon_set));
        nodes.filter_map(move |node| node.allocatable.get(resource).and_then(amount_of))
    }
}

impl Node {
    fn takes(&self, spec: &Value, is_of_daemon_set: bool) -> bool {
        let mut selector = spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
        let affinity = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let mut terms = items(spec, affinity).peekable();
        let is_met = |term: &Value| {
            let all = ["/matchExpressions", "/matchFields"].into_iter().flat_map(|at| items(term, at));
            all.into_iter().all(|expression| self.meets(expression))
        };
        let keeps_away = |taint: &&Value| {
            // Every DaemonSet's pods tolerate what the control plane says of a node.
            let is_tolerated_by_kind = is_of_daemon_set && text(taint, "/key").starts_with("node.kubernetes.io/");
            text(taint, "/effect") != "PreferNoSchedule" && !is_tolerated_by_kind
        };
        selector.all(|(name, value)| self.labels.get(name).map(String::as_str) == value.as_str())
            && (terms.peek().is_none() || terms.any(is_met))
            && self
                .taints
                .iter()
                .filter(keeps_away)
                .all(|taint| items(spec, "/tolerations").any(|of| tolerates(of, taint)))
    }

    fn meets(&self, expression: &Value) -> bool {
        let key = text(expression, "/key");
        let operator = Operator::from(text(expression, "/operator"));
        let values = items(expression, "/values").filter_map(Value::as_str).map(Cow::from).collect();
        // `Gt` and `Lt` are not known.
        operator == Operator::Unknown
            || Requirement { key: key.into(), operator, values }.matches(self.labels.get(key).as_slice())
    }
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let is_same = |at: &str| text(toleration, at) == text(taint, at);
    let is_same_or_all = |at: &str| text(toleration, at).is_empty() || is_same(at);
    let has_value = !["", "Equal"].contains(&text(toleration, "/operator")) || is_same("/value");
    is_same_or_all("/key") && is_same_or_all("/effect") && has_value
}
