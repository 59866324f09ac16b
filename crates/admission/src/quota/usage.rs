//! The usage of one object.

mod devices;
mod service;

use std::borrow::Cow;

use super::QuotaObject;
use super::charged_names::{Charged, ChargedKind, DEVICE_CLASS, IMPLICIT_DEVICE_CLASS, Measure, STORAGE_CLASS};
use crate::amount::{Quantity, Requirement, ResourceList, read_quantity};
use crate::json::{Malformed, Node};
use crate::request::{self, pod_totals};
use crate::timestamp::Timestamp;

pub use devices::Devices;

/// The usage of one object, looked up by the names of quotas.
#[derive(Debug, Clone)]
pub enum ObjectUsage<'d> {
    Pod { is_live: bool, requests: ResourceList<'d>, limits: ResourceList<'d> },
    Service { node_ports: Quantity, load_balancers: Quantity },
    Claim { class: Option<Cow<'d, str>>, storage: Option<Quantity> },
    Devices(Devices<'d>),
    Count,
}

const ONE: Quantity = Quantity::from_units(1);

impl<'d> ObjectUsage<'d> {
    /// The usage of an object at the time `now`. Without a time, a pod whose deletion is overdue still counts.
    pub fn of(object: &QuotaObject<'_, 'd>, now: Option<Timestamp>) -> Result<Self, Malformed> {
        let source = &object.source;
        Ok(match (object.kind.measure, object.pod) {
            (Measure::Pod, Some(pod)) if is_live(source, now)? => Self::Pod {
                is_live: true,
                requests: pod_totals::as_quotas_see_it(pod, Requirement::Request)?,
                limits: pod_totals::as_quotas_see_it(pod, Requirement::Limit)?,
            },
            (Measure::Pod, _) => {
                Self::Pod { is_live: false, requests: ResourceList::default(), limits: ResourceList::default() }
            }
            (Measure::Service, _) => {
                let (node_ports, load_balancers) = service::usage(object)?;
                Self::Service { node_ports, load_balancers }
            }
            (Measure::Claim, _) => Self::Claim { class: storage_class_of(source)?, storage: storage_of(source)? },
            (Measure::ResourceClaim, _) => Self::Devices(Devices::of_claim(object)?),
            (Measure::Count, _) => Self::Count,
        })
    }

    /// The amount that is used; none if the object uses none.
    pub fn amount(&self, charged: Charged<'_>) -> Option<Quantity> {
        if charged == Charged::Object {
            return Some(ONE);
        }
        match self {
            Self::Pod { is_live, requests, limits } => match charged {
                Charged::LivePod => is_live.then_some(ONE),
                Charged::Request(name) => requests.get(name).cloned(),
                Charged::Limit(name) => limits.get(name).cloned(),
                _ => None,
            },
            Self::Service { node_ports, load_balancers } => match charged {
                Charged::NodePorts => Some(node_ports.clone()),
                Charged::LoadBalancers => Some(load_balancers.clone()),
                _ => None,
            },
            Self::Claim { class, storage } => {
                let is_of = |wanted: Option<&str>| wanted.is_none() || wanted == class.as_deref();
                match charged {
                    Charged::Claim(wanted) => is_of(wanted).then_some(ONE),
                    Charged::Storage(wanted) => storage.clone().filter(|_| is_of(wanted)),
                    _ => None,
                }
            }
            Self::Devices(devices) => devices.amount(charged),
            Self::Count => None,
        }
    }

    /// All amounts that are used, under every name that a quota may have for them.
    pub fn list(&self, kind: ChargedKind<'_>) -> ResourceList<'d> {
        let mut names: Vec<String> = vec![kind.count_name()];
        let mut add = |name: &str| names.push(name.to_owned());
        match self {
            Self::Pod { requests, limits, .. } => {
                add("pods");
                for name in requests.names().chain(limits.names()) {
                    names.extend(["", "requests.", "limits."].map(|prefix| [prefix, name].concat()));
                }
            }
            Self::Service { .. } => {
                ["services", "services.nodeports", "services.loadbalancers"].iter().for_each(|name| add(name))
            }
            Self::Claim { class, .. } => {
                for name in ["persistentvolumeclaims", "requests.storage"] {
                    names.push(name.to_owned());
                    names.extend(class.iter().map(|class| format!("{class}{STORAGE_CLASS}{name}")));
                }
            }
            Self::Devices(devices) => {
                for class in devices.by_class.names() {
                    names.push(format!("{class}{DEVICE_CLASS}"));
                    names.push(format!("requests.{IMPLICIT_DEVICE_CLASS}{class}"));
                }
                names.extend(devices.by_extended.names().map(|extended| format!("requests.{extended}")));
            }
            Self::Count if kind.has_plain_name() => add(kind.resource),
            Self::Count => {}
        }
        let amount = |name: &String| self.amount(kind.charged_under(name)?);
        names.into_iter().filter_map(|name| amount(&name).map(|amount| (Cow::Owned(name), amount))).collect()
    }

    /// True if any amount is negative. Quotas refuse such an object, and so does the API server later.
    pub fn has_negatives(&self) -> bool {
        let any = |list: &ResourceList<'_>| list.iter().any(|(_, amount)| amount.is_negative());
        match self {
            Self::Pod { requests, limits, .. } => any(requests) || any(limits),
            Self::Claim { storage, .. } => storage.as_ref().is_some_and(Quantity::is_negative),
            Self::Devices(devices) => any(&devices.by_class),
            Self::Service { .. } | Self::Count => false,
        }
    }
}

/// A pod is live until it has ended, or until its deletion is overdue. Like Kubernetes, this adds the grace period to
/// a time that already includes it.
pub fn is_live(pod: &request::Object<'_>, now: Option<Timestamp>) -> Result<bool, Malformed> {
    let phase = pod.status_at(&["phase"])?.map(Node::str).transpose()?;
    if matches!(phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Ok(false);
    }
    let (Some(metadata), Some(now)) = (pod.deletion, now) else { return Ok(true) };
    let (Some(deletion), Some(grace)) =
        (metadata.get("deletionTimestamp")?, metadata.get("deletionGracePeriodSeconds")?)
    else {
        return Ok(true);
    };
    let gone_after = Timestamp::read(deletion)?.unix_seconds().saturating_add(grace.integer()?);
    Ok(now.unix_seconds() <= gone_after)
}

/// The storage that a claim requests in whole bytes, or the allocated storage if that is more.
fn storage_of(claim: &request::Object<'_>) -> Result<Option<Quantity>, Malformed> {
    let asked = claim.spec_at(&["resources", "requests", "storage"])?.map(read_quantity).transpose()?;
    let allocated = claim.status_at(&["allocatedResources", "storage"])?.map(read_quantity).transpose()?;
    let Some(asked) = asked.map(|asked| asked.rounded_up_to_units()) else { return Ok(None) };
    Ok(Some(allocated.filter(|allocated| *allocated > asked).map_or(asked, |more| more.rounded_up_to_units())))
}

/// The storage class of a claim. The annotation has precedence over the field. An empty class is none.
fn storage_class_of<'d>(claim: &request::Object<'d>) -> Result<Option<Cow<'d, str>>, Malformed> {
    let annotation = claim.node.at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"])?;
    let class = match annotation {
        Some(annotation) => Some(annotation.str()?),
        None => claim.spec_at(&["storageClassName"])?.map(Node::str).transpose()?,
    };
    Ok(class.filter(|class| !class.is_empty()))
}
