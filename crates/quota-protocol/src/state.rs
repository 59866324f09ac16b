//! The state of a ledger: usage, and what is claimed beyond it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use headroom_admission::amount::ResourceList;

use crate::devices::PodRef;
use crate::encoding;
use crate::footprint::Footprint;

/// Read from the ledger's object, changed by a reservation or a recount, and written back by compare-and-swap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The number of the current plan.
    pub plan: u64,
    /// By node of the plan. Amounts that could not be counted are absent.
    pub used: Vec<ResourceList<'static>>,
    /// The revision of each kind that `used` was counted at. A replica that has seen less must not recount.
    pub counted_at: BTreeMap<String, u64>,
    pub claims: BTreeMap<ObjectKey, Claim>,
}

/// The storage key of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `pods`, or `deployments.apps`
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// The part of `used` that certainly belongs to a key, and what may still be stored there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// The least of these is the key's part of `used`. Empty if the key has no part in it.
    pub base: Vec<Arc<Footprint>>,
    pub entries: Vec<ClaimEntry>,
}

/// The reservation of one handled review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimEntry {
    pub token: String,
    /// The write that is expected. None for a merged entry.
    pub attempt: Option<Attempt>,
    /// The charge of the object once it is stored. A merged entry has several; one of them applies.
    pub footprints: Vec<Arc<Footprint>>,
    /// For a resource claim: the pod whose share is part of the base.
    pub pod: Option<PodRef>,
}

/// Identifies a write once it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt {
    pub uid: String,
    /// For an update: the resourceVersion of the object that it replaces.
    pub version: Option<u64>,
}

/// A state as its Kubernetes object stores it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateLines {
    pub plan: u64,
    pub used: Vec<String>,
    pub counted_at: Vec<String>,
    pub footprints: Vec<String>,
    pub claims: Vec<String>,
}

impl ObjectKey {
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Claim {
    /// Returns true if an entry has this token: it was written, even if the response was lost.
    pub fn has(&self, token: &str) -> bool {
        self.entries.iter().any(|entry| entry.token == token)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

impl State {
    pub fn entries(&self) -> impl Iterator<Item = (&ObjectKey, &ClaimEntry)> {
        self.claims.iter().flat_map(|(key, claim)| claim.entries.iter().map(move |entry| (key, entry)))
    }

    /// A claim is `key base entries...`, an entry `token:uid:version:footprints`, for a pod's resource claim with
    /// `:pod/uid`; footprints are numbers, `-` means none.
    pub fn write(&self) -> StateLines {
        let mut footprints: Vec<String> = Vec::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        // Claims that were read together share their footprints, which take longer to write than all the rest.
        let mut known: HashMap<*const Footprint, usize> = HashMap::new();
        let mut number = |footprint: &Arc<Footprint>| {
            let number = *known.entry(Arc::as_ptr(footprint)).or_insert_with(|| {
                let line = footprint.to_string();
                let number = *numbers.entry(line.clone()).or_insert(footprints.len());
                if number == footprints.len() {
                    footprints.push(line);
                }
                number
            });
            number.to_string()
        };
        let mut numbered = |list: &[Arc<Footprint>]| match list {
            [] => "-".to_owned(),
            list => list.iter().map(&mut number).collect::<Vec<_>>().join(","),
        };
        let mut claims = Vec::with_capacity(self.claims.len());
        for (key, claim) in &self.claims {
            let mut line = format!("{} {}", encoding::escape(&key.to_string()), numbered(&claim.base));
            for ClaimEntry { token, attempt, footprints, pod } in &claim.entries {
                let (uid, version) = match attempt {
                    Some(Attempt { uid, version }) => (encoding::escape(uid), *version),
                    None => ("*".into(), None),
                };
                let version = version.map_or("-".to_owned(), |version| version.to_string());
                let pod =
                    pod.as_ref().map_or_else(String::new, |pod| format!(":{}", encoding::escape(&pod.to_string())));
                let (token, footprints) = (encoding::escape(token), numbered(footprints));
                // Writing to a String cannot fail.
                _ = write!(line, " {token}:{uid}:{version}:{footprints}{pod}");
            }
            claims.push(line);
        }
        StateLines {
            plan: self.plan,
            used: self.used.iter().map(encoding::line_of_amounts).collect(),
            counted_at: self.counted_at.iter().map(|(kind, at)| format!("{} {at}", encoding::escape(kind))).collect(),
            footprints,
            claims,
        }
    }

    /// Removes the entry with this token: the reservation of a request that will not be allowed.
    pub fn cancel(&mut self, key: &ObjectKey, token: &str) {
        let Some(claim) = self.claims.get_mut(key) else { return };
        // A merged entry belongs to other requests too.
        claim.entries.retain(|entry| entry.token != token || entry.attempt.is_none());
        if claim.entries.is_empty() {
            self.claims.remove(key);
        }
    }

    pub fn read(lines: &StateLines) -> Result<Self, String> {
        let footprints = lines.footprints.iter().map(|line| Footprint::read(line).map(Arc::new));
        let footprints = footprints.collect::<Result<Vec<_>, _>>()?;
        let mut state = Self { plan: lines.plan, ..Self::default() };
        state.used = lines.used.iter().map(|line| encoding::read_amounts(line)).collect::<Result<_, _>>()?;
        for line in &lines.counted_at {
            let (kind, at) =
                line.split_once(' ').ok_or_else(|| encoding::unreadable(line, "expected `kind revision`"))?;
            state.counted_at.insert(encoding::unescape(kind)?, encoding::read_number(at)?);
        }
        for line in &lines.claims {
            let (key, claim) = read_claim(line, &footprints)?;
            if state.claims.insert(key, claim).is_some() {
                return Err(encoding::unreadable(line, "duplicate claim for this key"));
            }
        }
        Ok(state)
    }
}

fn read_claim(line: &str, footprints: &[Arc<Footprint>]) -> Result<(ObjectKey, Claim), String> {
    let numbered = |word: &str| -> Result<Vec<Arc<Footprint>>, String> {
        if word == "-" {
            return Ok(Vec::new());
        }
        let footprint = |word: &str| {
            let number = usize::try_from(encoding::read_number(word)?).unwrap_or(usize::MAX);
            footprints.get(number).cloned().ok_or_else(|| encoding::unreadable(line, "there is no such shape"))
        };
        word.split(',').map(footprint).collect()
    };
    let mut words = line.split_whitespace();
    let (Some(key), Some(base)) = (words.next(), words.next()) else {
        return Err(encoding::unreadable(line, "expected a key, a base and entries"));
    };
    let key = encoding::unescape(key)?;
    let mut parts = key.splitn(3, '/');
    let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(encoding::unreadable(line, "expected a key such as `pods/shop/web-0`"));
    };
    let mut claim = Claim { base: numbered(base)?, entries: Vec::new() };
    for word in words {
        let parts: Vec<&str> = word.split(':').collect();
        let (token, uid, version, footprints, pod) = match parts.as_slice() {
            [token, uid, version, footprints] => (token, uid, version, footprints, None),
            [token, uid, version, footprints, pod] => (token, uid, version, footprints, Some(read_pod(pod)?)),
            _ => return Err(encoding::unreadable(word, "expected `token:uid:version:footprints`")),
        };
        let version = if *version == "-" { None } else { Some(encoding::read_number(version)?) };
        let attempt = if *uid == "*" { None } else { Some(Attempt { uid: encoding::unescape(uid)?, version }) };
        let (token, footprints) = (encoding::unescape(token)?, numbered(footprints)?);
        claim.entries.push(ClaimEntry { token, attempt, footprints, pod });
    }
    if claim.entries.is_empty() {
        return Err(encoding::unreadable(line, "the claim has no entry"));
    }
    Ok((ObjectKey::new(kind, namespace, name), claim))
}

fn read_pod(word: &str) -> Result<PodRef, String> {
    let pod = encoding::unescape(word)?;
    let (name, uid) = pod.split_once('/').ok_or_else(|| encoding::unreadable(word, "expected `pod/uid`"))?;
    Ok(PodRef { name: name.to_owned(), uid: uid.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_footprints_are_written_once_whether_they_are_shared_or_not() {
        let lines = StateLines {
            footprints: vec!["pods=1".to_owned(), "pods=2".to_owned(), "pods=1".to_owned()],
            claims: (0..4).map(|pod| format!("pods/shop/{pod} - t{pod}:u%20{pod}:-:{}", pod % 3)).collect(),
            ..StateLines::default()
        };
        let state = State::read(&lines).unwrap();
        let written = state.write();
        assert_eq!(written.footprints, ["pods=1", "pods=2"]);
        let numbers: Vec<&str> = written.claims.iter().filter_map(|line| line.rsplit(':').next()).collect();
        assert_eq!(numbers, ["0", "1", "0", "0"]);
        assert_eq!(State::read(&written), Ok(state));
    }
}
