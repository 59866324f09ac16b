//! One round for one workload: read the record, read the pods, decide, store the record, send.

use std::collections::BTreeMap;

use crate::decision::{Amounts, ComputeResource, Event, Fits, Note, Record, Resized, Rules, Time, decide, undo};
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, Missing, value};
use headroom_api_server::api_path::ApiPath;
use headroom_api_server::derived_name::derived_name;
use headroom_objects::kinds::{items, set, text};
use headroom_workloads::WorkloadRef;
use serde_json::{Map, Value, json};

use crate::observed::{at, size};

pub const V1: ApiPath = ApiPath::new("/api/v1");

/// The keys of a ConfigMap's data: with the record, and the workload that it is about.
const RECORD: &str = "record";
const WORKLOAD: &str = "workload";

/// A round reads the pods so often, if they change between read and resize, as one does that is killed again and again.
pub const MOST_READS: usize = 3;

const LABEL: &str = "headroom.dev/record=resize";
/// So many names are tried for a record, if objects that are none of ours have the first ones.
const MOST_NAMES: usize = 3;

pub struct Round<'a> {
    pub api: &'a ApiClient,
    /// The namespace of the records, which is the program's own: it changes no ConfigMap elsewhere.
    pub records: &'a str,
    pub workload: &'a WorkloadRef,
    pub rules: &'a Rules,
    /// The API server's time.
    pub now: Time,
    /// The number of its pods that may be changed at once, for the namespace and the cluster.
    pub free: usize,
    /// True to take back the last change of each pod.
    pub undoes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundOutcome {
    Done {
        notes: Vec<Note>,
        under_way: usize,
    },
    /// Another process has stored a record since this round has read it, so nothing was sent.
    Overtaken,
}

/// The reason that a round ended early. What was stored is found by the next round.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoundError {
    #[error("cannot {doing}: {error}")]
    Api { doing: &'static str, error: ApiError },
    #[error("the API server has no pods/resize: it is older than Kubernetes 1.33")]
    NoResize,
    #[error("ConfigMap {0}")]
    Record(String),
}

impl RoundError {
    pub(crate) fn of(doing: &'static str) -> impl Fn(ApiError) -> Self {
        move |error| Self::Api { doing, error }
    }
}

impl Round<'_> {
    /// Runs the round, and again where a pod has changed between read and request. `read` reads the pods; it is called after the
    /// record was read, and must not answer from a cache that is older: a change in the record would seem not to have been made.
    pub async fn run(
        &self,
        read: impl AsyncFn() -> Result<crate::decision::Workload, ApiError>,
        fits: Fits<'_>,
    ) -> Result<RoundOutcome, RoundError> {
        let (mut notes_so_far, mut reads) = (Vec::<Note>::new(), 0);
        loop {
            reads += 1;
            let outcome = self.once(self.undoes && reads == 1, &read, &mut *fits).await?;
            let RoundOutcome::Done { mut notes, under_way } = outcome else { return Ok(outcome) };
            // A change that was not made, because its pod had changed, and is now decided anew is no news.
            let (later, before): (Vec<Note>, Vec<Note>) = notes_so_far.into_iter().partition(Note::is_later);
            let is_over = |note: &Note| matches!(note.event, Event::Dropped(_));
            notes.retain(|note| {
                let is_tried_again = is_over(note) && later.iter().any(|of| of.pod == note.pod);
                !is_tried_again && !before.contains(note)
            });
            let is_done = reads == MOST_READS || !notes.iter().any(Note::is_later);
            notes_so_far = [before, notes].concat();
            if is_done {
                return Ok(RoundOutcome::Done { notes: notes_so_far, under_way });
            }
        }
    }

    async fn once(
        &self,
        undoes: bool,
        read: impl AsyncFn() -> Result<crate::decision::Workload, ApiError>,
        fits: Fits<'_>,
    ) -> Result<RoundOutcome, RoundError> {
        let (name, mut stored) = self.stored().await?;
        let record = stored.as_ref().map_or_else(|| Ok(Record::default()), record_in);
        let record =
            record.map_err(|error| RoundError::Record(format!("{name}: its record cannot be read: {error}")))?;
        let pods = read().await.map_err(RoundError::of("read the pods"))?;
        let decision = match undoes {
            true => undo(&pods, &record, self.now, self.rules),
            false => decide(&pods, &record, self.now, self.rules, self.free, fits),
        };
        if decision.record != record {
            let object = self.store(&name, stored.as_ref(), &decision.record).await?;
            let Some(object) = object else { return Ok(RoundOutcome::Overtaken) };
            stored = Some(object);
        }
        let (mut record, mut notes) = (decision.record, decision.notes);
        let path = V1.collection(Some(&self.workload.namespace), "pods");
        for resize in &decision.resizes {
            let patch = patch(&resize.uid, &resize.version, &resize.containers);
            let refusal = match self.api.resize(&path.at(&resize.pod).at("resize"), &patch).await {
                Ok(answer) => altered(&answer, &resize.containers, &Value::Null),
                Err(ApiError::NotFound(Missing::Kind)) => return Err(RoundError::NoResize),
                Err(ApiError::Conflict { .. }) => {
                    notes.retain(|note| note.pod != resize.pod || !matches!(note.event, Event::Begun { .. }));
                    notes.push(Note { pod: resize.pod.clone(), event: Event::Later });
                    None
                }
                Err(
                    ApiError::Refused { message } | ApiError::Invalid { message } | ApiError::Forbidden { message },
                ) => Some(message),
                Err(error) if undoes => return Err(RoundError::of("take a resize back")(error)),
                // The next round finds whether it was made.
                Err(_) => None,
            };
            let Some(why) = refusal else { continue };
            let is_over = record.refuse(&resize.uid, &resize.version, &why, self.now, self.rules);
            let event = if is_over == Some(true) { Event::GivenUp(why) } else { Event::Refused(why) };
            notes.extend(is_over.map(|_| Note { pod: resize.pod.clone(), event }));
            let object = self.store(&name, stored.as_ref(), &record).await?;
            let Some(object) = object else { return Ok(RoundOutcome::Overtaken) };
            stored = Some(object);
        }
        Ok(RoundOutcome::Done { notes, under_way: record.under_way() })
    }

    /// The name of the record, and its object if there is one. An object of the name that is no record of the workload is passed
    /// by: it stops nobody.
    async fn stored(&self) -> Result<(String, Option<Value>), RoundError> {
        let path = self.workload.path();
        let names = (0..MOST_NAMES).map(|turn| match turn {
            0 => derived_name("headroom-resize", &path),
            turn => derived_name("headroom-resize", &format!("{path}/{turn}")),
        });
        for name in names {
            match self.api.get(&config_maps(self.records).at(&name)).await {
                Ok(object) if text_in(&object, WORKLOAD) == Some(&path) => return Ok((name, Some(object))),
                Ok(_) => tracing::warn!(name, "a ConfigMap has the name of a record and is none of this workload"),
                Err(ApiError::NotFound(Missing::Object)) => return Ok((name, None)),
                Err(error) => return Err(RoundError::of("read the record")(error)),
            }
        }
        Err(RoundError::Record(format!("{path}: all names of its record are taken by other objects")))
    }

    /// Stores a record, or deletes it if it has nothing left in it. Returns none if another process has changed it.
    async fn store(&self, name: &str, stored: Option<&Value>, record: &Record) -> Result<Option<Value>, RoundError> {
        let text = serde_json::to_string(record).map_err(|error| RoundError::Record(format!("{name}: {error}")))?;
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": self.records,
                "name": name,
                "labels": {"headroom.dev/record": "resize"},
            },
            "data": {WORKLOAD: self.workload.path(), RECORD: text},
        });
        let all = config_maps(self.records);
        let (doing, answer) = match stored {
            None => ("store the record", self.api.create(&all, &object).await),
            Some(stored) if record.is_empty() => {
                ("delete the record", self.api.delete_unchanged(&all.at(name), stored).await)
            }
            Some(stored) => {
                if let Some(metadata) = object.pointer_mut("/metadata") {
                    set(metadata, "resourceVersion", at(stored, "/metadata/resourceVersion").clone());
                }
                ("store the record", self.api.replace(&all.at(name), &object).await)
            }
        };
        match answer {
            Err(ApiError::Conflict { .. }) => Ok(None),
            answer => answer.map(Some).map_err(RoundError::of(doing)),
        }
    }
}

fn config_maps(namespace: &str) -> ApiPath {
    V1.collection(Some(namespace), "configmaps")
}

/// All records by workload. One that cannot be read is left to its round, which says so.
pub async fn records(api: &ApiClient, namespace: &str) -> Result<BTreeMap<WorkloadRef, Record>, ApiError> {
    let options = ListOptions { label_selector: LABEL, ..ListOptions::WHOLE };
    let (_, found) = api.list(&config_maps(namespace), options, value).await?;
    let record = |stored: &Value| Some((WorkloadRef::at(text_in(stored, WORKLOAD)?)?, record_in(stored).ok()?));
    Ok(found.iter().filter_map(record).collect())
}

fn record_in(stored: &Value) -> Result<Record, serde_json::Error> {
    serde_json::from_str(text_in(stored, RECORD).unwrap_or_default())
}

fn text_in<'s>(stored: &'s Value, key: &str) -> Option<&'s str> {
    at(stored, "/data").get(key)?.as_str()
}

/// Returns how admission changes a resize by the API server's answer; none if these containers have the wanted sizes, and the others
/// those of `before`.
pub fn altered(answer: &Value, resized: &[Resized], before: &Value) -> Option<String> {
    let wanted = |name: &str| match resized.iter().find(|of| of.name == name) {
        Some(of) => Some(of.to),
        None => size(items(before, "/spec/containers").find(|of| text(of, "/name") == name)?).ok(),
    };
    items(answer, "/spec/containers").find_map(|container| {
        let name = text(container, "/name");
        let from = wanted(name)?;
        let change = match size(container) {
            Ok(to) if to == from => return None,
            Ok(to) => Resized { name: String::new(), from, to, restarts: 0, stalled_percent: None }.to_string(),
            Err(error) => error,
        };
        Some(format!("admission changes it: {name} ({change})"))
    })
}

/// A strategic merge patch that is only made to this version of the pod. What does not change stays as it was written.
pub fn patch(uid: &str, version: &str, containers: &[Resized]) -> Value {
    let amounts = |from: Amounts, to: Amounts| {
        let changed = ComputeResource::ALL.into_iter().filter(|resource| from.of(*resource) != to.of(*resource));
        let named = changed.filter_map(|of| Some((of.name().to_owned(), json!(of.written(to.of(of)?)))));
        named.collect::<Map<_, _>>()
    };
    let container = |Resized { name, from, to, .. }: &Resized| {
        let resources =
            json!({"requests": amounts(from.requests, to.requests), "limits": amounts(from.limits, to.limits)});
        json!({"name": name, "resources": resources})
    };
    let containers: Vec<Value> = containers.iter().map(container).collect();
    json!({
        "metadata": {"uid": uid, "resourceVersion": version},
        "spec": {"containers": containers},
    })
}
