//! Reads the LimitRanges, quotas and whatever else a policy would read.
//!
//! They come from a live cluster, from files, or from files over a cluster. Host calls are answered in the shapes and words
//! of Kubewarden's host, so that the core sees no difference. Which objects to read is the core's decision.

mod compressed_object;
pub mod folder;
mod left_out;

use headroom_admission::cluster::lookup::HostCall;
use headroom_admission::json::Document;
use serde_json::Value;

pub use compressed_object::CompressedObject;
pub use folder::Folder;
pub use left_out::{LeftOut, without_bookkeeping};

use crate::kinds::{ApiKind, metadata};

/// API version and kind of a list, and its namespace; none for all.
pub type List<'l> = (&'l str, &'l str, Option<&'l str>);

pub type EachCompressed<'e> = dyn FnMut(&str, &str, CompressedObject) + 'e;

/// Events of a reason, in a namespace or in all, about as many as `most`.
#[derive(Debug, Clone, Copy)]
pub struct Events<'e> {
    pub namespace: Option<&'e str>,
    pub reason: &'e str,
    pub most: usize,
}

/// A failed read. It displays as one line that names the object or the list, and the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The cluster does not serve the kind, which therefore has no objects. In the host's own words, which the core knows.
    #[error("error finding resource {api_version}/{kind}: not found")]
    UnknownKind { api_version: String, kind: String },
    /// There is no such object, in the host's words too.
    #[error("Cannot find {api_version}/{kind} named '{name}' inside of namespace '{namespace:?}'")]
    NotFound { api_version: String, kind: String, namespace: Option<String>, name: String },
    /// The API server forbids to read a resource, such as `deployments`.
    #[error("{problem}")]
    Forbidden { resource: String, problem: String },
    #[error("{0}")]
    Failed(String),
}

impl ReadError {
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::UnknownKind { .. })
    }

    pub fn context(self, consequence: &str) -> Self {
        let problem = format!("{consequence}: {self}");
        match self {
            Self::Forbidden { resource, .. } => Self::Forbidden { resource, problem },
            Self::UnknownKind { .. } | Self::NotFound { .. } | Self::Failed(_) => Self::Failed(problem),
        }
    }
}

impl From<String> for ReadError {
    fn from(problem: String) -> Self {
        Self::Failed(problem)
    }
}

impl From<ReadError> for String {
    fn from(error: ReadError) -> Self {
        error.to_string()
    }
}

/// Reads objects of a cluster, live or recorded.
pub trait ClusterReader {
    /// All objects of a kind, in a namespace or in all.
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError>;

    /// Calls `each` with all objects of a kind, for callers that keep little of each: pods and their controllers, most of a large
    /// cluster, are not kept.
    fn visit(&mut self, list: List<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        self.list(list)?.into_iter().for_each(each);
        Ok(())
    }

    /// The same for callers that keep the objects, or only count them, with the namespace and the name of each.
    fn visit_compressed(&mut self, list: List<'_>, each: &mut EachCompressed<'_>) -> Result<(), ReadError> {
        self.visit(list, &mut compressing(each))
    }

    /// Calls `each` with Events, which are not kept.
    fn visit_events(&mut self, events: Events<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let Events { namespace, reason, most } = events;
        let all = self.list(("v1", "Event", namespace))?.into_iter();
        all.filter(|event| event.get("reason").is_some_and(|of| of == reason)).take(most).for_each(each);
        Ok(())
    }

    /// Calls `each` with ConfigMaps and their contents, which nothing else asks for; none is kept.
    fn visit_configs(&mut self, namespace: Option<&str>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        self.visit(("v1", "ConfigMap", namespace), each)
    }

    /// Reads lists ahead, several at a time where that is faster; `done` is called for each. Errors are returned when the list
    /// is read.
    fn prefetch(&mut self, lists: &[List<'_>], done: &mut dyn FnMut()) {
        lists.iter().for_each(|_| done());
    }

    /// One object; none if it is not there. The namespace is none for kinds that live in none.
    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        let objects = self.list(list)?;
        Ok(objects.into_iter().find(|object| metadata(object, "name") == name))
    }

    /// The same as text, for those who do not look into it.
    fn text(&mut self, list: List<'_>, name: &str) -> Result<Option<String>, ReadError> {
        Ok(self.get(list, name)?.map(|object| object.to_string()))
    }

    /// The plural and the scope of a kind.
    fn kind(&mut self, api_version: &str, kind: &str) -> ApiKind {
        ApiKind::new(api_version, kind)
    }

    /// The minor version of the API server; none if there is none.
    fn release(&mut self) -> Option<u16> {
        None
    }

    /// Answers a host call with JSON, as Kubewarden's host would.
    fn read(&mut self, call: &HostCall<'_>) -> Result<Vec<u8>, ReadError> {
        answer(self, call).map(String::into_bytes)
    }
}

/// Compresses the objects of a visit.
pub fn compressing(each: &mut EachCompressed<'_>) -> impl FnMut(Value) {
    |object| each(metadata(&object, "namespace"), metadata(&object, "name"), CompressedObject::from(&object))
}

/// The answer to a host call out of lists and objects.
pub fn answer<S: ClusterReader + ?Sized>(cluster: &mut S, call: &HostCall<'_>) -> Result<String, ReadError> {
    let HostCall { api_version, kind, namespace, .. } = *call;
    let list = (api_version, kind, namespace);
    let Some(name) = &call.name else {
        return list_of(call, cluster.list(list)?.iter().map(Value::to_string).collect());
    };
    let not_found = || ReadError::NotFound {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_string(),
    };
    let object = cluster.text(list, name)?.ok_or_else(not_found)?;
    if call.is_live { as_returned(object, call) } else { list_of(call, vec![object]) }
}

pub fn list_of(call: &HostCall<'_>, objects: Vec<String>) -> Result<String, ReadError> {
    let HostCall { api_version, kind, .. } = call;
    // Names of kinds need no escapes.
    let mut list = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}List","metadata":{{}},"items":["#);
    for (place, object) in objects.into_iter().enumerate() {
        list.push_str(if place > 0 { "," } else { "" });
        list.push_str(&as_returned(object, call)?);
    }
    list.push_str("]}");
    Ok(list)
}

/// An object as the host passes it on.
fn as_returned(object: String, call: &HostCall<'_>) -> Result<String, ReadError> {
    let document = Document::own(object.into_bytes()).map_err(|malformed| malformed.to_string())?;
    Ok(left_out::masked(document.root(), call.field_masks))
}
