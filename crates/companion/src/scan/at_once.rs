//! Surroundings of which every kind is listed once for all namespaces, instead of once for each: for a scan of a whole
//! cluster. Where that is not allowed, each namespace is asked about.

use std::collections::HashMap;

use serde_json::Value;

use crate::kinds::{ApiKind, metadata};
use crate::surroundings::Surroundings;

/// By namespace, or none where a list of all is not to be had.
type Listed = Option<HashMap<String, Vec<Value>>>;

pub struct AtOnce<'s> {
    below: &'s mut dyn Surroundings,
    lists: HashMap<(String, String), Listed>,
}

impl<'s> AtOnce<'s> {
    pub fn new(below: &'s mut dyn Surroundings) -> Self {
        Self { below, lists: HashMap::new() }
    }

    fn all(&mut self, api_version: &str, kind: &str) -> &Listed {
        let below = &mut *self.below;
        self.lists.entry((api_version.to_owned(), kind.to_owned())).or_insert_with(|| {
            let objects = below.list(api_version, kind, None).ok()?;
            let mut listed: HashMap<String, Vec<Value>> = HashMap::new();
            for object in objects {
                listed.entry(metadata(&object, "namespace").to_owned()).or_default().push(object);
            }
            Some(listed)
        })
    }
}

impl Surroundings for AtOnce<'_> {
    fn list(&mut self, api_version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        if let Some(namespace) = namespace
            && let Some(listed) = self.all(api_version, kind)
        {
            return Ok(listed.get(namespace).cloned().unwrap_or_default());
        }
        self.below.list(api_version, kind, namespace)
    }

    fn get(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, String> {
        // Objects of no namespace are listed together too: namespaces themselves.
        let within = namespace.unwrap_or_default();
        if let Some(listed) = self.all(api_version, kind) {
            let found = listed.get(within).and_then(|all| all.iter().find(|object| metadata(object, "name") == name));
            return Ok(found.cloned());
        }
        self.below.get(api_version, kind, namespace, name)
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

    impl Surroundings for Counted {
        fn list(&mut self, _: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
            self.asked.push(format!("{kind} {}", namespace.unwrap_or("*")));
            if namespace.is_none() && self.refuses_all {
                return Err("forbidden".to_owned());
            }
            let all = ["a", "b"].map(|of| json!({"metadata": {"namespace": of, "name": "limits"}}));
            let is_asked =
                |object: &Value| namespace.is_none_or(|namespace| metadata(object, "namespace") == namespace);
            Ok(all.into_iter().filter(is_asked).collect())
        }
    }

    fn check(refuses_all: bool, expected: &[&str]) {
        let mut below = Counted { asked: Vec::new(), refuses_all };
        let mut around = AtOnce::new(&mut below);
        for namespace in ["a", "b", "a"] {
            let found = around.list("v1", "LimitRange", Some(namespace)).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(metadata(&found[0], "namespace"), namespace);
        }
        assert_eq!(around.list("v1", "LimitRange", Some("c")).unwrap().len(), 0);
        assert_eq!(below.asked, expected);
    }

    #[test]
    fn a_kind_is_listed_once_for_all_namespaces_where_that_is_allowed() {
        check(false, &["LimitRange *"]);
        check(true, &["LimitRange *", "LimitRange a", "LimitRange b", "LimitRange a", "LimitRange c"]);
    }
}
