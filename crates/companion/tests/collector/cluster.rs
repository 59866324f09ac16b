//! Writing to a cluster, against an API server made of a map: what is asked of it, and what is said when it refuses.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::support::*;
use headroom_companion::collect::gathered::Gathered;
use headroom_companion::metrics::Metrics;
use headroom_companion::publish::cluster::Cluster;
use headroom_companion::publish::{Destination, PublishError, Published, Publisher};
use headroom_companion::source::{Batch, Container, Resource, Sample, Series, Source, Window};
use headroom_companion::store::Store;
use headroom_core::timestamp::Timestamp;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

/// How the API server behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Scenario {
    #[default]
    Ordinary,
    /// Every second request fails.
    Shaky,
    NotInstalled,
    Forbidden,
    /// Rights in some namespaces only.
    ForbiddenInLab,
    Conflict,
    ShopIsGone,
    /// A quota on objects of the kind.
    QuotaInLab,
    /// A webhook that denies.
    WebhookInLab,
    /// A webhook whose server is down.
    BrokenWebhookInLab,
    /// Every request fails.
    Down,
}

const FORBIDDEN: &str = r#"usageprofiles.headroom.dev "usage" is forbidden: User "system:serviceaccount:headroom:collector" cannot patch resource "usageprofiles" in API group "headroom.dev" in the namespace "lab""#;
const QUOTA: &str = r#"usageprofiles.headroom.dev "usage" is forbidden: exceeded quota: objects, requested: count/usageprofiles.headroom.dev=1, used: count/usageprofiles.headroom.dev=0, limited: count/usageprofiles.headroom.dev=0"#;
const WEBHOOK: &str = r#"admission webhook "guard.example" denied the request: only people may write here"#;
const BROKEN_WEBHOOK: &str = r#"Internal error occurred: failed calling webhook "guard.example": connection refused"#;

#[derive(Default)]
struct ApiServer {
    scenario: Mutex<Scenario>,
    /// By `namespace/name`.
    objects: Mutex<BTreeMap<String, Value>>,
    /// Method, path and query of each request.
    requests: Mutex<Vec<String>>,
}

fn status(code: StatusCode, reason: &str, message: &str, details: Value) -> (StatusCode, Value) {
    let code_number = code.as_u16();
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code_number, "reason": reason, "message": message, "details": details}),
    )
}

impl ApiServer {
    async fn start(self: &Arc<Self>) -> Cluster {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let server = Arc::clone(&server);
                        async move { Ok::<_, Infallible>(server.answer(request).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(connection), service)
                        .await;
                });
            }
        });
        let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
        config.default_retry = false;
        Cluster::new(kube::Client::try_from(config).unwrap(), false, pace())
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (code, body) = self.object(&parts, &body);
        self.requests.lock().unwrap().push(format!("{} {}", parts.method, parts.uri));
        let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
        *response.status_mut() = code;
        response
    }

    fn object(&self, request: &http::request::Parts, body: &[u8]) -> (StatusCode, Value) {
        let scenario = *self.scenario.lock().unwrap();
        let path = request.uri.path().strip_prefix("/apis/headroom.dev/v1alpha1/").unwrap();
        let mut objects = self.objects.lock().unwrap();
        if scenario == Scenario::Shaky && self.requests.lock().unwrap().len().is_multiple_of(2) {
            return status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "etcd has no leader", json!({}));
        }
        if scenario == Scenario::Down {
            return status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "etcd has no leader", json!({}));
        }
        if scenario == Scenario::NotInstalled {
            let message = "the server could not find the requested resource";
            return status(StatusCode::NOT_FOUND, "NotFound", message, json!({}));
        }
        if path == "usageprofiles" {
            let items: Vec<Value> = objects.values().map(|object| json!({"metadata": object["metadata"]})).collect();
            return (
                StatusCode::OK,
                json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items}),
            );
        }
        let (namespace, name) = path.strip_prefix("namespaces/").unwrap().split_once("/usageprofiles/").unwrap();
        let key = format!("{namespace}/{name}");
        match request.method {
            Method::GET => match objects.get(&key) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => status(StatusCode::NOT_FOUND, "NotFound", "not found", json!({"kind": "usageprofiles"})),
            },
            Method::DELETE => (StatusCode::OK, objects.remove(&key).unwrap()),
            Method::PATCH => {
                assert_eq!(request.headers["content-type"], "application/apply-patch+yaml");
                if scenario == Scenario::Forbidden {
                    return status(StatusCode::FORBIDDEN, "Forbidden", FORBIDDEN, json!({}));
                }
                let in_lab = match scenario {
                    Scenario::ForbiddenInLab => Some((StatusCode::FORBIDDEN, FORBIDDEN)),
                    Scenario::QuotaInLab => Some((StatusCode::FORBIDDEN, QUOTA)),
                    Scenario::WebhookInLab => Some((StatusCode::FORBIDDEN, WEBHOOK)),
                    Scenario::BrokenWebhookInLab => Some((StatusCode::INTERNAL_SERVER_ERROR, BROKEN_WEBHOOK)),
                    _ => None,
                };
                if let Some((code, message)) = in_lab.filter(|_| namespace == "lab") {
                    return status(code, "Forbidden", message, json!({}));
                }
                if scenario == Scenario::Conflict && namespace == "lab" {
                    let message = r#"Apply failed with 1 conflict: conflict with "kubectl": .spec"#;
                    return status(StatusCode::CONFLICT, "Conflict", message, json!({}));
                }
                if scenario == Scenario::ShopIsGone && namespace == "shop" {
                    let details = json!({"name": "shop", "kind": "namespaces"});
                    return status(StatusCode::NOT_FOUND, "NotFound", r#"namespaces "shop" not found"#, details);
                }
                let object: Value = serde_json::from_slice(body).unwrap();
                objects.insert(key, object.clone());
                (StatusCode::OK, object)
            }
            _ => unreachable!("{}", request.method),
        }
    }

    fn names(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    /// How many requests had this method, since last asked.
    fn count(&self, method: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| request.starts_with(method)).count()
    }
}

/// A store with the three workloads in it.
async fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (source, all) = (Scripted::new(three_workloads()), Window { from: NOW - 30 * DAY, to: NOW });
    let mut gathered = Gathered::default();
    for namespace in ["shop", "lab"] {
        source.read(namespace, all, &mut |batch| gathered.take(batch, all)).await.unwrap();
    }
    store.add_present(all, &gathered, None).unwrap();
    (folder, store)
}

async fn publish(store: &Store, cluster: Cluster, as_of: i64) -> Result<Published, PublishError> {
    let (destination, metrics) = (Destination::Cluster(Box::new(cluster)), Metrics::default());
    let publisher = Publisher {
        store,
        destination: &destination,
        pool_namespace: "headroom",
        refresh: 6 * HOUR,
        metrics: &metrics,
    };
    publisher.publish(Timestamp::from_unix_seconds(as_of).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_applied_and_only_when_they_say_something_new() {
    let (_folder, store) = store().await;
    let server = Arc::new(ApiServer::default());
    let first = publish(&store, server.start().await, NOW).await.unwrap();
    let names = server.names();
    assert_eq!((first.written, first.unchanged), (names.len() as u64, 0));
    assert!(names.contains(&"shop/usage".to_owned()) && names.contains(&"headroom/pool-26".to_owned()), "{names:?}");
    let apply = server.requests.lock().unwrap().iter().find(|request| request.starts_with("PATCH")).cloned().unwrap();
    assert!(apply.ends_with("fieldManager=headroom-collector"), "{apply}");
    assert_eq!(
        server.objects.lock().unwrap()["shop/usage"]["metadata"],
        json!({"name": "usage", "namespace": "shop", "labels": {"app.kubernetes.io/managed-by": "headroom-collector"}})
    );

    let again = publish(&store, server.start().await, NOW + HOUR).await.unwrap();
    assert_eq!((again.written, again.unchanged), (0, first.written));
    assert_eq!(server.count("PATCH"), names.len());
    let later = publish(&store, server.start().await, NOW + 7 * HOUR).await.unwrap();
    assert_eq!(later.written, first.written, "to show that it is kept up to date");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_is_deleted_and_what_is_not_ours_is_not_listed() {
    let (_folder, store) = store().await;
    let server = Arc::new(ApiServer::default());
    publish(&store, server.start().await, NOW).await.unwrap();
    let much_later = NOW + 40 * DAY;
    store.expire((much_later / DAY) as u32).unwrap();
    let last = publish(&store, server.start().await, much_later).await.unwrap();
    assert_eq!((last.written, server.names()), (0, Vec::new()));
    assert!(last.deleted > 2);
    let list = server.requests.lock().unwrap().iter().rfind(|request| request.contains("labelSelector")).cloned();
    assert!(list.unwrap().contains("labelSelector=app.kubernetes.io%2Fmanaged-by%3Dheadroom-collector"));
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_troubles_are_outlasted() {
    let (_folder, store) = store().await;
    let server = Arc::new(ApiServer::default());
    *server.scenario.lock().unwrap() = Scenario::Shaky;
    let published = publish(&store, server.start().await, NOW).await.unwrap();
    assert!(published.failed.is_empty() && published.written > 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_holds_up_one_profile() {
    let (_folder, store) = store().await;
    let server = Arc::new(ApiServer::default());
    *server.scenario.lock().unwrap() = Scenario::Conflict;
    let published = publish(&store, server.start().await, NOW).await.unwrap();
    assert!(published.written > 1);
    let said = published.failed.values().next().unwrap().to_string();
    assert_eq!(
        said,
        "another writer owns parts of usageprofile `lab/usage` (Apply failed with 1 conflict: conflict with \"kubectl\": .spec): \
         let one of the two keep it, or take it over with --force-conflicts"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_gone_is_no_failure() {
    let (_folder, store) = store().await;
    let server = Arc::new(ApiServer::default());
    *server.scenario.lock().unwrap() = Scenario::ShopIsGone;
    let published = publish(&store, server.start().await, NOW).await.unwrap();
    assert!(published.failed.is_empty() && !server.names().contains(&"shop/usage".to_owned()));
    assert!(server.names().contains(&"lab/usage".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_refusal_of_one_namespace_holds_up_no_other() {
    for (scenario, expected) in [
        (
            Scenario::QuotaInLab,
            "usageprofile `lab/usage` is refused (usageprofiles.headroom.dev \"usage\" is forbidden: exceeded quota: ",
        ),
        (
            Scenario::WebhookInLab,
            "usageprofile `lab/usage` is refused (admission webhook \"guard.example\" denied the request: ",
        ),
        (Scenario::BrokenWebhookInLab, "cannot patch usageprofiles: Internal error occurred: failed calling webhook "),
        (
            Scenario::ForbiddenInLab,
            "not allowed to patch usageprofiles (usageprofiles.headroom.dev \"usage\" is forbidden: User ",
        ),
    ] {
        let (_folder, store) = store().await;
        let server = Arc::new(ApiServer::default());
        *server.scenario.lock().unwrap() = scenario;
        let published = publish(&store, server.start().await, NOW).await.unwrap();
        let names = server.names();
        assert!(
            names.contains(&"shop/usage".to_owned()) && names.contains(&"headroom/pool-26".to_owned()),
            "{names:?}"
        );
        let failed: Vec<_> =
            published.failed.iter().map(|((namespace, _), error)| (namespace.as_str(), error)).collect();
        assert!(matches!(failed[..], [("lab", error)] if error.to_string().starts_with(expected)), "{failed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_in_trouble_ends_the_round() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut gathered = Gathered::default();
    let all = Window { from: NOW - DAY, to: NOW };
    for number in 0..100 {
        let container = Container {
            namespace: format!("team-{number}"),
            pod: "web-0".into(),
            name: "main".into(),
            image: "nginx".into(),
        };
        let samples = vec![Sample { time: NOW - HOUR, value: 1 }];
        let series = Series { container, resource: Resource::Cpu, samples, step_seconds: 60 };
        gathered.take(Batch::Usage(vec![series]), all);
    }
    store.add_present(all, &gathered, None).unwrap();
    let server = Arc::new(ApiServer::default());
    *server.scenario.lock().unwrap() = Scenario::Down;
    let error = publish(&store, server.start().await, NOW).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot get usageprofiles: etcd has no leader");
    assert!(server.count("GET") < 50, "{}", server.count("GET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_concerns_all_profiles_is_said_once_with_what_to_do() {
    let (_folder, store) = store().await;
    let server = Arc::new(ApiServer::default());
    for (scenario, expected) in [
        (Scenario::NotInstalled, "the cluster does not know the kind UsageProfile: apply deploy/crd.yaml"),
        (
            Scenario::Forbidden,
            "not allowed to patch usageprofiles (usageprofiles.headroom.dev \"usage\" is forbidden: User \
             \"system:serviceaccount:headroom:collector\" cannot patch resource \"usageprofiles\" in API group \
             \"headroom.dev\" in the namespace \"lab\"): bind this account to the roles in \
             deploy/collector/base/rbac.yaml",
        ),
    ] {
        *server.scenario.lock().unwrap() = scenario;
        let error = publish(&store, server.start().await, NOW).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
