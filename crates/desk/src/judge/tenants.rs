//! TenantQuotas, judged by the ledger's own functions: what it would say to a request, by what its status says is used.
//! Where nobody has counted, as in files, the objects around are.

use headroom_core::amount::{Quantity, ResourceList};
use headroom_core::json::{Document, Malformed};
use headroom_core::request::Request;
use headroom_core::timestamp::Timestamp;
use headroom_ledger::ask::{self, Ask};
use headroom_ledger::cache::Stored;
use headroom_ledger::message::{self, Consumers};
use headroom_ledger::selector::Labels;
use headroom_ledger::tenant_quota::{NEVER_CHARGED, TenantQuota};
use headroom_ledger::tree::trees;
use headroom_ledger::{Book, Cache, Key, Plan, Shape, State, Verdict};
use serde_json::{Value, json};

use super::judgement::{Amount, Charge};
use super::request;
use crate::clock;
use crate::kinds::{ApiKind, metadata};
use crate::surroundings::folder::amounts;
use crate::surroundings::{Overlay, Surroundings, is_of_unknown_kind};

pub const TENANT_QUOTA: (&str, &str) = ("headroom.dev/v1alpha1", "TenantQuota");

/// What TenantQuotas say to a request.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the ledger's words.
    pub refusals: Vec<String>,
    pub charges: Vec<Charge>,
}

/// Whether there are TenantQuotas that may be read; those that nobody has counted are.
pub fn prepare(around: &mut Overlay) -> Result<bool, String> {
    let quotas = match around.list(TENANT_QUOTA.0, TENANT_QUOTA.1, None) {
        Ok(quotas) => quotas,
        Err(problem) if is_of_unknown_kind(&problem) => Vec::new(),
        Err(problem) => return Err(format!("TenantQuotas are not checked: {problem}")),
    };
    let is_counted = |quota: &Value| quota.pointer("/status/used").is_some_and(Value::is_object);
    if !quotas.iter().all(is_counted) {
        let counted = count(&quotas, around)?;
        for (mut quota, status) in quotas.iter().cloned().zip(counted).filter(|(quota, _)| !is_counted(quota)) {
            if let (Some(status), Value::Object(fields)) = (status, &mut quota) {
                fields.insert("status".to_owned(), status);
                around.put(quota).map_err(|malformed| malformed.to_string())?;
            }
        }
    }
    Ok(!quotas.is_empty())
}

/// Settings by which the pods of workloads are held against TenantQuotas too.
pub fn heeded(settings: &str) -> String {
    // OK because they are valid JSON.
    let mut settings: Value = serde_json::from_str(settings).unwrap_or_default();
    if settings.is_null() {
        settings = json!({});
    }
    if let Value::Object(fields) = &mut settings
        && let Value::Object(quotas) = fields.entry("quotas").or_insert_with(|| json!({}))
        && ["mode", "workloads"].iter().all(|mode| quotas.get(*mode).is_none_or(|mode| mode != "off"))
    {
        quotas.entry("tenantQuotas").or_insert(json!(true));
    }
    settings.to_string()
}

/// The status of each quota as the ledger would write it; none of one that is not valid.
fn count(objects: &[Value], around: &mut Overlay) -> Result<Vec<Option<Value>>, String> {
    let quotas = read(objects)?;
    let mut namespaces = std::collections::BTreeMap::new();
    let listed = around.list("v1", "Namespace", None)?;
    let named = quotas.iter().flat_map(|quota| quota.names.iter().cloned());
    for name in listed.iter().map(|namespace| metadata(namespace, "name").to_owned()).chain(named) {
        let labels = labels(&name, around)?;
        namespaces.insert(name, labels);
    }
    namespaces.retain(|name, _| !NEVER_CHARGED.contains(&name.as_str()));
    let now = Timestamp::from_unix_seconds(clock::now());
    let mut statuses = vec![None; objects.len()];
    for tree in trees(&quotas).0 {
        let plan = Plan::of_tree(&tree, &namespaces);
        let mut cache = Cache::default();
        let kinds =
            plan.nodes.iter().flat_map(|node| node.hard.names()).filter_map(|name| ApiKind::charged_under(name));
        for kind in kinds {
            let qualified = kind.qualified();
            if cache.revision(&qualified).is_some() {
                continue;
            }
            cache.advance(&qualified, 1);
            for namespace in plan.namespaces.keys() {
                for object in around.list(&kind.api_version(), &kind.kind, Some(namespace))? {
                    let text = object.to_string();
                    let document = Document::read(&text).map_err(|error| error.to_string())?;
                    let shape =
                        Shape::of_stored(&qualified, document.root(), now).map_err(|error| error.to_string())?;
                    let key = Key::new(&qualified, namespace, metadata(&object, "name"));
                    cache.put(key, Stored { uid: String::new(), version: 1, shape: shape.into(), ends: None });
                }
            }
        }
        for ((quota, _), used) in tree.quotas.iter().zip(cache.count(&plan)) {
            let at = objects.iter().position(|object| metadata(object, "name") == quota.name);
            if let Some(status) = at.and_then(|at| statuses.get_mut(at)) {
                *status = Some(json!({"hard": amounts(&quota.quota.spec_hard), "used": amounts(&used)}));
            }
        }
    }
    Ok(statuses)
}

fn read(objects: &[Value]) -> Result<Vec<TenantQuota>, String> {
    let one = |object: &Value| {
        let text = object.to_string();
        let document = Document::read(&text).map_err(|error| error.to_string())?;
        TenantQuota::read(document.root())
            .map_err(|malformed| format!("TenantQuota {}: {malformed}", metadata(object, "name")))
    };
    objects.iter().map(one).collect()
}

/// The labels of a namespace; one that nobody describes has only its name.
fn labels(namespace: &str, around: &mut Overlay) -> Result<Labels, String> {
    let object = around.get("v1", "Namespace", None, namespace)?.unwrap_or_default();
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let mut labels: Labels = labels.into_iter().flatten().filter_map(text).collect();
    labels.entry("kubernetes.io/metadata.name".to_owned()).or_insert_with(|| namespace.to_owned());
    Ok(labels)
}

/// What the ledger would say to a request that makes `object` of it. To be asked after [`prepare`].
pub fn judge(request: &Value, object: &Value, around: &mut Overlay) -> Result<Outcome, String> {
    let namespace = request.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    if namespace.is_empty() || NEVER_CHARGED.contains(&namespace.as_str()) {
        return Ok(Outcome::default());
    }
    let objects = around.list(TENANT_QUOTA.0, TENANT_QUOTA.1, None)?;
    let quotas = read(&objects)?;
    let namespaces = [(namespace.clone(), labels(&namespace, around)?)].into();
    let text = as_reviewed(request, object).to_string();
    let document = Document::read(&text).map_err(|error| error.to_string())?;
    let request = Request::read(document.root()).map_err(|error| error.to_string())?;
    let Some(ask) = Ask::of(&request, String::new).map_err(|error| error.to_string())? else {
        return Ok(Outcome::default());
    };
    let mut outcome = Outcome::default();
    for tree in trees(&quotas).0 {
        let plan = Plan::of_tree(&tree, &namespaces);
        if !plan.namespaces.contains_key(&namespace) || !ask.grows(&plan) {
            continue;
        }
        add(&request, &ask, &plan, &objects, &mut outcome).map_err(|malformed| malformed.to_string())?;
    }
    Ok(outcome)
}

fn add(
    request: &Request<'_>,
    ask: &Ask,
    plan: &Plan,
    objects: &[Value],
    outcome: &mut Outcome,
) -> Result<(), Malformed> {
    let status = |quota: &str, field: &str| {
        let object = objects.iter().find(|object| metadata(object, "name") == quota);
        list(object.and_then(|object| object.pointer("/status")?.get(field)))
    };
    let used: Vec<ResourceList<'static>> = plan
        .nodes
        .iter()
        .map(|node| {
            let mut used = status(&node.quota, "used");
            used.add_all(&status(&node.quota, "reserved"));
            used
        })
        .collect();
    let name = headroom_core::cut::shortened(&ask.key.name).into_owned();
    let faults = ask::faults(request, plan)?;
    if !faults.is_empty() {
        outcome.refusals.push(format!("{} \"{name}\" is forbidden: {}", ask.key.kind, faults.join("; ")));
        return Ok(());
    }
    let mut book = Book::open(plan, State { used: used.clone(), ..State::default() });
    let consumers = |quota: &str, name: &str| {
        let of = |field: &str| {
            let object = objects.iter().find(|object| metadata(object, "name") == quota);
            let shares = object.and_then(|object| object.pointer("/status")?.get(field)?.as_array());
            Consumers::shares(shares.into_iter().flatten().filter_map(|share| {
                Some((share.get("name")?.as_str()?.to_owned(), list(share.get("used")).get(name)?.clone()))
            }))
        };
        Consumers { namespaces: of("namespaces"), children: of("children") }
    };
    match book.reserve(ask) {
        Verdict::Granted => {}
        Verdict::Refused(refusal) => {
            outcome.refusals.push(message::refusal("tenant quota", &ask.key, plan, &refusal, &consumers));
        }
        // Nothing else is under way here.
        Verdict::Busy(_) => {}
    }
    for ((node, held), used) in plan.nodes.iter().zip(book.held()).zip(&used) {
        let added: Vec<Amount> = held
            .beside(used)
            .filter_map(|(name, held, used)| {
                let (before, hard) = (used?, node.hard.get(name)?);
                (held != before).then(|| Amount {
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
            outcome.charges.push(Charge { quota: node.quota.clone(), is_tenant: true, added });
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
    if let Value::Object(fields) = &mut review {
        fields.insert("object".to_owned(), object);
        if let Some(old) = fields.get_mut("oldObject").filter(|old| old.is_object()) {
            fill(old, "resourceVersion", "1".to_owned());
        }
    }
    review
}

fn list(amounts: Option<&Value>) -> ResourceList<'static> {
    let amount =
        |(name, amount): (&String, &Value)| Some((name.clone().into(), amount.as_str()?.parse::<Quantity>().ok()?));
    amounts.and_then(Value::as_object).into_iter().flatten().filter_map(amount).collect()
}
