//! Reads what decides how the devices of a resource claim are charged.

use headroom_core::json::{Document, Malformed};
use headroom_core::request::Request;
use headroom_kube::ApiPath;
use headroom_kube::api_client::{ApiClient, ApiError, ApiResult};
use headroom_tenant_quota::ReservationRequest;
use headroom_tenant_quota::reservation_request::{DeviceObjects, owner_in};
use serde_json::{Value, json};

/// The objects, read from etcd. Claims are rare, and a cache of classes or pods could be behind the claim.
pub struct Found {
    classes: String,
    pod: Option<String>,
    claims: Option<String>,
}

/// Reads the objects for a resource claim in a version of its API.
pub async fn read(api: &ApiClient, request: &Request<'_>, version: &str) -> ApiResult<Found> {
    let of_group = ApiPath::new("/apis/resource.k8s.io").at(version);
    let list = async |path: ApiPath| match api.list(&path).await {
        Ok((_, items)) => Ok(json!({"items": items}).to_string()),
        Err(ApiError::NotFound(_)) => Ok(json!({"items": []}).to_string()),
        Err(failure) => Err(failure),
    };
    let classes = list(of_group.collection(None, "deviceclasses")).await?;
    let owner = owner_in(request).map_err(|malformed| ApiError::Other(malformed.to_string()))?;
    let Some((name, _)) = owner else { return Ok(Found { classes, pod: None, claims: None }) };
    let namespace = Some(&*request.namespace);
    let pod = match api.get(&ApiPath::new("/api/v1").collection(namespace, "pods").at(&name)).await {
        Ok(pod) => Some(pod),
        Err(ApiError::NotFound(_)) => None,
        Err(failure) => return Err(failure),
    };
    let names_its_claim = |pod: &Value| pod.pointer("/status/extendedResourceClaimStatus/resourceClaimName").is_some();
    let claims = match &pod {
        Some(pod) if !names_its_claim(pod) => Some(list(of_group.collection(namespace, "resourceclaims")).await?),
        _ => None,
    };
    Ok(Found { classes, pod: pod.map(|pod| pod.to_string()), claims })
}

impl Found {
    /// Charges the reservation for the devices.
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
