//! Whose pods are whose: the chain of controllers from a pod up to what stands for it.
//!
//! ReplicaSets, ReplicationControllers and Jobs come and go with each revision and run, so usage is kept under what makes them: a Deployment, a
//! CronJob, or a kind of somebody else's, such as an Argo Rollout. Everything else that makes pods stands for itself,
//! even where an operator owns it, since its pods share one template.

use std::collections::HashMap;

use crate::recommend::owner::Owner;

/// What pods are counted under.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }

    /// `deployment/web`
    pub fn told(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }
}

/// Longer chains do not exist but by mistake.
const LONGEST_CHAIN: usize = 8;

/// Who made what, of live objects and of those that the store remembers.
#[derive(Debug, Default)]
pub struct Owners {
    made_by: HashMap<Key, (String, String)>,
}

impl Owners {
    /// Notes who made an object. Who was noted first is right: the cluster knows better than the store.
    pub fn add(&mut self, object: Key, kind: &str, name: &str) {
        self.made_by.entry(object).or_insert_with(|| (kind.to_owned(), name.to_owned()));
    }

    pub fn add_owner(&mut self, object: Key, owner: &Owner) {
        self.add(object, &owner.kind, &owner.name);
    }

    /// What a pod is counted under; none if nobody tells who made it.
    pub fn of_pod(&self, namespace: &str, pod: &str) -> Option<Key> {
        let owner = self.maker(&Key::new(namespace, "Pod", pod))?;
        Some(self.of(owner))
    }

    /// What an object's pods are counted under.
    pub fn of(&self, object: Key) -> Key {
        let mut at = object;
        for _ in 0..LONGEST_CHAIN {
            match self.maker(&at) {
                Some(maker) if comes_and_goes(&at.kind) => at = maker,
                _ => break,
            }
        }
        at
    }

    fn maker(&self, object: &Key) -> Option<Key> {
        let (kind, name) = self.made_by.get(object)?;
        // A static pod is the node's, which stands for nothing.
        (kind != "Node").then(|| Key::new(&object.namespace, kind, name))
    }
}

pub fn comes_and_goes(kind: &str) -> bool {
    matches!(kind, "ReplicaSet" | "ReplicationController" | "Job")
}

/// Which workload a pod belongs to, by its number.
#[derive(Debug, Default)]
pub struct Places {
    pub owners: Owners,
    pub numbers: HashMap<Key, usize>,
}

impl Places {
    /// None if the workload is gone.
    pub fn of_pod(&self, namespace: &str, pod: &str) -> Option<usize> {
        if let Some(key) = self.owners.of_pod(namespace, pod) {
            return self.numbers.get(&key).copied();
        }
        let itself = Key::new(namespace, "Pod", pod);
        let made = stems(pod).into_iter().map(|(kind, name)| Key::new(namespace, kind, name));
        [itself].into_iter().chain(made).find_map(|key| self.numbers.get(&key).copied())
    }
}

/// Names that the makers of a pod may have, by the ends that controllers give to pods' names: where nobody tells who
/// made a pod that is gone.
fn stems(pod: &str) -> Vec<(&'static str, &str)> {
    let Some((most, last)) = pod.rsplit_once('-') else { return Vec::new() };
    let mut stems = Vec::new();
    if !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()) {
        stems.push(("StatefulSet", most));
    }
    if is_generated(last, 5..=5) {
        if let Some((name, hash)) = most.rsplit_once('-')
            && is_generated(hash, 6..=10)
        {
            stems.push(("Deployment", name));
            stems.push(("Rollout", name));
        }
        if let Some((name, run)) = most.rsplit_once('-')
            && run.len() >= 8
            && run.bytes().all(|byte| byte.is_ascii_digit())
        {
            stems.push(("CronJob", name));
        }
        stems.push(("DaemonSet", most));
        stems.push(("ReplicationController", most));
    }
    stems
}

/// Kubernetes makes names of consonants and digits that spell nothing.
fn is_generated(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    length.contains(&text.len()) && text.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_counted_under_what_outlives_them() {
        let mut owners = Owners::default();
        for ((kind, name), (owner, of)) in [
            (("Pod", "web-5d8f-x"), ("ReplicaSet", "web-5d8f")),
            (("ReplicaSet", "web-5d8f"), ("Deployment", "web")),
            (("Deployment", "web"), ("Shop", "shop")),
            (("Pod", "canary-1-x"), ("ReplicaSet", "canary-1")),
            (("ReplicaSet", "canary-1"), ("Rollout", "canary")),
            (("Pod", "night-28-x"), ("Job", "night-28")),
            (("Job", "night-28"), ("CronJob", "night")),
            (("Pod", "kafka-0"), ("StrimziPodSet", "kafka")),
            (("Pod", "etcd-node1"), ("Node", "node1")),
            (("Pod", "loop-x"), ("Job", "loop")),
            (("Job", "loop"), ("Job", "loop")),
        ] {
            owners.add(Key::new("shop", kind, name), owner, of);
        }
        let check = |pod: &str, expected: Option<&str>| {
            assert_eq!(owners.of_pod("shop", pod).map(|key| key.told()).as_deref(), expected, "{pod}");
        };
        check("web-5d8f-x", Some("deployment/web"));
        check("canary-1-x", Some("rollout/canary"));
        check("night-28-x", Some("cronjob/night"));
        check("kafka-0", Some("strimzipodset/kafka"));
        check("etcd-node1", None);
        check("stranger", None);
        check("loop-x", Some("job/loop"));
    }

    #[test]
    fn pods_are_found_by_their_owners_or_by_their_names() {
        let mut places = Places::default();
        places.numbers.insert(Key::new("shop", "Deployment", "web"), 0);
        places.numbers.insert(Key::new("shop", "StatefulSet", "db"), 1);
        places.numbers.insert(Key::new("shop", "Pod", "debug-0"), 2);
        places.owners.add(Key::new("shop", "Pod", "odd"), "StatefulSet", "db");
        places.owners.add(Key::new("shop", "Pod", "db-7"), "StatefulSet", "gone");
        for (namespace, pod, expected) in [
            ("shop", "odd", Some(1)),
            ("shop", "db-0", Some(1)),
            ("shop", "db-7", None),
            ("shop", "debug-0", Some(2)),
            ("shop", "web-6d4cf56db6-x7x2k", Some(0)),
            ("pay", "web-6d4cf56db6-x7x2k", None),
            ("shop", "unknown", None),
        ] {
            assert_eq!(places.of_pod(namespace, pod), expected, "{namespace}/{pod}");
        }
    }

    #[test]
    fn names_of_pods_hint_at_their_makers() {
        let check = |pod: &str, expected: &[(&str, &str)]| assert_eq!(stems(pod), expected, "{pod}");
        check("db-0", &[("StatefulSet", "db")]);
        check(
            "web-6d4cf56db6-x7x2k",
            &[
                ("Deployment", "web"),
                ("Rollout", "web"),
                ("DaemonSet", "web-6d4cf56db6"),
                ("ReplicationController", "web-6d4cf56db6"),
            ],
        );
        check("agent-bcdfg", &[("DaemonSet", "agent"), ("ReplicationController", "agent")]);
        check(
            "night-29312345-bcdfg",
            &[("CronJob", "night"), ("DaemonSet", "night-29312345"), ("ReplicationController", "night-29312345")],
        );
        check("plain", &[]);
        check("not-generated", &[]);
    }
}
