//! Objects that the operator exempts.

use crate::json::Malformed;
use crate::request::{Pod, Request};
use crate::settings::{Settings, any_matches};

/// True if the setting `exempt` names the namespace of a request.
pub fn by_namespace_name(request: &Request<'_>, settings: &Settings<'_>) -> bool {
    any_matches(&settings.exempt.namespaces, &request.namespace)
}

/// True if the setting `exempt` covers the pod of a request, or the pods of its workload, whose own labels are not theirs.
pub fn pods(request: &Request<'_>, pod: &Pod<'_>, settings: &Settings<'_>) -> Result<bool, Malformed> {
    let exempt = &settings.exempt;
    if !exempt.service_accounts.is_empty() {
        // The pod's own service account. The requesting user does not help: a controller creates nearly every pod.
        let name = pod.spec.string("serviceAccountName")?.filter(|name| !name.is_empty());
        let account = format!("{}/{}", request.namespace, name.as_deref().unwrap_or("default"));
        if any_matches(&exempt.service_accounts, &account) {
            return Ok(true);
        }
    }
    let labels = exempt.labels.as_ref();
    labels.map_or(Ok(false), |selector| selector.matches_node(pod.node.at(&["metadata", "labels"])?))
}

/// True if it covers the object itself.
pub fn object(request: &Request<'_>, settings: &Settings<'_>) -> Result<bool, Malformed> {
    // A request for a subresource does not change labels, whatever labels the client sends.
    let object = if request.subresource.is_empty() { request.object.as_ref() } else { request.old() };
    match (&settings.exempt.labels, object) {
        (Some(selector), Some(object)) => selector.matches_node(object.node.at(&["metadata", "labels"])?),
        _ => Ok(false),
    }
}
