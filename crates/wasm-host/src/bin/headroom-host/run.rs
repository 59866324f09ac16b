//! `run`: evaluates a request, and prints the response as one line of JSON.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use headroom_wasm_host::access::Access;
use headroom_wasm_host::admission::{AdmissionRequest, AdmissionResponse};
use headroom_wasm_host::cluster::Cluster;
use headroom_wasm_host::host::PolicyHost;
use headroom_wasm_host::host_call::{HostCalls, NoCluster};
use headroom_wasm_host::metadata::{ContextAwareResource, Metadata};
use headroom_wasm_host::session::{Recorder, Replay};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub struct Arguments {
    /// The wasm of the policy
    policy: PathBuf,
    /// File with the AdmissionReview or AdmissionRequest
    #[arg(short, long, value_name = "PATH")]
    request_path: PathBuf,
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

pub fn run(arguments: &Arguments) -> Result<(), String> {
    let request = AdmissionRequest::from_json(&read("the request", &arguments.request_path)?)?;
    let settings = settings(arguments)?;
    let policy = &arguments.policy;
    let wasm = fs::read(policy).map_err(|error| format!("cannot read `{}`: {error}", policy.display()))?;
    let access = Access {
        resources: granted(arguments, Metadata::from_wasm(&wasm)?),
        capabilities: arguments.allowed_host_capabilities.clone(),
    };
    let host = PolicyHost::from_bytes(&wasm)?;
    let validation = host.validate_settings(&settings);
    if !validation.valid {
        return Err(format!("Provided settings are not valid: {:?}", validation.message.unwrap_or_default()));
    }
    let response = answering(arguments, |calls| host.validate(&request, &settings, &access, calls))?;
    println!("{}", serde_json::to_string(&response).map_err(|error| error.to_string())?);
    Ok(())
}

fn read(what: &str, path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {what} from `{}`: {error}", path.display()))
}

/// The settings, of which the policy expects an object.
fn settings(arguments: &Arguments) -> Result<Value, String> {
    let unreadable = |error: &dyn Display| format!("cannot read the settings: {error}");
    let settings = match (&arguments.settings_path, &arguments.settings_json) {
        (Some(path), _) => serde_yaml::from_str(&read("the settings", path)?).map_err(|error| unreadable(&error))?,
        (None, Some(json)) => serde_json::from_str(json).map_err(|error| unreadable(&error))?,
        (None, None) => json!({}),
    };
    match settings {
        Value::Object(_) => Ok(settings),
        other => Err(format!("the settings are `{other}`: expected an object")),
    }
}

fn granted(arguments: &Arguments, metadata: Option<Metadata>) -> BTreeSet<ContextAwareResource> {
    let declared = metadata.map(|metadata| metadata.context_aware_resources).unwrap_or_default();
    if arguments.allow_context_aware {
        return declared;
    }
    if !declared.is_empty() {
        eprintln!("the policy needs to read Kubernetes resources: use `--allow-context-aware`");
    }
    BTreeSet::new()
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
