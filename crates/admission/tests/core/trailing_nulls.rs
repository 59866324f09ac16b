//! A later field replaces an earlier one with the same name, and `null` means absent, so a trailing `null` removes the
//! earlier value. All readers of a record must agree on this.

use headroom_admission::{Request, cluster::limit_range::Item, request::Role};

use crate::harness::node;

fn request(fields: &str) -> Request<'static> {
    let review = node(format!(
        r#"{{"uid":"1","operation":"CREATE","resource":{{"group":"","resource":"pods"}},"kind":{{"kind":"Pod"}},
            "namespace":"shop","name":"web","userInfo":{{"username":"mallory"}},{fields}}}"#
    ));
    Request::read(review).unwrap()
}

#[test]
fn a_trailing_null_removes_a_value_of_a_request() {
    let found = request(r#""userInfo":null,"namespace":null,"subResource":"status","subResource":null"#);
    assert_eq!([found.user, found.namespace, found.subresource], ["", "", ""]);
    assert!(request(r#""object":{"spec":{"containers":[]}},"object":null"#).object.is_none());
}

#[test]
fn a_trailing_null_removes_a_value_of_a_container() {
    let object = r#""object":{"spec":{"containers":[{"name":"web","image":"nginx","image":null,
        "resources":{"requests":{"cpu":"1"}},"resources":null}],
        "initContainers":[{"name":"log","restartPolicy":"Always","restartPolicy":null}]}}"#;
    let pod = request(object).pod().unwrap().unwrap();
    let [web, log] = &pod.containers[..] else { panic!("two containers") };
    assert_eq!((web.name.as_ref(), web.image.as_ref()), ("web", ""));
    assert!(web.resources.is_empty());
    assert_eq!(log.role, Role::Init);
}

#[test]
fn a_trailing_null_removes_a_value_of_a_limit_range() {
    let item = Item::read(node(r#"{"type":"Container","max":{"cpu":"1"},"max":null,"min":{"cpu":"1m"}}"#)).unwrap();
    assert!(item.max.is_empty() && !item.min.is_empty());
}
