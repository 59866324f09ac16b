//! The policy as native code, with a host for tests: a set of objects, or a replayed session file.
//!
//! The testkit has a better host, but it needs wasmtime, which nothing else here uses.

use serde_json::{Map, Value, json};

/// What the policy answers to a request; `host` answers its calls.
pub fn policy(request: &Value, settings: &Value, host: &mut dyn FnMut(&str, &Value) -> Result<Value, String>) -> Value {
    let payload = json!({"request": request, "settings": settings}).to_string();
    let answer = headroom_policy::judge(payload.as_bytes(), &mut |operation, call| {
        let call: Value = serde_json::from_slice(call).unwrap();
        host(operation, &call).map(|answer| answer.to_string().into_bytes())
    });
    serde_json::from_slice(&answer).unwrap()
}

/// A host with some objects, and kinds that cannot be read.
pub struct Objects {
    pub objects: Vec<Value>,
    pub unreadable: Vec<String>,
}

impl Objects {
    pub fn answer(&self, operation: &str, call: &Value) -> Result<Value, String> {
        let kind = call["kind"].as_str().unwrap();
        if self.unreadable.iter().any(|unreadable| unreadable == kind) {
            return Err("it is forbidden".to_owned());
        }
        let is_asked_for = |object: &&Value| {
            object["apiVersion"] == call["api_version"]
                && object["kind"] == call["kind"]
                && object["metadata"]["namespace"] == call["namespace"]
        };
        let mut found = self.objects.iter().filter(is_asked_for);
        if operation == "get_resource" {
            let named = found.find(|object| object["metadata"]["name"] == call["name"]);
            let there = named.cloned().or_else(|| {
                // The namespace of an object always exists.
                let is_namespace = kind == "Namespace";
                is_namespace.then(|| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": call["name"]}}))
            });
            return there.ok_or_else(|| format!("Cannot find {kind}"));
        }
        Ok(json!({"items": found.collect::<Vec<_>>()}))
    }
}

/// The remaining exchanges of a session file.
pub struct Session(Vec<Value>);

impl Session {
    pub fn read(text: &str) -> Self {
        let mut exchanges: Vec<Value> = serde_saphyr::from_str(text).unwrap();
        exchanges.reverse();
        Self(exchanges)
    }

    /// As strict as kwctl: a call must equal the next exchange, including masks.
    pub fn answer(&mut self, operation: &str, call: &Value) -> Result<Value, String> {
        let exchange = self.0.pop().expect("the session has no more exchanges");
        assert_eq!(exchange["type"], "Exchange");
        let (variant, fields) = exchange["request"].as_str().unwrap().split_once('\n').unwrap();
        let expected_variant = match operation {
            "get_resource" => "!KubernetesGetResource",
            _ => "!KubernetesListResourceNamespace",
        };
        let fields: Map<String, Value> = serde_saphyr::from_str(fields).unwrap();
        let without_nulls: Map<String, Value> = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
        assert_eq!((variant, &Value::Object(without_nulls)), (expected_variant, call));
        let response = &exchange["response"];
        match response["type"].as_str().unwrap() {
            "Success" => Ok(serde_json::from_str(response["payload"].as_str().unwrap()).unwrap()),
            _ => Err(response["message"].as_str().unwrap().to_owned()),
        }
    }

    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}
