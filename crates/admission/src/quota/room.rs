//! The room that quotas have left for a new pod's containers.

use super::{Bounds, QuotaChange, QuotaFault, QuotaObject, check};
use crate::amount::ResourceList;
use crate::cluster::usage::Resource;
use crate::json::Malformed;
use crate::request::{self, Pod};

/// Computes what the quotas that a new pod exceeds leave for its containers.
pub fn room_for<'d>(
    pod: &Pod<'d>,
    source: request::Object<'d>,
    bounds: &Bounds<'_, 'd>,
) -> Result<ResourceList<'d>, Malformed> {
    let mut room = ResourceList::default();
    for breach in check(&QuotaObject::of_pod(pod, source), &QuotaChange::Create, bounds)?.breaches {
        let QuotaFault::Exceeded { excesses, .. } = breach.fault else { continue };
        for excess in excesses {
            let name = excess.name.strip_prefix("requests.").unwrap_or(&excess.name);
            let Some(resource) = Resource::ALL.iter().find(|resource| resource.name() == name) else { continue };
            let mut left = excess.hard.minus(&excess.used);
            if let Some(overhead) = pod.overhead.get(resource.name()) {
                left = left.minus(overhead);
            }
            if room.get(resource.name()).is_none_or(|least| left < *least) {
                room.set(resource.name().into(), left);
            }
        }
    }
    Ok(room)
}
