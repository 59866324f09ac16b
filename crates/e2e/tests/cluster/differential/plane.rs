//! One of the API servers, and the requests of cases to it.

use futures::{StreamExt, stream};
use headroom_e2e::cluster::{api_in, create, try_create};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};

use super::case::{Case, GOLD, RUNTIME_CLASS};
use super::outcome::{Answer, Outcome, values};
use crate::guarded_namespace::eventually;
use crate::objects::{limit_range, pod, quota};

/// Concurrent requests to one API server.
const AT_ONCE: usize = 12;
const LATEST_RANGES: &str = "latest-ranges";
const LATEST_QUOTAS: &str = "latest-quotas";

pub struct Plane {
    pub client: Client,
    /// The labels of the cases' namespaces.
    pub labels: Value,
    /// The prefix of the namespaces' names, so that two planes can share an API server.
    pub prefix: &'static str,
}

impl Plane {
    pub fn namespace_of(&self, case: &Case) -> String {
        format!("{}-{}", self.prefix, case.seed)
    }

    /// Creates the namespaces of all cases and the objects in them.
    pub async fn prepare_all(&self, cases: &[Case]) {
        self.prepare_classes().await.unwrap();
        stream::iter(cases)
            .map(|case| async move {
                if let Err(error) = self.prepare(case).await {
                    panic!("seed {}: the case cannot be set up: {error}\n{}", case.seed, text_of(case));
                }
            })
            .buffer_unordered(AT_ONCE)
            .collect::<()>()
            .await;
    }

    /// Sends the requests of all cases. The answers are in the order of the cases.
    pub async fn ask_all(&self, cases: &[Case]) -> Vec<Answer> {
        let asked = stream::iter(cases).map(|case| self.ask(case, case.sent(), false));
        asked.buffered(AT_ONCE).collect().await
    }

    /// The answers for cases with forged fields, but without these fields. Nothing is stored.
    pub async fn ask_all_unforged(&self, cases: &[Case]) -> Vec<Option<Answer>> {
        let asked = stream::iter(cases).map(|case| async move {
            case.forged.as_ref()?;
            Some(self.ask(case, &case.request.object, true).await)
        });
        asked.buffered(AT_ONCE).collect().await
    }

    /// Creates cluster-scoped objects, unless another plane has created them at the same API server.
    async fn prepare_classes(&self) -> kube::Result<()> {
        let storage_class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": GOLD},
            "provisioner": "example.com/disks", "allowVolumeExpansion": true,
        });
        for object in [runtime_class(), storage_class] {
            match create(&self.client, object).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    async fn prepare(&self, case: &Case) -> kube::Result<()> {
        let namespace = &self.namespace_of(case);
        let metadata = json!({"name": namespace, "labels": self.labels});
        create(&self.client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await?;
        for object in case.request.before.iter().chain(&case.rules) {
            create(&self.client, within(object, namespace)).await?;
            if let Some(status) = object.get("status") {
                self.set_status(namespace, object, status).await?;
            }
        }
        Ok(())
    }

    async fn set_status(&self, namespace: &str, object: &Value, status: &Value) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        let api = self.api(object, namespace);
        api.patch_status(object["metadata"]["name"].as_str().unwrap(), &PatchParams::default(), &patch).await.map(drop)
    }

    /// The API for objects of the same kind.
    pub fn api(&self, object: &Value, namespace: &str) -> Api<DynamicObject> {
        let [api_version, kind] = ["apiVersion", "kind"].map(|field| object[field].as_str().unwrap());
        api_in(&self.client, namespace, api_version, kind)
    }

    /// Sends the request of a case with this object, for which there is always a verdict.
    async fn ask(&self, case: &Case, object: &Value, dry_run: bool) -> Answer {
        let asked = self.try_ask(case, object, dry_run).await;
        asked.unwrap_or_else(|error| panic!("seed {}: no verdict: {error}\n{}", case.seed, text_of(case)))
    }

    async fn try_ask(&self, case: &Case, object: &Value, dry_run: bool) -> kube::Result<Answer> {
        let namespace = &self.namespace_of(case);
        let stored_as = case.request.before.as_ref().unwrap_or(object);
        let requests = kube::core::Request::new(self.api(stored_as, namespace).resource_url());
        let object = within(object, namespace);
        let request = match &case.request.before {
            None => {
                let parameters = PostParams { dry_run, ..PostParams::default() };
                requests.create(&parameters, object.to_string().into_bytes())
            }
            Some(before) => {
                let name = before["metadata"]["name"].as_str().unwrap();
                let parameters = PatchParams { dry_run, ..PatchParams::default() };
                let patch = if case.merges_lists { Patch::Strategic(&object) } else { Patch::Merge(&object) };
                match case.request.subresource {
                    Some(subresource) => requests.patch_subresource(subresource, name, &parameters, &patch),
                    None => requests.patch(name, &parameters, &patch),
                }
            }
        };
        // Does not use `Api`, which drops warnings.
        let response = self.client.send(request.map_err(kube::Error::BuildRequest)?.map(Body::from)).await?;
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned()).collect();
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let outcome = if code.is_success() {
            let stored = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
            Outcome::Admitted(values(&stored, case.has_one_range()))
        } else {
            let status: kube::core::Status = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
            if !matches!(status.code, 400 | 403 | 422) {
                return Err(kube::Error::Api(status.boxed()));
            }
            Outcome::Refused { is_invalid: status.code != 403, message: status.message }
        };
        Ok(Answer { outcome, warnings })
    }

    /// Creates a pod by dry run; returns why it would be refused.
    async fn probe(&self, namespace: &str, resources: Value) -> String {
        let tried = try_create(&self.client, pod(namespace, "probe", resources)).await;
        tried.err().map_or("admitted".to_owned(), |refused| refused.to_string())
    }

    /// The plugins read from a cache that follows the store. These two objects are changed after all others; when the
    /// plugins use the change, they have seen everything before it.
    pub async fn prepare_latest(&self) -> kube::Result<()> {
        for namespace in [LATEST_RANGES, LATEST_QUOTAS] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            create(&self.client, namespace).await?;
        }
        create(&self.client, limit_range(LATEST_RANGES, json!({"max": {"cpu": "1"}}))).await?;
        let quota = quota(LATEST_QUOTAS, json!({"pods": "0"}));
        create(&self.client, quota.clone()).await?;
        self.set_status(LATEST_QUOTAS, &quota, &json!({"hard": {"pods": "0"}, "used": {"pods": "0"}})).await
    }

    pub async fn wait_for_latest(&self) -> kube::Result<()> {
        let range = limit_range(LATEST_RANGES, json!({"max": {"cpu": "2"}}));
        let max = Patch::Merge(json!({"spec": range["spec"]}));
        self.api(&range, LATEST_RANGES).patch("limits", &PatchParams::default(), &max).await?;
        let quota = quota(LATEST_QUOTAS, json!({"pods": "0"}));
        self.set_status(LATEST_QUOTAS, &quota, &json!({"used": {"pods": "7"}})).await?;
        eventually("the plugins' cache follows", async || {
            let limited = self.probe(LATEST_RANGES, json!({"limits": {"cpu": "3"}})).await;
            let exceeded = self.probe(LATEST_QUOTAS, json!({})).await;
            let follows = limited.contains("maximum cpu usage per Container is 2") && exceeded.contains("used: pods=7");
            follows.then_some(()).ok_or(format!("{limited}; {exceeded}"))
        })
        .await;
        Ok(())
    }
}

pub fn within(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(namespace);
    object
}

pub fn runtime_class() -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": RUNTIME_CLASS},
        "handler": RUNTIME_CLASS, "overhead": {"podFixed": {"cpu": "100m", "memory": "64Mi"}},
    })
}

pub fn text_of(case: &Case) -> String {
    let before = case.request.before.iter().map(|before| ("before", before));
    let rules = case.rules.iter().map(|rule| ("rule", rule));
    let forged = case.forged.iter().map(|forged| ("request with forged fields", forged));
    let all = rules.chain(before).chain([("request", &case.request.object)]).chain(forged);
    all.map(|(what, object)| format!("# {what}\n{}", serde_yaml::to_string(object).unwrap())).collect()
}
