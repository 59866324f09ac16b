//! Which names of a quota an object of a kind is charged under.

use crate::amount::{ResourceList, ResourceName, is_device};
use crate::request::Request;

/// A kind of object, as quotas tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind<'a> {
    pub group: &'a str,
    /// The plural name, such as `pods`.
    pub resource: &'a str,
    pub measure: Measure,
}

/// How the usage of a kind is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Pod,
    Service,
    Claim,
    ResourceClaim,
    /// By number alone.
    Count,
}

/// What is in front of a storage class's own names.
pub const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// What is in front of the number of devices of a class.
pub const DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// Devices that are asked for by class in a container's resources.
pub const IMPLICIT_DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

impl<'a> Kind<'a> {
    pub const POD: Kind<'static> = Kind { group: "", resource: "pods", measure: Measure::Pod };

    pub fn of(request: &'a Request<'_>) -> Self {
        Self::new(&request.group, &request.resource)
    }

    /// Reads `pods` or `deployments.apps`.
    pub fn from_qualified(text: &'a str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self::new(group, resource)
    }

    fn new(group: &'a str, resource: &'a str) -> Self {
        let measure = match (group, resource) {
            ("", "pods") => Measure::Pod,
            ("", "services") => Measure::Service,
            ("", "persistentvolumeclaims") => Measure::Claim,
            ("resource.k8s.io", "resourceclaims") => Measure::ResourceClaim,
            _ => Measure::Count,
        };
        Self { group, resource, measure }
    }

    /// Whether objects of the kind are charged under a name.
    pub fn is_charged_under(self, name: &str) -> bool {
        if let Some(counted) = name.strip_prefix("count/") {
            return self.is_called(counted);
        }
        match self.measure {
            Measure::Pod => is_pod_name(name),
            Measure::Service => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
            Measure::Claim => {
                let of_class = |(_, name)| matches!(name, "persistentvolumeclaims" | "requests.storage");
                matches!(name, "persistentvolumeclaims" | "requests.storage")
                    || name.split_once(STORAGE_CLASS).is_some_and(of_class)
            }
            Measure::ResourceClaim => name.ends_with(DEVICE_CLASS),
            Measure::Count => self.has_plain_name() && name == self.resource,
        }
    }

    /// The names of a list that objects of the kind are charged under.
    pub fn names_in<'l, 'd>(
        self,
        list: &'l ResourceList<'d>,
    ) -> impl Iterator<Item = &'l ResourceName<'d>> + use<'l, 'd, 'a> {
        list.names().filter(move |name| self.is_charged_under(name))
    }

    /// The kinds that quotas count under their bare name too, since before there was `count/`.
    pub fn has_plain_name(self) -> bool {
        self.group.is_empty()
            && matches!(self.resource, "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas")
    }

    /// Whether `text` is `<resource>` or, outside the core group, `<resource>.<group>`.
    fn is_called(self, text: &str) -> bool {
        match text.strip_prefix(self.resource) {
            Some("") => self.group.is_empty(),
            Some(rest) => !self.group.is_empty() && rest.strip_prefix('.') == Some(self.group),
            None => false,
        }
    }

    /// `count/<resource>[.<group>]`
    pub fn count_name(self) -> String {
        let Self { group, resource, .. } = self;
        if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") }
    }
}

fn is_pod_name(name: &str) -> bool {
    match name.strip_prefix("requests.") {
        Some("cpu" | "memory" | "ephemeral-storage") => true,
        Some(resource) => {
            resource.starts_with("hugepages-") || is_device(resource) || resource.starts_with(IMPLICIT_DEVICE_CLASS)
        }
        None => {
            matches!(
                name,
                "pods"
                    | "cpu"
                    | "memory"
                    | "ephemeral-storage"
                    | "limits.cpu"
                    | "limits.memory"
                    | "limits.ephemeral-storage"
            ) || name.starts_with("hugepages-")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &str, charged: &[&str], not_charged: &[&str]) {
        let kind = Kind::from_qualified(kind);
        charged.iter().for_each(|name| assert!(kind.is_charged_under(name), "{name}"));
        not_charged.iter().for_each(|name| assert!(!kind.is_charged_under(name), "{name}"));
    }

    #[test]
    fn kinds_are_charged_under_their_own_names_only() {
        check(
            "pods",
            &[
                "pods",
                "count/pods",
                "cpu",
                "limits.memory",
                "hugepages-2Mi",
                "requests.hugepages-1Gi",
                "requests.a.io/gpu",
            ],
            &[
                "services",
                "requests.storage",
                "limits.hugepages-2Mi",
                "a.io/gpu",
                "count/pods.apps",
                "requests.kubernetes.io/x",
            ],
        );
        check(
            "persistentvolumeclaims",
            &["requests.storage", "gold.storageclass.storage.k8s.io/requests.storage"],
            &["storage", "gold.storageclass.storage.k8s.io/devices", "pods"],
        );
        check(
            "deployments.apps",
            &["count/deployments.apps"],
            &["count/deployments", "deployments", "count/deployments.extensions"],
        );
        check("configmaps", &["configmaps", "count/configmaps"], &["count/configmaps.apps", "secrets"]);
        check(
            "resourceclaims.resource.k8s.io",
            &["count/resourceclaims.resource.k8s.io", "gpu.deviceclass.resource.k8s.io/devices"],
            &["resourceclaims"],
        );
    }
}
