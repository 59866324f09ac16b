//! Resource claims and the pods that they are made for.

use headroom_fixtures::api_server::{ApiServer, Outcome, Request};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::*;

fn put_class(server: &ApiServer) {
    server.serve("resource.k8s.io/v1", "ResourceClaim", true);
    server.put(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"}}));
}

fn pod_with_gpus(namespace: &str, name: &str) -> Value {
    pod_with(namespace, name, "example.com/gpu", "2")
}

/// A claim for so many devices, perhaps as the scheduler makes it for a pod.
fn claim(namespace: &str, name: &str, count: u32, made_for: Option<&str>) -> Value {
    let mut claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}});
    if let Some(pod) = made_for {
        claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        claim["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": true}]);
    }
    claim
}

/// The message with which a write of a claim is refused; empty if it is allowed.
async fn refusal(replica: &Running, object: &Value, old: &Value) -> String {
    let response = replica.ask(&review(object, old)).await;
    assert_eq!(response["allowed"] == true, response["status"].is_null(), "{response}");
    response["status"]["message"].as_str().unwrap_or_default().to_owned()
}

/// Devices count for pods and for the claims that request them, and once for a pod and the scheduler's claim for it.
#[tokio::test]
async fn resource_claims_are_charged_for_their_devices() {
    let server = bounded(&json!({"requests.example.com/gpu": "3"}));
    put_class(&server);
    server.put(pod_with_gpus("shop", "web"));
    let replica = Running::start(&server);
    until_counted(&server, "requests.example.com/gpu=2").await;
    let check = async |object: &Value, old: &Value, expected: &str| {
        let message = refusal(&replica, object, old).await;
        assert!(if expected.is_empty() { message.is_empty() } else { message.contains(expected) }, "{message}");
    };
    let text = "exceeded quota: team, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=2";
    check(&claim("shop", "own", 2, None), &Value::Null, text).await;
    // A claim for a pod that is not there is charged in full.
    check(&claim("shop", "forged", 2, Some("ghost")), &Value::Null, text).await;
    let of_web = claim("shop", "web-gpu", 2, Some("web"));
    check(&of_web, &Value::Null, "").await;
    // Only one claim has the pod's share, and the first is not stored yet.
    check(&claim("shop", "first", 2, Some("web")), &Value::Null, "retry").await;
    server.put(of_web);
    until_counted(&server, "requests.example.com/gpu=2").await;
    check(&claim("shop", "second", 2, Some("web")), &Value::Null, text).await;
    let stored = server.get("/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/web-gpu").unwrap();
    let mut given_up = stored.clone();
    given_up["metadata"].as_object_mut().unwrap().remove("annotations");
    check(&given_up, &stored, text).await;
    let mut labelled = stored.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    check(&labelled, &stored, "").await;
    delete_pod(&server, "shop", "web");
    until_counted(&server, "requests.example.com/gpu=2").await;
}

/// The reads for a claim depend only on the number of claims in its own namespace, and do not delay other namespaces.
#[tokio::test]
async fn claims_of_a_namespace_are_read_one_after_the_other() {
    let server = ApiServer::new();
    for name in ["shop", "web"] {
        server.put(namespace(name));
        server.put(pod_with_gpus(name, name));
    }
    server.put(quota("team", &["shop", "web"], &json!({"requests.example.com/gpu": "9k"})));
    server.put(pod_with_gpus("web", "other"));
    put_class(&server);
    (0..1_200).for_each(|number| server.put(claim("shop", &format!("many-{number}"), 1, Some("shop"))));
    let replica = Running::start(&server);
    until_counted(&server, "requests.example.com/gpu=1205").await;
    // Classes, the pod and pages of 500 claims; once more if the claim may have the pod's share.
    for (namespace, reads) in [("web", 6), ("shop", 5)] {
        server.take_requests();
        assert_eq!(refusal(&replica, &claim(namespace, "one", 3, Some(namespace)), &Value::Null).await, "");
        let read = server.take_requests();
        let is_of_claims = |read: &&Request| {
            let kinds = ["deviceclasses", "resourceclaims", "pods"];
            read.method == "GET"
                && kinds.iter().any(|kind| read.path.contains(kind))
                && read.parameter("watch").is_none()
        };
        assert_eq!(read.iter().filter(is_of_claims).count(), reads, "{namespace}: {read:?}");
    }
    // Nobody waits for lists of another namespace that take long, however many reviews wait for them.
    let is_slow = |request: &Request| request.path.ends_with("/namespaces/shop/resourceclaims");
    server.on_request(move |request| if is_slow(request) { Outcome::Hang } else { Outcome::Serve });
    let waiting = (0..20).map(async |number| {
        refusal(&replica, &claim("shop", &format!("slow-{number}"), 1, Some("shop")), &Value::Null).await
    });
    let other = async {
        until(|| json!(server.take_requests().iter().any(is_slow)), |is_asked| *is_asked == true).await;
        let message = refusal(&replica, &claim("web", "two", 3, Some("other")), &Value::Null).await;
        (message, Instant::now())
    };
    // Members of exempt groups are never refused.
    let mut by_operator = review(&claim("shop", "urgent", 1, Some("shop")), &Value::Null);
    by_operator["request"]["userInfo"]["groups"] = json!(["operators"]);
    let exempt = replica.ask(&by_operator);
    let slow = async { (futures::future::join_all(waiting).await, Instant::now()) };
    let ((message, answered), (messages, ended), exempt) = tokio::join!(other, slow, exempt);
    assert_eq!(exempt["allowed"], true, "{exempt}");
    assert!(message.is_empty() && answered < ended, "{message}");
    for message in messages {
        assert!(message.ends_with("too many claims of this namespace are waiting; retry"), "{message}");
    }
}
