//! The webhook configuration and the certificate, which the leader manages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headroom_admission::cluster::label_selector::Requirement;
use headroom_admission::cluster::tenant_quota::TenantQuota;
use headroom_admission::quota::{ChargedKind, Measure};
use headroom_objects::kinds::set;
use headroom_quota_protocol::plan::{Plan, PlanNode};
use headroom_quota_protocol::tree::trees;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::replica::{FailureLog, NO_CERTIFICATE, Replica, Webhook};
use crate::tenants::Tenants;
use crate::tls::{self, ServingCertificate};
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiError, ApiResult};
use headroom_api_server::parts::locked;

/// The interval at which changes by others are reverted.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A problem that passes sooner is not told in the status of all quotas.
const BRIEFLY: Duration = Duration::from_secs(10);
const CONFIGURATION: &str = "headroom-ledger";
const CONFIGURATIONS: ApiPath = ApiPath::new("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations");
const SECRET: &str = "headroom-ledger-tls";
/// Kubernetes labels namespaces with their name since 1.21.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The days that a certificate is valid, and the seconds after which it is replaced.
const DAYS: i64 = 90;
const RENEWED_AFTER: i64 = 60 * DAY;
const DAY: i64 = 86_400;
/// Seconds for API servers to trust a new authority before its certificate is used.
const TRUSTED_AFTER: i64 = 60;
/// The maximum number of entries of the configuration; with more selectors, a single entry matches all namespaces.
const MAX_ENTRIES: usize = 200;

/// The charge of an update depends on the spec, and most updates change something else. That of a resource claim
/// depends on its annotations and its owner too.
const CHANGES_SPEC: &str = "request.operation != 'UPDATE' || request.resource.resource == 'resourceclaims' \
     || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec";

/// Maintains both until the term ends.
pub async fn configure(replica: Arc<Replica>) {
    let (mut log, mut version) = (FailureLog::default(), Version::default());
    let mut well_at = Instant::now();
    loop {
        if let Some(webhook) = &replica.options.webhook
            && replica.tenants.is_listed()
            && replica.ledgers.is_listed()
        {
            let problem = match configure_once(&replica, webhook, version.matches(&replica).await).await {
                Ok(()) => {
                    well_at = Instant::now();
                    Some(String::new())
                }
                Err(failure) => {
                    log.add("cannot keep the webhook configuration", &failure);
                    Some(failure.to_string()).filter(|_| well_at.elapsed() > BRIEFLY)
                }
            };
            if let Some(problem) = problem {
                replica.metrics.unconfigured.set(i64::from(!problem.is_empty()));
                *locked(&replica.unconfigured) = Some(problem);
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn configure_once(replica: &Replica, webhook: &Webhook, matches: bool) -> ApiResult<()> {
    let path = CONFIGURATIONS.at(CONFIGURATION);
    let existing = replica.api.find(&path).await?;
    let trusted = existing.as_ref().and_then(|it| it.pointer("/webhooks/0/clientConfig/caBundle")?.as_str());
    let kept = if webhook.makes_certificate {
        keep_certificate(replica, webhook, trusted).await.map(|all| Some(STANDARD.encode(all)))
    } else {
        Ok(None)
    };
    let authorities = match (&kept, trusted) {
        (Ok(authorities), _) => authorities.clone(),
        // The entries follow the quotas nevertheless.
        (Err(_), Some(trusted)) => Some(trusted.to_owned()),
        (Err(failure), None) => return Err(failure.clone()),
    };
    let mut client = match &webhook.url {
        Some(url) => json!({"url": format!("{}/review", url.trim_end_matches('/'))}),
        None => json!({"service": {
            "name": webhook.service, "namespace": replica.options.namespace, "path": "/review", "port": 443,
        }}),
    };
    if let Some(authorities) = authorities {
        set(&mut client, "caBundle", json!(authorities));
    }
    let quotas = replica.tenants.quotas();
    let plain = replica.plans_of_resource_quotas().into_values();
    let webhooks = Value::Array(entries(&quotas, plain, &replica.tenants, matches, &client));
    let object = |existing: Option<&Value>| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata(CONFIGURATION, existing, &[]), "webhooks": webhooks,
        })
    };
    match &existing {
        Some(existing) if is_within(&webhooks, existing.get("webhooks").unwrap_or(&Value::Null)) => {}
        Some(_) => {
            tracing::info!("writing the webhook configuration");
            replica.api.replace(&path, &object(existing.as_ref())).await?;
        }
        None => _ = create(replica, &CONFIGURATIONS, &object(None)).await?,
    }
    kept.map(|_| ())
}

/// Creates an object that is gone. The chart's roles do not allow that: whoever deletes the configuration unblocks the cluster.
async fn create(replica: &Replica, path: &ApiPath, object: &Value) -> ApiResult<Value> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    replica.api.create(path, object).await.map_err(|failure| match failure {
        ApiError::Forbidden { .. } => {
            let [kind, name] = ["/kind", "/metadata/name"].map(text);
            let message = format!("{kind} {name} is gone: `helm upgrade`, or the manifests applied again, create it");
            ApiError::Forbidden { message }
        }
        failure => failure,
    })
}

/// The metadata of an object that replaces the existing one, if any. Keeps labels and annotations of others, such as
/// Helm's.
fn metadata(name: &str, existing: Option<&Value>, annotations: &[(&str, Option<String>)]) -> Value {
    let had = |field: &str| existing.and_then(|existing| existing.pointer(&format!("/metadata/{field}"))).cloned();
    let mut all = match had("annotations") {
        Some(Value::Object(all)) => all,
        _ => serde_json::Map::new(),
    };
    for (name, text) in annotations {
        match text {
            Some(text) => _ = all.insert((*name).to_owned(), json!(text)),
            None => _ = all.remove(*name),
        }
    }
    json!({"name": name, "resourceVersion": had("resourceVersion"), "labels": had("labels"), "annotations": all})
}

/// Returns true if all wanted fields are there. The API server adds defaults; what is added to a selector takes objects out.
fn is_within(wanted: &Value, existing: &Value) -> bool {
    match (wanted, existing) {
        (Value::Object(wanted), Value::Object(existing)) => wanted.iter().all(|(name, value)| {
            let existing = existing.get(name).unwrap_or(&Value::Null);
            if name.ends_with("Selector") { value == existing } else { is_within(value, existing) }
        }),
        (Value::Array(wanted), Value::Array(existing)) => {
            wanted.len() == existing.len()
                && wanted.iter().zip(existing).all(|(wanted, existing)| is_within(wanted, existing))
        }
        (wanted, existing) => wanted == existing,
    }
}

/// The features that the API server supports. Read again from time to time, because it may be upgraded.
#[derive(Debug, Default)]
struct Version {
    matches: bool,
    read_at: Option<Instant>,
}

impl Version {
    const AGAIN: Duration = Duration::from_secs(60);
    /// The first minor version with stable `matchConditions`.
    const MATCHES_SINCE: u32 = 30;

    /// Returns true if webhooks may have `matchConditions`.
    async fn matches(&mut self, replica: &Replica) -> bool {
        if self.read_at.is_none_or(|at| at.elapsed() > Self::AGAIN)
            && let Ok(version) = replica.api.get(&ApiPath::new("/version")).await
        {
            (self.matches, self.read_at) = (knows_matches(&version), Some(Instant::now()));
        }
        self.matches
    }
}

fn knows_matches(version: &Value) -> bool {
    let number = |field: &str| -> Option<u32> {
        let text = version.get(field)?.as_str()?;
        // Some clouds write `30+`.
        text.trim_end_matches(|last: char| !last.is_ascii_digit()).parse().ok()
    };
    (number("major"), number("minor")) >= (Some(1), Some(Version::MATCHES_SINCE))
}

/// The requests that the API server must send to the webhook: an entry for each selector, so that an outage refuses requests
/// only in charged namespaces.
fn entries(
    quotas: &[Arc<TenantQuota<'static>>],
    plain: impl Iterator<Item = Plan>,
    tenants: &Tenants,
    matches: bool,
    client: &Value,
) -> Vec<Value> {
    // Namespaces by name.
    let mut names: BTreeSet<String> = BTreeSet::new();
    let (mut selectors, mut nodes) = (BTreeMap::new(), Vec::new());
    let not_exempt = json!({"key": NAME_LABEL, "operator": "NotIn", "values": tenants.exempt});
    // The API server drops an empty list.
    let expression = |Requirement { key, operator, values }: &Requirement<'_>| match values.is_empty() {
        true => json!({"key": key, "operator": operator.name()}),
        false => json!({"key": key, "operator": operator.name(), "values": values}),
    };
    for tree in trees(quotas).0 {
        for (at, (quota, _)) in tree.quotas.iter().enumerate() {
            if !tree.refuses(at) {
                continue;
            }
            names.extend(quota.names.iter().filter(|name| !tenants.is_exempt(name)).map(ToString::to_string));
            if let Some(selector) = &quota.selector {
                let expressions = selector.requirements.iter().map(expression).chain([not_exempt.clone()]);
                let selector = json!({"matchExpressions": expressions.collect::<Vec<_>>()});
                selectors.insert(selector.to_string(), selector);
            }
        }
        nodes.extend(Plan::of_tree(&tree, &[]).nodes);
    }
    for plan in plain {
        names.extend(plan.namespaces.into_keys());
        nodes.extend(plan.nodes);
    }
    nodes.retain(|node| !node.is_suspended);
    let rules = rules(nodes);
    let entry = |name: &str, rules: &[Value], policy: &str, selector: Value| {
        json!({
            "name": name, "clientConfig": client, "rules": rules, "failurePolicy": policy, "matchPolicy": "Equivalent",
            "namespaceSelector": selector, "objectSelector": {}, "sideEffects": "NoneOnDryRun", "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        })
    };
    let charged = |name: &str, selector: Value| {
        let mut entry = entry(name, &rules, "Fail", selector);
        if matches {
            set(&mut entry, "matchConditions", json!([{"name": "changes-spec", "expression": CHANGES_SPEC}]));
        }
        entry
    };
    let has_name_labels = tenants.labels("kube-system").is_none_or(|labels| labels.contains_key(NAME_LABEL));
    let mut entries = Vec::new();
    if rules.is_empty() {
        // Nothing is charged.
    } else if !names.is_empty() && !has_name_labels || selectors.len() > MAX_ENTRIES {
        entries.push(charged("quota.headroom.dev", json!({"matchExpressions": [not_exempt]})));
    } else {
        if !names.is_empty() {
            let names = json!({"matchExpressions": [{"key": NAME_LABEL, "operator": "In", "values": names}]});
            entries.push(charged("quota.headroom.dev", names));
        }
        let selectors = selectors.into_values().enumerate();
        entries.extend(selectors.map(|(at, selector)| charged(&format!("quota-{at}.headroom.dev"), selector)));
    }
    // Problems of a quota are in its status too, so requests must not fail if this webhook is down.
    let of_quotas = json!({"apiGroups": ["headroom.dev"], "apiVersions": ["*"], "resources": ["tenantquotas"],
        "operations": ["CREATE", "UPDATE"], "scope": "Cluster"});
    entries.push(entry("tenantquotas.headroom.dev", &[of_quotas], "Ignore", json!({})));
    entries
}

/// Rules for the charged kinds, limited to operations that can raise usage.
fn rules(nodes: Vec<PlanNode>) -> Vec<Value> {
    let has_deadline_scope =
        nodes.iter().flat_map(|node| &node.requirements).any(|requirement| requirement.key.ends_with("Terminating"));
    let kinds = Plan { nodes, ..Plan::default() }.kinds();
    let mut rules = Vec::new();
    let mut add = |group: &str, resource: &str, operations: &[&str]| {
        rules.push(json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
            "operations": operations, "scope": "Namespaced"}));
    };
    for kind in &kinds {
        let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
        if kind == "pods" {
            add("", "pods", if has_deadline_scope { &["CREATE", "UPDATE"] } else { &["CREATE"] });
            add("", "pods/resize", &["UPDATE"]);
        } else {
            let is_counted = ChargedKind::from_qualified(kind).measure == Measure::Count;
            add(group, resource, if is_counted { &["CREATE"] } else { &["CREATE", "UPDATE"] });
        }
    }
    rules
}

fn secrets(namespace: &str) -> ApiPath {
    ApiPath::new("/api/v1").collection(Some(namespace), "secrets")
}

fn field(secret: &Value, name: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret.get("data")?.get(name)?.as_str()?).ok()
}

/// Uses the certificate in the Secret.
pub async fn use_certificate(replica: &Replica) -> ApiResult<()> {
    let secret = replica.api.find(&secrets(&replica.options.namespace).at(SECRET)).await?.unwrap_or_default();
    let (Some(certificate), Some(key)) = (field(&secret, "tls.crt"), field(&secret, "tls.key")) else {
        return Err(ApiError::Other(NO_CERTIFICATE.to_owned()));
    };
    let used = replica.certificate.set(&certificate, &key);
    used.map_err(|error| ApiError::Other(format!("secret {SECRET}: {error:#}")))
}

/// Only the last of the trusted authorities is still in use.
fn last_of(authorities: &[u8]) -> String {
    let authorities = String::from_utf8_lossy(authorities);
    let last = authorities.rfind("-----BEGIN CERTIFICATE-----").and_then(|begin| authorities.get(begin..));
    last.unwrap_or_default().to_owned()
}

/// Makes a certificate if there is none, and renews it in time. Returns the authorities to trust.
async fn keep_certificate(replica: &Replica, webhook: &Webhook, trusted: Option<&str>) -> ApiResult<Vec<u8>> {
    let namespace = &replica.options.namespace;
    let path = secrets(namespace);
    let existing = replica.api.find(&path.at(SECRET)).await?;
    let annotation = |name: &str| existing.as_ref()?.pointer("/metadata/annotations")?.get(name)?.as_str();
    let since = |name: &str| -> Option<i64> { annotation(name)?.parse().ok() };
    let now = replica.now().await;
    let get = |name: &str| existing.as_ref().and_then(|secret| field(secret, name)).unwrap_or_default();
    let keep = |name: &str| STANDARD.encode(get(name));
    // The host names that API servers connect to. A URL has an IPv6 address in brackets.
    let url = webhook.url.as_deref().and_then(|url| url.parse::<http::Uri>().ok());
    let host = url.as_ref().and_then(http::Uri::host).map(|host| host.trim_matches(['[', ']']).to_owned());
    let names: Vec<String> = host.into_iter().chain([format!("{}.{namespace}.svc", webhook.service)]).collect();
    let make = || {
        tls::make(&names, now, DAYS).map_err(|error| ApiError::Other(format!("cannot make a certificate: {error:#}")))
    };
    const MADE: &str = "headroom.dev/made-at";
    const NEXT: &str = "headroom.dev/next-made-at";
    const NAMES: &str = "headroom.dev/names";
    let for_names = names.join(",");
    // Nobody accepts one that has expired, that has other names or another authority, or that was made by a clock which was
    // wrong: it need not wait for its successor.
    let problem =
        tls::verify(&get("tls.crt"), &get("tls.key"), &get("ca.crt"), now).err().map(|error| format!("{error:#}"));
    let is_valid = problem.is_none()
        && annotation(NAMES) == Some(for_names.as_str())
        && since(MADE).is_none_or(|made| (-DAY..DAYS * DAY).contains(&(now - made)));
    let (data, made_at, next_at) = match since(NEXT) {
        _ if !is_valid => {
            tracing::info!(problem, "making a certificate");
            let ServingCertificate { authority, certificate, key } = make()?;
            // Until they read the Secret again, replicas use a certificate that was deleted.
            let trusted = trusted.and_then(|trusted| STANDARD.decode(trusted).ok()).unwrap_or_default();
            let authorities = format!("{}{authority}", last_of(&trusted));
            let [authorities, certificate, key] = [authorities, certificate, key].map(|text| STANDARD.encode(text));
            (json!({"ca.crt": authorities, "tls.crt": certificate, "tls.key": key}), now, None)
        }
        // First publish the new authority; its certificate is used once API servers trust the authority.
        None if now - since(MADE).unwrap_or_default() > RENEWED_AFTER => {
            let ServingCertificate { authority, certificate, key } = make()?;
            let authorities = format!("{}{authority}", last_of(&get("ca.crt")));
            let data = json!({
                "ca.crt": STANDARD.encode(authorities), "tls.crt": keep("tls.crt"), "tls.key": keep("tls.key"),
                "next.crt": STANDARD.encode(certificate), "next.key": STANDARD.encode(key),
            });
            (data, since(MADE).unwrap_or_default(), Some(now))
        }
        Some(next) if (now - next).abs() > TRUSTED_AFTER => {
            (json!({"ca.crt": keep("ca.crt"), "tls.crt": keep("next.crt"), "tls.key": keep("next.key")}), next, None)
        }
        _ => return Ok(get("ca.crt")),
    };
    let next_at = next_at.map(|next| next.to_string());
    let annotations = [(MADE, Some(made_at.to_string())), (NEXT, next_at), (NAMES, Some(for_names))];
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data,
        "metadata": metadata(SECRET, existing.as_ref(), &annotations),
    });
    let written = match existing {
        Some(_) => replica.api.replace(&path.at(SECRET), &object).await?,
        None => create(replica, &path, &object).await?,
    };
    field(&written, "ca.crt").ok_or_else(|| ApiError::Other(format!("secret {SECRET} has no ca.crt")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenants::read_quota;

    /// The entries for TenantQuotas, and for namespaces with a ResourceQuota.
    fn entries(quotas: &[Value], plain: &[&str], matches: bool) -> Vec<Value> {
        let quotas: Vec<_> = quotas.iter().map(|quota| Arc::new(read_quota(quota).unwrap())).collect();
        let plan = |namespace: &&str| Plan::read(1, &["q 0 - services=1"], &[format!("{namespace} 0")]).unwrap();
        let client = json!({"url": "https://here/review"});
        super::entries(&quotas, plain.iter().map(plan), &Tenants::new("headroom", &[]), matches, &client)
    }

    #[test]
    fn only_charged_namespaces_and_growing_requests_match_the_webhook() {
        let quotas = [
            json!({"metadata": {"name": "a"}, "spec": {"namespaces": {"names": ["shop", "kube-system"]},
                "quota": {"hard": {"pods": "1", "count/jobs.batch": "2"}}}}),
            json!({"metadata": {"name": "b"}, "spec": {"namespaces": {"selector": {"matchLabels": {"team": "b"}}},
                "quota": {"hard": {"services": "1", "requests.storage": "1", "configmaps": "1",
                    "count/resourceclaims.resource.k8s.io": "1"}}}}),
        ];
        let entries = entries(&quotas, &[], false);
        let found: Vec<String> = entries
            .iter()
            .map(|entry| {
                let name = entry["name"].as_str().unwrap();
                format!("{name} {} {}", entry["failurePolicy"].as_str().unwrap(), entry["namespaceSelector"])
            })
            .collect();
        let exempt = r#"{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["headroom","kube-node-lease","kube-public","kube-system"]}"#;
        assert_eq!(
            found,
            [
                r#"quota.headroom.dev Fail {"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["shop"]}]}"#.to_owned(),
                format!(r#"quota-0.headroom.dev Fail {{"matchExpressions":[{{"key":"team","operator":"In","values":["b"]}},{exempt}]}}"#),
                "tenantquotas.headroom.dev Ignore {}".to_owned(),
            ]
        );
        let rules = entries[0]["rules"].as_array().unwrap();
        let found: Vec<String> = rules
            .iter()
            .map(|rule| format!("{}{} {}", rule["apiGroups"], rule["resources"], rule["operations"]))
            .collect();
        assert_eq!(
            found,
            [
                r#"[""]["configmaps"] ["CREATE"]"#,
                r#"["batch"]["jobs"] ["CREATE"]"#,
                r#"[""]["persistentvolumeclaims"] ["CREATE","UPDATE"]"#,
                r#"[""]["pods"] ["CREATE"]"#,
                r#"[""]["pods/resize"] ["UPDATE"]"#,
                r#"["resource.k8s.io"]["resourceclaims"] ["CREATE","UPDATE"]"#,
                r#"[""]["services"] ["CREATE","UPDATE"]"#,
            ]
        );
    }

    #[test]
    fn suspended_quotas_do_not_match_the_webhook_and_resource_quotas_match_by_namespace_name() {
        let quota = |name: &str, parent: Option<&str>, is_suspended: bool| {
            json!({"metadata": {"name": name}, "spec": {"parent": parent, "suspend": is_suspended,
                "namespaces": {"names": [name]}, "quota": {"hard": {"pods": "1"}}}})
        };
        let names = |quotas: &[Value], plain: &[&str]| {
            let entries = entries(quotas, plain, true);
            let first = &entries[0]["namespaceSelector"]["matchExpressions"][0]["values"];
            (entries.len(), first.clone(), entries[0]["matchConditions"][0]["name"].clone())
        };
        let all = [quota("above", None, false), quota("below", Some("above"), true), quota("alone", None, true)];
        // Requests charged to a suspended child are charged to its parent too.
        assert_eq!(names(&all, &[]), (2, json!(["above", "below"]), json!("changes-spec")));
        assert_eq!(names(&all[2..], &[]), (1, Value::Null, Value::Null));
        assert_eq!(names(&all[2..], &["shop"]), (2, json!(["shop"]), json!("changes-spec")));
    }

    #[test]
    fn match_conditions_are_used_only_if_the_server_supports_them() {
        let check = |major: &str, minor: &str, expected: bool| {
            assert_eq!(knows_matches(&json!({"major": major, "minor": minor})), expected, "{major}.{minor}");
        };
        check("1", "20", false);
        check("1", "29+", false);
        check("1", "30+", true);
        check("1", "36", true);
        check("2", "0", true);
        check("1", "", false);
    }

    #[test]
    fn metadata_of_others_is_kept() {
        let existing = json!({"metadata": {"name": "n", "resourceVersion": "7", "uid": "u", "labels": {"by": "Helm"},
            "annotations": {"release": "headroom", "made": "1", "next": "2"}}});
        assert_eq!(
            metadata("n", Some(&existing), &[("made", Some("3".to_owned())), ("next", None)]),
            json!({"name": "n", "resourceVersion": "7", "labels": {"by": "Helm"},
                "annotations": {"release": "headroom", "made": "3"}})
        );
        let new = json!({"name": "n", "resourceVersion": null, "labels": null, "annotations": {}});
        assert_eq!(metadata("n", None, &[]), new);
    }

    #[test]
    fn a_configuration_is_written_only_if_something_of_ours_is_missing() {
        let wanted = json!([{"name": "a", "rules": [{"resources": ["pods"]}]}]);
        assert!(is_within(&wanted, &json!([{"name": "a", "rules": [{"resources": ["pods"], "scope": "*"}], "x": 1}])));
        assert!(!is_within(&wanted, &json!([{"name": "a", "rules": [{"resources": ["pods", "services"]}]}])));
        assert!(!is_within(&wanted, &json!([])));
        let labelled = json!({"metadata": {"name": "a"}, "spec": {"quota": {"hard": {"pods": "1"}},
            "namespaces": {"selector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}}});
        let selector = &entries(&[labelled], &[], false)[0]["namespaceSelector"]["matchExpressions"][0];
        assert_eq!(*selector, json!({"key": "team", "operator": "Exists"}), "as the API server stores it");
        // Whoever adds to a selector takes namespaces or objects out.
        let wanted = json!(entries(&[], &["shop"], false));
        assert!(is_within(&wanted, &wanted));
        for selector in ["namespaceSelector", "objectSelector"] {
            let mut stored = wanted.clone();
            stored[0][selector]["matchLabels"] = json!({"not": "there"});
            assert!(!is_within(&wanted, &stored), "{selector}");
        }
    }
}
