//! The policy, natively, before a host made for a test: a set of objects, or a session file that is replayed.
//!
//! The testkit has a better host; but it brings wasmtime with it, which would be built for nothing else here.

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
                // There is always the namespace of an object.
                let is_namespace = kind == "Namespace";
                is_namespace.then(|| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": call["name"]}}))
            });
            return there.ok_or_else(|| format!("Cannot find {kind}"));
        }
        Ok(json!({"items": found.collect::<Vec<_>>()}))
    }
}

/// The exchanges of a session file that are left.
pub struct Session(Vec<Value>);

impl Session {
    pub fn read(text: &str) -> Self {
        let mut exchanges: Vec<Value> = serde_saphyr::from_str(text).unwrap();
        exchanges.reverse();
        Self(exchanges)
    }

    /// As strict as kwctl: the next exchange must be the one asked for, masks included.
    pub fn answer(&mut self, operation: &str, call: &Value) -> Result<Value, String> {
        let exchange = self.0.pop().expect("the session has the exchange");
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
