//! The charge of an object under every name, and the scopes that it matches.
//!
//! A footprint does not depend on quotas, so claims and counts stay valid when quotas change. Many objects have the same
//! footprint.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use headroom_admission::amount::ResourceList;
use headroom_admission::cluster::label_selector::{Operator, Requirement};
use headroom_admission::json::{Malformed, Node};
use headroom_admission::quota::{ChargedKind, Measure, ObjectUsage, QuotaObject, Stored, scope};
use headroom_admission::timestamp::Timestamp;

use crate::encoding;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Without zero amounts, and none above [`encoding::max_amount`].
    pub amounts: ResourceList<'static>,
    /// The values that scope selectors match, by scope.
    pub scopes: BTreeMap<String, Vec<String>>,
}

/// Scopes without values.
const PLAIN: [&str; 5] = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"];
const PRIORITY: &str = "PriorityClass";
const ATTRIBUTES: &str = "VolumeAttributesClass";

impl Footprint {
    /// The footprint of an object at a time. Without a time, no pod's deletion is overdue.
    pub fn of(object: &QuotaObject<'_, '_>, now: Option<Timestamp>) -> Result<Self, Malformed> {
        let amounts = ObjectUsage::of(object, now)?.list(object.kind).into_iter();
        let amounts = amounts.filter(|(_, amount)| !amount.is_zero());
        let mut footprint = Self {
            amounts: amounts.map(|(name, amount)| (Cow::Owned(name.into_owned()), encoding::capped(amount))).collect(),
            scopes: BTreeMap::new(),
        };
        match (object.kind.measure, object.pod) {
            (Measure::Pod, Some(pod)) => {
                for name in PLAIN {
                    let exists = Requirement { key: name.into(), operator: Operator::Exists, values: Vec::new() };
                    if scope::matches(object, &exists)? {
                        footprint.scopes.insert(name.to_owned(), Vec::new());
                    }
                }
                let class = pod.spec.string("priorityClassName")?.filter(|class| !class.is_empty());
                footprint.scopes.insert(PRIORITY.to_owned(), class.into_iter().map(Cow::into_owned).collect());
            }
            (Measure::Claim, _) => {
                let classes = scope::attributes_classes(&object.source)?;
                footprint.scopes.insert(ATTRIBUTES.to_owned(), classes.into_iter().map(Cow::into_owned).collect());
            }
            _ => {}
        }
        Ok(footprint)
    }

    pub fn of_stored(kind: &str, node: Node<'_>, now: Option<Timestamp>) -> Result<Self, Malformed> {
        let stored = Stored::read(ChargedKind::from_qualified(kind), node)?;
        Self::of(&stored.object(), now)
    }

    /// Returns true if a quota with these scopes charges the object.
    pub fn matches(&self, requirements: &[Requirement<'_>]) -> bool {
        requirements.iter().all(|requirement| {
            let Some(values) = self.scopes.get(requirement.key.as_ref()) else { return false };
            PLAIN.contains(&requirement.key.as_ref()) || requirement.matches(values)
        })
    }

    /// `pods=1 requests.cpu=500m ~NotTerminating ~PriorityClass:high`
    pub fn read(line: &str) -> Result<Self, String> {
        let mut footprint = Self::default();
        for word in line.split_whitespace() {
            let Some(scope) = word.strip_prefix('~') else {
                let (name, amount) = encoding::read_amount(word)?;
                footprint.amounts.set(name.into(), amount);
                continue;
            };
            let (scope, values) = scope.split_once(':').unwrap_or((scope, ""));
            let values = values.split(',').filter(|value| !value.is_empty()).map(encoding::unescape);
            footprint.scopes.insert(encoding::unescape(scope)?, values.collect::<Result<_, _>>()?);
        }
        Ok(footprint)
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encoding::write_amounts(f, &self.amounts)?;
        for (scope, values) in &self.scopes {
            write!(f, " ~{}", encoding::escape(scope))?;
            let values: Vec<Cow<'_, str>> = values.iter().map(|value| encoding::escape(value)).collect();
            if !values.is_empty() {
                write!(f, ":{}", values.join(","))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_admission::json::Document;
    use proptest::prelude::*;

    /// Usual and hostile amounts, some so large that their sums cannot be read.
    fn amount() -> impl Strategy<Value = String> {
        let suffix = prop::sample::select(vec!["", "m", "n", "k", "Gi", "Ei", "e9", "e28"]);
        prop_oneof![
            (0..9_u32, suffix).prop_map(|(number, suffix)| format!("{number}{suffix}")),
            "9{1,29}",
            Just("9".repeat(29)),
            "[1-9][0-9]{0,28}\\.[0-9]{1,40}",
        ]
    }

    proptest! {
        #[test]
        fn the_footprint_of_any_pod_reads_back_unchanged(
            containers in prop::collection::vec(prop::collection::btree_map("[a-z./]{1,8}|cpu|memory|ephemeral-storage", amount(), 0..4), 1..4),
            class in ".*",
        ) {
            let containers = containers.iter().map(|amounts| {
                let amounts: Vec<String> = amounts.iter().map(|(name, amount)| format!("\"{name}\": \"{amount}\"")).collect();
                let amounts = amounts.join(",");
                format!(r#"{{"resources": {{"requests": {{{amounts}}}, "limits": {{{amounts}}}}}}}"#)
            });
            let containers = containers.collect::<Vec<_>>().join(",");
            let class = class.replace(['\\', '"'], "").replace(char::is_control, "");
            let pod = format!(r#"{{"spec": {{"priorityClassName": "{class}", "containers": [{containers}]}}}}"#);
            let footprint = footprint("pods", &pod);
            prop_assert_eq!(Footprint::read(&footprint.to_string()), Ok(footprint));
        }
    }

    fn footprint(kind: &str, object: &str) -> Footprint {
        let document = Document::read(object).unwrap();
        Footprint::of_stored(kind, document.root(), None).unwrap()
    }

    #[track_caller]
    fn check(kind: &str, object: &str, line: &str) {
        let footprint = footprint(kind, object);
        assert_eq!(footprint.to_string(), line);
        assert_eq!(Footprint::read(line).unwrap(), footprint);
    }

    #[test]
    fn a_footprint_has_every_amount_and_scope_that_a_quota_can_use() {
        check(
            "pods",
            r#"{"metadata": {"name": "a"}, "spec": {"priorityClassName": "high", "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "500m"}}}]}}"#,
            "count/pods=1 cpu=500m pods=1 requests.cpu=500m ~NotBestEffort ~NotTerminating ~PriorityClass:high",
        );
        check(
            "pods",
            r#"{"spec": {"activeDeadlineSeconds": 5, "containers": [{"name": "a"}]}, "status": {"phase": "Failed"}}"#,
            "count/pods=1 ~BestEffort ~PriorityClass ~Terminating",
        );
        check(
            "persistentvolumeclaims",
            r#"{"spec": {"storageClassName": "gold", "volumeAttributesClassName": "fast",
                "resources": {"requests": {"storage": "1Gi"}}}}"#,
            "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
             gold.storageclass.storage.k8s.io/requests.storage=1Gi persistentvolumeclaims=1 requests.storage=1Gi \
             ~VolumeAttributesClass:fast",
        );
        check("deployments.apps", "{}", "count/deployments.apps=1");
    }

    #[test]
    fn scopes_match_as_in_the_core() {
        let requirement = |scope: &'static str, operator, values: &[&'static str]| Requirement {
            key: scope.into(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let pods = [
            r#"{"spec": {"priorityClassName": "high", "containers": [{"name": "a"}]}}"#,
            r#"{"spec": {"activeDeadlineSeconds": 0, "containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}}"#,
            r#"{"spec": {"containers": [], "affinity": {"podAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}]}}}}"#,
        ];
        let mut requirements: Vec<_> = PLAIN.iter().map(|scope| requirement(scope, Operator::Exists, &[])).collect();
        for operator in Operator::BY_NAME.map(|(_, operator)| operator).into_iter().chain([Operator::Unknown]) {
            requirements.push(requirement(PRIORITY, operator, &["high"]));
            requirements.push(requirement(ATTRIBUTES, operator, &["fast"]));
        }
        for pod in pods {
            let document = Document::read(pod).unwrap();
            let stored = Stored::read(ChargedKind::POD, document.root()).unwrap();
            let footprint = Footprint::of(&stored.object(), None).unwrap();
            for requirement in &requirements {
                let expected = scope::matches(&stored.object(), requirement).unwrap();
                assert_eq!(footprint.matches(std::slice::from_ref(requirement)), expected, "{requirement} of {pod}");
            }
        }
    }
}
