//! A [`ClusterReader`] that lists each kind once in all namespaces, instead of once for each namespace: for questions about a
//! whole cluster. If the account may not list a kind in all namespaces, each namespace is listed.

use std::collections::{BTreeMap, HashMap};

use headroom_admission::request::kinds::PodKind;
use headroom_objects::cluster_reader::{ClusterReader, CompressedObject, EachCompressed, Events, List, ReadError};
use headroom_objects::kinds::ApiKind;
use serde_json::Value;

/// Objects by namespace and name, or why the kind cannot be listed in all namespaces.
type Listed = Result<BTreeMap<String, BTreeMap<String, CompressedObject>>, ReadError>;

pub struct ListAllNamespaces<S> {
    below: S,
    lists: HashMap<(String, String), Listed>,
}

impl<S: ClusterReader> ListAllNamespaces<S> {
    pub fn new(below: S) -> Self {
        Self { below, lists: HashMap::new() }
    }

    fn all(&mut self, (api_version, kind, _): List<'_>) -> &Listed {
        let below = &mut self.below;
        self.lists.entry((api_version.to_owned(), kind.to_owned())).or_insert_with(|| {
            let mut listed: BTreeMap<String, BTreeMap<String, CompressedObject>> = BTreeMap::new();
            let mut add = |namespace: &str, name: &str, object: CompressedObject| {
                listed.entry(namespace.to_owned()).or_default().insert(name.to_owned(), object);
            };
            below.visit_compressed((api_version, kind, None), &mut add)?;
            Ok(listed)
        })
    }

    /// An object of a list, or none if that does not have it; none if its kind is not listed, because few single objects are read of
    /// one. Of Namespaces each is.
    fn listed(&mut self, list: List<'_>, name: &str) -> Option<Option<&CompressedObject>> {
        if !self.is_known(list) && list.1 != "Namespace" {
            return None;
        }
        let listed = self.all(list).as_ref().ok()?;
        Some(listed.get(list.2.unwrap_or_default()).and_then(|within| within.get(name)))
    }

    fn is_known(&self, (api_version, kind, _): List<'_>) -> bool {
        self.lists.contains_key(&(api_version.to_owned(), kind.to_owned()))
    }
}

impl<S: ClusterReader> ClusterReader for ListAllNamespaces<S> {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        if let (Err(_), Some(_)) = (self.all(list), list.2) {
            return self.below.list(list);
        }
        let mut objects = Vec::new();
        self.visit(list, &mut |object| objects.push(object))?;
        Ok(objects)
    }

    fn visit(&mut self, list: List<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let api_kind = ApiKind::new(list.0, list.1);
        if PodKind::of(&api_kind.group, &api_kind.plural).is_some() && !self.is_known(list) {
            return self.below.visit(list, each);
        }
        self.visit_compressed(list, &mut |_, _, object| each(object.value()))
    }

    fn visit_compressed(&mut self, list: List<'_>, each: &mut EachCompressed<'_>) -> Result<(), ReadError> {
        let of_one = |(namespace, objects): (&String, &BTreeMap<String, CompressedObject>)| {
            objects.iter().for_each(|(name, object)| each(namespace, name, object.clone()));
        };
        match (self.all(list), list.2) {
            (Ok(listed), Some(namespace)) => listed.get_key_value(namespace).into_iter().for_each(of_one),
            (Ok(listed), None) => listed.iter().for_each(of_one),
            (Err(problem), None) => return Err(problem.clone()),
            (Err(_), Some(_)) => return self.below.visit_compressed(list, each),
        }
        Ok(())
    }

    /// Events are read once, so they are not kept.
    fn visit_events(&mut self, events: Events<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        self.below.visit_events(events, each)
    }

    fn visit_configs(&mut self, namespace: Option<&str>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        self.below.visit_configs(namespace, each)
    }

    fn prefetch(&mut self, lists: &[List<'_>], done: &mut dyn FnMut()) {
        self.below.prefetch(lists, done);
    }

    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        match self.listed(list, name) {
            Some(listed) => Ok(listed.map(CompressedObject::value)),
            None => self.below.get(list, name),
        }
    }

    fn text(&mut self, list: List<'_>, name: &str) -> Result<Option<String>, ReadError> {
        match self.listed(list, name) {
            Some(listed) => Ok(listed.map(CompressedObject::text)),
            None => self.below.text(list, name),
        }
    }

    fn release(&mut self) -> Option<u16> {
        self.below.release()
    }

    fn kind(&mut self, api_version: &str, kind: &str) -> ApiKind {
        self.below.kind(api_version, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::kinds::metadata;
    use serde_json::json;

    /// Records the lists that it is asked for, and may refuse those of all namespaces.
    struct Counted {
        asked: Vec<String>,
        refuses_all: bool,
    }

    impl ClusterReader for Counted {
        fn list(&mut self, (_, kind, namespace): List<'_>) -> Result<Vec<Value>, ReadError> {
            self.asked.push(format!("{kind} {}", namespace.unwrap_or("*")));
            if namespace.is_none() && self.refuses_all {
                return Err(ReadError::Failed("forbidden".to_owned()));
            }
            let all = ["a", "b"].map(|of| json!({"metadata": {"namespace": of, "name": "limits"}}));
            let is_asked =
                |object: &Value| namespace.is_none_or(|namespace| metadata(object, "namespace") == namespace);
            Ok(all.into_iter().filter(is_asked).collect())
        }
    }

    fn check(refuses_all: bool, expected: &[&str]) {
        let mut around = ListAllNamespaces::new(Counted { asked: Vec::new(), refuses_all });
        for namespace in ["a", "b", "a"] {
            let found = around.list(("v1", "LimitRange", Some(namespace))).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(metadata(&found[0], "namespace"), namespace);
        }
        assert_eq!(around.list(("v1", "LimitRange", Some("c"))).unwrap().len(), 0);
        assert_eq!(around.below.asked, expected);
    }

    #[test]
    fn visited_lists_are_kept_except_those_of_workloads() {
        let mut around = ListAllNamespaces::new(Counted { asked: Vec::new(), refuses_all: false });
        let mut seen = Vec::new();
        for kind in ["LimitRange", "Pod"] {
            for namespace in [None, Some("a")] {
                around.visit(("v1", kind, namespace), &mut |object| seen.push(object)).unwrap();
            }
        }
        assert_eq!(
            seen.iter().map(|object| metadata(object, "namespace")).collect::<Vec<_>>(),
            ["a", "b", "a"].repeat(2)
        );
        assert_eq!(around.below.asked, ["LimitRange *", "Pod *", "Pod a"]);
        let found = around.get(("v1", "LimitRange", Some("b")), "limits").unwrap();
        assert_eq!((found.is_some(), around.below.asked.len()), (true, 3));
    }

    #[test]
    fn a_kind_is_listed_once_for_all_namespaces_where_that_is_allowed() {
        check(false, &["LimitRange *"]);
        check(true, &["LimitRange *", "LimitRange a", "LimitRange b", "LimitRange a", "LimitRange c"]);
    }
}
