//! A real waPC host: runs the policy's wasm with the same crates as Kubewarden's policy server.
//!
//! As in Kubewarden, every call gets a fresh instance. As in the policy server, the guest runs on its own thread and
//! sends host calls over a channel, so that callers can answer them from a plain `&mut dyn HostCalls`.

use std::{fs, path::Path, sync::mpsc, thread};

use serde::Deserialize;
use serde_json::Value;
use wapc::{WapcHost, WebAssemblyEngineProvider};
#[cfg(feature = "compiler")]
use wasmtime_provider::{WasmtimeEngineProviderBuilder, WasmtimeEngineProviderPre};

#[cfg(feature = "interpreter")]
use crate::interpreter::Interpreter;
use crate::{
    access::Access,
    admission::{AdmissionRequest, AdmissionResponse},
    host_call::{CallbackRequest, HostCalls, NoCluster},
};

/// A loaded policy that can be evaluated any number of times.
pub struct PolicyHost {
    policy: Policy,
}

/// The wasm engine.
enum Policy {
    /// Kubewarden's engine.
    #[cfg(feature = "compiler")]
    Compiled(Box<WasmtimeEngineProviderPre>),
    #[cfg(feature = "interpreter")]
    Interpreted(Interpreter),
}

/// One instance of a policy.
type Guest = Box<dyn WebAssemblyEngineProvider + Send>;

/// One host call with its payload, and the answer to the guest.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub namespace: String,
    pub operation: String,
    pub payload: Vec<u8>,
    pub answer: Result<Vec<u8>, String>,
}

/// The response to a guest call, and the host calls that it made.
#[derive(Debug, Clone)]
pub struct Called {
    pub response: Result<Vec<u8>, String>,
    pub exchanges: Vec<Exchange>,
}

/// The result of the guest operation `validate_settings`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SettingsValidation {
    pub valid: bool,
    pub message: Option<String>,
}

/// A host call sent from the guest's thread to the answering thread.
struct Asked {
    binding: String,
    namespace: String,
    operation: String,
    payload: Vec<u8>,
    reply: mpsc::Sender<Result<Vec<u8>, String>>,
}

impl PolicyHost {
    /// Loads the wasm of a policy, and compiles it if a compiler is built in.
    pub fn load(wasm: &Path) -> Result<Self, String> {
        let bytes = fs::read(wasm).map_err(|error| format!("cannot read `{}`: {error}", wasm.display()))?;
        Self::from_bytes(&bytes).map_err(|error| format!("cannot load `{}`: {error}", wasm.display()))
    }

    #[cfg(not(feature = "compiler"))]
    pub fn from_bytes(wasm: &[u8]) -> Result<Self, String> {
        Self::interpreted(wasm)
    }

    #[cfg(feature = "interpreter")]
    pub fn interpreted(wasm: &[u8]) -> Result<Self, String> {
        Ok(Self { policy: Policy::Interpreted(Interpreter::new(wasm)?) })
    }

    /// Compiles the wasm, or finds it in wasmtime's cache.
    #[cfg(feature = "compiler")]
    pub fn from_bytes(wasm: &[u8]) -> Result<Self, String> {
        let mut config = wasmtime::Config::new();
        // Without a cache the wasm is compiled again.
        config.cache(wasmtime::Cache::from_file(None).ok());
        let engine = wasmtime::Engine::new(&config).map_err(|error| error.to_string())?;
        let module = wasmtime::Module::new(&engine, wasm).map_err(|error| format!("{error:#}"))?;
        let compiled = WasmtimeEngineProviderBuilder::new()
            .engine(engine)
            .module(module)
            .build_pre()
            .map_err(|error| error.to_string())?;
        Ok(Self { policy: Policy::Compiled(Box::new(compiled)) })
    }

    fn instance(&self) -> Result<Guest, String> {
        match &self.policy {
            #[cfg(feature = "compiler")]
            Policy::Compiled(compiled) => Ok(Box::new(compiled.rehydrate(None).map_err(|error| error.to_string())?)),
            #[cfg(feature = "interpreter")]
            Policy::Interpreted(interpreter) => Ok(Box::new(interpreter.instance())),
        }
    }

    /// Calls a guest operation in a fresh instance.
    pub fn call(&self, operation: &str, payload: &[u8], access: &Access, calls: &mut dyn HostCalls) -> Called {
        let instance = match self.instance() {
            Ok(instance) => instance,
            Err(error) => return Called { response: Err(error), exchanges: Vec::new() },
        };
        let (ask, asked) = mpsc::channel::<Asked>();
        let mut exchanges = Vec::new();
        let response = thread::scope(|scope| {
            let guest = scope.spawn(move || call_guest(instance, operation, payload, ask));
            // The loop ends when the guest's side of the channel is dropped, with the guest itself.
            for Asked { binding, namespace, operation, payload, reply } in asked {
                let answer = answer(&binding, &namespace, &operation, &payload, access, calls);
                exchanges.push(Exchange { namespace, operation, payload, answer: answer.clone() });
                // A guest that has ended needs no answer; its result has the reason.
                let _ = reply.send(answer);
            }
            guest.join().unwrap_or_else(|_| Err("the guest's thread ended with a panic".to_owned()))
        });
        Called { response, exchanges }
    }

    /// Evaluates a request. As in the policy server, `settings` are not validated first.
    pub fn validate(
        &self,
        request: &AdmissionRequest,
        settings: &Value,
        access: &Access,
        calls: &mut dyn HostCalls,
    ) -> AdmissionResponse {
        let response = self.call("validate", &request.payload(settings), access, calls).response;
        match response.and_then(|json| serde_json::from_slice(&json).map_err(|error| error.to_string())) {
            Ok(validation) => AdmissionResponse::from_validation(request, validation),
            Err(error) => AdmissionResponse::internal_server_error(&request.uid, &error),
        }
    }

    pub fn validate_settings(&self, settings: &Value) -> SettingsValidation {
        let settings = settings.to_string();
        let called = self.call("validate_settings", settings.as_bytes(), &Access::to_no_resource(), &mut NoCluster);
        called
            .response
            .and_then(|json| serde_json::from_slice(&json).map_err(|error| error.to_string()))
            .unwrap_or_else(|error| SettingsValidation {
                valid: false,
                message: Some(format!("Error invoking settings validation callback: {error}")),
            })
    }

    pub fn protocol_version(&self) -> Result<String, String> {
        let called = self.call("protocol_version", b"", &Access::to_no_resource(), &mut NoCluster);
        serde_json::from_slice(&called.response?).map_err(|error| format!("the protocol version is not JSON: {error}"))
    }
}

/// Runs on the guest's thread.
fn call_guest(instance: Guest, operation: &str, payload: &[u8], ask: mpsc::Sender<Asked>) -> Result<Vec<u8>, String> {
    let callback = move |_id: u64, binding: &str, namespace: &str, operation: &str, payload: &[u8]| {
        let (reply, answer) = mpsc::channel();
        let asked = Asked {
            binding: binding.to_owned(),
            namespace: namespace.to_owned(),
            operation: operation.to_owned(),
            payload: payload.to_vec(),
            reply,
        };
        let gone = |_| "Error obtaining response over callback channel".to_owned();
        ask.send(asked).map_err(|_| "Error sending request over callback channel".to_owned())?;
        Ok(answer.recv().map_err(gone)??)
    };
    let host = WapcHost::new(instance, Some(Box::new(callback))).map_err(|error| error.to_string())?;
    host.call(operation, payload).map_err(|error| error.to_string())
}

/// Checks and answers one host call. Errors have the texts of Kubewarden's callback.
pub fn answer(
    binding: &str,
    namespace: &str,
    operation: &str,
    payload: &[u8],
    access: &Access,
    calls: &mut dyn HostCalls,
) -> Result<Vec<u8>, String> {
    if binding != "kubewarden" {
        return Err(format!("unknown binding: {binding}"));
    }
    if (namespace, operation) == ("tracing", "log") {
        eprintln!("{}", String::from_utf8_lossy(payload));
        return Ok(Vec::new());
    }
    access.check_capability(namespace, operation)?;
    let request = CallbackRequest::read(namespace, operation, payload)?;
    access.check_resource(&request)?;
    calls.call(&request).map_err(|error| format!("Callback evaluation failure: {error}"))
}
