//! The devices of resource claims: they also count as the extended resource of their class, minus what the claim's pod
//! was charged under that name.
//!
//! The scheduler makes a claim for a pod that requests devices as an extended resource. The pod is counted with them, so
//! the claim is charged only the rest. That is nobody's to claim twice: a pod's share belongs to the claim that its
//! status names, or until then to its first, and to a claim that is not counted yet only as long as the pod is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::charge::devices;
use headroom_admission::cluster::devices::DeviceClass;
use headroom_admission::json::{Malformed, Node};
use headroom_admission::quota::charged_names::{Charged, ChargedKind, RESOURCE_CLAIMS};

/// The extended resource of each device class; empty if it has none.
pub type Classes = HashMap<String, String>;

/// A pod in the namespace of the object that names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodRef {
    pub name: String,
    pub uid: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.uid)
    }
}

/// The kind of device classes. They are not charged, but resource claims cannot be counted without them.
pub const DEVICE_CLASSES: &str = "deviceclasses.resource.k8s.io";

/// The relation of an object to devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// On a device class: its extended resource.
    Serves(String),
    /// On a pod: the claim that its status names.
    HasClaim(String),
    /// On a claim: the pod that it says it was made for, and its creation.
    MadeFor { pod: PodRef, created: String },
}

impl Link {
    pub fn read(kind: &str, object: Node<'_>) -> Result<Option<Self>, Malformed> {
        match kind {
            "pods" => Ok(devices::claim_of(object)?.map(|claim| Self::HasClaim(claim.into_owned()))),
            RESOURCE_CLAIMS => {
                let Some((name, uid)) = devices::owner(object)? else { return Ok(None) };
                let created = object.at(&["metadata", "creationTimestamp"])?.map(Node::str).transpose()?;
                let pod = PodRef { name: name.into_owned(), uid: uid.into_owned() };
                Ok(Some(Self::MadeFor { pod, created: created.unwrap_or_default().into_owned() }))
            }
            DEVICE_CLASSES => Ok(Some(Self::Serves(DeviceClass::read(object)?.extended_resource.into_owned()))),
            _ => Ok(None),
        }
    }
}

/// Returns true if a name is charged for the devices of resource claims under a name of pods.
pub fn is_shared_with_pods(name: &str) -> bool {
    let charged = ChargedKind::from_qualified(RESOURCE_CLAIMS).charged_under(name);
    matches!(charged, Some(Charged::ImplicitDevices(_) | Charged::ExtendedDevices(_)))
}

/// The amounts of an object, of a claim also those under the extended resources of its classes.
pub fn with_extended_resources<'a>(
    amounts: &'a ResourceList<'static>,
    classes: &Classes,
) -> Cow<'a, ResourceList<'static>> {
    let mut extended = Cow::Borrowed(amounts);
    for (name, amount) in amounts.iter() {
        if let Some(Charged::Devices(class)) = ChargedKind::from_qualified(RESOURCE_CLAIMS).charged_under(name)
            && let Some(resource) = classes.get(class).filter(|resource| !resource.is_empty())
        {
            extended.to_mut().add(&format!("requests.{resource}").into(), amount);
        }
    }
    extended
}

/// The part of a claim's amounts that its pod was charged already.
pub fn share(claim: &ResourceList<'static>, of_pod: &ResourceList<'static>) -> ResourceList<'static> {
    let both = claim.paired_with(of_pod).filter(|(name, ..)| is_shared_with_pods(name));
    both.filter_map(|(name, claim, of_pod)| Some((name.clone(), of_pod?.clone().min(claim.clone())))).collect()
}

pub fn without(amounts: &ResourceList<'static>, share: &ResourceList<'static>) -> ResourceList<'static> {
    let rest = |amount: &Quantity, share: Option<&Quantity>| share.map_or(amount.clone(), |share| amount.minus(share));
    let rest = amounts.paired_with(share).map(|(name, amount, share)| (name.clone(), rest(amount, share)));
    rest.filter(|(_, amount)| !amount.is_zero()).collect()
}

#[cfg(test)]
mod tests {
    use headroom_admission::json::Document;

    use super::*;

    #[test]
    fn pods_claims_and_classes_say_which_belong_together() {
        let check = |kind: &str, object: &str, expected: Option<Link>| {
            let document = Document::read(object).unwrap();
            assert_eq!(Link::read(kind, document.root()).unwrap(), expected, "{kind} {object}");
        };
        let pod = r#"{"status": {"extendedResourceClaimStatus": {"resourceClaimName": "web-gpu"}}}"#;
        check("pods", pod, Some(Link::HasClaim("web-gpu".to_owned())));
        check("pods", "{}", None);
        check("services", pod, None);
        let claim = r#"{"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u", "controller": true}]}}"#;
        let pod = PodRef { name: "web".to_owned(), uid: "u".to_owned() };
        check(RESOURCE_CLAIMS, claim, Some(Link::MadeFor { pod, created: "2026-01-01T00:00:00Z".to_owned() }));
        check(RESOURCE_CLAIMS, r#"{"metadata": {"name": "own"}}"#, None);
        let class = r#"{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}"#;
        check(DEVICE_CLASSES, class, Some(Link::Serves("example.com/gpu".to_owned())));
    }

    #[test]
    fn a_pod_s_share_is_what_both_are_charged_under_names_of_pods() {
        let list = |line: &str| crate::encoding::read_amounts(line).unwrap();
        let claim = list(
            "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=3 requests.example.com/gpu=3 \
             requests.deviceclass.resource.k8s.io/gpu=3",
        );
        // A pod cannot be charged under the other names.
        let share =
            share(&claim, &list("gpu.deviceclass.resource.k8s.io/devices=3 requests.cpu=1 requests.example.com/gpu=2"));
        assert_eq!(share, list("requests.example.com/gpu=2"));
        let rest = list(
            "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=3 requests.example.com/gpu=1 \
             requests.deviceclass.resource.k8s.io/gpu=3",
        );
        assert_eq!(without(&claim, &share), rest);
        assert_eq!(without(&share, &share), list(""));
    }
}
