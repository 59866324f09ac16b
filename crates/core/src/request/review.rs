//! The request, read from the JSON of an AdmissionReview or of what the policy host passes on.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::PodTemplate;
use crate::json::{Malformed, Node};

/// One admission request.
#[derive(Debug, Clone)]
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
    /// The name under which Kubernetes would speak of the object.
    pub name: Cow<'d, str>,
    pub user: Cow<'d, str>,
    pub dry_run: bool,
    /// Absent only on DELETE and CONNECT, or where the request is broken.
    pub object: Option<Node<'d>>,
    /// Read when it is first asked for, and only once.
    pod: OnceCell<Option<PodTemplate<'d>>>,
}

/// What is done to the object.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'d> {
    Create,
    /// The API server always sends the old object; a request without one is judged as Kubernetes judges it.
    Update {
        old: Option<Node<'d>>,
    },
    Delete,
    Connect,
}

impl<'d> Request<'d> {
    /// Reads the `request` of a review, in one pass. The API server writes `subResource`, some hosts `sub_resource`.
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let mut request = Self {
            uid: Cow::Borrowed(""),
            operation: Operation::Connect,
            group: Cow::Borrowed(""),
            resource: Cow::Borrowed(""),
            kind: Cow::Borrowed(""),
            subresource: Cow::Borrowed(""),
            namespace: Cow::Borrowed(""),
            name: Cow::Borrowed(""),
            user: Cow::Borrowed(""),
            dry_run: false,
            object: None,
            pod: OnceCell::new(),
        };
        let (mut operation, mut old) = (None, None);
        for (key, value) in node.fields()?.filter(|(_, value)| !value.is_null()) {
            match key.str()?.as_ref() {
                "uid" => request.uid = value.str()?,
                "operation" => operation = Some(value),
                "resource" => {
                    request.group = value.string("group")?.unwrap_or_default();
                    request.resource = value.string("resource")?.unwrap_or_default();
                }
                "kind" => request.kind = value.string("kind")?.unwrap_or_default(),
                "subResource" | "sub_resource" => request.subresource = value.str()?,
                "namespace" => request.namespace = value.str()?,
                "name" => request.name = value.str()?,
                "userInfo" | "user_info" => request.user = value.string("username")?.unwrap_or_default(),
                "dryRun" | "dry_run" => request.dry_run = value.bool()?,
                "object" => request.object = Some(value),
                "oldObject" | "old_object" => old = Some(value),
                _ => {}
            }
        }
        let operation = operation.ok_or_else(|| node.wrong("`operation` is missing"))?;
        request.operation = match operation.str()?.as_ref() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update { old },
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            _ => return Err(operation.malformed("CREATE, UPDATE, DELETE or CONNECT")),
        };
        if request.name.is_empty() {
            request.name = name_of(request.object)?;
        }
        Ok(request)
    }

    /// Whether this is the core resource `resource` itself or its subresource `subresource`.
    pub fn is(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.resource == resource && self.group == group && self.subresource == subresource
    }

    /// The pod that the object is or makes, as it came; none if its kind makes no pods.
    pub fn pod(&self) -> Result<Option<&PodTemplate<'d>>, Malformed> {
        if self.pod.get().is_none() {
            let _ = self.pod.set(PodTemplate::locate(self)?);
        }
        Ok(self.pod.get().and_then(Option::as_ref))
    }

    /// The object before an update.
    pub fn old(&self) -> Option<Node<'d>> {
        match self.operation {
            Operation::Update { old } => old,
            Operation::Create | Operation::Delete | Operation::Connect => None,
        }
    }

    /// Whether this is the audit scanner's request for an object that is there already.
    pub fn is_audit(&self) -> Result<bool, Malformed> {
        let uid = self.object.map(|object| object.at(&["metadata", "uid"])).transpose()?.flatten();
        let uid = uid.map(Node::str).transpose()?;
        Ok(uid.is_some_and(|uid| !uid.is_empty() && uid == self.uid))
    }

    /// `pods`, or `deployments.apps`: how Kubernetes names the resource in a refusal.
    pub fn qualified_resource(&self) -> String {
        if self.group.is_empty() { self.resource.to_string() } else { format!("{}.{}", self.resource, self.group) }
    }
}

/// The name by which Kubernetes' own refusals speak of an object: its own, else what it is generated from.
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
