//! Evaluates TenantQuotas by the ledger's own functions and by the usage in their status. Without a status, as in files, the
//! objects are counted.

use std::collections::BTreeSet;

use headroom_admission::amount::ResourceList;
use headroom_admission::cluster::label_selector::Labels;
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::cluster::tenant_quota::{NEVER_CHARGED, TenantQuota};
use headroom_admission::json::{Document, Malformed};
use headroom_admission::quota::charged_names::RESOURCE_CLAIMS;
use headroom_admission::quota::{Bounds, forecast};
use headroom_admission::request::rollout::rollout;
use headroom_admission::request::{Pod, Request};
use headroom_admission::timestamp::Timestamp;
use headroom_quota_protocol::message::{self, Consumers};
use headroom_quota_protocol::plan::PlanNode;
use headroom_quota_protocol::reservation_request::{self, DeviceObjects, ReservationRequest, owner_in};
use headroom_quota_protocol::tree::trees;
use headroom_quota_protocol::{LedgerVerdict, OpenLedger, Plan, State};
use serde_json::{Value, json};

use super::object_decision::{ChargedAmount, ObjectCharge};
use super::request;
use crate::Overlay;
use crate::overlay::quota_status;
use crate::overlay::tenants::{TENANT_QUOTA, labels, read};
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::cluster_reader::folder::amounts;
use headroom_objects::kinds::{amounts_at, metadata, set, shares_at, text};
use headroom_objects::{clock, document};
use headroom_workloads::kinds::served;

#[derive(Debug, Default)]
pub struct TenantOutcome {
    /// In the quota server's words: each refusal, and the advice on it.
    pub refusals: Vec<Vec<String>>,
    /// Also those that there is no room for.
    pub charges: Vec<ObjectCharge>,
}

/// Returns true if there are TenantQuotas; those without a status are counted.
pub fn prepare(cluster: &mut Overlay) -> Result<bool, String> {
    let quotas = served(cluster.list((TENANT_QUOTA.0, TENANT_QUOTA.1, None)));
    let quotas = quotas.map_err(|problem| format!("TenantQuotas are not checked: {problem}"))?.unwrap_or_default();
    let is_counted = |quota: &Value| quota.pointer("/status/used").is_some_and(Value::is_object);
    if !quotas.iter().all(is_counted) {
        for (name, status) in count(&quotas, cluster)? {
            let is_it = |quota: &&Value| metadata(quota, "name") == name && !is_counted(quota);
            if let Some(mut quota) = quotas.iter().find(is_it).cloned() {
                set(&mut quota, "status", status);
                cluster.put(quota).map_err(|malformed| malformed.to_string())?;
            }
        }
    }
    Ok(!quotas.is_empty())
}

/// The name and status of each quota as the ledger would write it; not of one that is not valid.
fn count(objects: &[Value], cluster: &mut Overlay) -> Result<Vec<(String, Value)>, String> {
    let quotas = read(objects)?;
    let namespaces = chargeable(&quotas, cluster)?;
    let mut statuses = Vec::new();
    for tree in trees(&quotas).0 {
        let plan = Plan::of_tree(&tree, &namespaces);
        let used = quota_status::cache(&plan, cluster)?.count(&plan);
        statuses.extend(tree.quotas.iter().zip(used).map(|((quota, _), used)| {
            (quota.name().to_owned(), json!({"hard": amounts(&quota.quota.spec_hard), "used": amounts(&used)}))
        }));
    }
    Ok(statuses)
}

/// The namespaces that there are and those that quotas name, as far as any may be charged, with their labels.
fn chargeable(quotas: &[TenantQuota<'_>], cluster: &mut Overlay) -> Result<Vec<(String, Labels)>, String> {
    let listed = cluster.list(("v1", "Namespace", None))?;
    let named = quotas.iter().flat_map(|quota| quota.names.iter().map(AsRef::as_ref));
    let names = listed.iter().map(|namespace| metadata(namespace, "name")).chain(named);
    names
        .filter(|name| !NEVER_CHARGED.contains(name))
        .map(|name| Ok((name.to_owned(), labels(name, cluster)?)))
        .collect()
}

/// These namespaces, and those that are charged to a tree of quotas together with one of them.
pub fn charged_together(namespaces: &[String], cluster: &mut Overlay) -> Result<Vec<String>, String> {
    // Who may not read TenantQuotas cannot size them either.
    let objects = cluster.list((TENANT_QUOTA.0, TENANT_QUOTA.1, None)).unwrap_or_default();
    let mut found: BTreeSet<String> = namespaces.iter().cloned().collect();
    let all = if objects.is_empty() { Vec::new() } else { chargeable(&[], cluster)? };
    for tree in trees(&read(&objects)?).0 {
        let plan = Plan::of_tree(&tree, &all);
        if plan.namespaces.keys().any(|name| namespaces.contains(name)) {
            found.extend(plan.namespaces.into_keys());
        }
    }
    Ok(found.into_iter().collect())
}

/// Decides like the quota server on a request whose object admission changes to `object`; none if its namespace is charged to no
/// TenantQuota. Needs [`prepare`] first.
pub fn evaluate(request: &Value, object: &Value, cluster: &mut Overlay) -> Result<Option<TenantOutcome>, String> {
    let namespace = text(request, "/namespace");
    let plans = (!namespace.is_empty()).then(|| cluster.tenant_plans(namespace)).transpose()?;
    let Some(plans) = plans.filter(|plans| !plans.is_empty()) else { return Ok(None) };
    let document = document(&as_reviewed(request, object))?;
    let request = Request::read(document.root()).map_err(|error| error.to_string())?;
    let mut outcome = TenantOutcome::default();
    let Some(mut reservation) = ReservationRequest::of(&request, String::new).map_err(|error| error.to_string())?
    else {
        return Ok(Some(outcome));
    };
    if reservation.key.kind == RESOURCE_CLAIMS {
        charge_devices(&request, &mut reservation, cluster)?;
    }
    for plan in plans.iter().filter(|plan| reservation.grows(plan)) {
        let objects = objects_of(plan, cluster)?;
        add(&request, &reservation, plan, &objects, &mut outcome).map_err(|malformed| malformed.to_string())?;
    }
    Ok(Some(outcome))
}

fn objects_of(plan: &Plan, cluster: &mut Overlay) -> Result<Vec<Value>, String> {
    let get = |node: &PlanNode| cluster.get((TENANT_QUOTA.0, TENANT_QUOTA.1, None), &node.quota).transpose();
    Ok(plan.nodes.iter().filter_map(get).collect::<Result<_, _>>()?)
}

/// Charges a resource claim for its devices, as far as the classes and the pod are known.
fn charge_devices(
    request: &Request<'_>,
    reservation: &mut ReservationRequest,
    cluster: &mut Overlay,
) -> Result<(), String> {
    let mut list = |kind: &str, namespace: Option<&str>| {
        let objects = served(cluster.list(("resource.k8s.io/v1", kind, namespace)))?;
        document(&json!({"items": objects.unwrap_or_default()}))
    };
    let classes = list("DeviceClass", None)?;
    let claims = list("ResourceClaim", Some(&request.namespace))?;
    let pod = match owner_in(request).map_err(|malformed| malformed.to_string())? {
        Some((name, _)) => cluster.get(("v1", "Pod", Some(&request.namespace)), &name)?,
        None => None,
    };
    let pod = pod.as_ref().map(document).transpose()?;
    let found =
        DeviceObjects { classes: classes.root(), pod: pod.as_ref().map(Document::root), claims: Some(claims.root()) };
    reservation.charge_devices(request, &found).map_err(|malformed| malformed.to_string())
}

/// Checks the pods of a workload: `new` is one as it would be made, `old` one as it was made before.
pub fn forecast(
    request: &Value,
    new: &Value,
    old: Option<&Value>,
    cluster: &mut Overlay,
) -> Result<TenantOutcome, String> {
    let namespace = text(request, "/namespace");
    let (request, new, old) = (document(request)?, document(new)?, old.map(document).transpose()?);
    let quotas = bounding(namespace, cluster)?;
    let malformed = |error: Malformed| error.to_string();
    let request = Request::read(request.root()).map_err(malformed)?;
    let Some(rollout) = rollout(&request).map_err(malformed)? else { return Ok(TenantOutcome::default()) };
    let new = Pod::read(new.root(), None).map_err(malformed)?;
    let old = old.as_ref().map(|old| Pod::read(old.root(), None)).transpose().map_err(malformed)?;
    let bounds = Bounds { quotas: &quotas, limited_resources: &[], now: Timestamp::from_unix_seconds(clock::now()) };
    let found = forecast::check(&rollout, &new, old.as_ref(), &bounds, &[]).map_err(malformed)?;
    Ok(TenantOutcome {
        refusals: found.breaches.iter().map(|breach| vec![breach.advice()]).collect(),
        charges: found.charges.iter().map(ObjectCharge::of).collect(),
    })
}

/// The quotas in force that a namespace is charged to, as ResourceQuotas of which all is used that is counted or reserved.
fn bounding(namespace: &str, cluster: &mut Overlay) -> Result<Vec<ResourceQuota<'static>>, String> {
    let mut bounding = Vec::new();
    for plan in cluster.tenant_plans(namespace)?.iter() {
        let objects = objects_of(plan, cluster)?;
        let quotas = plan.enforced_nodes(namespace).map(|node| node.as_quota(held(&node.quota, &objects)).into_owned());
        bounding.extend(quotas.map(|quota| ResourceQuota { is_tenant: true, ..quota }));
    }
    Ok(bounding)
}

/// The sum of used and reserved amounts in a quota's status.
fn held(quota: &str, objects: &[Value]) -> ResourceList<'static> {
    let Some(quota) = objects.iter().find(|object| metadata(object, "name") == quota) else {
        return ResourceList::default();
    };
    let mut held = amounts_at(quota, "/status/used");
    held.add_all(&amounts_at(quota, "/status/reserved"));
    held
}

fn add(
    request: &Request<'_>,
    reservation: &ReservationRequest,
    plan: &Plan,
    objects: &[Value],
    outcome: &mut TenantOutcome,
) -> Result<(), Malformed> {
    let used: Vec<ResourceList<'static>> = plan.nodes.iter().map(|node| held(&node.quota, objects)).collect();
    let name = headroom_admission::truncate::shortened(&reservation.key.name).into_owned();
    let mut faults = reservation_request::faults(request, plan)?;
    let is_faulty = !faults.is_empty();
    if let Some(first) = faults.first_mut() {
        first.insert_str(0, &format!("{} \"{name}\" is forbidden: ", reservation.key.kind));
        outcome.refusals.push(faults);
    }
    let mut open = OpenLedger::new(plan, State { used: used.clone(), ..State::default() });
    let consumers = |quota: &str, name: &str| {
        let object = objects.iter().find(|object| metadata(object, "name") == quota);
        let of = |at: &str| Consumers::shares(object.into_iter().flat_map(|object| shares_at(object, at, name)));
        Consumers { namespaces: of("/status/namespaces"), children: of("/status/children") }
    };
    let exceeding = ReservationRequest { may_exceed: true, ..reservation.clone() };
    match open.reserve(if is_faulty { &exceeding } else { reservation }) {
        LedgerVerdict::Granted => {}
        LedgerVerdict::Refused(refusal) => {
            outcome.refusals.push(message::refusal_parts("tenant quota", &reservation.key, plan, &refusal, &consumers));
            open.reserve(&exceeding);
        }
        LedgerVerdict::TooLarge(_) if is_faulty => {}
        LedgerVerdict::TooLarge(too_large) => {
            outcome.refusals.push(vec![message::too_large(&reservation.key, &too_large)])
        }
        // No other request is in progress here.
        LedgerVerdict::Retry(_) => {}
    }
    for ((node, held), used) in plan.nodes.iter().zip(open.usage_with_claims()).zip(&used) {
        let added: Vec<ChargedAmount> = held
            .paired_with(used)
            .filter_map(|(name, held, used)| {
                let (before, hard) = (used?, node.hard.get(name)?);
                (held != before).then(|| ChargedAmount {
                    name: name.to_string(),
                    before: before.to_string(),
                    added: held.minus(before).to_string(),
                    used: held.to_string(),
                    hard: hard.to_string(),
                    left: hard.minus(held).to_string(),
                })
            })
            .collect();
        if !added.is_empty() {
            outcome.charges.push(ObjectCharge { quota: node.quota.clone(), is_tenant: true, added });
        }
    }
    Ok(())
}

/// The request as the ledger's webhook would get it: with what the API server has given the object by then.
fn as_reviewed(request: &Value, object: &Value) -> Value {
    let mut review = request.clone();
    let mut object = object.clone();
    let fill = |object: &mut Value, field: &str, value: String| {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.entry(field).or_insert_with(|| json!(value));
        }
    };
    let name = format!("{}xxxxx", metadata(&object, "generateName"));
    fill(&mut object, "name", name);
    // Unlike the review's own, by which an audit is known.
    fill(&mut object, "uid", format!("{}1", request::UID));
    set(&mut review, "object", object);
    if let Some(old) = review.get_mut("oldObject") {
        fill(old, "resourceVersion", "1".to_owned());
    }
    review
}

#[cfg(test)]
mod tests {
    use super::super::{Admission, ObjectDecision, Run, Verdict};
    use super::*;
    use headroom_objects::cluster_reader::folder::{Folder, in_namespace};

    fn tenant_quota(name: &str, parent: Option<&str>, pods: &str, status: Value) -> Value {
        json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": name},
            "spec": {"parent": parent, "namespaces": {"names": ["shop", "web"]}, "quota": {"hard": {"pods": pods}}},
            "status": status})
    }

    fn pod(namespace: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [{"name": "a", "image": "a"}]}})
    }

    fn deployment(replicas: u32) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas,
            "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}})
    }

    fn run(objects: Vec<Value>) -> Run {
        let folder = Folder::with(objects.into_iter().map(|object| in_namespace(object, "shop"))).unwrap();
        Run::new(Overlay::new(folder, None), Admission::of_settings(&json!({"estimates": {"mode": "never"}})), "shop")
    }

    fn outcome(decision: &ObjectDecision) -> (Verdict, Vec<String>) {
        (decision.verdict, decision.reasons.iter().map(|reason| reason.text()).collect())
    }

    #[test]
    fn a_pod_is_refused_in_the_words_of_the_webhook() {
        let status = json!({"hard": {"pods": "4"}, "used": {"pods": "2"}, "reserved": {"pods": "1"},
            "namespaces": [{"name": "web", "used": {"pods": "2"}}]});
        let mut run = run(vec![tenant_quota("payments", None, "4", status)]);
        assert_eq!(outcome(&run.evaluate(&pod("shop", "a"))), (Verdict::Admitted, Vec::new()));
        let text = "pods \"b\" is forbidden: exceeded quota: payments, requested: pods=1, used: pods=4, limited: pods=4; tenant \
            quota payments: pods short by 1 (0 available); top namespaces: web 2";
        assert_eq!(outcome(&run.evaluate(&pod("web", "b"))), (Verdict::Rejected, vec![text.to_owned()]));
        assert_eq!(outcome(&run.evaluate(&pod("other", "c"))), (Verdict::Admitted, Vec::new()));
        assert_eq!(outcome(&run.evaluate(&pod("kube-system", "d"))), (Verdict::Admitted, Vec::new()));
    }

    #[test]
    fn the_author_of_a_workload_is_told_what_its_pods_would_meet() {
        let mut run = run(vec![
            tenant_quota("acme", None, "5", json!({"used": {"pods": "2"}})),
            tenant_quota("payments", Some("acme"), "9", json!({"used": {"pods": "2"}})),
        ]);
        let decision = run.evaluate(&deployment(5));
        assert_eq!(decision.verdict, Verdict::PodsBlocked);
        let text = "only 3 of 5 replicas fit tenant quota \"acme\": pods short by 2 (3 available)";
        assert!(decision.warnings.iter().any(|warning| warning.text.starts_with(text)), "{:?}", decision.warnings);
        // They have taken their part of both by then.
        let text = "exceeded quota: acme, requested: pods=1, used: pods=";
        let (verdict, reasons) = outcome(&run.evaluate(&pod("web", "a")));
        assert!(verdict == Verdict::Rejected && reasons[0].contains(text), "{reasons:?}");
    }

    #[test]
    fn namespaces_that_the_ledger_exempts_are_not_evaluated() {
        let status = json!({"hard": {"pods": "1"}, "used": {"pods": "1"}, "exemptNamespaces": ["web"]});
        let mut quota = tenant_quota("payments", None, "1", status);
        quota["spec"]["namespaces"] = json!({"selector": {}});
        let mut run = run(vec![quota]);
        let all = [("shop", Verdict::Rejected), ("web", Verdict::Admitted), ("kube-public", Verdict::Admitted)];
        for (namespace, verdict) in all {
            assert_eq!(run.evaluate(&pod(namespace, "a")).verdict, verdict, "{namespace}");
        }
    }

    #[test]
    fn a_quota_that_nobody_has_counted_is_counted_and_a_suspended_one_refuses_nothing() {
        let mut run = run(vec![tenant_quota("payments", None, "2", Value::Null), pod("shop", "a"), pod("web", "b")]);
        let (verdict, reasons) = outcome(&run.evaluate(&pod("shop", "c")));
        assert_eq!(verdict, Verdict::Rejected);
        assert!(reasons[0].contains("used: pods=2, limited: pods=2"), "{reasons:?}");
        let mut suspended = tenant_quota("payments", None, "2", Value::Null);
        suspended["spec"]["suspend"] = json!(true);
        assert_eq!(run.evaluate(&suspended).verdict, Verdict::Admitted);
        assert_eq!(outcome(&run.evaluate(&pod("shop", "c"))), (Verdict::Admitted, Vec::new()));
        let wrong = tenant_quota("wrong", Some("wrong"), "1.5", Value::Null);
        let (verdict, reasons) = outcome(&run.evaluate(&wrong));
        assert_eq!(verdict, Verdict::Invalid);
        assert!(reasons[0].contains("spec.parent: must not be the quota itself"), "{reasons:?}");
    }
}
