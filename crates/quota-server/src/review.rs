//! One admission review: the room that it needs in each ledger, and the response.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::json::{Document, Node};
use headroom_core::quota::charged_names::RESOURCE_CLAIMS;
use headroom_core::request::Request;
use headroom_objects::kinds::labels_of;
use headroom_tenant_quota::ledger::{OpenLedger, Refusal};
use headroom_tenant_quota::reservation_request::{self, RequestError, ReservationRequest};
use headroom_tenant_quota::state::Key;
use headroom_core::cluster::tenant_quota::TenantQuota;
use headroom_tenant_quota::tree::{ParentProblem, trees};
use headroom_tenant_quota::{Plan, Verdict, message};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::objects::{NAMESPACES, namespace_of};
use super::tenants::read_quota;
use super::writer::Answer;
use super::{Replica, devices};
use crate::ledger_cache::View;
use crate::random::token;
use headroom_kube::api_client::ApiError;

/// Less than the 10 s that the API server waits.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(7);
/// How long to wait until a replica that starts has read the cluster, and for the first plan of a namespace that a quota
/// selects.
const PLAN_TIMEOUT: Duration = Duration::from_secs(5);

/// The response to the API server.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Allowed,
    Refused(String),
    /// The client must retry, which Kubernetes' own clients do by themselves.
    Busy(String),
    /// The object itself is invalid.
    Invalid(String),
    /// The request lacks fields that every API server sets.
    Forged(String),
}

impl Reply {
    pub fn response(&self, uid: &str) -> Value {
        let denied = |code: u16, reason: &str, message: &str| {
            let mut status = json!({"code": code, "reason": reason, "message": message});
            if let (429, Value::Object(fields)) = (code, &mut status) {
                fields.insert("details".to_owned(), json!({"retryAfterSeconds": 1}));
            }
            json!({"uid": uid, "allowed": false, "status": status})
        };
        match self {
            Self::Allowed => json!({"uid": uid, "allowed": true}),
            Self::Refused(text) => denied(403, "Forbidden", text),
            Self::Busy(text) => denied(429, "TooManyRequests", text),
            Self::Invalid(text) => denied(422, "Invalid", text),
            Self::Forged(text) => denied(400, "BadRequest", text),
        }
    }
}

/// Answers the body of an AdmissionReview. An error is the message for an invalid body.
pub async fn answer(replica: &Arc<Replica>, body: &[u8]) -> Result<Value, String> {
    let wrong = |error: &dyn fmt::Display| format!("expected an AdmissionReview: {error}");
    let document = Document::read_bytes(body).map_err(|error| wrong(&error))?;
    let node = document.root().get("request").map_err(|error| wrong(&error))?;
    let node = node.ok_or("expected an AdmissionReview with a request")?;
    let request = Request::read(node).map_err(|error| wrong(&error))?;
    let reply = if request.is("headroom.dev", "tenantquotas", "") {
        quota(replica, &request)
    } else {
        let began = Instant::now();
        match reservation(replica, &request, node) {
            Ok(None) => Reply::Allowed,
            Ok(Some(reservation)) => {
                let review = Review { replica, request: &request, node, until: began + REVIEW_TIMEOUT };
                let reply = review.room(reservation).await;
                let result = match reply {
                    Reply::Allowed => "allowed",
                    Reply::Busy(_) => "busy",
                    _ => "rejected",
                };
                replica.metrics.reviewed(result, began.elapsed());
                reply
            }
            Err(reply) => reply,
        }
    };
    let response = reply.response(&request.uid);
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// Reviews a TenantQuota that is written.
fn quota(replica: &Replica, request: &Request<'_>) -> Reply {
    let Some(object) = request.object else { return Reply::Allowed };
    let quota = match TenantQuota::read(object.node) {
        Ok(quota) => quota.into_owned(),
        Err(malformed) => return Reply::Invalid(malformed.to_string()),
    };
    let mut problems: Vec<String> = quota.problems().iter().map(ToString::to_string).collect();
    let mut quotas = replica.tenants.quotas();
    let outside = quotas_outside_of_full_trees(&quotas);
    quotas.retain(|other| other.name() != quota.name());
    quotas.push(Arc::new(quota));
    // Whatever the newest quota is, the write that makes a tree too large is the one to be refused.
    let pushed_out = quotas_outside_of_full_trees(&quotas).into_iter().find(|(name, _)| !outside.contains_key(name));
    problems.extend(pushed_out.map(|(name, problem)| format!("spec.parent: quota {name}: {problem}")));
    if problems.is_empty() { Reply::Allowed } else { Reply::Invalid(problems.join("; ")) }
}

/// The quotas that are enforced without their parents because a tree is too large, and why.
fn quotas_outside_of_full_trees(quotas: &[Arc<TenantQuota<'static>>]) -> BTreeMap<String, ParentProblem> {
    let limits = trees(quotas).1.into_iter().filter(|(_, problem)| matches!(problem, ParentProblem::Limit(_)));
    limits.map(|(name, problem)| (name.to_owned(), problem)).collect()
}

/// The reservation that a request needs; none if it is not charged.
fn reservation(replica: &Replica, request: &Request<'_>, node: Node<'_>) -> Result<Option<ReservationRequest>, Reply> {
    if request.namespace.is_empty() || replica.tenants.is_exempt(&request.namespace) {
        return Ok(None);
    }
    let reservation = ReservationRequest::of(request, token).map_err(|unasked| match unasked {
        // The charge is unknown.
        RequestError::Malformed(_) => Reply::Invalid(unasked.to_string()),
        RequestError::MissingField(_) => Reply::Forged(unasked.to_string()),
    })?;
    let Some(mut reservation) = reservation else { return Ok(None) };
    if request.user.is_empty() {
        return Err(Reply::Forged("not a request of an API server: userInfo.username is missing".to_owned()));
    }
    reservation.may_exceed = is_in_one_of(node, &replica.options.exempt_groups);
    Ok(Some(reservation))
}

/// Returns true if the user of a request belongs to one of these groups.
fn is_in_one_of(request: Node<'_>, groups: &[String]) -> bool {
    let user = request.at(&["userInfo"]).ok().flatten();
    let members = user.and_then(|user| user.list("groups").ok()).into_iter().flatten();
    members.filter_map(|group| group.str().ok()).any(|group| groups.iter().any(|exempt| *exempt == group))
}

/// A review whose object is charged.
struct Review<'a, 'd> {
    replica: &'a Arc<Replica>,
    request: &'a Request<'d>,
    node: Node<'d>,
    /// After this time the client must retry.
    until: Instant,
}

impl Review<'_, '_> {
    /// Reserves room in each ledger that the object is charged to.
    async fn room(&self, reservation: ReservationRequest) -> Reply {
        let Self { replica, request, .. } = *self;
        let views = match covering(replica, &request.namespace).await {
            Ok(views) => views,
            Err(_) if reservation.may_exceed => return Reply::Allowed,
            Err(reply) => return reply,
        };
        let has_devices = reservation.key.kind == RESOURCE_CLAIMS
            && views.iter().any(|view| view.plan.shares_devices(&request.namespace));
        let uncharged = reservation;
        let mut reservation = uncharged.clone();
        if has_devices && let Err(reply) = self.charge_devices(&mut reservation).await {
            return reply;
        }
        let mut growing = Vec::new();
        for view in views.into_iter().filter(|view| reservation.grows(&view.plan)) {
            let faults = reservation_request::faults(request, &view.plan);
            let faults = faults.unwrap_or_else(|malformed| vec![malformed.to_string()]);
            if !faults.is_empty() && !reservation.may_exceed {
                let Key { kind, name, .. } = &reservation.key;
                return Reply::Refused(format!("{kind} \"{name}\" is forbidden: {}", faults.join("; ")));
            }
            growing.push(view);
        }
        if growing.is_empty() {
            return Reply::Allowed;
        }
        let is_dry_run = self.node.get("dryRun").ok().flatten().and_then(|dry| dry.bool().ok()).unwrap_or_default();
        if is_dry_run {
            return if reservation.may_exceed { Reply::Allowed } else { dry_run(replica, &reservation, &growing) };
        }
        self.reserve(&reservation, uncharged, &growing).await
    }

    /// `uncharged` is the reservation before its devices were charged.
    async fn reserve(
        &self,
        reservation: &ReservationRequest,
        uncharged: ReservationRequest,
        growing: &[View],
    ) -> Reply {
        let Self { replica, .. } = *self;
        let mut reserved = Reserved { replica, reservation, ledgers: Vec::new() };
        for view in growing {
            reserved.ledgers.push(&view.ledger);
            let reply = match replica.writers.reserve(&view.ledger, reservation.clone(), self.until).await {
                Answer::Granted => continue,
                // Too many claims, one that no ledger can hold, or the ledger is not writable: the object is counted once
                // it is stored.
                Answer::Busy(_) | Answer::Invalid(_) if reservation.may_exceed => continue,
                Answer::Refused { plan, refusal } => refused(replica, reservation, view, &plan, &refusal),
                Answer::Invalid(text) => Reply::Invalid(text),
                Answer::Busy(text) => Reply::Busy(text),
            };
            reserved.ledgers.pop();
            reserved.cancel().await;
            return reply;
        }
        // The claim has its pod's share only if the pod was stored, and the claim its first, when the room was reserved.
        if reservation.pod.is_some() {
            let mut again = uncharged;
            let is_same = self.charge_devices(&mut again).await.is_ok() && again == *reservation;
            if !is_same {
                reserved.cancel().await;
                return Reply::Busy("the claim's pod has changed, or has another claim; retry".to_owned());
            }
        }
        reserved.ledgers.clear();
        Reply::Allowed
    }

    /// Charges a resource claim for its devices.
    async fn charge_devices(&self, reservation: &mut ReservationRequest) -> Result<(), Reply> {
        let version = self.node.at(&["resource", "version"]).ok().flatten().and_then(|version| version.str().ok());
        let busy = |why: String| Reply::Busy(format!("device classes and pods: {why}; retry"));
        let found = tokio::time::timeout_at(self.until, async {
            let _turn = self.replica.device_reads.of(&self.request.namespace).await;
            devices::read(&self.replica.api, self.request, version.as_deref().unwrap_or("v1")).await
        });
        let found = found.await.map_err(|_| busy("too many claims of this namespace are waiting".to_owned()))?;
        let found = found.map_err(|failure| busy(failure.to_string()))?;
        found.charge(self.request, reservation).map_err(|malformed| Reply::Invalid(malformed.to_string()))
    }
}

/// The ledgers with room reserved for a request that has no response yet. An API server that gives up closes its
/// connection, which drops this future at any point. A response that is not delivered admits nothing, so the room is
/// given back.
struct Reserved<'a> {
    replica: &'a Replica,
    reservation: &'a ReservationRequest,
    ledgers: Vec<&'a str>,
}

impl Reserved<'_> {
    async fn cancel(mut self) {
        while let Some(ledger) = self.ledgers.last() {
            self.replica.writers.cancel(ledger, self.reservation.key.clone(), self.reservation.token.clone()).await;
            self.ledgers.pop();
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        for ledger in &self.ledgers {
            self.replica.writers.cancel_later(ledger, self.reservation.key.clone(), self.reservation.token.clone());
        }
    }
}

/// The ledgers that charge a namespace. Waits for a plan if one is due.
async fn covering(replica: &Arc<Replica>, namespace: &str) -> Result<Vec<View>, Reply> {
    let busy = |why: &str| Reply::Busy(format!("namespace {namespace}: {why}; retry"));
    let (mut changes, mut tenants) = (replica.ledgers.changes(), replica.tenants.changes());
    let deadline = Instant::now() + PLAN_TIMEOUT;
    // A replica that starts is called too: by an API server that knows its address from before.
    while !replica.is_ready() {
        let listed = async {
            tokio::select! {
                _ = changes.changed() => {}
                _ = tenants.changed() => {}
            }
        };
        if tokio::time::timeout_at(deadline, listed).await.is_err() {
            return Err(busy("the ledger is starting"));
        }
    }
    loop {
        let views = replica.ledgers.covering(namespace);
        if !views.is_empty() {
            return Ok(views);
        }
        let labels = match replica.tenants.labels(namespace) {
            Some(labels) => labels,
            // A new namespace that the watch has not delivered yet.
            None => match replica.api.get(&NAMESPACES.at(namespace)).await {
                Ok(object) => labels_of(&object),
                // The API server calls what cannot be a name invalid.
                Err(ApiError::NotFound(_) | ApiError::Invalid { .. }) => {
                    return Err(Reply::Forged(format!("namespace {namespace} does not exist")));
                }
                Err(failure) => return Err(busy(&format!("cannot be read ({failure})"))),
            },
        };
        if !replica.tenants.is_covered(namespace, &labels) {
            return Ok(Vec::new());
        }
        if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
            return Err(busy("its quotas are not in force yet"));
        }
    }
}

/// The verdict by the known state, without writing anything.
fn dry_run(replica: &Replica, reservation: &ReservationRequest, views: &[View]) -> Reply {
    for view in views {
        let mut open = OpenLedger::new(&view.plan, view.state.as_ref().clone());
        match open.reserve(reservation) {
            Verdict::Granted => {}
            Verdict::Refused(refusal) => return refused(replica, reservation, view, &view.plan, &refusal),
            Verdict::TooLarge(too_large) => return Reply::Invalid(message::too_large(&reservation.key, &too_large)),
            Verdict::Retry(busy) => return Reply::Busy(message::retry(&view.plan, &reservation.key, busy)),
        }
    }
    Reply::Allowed
}

fn refused(replica: &Replica, reservation: &ReservationRequest, view: &View, plan: &Plan, refusal: &Refusal) -> Reply {
    let is_plain = namespace_of(&view.ledger).is_some();
    let consumers = |quota: &str, name: &str| match replica.options.message_names && !is_plain {
        true => replica.tenants.consumers(quota, name),
        false => message::Consumers::default(),
    };
    let noun = if is_plain { "quota" } else { "tenant quota" };
    let mut text = message::refusal(noun, &reservation.key, plan, refusal, &consumers);
    if !refusal.waits_for.is_empty() {
        text.push_str(&message::until_released(replica.options.request_lifetime.as_secs()));
    }
    Reply::Refused(text)
}

/// All problems of a TenantQuota in a file.
pub fn problems_of(object: &Value) -> Vec<String> {
    match read_quota(object) {
        Ok(quota) => quota.problems().iter().map(ToString::to_string).collect(),
        Err(problem) => vec![problem],
    }
}
