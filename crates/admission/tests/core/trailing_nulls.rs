//! A later field replaces an earlier one with the same name, and `null` means absent, so a trailing `null` removes the
//! earlier value. All readers of a record must agree on this.

use headroom_admission::json::Document;
use headroom_admission::{Request, cluster::limit_range::Item, request::Role};

fn with_request(fields: &str, then: impl FnOnce(Request<'_>)) {
    let text = format!(
        r#"{{"uid":"1","operation":"CREATE","resource":{{"group":"","resource":"pods"}},"kind":{{"kind":"Pod"}},
            "namespace":"shop","name":"web","userInfo":{{"username":"mallory"}},{fields}}}"#
    );
    let document = Document::read(&text).unwrap();
    then(Request::read(document.root()).unwrap());
}

#[test]
fn a_trailing_null_removes_a_value_of_a_request() {
    with_request(r#""userInfo":null,"namespace":null,"subResource":"status","subResource":null"#, |request| {
        assert_eq!((request.user.as_ref(), request.namespace.as_ref(), request.subresource.as_ref()), ("", "", ""));
    });
    with_request(r#""object":{"spec":{"containers":[]}},"object":null"#, |request| assert!(request.object.is_none()));
}

#[test]
fn a_trailing_null_removes_a_value_of_a_container() {
    let object = r#""object":{"spec":{"containers":[{"name":"web","image":"nginx","image":null,
        "resources":{"requests":{"cpu":"1"}},"resources":null}],
        "initContainers":[{"name":"log","restartPolicy":"Always","restartPolicy":null}]}}"#;
    with_request(object, |request| {
        let pod = request.pod().unwrap().unwrap();
        let [web, log] = &pod.containers[..] else { panic!("two containers") };
        assert_eq!((web.name.as_ref(), web.image.as_ref()), ("web", ""));
        assert!(web.resources.is_empty());
        assert_eq!(log.role, Role::Init);
    });
}

#[test]
fn a_trailing_null_removes_a_value_of_a_limit_range() {
    let document = Document::read(r#"{"type":"Container","max":{"cpu":"1"},"max":null,"min":{"cpu":"1m"}}"#).unwrap();
    let item = Item::read(document.root()).unwrap();
    assert!(item.max.is_empty() && !item.min.is_empty());
}
