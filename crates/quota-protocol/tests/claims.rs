//! Claims and counts as examples and properties. `model` searches their interleavings.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop")]

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_admission::json::Document;
use headroom_admission::request::Request;
use headroom_quota_protocol::cache::CachedObject;
use headroom_quota_protocol::ledger::{MAX_BYTES, MAX_CLAIM_BYTES, MAX_CLAIMS, Refusal, Retry};
use headroom_quota_protocol::placement::MAX_TREES;
use headroom_quota_protocol::reservation_request::{RequestError, ReservationRequest, faults};
use headroom_quota_protocol::state::{Attempt, ObjectKey, StateLines};
use headroom_quota_protocol::{Cache, Footprint, LedgerVerdict, OpenLedger, Plan, State, encoding, message, recount};
use proptest::prelude::*;

fn plan(nodes: &[&str], namespaces: &[&str]) -> Plan {
    Plan::read(1, nodes, namespaces).unwrap()
}

fn state(used: &[&str]) -> State {
    let used = used.iter().map(|line| encoding::read_amounts(line).unwrap()).collect();
    State { plan: 1, used, ..State::default() }
}

fn footprint(text: &str) -> Arc<Footprint> {
    Arc::new(Footprint::read(text).unwrap())
}

/// An object as a watch reports it.
fn stored(uid: &str, version: u64, counted: &str) -> CachedObject {
    CachedObject { uid: uid.to_owned(), version, footprint: footprint(counted), ends: None, link: None }
}

/// Asks to create the pod `namespace/name` with a footprint, or to update it from an old footprint and version.
fn request(pod: &str, token: &str, asked: &str, old: Option<(&str, u64)>) -> ReservationRequest {
    let (namespace, name) = pod.split_once('/').unwrap();
    ReservationRequest {
        key: ObjectKey::new("pods", namespace, name),
        token: token.to_owned(),
        attempt: Attempt { uid: format!("uid-{name}"), version: old.map(|(_, version)| version) },
        footprint: footprint(asked),
        counted: old.map(|(counted, _)| footprint(counted)),
        ..ReservationRequest::default()
    }
}

fn settled(plan: &Plan, state: &State, cache: &Cache) -> Result<Option<State>, String> {
    recount(plan, state, cache, &cache.count_by_namespace(plan), &BTreeSet::new())
}

/// The used and claimed amount of a bound, by node.
fn held(ledger: &OpenLedger<'_>, name: &str) -> Vec<String> {
    ledger.usage_with_claims().iter().map(|held| held.get(name).unwrap().to_string()).collect()
}

#[track_caller]
fn refusal(verdict: LedgerVerdict) -> Refusal {
    let LedgerVerdict::Refused(refusal) = verdict else { panic!("{verdict:?}") };
    refusal
}

fn refusal_text(plan: &Plan, refusal: &Refusal, consumers: &dyn Fn(&str, &str) -> message::Consumers) -> String {
    let key = ObjectKey::new("pods", "shop", "web-0");
    message::refusal_parts("tenant quota", &key, plan, refusal, consumers).join("; ")
}

#[test]
fn a_refusal_starts_with_kubernetes_text_and_states_what_is_reserved() {
    let plan = plan(&["acme 1 - requests.cpu=300", "payments 1 0 pods=500 requests.cpu=100"], &["shop 1"]);
    let mut ledger = OpenLedger::new(&plan, state(&["requests.cpu=120", "pods=3 requests.cpu=99100m"]));
    assert_eq!(ledger.reserve(&request("shop/a", "1", "pods=1 requests.cpu=200m", None)), LedgerVerdict::Granted);
    assert_eq!(ledger.reserve(&request("shop/b", "2", "pods=1 requests.cpu=500m", None)), LedgerVerdict::Granted);
    let refusal = refusal(ledger.reserve(&request("shop/web-0", "3", "pods=1 requests.cpu=500m", None)));
    assert_eq!(
        refusal_text(&plan, &refusal, &|_, _| message::Consumers::default()),
        "pods \"web-0\" is forbidden: exceeded quota: payments, requested: requests.cpu=500m, used: requests.cpu=99800m, \
         limited: requests.cpu=100; tenant quota payments: requests.cpu short by 300m (200m available, 700m of used \
         reserved by 2 unfinished requests)"
    );
    // Without the two claims there would be room, so waiting for them is worthwhile.
    assert_eq!(refusal.waits_for, ["1", "2"]);
}

#[test]
fn a_refusal_waits_only_for_claims_that_hold_part_of_the_bound_and_only_if_that_helps() {
    let plan = plan(&["a 1 - pods=9 requests.cpu=10", "b 1 - requests.cpu=10"], &["shop 0", "web 1"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=0 requests.cpu=6", "requests.cpu=0"]));
    for (pod, token, footprint) in
        [("shop/cpu", "1", "pods=1 requests.cpu=3"), ("shop/none", "2", "pods=1"), ("web/other", "3", "requests.cpu=3")]
    {
        assert_eq!(ledger.reserve(&request(pod, token, footprint, None)), LedgerVerdict::Granted);
    }
    for (cpu, expected) in [(2, &["1"] as &[&str]), (4, &["1"]), (5, &[])] {
        let footprint = format!("pods=1 requests.cpu={cpu}");
        let refusal = refusal(ledger.reserve(&request("shop/web-0", "4", &footprint, None)));
        assert_eq!(refusal.waits_for, expected, "{cpu}");
        let [shortage] = &refusal.quotas[..] else { panic!("{refusal:?}") };
        assert_eq!(shortage.reserved, [("3".parse().unwrap(), 1)], "{cpu}");
    }
}

#[test]
fn a_refusal_by_an_ancestor_names_its_children_and_no_namespaces() {
    let plan = plan(&["acme 1 - pods=2", "payments 1 0 pods=500"], &["shop 1"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=2", "pods=1"]));
    let refusal = refusal(ledger.reserve(&request("shop/web-0", "1", "pods=1", None)));
    let consumers = |quota: &str, name: &str| {
        assert_eq!((quota, name), ("acme", "pods"));
        message::Consumers {
            namespaces: vec![("secret".to_owned(), "2".parse().unwrap())],
            children: vec![("search".to_owned(), "1".parse().unwrap()), ("payments".to_owned(), "1".parse().unwrap())],
        }
    };
    assert_eq!(
        refusal_text(&plan, &refusal, &consumers),
        "pods \"web-0\" is forbidden: exceeded quota: acme, requested: pods=1, used: pods=2, limited: pods=2; tenant quota \
         acme (parent of payments): pods short by 1 (0 available); top children: search 1, payments 1"
    );
    assert_eq!(refusal.waits_for, Vec::<String>::new());
}

#[test]
fn only_amounts_that_grow_are_checked_against_a_bound() {
    let plan = plan(&["a 1 - pods=1 requests.cpu=1"], &["shop 0"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=5 requests.cpu=500m"]));
    // The number of pods exceeds its bound, but does not change.
    let grown = request("shop/a", "1", "pods=1 requests.cpu=700m", Some(("pods=1 requests.cpu=200m", 7)));
    assert_eq!(ledger.reserve(&grown), LedgerVerdict::Granted);
    assert!(!request("shop/a", "2", "pods=1 requests.cpu=200m", Some(("pods=1 requests.cpu=700m", 7))).grows(&plan));
    assert!(!request("other/a", "2", "pods=1", None).grows(&plan));
    assert!(!request("shop/a", "2", "services=1", None).grows(&plan));
}

#[test]
fn a_claim_is_charged_where_its_footprint_matches_even_after_the_plan_has_changed() {
    let old = plan(&["a 1 - pods=9"], &["shop 0"]);
    let mut ledger = OpenLedger::new(&old, state(&["pods=0"]));
    assert_eq!(ledger.reserve(&request("shop/a", "1", "pods=1 ~Terminating", None)), LedgerVerdict::Granted);
    let claimed = ledger.into_state();
    let new = plan(
        &["a 2 - pods=9", "b 1 0 pods=9 ~NotTerminating:Exists:", "c 1 0 pods=9 ~Terminating:Exists:"],
        &["shop 1,2"],
    );
    let state = State { used: state(&["pods=0", "pods=0", "pods=0"]).used, ..claimed };
    assert_eq!(held(&OpenLedger::new(&new, state), "pods"), ["1", "0", "1"]);
}

/// Makes requests until one is not granted. Returns how many were, and the other one's verdict.
fn fill(ledger: &mut OpenLedger<'_>, of: impl Fn(usize) -> ReservationRequest) -> (usize, LedgerVerdict) {
    let mut verdicts = (0..).map(|at| ledger.reserve(&of(at))).enumerate();
    verdicts.find(|(_, verdict)| *verdict != LedgerVerdict::Granted).unwrap()
}

/// The creation of one of many small pods in a namespace.
fn small(namespace: &str, at: usize) -> ReservationRequest {
    request(&format!("{namespace}/p{at}"), &format!("{namespace}-{at}"), "pods=1", None)
}

/// A footprint whose text has at least so many bytes.
fn long_footprint(bytes: usize, seed: usize) -> String {
    let names = (0..bytes / 20).map(|at| format!("a.b/{seed:06}-{at:06}=1"));
    ["pods=1".to_owned()].into_iter().chain(names).collect::<Vec<_>>().join(" ")
}

/// The size of the ledger's lists.
fn bytes(state: &State) -> usize {
    let StateLines { used, footprints, claims, .. } = state.write();
    used.iter().chain(&footprints).chain(&claims).map(String::len).sum()
}

#[test]
fn an_object_that_takes_too_much_of_the_ledger_is_refused() {
    let plan = plan(&["a 1 - pods=100000"], &["shop 0"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=0"]));
    let mut check = |request: &ReservationRequest, expected: &str| {
        let LedgerVerdict::TooLarge(too_large) = ledger.reserve(request) else { panic!("not refused") };
        assert_eq!(message::too_large(&request.key, &too_large), expected);
        assert_eq!(ledger.state(), &state(&["pods=0"]));
    };
    check(
        &request("shop/big", "1", &long_footprint(1_800_000, 0), None),
        "pods \"big\" is invalid: its name (3 bytes) and 90001 counted resources need more than 2048 bytes in the ledger: \
         use a shorter name or fewer resources",
    );
    // Kinds such as Roles have names of any length.
    let name = "a:".repeat(1_000_000);
    let cut = headroom_admission::truncate::shortened(&name).into_owned();
    check(
        &request(&format!("shop/{name}"), "1", "pods=1", None),
        &format!(
            "pods \"{cut}\" is invalid: its name (2000000 bytes) and 1 counted resources need more than 2048 bytes in \
             the ledger: use a shorter name or fewer resources"
        ),
    );
    // No quota bounds what is too large, but it would be written.
    check(
        &request("shop/web-0", "1", "ephemeral-storage=1e20", None),
        "pods \"web-0\" is invalid: ephemeral-storage is 1e20 or more, which quotas cannot count: set a smaller amount",
    );
    let old = long_footprint(1_800_000, 0);
    let shrunk = request("shop/big", "1", "pods=1", Some((&old, 7)));
    assert_eq!(ledger.reserve(&shrunk), LedgerVerdict::Granted);
    assert!(bytes(ledger.state()) < MAX_CLAIM_BYTES);
}

#[test]
fn no_tenant_fills_the_ledger() {
    let plan =
        plan(&["acme 1 - pods=9999", "a 1 0 pods=9999", "b 1 0 pods=9999"], &["a1 1", "a2 1", "b1 2", "b2 2", "own 0"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=0", "pods=0", "pods=0"]));
    for (namespace, expected) in [("a1", 171), ("a2", 57), ("b1", 95), ("own", 95)] {
        let filled = fill(&mut ledger, |at| small(namespace, at));
        assert_eq!(filled, (expected, LedgerVerdict::Retry(Retry::Claims)), "{namespace}");
    }
    // Another request for a key shares its claim.
    assert_eq!(ledger.reserve(&request("own/p0", "again", "pods=1", None)), LedgerVerdict::Granted);
}

/// In a ledger with several trees, roots have shares too.
#[test]
fn no_tree_fills_the_ledger_that_it_shares() {
    let roots: Vec<String> = (0..MAX_TREES).map(|at| format!("t{at} 1 - pods=9999")).collect();
    let namespaces: Vec<String> = (0..MAX_CLAIMS).map(|at| format!("n{at} {}", at % MAX_TREES)).collect();
    let of_trees = Plan::read(1, &roots, &namespaces).unwrap();
    let mut ledger = OpenLedger::new(&of_trees, state(&["pods=0"; MAX_TREES]));
    // Each claim in another namespace of the tree.
    let in_tree = |tree: usize, at: usize| small(&format!("n{}", tree + at * MAX_TREES % MAX_CLAIMS), at);
    let granted: Vec<usize> = (0..MAX_TREES).map(|tree| fill(&mut ledger, |at| in_tree(tree, at)).0).collect();
    assert_eq!(granted[..9], [134, 76, 47, 32, 24, 20, 18, 17, 16]);
    assert!(granted[9..].iter().all(|granted| *granted == 16), "the last one finds room too: {granted:?}");
    // Quotas that all cover one namespace do not divide the room.
    let plan = plan(&["a 1 - pods=9999", "b 1 - pods=9999"], &["shop 0,1"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=0", "pods=0"]));
    assert_eq!(fill(&mut ledger, |at| small("shop", at)).0, MAX_CLAIMS / 2);
}

/// Also with the footprints of stored objects, which may be of any size.
#[test]
fn the_size_of_all_claims_is_bounded() {
    let plan = plan(&["a 1 - pods=100000"], &["shop 0"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=0"]));
    let of = |at: usize| request(&format!("shop/p{at}"), &at.to_string(), &long_footprint(1900, at), None);
    let (granted, verdict) = fill(&mut ledger, of);
    assert_eq!(verdict, LedgerVerdict::Retry(Retry::Bytes));
    let state = ledger.into_state();
    assert!((MAX_BYTES * 4 / 10..MAX_BYTES / 2).contains(&bytes(&state)), "{}", bytes(&state));

    // Some of the keys have stored objects, and of those some are large.
    let mut cache = Cache::default();
    let objects = (0..granted).map(|at| {
        let counted = long_footprint(if at < 3 { 1_000_000 } else { 900 }, 1000 + at);
        (of(at).key, stored("other", 1, &counted))
    });
    cache.list("pods", 5, objects);
    let recounted = settled(&plan, &state, &cache).unwrap().unwrap();
    assert_eq!(recounted.claims.len(), granted);
    assert_eq!(recounted.claims.values().filter(|claim| claim.base.is_empty()).count(), 3);
    assert!(bytes(&recounted) < MAX_BYTES + granted * 1024, "{}", bytes(&recounted));
}

fn add_spares(ledger: &mut OpenLedger<'_>, namespace: &str, counted: &str, wanted: usize) -> Vec<ObjectKey> {
    let like = ReservationRequest::spare("pods", namespace, &footprint(counted));
    let mut tokens = ledger.state().claims.len()..;
    ledger.add_spares(&like, wanted, "owner", || tokens.next().unwrap().to_string())
}

#[test]
fn spares_are_a_small_part_of_what_is_left() {
    let plan = plan(&["acme 1 - pods=1000000 requests.cpu=200", "team 1 0 pods=1000000"], &["shop 1", "web 0"]);
    let check = |used: &[&str], counted: &str, wanted: usize, expected: usize| {
        let mut ledger = OpenLedger::new(&plan, state(used));
        let added = add_spares(&mut ledger, "shop", counted, wanted);
        assert_eq!((added.len(), ledger.state().claims.len()), (expected, expected), "{used:?} {counted} {wanted}");
    };
    let none = ["pods=0 requests.cpu=0", "pods=0"];
    check(&none, "pods=1", 5, 5);
    // Each takes room of the namespace and of its quota too, so after 128 of them there is room for 128 others.
    check(&none, "pods=1", 300, 128);
    check(&none, "pods=1 requests.cpu=1", 5, 5);
    check(&none, "pods=1 requests.cpu=3", 5, 4);
    check(&none, "pods=1 requests.cpu=13", 5, 0);
    check(&["pods=0 requests.cpu=184", "pods=0"], "pods=1 requests.cpu=1", 5, 1);
    check(&["pods=0 requests.cpu=185", "pods=0"], "pods=1 requests.cpu=1", 5, 0);
    check(&["pods=0 requests.cpu=300", "pods=0"], "pods=1", 5, 5);
    // Usage that is not known.
    check(&["pods=0 requests.cpu=0", ""], "pods=1", 5, 0);
    check(&none, &long_footprint(1500, 1), 100, 21);
}

#[test]
fn spares_that_are_added_again_and_again_stay_a_small_part_of_what_is_left() {
    let plan = plan(&["team 1 - pods=1000 requests.cpu=1600"], &["shop 0", "web 0"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=200 requests.cpu=0"]));
    for at in 0..20 {
        let namespace = ["shop", "web"][at % 2];
        add_spares(&mut ledger, namespace, &format!("pods=1 requests.cpu={}m", at + 1), 8);
    }
    // A sixteenth of 800.
    assert_eq!(ledger.state().claims.len(), 50);
}

#[test]
fn spares_of_many_groups_leave_half_of_the_claims_to_others() {
    let namespaces: Vec<String> = (0..64).map(|at| format!("shop-{at} 0")).collect();
    let plan = Plan::read(1, &["team 1 - pods=1000000"], &namespaces).unwrap();
    let longest = long_footprint(1500, 1);
    for (counted, expected) in [("pods=1", 256), (longest.as_str(), 42)] {
        let mut ledger = OpenLedger::new(&plan, state(&["pods=0"]));
        for _ in 0..3 {
            for at in 0..64 {
                add_spares(&mut ledger, &format!("shop-{at}"), counted, 16);
            }
            // As another replica reads it.
            ledger = OpenLedger::new(&plan, ledger.into_state());
        }
        assert_eq!(ledger.state().claims.len(), expected);
    }
}

#[test]
fn a_create_that_took_a_spare_has_a_claim_in_its_place() {
    let plan = plan(&["team 1 - pods=1000"], &["shop 0"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=5"]));
    let create = request("shop/web-0", "token", "pods=1", None);
    let [spare] = &add_spares(&mut ledger, "shop", "pods=1", 1)[..] else { panic!("no spare") };
    let held = ledger.usage_with_claims().to_vec();
    let written = ledger.into_state();
    let mut state = State::read(&written.write()).unwrap();
    assert_eq!(state, written);
    let (read, _) = state.claims.first_key_value().unwrap();
    assert!(read == spare && read.is_spare() && read.is_spare_of("owner") && !read.is_spare_of("own"));
    assert!(!create.key.is_spare() && !ObjectKey::new("pods", "shop", "owner/a").is_spare());
    // The second time because the response to the first write was lost.
    for _ in 0..2 {
        assert!(state.replace_spare(spare, &create));
        assert_eq!(state.claims.keys().collect::<Vec<_>>(), [&create.key]);
        assert_eq!(OpenLedger::new(&plan, state.clone()).usage_with_claims(), held);
    }
}

fn review(operation: &str, resource: &str, object: &str, old: &str) -> String {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    format!(
        r#"{{"uid": "r", "operation": "{operation}", "resource": {{"group": "", "version": "v1", "resource": "{resource}"}},
            "subResource": "{subresource}", "namespace": "shop", "name": "web-0", "userInfo": {{"username": "ann"}},
            "object": {object}, "oldObject": {old}}}"#
    )
}

fn reservation(review: &str) -> Result<Option<ReservationRequest>, RequestError> {
    let document = Document::read(review).unwrap();
    ReservationRequest::of(&Request::read(document.root()).unwrap(), || "t".to_owned())
}

#[test]
fn a_forged_review_is_recognized() {
    let without_uid = r#"{"metadata": {"name": "web-0"}, "spec": {"containers": []}}"#;
    let forged = reservation(&review("CREATE", "pods", without_uid, "null")).unwrap_err();
    assert_eq!(forged.to_string(), "not a request of an API server: metadata.uid is missing");
    assert_eq!(reservation(&review("DELETE", "pods", "null", without_uid)), Ok(None));
}

/// The reservation for a review: version, footprint and what is counted already.
fn asked(operation: &str, resource: &str, object: &str, old: &str) -> Option<(Option<u64>, String, Option<String>)> {
    let asked = reservation(&review(operation, resource, object, old)).unwrap()?;
    let (kind, _) = resource.split_once('/').unwrap_or((resource, ""));
    assert_eq!((asked.key.to_string(), &*asked.attempt.uid), (format!("{kind}/shop/web-0"), "u1"));
    Some((asked.attempt.version, asked.footprint.to_string(), asked.counted.map(|counted| counted.to_string())))
}

#[test]
fn an_update_is_charged_beyond_what_was_stored() {
    let pod = |version: &str, cpu: &str| {
        format!(
            r#"{{"metadata": {{"name": "web-0", "uid": "u1"{version}}}, "spec": {{"containers": [{{"name": "a",
                "resources": {{"requests": {{"cpu": "{cpu}"}}}}}}]}}}}"#
        )
    };
    let line = |cpu: &str| {
        format!("count/pods=1 cpu={cpu} pods=1 requests.cpu={cpu} ~NotBestEffort ~NotTerminating ~PriorityClass")
    };
    let (new, old) = (pod("", "500m"), pod(r#", "resourceVersion": "7""#, "200m"));
    assert_eq!(asked("UPDATE", "pods/resize", &new, &old), Some((Some(7), line("500m"), Some(line("200m")))));
    // An object that was not stored is not counted.
    assert_eq!(asked("UPDATE", "pods/resize", &new, &pod("", "200m")), Some((None, line("500m"), None)));
    assert_eq!(asked("UPDATE", "pods", &new, &old), None);
    let claim = r#"{"metadata": {"name": "web-0", "uid": "u1", "resourceVersion": "7"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}}}"#;
    assert!(asked("UPDATE", "persistentvolumeclaims", claim, claim).is_some());
    // The status only reports, and only the creation of a workload is counted.
    let grown = claim.replace(r#""spec""#, r#""status": {"allocatedResources": {"storage": "2Gi"}}, "spec""#);
    assert_eq!(asked("UPDATE", "persistentvolumeclaims/status", &grown, claim), None);
    assert!(asked("CREATE", "replicationcontrollers", &new, "null").is_some());
    assert_eq!(asked("UPDATE", "replicationcontrollers", &new, &old), None);
}

/// The count lacks the spec of an infeasible resize, so the claim is for what the new one asks.
#[test]
fn a_resize_after_an_infeasible_one_is_charged_in_full_beside_a_pod_level_value() {
    let pod = |cpu: &str| {
        format!(
            r#"{{"metadata": {{"name": "web-0", "uid": "u1", "resourceVersion": "7"}}, "spec": {{"resources": {{"requests": {{"memory": "2Gi"}}}},
                "containers": [{{"name": "a", "resources": {{"requests": {{"cpu": "{cpu}"}}}}}}]}},
                "status": {{"conditions": [{{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}}],
                "containerStatuses": [{{"name": "a", "allocatedResources": {{"memory": "1Gi"}}}}]}}}}"#
        )
    };
    let (_, new, old) = asked("UPDATE", "pods/resize", &pod("60"), &pod("64")).unwrap();
    let old = old.unwrap();
    assert!(new.contains("requests.cpu=60") && !old.contains("cpu"), "{new}\n{old}");
    assert!(old.contains("requests.memory=2Gi"), "{old}");
}

#[test]
fn a_quota_refuses_regardless_of_usage_only_what_it_covers() {
    let pod = r#"{"metadata": {"name": "web-0", "uid": "u1", "resourceVersion": "7"}, "spec": {"containers": [{"name": "a"}]}}"#;
    let check = |operation: &str, resource: &str, node: &str, expected: &[&str]| {
        let text = review(operation, resource, pod, "null");
        let document = Document::read(&text).unwrap();
        let plan = plan(&[node], &["shop 0"]);
        assert_eq!(faults(&Request::read(document.root()).unwrap(), &plan).unwrap(), expected, "{operation} {node}");
    };
    let missing =
        ["failed quota: a: must specify cpu for: a", "quota a: set cpu in a, or add defaults to a LimitRange"];
    check("CREATE", "pods", "a 1 - cpu=1", &missing);
    // Only the ledger decides whether there is room.
    check("CREATE", "pods", "a 1 - pods=0", &[]);
    check("CREATE", "pods", "a 1 - cpu=1 ~Terminating:Exists:", &[]);
    check("CREATE", "pods", "a 1 - cpu=1 ~NotTerminating:Exists:", &missing);
    let previous = "unable to get previous usage since prior version of object was not found";
    check(
        "UPDATE",
        "pods/resize",
        "a 1 - pods=1",
        &[previous, "send the request through the API server, which adds the old object"],
    );
}

#[test]
fn a_pod_whose_deletion_is_overdue_is_no_longer_counted() {
    let plan = plan(&["a 1 - count/pods=9 pods=9"], &["shop 0"]);
    let mut cache = Cache::default();
    let ended = Footprint::read("count/pods=1").unwrap();
    let pod = CachedObject { ends: Some(Box::new((100, ended))), ..stored("u", 5, "count/pods=1 pods=1") };
    cache.list("pods", 5, [(ObjectKey::new("pods", "shop", "a"), pod)]);
    let used = |cache: &Cache| cache.count(&plan)[0].get("pods").unwrap().value();
    assert!(!cache.tick(99));
    assert_eq!(used(&cache), 1);
    assert!(cache.tick(100) && !cache.tick(200));
    assert_eq!(used(&cache), 0);
    assert_eq!(cache.count(&plan)[0].get("count/pods").unwrap().value(), 1);
}

#[test]
fn a_replica_that_has_seen_less_does_not_recount() {
    let plan = plan(&["a 1 - pods=9"], &["shop 0"]);
    let mut cache = Cache::default();
    cache.list("pods", 10, []);
    let mut counted = state(&["pods=1"]);
    counted.counted_at.insert("pods".to_owned(), 11);
    let behind = settled(&plan, &counted, &cache).unwrap_err();
    let expected = "pods were already counted at revision 11; this replica has seen only revision 10";
    assert_eq!(behind, expected);
    cache.advance("pods", 11);
    let recounted = settled(&plan, &counted, &cache).unwrap().unwrap();
    assert_eq!(recounted.write().used, ["pods=0"]);
}

#[test]
fn usage_beyond_what_can_be_read_in_binary_suffixes_reads_back() {
    let plan = plan(&["a 1 - requests.ephemeral-storage=9 requests.memory=20E"], &["shop 0"]);
    let mut cache = Cache::default();
    let nines = "9".repeat(29);
    let objects = ["a", "b", "c"].map(|name| {
        let pod = format!(
            r#"{{"spec": {{"containers": [{{"resources": {{"requests":
                {{"memory": "8Ei", "ephemeral-storage": "{nines}"}}}}}}]}}}}"#
        );
        let footprint = Footprint::of_stored("pods", Document::read(&pod).unwrap().root(), None).unwrap();
        (ObjectKey::new("pods", "shop", name), CachedObject { footprint: Arc::new(footprint), ..stored(name, 1, "") })
    });
    cache.list("pods", 5, objects);
    let counted = settled(&plan, &state(&[""]), &cache).unwrap().unwrap();
    assert_eq!(State::read(&counted.write()), Ok(counted.clone()));
    // Three times 2^63-1 does not fit into 20E.
    let mut ledger = OpenLedger::new(&plan, State::read(&counted.write()).unwrap());
    assert!(matches!(ledger.reserve(&request("shop/d", "1", "requests.memory=1", None)), LedgerVerdict::Refused(_)));
}

/// Asks for few keys, so that several are for the same key.
fn requests() -> impl Strategy<Value = Vec<ReservationRequest>> {
    let old = prop::option::of((0..4_u8, 1..9_u64));
    let one = (0..4_u8, 0..3_u8, 0..4_u8, old).prop_map(|(name, token, amount, old)| {
        let old = old.map(|(amount, version)| (format!("pods={amount}"), version));
        let old = old.as_ref().map(|(footprint, version)| (footprint.as_str(), *version));
        request(&format!("shop/{name}"), &format!("{name}-{token}"), &format!("pods={amount} ~Terminating"), old)
    });
    prop::collection::vec(one, 0..20)
}

proptest! {
    #[test]
    fn reserving_is_idempotent_and_written_states_read_back(requests in requests()) {
        let plan = plan(&["a 1 - pods=12"], &["shop 0"]);
        let mut ledger = OpenLedger::new(&plan, state(&["pods=3"]));
        for request in &requests {
            if ledger.reserve(request) == LedgerVerdict::Granted {
                let before = ledger.state().clone();
                prop_assert_eq!(ledger.reserve(request), LedgerVerdict::Granted);
                prop_assert_eq!(ledger.state(), &before);
            }
            // `held` is the same as if the ledger were opened again, and never above the bound.
            let reopened = OpenLedger::new(&plan, ledger.state().clone());
            prop_assert_eq!(reopened.usage_with_claims(), ledger.usage_with_claims());
            prop_assert!(ledger.usage_with_claims()[0].get("pods").unwrap().value() <= 12);
            prop_assert_eq!(&State::read(&ledger.state().write()).unwrap(), ledger.state());
        }
    }

    #[test]
    fn cancelling_removes_the_entry(requests in requests()) {
        let plan = plan(&["a 1 - pods=12"], &["shop 0"]);
        let mut ledger = OpenLedger::new(&plan, state(&["pods=3"])).with_limits(100, MAX_CLAIMS);
        for request in &requests {
            let is_there = ledger.state().entries().any(|(_, entry)| entry.token == request.token);
            let (claims, held) = (ledger.state().entries().count(), ledger.usage_with_claims().to_vec());
            if !is_there && ledger.reserve(request) == LedgerVerdict::Granted && request.counted.is_some() {
                let mut state = ledger.into_state();
                state.cancel(&request.key, &request.token);
                ledger = OpenLedger::new(&plan, state);
                prop_assert_eq!(ledger.state().entries().count(), claims);
                // A lower base stays: that leaves less room, never more.
                prop_assert!(ledger.usage_with_claims()[0].get("pods") >= held[0].get("pods"));
            }
        }
    }

    #[test]
    fn recounting_is_idempotent(requests in requests(), pods in prop::collection::vec((0..4_u8, 0..4_u8, 1..12_u64), 0..4)) {
        let plan = plan(&["a 1 - pods=12"], &["shop 0"]);
        let mut ledger = OpenLedger::new(&plan, state(&["pods=3"]));
        requests.iter().for_each(|request| _ = ledger.reserve(request));
        let mut cache = Cache::default();
        let objects = pods.iter().map(|(name, amount, version)| {
            let key = ObjectKey::new("pods", "shop", &name.to_string());
            (key, stored(&format!("uid-{name}"), *version, &format!("pods={amount} ~Terminating")))
        });
        cache.list("pods", 12, objects);
        let once = settled(&plan, &ledger.into_state(), &cache).unwrap();
        if let Some(once) = once {
            prop_assert_eq!(settled(&plan, &once, &cache).unwrap(), None);
        }
    }

    #[test]
    fn a_count_corrected_by_namespace_is_the_same_as_a_new_one(
        changes in prop::collection::vec((0..3_u8, 0..4_u8, prop::option::of((0..3_u8, any::<bool>()))), 1..30),
    ) {
        let nodes = ["all 1 - pods=9 requests.cpu=9", "a 1 0 pods=9", "b 1 0 requests.cpu=9 ~Terminating:Exists:"];
        let plan = plan(&nodes, &["n0 1", "n1 1,2", "n2 0"]);
        let mut cache = Cache::default();
        cache.list("pods", 1, []);
        let mut count = cache.count_by_namespace(&plan);
        for (version, (namespace, name, pod)) in (2..).zip(changes) {
            let namespace = format!("n{namespace}");
            let key = ObjectKey::new("pods", &namespace, &name.to_string());
            match pod {
                Some((cpu, is_terminating)) => {
                    let scope = if is_terminating { " ~Terminating" } else { "" };
                    let counted = format!("pods=1 requests.cpu={cpu}{scope}");
                    cache.put(key, stored(&version.to_string(), version, &counted));
                }
                None => cache.remove(&key, version),
            }
            cache.count_again(&plan, &namespace, &mut count);
            prop_assert_eq!(count.used(), cache.count(&plan));
        }
    }

    #[test]
    fn no_edited_ledger_causes_a_panic(lines in prop::collection::vec(".*", 0..4), claim in ".*") {
        let (used, footprints, counted_at) = (lines.clone(), lines.clone(), lines.clone());
        let _ = State::read(&StateLines { used, footprints, counted_at, claims: vec![claim], plan: 1 });
        let _ = Plan::read(1, &lines, &lines);
    }
}

#[test]
fn a_suspended_quota_and_an_exempt_request_are_charged_but_nothing_is_refused() {
    let plan = plan(&["acme 1 - pods=2", "payments 1 0 !suspended pods=1"], &["shop 1"]);
    let mut ledger = OpenLedger::new(&plan, state(&["pods=1", "pods=1"]));
    assert_eq!(ledger.reserve(&request("shop/a", "1", "pods=1", None)), LedgerVerdict::Granted);
    assert_eq!(held(&ledger, "pods"), ["2", "2"]);
    let next = request("shop/b", "2", "pods=1", None);
    let refused = refusal(ledger.reserve(&next));
    assert_eq!(refused.quotas.iter().map(|short| short.node).collect::<Vec<_>>(), [0]);
    assert_eq!(ledger.reserve(&ReservationRequest { may_exceed: true, ..next }), LedgerVerdict::Granted);
    assert_eq!(held(&ledger, "pods"), ["3", "3"]);
}

/// A pod with this many CPUs.
fn stored_pod(uid: &str, version: u64, cpu: u64) -> CachedObject {
    stored(uid, version, &format!("pods=1 requests.cpu={cpu}"))
}

#[test]
fn a_claim_is_resolved_by_its_own_write_a_later_one_or_its_deletion() {
    let plan = plan(&["a 1 - pods=9 requests.cpu=9"], &["shop 0"]);
    let key = ObjectKey::new("pods", "shop", "a");
    let check = |version: Option<u64>, see: &dyn Fn(&mut Cache), is_resolved: bool| {
        let old = version.map(|version| ("pods=1 requests.cpu=1", version));
        let mut cache = Cache::default();
        cache.list("pods", 5, []);
        if old.is_some() {
            cache.put(key.clone(), stored_pod("uid-a", 5, 1));
        }
        let counted = settled(&plan, &State::default(), &cache).unwrap().unwrap();
        let mut ledger = OpenLedger::new(&plan, counted);
        assert_eq!(ledger.reserve(&request("shop/a", "1", "pods=1 requests.cpu=3", old)), LedgerVerdict::Granted);
        let claimed = ledger.into_state();
        see(&mut cache);
        let settled = settled(&plan, &claimed, &cache).unwrap().unwrap_or(claimed);
        assert_eq!(settled.claims.is_empty(), is_resolved, "{version:?}: {settled:?}");
    };
    // A creation.
    check(None, &|_| {}, false);
    check(None, &|cache| cache.put(key.clone(), stored_pod("uid-a", 6, 3)), true);
    check(None, &|cache| cache.put(key.clone(), stored_pod("other", 6, 3)), false);
    let comes_and_goes = |cache: &mut Cache| {
        cache.put(key.clone(), stored_pod("uid-a", 6, 3));
        cache.remove(&key, 7);
    };
    check(None, &comes_and_goes, true);
    let is_gone_from_a_list = |cache: &mut Cache| {
        cache.put(key.clone(), stored_pod("uid-a", 6, 3));
        cache.list("pods", 8, []);
    };
    check(None, &is_gone_from_a_list, true);
    // An update of version 5.
    check(Some(5), &|_| {}, false);
    check(Some(5), &|cache| cache.put(key.clone(), stored_pod("uid-a", 5, 1)), false);
    check(Some(5), &|cache| cache.put(key.clone(), stored_pod("uid-a", 6, 3)), true);
    check(Some(5), &|cache| cache.remove(&key, 6), true);
    check(Some(7), &|cache| cache.put(key.clone(), stored_pod("uid-a", 6, 3)), false);
    check(Some(7), &|cache| cache.remove(&key, 7), false);
}

#[test]
fn a_recount_takes_the_plan_s_number_and_drops_claims_that_are_charged_no_more() {
    let before = plan(&["a 1 - pods=9 services=9"], &["shop 0", "web 0"]);
    let mut cache = Cache::default();
    ["pods", "services"].iter().for_each(|kind| cache.list(kind, 5, []));
    let claims = ["pods/shop/a - 1:a:-:0", "pods/web/b - 2:b:-:0", "services/shop/c - 3:c:-:1"].map(str::to_owned);
    let claimed = State::read(&StateLines {
        plan: 1,
        used: vec!["pods=0 services=0".to_owned()],
        footprints: vec!["pods=1".to_owned(), "services=1".to_owned()],
        claims: claims.into(),
        ..StateLines::default()
    })
    .unwrap();
    assert_eq!(settled(&before, &claimed, &cache), Ok(None));
    let keys = |plan: &Plan| {
        let recounted = settled(plan, &claimed, &cache).unwrap().unwrap();
        assert_eq!(recounted.plan, plan.number);
        recounted.claims.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    let next = Plan { number: 2, ..before.clone() };
    assert_eq!(keys(&next), ["pods/shop/a", "pods/web/b", "services/shop/c"]);
    assert_eq!(
        keys(&Plan { number: 3, ..plan(&["a 1 - pods=9"], &["shop 0", "web 0"]) }),
        ["pods/shop/a", "pods/web/b"]
    );
    assert_eq!(keys(&Plan { number: 4, ..plan(&["a 1 - pods=9"], &["web 0"]) }), ["pods/web/b"]);
}

#[test]
fn a_cache_counts_each_object_once_and_remembers_which_are_gone() {
    let plan = plan(&["a 1 - pods=9 requests.cpu=9"], &["shop 0"]);
    let key = |name: &str| ObjectKey::new("pods", "shop", name);
    let mut cache = Cache::default();
    let used = |cache: &Cache| cache.count_namespace(&plan, "shop", 0).get("requests.cpu").map(ToString::to_string);
    cache.list("pods", 5, [(key("a"), stored_pod("1", 4, 2)), (key("b"), stored_pod("2", 5, 2))]);
    assert_eq!((cache.objects(), used(&cache).as_deref()), (2, Some("4")));
    // Changed, replaced by another of its name, and removed.
    cache.put(key("a"), stored_pod("1", 6, 3));
    assert_eq!((used(&cache).as_deref(), cache.was_deleted("1")), (Some("5"), false));
    cache.put(key("a"), stored_pod("3", 7, 1));
    assert_eq!((used(&cache).as_deref(), cache.was_deleted("1")), (Some("3"), true));
    cache.list("pods", 9, [(key("b"), stored_pod("2", 5, 2))]);
    assert_eq!((used(&cache).as_deref(), cache.was_deleted("3"), cache.was_deleted("2")), (Some("2"), true, false));
    cache.remove(&key("b"), 10);
    assert_eq!((cache.objects(), used(&cache), cache.revision("pods")), (0, None, Some(10)));
    // Only the latest are remembered, and not forever.
    for number in 0..8191 {
        cache.put(key("c"), stored_pod(&format!("c{number}"), 11, 1));
        cache.remove(&key("c"), 12);
    }
    assert!(!cache.was_deleted("1") && !cache.was_deleted("3") && cache.was_deleted("2") && cache.was_deleted("c0"));
}

/// A pod with two devices, and claims that say they were made for it.
mod devices {
    use headroom_quota_protocol::cache::CachedObject;
    use headroom_quota_protocol::devices::{DEVICE_CLASSES, Link, PodRef};

    use super::*;

    const CLAIMS: &str = "resourceclaims.resource.k8s.io";
    const NODE: &str = "acme 1 - requests.example.com/gpu=4 count/resourceclaims.resource.k8s.io=9";
    const TWO: &str = "gpu.deviceclass.resource.k8s.io/devices=2 count/resourceclaims.resource.k8s.io=1";

    fn put(cache: &mut Cache, kind: &str, name: &str, counted: &str, link: Option<Link>) {
        let namespace = if kind == DEVICE_CLASSES { "" } else { "shop" };
        let object = CachedObject { link: link.map(Box::new), ..stored(&format!("uid-{name}"), 5, counted) };
        cache.put(ObjectKey::new(kind, namespace, name), object);
    }

    fn web() -> PodRef {
        PodRef { name: "web".to_owned(), uid: "uid-web".to_owned() }
    }

    fn made_for_web(created: &str) -> Option<Link> {
        Some(Link::MadeFor { pod: web(), created: created.to_owned() })
    }

    /// A class and the pod, whose status may name its claim.
    fn cache(claim: Option<&str>) -> Cache {
        let mut cache = Cache::default();
        ["pods", CLAIMS, DEVICE_CLASSES].iter().for_each(|kind| cache.list(kind, 1, []));
        put(&mut cache, DEVICE_CLASSES, "gpu", "", Some(Link::Serves("example.com/gpu".to_owned())));
        let link = claim.map(|claim| Link::HasClaim(claim.to_owned()));
        put(&mut cache, "pods", "web", "pods=1 requests.example.com/gpu=2", link);
        cache
    }

    fn used(cache: &Cache) -> String {
        let used = cache.count(&plan(&[NODE], &["shop 0"]));
        State { used, ..State::default() }.write().used.join(" ")
    }

    #[test]
    fn a_claim_counts_as_the_extended_resource_of_its_class() {
        let mut cache = cache(None);
        put(&mut cache, CLAIMS, "own", TWO, None);
        assert_eq!(used(&cache), "count/resourceclaims.resource.k8s.io=1 requests.example.com/gpu=4");
        put(&mut cache, DEVICE_CLASSES, "gpu", "", Some(Link::Serves(String::new())));
        assert_eq!(used(&cache), "count/resourceclaims.resource.k8s.io=1 requests.example.com/gpu=2");
        // Without the classes, devices are unknown.
        cache.forget(DEVICE_CLASSES);
        assert_eq!(used(&cache), "");
    }

    #[test]
    fn one_claim_of_a_pod_has_its_share_and_only_as_long_as_the_pod_is_there() {
        for (named, expected) in [(None, "4"), (Some("second"), "4"), (Some("third"), "6")] {
            let mut cache = cache(named);
            put(&mut cache, CLAIMS, "first", TWO, made_for_web("2026-01-01T00:00:00Z"));
            put(&mut cache, CLAIMS, "second", TWO, made_for_web("2026-01-01T00:00:01Z"));
            let counted = format!("count/resourceclaims.resource.k8s.io=2 requests.example.com/gpu={expected}");
            assert_eq!(used(&cache), counted, "{named:?}");
            cache.remove(&ObjectKey::new("pods", "shop", "web"), 9);
            assert_eq!(used(&cache), "count/resourceclaims.resource.k8s.io=2 requests.example.com/gpu=4");
        }
    }

    /// Asks for the scheduler's claim for the pod, after the pod was counted.
    fn claim(name: &str, token: &str) -> ReservationRequest {
        ReservationRequest {
            key: ObjectKey::new(CLAIMS, "shop", name),
            token: token.to_owned(),
            attempt: Attempt { uid: format!("uid-{name}"), version: None },
            footprint: footprint(&format!("{TWO} requests.example.com/gpu=2")),
            counted: Some(footprint("requests.example.com/gpu=2")),
            pod: Some(web()),
            may_exceed: false,
        }
    }

    #[test]
    fn a_pod_s_share_is_taken_even_where_the_claim_adds_nothing_to_it() {
        let plan = plan(&["acme 1 - requests.example.com/gpu=2"], &["shop 0"]);
        // Otherwise two claims at the same time would both have the share, and neither would ask the ledger.
        assert!(claim("a", "1").grows(&plan));
        let other = Plan { nodes: Vec::new(), ..plan.clone() };
        assert!(!claim("a", "1").grows(&other));
        // A stored claim has shown its share already.
        let stored =
            ReservationRequest { attempt: Attempt { uid: "uid-a".to_owned(), version: Some(7) }, ..claim("a", "1") };
        assert!(!stored.grows(&plan));
    }

    #[test]
    fn a_pod_s_share_stays_taken_when_the_entries_of_its_claim_are_merged() {
        let plan = plan(&["acme 1 - requests.example.com/gpu=2"], &["shop 0"]);
        // The pod has taken the last devices.
        let mut ledger = OpenLedger::new(&plan, state(&["requests.example.com/gpu=2"]));
        for token in 0..9 {
            assert_eq!(ledger.reserve(&claim("a", &token.to_string())), LedgerVerdict::Granted);
            assert_eq!(ledger.reserve(&claim("b", "b")), LedgerVerdict::Retry(Retry::Pod));
            assert_eq!(held(&ledger, "requests.example.com/gpu"), ["2"]);
            let written = ledger.state().write();
            assert!(written.claims[0].ends_with(":web/uid-web"), "{written:?}");
            assert_eq!(State::read(&written).unwrap(), *ledger.state());
        }
        let entries: Vec<_> = ledger.state().entries().collect();
        assert!(entries.len() <= 4 && entries.iter().any(|(_, entry)| entry.attempt.is_none()), "{entries:?}");
        // Attempts for several pods are not merged: one entry cannot keep the shares of all.
        let mut ledger = OpenLedger::new(&plan, state(&["requests.example.com/gpu=2"])).with_limits(1, MAX_CLAIMS);
        assert_eq!(ledger.reserve(&claim("a", "1")), LedgerVerdict::Granted);
        let without = ReservationRequest { pod: None, ..claim("a", "2") };
        assert_eq!(ledger.reserve(&without), LedgerVerdict::Retry(Retry::Key));
    }

    #[test]
    fn a_claim_that_is_not_counted_yet_loses_its_share_with_the_pod() {
        let plan = plan(&[NODE], &["shop 0"]);
        let mut ledger =
            OpenLedger::new(&plan, state(&["requests.example.com/gpu=2 count/resourceclaims.resource.k8s.io=0"]));
        assert_eq!(ledger.reserve(&claim("a", "1")), LedgerVerdict::Granted);
        let open = ledger.into_state();
        let held_by = |cache: &Cache| {
            let recounted = settled(&plan, &open, cache).unwrap().unwrap_or_else(|| open.clone());
            held(&OpenLedger::new(&plan, recounted), "requests.example.com/gpu")
        };
        let mut cache = cache(None);
        assert_eq!(held_by(&cache), ["2"]);
        cache.remove(&ObjectKey::new("pods", "shop", "web"), 9);
        assert_eq!(held_by(&cache), ["2"]);
        put(&mut cache, "pods", "other", "requests.example.com/gpu=2", None);
        assert_eq!(held_by(&cache), ["4"]);
    }
}
