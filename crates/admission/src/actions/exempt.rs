//! Objects that the operator exempts.

use crate::json::{Malformed, Node};
use crate::request::{Pod, Request};
use crate::settings::{Settings, any_matches};

/// True if the setting `exempt` names the namespace of a request.
pub fn by_namespace_name(request: &Request<'_>, settings: &Settings<'_>) -> bool {
    any_matches(&settings.exempt.namespaces, &request.namespace)
}

/// True if the setting `exempt` covers the pods of a request, whose labels are not those of their workload.
pub fn pods(request: &Request<'_>, pod: &Pod<'_>, settings: &Settings<'_>) -> Result<bool, Malformed> {
    let accounts = &settings.exempt.service_accounts;
    if !accounts.is_empty() {
        // The pod's own service account. The requesting user does not help: a controller creates nearly every pod.
        let name = pod.spec.string("serviceAccountName")?.filter(|name| !name.is_empty());
        let account = format!("{}/{}", request.namespace, name.as_deref().unwrap_or("default"));
        if any_matches(accounts, &account) {
            return Ok(true);
        }
    }
    selects(settings, pod.node)
}

/// True if it covers the object itself.
pub fn object(request: &Request<'_>, settings: &Settings<'_>) -> Result<bool, Malformed> {
    // A request for a subresource does not change labels, whatever labels the client sends.
    let object = match request.subresource.as_ref() {
        "" => request.object.as_ref(),
        // A Scale has no labels, so that a selector for their absence would always match.
        "scale" => None,
        _ => request.old(),
    };
    object.map_or(Ok(false), |object| selects(settings, object.node))
}

fn selects(settings: &Settings<'_>, node: Node<'_>) -> Result<bool, Malformed> {
    let labels = settings.exempt.labels.as_ref();
    labels.map_or(Ok(false), |selector| selector.matches_node(node.at(&["metadata", "labels"])?))
}
