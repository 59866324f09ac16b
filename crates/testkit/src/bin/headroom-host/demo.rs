//! `demo`: runs a few requests through the policy, and prints what it did with each.

use std::{
    fs,
    path::{Path, PathBuf},
};

use headroom_testkit::{
    access::Access,
    admission::{AdmissionRequest, AdmissionResponse},
    cluster::Cluster,
    host::PolicyHost,
    host_call::CallbackRequest,
    metadata::Metadata,
};
use serde_json::{Value, json};

use crate::changes;

#[derive(clap::Args)]
pub struct Arguments {
    /// The annotated wasm
    wasm: PathBuf,
    /// Files with AdmissionReview requests
    #[arg(required = true)]
    requests: Vec<PathBuf>,
    /// A file with the Kubernetes objects of the cluster; may be given more than once
    #[arg(long, value_name = "FILE")]
    cluster: Vec<PathBuf>,
    /// The settings, as JSON
    #[arg(long, value_name = "VALUE", default_value = "{}")]
    settings_json: String,
}

pub fn demo(arguments: &Arguments) -> Result<(), String> {
    let wasm =
        fs::read(&arguments.wasm).map_err(|error| format!("cannot read `{}`: {error}", arguments.wasm.display()))?;
    let metadata = Metadata::from_wasm(&wasm)?.ok_or("the wasm has no metadata: use the annotated one")?;
    let settings: Value =
        serde_json::from_str(&arguments.settings_json).map_err(|error| format!("cannot read the settings: {error}"))?;
    let host = PolicyHost::from_bytes(&wasm)?;
    let cluster = Cluster::from_files(&arguments.cluster)?;
    for path in &arguments.requests {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let request = AdmissionRequest::from_json(&text)?;
        let mut cluster = cluster.clone();
        let response = host.validate(&request, &settings, &Access::declared(&metadata), &mut cluster);
        print_outcome(path, &request, &response, cluster.calls())?;
    }
    Ok(())
}

fn print_outcome(
    path: &Path,
    request: &AdmissionRequest,
    response: &AdmissionResponse,
    calls: &[CallbackRequest],
) -> Result<(), String> {
    println!("\n=== {}", path.display());
    println!("{}", subject(request));
    for call in calls {
        println!("  read    {}", asked(call));
    }
    match (response.allowed, response.message()) {
        (true, _) => println!("  ALLOWED"),
        (false, message) => println!("  DENIED  {}", message.unwrap_or("without a reason")),
    }
    if let Some(object) = &request.object {
        for change in changes::between(object, &response.patched(object)?) {
            println!("  change  {change}");
        }
    }
    for warning in response.warnings.iter().flatten() {
        println!("  warning {warning}");
    }
    for (key, value) in response.audit_annotations.iter().flatten() {
        println!("  audit   {key}: {value}");
    }
    Ok(())
}

/// `CREATE Pod shop/web by alice`.
fn subject(request: &AdmissionRequest) -> String {
    let null = json!(null);
    let object = request.object.as_ref().or(request.old_object.as_ref()).unwrap_or(&null);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata").unwrap_or(&null);
    let name = match (request.name.clone(), metadata.get("name"), metadata.get("generateName")) {
        (Some(name), ..) if !name.is_empty() => name,
        (_, Some(name), _) => text(Some(name)),
        (_, _, prefix) => format!("{}*", text(prefix)),
    };
    format!(
        "{} {} {}/{name} by {}",
        request.operation,
        text(request.kind.get("kind")),
        request.namespace.as_deref().unwrap_or("-"),
        text(request.user_info.get("username")),
    )
}

fn asked(call: &CallbackRequest) -> String {
    match call {
        CallbackRequest::KubernetesListResourceNamespace { kind, namespace, .. } => {
            format!("every {kind} of namespace {namespace}")
        }
        CallbackRequest::KubernetesListResourceAll { kind, .. } => format!("every {kind} of the cluster"),
        CallbackRequest::KubernetesGetResource { kind, name, namespace, .. } => match namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        },
    }
}
