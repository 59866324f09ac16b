//! Objects that the operator exempts.

use crate::json::{Malformed, Node};
use crate::request::{Pod, Request};
use crate::settings::{Settings, any_matches};

/// True if the setting `exempt` names the namespace of a request.
pub fn by_namespace_name(request: &Request<'_>, settings: &Settings<'_>) -> bool {
    any_matches(&settings.exempt.namespaces, &request.namespace)
}

/// True if the setting `exempt` covers the object, or the workload that a `scale` is about (`scaled`).
pub fn by_object(
    request: &Request<'_>,
    pod: Option<&Pod<'_>>,
    scaled: Option<Node<'_>>,
    settings: &Settings<'_>,
) -> Result<bool, Malformed> {
    let exempt = &settings.exempt;
    if let (Some(pod), false) = (pod, exempt.service_accounts.is_empty()) {
        // The pod's own service account. The requesting user does not help: a controller creates nearly every pod.
        let name = pod.spec.string("serviceAccountName")?.filter(|name| !name.is_empty());
        let account = format!("{}/{}", request.namespace, name.as_deref().unwrap_or("default"));
        if any_matches(&exempt.service_accounts, &account) {
            return Ok(true);
        }
    }
    // A request for a subresource does not change labels, whatever labels the client sends.
    let object = match request.subresource.as_ref() {
        "" => request.object.map(|object| object.node),
        "scale" => scaled,
        _ => request.old().map(|old| old.node),
    };
    match (&exempt.labels, object) {
        (Some(selector), Some(object)) => selector.matches_node(object.at(&["metadata", "labels"])?),
        _ => Ok(false),
    }
}
