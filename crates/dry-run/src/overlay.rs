//! Objects of files that override those of another reader, and that a run changes.
//!
//! An object of the files overrides the one below; everything else below is visible. A quota from
//! a file is counted when it is first read, unless it says itself what is used of it.

pub mod quota_status;
pub mod tenants;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use headroom_admission::cluster::lookup::HostCall;
use headroom_admission::json::Malformed;
use headroom_quota_protocol::Plan;
use serde_json::Value;

use self::tenants::{PARTS, TENANT_QUOTA, TenantTrees};
use headroom_objects::cluster_reader::folder::{self, Folder, Identity, Replaced};
use headroom_objects::cluster_reader::{
    ClusterReader, CompressedObject, EachCompressed, Events, List, ReadError, answer, compressing,
};
use headroom_objects::kinds::{ApiKind, metadata};

/// A top of objects over a bottom that is only read; without a bottom there is nothing but the top.
pub struct Overlay {
    top: Folder,
    bottom: Option<Box<dyn ClusterReader>>,
    /// Kinds of which only the top's objects count.
    replaced: Vec<(&'static str, &'static str)>,
    /// The answers about a kind in a namespace since an object of it was put here, because many objects need the same.
    answers: HashMap<About, Answers>,
    /// The bytes of the answers.
    answered: usize,
    /// None until they are asked for after a change.
    tenants: Option<TenantTrees>,
    /// The replaced objects since the first mark.
    journal: Vec<Replaced>,
    /// The length of the journal at the last mark; none without one.
    marked: Option<usize>,
}

/// A place in the journal to roll back to, and that of the mark before it.
pub type Mark = (usize, Option<usize>);

/// Kind and namespace.
type About = (String, Option<String>);
/// API version, name, field masks.
type Asked = (&'static str, Option<String>, &'static [&'static str]);
type Answers = HashMap<Asked, Result<CompressedObject, ReadError>>;

/// So many of the last objects in the journal are not noted again.
const RECENT: usize = 8;

/// Answers are kept until they have so many bytes: those of a large cluster take hundreds of megabytes.
const MAX_ANSWERED: usize = 8 << 20;

const QUOTA: (&str, &str) = ("v1", "ResourceQuota");

impl Overlay {
    pub fn new(top: Folder, bottom: Option<Box<dyn ClusterReader>>) -> Self {
        let (replaced, answers, journal) = (Vec::new(), HashMap::new(), Vec::new());
        Self { top, bottom, replaced, answers, answered: 0, tenants: None, journal, marked: None }
    }

    /// Adds an object, or replaces the one of its name. A quota is counted anew unless it has a status.
    pub fn put(&mut self, object: Value) -> Result<(), Malformed> {
        let replaced = self.top.replace(object)?;
        self.forget_answers(&replaced.identity);
        self.forget_tenants(&replaced);
        if let Some(marked) = self.marked {
            // Quotas are put again for each change in their namespace.
            let mut recent = self.journal.iter().skip(marked).rev().take(RECENT);
            if !recent.any(|noted| noted.identity == replaced.identity) {
                self.journal.push(replaced);
            }
        }
        Ok(())
    }

    fn forget_answers(&mut self, identity: &Identity) {
        let [_, kind, namespace, _] = folder::parts(identity);
        for namespace in [Some(namespace.to_owned()), None] {
            let forgotten = self.answers.remove(&(kind.to_owned(), namespace));
            self.answered -= forgotten.as_ref().map_or(0, bytes);
        }
    }

    /// Forgets who is charged to which TenantQuotas, if it changes with this replacement.
    fn forget_tenants(&mut self, Replaced { identity, before }: &Replaced) {
        let [_, kind, _, name] = folder::parts(identity);
        let charging = [TENANT_QUOTA, ("v1", "Namespace")];
        let Some((api_version, kind)) = charging.into_iter().find(|(_, known)| *known == kind) else { return };
        if self.tenants.is_none() {
            return;
        }
        let list = (api_version, kind, None);
        let mut below = || self.bottom.as_mut().and_then(|bottom| bottom.get(list, name).ok()?);
        let after = self.top.get(list, name).ok().flatten().or_else(&mut below);
        let before = before.clone().or_else(below);
        let part =
            |object: &Option<Value>, part: &str| object.as_ref().and_then(|object| object.pointer(part)).cloned();
        if PARTS.iter().any(|path| part(&before, path) != part(&after, path)) {
            self.tenants = None;
        }
    }

    /// The quotas over namespaces that one namespace is charged to, by tree.
    pub fn tenant_plans(&mut self, namespace: &str) -> Result<Rc<[Plan]>, String> {
        let mut tenants = match self.tenants.take() {
            Some(tenants) => tenants,
            None => TenantTrees::read(self)?,
        };
        let plans = tenants.plans(namespace, self);
        self.tenants = Some(tenants);
        plans
    }

    pub fn mark(&mut self) -> Mark {
        let place = self.journal.len();
        (place, self.marked.replace(place))
    }

    /// Takes back an object that was put just now, after the last mark.
    pub fn take_back(&mut self, object: &Value) {
        let identity = folder::identity(object);
        let noted = self.journal.iter().rposition(|noted| noted.identity == identity);
        if let Some(place) = noted.filter(|place| *place >= self.marked.unwrap_or_default()) {
            let replaced = self.journal.remove(place);
            self.restore(replaced);
        }
    }

    /// Takes back all that was put since a mark.
    pub fn roll_back(&mut self, (place, marked_before): Mark) {
        let put: Vec<Replaced> = self.journal.drain(place..).rev().collect();
        put.into_iter().for_each(|replaced| self.restore(replaced));
        self.marked = marked_before;
    }

    fn restore(&mut self, replaced: Replaced) {
        let undone = self.top.restore(replaced);
        self.forget_answers(&undone.identity);
        self.forget_tenants(&undone);
    }

    /// From now on only the objects of this kind count that were put here: the others are as if deleted.
    pub fn replace_all(&mut self, api_version: &'static str, kind: &'static str) {
        self.answers.retain(|(of, _), _| of != kind);
        self.answered = self.answers.values().map(bytes).sum();
        self.replaced.push((api_version, kind));
        self.tenants = None;
    }

    /// The namespaces that are known: those of the objects put here, and those of the cluster if they may be listed.
    pub fn namespaces(&mut self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.top.namespaces().map(str::to_owned).collect();
        let listed = self.bottom.as_mut().and_then(|bottom| bottom.list(("v1", "Namespace", None)).ok());
        names.extend(listed.into_iter().flatten().map(|namespace| metadata(&namespace, "name").to_owned()));
        names
    }

    /// Finds an object of the top, or asks the bottom for it.
    fn find<T>(
        &mut self,
        list: List<'_>,
        name: &str,
        of_top: impl Fn(Value) -> T,
        ask: impl Fn(&mut dyn ClusterReader) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let found = self.top.get(list, name)?;
        if (list.0, list.1) == QUOTA && found.as_ref().is_some_and(|quota| !quota_status::is_counted(quota)) {
            let quotas = self.list(list)?;
            return Ok(quotas.into_iter().find(|quota| metadata(quota, "name") == name).map(of_top));
        }
        match (found, self.below(list)) {
            (None, Some(bottom)) => match ask(bottom.as_mut()) {
                Err(error) if error.is_unknown_kind() && !self.top.list(list)?.is_empty() => Ok(None),
                read => read,
            },
            (found, _) => Ok(found.map(of_top)),
        }
    }

    fn below(&mut self, (api_version, kind, _): List<'_>) -> Option<&mut Box<dyn ClusterReader>> {
        if self.replaced.contains(&(api_version, kind)) { None } else { self.bottom.as_mut() }
    }
}

impl ClusterReader for Overlay {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        let mut objects = Uncounted(self).list(list)?;
        if (list.0, list.1) == QUOTA {
            // Only a file's quotas: one in the cluster without a status is one that refuses everything until it has one.
            let above = self.top.list(list)?;
            // Those of the top are listed last, in the same order.
            let first = objects.len() - above.len();
            let uncounted = above.into_iter().enumerate().filter(|(_, quota)| !quota_status::is_counted(quota));
            for (index, mut quota) in uncounted {
                quota_status::count(&mut quota, &mut Uncounted(self))?;
                if let Some(listed) = objects.get_mut(first + index) {
                    *listed = quota.clone();
                }
                self.top.put(quota).map_err(|malformed| malformed.to_string())?;
            }
        }
        Ok(objects)
    }

    fn visit(&mut self, list: List<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let is_below = self.top.list(list)?.is_empty();
        match self.below(list) {
            Some(bottom) if is_below => bottom.visit(list, each),
            _ => {
                self.list(list)?.into_iter().for_each(each);
                Ok(())
            }
        }
    }

    fn visit_compressed(&mut self, list: List<'_>, each: &mut EachCompressed<'_>) -> Result<(), ReadError> {
        let is_below = self.top.list(list)?.is_empty();
        match self.below(list) {
            Some(bottom) if is_below => bottom.visit_compressed(list, each),
            _ => self.visit(list, &mut compressing(each)),
        }
    }

    fn visit_events(&mut self, events: Events<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        self.top.visit_events(events, each)?;
        self.bottom.as_mut().map_or(Ok(()), |bottom| bottom.visit_events(events, each))
    }

    /// Those of files last: they replace those of the cluster.
    fn visit_configs(&mut self, namespace: Option<&str>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let below = self.bottom.as_mut().map_or(Ok(()), |bottom| bottom.visit_configs(namespace, each));
        self.top.visit_configs(namespace, each)?;
        below
    }

    fn prefetch(&mut self, lists: &[List<'_>], done: &mut dyn FnMut()) {
        if let Some(bottom) = &mut self.bottom {
            bottom.prefetch(lists, done);
        }
    }

    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        self.find(list, name, |object| object, |bottom| bottom.get(list, name))
    }

    fn text(&mut self, list: List<'_>, name: &str) -> Result<Option<String>, ReadError> {
        self.find(list, name, |object| object.to_string(), |bottom| bottom.text(list, name))
    }

    fn read(&mut self, call: &HostCall<'_>) -> Result<Vec<u8>, ReadError> {
        let about = (call.kind.to_owned(), call.namespace.map(str::to_owned));
        let asked: Asked = (call.api_version, call.name.as_ref().map(ToString::to_string), call.field_masks);
        if let Some(known) = self.answers.get(&about).and_then(|answers| answers.get(&asked)) {
            return known.as_ref().map(|answer| answer.text().into_bytes()).map_err(Clone::clone);
        }
        let answer = answer(self, call);
        let kept = answer.as_deref().map(CompressedObject::of).map_err(ReadError::clone);
        let length = kept.as_ref().map_or(0, CompressedObject::size);
        if self.answered + length > MAX_ANSWERED {
            (self.answered, self.answers) = (0, HashMap::new());
        }
        self.answered += length;
        self.answers.entry(about).or_default().insert(asked, kept);
        answer.map(String::into_bytes)
    }

    fn release(&mut self) -> Option<u16> {
        self.bottom.as_mut()?.release()
    }

    fn kind(&mut self, api_version: &str, kind: &str) -> ApiKind {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        match (self.top.defined(group, version, kind), &mut self.bottom) {
            (Some(defined), _) => defined,
            (None, Some(bottom)) => bottom.kind(api_version, kind),
            (None, None) => ApiKind::new(api_version, kind),
        }
    }
}

fn bytes(answers: &Answers) -> usize {
    answers.values().flatten().map(CompressedObject::size).sum()
}

/// The overlay with quotas as they were written.
struct Uncounted<'o>(&'o mut Overlay);

impl ClusterReader for Uncounted<'_> {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        let above = self.0.top.list(list)?;
        let below = match self.0.below(list) {
            // The cluster need not serve what files hold.
            Some(bottom) => bottom.list(list).or_else(|error| match above.is_empty() || !error.is_unknown_kind() {
                true => Err(error),
                false => Ok(Vec::new()),
            })?,
            None => Vec::new(),
        };
        let hidden: HashSet<_> = above.iter().map(place_of).collect();
        let mut seen: Vec<Value> = below.into_iter().filter(|object| !hidden.contains(&place_of(object))).collect();
        drop(hidden);
        seen.extend(above);
        Ok(seen)
    }
}

fn place_of(object: &Value) -> (&str, &str) {
    (metadata(object, "namespace"), metadata(object, "name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_admission::cluster::lookup::Lookup;
    use headroom_objects::cluster_reader::folder::in_namespace;
    use headroom_objects::kinds::text;
    use serde_json::json;

    fn folder(objects: Vec<Value>) -> Folder {
        Folder::with(objects.into_iter().map(|object| in_namespace(object, "shop"))).unwrap()
    }

    fn pod(name: &str, cpu: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    fn cpu(pod: &Value) -> &str {
        text(pod, "/spec/containers/0/resources/requests/cpu")
    }

    fn quota(name: &str, status: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name},
            "spec": {"hard": {"requests.cpu": "4", "pods": "5", "count/widgets.example.com": "3"}}, "status": status})
    }

    #[test]
    fn files_stand_instead_of_what_is_below_them() {
        let below = folder(vec![pod("a", "1"), pod("b", "1")]);
        let mut overlay = Overlay::new(folder(vec![pod("b", "2"), pod("c", "3")]), Some(Box::new(below)));
        let listed = overlay.list(("v1", "Pod", Some("shop"))).unwrap();
        let told: Vec<_> = listed.iter().map(|pod| (metadata(pod, "name"), cpu(pod))).collect();
        assert_eq!(told, [("a", "1"), ("b", "2"), ("c", "3")]);
        for (name, amount) in [("b", "2"), ("a", "1")] {
            assert_eq!(cpu(&overlay.get(("v1", "Pod", Some("shop")), name).unwrap().unwrap()), amount);
        }
    }

    #[test]
    fn files_may_hold_a_kind_that_the_cluster_does_not_serve() {
        struct Bare;
        impl ClusterReader for Bare {
            fn list(&mut self, (api_version, kind, _): List<'_>) -> Result<Vec<Value>, ReadError> {
                Err(ReadError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })
            }
        }
        let mut overlay = Overlay::new(folder(vec![pod("a", "1")]), Some(Box::new(Bare)));
        assert_eq!(overlay.list(("v1", "Pod", Some("shop"))).unwrap().len(), 1);
        assert_eq!(overlay.get(("v1", "Pod", Some("shop")), "b"), Ok(None));
        assert!(overlay.get(("v1", "Service", Some("shop")), "b").unwrap_err().is_unknown_kind());
    }

    #[test]
    fn of_a_replaced_kind_only_what_was_put_counts() {
        let below = folder(vec![pod("a", "1"), quota("old", json!({}))]);
        let mut overlay = Overlay::new(Folder::default(), Some(Box::new(below)));
        overlay.put(in_namespace(quota("new", json!({})), "shop")).unwrap();
        overlay.replace_all("v1", "ResourceQuota");
        let mut names = |kind: &str| -> Vec<Value> {
            let listed = overlay.list(("v1", kind, Some("shop"))).unwrap();
            listed.iter().map(|object| object["metadata"]["name"].clone()).collect()
        };
        assert_eq!((names("ResourceQuota"), names("Pod")), (vec![json!("new")], vec![json!("a")]));
        assert_eq!(overlay.get(("v1", "ResourceQuota", Some("shop")), "old").unwrap(), None);
        overlay.replace_all("v1", "Pod");
        assert_eq!(overlay.get(("v1", "Pod", Some("shop")), "a").unwrap(), None);
    }

    #[test]
    fn a_quota_of_a_file_is_counted_and_one_of_the_cluster_or_with_a_status_keeps_what_it_has() {
        let counted = json!({"hard": {"pods": "5"}, "used": {"pods": "4"}});
        let below = folder(vec![pod("a", "1"), pod("b", "500m"), quota("fresh", json!({}))]);
        let mut overlay =
            Overlay::new(folder(vec![quota("new", json!({})), quota("old", counted.clone())]), Some(Box::new(below)));
        let quotas = overlay.list(("v1", "ResourceQuota", Some("shop"))).unwrap();
        let status =
            |name: &str| quotas.iter().find(|quota| quota["metadata"]["name"] == name).unwrap()["status"].clone();
        assert_eq!((status("old"), status("fresh")), (counted, json!({})));
        assert_eq!(
            status("new"),
            json!({"hard": {"requests.cpu": "4", "pods": "5", "count/widgets.example.com": "3"},
                "used": {"requests.cpu": "1500m", "pods": "2", "count/widgets.example.com": "0"}})
        );
        // Later objects are charged, not counted again.
        overlay.put(in_namespace(pod("c", "1"), "shop")).unwrap();
        let again = overlay.get(("v1", "ResourceQuota", Some("shop")), "new").unwrap().unwrap();
        assert_eq!(again["status"], status("new"));
    }

    #[test]
    fn what_was_answered_before_an_object_came_is_not_answered_after() {
        let mut overlay = Overlay::new(folder(vec![pod("a", "1")]), None);
        let pods = Lookup::ResourceClaims { namespace: "shop" };
        let call = |overlay: &mut Overlay| {
            let call = HostCall { kind: "Pod", api_version: "v1", ..pods.call() };
            serde_json::from_slice::<Value>(&overlay.read(&call).unwrap()).unwrap()["items"].as_array().unwrap().len()
        };
        assert_eq!((call(&mut overlay), call(&mut overlay)), (1, 1));
        overlay.put(in_namespace(pod("b", "1"), "shop")).unwrap();
        assert_eq!(call(&mut overlay), 2);
        let mark = overlay.mark();
        for name in ["c", "d"] {
            overlay.put(in_namespace(pod(name, "1"), "shop")).unwrap();
        }
        assert_eq!(call(&mut overlay), 4);
        overlay.take_back(&in_namespace(pod("d", "1"), "shop"));
        assert_eq!(call(&mut overlay), 3);
        overlay.roll_back(mark);
        assert_eq!(call(&mut overlay), 2);
    }

    #[test]
    fn an_object_is_taken_back_alone_or_with_all_since_a_mark() {
        let mut overlay = Overlay::new(folder(vec![pod("a", "1")]), None);
        let cpu = |overlay: &mut Overlay| -> Value {
            let pods = overlay.list(("v1", "Pod", Some("shop"))).unwrap();
            pods.iter().map(cpu).collect()
        };
        let (mark, nested) = (overlay.mark(), overlay.mark());
        overlay.put(in_namespace(pod("a", "0"), "shop")).unwrap();
        overlay.roll_back(nested);
        for (name, amount) in [("a", "2"), ("a", "3"), ("b", "4"), ("c", "5")] {
            overlay.put(in_namespace(pod(name, amount), "shop")).unwrap();
        }
        overlay.take_back(&in_namespace(pod("a", "3"), "shop"));
        assert_eq!(cpu(&mut overlay), json!(["1", "4", "5"]));
        overlay.put(in_namespace(pod("a", "6"), "shop")).unwrap();
        let nested = overlay.mark();
        overlay.put(in_namespace(pod("a", "7"), "shop")).unwrap();
        overlay.roll_back(nested);
        assert_eq!(cpu(&mut overlay), json!(["6", "4", "5"]));
        overlay.put(in_namespace(pod("a", "8"), "shop")).unwrap();
        overlay.roll_back(mark);
        assert_eq!(cpu(&mut overlay), json!(["1"]));
    }

    fn tenant_quota(name: &str, parent: Option<&str>, pods: &str) -> Value {
        let selector = json!({"matchLabels": {"team": name}});
        json!({"apiVersion": TENANT_QUOTA.0, "kind": TENANT_QUOTA.1, "metadata": {"name": name},
            "spec": {"parent": parent, "namespaces": {"selector": selector}, "quota": {"hard": {"pods": pods}}}})
    }

    fn namespace(team: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": team}}})
    }

    /// The bounds of pods that `shop` is charged to, by quota; and those of the quotas above them.
    fn bounds(cluster: &mut Overlay) -> Vec<String> {
        let plans = cluster.tenant_plans("shop").unwrap();
        let nodes = plans.iter().flat_map(|plan| plan.nodes_of("shop").into_iter().map(|node| &plan.nodes[node]));
        nodes.map(|node| format!("{} {}", node.quota, node.hard.get("pods").unwrap())).collect()
    }

    #[test]
    fn what_is_used_changes_no_plan_and_all_else_does() {
        let bottom = folder(vec![
            tenant_quota("acme", None, "9"),
            tenant_quota("lab", Some("acme"), "3"),
            tenant_quota("web", Some("acme"), "5"),
            namespace("web"),
        ]);
        let mut cluster = Overlay::new(Folder::default(), Some(Box::new(bottom)));
        let mark = cluster.mark();
        assert_eq!(cluster.tenant_plans("shop").unwrap()[0].nodes.len(), 2);
        assert_eq!(cluster.tenant_plans("other").unwrap().len(), 0);
        let mut used = tenant_quota("web", Some("acme"), "5");
        used["status"] = json!({"used": {"pods": "4"}});
        cluster.put(used.clone()).unwrap();
        assert!(cluster.tenants.is_some());
        used["spec"]["quota"]["hard"]["pods"] = json!("7");
        cluster.put(used.clone()).unwrap();
        assert_eq!(bounds(&mut cluster), ["web 7", "acme 9"]);
        used["status"]["exemptNamespaces"] = json!(["shop"]);
        cluster.put(used).unwrap();
        assert_eq!(bounds(&mut cluster), Vec::<String>::new());
        cluster.put(namespace("lab")).unwrap();
        assert_eq!(bounds(&mut cluster), ["lab 3", "acme 9"]);
        cluster.roll_back(mark);
        assert_eq!(bounds(&mut cluster), ["web 5", "acme 9"]);
        cluster.mark();
        cluster.put(namespace("lab")).unwrap();
        bounds(&mut cluster);
        cluster.take_back(&namespace("lab"));
        assert_eq!(bounds(&mut cluster), ["web 5", "acme 9"]);
        cluster.replace_all(TENANT_QUOTA.0, TENANT_QUOTA.1);
        assert_eq!(bounds(&mut cluster), Vec::<String>::new());
    }
}
