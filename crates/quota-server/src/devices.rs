//! Reads what decides how the devices of a resource claim are charged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use headroom_admission::charge::devices::{MADE_FOR_A_POD, claim_of, owner};
use headroom_admission::json::{Document, Malformed, Node};
use headroom_admission::request::Request;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ApiError, ApiResult, ListOptions, found, text_at, value};
use headroom_api_server::parts::locked;
use headroom_quota_protocol::ReservationRequest;
use headroom_quota_protocol::reservation_request::{DeviceObjects, owner_in};
use serde_json::{Value, json};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The namespaces whose claims are being read: those of each one after the other. A claim for a pod may have to be compared
/// with all claims of its namespace, and pages of them take the turns of other namespaces' pages.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeMap<String, Arc<Turn<()>>>>);

impl Turns {
    pub async fn of(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = locked(&self.0);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(namespace.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

/// The objects, read from etcd. Claims are rare, and a cache of classes or pods could be behind the claim. Whoever creates
/// claims and pods chooses how large they are, so what is not needed of them is never held.
pub struct DeviceReads {
    classes: String,
    pod: Option<String>,
    claims: Option<String>,
}

pub async fn read(api: &ApiClient, request: &Request<'_>, version: &str) -> ApiResult<DeviceReads> {
    let of_group = ApiPath::new("/apis/resource.k8s.io").at(version);
    let items = |listed: ApiResult<(u64, Vec<Value>)>| {
        let (_, items) = found(listed)?.unwrap_or_default();
        Ok::<_, ApiError>(json!({"items": items}).to_string())
    };
    let classes = items(api.list(&of_group.collection(None, "deviceclasses"), ListOptions::WHOLE, value).await)?;
    let unreadable = |malformed: Malformed| ApiError::Other(malformed.to_string());
    let mut reads = DeviceReads { classes, pod: None, claims: None };
    let Some((name, _)) = owner_in(request).map_err(unreadable)? else { return Ok(reads) };
    let namespace = Some(&*request.namespace);
    let path = ApiPath::new("/api/v1").collection(namespace, "pods").at(&name);
    let Some(pod) = found(api.get_text(&path).await)? else { return Ok(reads) };
    let names_its_claim = {
        let document = Document::read(&pod).map_err(|error| ApiError::Other(error.to_string()))?;
        claim_of(document.root()).map_err(unreadable)?.is_some()
    };
    if !names_its_claim {
        let path = of_group.collection(namespace, "resourceclaims");
        reads.claims = Some(items(api.list(&path, ListOptions::METADATA, of_a_pod).await)?);
    }
    reads.pod = Some(pod);
    Ok(reads)
}

/// The fields that decide which of a pod's claims is the first.
fn of_a_pod(claim: Node<'_>) -> Option<Value> {
    let (name, uid) = owner(claim).ok()??;
    let field = |field: &str| text_at(claim, &["metadata", field]);
    let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true});
    Some(json!({"metadata": {
        "name": field("name"), "creationTimestamp": field("creationTimestamp"),
        "annotations": {MADE_FOR_A_POD: "true"}, "ownerReferences": [reference],
    }}))
}

impl DeviceReads {
    pub fn charge(&self, request: &Request<'_>, reservation: &mut ReservationRequest) -> Result<(), Malformed> {
        fn read(text: &str) -> Option<Document<'_>> {
            // Printed by this program from what it had read.
            Document::read(text).ok()
        }
        let Some(classes) = read(&self.classes) else { return Ok(()) };
        let (pod, claims) = (self.pod.as_deref().and_then(read), self.claims.as_deref().and_then(read));
        let found = DeviceObjects {
            classes: classes.root(),
            pod: pod.as_ref().map(Document::root),
            claims: claims.as_ref().map(Document::root),
        };
        reservation.charge_devices(request, &found)
    }
}
