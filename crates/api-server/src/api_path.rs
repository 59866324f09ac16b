//! Paths of the API server.

use std::borrow::Cow;
use std::fmt;

/// A path that begins with what the program says and goes on with names from anywhere. Each name is one segment, whatever
/// it holds, so a forged name leads to no other object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiPath(Cow<'static, str>);

/// Stands for what cannot be a name: `%`, which the API server accepts as no name either.
const NO_NAME: &str = "%25";

impl ApiPath {
    /// A path without names, such as `/api/v1/namespaces`.
    pub const fn new(path: &'static str) -> Self {
        Self(Cow::Borrowed(path))
    }

    /// The path of a group and version, such as `v1` or `apps/v1`.
    pub fn of_version(api_version: &str) -> Self {
        match api_version.split_once('/') {
            Some((group, version)) => Self::new("/apis").at(group).at(version),
            None => Self::new("/api").at(api_version),
        }
    }

    /// The objects of a kind, in a namespace or in all.
    pub fn collection(&self, namespace: Option<&str>, plural: &str) -> Self {
        match namespace {
            Some(namespace) => self.at("namespaces").at(namespace).at(plural),
            None => self.at(plural),
        }
    }

    /// The path with one more segment, such as the name of an object.
    pub fn at(&self, name: &str) -> Self {
        let segment = match is_name(name) {
            // As kubectl writes services and ports: `prometheus:9090`.
            true => query_value(name).replace('+', "%20").replace("%3A", ":"),
            false => NO_NAME.to_owned(),
        };
        Self(format!("{self}/{segment}").into())
    }

    pub fn dry_run(&self) -> Self {
        Self(format!("{self}?dryRun=All").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// False for what no object is called. Servers and proxies drop dots, and the API server splits a path after it has decoded it, so
/// that an encoded slash would separate too.
pub fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

impl fmt::Display for ApiPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn query_value(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_whatever_it_holds() {
        let check = |name: &str, segment: &str| {
            let path = ApiPath::new("/api/v1").collection(Some(name), "pods").at(name);
            assert_eq!(path.as_str(), format!("/api/v1/namespaces/{segment}/pods/{segment}"));
        };
        check("web-0.shop", "web-0.shop");
        check("prometheus:9090", "prometheus:9090");
        check("a b?c#d", "a%20b%3Fc%23d");
        for nothing in ["", ".", "..", "a/b", "../secrets", "a%2Fb"] {
            check(nothing, "%25");
        }
    }

    #[test]
    fn groups_and_versions_are_segments_too() {
        let check = |api_version: &str, path: &str| {
            assert_eq!(ApiPath::of_version(api_version).collection(None, "pods").as_str(), path);
        };
        check("v1", "/api/v1/pods");
        check("apps/v1", "/apis/apps/v1/pods");
        check("a/../../api/v1", "/apis/a/%25/pods");
    }
}
