//! A real waPC host: runs the policy's wasm as Kubewarden's policy server does.
//!
//! As in Kubewarden, every call gets a fresh instance. As in the policy server, the guest runs on its own thread and
//! sends host calls over a channel, so that callers can answer them from a plain `&mut dyn HostCalls`.

use std::{fs, path::Path, sync::mpsc, thread};

use serde::Deserialize;
use serde_json::Value;

use crate::access::Access;
use crate::admission::{AdmissionRequest, AdmissionResponse};
#[cfg(feature = "compiler")]
use crate::compiler::Compiled;
use crate::host_call::{CallbackRequest, HostCalls, NoCluster};
#[cfg(feature = "interpreter")]
use crate::interpreter::Interpreter;
use crate::protocol::{Answer, Exchange, GuestCall, HostCall};

/// A loaded policy that can be evaluated any number of times, by its engine.
pub enum PolicyHost {
    #[cfg(feature = "compiler")]
    Compiled(Box<Compiled>),
    #[cfg(feature = "interpreter")]
    Interpreted(Interpreter),
}

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

/// A host call sent from the guest's thread to the answering thread, and where the reply goes.
type PendingCall = (HostCall, mpsc::Sender<Result<Vec<u8>, String>>);

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
        Ok(Self::Interpreted(Interpreter::new(wasm)?))
    }

    /// Compiles the wasm, or finds it in wasmtime's cache.
    #[cfg(feature = "compiler")]
    pub fn from_bytes(wasm: &[u8]) -> Result<Self, String> {
        Ok(Self::Compiled(Box::new(Compiled::cached(wasm)?)))
    }

    /// Calls a guest operation in a fresh instance.
    pub fn call(&self, operation: &str, payload: &[u8], access: &Access, calls: &mut dyn HostCalls) -> Called {
        let guest_call = GuestCall::new(operation, payload.to_vec());
        let (ask, pending) = mpsc::channel::<PendingCall>();
        let mut exchanges = Vec::new();
        let response = thread::scope(|scope| {
            let guest = scope.spawn(move || match self {
                #[cfg(feature = "compiler")]
                Self::Compiled(compiled) => compiled.call(guest_call, asking(ask)),
                #[cfg(feature = "interpreter")]
                Self::Interpreted(interpreter) => interpreter.call(guest_call, asking(ask)),
            });
            // The loop ends when the guest's side of the channel is dropped, with the guest itself.
            for (call, reply) in pending {
                let exchange = answer(call, access, calls);
                let answer = exchange.answer.clone();
                exchanges.push(exchange);
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

/// Answers host calls on the guest's thread, by asking the other.
fn asking(ask: mpsc::Sender<PendingCall>) -> Answer {
    Box::new(move |call| {
        let (reply, answer) = mpsc::channel();
        ask.send((call, reply)).map_err(|_| "Error sending request over callback channel")?;
        answer.recv().map_err(|_| "Error obtaining response over callback channel")?
    })
}

/// Checks and answers one host call. Errors have the texts of Kubewarden's callback.
pub fn answer(call: HostCall, access: &Access, calls: &mut dyn HostCalls) -> Exchange {
    let answer = checked_answer(&call, access, calls);
    Exchange { call, answer }
}

fn checked_answer(
    HostCall { binding, namespace, operation, payload }: &HostCall,
    access: &Access,
    calls: &mut dyn HostCalls,
) -> Result<Vec<u8>, String> {
    if binding != "kubewarden" {
        return Err(format!("unknown binding: {binding}"));
    }
    if (namespace.as_str(), operation.as_str()) == ("tracing", "log") {
        eprintln!("{}", String::from_utf8_lossy(payload));
        return Ok(Vec::new());
    }
    access.check_capability(namespace, operation)?;
    let request = CallbackRequest::read(namespace, operation, payload)?;
    access.check_resource(&request)?;
    calls.call(&request).map_err(|error| format!("Callback evaluation failure: {error}"))
}
