//! Finds the pods that custom resources create, by the table `pod_makers.yaml`.
//!
//! A kind in no row is searched for what looks like a pod template, with `replicas` and `parallelism` around it, and
//! said to be unknown.
//!
//! The core models the controllers of Kubernetes' own kinds (`request/kinds.rs`, `request/rollout.rs`); here they have rows for
//! what is made beside their pods. A row:
//!
//! ```text
//!   kinds         KIND or KIND.GROUP; they share the row
//!   source        the operator's source that says so
//!   sure          `number` if the operator also sets requests that the object does not show
//!   grouped       the pods only work together
//!   suspended     no pods while one of these fields is set, or is VALUE in `field=VALUE`
//!   notCounted    why the pods cannot be counted; with `notCountedIf`, only where one of these fields is set
//!   pods          none if the kind makes none:
//!     at          a pod template or pod spec; `*` stands for each field or item
//!     or          where the template is if there is none at `at`
//!     from        the KIND of the object that has `at`, and `name` the field with that object's name
//!     containers  there is no template: the fields below `at` that have the `resources` of a container, `.` for `at` itself
//!     main        the container that the operator adds; its resources also hold where the object names none
//!     adds        containers beside it, with `addsIf` only where that field is set
//!     times       the factors of their number; without them, each `replicas` and `parallelism` on the way
//!     claims      the claims of each pod: templates of claims, or `size` and class; with `size`, one of that size if there is nothing
//!     rolls       the field with maxSurge and maxUnavailable, if an update replaces the pods as that of a Deployment does
//!     besideIf    the fields of which one says that all pods of an update run before an old one goes
//!     atMost      the factors of the number that an autoscaler may reach, with `atMostIf` only where that field is set
//! ```
//!
//! A factor is a field, `=` its default if that is not 1, then `- N` or `<= OTHER` at most once; `a|b` is the first that is
//! set, and `.x` stands beside `at`. The dots in `[a.b/c]` are part of a name. Numbers that an operator computes from more
//! fields are not followed: a row names the field that counts as a rule.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::kinds::{DEPLOYMENT, REPLICA_SET};
use headroom_objects::kinds::{ApiKind, items, lifecycle, metadata};
use headroom_objects::manifest::documents;

/// Pods of one template.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodTemplate {
    /// `spec.workerGroupSpecs[0].template`
    pub path: String,
    pub replicas: u64,
    /// The largest number that an autoscaler may reach, if it is more.
    pub most: Option<u64>,
    pub template: Value,
    /// The claims that are made for each pod, as templates.
    pub claims: Vec<Value>,
    pub update: Update,
}

/// The way in which an operator replaces pods when their template changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Update {
    /// Not known, or in place.
    #[default]
    InPlace,
    /// As a Deployment with this `rollingUpdate`.
    Rolls(Value),
    /// All new pods run before an old one goes.
    Beside,
}

/// The pods of an object, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MadePods {
    pub templates: Vec<PodTemplate>,
    /// True if a row says which pods it makes, or that it makes none.
    pub is_known: bool,
    /// True if the pods only work together.
    pub are_grouped: bool,
    /// The reason why some are not known, if so.
    pub doubt: Option<String>,
}

/// Kinds that make pods, and where: a row of the table, of a file, or of `--pods-at`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodMaker {
    /// `KIND` or `KIND.GROUP`, `KIND.` for the core group.
    kinds: Vec<String>,
    #[serde(default)]
    pods: Vec<PodsAt>,
    #[serde(default)]
    suspended: Vec<String>,
    not_counted: Option<String>,
    #[serde(default)]
    not_counted_if: Vec<String>,
    #[serde(default)]
    grouped: bool,
    /// For whoever reads the table: how sure the row is, and where the operator's source says so.
    #[serde(default, rename = "sure")]
    _sure: Option<String>,
    #[serde(default, rename = "source")]
    _source: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodsAt {
    at: String,
    or: Option<String>,
    from: Option<String>,
    name: Option<String>,
    #[serde(default)]
    containers: Vec<String>,
    main: Option<Value>,
    #[serde(default)]
    adds: Vec<Value>,
    adds_if: Option<String>,
    #[serde(default)]
    suspended: Vec<String>,
    times: Option<Vec<String>>,
    at_most: Option<Vec<String>>,
    at_most_if: Option<String>,
    #[serde(default)]
    claims: Vec<String>,
    size: Option<String>,
    rolls: Option<String>,
    #[serde(default)]
    beside_if: Vec<String>,
}

static TABLE: LazyLock<Vec<PodMaker>> = LazyLock::new(|| {
    // OK because a test reads it.
    PodMaker::rows(include_str!("pod_makers.yaml")).unwrap_or_default()
});

/// At most this many templates of an object are evaluated.
const MAX: usize = 64;

impl PodMaker {
    /// Reads rows in the form of the table.
    pub fn rows(text: &str) -> Result<Vec<Self>, String> {
        let rows = documents::parse(text).map_err(|(line, problem)| format!("line {}: {problem}", line + 1))?;
        let rows: Vec<Self> = serde_json::from_value(rows).map_err(|error| error.to_string())?;
        let factors = rows.iter().flat_map(|row| &row.pods).flat_map(|pods| pods.times.iter().chain(&pods.at_most));
        match factors.flatten().find(|of| factor(&Value::Null, of, &PathPlace::default()).is_none()) {
            Some(factor) => Err(format!(
                "cannot read the factor `{factor}`: expected FIELD[=DEFAULT], then `- N` or `<= OTHER` at most once"
            )),
            None => Ok(rows),
        }
    }

    /// The names of the fields that the row reads.
    fn names(&self) -> Vec<&str> {
        let of_pods = self.pods.iter().flat_map(|pods| {
            let factors = pods.times.iter().chain(&pods.at_most).flatten();
            let paths = pods.name.iter().chain(&pods.adds_if).chain(&pods.at_most_if).chain(&pods.suspended);
            let paths = paths.chain(&pods.rolls).chain(&pods.beside_if);
            factors.chain(paths).map(String::as_str).chain(CLAIM_FIELDS.into_iter().filter(|_| !pods.claims.is_empty()))
        });
        let texts = of_pods.chain(self.suspended.iter().chain(&self.not_counted_if).map(String::as_str));
        texts.flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric())).collect()
    }

    fn is_of(&self, kind: &ApiKind) -> bool {
        self.kinds.iter().any(|of| {
            let (name, group) = of.split_once('.').map_or((of.as_str(), None), |(name, group)| (name, Some(group)));
            name.eq_ignore_ascii_case(&kind.kind) && group.is_none_or(|group| group == kind.group)
        })
    }
}

/// `Sandbox=spec.podTemplate`
impl std::str::FromStr for PodMaker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((kind, path)) if !kind.is_empty() && !path.is_empty() => {
                let pods = vec![PodsAt { at: path.to_owned(), ..PodsAt::default() }];
                Ok(Self { kinds: vec![kind.to_owned()], pods, ..Self::default() })
            }
            _ => Err("expected KIND=PATH, such as `Sandbox=spec.podTemplate`, or a file of rows".to_owned()),
        }
    }
}

/// The pods of a custom resource; none for kinds of Kubernetes itself, whose pods the core knows. `rows` stand before those of
/// the table, and `find` reads an object that this one refers to, by its kind and name.
pub fn of(object: &Value, rows: &[PodMaker], find: &mut dyn FnMut(&str, &str) -> Option<Value>) -> MadePods {
    let kind = ApiKind::of(object);
    let is_custom = !lifecycle::is_built_in(&kind.group);
    let table = TABLE.iter().filter(|_| is_custom);
    match rows.iter().chain(table).find(|row| row.is_of(&kind)) {
        Some(row) => row.pods(object, find),
        // Kinds that their authors name so describe pods that others make.
        None if is_custom
            && !["Template", "Runtime", "Class", "Profile"].iter().any(|end| kind.kind.ends_with(end)) =>
        {
            searched(object, &kind)
        }
        None => MadePods::default(),
    }
}

/// The fields of a custom resource that set what its pods request, as far as the table knows them: `spec.kafka.resources`
pub fn request_fields(kind: &ApiKind) -> Vec<String> {
    let row = TABLE.iter().find(|row| row.is_of(kind) && !lifecycle::is_built_in(&kind.group));
    let fields = row.into_iter().flat_map(|row| &row.pods).flat_map(|PodsAt { at, containers, .. }| {
        let at = at.replace(".*", "[]");
        let of = |field: &String| match field.as_str() {
            "." => format!("{at}.resources"),
            field => format!("{at}.{field}.resources"),
        };
        match containers.as_slice() {
            [] if at.to_lowercase().ends_with("template") => vec![format!("{at}.spec.containers[].resources")],
            [] => vec![format!("{at}.containers[].resources")],
            containers => containers.iter().map(of).collect(),
        }
    });
    fields.collect()
}

/// True if the operator of a kind adds a container of this name, which none of those fields is about.
pub fn adds(kind: &ApiKind, container: &str) -> bool {
    let pods = TABLE.iter().filter(|row| row.is_of(kind)).flat_map(|row| &row.pods);
    pods.flat_map(|pods| &pods.adds).any(|of| of.get("name").is_some_and(|name| name == container))
}

/// The pods of a kind of Kubernetes itself, as a new object makes them; those of a DaemonSet for one node.
pub fn of_built_in(object: &Value) -> Vec<PodTemplate> {
    let kind = ApiKind::of(object);
    let row = TABLE.iter().find(|row| lifecycle::is_built_in(&kind.group) && row.is_of(&kind));
    row.map(|row| row.pods(object, &mut |_, _| None).templates).unwrap_or_default()
}

impl PodMaker {
    fn pods(&self, object: &Value, find: &mut dyn FnMut(&str, &str) -> Option<Value>) -> MadePods {
        let mut made = MadePods { is_known: true, are_grouped: self.grouped, ..MadePods::default() };
        let doubt =
            |why: String| MadePods { doubt: Some(format!("its pods are not counted: {why}")), ..MadePods::default() };
        let has_any = |paths: &[String]| paths.iter().any(|path| is_set(object, path, &PathPlace::default()));
        if has_any(&self.suspended) {
            return made;
        }
        let is_counted = !self.not_counted_if.is_empty() && !has_any(&self.not_counted_if);
        if let Some(why) = self.not_counted.as_ref().filter(|_| !is_counted) {
            return doubt(why.clone());
        }
        let mut is_found = false;
        for pods in &self.pods {
            let mut other = None;
            if let Some((kind, path)) = pods.from.as_ref().zip(pods.name.as_ref()) {
                let name = field(object, path, &PathPlace::default()).and_then(Value::as_str).unwrap_or_default();
                other = find(kind, name);
                if other.is_none() {
                    return doubt(format!("there is no {kind} {name}"));
                }
            }
            let mut places = places_of(other.as_ref().unwrap_or(object), &pods.at);
            places.truncate(MAX);
            for place in places {
                let Some(template) = pods.template(object, &place) else { continue };
                is_found = true;
                let counted = |factors: &[String]| {
                    factors.iter().fold(1_u64, |all, of| all.saturating_mul(factor(object, of, &place).unwrap_or(1)))
                };
                let is_suspended = pods.suspended.iter().any(|path| is_set(object, path, &place));
                let replicas = match &pods.times {
                    _ if is_suspended => 0,
                    Some(factors) => counted(factors),
                    None => place.by_convention,
                };
                let may_grow = pods.at_most_if.as_ref().is_none_or(|path| is_set(object, path, &place));
                let most = pods.at_most.as_deref().filter(|_| may_grow && !is_suspended).map(counted);
                if replicas > 0 || most.is_some_and(|most| most > 0) {
                    let most = most.filter(|most| *most > replicas);
                    let claims = pods.claims(object, &place);
                    let update = pods.update(object, &place);
                    made.templates.push(PodTemplate { path: place.path, replicas, most, template, claims, update });
                }
            }
        }
        if !is_found && !self.pods.is_empty() {
            let places: Vec<&str> = self.pods.iter().map(|pods| pods.at.as_str()).collect();
            return doubt(format!("there is no pod template at {}", places.join(", ")));
        }
        made
    }
}

impl PodsAt {
    /// The template at a place, as the operator completes it.
    fn template(&self, object: &Value, place: &PathPlace<'_>) -> Option<Value> {
        let or = || self.or.as_ref().and_then(|path| field(object, path, place));
        let template = match place.value.or_else(or) {
            Some(value) if !self.containers.is_empty() => {
                json!({"spec": {"containers": self.containers_below(value)?}})
            }
            Some(value) if value.get("containers").is_some() => json!({"spec": value}),
            Some(value) => value.clone(),
            // The object that would have it is there.
            None if self.main.is_some() => json!({}),
            None => return None,
        };
        (self.main.is_some() || is_template(&template)).then(|| self.completed(template, object, place))
    }

    fn update(&self, object: &Value, place: &PathPlace<'_>) -> Update {
        let rolls = self.rolls.as_ref().and_then(|path| field(object, path, place));
        match rolls {
            _ if self.beside_if.iter().any(|path| field(object, path, place).is_some()) => Update::Beside,
            Some(rolls) => {
                Update::Rolls(json!({"maxSurge": rolls.get("maxSurge"), "maxUnavailable": rolls.get("maxUnavailable")}))
            }
            None => Update::InPlace,
        }
    }

    /// The claims of each pod: templates of claims, or amounts of storage with their class.
    fn claims(&self, object: &Value, place: &PathPlace<'_>) -> Vec<Value> {
        let claim = |name: &str, storage: &Value| -> Option<Value> {
            if storage.get("spec").is_some() {
                return Some(storage.clone());
            }
            let mut spec = storage.get("pvcTemplate").and_then(Value::as_object).cloned().unwrap_or_default();
            if let Some(size) = storage.get("size") {
                spec.insert("resources".to_owned(), json!({"requests": {"storage": size}}));
            }
            if let Some(class) = ["storageClass", "class"].iter().find_map(|field| storage.get(*field)) {
                spec.insert("storageClassName".to_owned(), class.clone());
            }
            spec.contains_key("resources").then(|| json!({"metadata": {"name": name}, "spec": spec}))
        };
        let mut claims = Vec::new();
        for path in &self.claims {
            let name = path.rsplit('.').next().unwrap_or_default();
            match field(object, path, place) {
                Some(Value::Array(several)) => claims.extend(several.iter().filter_map(|storage| claim(name, storage))),
                Some(storage) => claims.extend(claim(name, storage)),
                None => claims.extend(self.size.iter().filter_map(|size| claim("data", &json!({"size": size})))),
            }
        }
        claims
    }

    fn containers_below(&self, value: &Value) -> Option<Vec<Value>> {
        let of = |path: &String| if path == "." { Some(value) } else { value.get(path) };
        let container = |of: &Value| json!({"resources": of.get("resources").cloned().unwrap_or_else(|| json!({}))});
        let containers: Vec<Value> = self.containers.iter().filter_map(of).map(container).collect();
        (!containers.is_empty() && value.is_object()).then_some(containers)
    }

    fn completed(&self, mut template: Value, object: &Value, place: &PathPlace<'_>) -> Value {
        let is_added = self.adds_if.as_ref().is_none_or(|path| is_set(object, path, place));
        let Value::Object(fields) = &mut template else { return template };
        let Value::Object(spec) = fields.entry("spec").or_insert_with(|| json!({})) else { return template };
        let Value::Array(containers) = spec.entry("containers").or_insert_with(|| json!([])) else { return template };
        if let Some(main) = &self.main {
            let name = main.get("name");
            let is_main =
                |container: &&mut Value| name.is_none() || container.get("name").is_none_or(|of| Some(of) == name);
            match containers.iter_mut().find(is_main) {
                None => containers.push(main.clone()),
                Some(Value::Object(container)) => {
                    let resources = container.entry("resources").or_insert_with(|| json!({}));
                    let names_none = ["requests", "limits"].iter().all(|list| resources.get(*list).is_none());
                    if let Some(defaults) = main.get("resources").filter(|_| names_none) {
                        *resources = defaults.clone();
                    }
                }
                Some(_) => {}
            }
        }
        containers.extend(self.adds.iter().filter(|_| is_added).cloned());
        template
    }
}

/// The groups of kinds that others decide by: UsageProfiles and TenantQuotas, policies with their settings, and
/// VerticalPodAutoscalers.
const READ_BY_OTHERS: [&str; 3] = ["headroom.dev", "policies.kubewarden.io", "autoscaling.k8s.io"];
/// Fields of any custom resource that are read: the names in references to others, and how many pods there are.
const READ_OF_ALL: [&str; 10] = [
    "apiVersion",
    "kind",
    "name",
    "priorityClassName",
    "replicas",
    "parallelism",
    "minReplicaCount",
    "maxReplicaCount",
    "maxSurge",
    "maxUnavailable",
];

/// Fields of claims, by which storage is charged.
const CLAIM_FIELDS: [&str; 4] = ["size", "class", "storageClass", "storageClassName"];

/// Calls `each` with the values of a custom resource by which nothing is decided: all but its metadata, its pod templates, the
/// resources of its containers, and the fields that its row names.
pub fn visit_unread(object: &mut Value, each: &mut dyn FnMut(&mut Value)) {
    let kind = ApiKind::of(object);
    if lifecycle::is_built_in(&kind.group) || READ_BY_OTHERS.contains(&&*kind.group) {
        return;
    }
    let row = TABLE.iter().find(|row| row.is_of(&kind));
    let names: Vec<&str> = row.map(PodMaker::names).unwrap_or_default();
    let is_read = |name: &str| READ_OF_ALL.contains(&name) || names.contains(&name);
    for (name, value) in object.as_object_mut().into_iter().flatten() {
        if name != "metadata" {
            visit_unread_below(name, value, &is_read, each);
        }
    }
}

fn visit_unread_below(name: &str, value: &mut Value, is_read: &dyn Fn(&str) -> bool, each: &mut dyn FnMut(&mut Value)) {
    match value {
        _ if is_template(value) || name == "resources" => {}
        Value::Object(fields) if fields.get("containers").is_some_and(Value::is_array) => {}
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| visit_unread_below(name, value, is_read, each));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit_unread_below(name, item, is_read, each)),
        Value::Null => {}
        value if !is_read(name) => each(value),
        _ => {}
    }
}

/// The object as the ReplicaSet that would create `replicas` pods of a template.
pub fn replica_set(object: &Value, pods: &PodTemplate, replicas: u64) -> Value {
    json!({
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {"name": metadata(object, "name"), "namespace": metadata(object, "namespace")},
        "spec": {"replicas": replicas, "template": pods.template},
    })
}

/// The object as the Deployment that would replace the pods of a template.
pub fn deployment(object: &Value, pods: &PodTemplate, rolling_update: &Value) -> Value {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling_update});
    json!({
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.kind,
        "metadata": {"name": metadata(object, "name"), "namespace": metadata(object, "namespace")},
        "spec": {"replicas": pods.replicas, "strategy": strategy, "template": pods.template},
    })
}

/// A place that a path with `*` leads to, in an object that is there, whether something stands at the place or not.
#[derive(Default)]
struct PathPlace<'v> {
    path: String,
    /// The path as it is written in the row, up to its last part.
    parent: String,
    /// The names in place of the stars.
    stars: Vec<String>,
    value: Option<&'v Value>,
    /// The number of pods by `replicas` and `parallelism` on the way.
    by_convention: u64,
}

fn places_of<'v>(object: &'v Value, path: &str) -> Vec<PathPlace<'v>> {
    let first = PathPlace { value: Some(object), by_convention: 1, ..PathPlace::default() };
    let names = names_of(path);
    let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
    names.iter().fold(vec![first], |places, name| {
        let next = |place: PathPlace<'v>| -> Vec<PathPlace<'v>> {
            let Some(above) = place.value else { return Vec::new() };
            let to = |path: String, value: Option<&'v Value>, star: Option<String>| PathPlace {
                path,
                parent: parent.to_owned(),
                stars: place.stars.iter().cloned().chain(star).collect(),
                value,
                by_convention: multiplied(above, place.by_convention),
            };
            if *name == "*" {
                let parts = parts(above, &place.path).into_iter();
                return parts.map(|(name, path, value)| to(path, Some(value), Some(name))).collect();
            }
            let path = if place.path.is_empty() { (*name).to_owned() } else { format!("{}.{name}", place.path) };
            vec![to(path, child(above, name), None)]
        };
        places.into_iter().flat_map(next).collect()
    })
}

/// The names in a path; the dots in `[a.b/c]` are part of a name.
fn names_of(path: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (index, part) in path.split(['[', ']']).enumerate() {
        if index % 2 == 1 {
            names.push(part);
        } else {
            names.extend(part.split('.').filter(|name| !name.is_empty()));
        }
    }
    names
}

fn child<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => value.get(name),
    }
}

/// The field of a path whose stars stand for those of a place, and which may begin beside that place.
fn field<'v>(object: &'v Value, path: &str, place: &PathPlace<'_>) -> Option<&'v Value> {
    let whole = if path.starts_with('.') { format!("{}{path}", place.parent) } else { path.to_owned() };
    let mut stars = place.stars.iter();
    names_of(&whole).into_iter().try_fold(object, |value, name| match name {
        "*" => child(value, stars.next()?),
        _ => child(value, name),
    })
}

/// True if a field is there and does not say no, or has the value of `field=VALUE`.
fn is_set(object: &Value, path: &str, place: &PathPlace<'_>) -> bool {
    let (path, wanted) = path.split_once('=').map_or((path, None), |(path, wanted)| (path, Some(wanted)));
    let found = field(object, path, place);
    match (found, wanted) {
        (Some(value), Some(wanted)) => value.as_str() == Some(wanted),
        (None | Some(Value::Null | Value::Bool(false)), None) | (None, Some(_)) => false,
        (Some(value), None) => !matches!(value.as_str(), Some("" | "false" | "off" | "disabled" | "Running")),
    }
}

/// The value of a factor; none if it is not written as the table says.
fn factor(object: &Value, text: &str, place: &PathPlace<'_>) -> Option<u64> {
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        _ => value.as_u64(),
    };
    let found = |paths: &str| paths.split('|').find_map(|path| field(object, path, place).and_then(number));
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let (paths, default) = first.rsplit_once('=').unwrap_or((first, "1"));
    let value = found(paths).map_or_else(|| default.parse().ok(), Some)?;
    match (words.next(), words.next(), words.next()) {
        (None, ..) => Some(value),
        (Some("-"), Some(number), None) => Some(value.saturating_sub(number.parse().ok()?)),
        (Some("<="), Some(other), None) => Some(found(other).map_or(value, |most| value.min(most))),
        _ => None,
    }
}

/// The pods of a kind that is in no row.
fn searched(object: &Value, kind: &ApiKind) -> MadePods {
    let mut made = MadePods::default();
    let mut counts = Vec::new();
    search(object, "", (1, &mut counts), &mut made.templates);
    if !made.templates.is_empty() {
        let paths: Vec<&str> = made.templates.iter().map(|pods| pods.path.as_str()).collect();
        let pods = made.templates.iter().fold(0, |all: u64, pods| all.saturating_add(pods.replicas));
        let from = if counts.is_empty() { String::new() } else { format!(", by {}", counts.join(" and ")) };
        made.doubt = Some(format!(
            "{} is not a known kind: it is assumed to make {} of {}{from}; --pods-at names other places",
            kind.kind,
            headroom_admission::truncate::count_of(pods, "pod"),
            paths.join(", ")
        ));
    }
    made
}

/// Looks for pod templates below a value, which is none itself.
fn search(value: &Value, at: &str, (replicas, counts): (u64, &mut Vec<String>), found: &mut Vec<PodTemplate>) {
    let replicas = multiplied(value, replicas);
    let before = found.len();
    // Lists of containers without an image are patches.
    let has_image = |of: &Value| items(of, "/spec/containers").any(|of| of.get("image").is_some_and(Value::is_string));
    for (name, path, part) in parts(value, at) {
        // A status repeats the spec of some kinds.
        if found.len() == MAX || at.is_empty() && name != "spec" {
            continue;
        }
        if is_template(part) && has_image(part) {
            found.push(PodTemplate { path, replicas, template: part.clone(), ..PodTemplate::default() });
        } else {
            search(part, &path, (replicas, &mut *counts), found);
        }
    }
    if found.len() > before {
        counts.extend(COUNTS.iter().filter(|count| value.get(**count).is_some()).map(|count| format!("{at}.{count}")));
    }
}

/// The fields or items of a value, with their places.
fn parts<'v>(value: &'v Value, at: &str) -> Vec<(String, String, &'v Value)> {
    match value {
        Value::Object(fields) => {
            let place = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            fields.iter().map(|(name, part)| (name.clone(), place(name), part)).collect()
        }
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.map(|(index, part)| (index.to_string(), format!("{at}[{index}]"), part)).collect()
        }
        _ => Vec::new(),
    }
}

/// The fields that say how many pods are created, by convention.
const COUNTS: [&str; 2] = ["replicas", "parallelism"];

fn multiplied(value: &Value, replicas: u64) -> u64 {
    let count = |field: &str| value.get(field).and_then(Value::as_u64).unwrap_or(1);
    COUNTS.iter().fold(replicas, |all, field| all.saturating_mul(count(field)))
}

/// A template has containers that are objects.
fn is_template(value: &Value) -> bool {
    let containers = value.pointer("/spec/containers").and_then(Value::as_array);
    let is_container = |of: &Value| of.as_object().is_some_and(|fields| !fields.is_empty());
    containers.is_some_and(|containers| !containers.is_empty() && containers.iter().all(is_container))
}

#[cfg(test)]
mod tests;
