//! What an operator lets through unjudged.

use crate::context::Context;
use crate::json::Malformed;
use crate::request::{PodTemplate, Request};
use crate::settings::{Settings, service_account_of_user};

/// Whether `exempt` of the settings covers this object. What the context does not know exempts nothing.
pub fn is_exempt(
    request: &Request<'_>,
    pod: Option<&PodTemplate<'_>>,
    context: &Context<'_>,
    settings: &Settings<'_>,
) -> Result<bool, Malformed> {
    let exempt = &settings.exempt;
    if exempt.namespaces.iter().any(|pattern| pattern.matches(&request.namespace)) {
        return Ok(true);
    }
    if !exempt.service_accounts.is_empty() {
        let covers = |account: &str| exempt.service_accounts.iter().any(|pattern| pattern.matches(account));
        if service_account_of_user(&request.user).is_some_and(|account| covers(&account)) {
            return Ok(true);
        }
        if let Some(pod) = pod {
            let name = pod.spec.string("serviceAccountName")?;
            if covers(&format!("{}/{}", request.namespace, name.as_deref().unwrap_or("default"))) {
                return Ok(true);
            }
        }
    }
    if let (Some(selector), Some(object)) = (&exempt.labels, request.object)
        && selector.matches(object.at(&["metadata", "labels"])?)?
    {
        return Ok(true);
    }
    match (&exempt.namespace_labels, context.namespace) {
        (Some(selector), Some(_)) => selector.matches(context.namespace_labels()?),
        _ => Ok(false),
    }
}
