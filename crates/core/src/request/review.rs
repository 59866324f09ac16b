//! The request, read from the JSON of an AdmissionReview or of what the policy host passes on.

use std::borrow::Cow;

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
    /// Reads the `request` of a review. The API server writes `subResource`, some hosts `sub_resource`.
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let object = node.get("object")?;
        let resource = node.get("resource")?;
        let kind = node.get("kind")?;
        let operation = match node.get("operation")? {
            Some(operation) => match operation.str()?.as_ref() {
                "CREATE" => Operation::Create,
                "UPDATE" => Operation::Update { old: either(node, "oldObject", "old_object")? },
                "DELETE" => Operation::Delete,
                "CONNECT" => Operation::Connect,
                _ => return Err(operation.malformed("CREATE, UPDATE, DELETE or CONNECT")),
            },
            None => return Err(node.wrong("`operation` is missing")),
        };
        Ok(Self {
            uid: string(Some(node), "uid")?,
            operation,
            group: string(resource, "group")?,
            resource: string(resource, "resource")?,
            kind: string(kind, "kind")?,
            subresource: text_of(either(node, "subResource", "sub_resource")?)?,
            namespace: string(Some(node), "namespace")?,
            name: name_of(node, object)?,
            user: match either(node, "userInfo", "user_info")? {
                Some(user) => string(Some(user), "username")?,
                None => Cow::Borrowed(""),
            },
            dry_run: match either(node, "dryRun", "dry_run")? {
                Some(flag) => flag.bool()?,
                None => false,
            },
            object,
        })
    }

    /// Whether this is the core resource `resource` itself or its subresource `subresource`.
    pub fn is(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.resource == resource && self.group == group && self.subresource == subresource
    }

    /// The object before an update.
    pub fn old(&self) -> Option<Node<'d>> {
        match self.operation {
            Operation::Update { old } => old,
            Operation::Create | Operation::Delete | Operation::Connect => None,
        }
    }

    /// `pods`, or `deployments.apps`: how Kubernetes names the resource in a refusal.
    pub fn qualified_resource(&self) -> String {
        if self.group.is_empty() { self.resource.to_string() } else { format!("{}.{}", self.resource, self.group) }
    }
}

/// The name as Kubernetes' own refusals choose it: of the request, else of the object, else what it is generated from.
fn name_of<'d>(request: Node<'d>, object: Option<Node<'d>>) -> Result<Cow<'d, str>, Malformed> {
    let given = string(Some(request), "name")?;
    if !given.is_empty() {
        return Ok(given);
    }
    let metadata = object.map(|object| object.get("metadata")).transpose()?.flatten();
    for field in ["name", "generateName"] {
        let name = string(metadata, field)?;
        if !name.is_empty() {
            return Ok(name);
        }
    }
    Ok(Cow::Borrowed("Unknown"))
}

fn either<'d>(node: Node<'d>, name: &str, other: &str) -> Result<Option<Node<'d>>, Malformed> {
    match node.get(name)? {
        Some(value) => Ok(Some(value)),
        None => node.get(other),
    }
}

fn string<'d>(node: Option<Node<'d>>, name: &str) -> Result<Cow<'d, str>, Malformed> {
    text_of(node.map(|node| node.get(name)).transpose()?.flatten())
}

fn text_of(node: Option<Node<'_>>) -> Result<Cow<'_, str>, Malformed> {
    Ok(node.map(Node::str).transpose()?.unwrap_or_default())
}
