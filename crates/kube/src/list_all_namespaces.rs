//! A [`ClusterReader`] that lists every kind once for all namespaces, instead of once for each: for questions about a
//! whole cluster. Where that is not allowed, each namespace is asked about.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use headroom_dryrun::cluster_reader::{ClusterReader, List, ReadError};
use headroom_dryrun::kinds::{ApiKind, metadata};

/// By namespace, or why a list of all is not to be had.
type Listed = Result<BTreeMap<String, Vec<Value>>, ReadError>;

pub struct AtOnce<S> {
    below: S,
    lists: HashMap<(String, String), Listed>,
}

impl<S: ClusterReader> AtOnce<S> {
    pub fn new(below: S) -> Self {
        Self { below, lists: HashMap::new() }
    }

    fn all(&mut self, (api_version, kind, _): List<'_>) -> &Listed {
        let below = &mut self.below;
        self.lists.entry((api_version.to_owned(), kind.to_owned())).or_insert_with(|| {
            let mut listed: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            let mut add = |object: Value| {
                listed.entry(metadata(&object, "namespace").to_owned()).or_default().push(object);
            };
            below.visit((api_version, kind, None), &mut add)?;
            Ok(listed)
        })
    }
}

impl<S: ClusterReader> ClusterReader for AtOnce<S> {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        match (self.all(list), list.2) {
            (Ok(listed), Some(namespace)) => Ok(listed.get(namespace).cloned().unwrap_or_default()),
            (Ok(listed), None) => Ok(listed.values().flatten().cloned().collect()),
            (Err(_), Some(_)) => self.below.list(list),
            (Err(problem), None) => Err(problem.clone()),
        }
    }

    fn visit(&mut self, list: List<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
        let (api_version, kind, namespace) = list;
        let key = (api_version.to_owned(), kind.to_owned());
        match (self.lists.get_mut(&key), namespace) {
            // Lists that were read before are not read again. They are given away, because a large cluster has gigabytes.
            (Some(Ok(listed)), None) => {
                let listed = std::mem::take(listed);
                self.lists.remove(&key);
                listed.into_values().flatten().for_each(each);
                Ok(())
            }
            (Some(Ok(listed)), Some(namespace)) => {
                listed.get(namespace).into_iter().flatten().cloned().for_each(each);
                Ok(())
            }
            (Some(Err(_)) | None, _) => self.below.visit(list, each),
        }
    }

    /// They are asked for once, so there is nothing to keep.
    fn visit_events(
        &mut self,
        namespace: Option<&str>,
        reason: &str,
        most: usize,
        each: &mut dyn FnMut(Value),
    ) -> Result<(), ReadError> {
        self.below.visit_events(namespace, reason, most, each)
    }

    fn prefetch(&mut self, lists: &[List<'_>], done: &mut dyn FnMut()) {
        self.below.prefetch(lists, done);
    }

    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        let (api_version, kind, namespace) = list;
        let is_known = self.lists.contains_key(&(api_version.to_owned(), kind.to_owned()));
        // Single objects are few, but each namespace is looked at.
        if (is_known || kind == "Namespace")
            && let Ok(listed) = self.all(list)
        {
            let within = listed.get(namespace.unwrap_or_default()).map(Vec::as_slice).unwrap_or_default();
            return Ok(within.iter().find(|object| metadata(object, "name") == name).cloned());
        }
        self.below.get(list, name)
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
    use serde_json::json;

    /// Counts what it is asked, and may refuse lists of all.
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
        let mut around = AtOnce::new(Counted { asked: Vec::new(), refuses_all });
        for namespace in ["a", "b", "a"] {
            let found = around.list(("v1", "LimitRange", Some(namespace))).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(metadata(&found[0], "namespace"), namespace);
        }
        assert_eq!(around.list(("v1", "LimitRange", Some("c"))).unwrap().len(), 0);
        assert_eq!(around.below.asked, expected);
    }

    #[test]
    fn what_was_listed_is_handed_over_without_another_read() {
        let mut around = AtOnce::new(Counted { asked: Vec::new(), refuses_all: false });
        let mut seen = Vec::new();
        around.list(("v1", "LimitRange", None)).unwrap();
        for namespace in [Some("a"), None] {
            around.visit(("v1", "LimitRange", namespace), &mut |object| seen.push(object)).unwrap();
        }
        assert_eq!(seen.iter().map(|object| metadata(object, "namespace")).collect::<Vec<_>>(), ["a", "a", "b"]);
        assert_eq!(around.below.asked, ["LimitRange *"]);
        // It is gone then, so the next who asks gets what is there.
        assert_eq!(around.list(("v1", "LimitRange", Some("b"))).unwrap().len(), 1);
        assert_eq!(around.below.asked, ["LimitRange *"; 2]);
    }

    #[test]
    fn a_kind_is_listed_once_for_all_namespaces_where_that_is_allowed() {
        check(false, &["LimitRange *"]);
        check(true, &["LimitRange *", "LimitRange a", "LimitRange b", "LimitRange a", "LimitRange c"]);
    }
}
