//! The Lease of the collector that writes the profiles of a cluster.
//!
//! A collector takes the Lease before it publishes, renews it while it runs and releases it at its end. A collector that was
//! killed and restarted with the same store takes it again at once, because no second process can have opened that store.

use std::sync::Mutex;
use std::time::Duration;

use headroom_api_server::api_client::ApiClient;
use headroom_api_server::clock;
use headroom_api_server::lease::{Holder, Lease, LeaseError, RenewedLease, Timing, host_name};
use headroom_api_server::parts::Parts;

use super::cluster::ClusterError;

/// The name of the Lease, in the namespace of the profiles.
pub const LEASE: &str = "headroom-collector";
/// A holder that has not renewed for so long by its own clock is dead, however wrong that clock is.
const DEAD_AFTER: Duration = Duration::from_secs(3600);

pub fn lease(api: ApiClient, namespace: &str, store: &str, timing: Timing, parts: &Parts) -> RenewedLease {
    let suffix = format!("_{store}");
    let name = format!("{}{suffix}", host_name("collector"));
    let lease = Lease {
        api,
        namespace: namespace.to_owned(),
        name: LEASE,
        holder: Holder { name, suffix, is_dead_after: Some(DEAD_AFTER) },
        timing,
        clock: clock::now,
        renewed: Mutex::default(),
    };
    RenewedLease::new(lease, parts)
}

pub fn lease_error(LeaseError { verb, error }: LeaseError, namespace: &str) -> ClusterError {
    match error.is_namespace_gone() {
        true => ClusterError::NoNamespace { namespace: namespace.to_owned() },
        false => ClusterError::of(error, verb, "leases", &format!("{namespace}/{LEASE}")),
    }
}
