//! One admission review: the room that it needs in each ledger, and the response.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headroom_admission::cluster::tenant_quota::TenantQuota;
use headroom_admission::json::{Document, Node};
use headroom_admission::quota::charged_names::RESOURCE_CLAIMS;
use headroom_admission::request::Request;
use headroom_api_server::random::token;
use headroom_objects::kinds::labels_of;
use headroom_quota_protocol::reservation_request::{self, RequestError, ReservationRequest};
use headroom_quota_protocol::state::ObjectKey;
use headroom_quota_protocol::tree::trees;
use headroom_quota_protocol::{LedgerVerdict, OpenLedger, Plan, message, placement};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::devices;
use crate::ledger_cache::View;
use crate::objects::{NAMESPACES, namespace_of};
use crate::replica::Replica;
use crate::writer::LedgerAnswer;
use headroom_api_server::api_client::ApiError;

/// After this time no more requests to the API server are begun for a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(7);
/// The time for the last of them. Less than the 10 s that the API server waits: clients retry what we answer, and not a webhook
/// without an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(9);
/// The time to wait until a replica that starts has read the cluster, and for the first plan of a namespace that a quota
/// selects.
const PLAN_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason for which a request is not allowed, as the API server reports it, each with its message.
enum Denial {
    Forbidden(String),
    /// The client must retry, which Kubernetes' own clients do by themselves.
    Busy(String),
    Invalid(String),
    /// The request lacks fields that every API server sets.
    Forged(String),
}

fn response(uid: &str, outcome: &Result<(), Denial>) -> Value {
    let Err(denial) = outcome else { return json!({"uid": uid, "allowed": true}) };
    let status = match denial {
        Denial::Forbidden(message) => json!({"code": 403, "reason": "Forbidden", "message": message}),
        Denial::Busy(message) => json!({
            "code": 429, "reason": "TooManyRequests", "message": message, "details": {"retryAfterSeconds": 1},
        }),
        Denial::Invalid(message) => json!({"code": 422, "reason": "Invalid", "message": message}),
        Denial::Forged(message) => json!({"code": 400, "reason": "BadRequest", "message": message}),
    };
    json!({"uid": uid, "allowed": false, "status": status})
}

/// Answers the body of an AdmissionReview. An error is the message for an invalid body.
pub async fn answer(replica: &Arc<Replica>, body: &[u8]) -> Result<Value, String> {
    let wrong = |error: &dyn fmt::Display| format!("expected an AdmissionReview: {error}");
    let document = Document::read_bytes(body).map_err(|error| wrong(&error))?;
    let node = document.root().get("request").map_err(|error| wrong(&error))?;
    let node = node.ok_or("expected an AdmissionReview with a request")?;
    let request = Request::read(node).map_err(|error| wrong(&error))?;
    let outcome = if request.is("headroom.dev", "tenantquotas", "") {
        quota(replica, &request)
    } else {
        charged(replica, &request, node).await
    };
    let response = response(&request.uid, &outcome);
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// Reviews an object that quotas may charge.
async fn charged(replica: &Arc<Replica>, request: &Request<'_>, node: Node<'_>) -> Result<(), Denial> {
    let began = Instant::now();
    let Some(reservation) = reservation(replica, request, node)? else { return Ok(()) };
    let may_exceed = reservation.may_exceed;
    let review = Review { replica, request, node, until: began + REVIEW_TIMEOUT };
    let outcome = match tokio::time::timeout_at(began + ANSWER_TIMEOUT, review.room(reservation)).await {
        Ok(Err(_)) | Err(_) if may_exceed => Ok(()),
        Ok(outcome) => outcome,
        Err(_) => Err(Denial::Busy("the ledger waits for an answer of the API server; retry".to_owned())),
    };
    let result = match &outcome {
        Ok(()) => "allowed",
        Err(Denial::Busy(_)) => "busy",
        Err(_) => "rejected",
    };
    replica.metrics.reviewed(result, began.elapsed());
    outcome
}

/// Reviews a TenantQuota that is written.
fn quota(replica: &Replica, request: &Request<'_>) -> Result<(), Denial> {
    let Some(object) = request.object else { return Ok(()) };
    let quota = TenantQuota::read(object.node).map_err(|malformed| Denial::Invalid(malformed.to_string()))?;
    let quota = quota.into_owned();
    let mut problems: Vec<String> = quota.problems().iter().map(ToString::to_string).collect();
    let (mut quotas, name) = (replica.tenants.quotas(), quota.name().to_owned());
    let before = problems_of_trees(replica, &quotas, &name);
    quotas.retain(|other| other.name() != name);
    quotas.push(Arc::new(quota));
    // Whatever the newest quota is, the write that makes a tree too large is the one to be refused.
    let made = problems_of_trees(replica, &quotas, &name).into_iter().find(|(quota, _)| !before.contains_key(quota));
    problems.extend(made.map(|(_, problem)| problem));
    if problems.is_empty() { Ok(()) } else { Err(Denial::Invalid(problems.join("; "))) }
}

/// The quotas that are enforced without their parents because a tree is too large, and why. Without a name: the problem of
/// the tree of this quota, if no ledger can have it.
fn problems_of_trees(
    replica: &Replica,
    quotas: &[Arc<TenantQuota<'static>>],
    name: &str,
) -> BTreeMap<Option<String>, String> {
    let (trees, parents) = trees(quotas);
    let outside = parents.into_iter().filter(|(_, problem)| problem.is_limit);
    let outside =
        outside.map(|(name, of)| (Some(name.to_owned()), format!("spec.parent: quota {name}: {}", of.message)));
    let tree = trees.iter().find(|tree| tree.quotas.iter().any(|(quota, _)| quota.name() == name));
    let excess = tree.and_then(|tree| placement::excess(&Plan::of_tree(tree, &replica.tenants.namespaces())));
    outside.chain(excess.map(|problem| (None, problem))).collect()
}

/// The reservation that a request needs; none if it is not charged.
fn reservation(replica: &Replica, request: &Request<'_>, node: Node<'_>) -> Result<Option<ReservationRequest>, Denial> {
    if request.namespace.is_empty() || replica.tenants.is_exempt(&request.namespace) {
        return Ok(None);
    }
    let reservation = ReservationRequest::of(request, token).map_err(|error| match error {
        // The charge is unknown.
        RequestError::Malformed(_) => Denial::Invalid(error.to_string()),
        RequestError::MissingField(_) => Denial::Forged(error.to_string()),
    })?;
    let Some(mut reservation) = reservation else { return Ok(None) };
    if request.user.is_empty() {
        return Err(Denial::Forged("not a request of an API server: userInfo.username is missing".to_owned()));
    }
    reservation.may_exceed = is_in_one_of(node, &replica.options.exempt_groups);
    Ok(Some(reservation))
}

fn is_in_one_of(request: Node<'_>, groups: &[String]) -> bool {
    let user = request.at(&["userInfo"]).ok().flatten();
    let members = user.and_then(|user| user.list("groups").ok()).into_iter().flatten();
    members.filter_map(|group| group.str().ok()).any(|group| groups.iter().any(|exempt| *exempt == group))
}

struct Review<'a, 'd> {
    replica: &'a Arc<Replica>,
    request: &'a Request<'d>,
    node: Node<'d>,
    /// After this time the client must retry.
    until: Instant,
}

impl Review<'_, '_> {
    /// Reserves room in each ledger that the object is charged to.
    async fn room(&self, uncharged: ReservationRequest) -> Result<(), Denial> {
        let Self { replica, request, .. } = *self;
        let views = covering(replica, &request.namespace).await?;
        let has_devices = uncharged.key.kind == RESOURCE_CLAIMS
            && views.iter().any(|view| view.plan.shares_devices(&request.namespace));
        let mut reservation = uncharged.clone();
        if has_devices {
            self.charge_devices(&mut reservation).await?;
        }
        let mut growing = Vec::new();
        for view in views.into_iter().filter(|view| reservation.grows(&view.plan)) {
            let faults = reservation_request::faults(request, &view.plan);
            let faults = faults.unwrap_or_else(|malformed| vec![malformed.to_string()]);
            if !faults.is_empty() && !reservation.may_exceed {
                let ObjectKey { kind, name, .. } = &reservation.key;
                return Err(Denial::Forbidden(format!("{kind} \"{name}\" is forbidden: {}", faults.join("; "))));
            }
            growing.push(view);
        }
        let is_dry_run = self.node.get("dryRun").ok().flatten().and_then(|dry| dry.bool().ok()).unwrap_or_default();
        if !is_dry_run {
            return self.reserve(&reservation, uncharged, &growing).await;
        }
        growing.iter().try_for_each(|view| {
            let verdict = OpenLedger::new(&view.plan, view.state.as_ref().clone()).reserve(&reservation);
            outcome(replica, &reservation, &view.ledger, Ok((verdict, Arc::clone(&view.plan))))
        })
    }

    /// `uncharged` is the reservation before its devices were charged.
    async fn reserve(
        &self,
        reservation: &ReservationRequest,
        uncharged: ReservationRequest,
        growing: &[View],
    ) -> Result<(), Denial> {
        let Self { replica, .. } = *self;
        let mut reserved = Reserved { replica, reservation, ledgers: Vec::new() };
        for view in growing {
            reserved.ledgers.push(&view.ledger);
            let answer = replica.writers.reserve(&view.ledger, reservation.clone(), self.until).await;
            if let Err(denial) = outcome(replica, reservation, &view.ledger, answer) {
                reserved.ledgers.pop();
                reserved.cancel().await;
                return Err(denial);
            }
        }
        // The claim has its pod's share only if the pod was stored, and the claim its first, when the room was reserved.
        if reservation.pod.is_some() && !growing.is_empty() {
            let mut again = uncharged;
            let is_same = self.charge_devices(&mut again).await.is_ok() && again == *reservation;
            if !is_same {
                reserved.cancel().await;
                return Err(Denial::Busy("the claim's pod has changed, or has another claim; retry".to_owned()));
            }
        }
        reserved.ledgers.clear();
        Ok(())
    }

    async fn charge_devices(&self, reservation: &mut ReservationRequest) -> Result<(), Denial> {
        let version = self.node.at(&["resource", "version"]).ok().flatten().and_then(|version| version.str().ok());
        let busy = |why: String| Denial::Busy(format!("device classes and pods: {why}; retry"));
        let found = tokio::time::timeout_at(self.until, async {
            let _turn = self.replica.device_reads.of(&self.request.namespace).await;
            devices::read(&self.replica.api, self.request, version.as_deref().unwrap_or("v1")).await
        });
        let found = found.await.map_err(|_| busy("too many claims of this namespace are waiting".to_owned()))?;
        let found = found.map_err(|failure| busy(failure.to_string()))?;
        found.charge(self.request, reservation).map_err(|malformed| Denial::Invalid(malformed.to_string()))
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
        while let Some(ledger) = self.ledgers.pop() {
            _ = self.give_back(ledger).await;
        }
    }

    fn give_back(&self, ledger: &str) -> oneshot::Receiver<()> {
        self.replica.writers.cancel(ledger, self.reservation.key.clone(), self.reservation.token.clone())
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.ledgers.iter().for_each(|ledger| drop(self.give_back(ledger)));
    }
}

/// The ledgers that charge a namespace. Waits for a plan if one is due.
async fn covering(replica: &Arc<Replica>, namespace: &str) -> Result<Vec<View>, Denial> {
    let busy = |why: &str| Denial::Busy(format!("namespace {namespace}: {why}; retry"));
    let (mut changes, mut tenants) = (replica.ledgers.changes.subscribe(), replica.tenants.changes.subscribe());
    let deadline = Instant::now() + PLAN_TIMEOUT;
    // A replica that starts is called too: by an API server that knows its address from before.
    while let Some(problem) = replica.problem() {
        let listed = async {
            tokio::select! {
                _ = changes.changed() => {}
                _ = tenants.changed() => {}
            }
        };
        if tokio::time::timeout_at(deadline, listed).await.is_err() {
            return Err(busy(&problem));
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
                    return Err(Denial::Forged(format!("namespace {namespace} does not exist")));
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

fn outcome(
    replica: &Replica,
    reservation: &ReservationRequest,
    ledger: &str,
    answer: LedgerAnswer,
) -> Result<(), Denial> {
    let key = &reservation.key;
    match answer {
        Ok((LedgerVerdict::Granted, _)) => Ok(()),
        Ok((LedgerVerdict::Refused(refusal), plan)) => {
            let is_plain = namespace_of(ledger).is_some();
            let consumers = |quota: &str, name: &str| match replica.options.message_names && !is_plain {
                true => replica.tenants.consumers(quota, name),
                false => message::Consumers::default(),
            };
            let noun = if is_plain { "quota" } else { "tenant quota" };
            let mut text = message::refusal_parts(noun, key, &plan, &refusal, &consumers).join("; ");
            if !refusal.waits_for.is_empty() {
                text.push_str(&message::until_released(replica.options.request_lifetime.as_secs()));
            }
            Err(Denial::Forbidden(text))
        }
        // Too many claims, one that no ledger can hold, or the ledger is not writable: the object is counted once it is
        // stored.
        _ if reservation.may_exceed => Ok(()),
        Ok((LedgerVerdict::TooLarge(too_large), _)) => Err(Denial::Invalid(message::too_large(key, &too_large))),
        Ok((LedgerVerdict::Retry(busy), plan)) => Err(Denial::Busy(message::retry(&plan, key, busy))),
        Err(problem) => Err(Denial::Busy(problem)),
    }
}
