//! The outcome of a request, and the differences between two outcomes.

use std::fmt;

use headroom_admission::amount::{Family, Quantity};
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The outcome of a request, and the warnings to its client.
#[derive(PartialEq)]
pub struct Answer {
    pub outcome: Outcome,
    pub warnings: Vec<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outcome)?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\n  warning: {warning}"))
    }
}

#[derive(PartialEq)]
pub enum Outcome {
    /// The resources of the stored object.
    Admitted(Value),
    Refused {
        /// True if the object is invalid (422, 400), and not forbidden by a plugin (403).
        is_invalid: bool,
        message: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted(values) => write!(f, "admitted: {values}"),
            Self::Refused { is_invalid, message } => {
                write!(f, "{}: {message}", if *is_invalid { "invalid" } else { "forbidden" })
            }
        }
    }
}

/// The kind of a difference between two planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    RefusedOnlyByKubernetes,
    RefusedOnlyByHeadroom,
    /// One finds the object invalid, the other forbids it.
    ClassDiffers,
    /// Both refuse, and we do not give this reason.
    ReasonMissing,
    ValuesDiffer,
    /// Our answer depends on fields that the API server resets.
    ForgeryCounts,
}

pub struct Difference {
    pub kind: Kind,
    pub kubernetes: String,
    pub headroom: String,
}

/// The resources of a stored object; with LimitRanger's annotation only if that is complete.
pub fn values(object: &DynamicObject, with_annotation: bool) -> Value {
    let mut values = Map::new();
    let spec = &object.data["spec"];
    let template = spec.get("template").map_or(spec, |template| &template["spec"]);
    for list in ["initContainers", "containers"] {
        for container in template[list].as_array().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            values.insert(name, container["resources"].clone());
        }
    }
    values.insert("spec.resources".to_owned(), spec["resources"].clone());
    if with_annotation {
        let annotations = object.metadata.annotations.iter().flatten();
        let text = annotations.filter(|(key, _)| *key == "kubernetes.io/limit-ranger").map(|(_, text)| json!(text));
        values.extend(text.map(|text| ("kubernetes.io/limit-ranger".to_owned(), text)));
    }
    Value::Object(values)
}

/// All differences between the plugins' outcome and ours.
pub fn differences(kubernetes: &Outcome, headroom: &Outcome) -> Vec<Difference> {
    let difference = |kind, kubernetes: &dyn fmt::Display, headroom: &dyn fmt::Display| {
        vec![Difference { kind, kubernetes: kubernetes.to_string(), headroom: headroom.to_string() }]
    };
    match (kubernetes, headroom) {
        (Outcome::Admitted(theirs), Outcome::Admitted(ours)) if theirs == ours => Vec::new(),
        (Outcome::Admitted(theirs), Outcome::Admitted(ours)) => difference(Kind::ValuesDiffer, theirs, ours),
        (Outcome::Refused { message, .. }, Outcome::Admitted(ours)) => {
            difference(Kind::RefusedOnlyByKubernetes, message, ours)
        }
        (Outcome::Admitted(theirs), Outcome::Refused { message, .. }) => {
            difference(Kind::RefusedOnlyByHeadroom, theirs, message)
        }
        (Outcome::Refused { message: theirs, .. }, Outcome::Refused { message: ours, .. }) => reasons(theirs)
            .into_iter()
            .filter(|reason| !reason.is_in(ours))
            .flat_map(|reason| difference(Kind::ReasonMissing, &reason.text, ours))
            .collect(),
    }
}

/// One reason of a plugin, and groups of words: our message must contain all words of one group.
struct Reason {
    text: String,
    words: Vec<Vec<String>>,
}

impl Reason {
    fn is_in(&self, message: &str) -> bool {
        self.words.iter().any(|group| group.iter().all(|words| message.contains(words)))
    }
}

/// The reasons that the plugins gave; none if another part of the API server refused the request.
fn reasons(message: &str) -> Vec<Reason> {
    let Some((_, said)) = message.split_once(" is forbidden: ") else { return Vec::new() };
    if let Some(words) = words_of_quota(said) {
        return vec![Reason { text: said.to_owned(), words }];
    }
    let list = said.strip_prefix('[').and_then(|said| said.strip_suffix(']')).unwrap_or(said);
    let begins = |piece: &str| {
        piece.starts_with("minimum ") || piece.starts_with("maximum ") || piece.contains(" max limit to request ratio ")
    };
    let mut reasons: Vec<String> = Vec::new();
    for piece in list.split(", ") {
        match reasons.last_mut() {
            Some(last) if !begins(piece) => *last = format!("{last}, {piece}"),
            _ => reasons.push(piece.to_owned()),
        }
    }
    reasons.into_iter().map(|text| Reason { words: words_of_range(&text), text }).collect()
}

/// Our possible texts for the reason of a LimitRange. Old versions of Kubernetes print totals of a pod without suffixes
/// for powers of two; new ones print a total in the form of its first addend.
fn words_of_range(said: &str) -> Vec<Vec<String>> {
    let mut words = vec![vec![said.to_owned()]];
    let total = said.rsplit_once(" is ").filter(|_| said.contains(" usage per Pod is "));
    if let Some((said, Ok(total))) = total.map(|(said, total)| (said, total.parse::<Quantity>())) {
        let families = [Family::DecimalSi, Family::BinarySi, Family::DecimalExponent];
        words.extend(families.map(|family| vec![format!("{said} is {}", total.to_family(family))]));
    }
    words
}

/// Our possible texts for the reason of a quota. If several quotas refuse, Kubernetes names a random one. We name all:
/// the first with Kubernetes' text, and each with what is short.
fn words_of_quota(said: &str) -> Option<Vec<Vec<String>>> {
    let begun = |begin: String, each: &str, names: &mut dyn Iterator<Item = &str>| {
        std::iter::once(begin).chain(names.map(|name| format!("{name}{each}"))).collect()
    };
    if let Some(rest) = said.strip_prefix("exceeded quota: ") {
        let (quota, rest) = rest.split_once(", requested: ")?;
        let (requested, _) = rest.split_once(", used: ")?;
        let mut names = requested.split(',').filter_map(|amount| amount.split_once('=')).map(|(name, _)| name);
        return Some(vec![vec![said.to_owned()], begun(format!("quota {quota}: "), " short by ", &mut names)]);
    }
    if let Some(rest) = said.strip_prefix("failed quota: ") {
        let (quota, rest) = rest.split_once(": must specify ")?;
        // Before 1.24 the containers were not named.
        let names: Vec<&str> = match rest.contains(" for: ") {
            true => rest.split("; ").filter_map(|each| Some(each.split_once(" for: ")?.0)).collect(),
            false => rest.split(',').collect(),
        };
        let first = begun(format!("failed quota: {quota}: must specify "), " for: ", &mut names.iter().copied());
        return Some(vec![first, begun(format!("quota {quota}: "), "", &mut names.into_iter())]);
    }
    let rest = said.strip_prefix("status unknown for quota: ")?;
    let (quota, _) = rest.split_once(", resources: ")?;
    Some(vec![vec![said.to_owned()], vec![format!("quota {quota}: its usage has not been counted yet")]])
}

#[test]
fn every_reason_of_a_plugin_is_expected() {
    let check = |message: &str, expected: &[&[&[&str]]]| {
        let found: Vec<Vec<Vec<String>>> = reasons(message).into_iter().map(|reason| reason.words).collect();
        assert_eq!(found, expected);
    };
    check(
        r#"pods "web" is forbidden: [minimum memory usage per Pod is 1Gi, but request is 2097152, cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000]"#,
        &[
            &[
                &["minimum memory usage per Pod is 1Gi, but request is 2097152"],
                &["minimum memory usage per Pod is 1Gi, but request is 2097152"],
                &["minimum memory usage per Pod is 1Gi, but request is 2Mi"],
                &["minimum memory usage per Pod is 1Gi, but request is 2097152"],
            ],
            &[&["cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000"]],
        ],
    );
    check(
        r#"pods "web" is forbidden: exceeded quota: team, requested: cpu=1,pods=1, used: cpu=1,pods=2, limited: cpu=1,pods=2"#,
        &[&[
            &["exceeded quota: team, requested: cpu=1,pods=1, used: cpu=1,pods=2, limited: cpu=1,pods=2"],
            &["quota team: ", "cpu short by ", "pods short by "],
        ]],
    );
    for names in ["cpu,memory", "cpu for: log,web; memory for: web"] {
        let begun = "failed quota: team: must specify ";
        check(
            &format!(r#"pods "web" is forbidden: {begun}{names}"#),
            &[&[&[begun, "cpu for: ", "memory for: "], &["quota team: ", "cpu", "memory"]]],
        );
    }
    check(
        r#"pods "web" is forbidden: status unknown for quota: team, resources: cpu"#,
        &[&[&["status unknown for quota: team, resources: cpu"], &["quota team: its usage has not been counted yet"]]],
    );
    check(r#"Pod "web" is invalid: spec.containers[0]"#, &[]);
}
