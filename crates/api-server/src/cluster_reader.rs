//! The live cluster of a kubeconfig as a [`ClusterReader`], with as few requests as possible.
//!
//! Each list and object is read once in a run. Nothing is written. An account needs only `get` and `list` of the resources that
//! a command reads, in one namespace if the command reads only that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use headroom_admission::annotations::limit_ranger::LIMIT_RANGER;
use headroom_admission::json::{Node, json_string};
use headroom_objects::cluster_reader::{
    ClusterReader, CompressedObject, EachCompressed, Events, LeftOut, List, ReadError, compressing,
};
use headroom_objects::kinds::{ApiKind, items, lifecycle, set, text};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::api_client::{ApiClient, ApiError, ListOptions, Missing, text_at};
use crate::api_path::{ApiPath, is_name};
use crate::kept_lists::{KeptList, KeptLists};
use crate::kubeconfig::{self, Chosen};
use crate::proxy;

const PAGE_SIZE: u32 = 500;
const CONCURRENCY: usize = 8;
/// Kept lists that are brought up to date at the same time: that is mostly waiting.
const KEPT_CONCURRENCY: usize = 32;
/// The API server itself gives up on a request after a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

pub struct LiveCluster {
    runtime: Runtime,
    api: ApiClient,
    server: String,
    /// The minor version of the API server; none before [`Self::greet`].
    release: Option<u16>,
    lists: BTreeMap<Query, Result<Listed, ReadError>>,
    /// By name.
    objects: BTreeMap<Query, BTreeMap<String, Result<Option<CompressedObject>, ReadError>>>,
    kinds: BTreeMap<(String, String), ApiKind>,
    /// The most bytes of a list that is kept, in all namespaces but this one.
    bound: Option<(usize, String)>,
    /// The lists that outlive this reading, and the paths of those that are current.
    kept: Option<(KeptLists, BTreeSet<String>)>,
}

/// The objects of a list, and where its next page begins if only its first one was read ahead: the rest may be most of a large
/// cluster.
struct Listed {
    objects: Vec<CompressedObject>,
    next: String,
}

/// API version, kind, namespace.
type Query = (String, String, Option<String>);

impl LiveCluster {
    /// The cluster of a kubeconfig, or that of this pod, and its default namespace. Sends no request.
    pub fn connect(chosen: &Chosen) -> Result<(Self, String), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start: {error}"))?;
        let (client, namespace, server) = runtime.block_on(async {
            let config = kubeconfig::config(chosen).await?;
            let namespace = config.default_namespace.clone();
            let server = kubeconfig::server(&config);
            Ok::<_, String>((proxy::client(config)?, namespace, server))
        })?;
        let api = ApiClient::new(client).with_timeout(REQUEST_TIMEOUT);
        let (lists, objects, kinds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Ok((Self { runtime, api, server, release: None, lists, objects, kinds, bound: None, kept: None }, namespace))
    }

    /// Bounds the lists that are kept of each namespace but our own, for a program whose memory is limited: tenants choose how
    /// large they are.
    pub fn with_bound(self, bytes: usize, own: &str) -> Self {
        Self { bound: Some((bytes, own.to_owned())), ..self }
    }

    /// Goes on from the lists of earlier readings.
    pub fn with_kept(self, lists: Option<KeptLists>) -> Self {
        Self { kept: lists.map(|lists| (lists, BTreeSet::new())), ..self }
    }

    /// Hands over a list that outlives this reading.
    fn visit_kept(&mut self, list: List<'_>, each: &mut EachCompressed<'_>) -> Option<Result<(), ReadError>> {
        self.kept.as_ref()?;
        let kind = self.kind(list.0, list.1);
        let (api, path) = (&self.api, path_of(&kind, list.2));
        let (lists, current) = self.kept.as_mut()?;
        let known = if current.insert(path.as_str().to_owned()) { None } else { lists.take(&path) };
        let read = match known {
            Some(known) => Ok(known),
            None => self.runtime.block_on(take_current(lists, api, &kind, list)),
        };
        Some(read.map(|read| {
            read.objects().for_each(|(namespace, name, object)| each(namespace, name, object.clone()));
            lists.keep(&path, read);
        }))
    }

    /// Asks the API server for its version. So there is one error, and not one for each read, if it does not answer.
    pub fn greet(&mut self) -> Result<(), String> {
        if let Some(version) = self.runtime.block_on(self.api.greet(&self.server))? {
            self.release = lifecycle::minor(&format!("{}.{}", text(&version, "/major"), text(&version, "/minor")));
        }
        Ok(())
    }

    /// Drops what was read in some namespaces, to read it again, or to save memory. None is the cluster itself.
    pub fn forget(&mut self, is_dropped: impl Fn(Option<&str>) -> bool) {
        self.lists.retain(|query, _| !is_dropped(query.2.as_deref()));
        self.objects.retain(|query, _| !is_dropped(query.2.as_deref()));
    }

    /// Hands over a list whose first page was read ahead.
    fn go_on(&mut self, list: List<'_>, ahead: Listed, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let resource = self.kind(list.0, list.1);
        let (api, mut next, mut second) = (&self.api, ahead.next, Vec::new());
        let whole = options_of(list.1);
        self.runtime.block_on(async {
            if !next.is_empty() {
                // An API server forgets after minutes where a list goes on. Then all of it is read again.
                let page = ListOptions { most: 1, from: &next, ..whole };
                let keep = &mut |object| second.push(CompressedObject::from(&object));
                next = match pages(api, &resource, list, page, keep).await {
                    Ok(further) => further,
                    Err(_) => return pages(api, &resource, list, whole, each).await.map(drop),
                };
            }
            ahead.objects.iter().chain(&second).map(CompressedObject::value).for_each(&mut *each);
            if next.is_empty() {
                return Ok(());
            }
            pages(api, &resource, list, ListOptions { from: &next, ..whole }, each).await.map(drop)
        })
    }

    /// The API server answers 403 for kinds of others even where they are not installed. Discovery distinguishes the two.
    fn or_unknown<T>(&self, answer: Result<T, ReadError>, api_version: &str, kind: &str) -> Result<T, ReadError> {
        let resource = ApiKind::new(api_version, kind);
        if !resource.group.contains('.') || !answer.as_ref().is_err_and(|error| !error.is_unknown_kind()) {
            return answer;
        }
        let is_missing = matches!(self.discover(&resource), Ok(None) | Err(ApiError::NotFound(_)));
        if is_missing { Err(unknown_kind(api_version, kind)) } else { answer }
    }

    /// Asks the cluster for the plural and scope of a kind; none if it has no such kind.
    fn discover(&self, kind: &ApiKind) -> Result<Option<ApiKind>, ApiError> {
        let served = self.runtime.block_on(self.api.get(&ApiPath::of_version(&kind.api_version())))?;
        // A subresource has a slash in its name.
        let is_it = |of: &&Value| text(of, "/kind") == kind.kind && !text(of, "/name").contains('/');
        Ok(items(&served, "/resources").find(is_it).map(|of| ApiKind {
            plural: text(of, "/name").to_owned(),
            is_namespaced: of.get("namespaced").and_then(Value::as_bool).unwrap_or_default(),
            ..kind.clone()
        }))
    }

    /// An object of the lists that outlive this reading; none if those that would have it are not current.
    fn find_kept(&mut self, list: List<'_>, name: &str) -> Option<Option<CompressedObject>> {
        self.kept.as_ref()?;
        let kind = self.kind(list.0, list.1);
        let (lists, current) = self.kept.as_ref()?;
        let mut paths = [list.2, None].map(|namespace| path_of(&kind, namespace)).into_iter();
        let path = paths.find(|path| current.contains(path.as_str()))?;
        lists.find(&path, list.2.unwrap_or_default(), name)
    }

    fn object(&mut self, list: List<'_>, name: &str) -> Result<Option<CompressedObject>, ReadError> {
        let query = query(list);
        if let Some(known) = self.objects.get(&query).and_then(|objects| objects.get(name)) {
            return known.clone();
        }
        if let Some(kept) = self.find_kept(list, name) {
            return Ok(kept);
        }
        let answer = self.get_anew(list, name).map(|object| object.as_ref().map(CompressedObject::from));
        self.objects.entry(query).or_default().insert(name.to_owned(), answer.clone());
        answer
    }

    fn get_anew(&mut self, (api_version, kind, namespace): List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        // The API server calls it an error to ask for such a name, which anybody may give an owner.
        if !is_name(name) {
            return Ok(None);
        }
        let api_kind = self.kind(api_version, kind);
        let path = path_of(&api_kind, namespace).at(name);
        let read = match is_confidential(kind) {
            true => self.runtime.block_on(self.api.get_metadata(&path)),
            false => self.runtime.block_on(self.api.get(&path)),
        };
        match read {
            Ok(mut object) => {
                // Metadata alone says that it is metadata.
                set(&mut object, "apiVersion", json!(api_version));
                set(&mut object, "kind", json!(kind));
                Ok(Some(object))
            }
            Err(ApiError::NotFound(Missing::Object | Missing::Namespace)) => Ok(None),
            Err(error) => Err(problem(error, &api_kind.object_name(name), &api_kind, namespace)),
        }
    }
}

impl ClusterReader for LiveCluster {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        let query = query(list);
        match self.lists.get(&query) {
            Some(Ok(known)) if known.next.is_empty() => {
                return Ok(known.objects.iter().map(CompressedObject::value).collect());
            }
            Some(Err(problem)) => return Err(problem.clone()),
            _ => {}
        }
        let bound = self.bound.as_ref().filter(|(_, own)| list.2.is_some_and(|namespace| namespace != own));
        let bound = bound.map(|(bytes, _)| *bytes);
        let (mut objects, mut bytes) = (Vec::new(), 0);
        let mut answer = self.visit(list, &mut |object| {
            bytes += bound.map_or(0, |_| object.to_string().len());
            if bound.is_none_or(|most| bytes <= most) {
                objects.push(object);
            }
        });
        if let Some(most) = bound.filter(|most| bytes > *most) {
            let kind = ApiKind::new(list.0, list.1);
            let what = in_scope(&kind.qualified(), &kind, list.2);
            answer = Err(ReadError::Failed(format!("{what} are more than {} MiB", most >> 20)));
        }
        let kept = || Listed { objects: objects.iter().map(CompressedObject::from).collect(), next: String::new() };
        self.lists.insert(query, answer.clone().map(|()| kept()));
        answer.map(|()| objects)
    }

    fn visit(&mut self, list: List<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        // Consumes the prefetched page.
        let read = match self.lists.remove(&query(list)) {
            Some(ahead) => self.go_on(list, ahead?, each),
            None => match self.visit_kept(list, &mut |_, _, object| each(object.value())) {
                Some(read) => read,
                None => {
                    let resource = self.kind(list.0, list.1);
                    self.runtime.block_on(pages(&self.api, &resource, list, options_of(list.1), each)).map(drop)
                }
            },
        };
        self.or_unknown(read, list.0, list.1)
    }

    fn visit_compressed(&mut self, list: List<'_>, each: &mut EachCompressed<'_>) -> Result<(), ReadError> {
        let is_known = self.lists.contains_key(&query(list));
        match if is_known { None } else { self.visit_kept(list, each) } {
            Some(read) => self.or_unknown(read, list.0, list.1),
            None => self.visit(list, &mut compressing(each)),
        }
    }

    fn visit_events(&mut self, events: Events<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let (list, selector) = (("v1", "Event", events.namespace), format!("reason={}", events.reason));
        let options = ListOptions { field_selector: &selector, most: events.most, ..options_of("Event") };
        self.runtime.block_on(pages(&self.api, &ApiKind::new("v1", "Event"), list, options, each)).map(drop)
    }

    fn visit_configs(&mut self, namespace: Option<&str>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let options = ListOptions { page_size: PAGE_SIZE, ..ListOptions::WHOLE };
        let list = ("v1", "ConfigMap", namespace);
        self.runtime.block_on(pages(&self.api, &ApiKind::new("v1", "ConfigMap"), list, options, each)).map(drop)
    }

    /// Reads a page of each list; the rest of a longer one is read when it is asked for, because it may be most of a large cluster.
    fn prefetch(&mut self, lists: &[List<'_>], done: &mut dyn FnMut()) {
        let kinds: Vec<ApiKind> = lists.iter().map(|(api_version, kind, _)| self.kind(api_version, kind)).collect();
        let (api, kept) = (&self.api, self.kept.as_ref().map(|(kept, _)| kept));
        let concurrency = if kept.is_some() { KEPT_CONCURRENCY } else { CONCURRENCY };
        let reads = lists.iter().zip(kinds).map(|(list, resource)| async move {
            let path = path_of(&resource, list.2);
            let Some(kept) = kept else {
                let mut objects = Vec::new();
                let keep = &mut |object| objects.push(CompressedObject::from(&object));
                let page = ListOptions { most: 1, ..options_of(list.1) };
                let read = pages(api, &resource, *list, page, keep).await;
                return (*list, path, read.map(|next| Some(Listed { objects, next })));
            };
            let read = take_current(kept, api, &resource, *list).await;
            let read = read.map(|read| kept.keep(&path, read));
            (*list, path, read.map(|()| None))
        });
        let answers: Vec<_> =
            self.runtime.block_on(stream::iter(reads).buffer_unordered(concurrency).inspect(|_| done()).collect());
        for (list, path, answer) in answers {
            let read = self.or_unknown(answer, list.0, list.1);
            if let (Ok(None), Some((_, current))) = (&read, &mut self.kept) {
                current.insert(path.as_str().to_owned());
            }
            self.lists.extend(read.transpose().map(|first_page| (query(list), first_page)));
        }
    }

    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        Ok(self.object(list, name)?.as_ref().map(CompressedObject::value))
    }

    fn text(&mut self, list: List<'_>, name: &str) -> Result<Option<String>, ReadError> {
        Ok(self.object(list, name)?.as_ref().map(CompressedObject::text))
    }

    fn release(&mut self) -> Option<u16> {
        self.release
    }

    /// Kinds that are not Kubernetes' own are looked up: their plural cannot be derived.
    fn kind(&mut self, api_version: &str, kind: &str) -> ApiKind {
        let guessed = ApiKind::new(api_version, kind);
        if guessed.is_kubernetes_own() {
            return guessed;
        }
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.kinds.get(&key) {
            return known.clone();
        }
        // Where the cluster does not know the kind, reading it fails and says so.
        let found = self.discover(&guessed).ok().flatten().unwrap_or(guessed);
        self.kinds.insert(key, found.clone());
        found
    }
}

/// Hands over the objects of a list page by page. Returns where the next page begins.
async fn pages(
    api: &ApiClient,
    resource: &ApiKind,
    (api_version, kind, namespace): List<'_>,
    options: ListOptions<'_>,
    each: &mut dyn FnMut(Value),
) -> Result<String, ReadError> {
    let each = |item: Node<'_>| {
        let object = serde_json::from_str(&cleaned(item, (api_version, kind), &LeftOut::Nothing));
        object.into_iter().for_each(&mut *each);
    };
    let listed = api.for_each(&path_of(resource, namespace), options, each).await;
    listed.map(|listed| listed.next).map_err(|error| problem(error, &resource.qualified(), resource, namespace))
}

/// Takes a list as it is now from those that are kept.
async fn take_current(
    lists: &KeptLists,
    api: &ApiClient,
    resource: &ApiKind,
    (api_version, kind, namespace): List<'_>,
) -> Result<KeptList, ReadError> {
    let read = |item: Node<'_>| {
        let name = |of: &str| text_at(item, &["metadata", of]).unwrap_or_default().into_owned();
        let unread = (lists.unread)(item, (api_version, kind));
        let object = CompressedObject::of(&cleaned(item, (api_version, kind), unread));
        (["namespace", "name"].map(name), object)
    };
    let taken = lists.take_current(api, &path_of(resource, namespace), options_of(kind), &read).await;
    taken.map_err(|error| problem(error, &resource.qualified(), resource, namespace))
}

fn options_of(kind: &str) -> ListOptions<'static> {
    ListOptions { page_size: PAGE_SIZE, only_metadata: is_confidential(kind), ..ListOptions::WHOLE }
}

/// An item of a list as an object that is handed over, with its type. Managed fields, which are more than the rest of a pod, are kept
/// where LimitRanger added values, because they show which values the author of the pod wrote.
fn cleaned(item: Node<'_>, (api_version, kind): (&str, &str), unread: &LeftOut) -> String {
    const TYPE: LeftOut = LeftOut::Fields(&["apiVersion", "kind"], &[]);
    const MANAGERS: LeftOut = LeftOut::Fields(&[], &[("metadata", LeftOut::Fields(&["managedFields"], &[]))]);
    let has_defaults = item.at(&["metadata", "annotations", LIMIT_RANGER]).is_ok_and(|of| of.is_some());
    let managers = if has_defaults { &LeftOut::Nothing } else { &MANAGERS };
    let mut text = format!("{{\"apiVersion\":{},\"kind\":{}", json_string(api_version), json_string(kind));
    let end_of_type = text.len();
    LeftOut::write_rest(&[&TYPE, managers, unread], item, &mut text);
    // The rest begins with a bracket of its own.
    let comma = if text.get(end_of_type..) == Some("{}") { "" } else { "," };
    text.replace_range(end_of_type..=end_of_type, comma);
    text
}

fn path_of(kind: &ApiKind, namespace: Option<&str>) -> ApiPath {
    ApiPath::of_version(&kind.api_version()).collection(namespace, &kind.plural)
}

fn problem(error: ApiError, what: &str, kind: &ApiKind, namespace: Option<&str>) -> ReadError {
    let what = in_scope(what, kind, namespace);
    match error {
        ApiError::NotFound(_) => unknown_kind(&kind.api_version(), &kind.kind),
        ApiError::Conflict { message } => ReadError::Failed(format!("cannot read {what}: {message}")),
        // Not every API server and proxy repeats the resource in its answer.
        ApiError::Forbidden { message } => {
            ReadError::Forbidden { resource: kind.plural.clone(), problem: format!("cannot read {what}: {message}") }
        }
        error => ReadError::Failed(format!("cannot read {what}: {error}")),
    }
}

fn unknown_kind(api_version: &str, kind: &str) -> ReadError {
    ReadError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

fn query((api_version, kind, namespace): List<'_>) -> Query {
    (api_version.to_owned(), kind.to_owned(), namespace.map(str::to_owned))
}

/// True if only the existence of such objects matters, so that their contents are not read.
fn is_confidential(kind: &str) -> bool {
    matches!(kind, "Secret" | "ConfigMap")
}

fn in_scope(what: &str, kind: &ApiKind, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{what} in namespace {namespace}"),
        None if kind.is_namespaced => format!("{what} in all namespaces"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::document;

    #[test]
    fn managed_fields_are_kept_where_limit_ranger_added_values() {
        let pod = |annotations: Value| {
            let managers = json!([{"manager": "kubectl", "fieldsV1": {"f:a]": {}}}]);
            let pod = json!({"metadata": {"name": "web", "annotations": annotations, "managedFields": managers}});
            // As an item of a list, whose text begins earlier.
            let list = document(&json!([0, pod])).unwrap();
            let item = list.root().items().unwrap().nth(1).unwrap();
            let read: Value = serde_json::from_str(&cleaned(item, ("v1", "Pod"), &LeftOut::Nothing)).unwrap();
            assert_eq!(read.pointer("/metadata/name"), Some(&json!("web")));
            read.pointer("/metadata/managedFields").is_some()
        };
        assert!(pod(json!({LIMIT_RANGER: "LimitRanger plugin set: cpu request for container web"})));
        assert!(!pod(json!({"team": "shop"})) && !pod(Value::Null));
    }
}
