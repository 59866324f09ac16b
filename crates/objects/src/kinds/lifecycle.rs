//! The releases of Kubernetes that serve its own kinds.

use std::sync::LazyLock;

use headroom_admission::nearest::nearest;

use super::ApiKind;

/// `group/version 1.X[-1.Y] [replacement]: Kind Kind`; from the release X on, and no longer in Y.
const TABLE: &str = include_str!("api_lifecycle.txt");

/// A version of an API group, the releases that serve it, and its kinds.
struct ServedVersion {
    api_version: &'static str,
    introduced: u16,
    removed: Option<u16>,
    replacement: Option<&'static str>,
    kinds: &'static str,
}

/// Each object is looked up several times.
static ROWS: LazyLock<Vec<ServedVersion>> = LazyLock::new(|| {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (version, kinds) = line.split_once(": ")?;
        let mut words = version.split(' ');
        let (api_version, releases) = (words.next()?, words.next()?);
        let (introduced, removed) = match releases.split_once('-') {
            Some((introduced, removed)) => (introduced, minor(removed)),
            None => (releases, None),
        };
        Some(ServedVersion { api_version, introduced: minor(introduced)?, removed, replacement: words.next(), kinds })
    });
    rows.collect()
});

/// The minor version in `1.34`, or in a server's `1.34+`.
pub fn minor(release: &str) -> Option<u16> {
    release.strip_prefix("1.")?.trim_end_matches('+').parse().ok()
}

impl ServedVersion {
    fn has(&self, kind: &str) -> bool {
        self.kinds.split(' ').any(|known| known == kind)
    }

    fn is_of(&self, group: &str) -> bool {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group) == group
    }
}

/// True if Kubernetes itself serves the group, and not a CustomResourceDefinition.
pub fn is_built_in(group: &str) -> bool {
    ROWS.iter().any(|row| row.is_of(group))
}

/// Says in kubectl's words that a release does not serve a kind of a built-in group; the newest release unless given.
pub fn unserved(kind: &ApiKind, release: Option<u16>) -> Option<String> {
    // Flags decide whether an alpha version is served, not the release.
    if !is_built_in(&kind.group) || kind.version.contains("alpha") {
        return None;
    }
    let api_version = kind.api_version();
    let row = ROWS.iter().find(|row| row.api_version == api_version && row.has(&kind.kind));
    let advice = match row {
        Some(ServedVersion { introduced, .. }) if release.is_some_and(|release| release < *introduced) => {
            format!("; it is new in Kubernetes 1.{introduced}")
        }
        Some(ServedVersion { removed: Some(removed), replacement, .. }) if release.unwrap_or(NEWEST) >= *removed => {
            let instead = replacement.map(|replacement| format!(": use {replacement}")).unwrap_or_default();
            format!("; it was removed in Kubernetes 1.{removed}{instead}")
        }
        Some(_) => return None,
        None => {
            let of_group = || ROWS.iter().filter(|row| row.is_of(&kind.group));
            let others = || of_group().filter(|row| row.has(&kind.kind));
            let served = others().find(|row| row.removed.is_none());
            let removed = others().find_map(|row| Some((row.api_version, row.removed?)));
            match (served, removed, nearest(&kind.kind, of_group().flat_map(|row| row.kinds.split(' ')))) {
                (Some(served), ..) => format!("; use {}", served.api_version),
                (None, Some((version, removed)), _) => format!("; {version} had it, until Kubernetes 1.{removed}"),
                (None, None, Some(known)) => format!("; did you mean {known}?"),
                (None, None, None) => String::new(),
            }
        }
    };
    Some(format!("no matches for kind \"{}\" in version \"{api_version}\"{advice}", kind.kind))
}

/// The release that the table was generated from.
const NEWEST: u16 = 37;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_are_served_by_the_releases_that_have_them() {
        let check = |api_version: &str, kind: &str, release: Option<u16>, expected: Option<&str>| {
            let found = unserved(&ApiKind::new(api_version, kind), release);
            let head = format!("no matches for kind \"{kind}\" in version \"{api_version}\"");
            assert_eq!(found, expected.map(|advice| head + advice), "{api_version} {kind} {release:?}");
        };
        check("v1", "Pod", None, None);
        check("apps/v1", "Deployment", Some(20), None);
        check("extensions/v1beta1", "Deployment", Some(15), None);
        check("batch/v1", "CronJob", Some(20), Some("; it is new in Kubernetes 1.21"));
        check(
            "autoscaling/v2beta2",
            "HorizontalPodAutoscaler",
            Some(26),
            Some("; it was removed in Kubernetes 1.26: use autoscaling/v2"),
        );
        check("apps/v2", "Deployment", None, Some("; use apps/v1"));
        check("policy/v1", "PodSecurityPolicy", None, Some("; policy/v1beta1 had it, until Kubernetes 1.25"));
        check("v1", "Deployment", None, Some(""));
        check("resource.k8s.io/v1alpha3", "ResourceClaim", None, None);
        check("cert-manager.io/v1", "Certificate", None, None);
        check("gateway.networking.k8s.io/v1", "Gateway", None, None);
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((ROWS.len(), TABLE.contains(&format!("up to 1.{NEWEST}."))), (lines, true));
    }
}
