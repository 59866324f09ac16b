//! The live cluster of a kubeconfig as a [`ClusterReader`], asked as little as possible.
//!
//! Lists and objects are asked for once in a run. Nothing is written, and nothing but `get` and `list` of what a command
//! looks at is needed; a namespace's own rights suffice where only that namespace is looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use headroom_core::cluster::usage::profile_layout::GROUP;
use headroom_dryrun::cluster_reader::{ClusterReader, List, UNKNOWN_KIND, is_of_unknown_kind};
use headroom_dryrun::kinds::ApiKind;
use kube::api::{ApiResource, GetParams, ListParams};
use kube::core::{GroupVersionKind, Request};
use kube::{Client, Error, discovery};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::error_chain::innermost;
use crate::kubeconfig::{self, Chosen};
use crate::proxy;

/// Objects listed at a time.
const PAGE: u32 = 500;
/// Lists read at a time, where several are wanted.
const READ_AT_ONCE: usize = 8;
/// The API server itself gives up on a request after a minute.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster and what was read of it.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
    lists: BTreeMap<Query, Result<Vec<Value>, String>>,
    objects: BTreeMap<(Query, String), Result<Option<Value>, String>>,
    kinds: BTreeMap<(String, String), ApiKind>,
}

/// API version, kind, namespace.
type Query = (String, String, Option<String>);

impl Cluster {
    /// The cluster of a kubeconfig, or that we run in, and the namespace it says to use. Nothing is sent yet.
    pub fn connect(chosen: &Chosen) -> Result<(Self, String), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start: {error}"))?;
        let (client, namespace) = runtime.block_on(async {
            let config = kubeconfig::config(chosen).await?;
            let namespace = config.default_namespace.clone();
            Ok::<_, String>((proxy::client(config).map_err(|error| error.to_string())?, namespace))
        })?;
        let cluster =
            Self { runtime, client, lists: BTreeMap::new(), objects: BTreeMap::new(), kinds: BTreeMap::new() };
        Ok((cluster, namespace))
    }

    fn list_anew(&mut self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        let mut objects = Vec::new();
        self.pages(api_version, kind, namespace, &mut |object| objects.push(object))?;
        Ok(objects)
    }

    /// Hands over objects page by page.
    fn pages(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        each: &mut dyn FnMut(Value),
    ) -> Result<(), String> {
        let resource = self.kind(api_version, kind);
        self.runtime.block_on(pages(&self.client, &resource, (api_version, kind, namespace), each))
    }

    /// Whoever may not read a kind of ours is told so whether or not the cluster has it, so that has to be asked for.
    fn or_unknown<T>(&self, answer: Result<T, String>, api_version: &str, kind: &str) -> Result<T, String> {
        let resource = ApiKind::new(api_version, kind);
        if resource.group != GROUP || !answer.as_ref().is_err_and(|problem| !is_of_unknown_kind(problem)) {
            return answer;
        }
        let is_missing = match self.discover(&resource) {
            Some(Err(Error::Discovery(_))) => true,
            Some(Err(Error::Api(status))) => status.code == 404,
            _ => false,
        };
        if is_missing { Err(Trouble::Absent { names_object: false }.told(api_version, kind)) } else { answer }
    }

    /// What the cluster knows of a kind; none if it does not answer.
    fn discover(&self, kind: &ApiKind) -> Option<Result<(ApiResource, discovery::ApiCapabilities), Error>> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let asked = async { tokio::time::timeout(PATIENCE, discovery::pinned_kind(&self.client, &gvk)).await };
        self.runtime.block_on(asked).ok()
    }

    fn get_anew(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, String> {
        let api_kind = self.kind(api_version, kind);
        let what = told(&api_kind.told(name), &api_kind, namespace);
        let url = ApiResourceUrl::new(&api_kind, namespace);
        let (request, how) = (Request::new(url.0), GetParams::default());
        let request = if is_confidential(kind) { request.get_metadata(name, &how) } else { request.get(name, &how) };
        let request = request.map_err(|error| error.to_string())?;
        match self.runtime.block_on(send(&self.client, request, &what)) {
            Ok(object) => Ok(Some(typed(object, api_version, kind))),
            Err(Trouble::Absent { names_object: true }) => Ok(None),
            Err(trouble) => Err(trouble.told(api_version, kind)),
        }
    }
}

impl ClusterReader for Cluster {
    fn list(&mut self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        let query = query(api_version, kind, namespace);
        if let Some(known) = self.lists.get(&query) {
            return known.clone();
        }
        let answer = self.list_anew(api_version, kind, namespace);
        let answer = self.or_unknown(answer, api_version, kind);
        self.lists.insert(query, answer.clone());
        answer
    }

    fn visit(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        each: &mut dyn FnMut(Value),
    ) -> Result<(), String> {
        // Whoever read it ahead did so for this.
        match self.lists.remove(&query(api_version, kind, namespace)) {
            Some(known) => known.map(|objects| objects.into_iter().for_each(each)),
            None => self.pages(api_version, kind, namespace, each),
        }
    }

    fn prefetch(&mut self, lists: &[List<'_>], done: &mut dyn FnMut()) {
        let kinds: Vec<ApiKind> = lists.iter().map(|(api_version, kind, _)| self.kind(api_version, kind)).collect();
        let client = &self.client;
        let reads = lists.iter().zip(kinds).map(|(list, resource)| async move {
            let mut objects = Vec::new();
            let read = pages(client, &resource, *list, &mut |object| objects.push(object)).await;
            (query(list.0, list.1, list.2), read.map(|()| objects))
        });
        let answers: Vec<_> =
            self.runtime.block_on(stream::iter(reads).buffer_unordered(READ_AT_ONCE).inspect(|_| done()).collect());
        for (query, answer) in answers {
            let answer = self.or_unknown(answer, &query.0, &query.1);
            self.lists.insert(query, answer);
        }
    }

    fn get(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, String> {
        let query = (query(api_version, kind, namespace), name.to_owned());
        if let Some(known) = self.objects.get(&query) {
            return known.clone();
        }
        let answer = self.get_anew(api_version, kind, namespace, name);
        self.objects.insert(query, answer.clone());
        answer
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
        let found = match self.discover(&guessed) {
            Some(Ok((resource, capabilities))) => ApiKind {
                plural: resource.plural,
                is_namespaced: capabilities.scope == discovery::Scope::Namespaced,
                ..guessed
            },
            _ => guessed,
        };
        self.kinds.insert(key, found.clone());
        found
    }
}

/// Sends one request.
async fn send(client: &Client, request: http::Request<Vec<u8>>, what: &str) -> Result<Value, Trouble> {
    match tokio::time::timeout(PATIENCE, client.request::<Value>(request)).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Trouble::of(error, what)),
        Err(_) => Err(Trouble::Failed(format!("cannot read {what}: no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// Hands over the objects of a list page by page.
async fn pages(
    client: &Client,
    resource: &ApiKind,
    (api_version, kind, namespace): List<'_>,
    each: &mut dyn FnMut(Value),
) -> Result<(), String> {
    let what = told(&resource.qualified(), resource, namespace);
    let url = ApiResourceUrl::new(resource, namespace);
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let request = Request::new(url.0.clone());
        let request = if is_confidential(kind) { request.list_metadata(&page) } else { request.list(&page) };
        let request = request.map_err(|error| error.to_string())?;
        let mut list = send(client, request, &what).await.map_err(|trouble| trouble.told(api_version, kind))?;
        let next = list.pointer("/metadata/continue").and_then(Value::as_str).map(str::to_owned);
        if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
            items.into_iter().map(|item| typed(item, api_version, kind)).for_each(&mut *each);
        }
        match next.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// The path of a collection.
struct ApiResourceUrl(String);

impl ApiResourceUrl {
    fn new(kind: &ApiKind, namespace: Option<&str>) -> Self {
        let resource = ApiResource {
            group: kind.group.clone(),
            version: kind.version.clone(),
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            plural: kind.plural.clone(),
        };
        Self(<kube::core::DynamicObject as kube::Resource>::url_path(&resource, namespace))
    }
}

/// Why the API server did not answer with what was asked for.
enum Trouble {
    /// No such object, or no such kind.
    Absent {
        names_object: bool,
    },
    Failed(String),
}

impl Trouble {
    fn of(error: Error, what: &str) -> Self {
        match error {
            // Where the kind is unknown, the answer does not name what was not found.
            Error::Api(status) if status.code == 404 => {
                Self::Absent { names_object: status.details.is_some_and(|details| !details.name.is_empty()) }
            }
            Error::Api(status) => Self::Failed(format!("cannot read {what}: {}", status.message)),
            Error::Service(cause) => {
                let cause = innermost(cause.as_ref());
                Self::Failed(format!("cannot read {what}: the API server cannot be reached: {cause}"))
            }
            error => Self::Failed(format!("cannot read {what}: {error}")),
        }
    }

    /// In the host's words where the core knows them.
    fn told(self, api_version: &str, kind: &str) -> String {
        match self {
            Self::Absent { .. } => format!("{UNKNOWN_KIND} {api_version}/{kind}: not found"),
            Self::Failed(problem) => problem,
        }
    }
}

fn query(api_version: &str, kind: &str, namespace: Option<&str>) -> Query {
    (api_version.to_owned(), kind.to_owned(), namespace.map(str::to_owned))
}

/// What nobody looks into here: that there is such an object is all that counts, so its contents are not even sent.
fn is_confidential(kind: &str) -> bool {
    matches!(kind, "Secret" | "ConfigMap")
}

/// The items of a list leave out what the list says already; metadata alone says that it is metadata.
fn typed(mut object: Value, api_version: &str, kind: &str) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), json!(api_version));
        fields.insert("kind".to_owned(), json!(kind));
    }
    object
}

fn told(what: &str, kind: &ApiKind, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{what} in namespace {namespace}"),
        None if kind.is_namespaced => format!("{what} in all namespaces"),
        None => what.to_owned(),
    }
}
