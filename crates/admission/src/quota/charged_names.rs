//! The one table of what is charged under which name of a quota.

use crate::amount::is_device;
use crate::find;
use crate::request::Request;

/// A kind of object, as quotas distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChargedKind<'a> {
    pub group: &'a str,
    /// The plural name, such as `pods`.
    pub resource: &'a str,
    pub measure: Measure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Pod,
    Service,
    Claim,
    ResourceClaim,
    /// Only the number of objects.
    Count,
}

/// The amount that an object is charged under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged<'n> {
    /// One for each object.
    Object,
    /// One for each pod that has not ended.
    LivePod,
    /// A pod's total of a resource's requests or limits.
    Request(&'n str),
    Limit(&'n str),
    NodePorts,
    LoadBalancers,
    /// One for each claim, or its storage; for one storage class or for all.
    Claim(Option<&'n str>),
    Storage(Option<&'n str>),
    /// The devices of a class that a resource claim requests; under the class's two names, and under the name of its
    /// extended resource.
    Devices(&'n str),
    ImplicitDevices(&'n str),
    ExtendedDevices(&'n str),
}

/// Follows the storage class in names of one class.
pub(super) const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Follows the device class in the name of its devices.
pub(super) const DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// Precedes the device class where a container requests its devices as an extended resource.
pub(super) const IMPLICIT_DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub const RESOURCE_CLAIMS: &str = "resourceclaims.resource.k8s.io";

impl<'a> ChargedKind<'a> {
    pub const POD: ChargedKind<'static> = ChargedKind { group: "", resource: "pods", measure: Measure::Pod };
    pub const CLAIM: ChargedKind<'static> =
        ChargedKind { group: "", resource: "persistentvolumeclaims", measure: Measure::Claim };

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

    /// Returns how an object of the kind is charged under a name; none if it is not.
    pub fn charged_under(self, name: &str) -> Option<Charged<'_>> {
        if let Some(counted) = name.strip_prefix("count/") {
            return self.is_called(counted).then_some(Charged::Object);
        }
        match self.measure {
            Measure::Pod => charged_to_pods(name),
            Measure::Service => match name {
                "services" => Some(Charged::Object),
                "services.nodeports" => Some(Charged::NodePorts),
                "services.loadbalancers" => Some(Charged::LoadBalancers),
                _ => None,
            },
            Measure::Claim => {
                let (class, name) = match find::split_once(name, STORAGE_CLASS) {
                    Some((class, name)) => (Some(class), name),
                    None => (None, name),
                };
                match name {
                    "persistentvolumeclaims" => Some(Charged::Claim(class)),
                    "requests.storage" => Some(Charged::Storage(class)),
                    _ => None,
                }
            }
            Measure::ResourceClaim => match (name.strip_suffix(DEVICE_CLASS), name.strip_prefix("requests.")) {
                (Some(class), _) => Some(Charged::Devices(class)),
                (None, Some(extended)) => match extended.strip_prefix(IMPLICIT_DEVICE_CLASS) {
                    Some(class) => Some(Charged::ImplicitDevices(class)),
                    None => is_device(extended).then_some(Charged::ExtendedDevices(extended)),
                },
                (None, None) => None,
            },
            Measure::Count => (self.has_plain_name() && name == self.resource).then_some(Charged::Object),
        }
    }

    /// True if quotas also count the kind under its bare name, from before `count/` was introduced.
    pub fn has_plain_name(self) -> bool {
        self.group.is_empty()
            && matches!(self.resource, "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas")
    }

    /// True if `text` is `<resource>` or, outside the core group, `<resource>.<group>`.
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

fn charged_to_pods(name: &str) -> Option<Charged<'_>> {
    const OF_EVERY_NODE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    if name == "pods" {
        return Some(Charged::LivePod);
    }
    if let Some(resource) = name.strip_prefix("limits.") {
        return OF_EVERY_NODE.contains(&resource).then_some(Charged::Limit(resource));
    }
    let resource = name.strip_prefix("requests.");
    let is_request = match resource.unwrap_or(name) {
        huge if huge.starts_with("hugepages-") => true,
        plain if OF_EVERY_NODE.contains(&plain) => true,
        // Extended resources have no bare name.
        device => resource.is_some() && (is_device(device) || device.starts_with(IMPLICIT_DEVICE_CLASS)),
    };
    is_request.then(|| Charged::Request(resource.unwrap_or(name)))
}

/// The kinds whose objects are charged under a name, such as `pods` or `deployments.apps`. A device is charged for pods,
/// and for the resource claims that request it.
pub fn kinds_charged_under(name: &str) -> impl Iterator<Item = &str> {
    const KINDS: [&str; 8] = [
        "pods",
        "services",
        "persistentvolumeclaims",
        RESOURCE_CLAIMS,
        "configmaps",
        "secrets",
        "replicationcontrollers",
        "resourcequotas",
    ];
    let counted = name.strip_prefix("count/");
    let is_charged =
        move |kind: &&str| counted.is_none() && ChargedKind::from_qualified(kind).charged_under(name).is_some();
    counted.into_iter().chain(KINDS.into_iter().filter(is_charged))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of conformance have the names under which each kind is charged.
    #[test]
    fn kinds_are_charged_under_no_names_of_others() {
        for (kind, names) in [
            (
                "pods",
                "services requests.storage limits.hugepages-2Mi a.io/gpu count/pods.apps requests.kubernetes.io/x",
            ),
            ("persistentvolumeclaims", "storage gold.storageclass.storage.k8s.io/devices pods"),
            ("deployments.apps", "count/deployments deployments count/deployments.extensions"),
            ("configmaps", "count/configmaps.apps secrets"),
            ("endpoints", "endpoints"),
            ("configmaps.example.com", "configmaps count/configmaps"),
            ("resourceclaims.resource.k8s.io", "resourceclaims"),
        ] {
            for name in names.split(' ') {
                assert_eq!(ChargedKind::from_qualified(kind).charged_under(name), None, "{kind} under {name}");
            }
        }
    }
}
