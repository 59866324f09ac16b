//! `run`: evaluates a request with each given policy, and prints one line of JSON for each.

use std::{collections::BTreeSet, fs, io::Read, path::PathBuf};

use headroom_testkit::{
    access::Access,
    admission::{AdmissionRequest, AdmissionResponse},
    cluster::Cluster,
    host::PolicyHost,
    host_call::{HostCalls, NoCluster},
    metadata::Metadata,
    policy_definition::{ContextAware, PolicyDefinition, local_path, settings},
    session::{Recorder, Replay},
};
use serde_json::Value;

#[derive(clap::Args)]
pub struct Arguments {
    /// A wasm file, or a YAML file with ClusterAdmissionPolicy or AdmissionPolicy objects
    policy: String,
    /// File with the AdmissionReview or AdmissionRequest, `-` for standard input
    #[arg(short, long, value_name = "PATH")]
    request_path: String,
    /// File with the settings, as YAML or JSON
    #[arg(short, long, value_name = "PATH")]
    settings_path: Option<PathBuf>,
    /// The settings, as JSON
    #[arg(long, value_name = "VALUE", conflicts_with = "settings_path")]
    settings_json: Option<String>,
    /// Let the policy read the kinds of its own `contextAwareResources`
    #[arg(long)]
    allow_context_aware: bool,
    /// Host capabilities the policy may use
    #[arg(long, value_name = "PATTERN", default_value = "*", num_args = 0..)]
    allowed_host_capabilities: Vec<String>,
    /// Write the host calls and their answers to a session file
    #[arg(long, value_name = "FILE", conflicts_with = "replay_host_capabilities_interactions")]
    record_host_capabilities_interactions: Option<PathBuf>,
    /// Answer the host calls from a session file
    #[arg(long, value_name = "FILE")]
    replay_host_capabilities_interactions: Option<PathBuf>,
    /// Answer the host calls from the Kubernetes objects of a file; may be given more than once (not a flag of kwctl)
    #[arg(long, value_name = "FILE", conflicts_with = "replay_host_capabilities_interactions")]
    cluster: Vec<PathBuf>,
}

pub fn run(arguments: Arguments) -> Result<(), String> {
    let request = AdmissionRequest::from_json(&read_request(&arguments.request_path)?)?;
    for policy in definitions(&arguments)? {
        let response = evaluate(&policy, &request, &arguments)?;
        println!("{}", serde_json::to_string(&response).map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn read_request(path: &str) -> Result<String, String> {
    let mut text = String::new();
    if path == "-" {
        std::io::stdin().read_to_string(&mut text).map_err(|error| format!("cannot read the request: {error}"))?;
        return Ok(text);
    }
    fs::read_to_string(path).map_err(|error| format!("cannot read the request from `{path}`: {error}"))
}

fn definitions(arguments: &Arguments) -> Result<Vec<PolicyDefinition>, String> {
    let policy = &arguments.policy;
    if policy.ends_with(".yaml") || policy.ends_with(".yml") {
        let text =
            fs::read_to_string(local_path(policy)?).map_err(|error| format!("cannot read `{policy}`: {error}"))?;
        return PolicyDefinition::from_yaml(&text);
    }
    let context_aware =
        if arguments.allow_context_aware { ContextAware::TrustPolicyMetadata } else { ContextAware::NoAccess };
    Ok(vec![PolicyDefinition {
        id: "policy-from-cli".to_owned(),
        wasm: local_path(policy)?,
        settings: settings(given_settings(arguments)?)?,
        context_aware,
        mutating: true,
        monitor: false,
        message: None,
    }])
}

fn given_settings(arguments: &Arguments) -> Result<Value, String> {
    if let Some(path) = &arguments.settings_path {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        return serde_yaml::from_str(&text).map_err(|error| format!("cannot read the settings: {error}"));
    }
    match &arguments.settings_json {
        Some(json) => serde_json::from_str(json).map_err(|error| format!("cannot read the settings: {error}")),
        None => Ok(Value::Null),
    }
}

fn evaluate(
    policy: &PolicyDefinition,
    request: &AdmissionRequest,
    arguments: &Arguments,
) -> Result<AdmissionResponse, String> {
    let wasm = fs::read(&policy.wasm).map_err(|error| format!("cannot read `{}`: {error}", policy.wasm.display()))?;
    let access = Access {
        resources: granted(policy, Metadata::from_wasm(&wasm)?),
        capabilities: arguments.allowed_host_capabilities.clone(),
    };
    let host = PolicyHost::from_bytes(&wasm)?;
    let validation = host.validate_settings(&policy.settings);
    if !validation.valid {
        return Err(format!("Provided settings are not valid: {:?}", validation.message.unwrap_or_default()));
    }
    let validate = |calls: &mut dyn HostCalls| host.validate(request, &policy.settings, &access, calls);
    let mut response = answering(arguments, validate)?;
    if policy.monitor {
        response = response.monitored();
    } else if !policy.mutating {
        response = response.without_mutation(&policy.id);
    }
    Ok(match &policy.message {
        Some(message) => response.refused_with(message),
        None => response,
    })
}

fn granted(
    policy: &PolicyDefinition,
    metadata: Option<Metadata>,
) -> BTreeSet<headroom_testkit::metadata::ContextAwareResource> {
    let declared = metadata.map(|metadata| metadata.context_aware_resources).unwrap_or_default();
    match &policy.context_aware {
        ContextAware::NoAccess => {
            if !declared.is_empty() {
                eprintln!(
                    "the policy needs to read Kubernetes resources: review them with `inspect`, then use `--allow-context-aware`"
                );
            }
            BTreeSet::new()
        }
        ContextAware::TrustPolicyMetadata => declared,
        ContextAware::AllowList(allowed) => allowed.clone(),
    }
}

/// Runs an evaluation with the chosen source of answers, and records the session if requested.
fn answering(
    arguments: &Arguments,
    evaluate: impl FnOnce(&mut dyn HostCalls) -> AdmissionResponse,
) -> Result<AdmissionResponse, String> {
    if let Some(path) = &arguments.replay_host_capabilities_interactions {
        let mut replay = Replay::from_file(path)?;
        let response = evaluate(&mut replay);
        if replay.leftovers() > 0 {
            eprintln!("{} of the recorded exchanges have not been replayed", replay.leftovers());
        }
        return Ok(response);
    }
    let mut cluster = Cluster::from_files(&arguments.cluster)?;
    let mut nothing = NoCluster;
    let calls: &mut dyn HostCalls = if arguments.cluster.is_empty() { &mut nothing } else { &mut cluster };
    let Some(path) = &arguments.record_host_capabilities_interactions else { return Ok(evaluate(calls)) };
    let mut recorder = Recorder::new(calls);
    let response = evaluate(&mut recorder);
    fs::write(path, recorder.to_yaml()?).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
    Ok(response)
}
