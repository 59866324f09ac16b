//! The admission request, and which parts of it are trusted.
//!
//! A client can send any fields in an object. The API server resets some of them, but only after mutating admission,
//! and the in-tree plugins evaluate the result. So this file decides, by operation and subresource, which parts of the
//! text are trusted, and all other code sees the object as in-tree admission will see it: [`Object`]. An object that
//! the API server has reset already does not change here.

use std::borrow::Cow;

use super::kinds::PodKind;
use super::pod::InfeasibleSpec;
use super::{Pod, api_server_defaults};
use crate::cluster::usage::workload;
use crate::json::{Malformed, Node};

#[derive(Debug, Clone, Default)]
pub struct Request<'d> {
    pub uid: Cow<'d, str>,
    pub operation: Operation<'d>,
    pub group: Cow<'d, str>,
    /// The plural name, such as `pods`.
    pub resource: Cow<'d, str>,
    pub kind: Cow<'d, str>,
    /// Empty for the object itself.
    pub subresource: Cow<'d, str>,
    pub namespace: Cow<'d, str>,
    /// The name that Kubernetes' own refusals use: the object's name, else its `generateName`.
    pub name: Cow<'d, str>,
    pub user: Cow<'d, str>,
    /// Absent only on DELETE and CONNECT, or where the request is broken.
    pub object: Option<Object<'d>>,
    /// True if the audit scanner sent the request, for a stored object.
    pub is_audit: bool,
}

/// The API server always sends the old object; an update without one is evaluated as Kubernetes evaluates it.
#[derive(Debug, Clone, Copy, Default)]
pub enum Operation<'d> {
    Create,
    Update {
        old: Option<Object<'d>>,
    },
    /// DELETE or CONNECT, which store nothing.
    #[default]
    Other,
}

/// An object as the API server will store it.
#[derive(Debug, Clone, Copy)]
pub struct Object<'d> {
    /// The object as it was sent. Trusted in it: names, labels and annotations; for the rest use [`Self::spec`] and
    /// others.
    pub node: Node<'d>,
    pub spec: Option<Node<'d>>,
    pub status: Option<Node<'d>>,
    /// The metadata that shows whether the object is being deleted; none for an object that is being created.
    pub deletion: Option<Node<'d>>,
}

impl<'d> Object<'d> {
    /// An object that the API server itself has stored.
    pub fn stored(node: Node<'d>) -> Result<Self, Malformed> {
        Ok(Self { node, spec: node.get("spec")?, status: node.get("status")?, deletion: node.get("metadata")? })
    }

    /// A pod that a controller has not created yet.
    pub fn planned(pod: &Pod<'d>) -> Self {
        Self { node: pod.node, spec: Some(pod.spec), status: None, deletion: None }
    }

    /// An object that is about to be created: its status and deletion are not trusted, because the API server resets
    /// them.
    pub(super) fn created(node: Node<'d>) -> Result<Self, Malformed> {
        Ok(Self { node, spec: node.get("spec")?, status: None, deletion: None })
    }

    /// An object that is about to replace `old`.
    fn updated(node: Node<'d>, old: &Self, subresource: &str) -> Result<Self, Malformed> {
        // Only the subresource `status` changes the status, and it does not change the spec.
        let (spec, status) = match subresource {
            "status" => (old.spec, node.get("status")?),
            _ => (node.get("spec")?, old.status),
        };
        Ok(Self { node, spec, status, deletion: old.deletion })
    }

    pub fn is_being_deleted(&self) -> Result<bool, Malformed> {
        Ok(self.deletion.map(|metadata| metadata.get("deletionTimestamp")).transpose()?.flatten().is_some())
    }

    /// An object without a version was never stored: an update of it creates it.
    pub fn was_stored(&self) -> Result<bool, Malformed> {
        let version = self.node.at(&["metadata", "resourceVersion"])?.map(Node::scalar).transpose()?;
        Ok(version.is_some_and(|version| !version.is_empty()))
    }

    pub fn spec_at(&self, path: &[&str]) -> Result<Option<Node<'d>>, Malformed> {
        self.spec.map_or(Ok(None), |spec| spec.at(path))
    }

    pub fn status_at(&self, path: &[&str]) -> Result<Option<Node<'d>>, Malformed> {
        self.status.map_or(Ok(None), |status| status.at(path))
    }

    /// The pod at the end of a path: the object itself as it was sent, or its template.
    pub fn pod_at(&self, path: &[&str]) -> Result<Option<Pod<'d>>, Malformed> {
        if path.is_empty() {
            return Pod::read(self.node, self.status).map(Some);
        }
        // The API server refuses an object without its template, so there is no pod to evaluate.
        template_at(self.node, path)
    }
}

/// The pod of the template at the end of a path, as its controller creates it. It has no status.
pub fn template_at<'d>(object: Node<'d>, path: &[&str]) -> Result<Option<Pod<'d>>, Malformed> {
    let Some(template) = object.at(path)? else { return Ok(None) };
    let mut pod = Pod::read(template, None)?;
    api_server_defaults::limits_to_requests(&mut pod);
    Ok(Some(pod))
}

impl<'d> Request<'d> {
    /// The name of the workload of the request's pod, or of the workload itself.
    // Inlined where it is called, it adds 94 bytes to the wasm.
    #[inline(never)]
    pub fn workload_name(&self) -> &str {
        if self.kind == "Pod" { workload::of_pod(&self.name) } else { &self.name }
    }

    /// Reads the `request` of a review, in one pass. The API server writes `subResource`, some hosts `sub_resource`.
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let mut request = Self::default();
        let (mut operation, mut object, mut old) = (None, None, None);
        let text_in = |record: Node<'d>, field: &str| -> Result<Cow<'d, str>, Malformed> {
            let text = record.present().map(|record| record.string(field)).transpose()?;
            Ok(text.flatten().unwrap_or_default())
        };
        for (key, value) in node.fields()? {
            match key.str()?.as_ref() {
                "uid" => request.uid = value.opt_str()?.unwrap_or_default(),
                "operation" => operation = value.present(),
                "resource" => {
                    request.group = text_in(value, "group")?;
                    request.resource = text_in(value, "resource")?;
                }
                "kind" => request.kind = text_in(value, "kind")?,
                "subResource" | "sub_resource" => request.subresource = value.opt_str()?.unwrap_or_default(),
                "namespace" => request.namespace = value.opt_str()?.unwrap_or_default(),
                "name" => request.name = value.opt_str()?.unwrap_or_default(),
                "userInfo" | "user_info" => request.user = text_in(value, "username")?,
                "object" => object = value.present(),
                "oldObject" | "old_object" => old = value.present(),
                _ => {}
            }
        }
        let operation = operation.ok_or_else(|| node.error("`operation` is missing"))?;
        let old = old.map(Object::stored).transpose()?;
        request.operation = match operation.str()?.as_ref() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update { old },
            "DELETE" | "CONNECT" => Operation::Other,
            _ => return Err(operation.expected("CREATE, UPDATE, DELETE or CONNECT")),
        };
        if request.name.is_empty() {
            request.name = name_of(object)?;
        }
        if let Some(object) = object {
            // A client cannot guess the uid of a review, so only the audit scanner sends an object with the same uid.
            let uid = object.at(&["metadata", "uid"])?.map(Node::str).transpose()?;
            request.is_audit = uid.is_some_and(|uid| !uid.is_empty() && uid == request.uid);
            request.object = Some(match &request.operation {
                _ if request.is_audit => Object::stored(object)?,
                Operation::Update { old: Some(old) } => Object::updated(object, old, &request.subresource)?,
                _ => Object::created(object)?,
            });
        }
        Ok(request)
    }

    /// True if the request is about this resource, or about this subresource of it.
    pub fn is(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.resource == resource && self.group == group && self.subresource == subresource
    }

    pub fn is_create(&self) -> bool {
        matches!(self.operation, Operation::Create)
    }

    /// The row of the object's kind; none if the kind creates no pods.
    pub fn pod_kind(&self) -> Option<&'static PodKind> {
        PodKind::of(&self.group, &self.resource)
    }

    /// The pod that the object is or has as its template; none if its kind creates no pods.
    pub fn pod(&self) -> Result<Option<Pod<'d>>, Malformed> {
        let (Some(kind), Some(object)) = (self.pod_kind(), self.object) else { return Ok(None) };
        let Some(mut pod) = object.pod_at(kind.path)? else { return Ok(None) };
        if self.subresource == "resize"
            && let Some(old) = self.old()
        {
            // A resize changes only the resources of the stored pod.
            let mut resized = Pod::read(old.node, old.status)?;
            resized.take_resources_of(pod);
            resized.infeasible_spec = InfeasibleSpec::Counts;
            return Ok(Some(resized));
        }
        if !self.is_audit {
            // Only a resize changes resources, so the pod is charged like the old one, whose spec the node refused.
            pod.infeasible_spec = InfeasibleSpec::LeftOut;
        }
        Ok(Some(pod))
    }

    pub fn old(&self) -> Option<&Object<'d>> {
        match &self.operation {
            Operation::Update { old } => old.as_ref(),
            Operation::Create | Operation::Other => None,
        }
    }

    pub fn old_pod(&self) -> Result<Option<Pod<'d>>, Malformed> {
        let (Some(kind), Some(old)) = (self.pod_kind(), self.old()) else { return Ok(None) };
        let pod = old.pod_at(kind.path)?;
        Ok(pod.map(|pod| Pod { infeasible_spec: InfeasibleSpec::LeftOut, ..pod }))
    }

    /// True if one of Kubernetes' own controllers sent the request.
    pub fn is_by_kubernetes_controller(&self) -> bool {
        let of_account = self
            .user
            .strip_prefix("system:serviceaccount:kube-system:")
            .is_some_and(|name| name.ends_with("-controller"));
        of_account || self.user == "system:kube-controller-manager"
    }

    /// True if a service account or one of Kubernetes' own controllers sent the request.
    pub fn is_by_service_account(&self) -> bool {
        self.user.starts_with("system:serviceaccount:") || self.is_by_kubernetes_controller()
    }

    /// `pods`, or `deployments.apps`: how Kubernetes names the resource in a refusal.
    pub fn qualified_resource(&self) -> String {
        if self.group.is_empty() { self.resource.to_string() } else { format!("{}.{}", self.resource, self.group) }
    }
}

/// The name that Kubernetes' own refusals use for an object: its name, else its `generateName`.
fn name_of<'d>(object: Option<Node<'d>>) -> Result<Cow<'d, str>, Malformed> {
    if let Some(metadata) = object.map(|object| object.get("metadata")).transpose()?.flatten() {
        for field in ["name", "generateName"] {
            if let Some(name) = metadata.string(field)?.filter(|name| !name.is_empty()) {
                return Ok(name);
            }
        }
    }
    Ok(Cow::Borrowed("Unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Document;

    #[track_caller]
    fn read(review: &str) -> Result<Request<'static>, Malformed> {
        let document: &'static Document<'static> = Box::leak(Box::new(Document::own(review.into()).unwrap()));
        Request::read(document.root())
    }

    #[test]
    fn the_request_s_own_name_counts_before_the_object_s() {
        let name = |review: &str| read(review).unwrap().name;
        let object = r#""operation": "CREATE", "object": {"metadata": {"name": "a", "generateName": "b-"}}"#;
        assert_eq!(name(&format!(r#"{{{object}, "name": "web"}}"#)), "web");
        assert_eq!(name(&format!(r#"{{{object}, "name": ""}}"#)), "a");
        assert_eq!(name(r#"{"operation": "CREATE", "object": {"metadata": {"generateName": "b-"}}}"#), "b-");
    }

    #[test]
    fn a_resource_is_known_by_its_group_and_its_subresource() {
        for (of, is_resize) in [
            (r#"{"group": "", "resource": "pods"}, "subResource": "resize""#, true),
            (r#"{"group": "metrics.k8s.io", "resource": "pods"}, "subResource": "resize""#, false),
            (r#"{"group": "", "resource": "nodes"}, "subResource": "resize""#, false),
            (r#"{"group": "", "resource": "pods"}"#, false),
        ] {
            let request = read(&format!(r#"{{"operation": "UPDATE", "resource": {of}}}"#)).unwrap();
            assert_eq!(request.is("", "pods", "resize"), is_resize, "{of}");
        }
    }

    #[test]
    fn every_operation_of_the_api_server_is_known() {
        for operation in ["CREATE", "UPDATE", "DELETE", "CONNECT"] {
            let request = read(&format!(r#"{{"operation": "{operation}"}}"#)).unwrap();
            assert_eq!(request.is_create(), operation == "CREATE", "{operation}");
        }
        let problem = read(r#"{"operation": "create"}"#).unwrap_err().to_string();
        assert_eq!(problem, "operation: expected CREATE, UPDATE, DELETE or CONNECT, found `\"create\"`");
    }
}
