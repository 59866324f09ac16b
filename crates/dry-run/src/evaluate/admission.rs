//! Finds the admission that a cluster has: the API server's own plugins alone, or Headroom's policy beside them, and the
//! settings by which it decides a request.
//!
//! The plugins LimitRanger and ResourceQuota are part of every cluster. A policy that is not active, or only monitors, leaves
//! the decision to them; one that protects fills in and decides as its settings say, for the requests that it matches.

use std::fmt;

use headroom_admission::Request;
use headroom_admission::actions::exempt;
use headroom_admission::cluster::label_selector::{LabelSelector, Labels};
use headroom_admission::json::Malformed;
use headroom_admission::request::kinds::PodKind;
use serde::Serialize;
use serde_json::{Value, json};

use super::{ObjectDecision, ObjectWarning, evaluate};
use crate::overlay::tenants::{labels, with_name};
use crate::settings::ParsedSettings;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::document;
use headroom_objects::kinds::{items, labels_of, metadata, text};

const KUBEWARDEN: &str = "policies.kubewarden.io/v1";
/// Kubewarden's kinds of policies: cluster-wide and in a namespace, alone and in groups.
const KINDS: [(&str, bool); 4] = [
    ("ClusterAdmissionPolicy", true),
    ("ClusterAdmissionPolicyGroup", true),
    ("AdmissionPolicy", false),
    ("AdmissionPolicyGroup", false),
];

#[derive(Debug)]
pub struct Admission {
    policies: Vec<Policy>,
    /// The only namespace that is asked about, for which its own policies speak too.
    namespace: Option<String>,
    in_tree: Value,
    parsed_in_tree: ParsedSettings,
    source: PolicySource,
    /// Reasons why policies that exist do not count, or are not known.
    notes: Vec<String>,
}

/// Where the policies are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PolicySource {
    Cluster,
    /// `--cluster-dir`
    Files,
    /// `--settings`
    Settings,
    /// Nothing was read, or could be.
    Assumed,
}

/// The plugins and policies that take part in admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Plugins {
    InTree,
    HeadroomMonitors,
    Headroom,
}

/// The admission in words, and as fields of JSON.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Description {
    pub plugins: Plugins,
    pub source: PolicySource,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug)]
struct Policy {
    /// Null for settings that match everything.
    object: Value,
    is_mutating: bool,
    is_monitored: bool,
    /// Without a role: the evaluation stands for all policies, and for the plugins after them.
    settings: Value,
    parsed: ParsedSettings,
}

impl Admission {
    /// The admission by settings of a policy that matches every request.
    pub fn of_settings(settings: &Value) -> Self {
        Self::of(vec![Policy::of(Value::Null, settings)], PolicySource::Settings, Vec::new())
    }

    /// The admission by the policies that are found in a cluster.
    pub fn read(cluster: &mut dyn ClusterReader, source: PolicySource, namespaces: &[Option<&str>]) -> Self {
        let (mut policies, mut notes, mut is_known) = (Vec::new(), Vec::new(), true);
        for (kind, is_cluster_wide) in KINDS {
            for namespace in if is_cluster_wide { &[None] } else { namespaces } {
                match cluster.list((KUBEWARDEN, kind, *namespace)) {
                    Ok(found) => policies.extend(found.iter().filter_map(|object| Policy::read(object, &mut notes))),
                    Err(error) if error.is_unknown_kind() => {}
                    // Whoever may not read one kind may not read the others.
                    Err(error) if is_known => {
                        is_known = false;
                        notes.push(format!("{error}, so whether Headroom's policy is installed is unknown"));
                    }
                    Err(_) => {}
                }
            }
        }
        let admission = Self::of(policies, if is_known { source } else { PolicySource::Assumed }, notes);
        let namespace = if let [Some(only)] = namespaces { Some((*only).to_owned()) } else { None };
        Self { namespace, ..admission }
    }

    /// In-tree plugins alone, because nothing says otherwise.
    pub fn assumed() -> Self {
        Self::of(Vec::new(), PolicySource::Assumed, Vec::new())
    }

    fn of(policies: Vec<Policy>, source: PolicySource, notes: Vec<String>) -> Self {
        // The API server is the same without the policy. Only cluster-wide policies may describe it: tenants can write those of
        // their namespaces.
        let stated = |path: &str| {
            let mut cluster_wide = policies.iter().filter(|policy| policy.namespace().is_empty());
            cluster_wide.find_map(|policy| policy.settings.pointer(path))
        };
        let version = stated("/kubernetesVersion").map(|version| json!({"kubernetesVersion": version}));
        let mut in_tree = json!({"estimates": {"mode": "never"}, "limitRanges": {"raiseDefaultLimits": false},
            "quotas": {"limitedResources": stated("/quotas/limitedResources").unwrap_or(&json!([]))}});
        if let (Value::Object(fields), Some(Value::Object(version))) = (&mut in_tree, version) {
            fields.extend(version);
        }
        Self { parsed_in_tree: ParsedSettings::of(&in_tree), in_tree, policies, namespace: None, source, notes }
    }

    /// The same, with the plugins of an API server of this minor version, unless settings state another.
    pub fn with_release(mut self, release: Option<u16>) -> Self {
        if let (Some(minor), Value::Object(settings)) = (release, &mut self.in_tree) {
            settings.entry("kubernetesVersion").or_insert_with(|| json!(format!("1.{minor}")));
            self.parsed_in_tree = ParsedSettings::of(&self.in_tree);
        }
        self
    }

    /// Evaluates a request as the cluster would decide it.
    pub fn evaluate(&self, request: Value, cluster: &mut dyn ClusterReader) -> ObjectDecision {
        let (settings, monitoring) = self.settings_for(&request, cluster);
        let monitored = monitoring.map(|settings| evaluate(request.clone(), settings, cluster).warnings);
        let mut evaluation = evaluate(request, settings, cluster);
        // kubectl prints the estimates that a monitoring policy would set.
        evaluation.warnings.extend(monitored.into_iter().flatten().filter(ObjectWarning::is_of_estimate));
        evaluation
    }

    /// The settings that decide a request, and those of a policy that only monitors it.
    pub fn settings_for(
        &self,
        request: &Value,
        cluster: &mut dyn ClusterReader,
    ) -> (&ParsedSettings, Option<&ParsedSettings>) {
        let matching: Vec<&Policy> = self.policies.iter().filter(|policy| policy.matches(request, cluster)).collect();
        let deciding = filling_first(matching.iter().copied().filter(|policy| !policy.is_monitored));
        let monitoring = matching.into_iter().find(|policy| policy.is_monitored && policy.is_mutating);
        let monitoring = monitoring.filter(|_| deciding.is_none());
        (deciding.map_or(&self.parsed_in_tree, |policy| &policy.parsed), monitoring.map(|policy| &policy.parsed))
    }

    /// The policies that speak for all that is asked about. A policy of one namespace speaks for no other.
    fn speaking(&self) -> impl Iterator<Item = &Policy> + Clone {
        let of_all =
            |policy: &&Policy| policy.namespace().is_empty() || self.namespace.as_deref() == Some(policy.namespace());
        self.policies.iter().filter(of_all)
    }

    /// The settings that a policy has, for what is not decided by them: those that fill in, or else any.
    pub fn settings(&self) -> Option<&Value> {
        filling_first(self.speaking()).map(|policy| &policy.settings)
    }

    /// The settings that decide new pods, where all policies match.
    pub fn deciding_settings(&self) -> &Value {
        let deciding = filling_first(self.speaking().filter(|policy| !policy.is_monitored));
        deciding.map_or(&self.in_tree, |policy| &policy.settings)
    }

    /// True if a request for any pod is decided by these settings.
    pub fn is_by(&self, settings: &Value) -> bool {
        matches!(self.policies.as_slice(), [policy] if policy.object.is_null() && !policy.is_monitored && policy.settings == *settings)
    }

    pub fn describe(&self) -> Description {
        let is_monitored = self.policies.iter().all(|policy| policy.is_monitored);
        let plugins = match self.policies.as_slice() {
            [] => Plugins::InTree,
            _ if is_monitored => Plugins::HeadroomMonitors,
            _ => Plugins::Headroom,
        };
        let name = |object| match metadata(object, "namespace") {
            "" => metadata(object, "name").to_owned(),
            namespace => format!("{namespace}/{}", metadata(object, "name")),
        };
        let names = self.objects().map(name);
        Description { plugins, source: self.source, policies: names.collect(), notes: self.notes.clone() }
    }

    /// The policy objects, for a snapshot.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.policies.iter().map(|policy| &policy.object).filter(|object| !object.is_null())
    }
}

/// `in-tree plugins and Headroom (policies headroom-fill, headroom)`
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.plugins {
            Plugins::InTree => "in-tree plugins",
            Plugins::HeadroomMonitors => "in-tree plugins; Headroom only monitors",
            Plugins::Headroom => "in-tree plugins and Headroom",
        })?;
        match (self.source, self.plugins, self.policies.join(", ")) {
            (PolicySource::Settings, ..) => f.write_str(" with the settings of --settings")?,
            (PolicySource::Assumed, ..) => f.write_str(" only, assumed; pass --settings for Headroom's policy")?,
            (PolicySource::Cluster, Plugins::InTree, _) => f.write_str(" only; no Headroom policy in the cluster")?,
            (PolicySource::Files, Plugins::InTree, _) => f.write_str(" only; no Headroom policy in --cluster-dir")?,
            (_, _, names) => write!(f, " (policies: {names})")?,
        }
        self.notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

impl Policy {
    fn of(object: Value, settings: &Value) -> Self {
        let is = |value: Option<&Value>, text: &str| value.and_then(Value::as_str) == Some(text);
        let is_mutating = match object.pointer("/spec/mutating") {
            Some(mutating) => *mutating == json!(true),
            // A group cannot mutate.
            None => object.is_null() && !is(settings.get("role"), "validate"),
        };
        let is_monitored = is(object.pointer("/spec/mode"), "monitor") || is(settings.get("mode"), "monitor");
        let mut whole = settings.clone();
        if let Value::Object(fields) = &mut whole {
            fields.remove("role");
            if !is_mutating {
                fields.remove("mutateTemplates");
                fields.insert("estimates".to_owned(), json!({"mode": "never"}));
                if let Value::Object(ranges) = fields.entry("limitRanges").or_insert_with(|| json!({})) {
                    ranges.insert("raiseDefaultLimits".to_owned(), json!(false));
                }
            }
        }
        let parsed = ParsedSettings::of(&whole);
        Self { object, is_mutating, is_monitored, settings: whole, parsed }
    }

    /// The policy in an object, if it is of Headroom's module, or a group that rejects what it rejects, and the policy server
    /// evaluates it.
    fn read(object: &Value, notes: &mut Vec<String>) -> Option<Self> {
        let (name, spec) = (metadata(object, "name"), object.get("spec")?);
        let members = spec.get("policies").and_then(Value::as_object).into_iter().flatten();
        let member = members.into_iter().find(|(_, member)| is_headroom(member));
        let of_module = if is_headroom(spec) { Some(spec) } else { member.map(|(_, member)| member) }?;
        // A file of a repository has no status.
        let status = object.pointer("/status/policyStatus").and_then(Value::as_str).unwrap_or("active");
        if status != "active" {
            notes.push(format!("policy {name} does not count: it is {status}"));
            return None;
        }
        if let Some((member, _)) = member {
            let expression = text(spec, "/expression");
            if !requires(expression, member) {
                notes.push(format!(
                    "policy group {name} does not count: whether `{expression}` rejects is not known here"
                ));
                return None;
            }
        }
        for condition in items(spec, "/matchConditions") {
            match text(condition, "/expression").trim() {
                "true" => {}
                "false" => {
                    notes.push(format!("policy {name} does not count: its matchCondition is `false`"));
                    return None;
                }
                _ => {
                    let condition = text(condition, "/name");
                    notes.push(format!("matchCondition `{condition}` of policy {name} is taken to be true"));
                }
            }
        }
        let settings = of_module.get("settings").cloned().unwrap_or_else(|| json!({}));
        Some(Self::of(object.clone(), &settings))
    }

    /// Empty for one of the cluster.
    fn namespace(&self) -> &str {
        metadata(&self.object, "namespace")
    }

    /// True if the policy is asked about a request, or about the pods that its object makes.
    fn matches(&self, request: &Value, cluster: &mut dyn ClusterReader) -> bool {
        let text = |path: &str| text(request, path);
        let (own, namespace) = (self.namespace(), text("/namespace"));
        // An AdmissionPolicy matches requests in its own namespace alone. What it exempts is left to the in-tree plugins.
        if !own.is_empty() && own != namespace || self.exempts(request, cluster) {
            return false;
        }
        let (group, resource) = (text("/resource/group"), text("/resource/resource"));
        let is_ruled = self.object.is_null()
            || self.has_rule(group, resource, text("/operation"))
            || PodKind::of(group, resource).is_some() && self.has_rule("", "pods", "CREATE");
        // Kubewarden's controller leaves the `matchLabels` of a cluster-wide policy out of its webhook.
        let namespaces = self.object.pointer("/spec/namespaceSelector/matchExpressions");
        let namespaces = namespaces.map(|expressions| json!({"matchExpressions": expressions}));
        is_ruled
            && selects(namespaces.as_ref(), || labels_of_namespace(namespace, cluster))
            && selects(self.object.pointer("/spec/objectSelector"), || {
                labels_of(request.get("object").unwrap_or(&Value::Null))
            })
    }

    /// False for what cannot be read, which the evaluation reports.
    fn exempts(&self, request: &Value, cluster: &mut dyn ClusterReader) -> bool {
        let (Ok(settings), Ok(read)) = (self.parsed.read(), document(request)) else { return false };
        let of_request = |request: Request<'_>| -> Result<bool, Malformed> {
            let by_name = exempt::by_namespace_name(&request, &settings);
            let pod = request.pod()?;
            let by_object = || exempt::object(&request, &settings);
            Ok(by_name || pod.map_or_else(by_object, |pod| exempt::pods(&request, &pod, &settings))?)
        };
        let is_exempt = Request::read(read.root()).and_then(of_request);
        let selector = settings.exempt.namespace_labels.as_ref();
        let by_labels =
            selector.is_some_and(|of| of.matches(&labels_of_namespace(text(request, "/namespace"), cluster)));
        by_labels || is_exempt.unwrap_or(false)
    }

    fn has_rule(&self, group: &str, resource: &str, operation: &str) -> bool {
        items(&self.object, "/spec/rules").any(|rule| {
            let holds = |field: &str, wanted: &str| {
                let mut listed = items(rule, &format!("/{field}")).filter_map(Value::as_str);
                listed.any(|one| one == "*" || one == "*/*" || one == wanted)
            };
            holds("apiGroups", group) && holds("resources", resource) && holds("operations", operation)
        })
    }
}

/// The policy that counts: to what one that fills in leaves, one that only validates adds nothing but the plugins' bounds.
fn filling_first<'p>(mut policies: impl Iterator<Item = &'p Policy> + Clone) -> Option<&'p Policy> {
    policies.clone().find(|policy| policy.is_mutating).or_else(|| policies.next())
}

/// True if a selector selects labels; one that is absent or empty selects all.
fn selects(selector: Option<&Value>, labels: impl FnOnce() -> Labels) -> bool {
    let Some(selector) = selector.filter(|selector| selector.as_object().is_some_and(|fields| !fields.is_empty()))
    else {
        return true;
    };
    let Ok(document) = document(selector) else { return false };
    LabelSelector::read(document.root()).is_ok_and(|selector| selector.matches(&labels()))
}

/// The labels of a namespace, which has only its name if it cannot be read.
fn labels_of_namespace(name: &str, cluster: &mut dyn ClusterReader) -> Labels {
    labels(name, cluster).unwrap_or_else(|_| with_name(Labels::default(), name))
}

/// True if a group with this expression accepts nothing that the member rejects: its call is one of those joined by `&&`.
/// Any other expression is not understood.
fn requires(expression: &str, member: &str) -> bool {
    let calls: Vec<&str> = expression.split("&&").map(|part| part.trim().trim_end_matches("()")).collect();
    let is_call = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    calls.iter().all(is_call) && calls.contains(&member)
}

/// True for a policy of this module, from whichever registry.
fn is_headroom(policy: &Value) -> bool {
    let file = policy.get("module").and_then(Value::as_str).and_then(|module| module.rsplit('/').next());
    file.is_some_and(|file| file.starts_with("headroom") || file == "annotated-policy.wasm")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overlay;
    use crate::evaluate::Verdict;
    use headroom_objects::cluster_reader::{Folder, List, ReadError};
    use headroom_objects::kinds::ApiKind;

    /// The verdict on a pod without requests in a namespace whose quota bounds them, and the admission in words.
    fn check(policies: &[Value], verdict: Verdict, told: &str) {
        let of_namespace = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}}),
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "shop"},
                "spec": {"hard": {"requests.cpu": "2"}}}),
        ];
        let folder = Folder::with(of_namespace.iter().chain(policies).cloned()).unwrap();
        let mut cluster = Overlay::new(folder, None);
        let admission = Admission::read(&mut cluster, PolicySource::Files, &[None]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}});
        let request = crate::evaluate::request::create(pod, &ApiKind::new("v1", "Pod"), "shop");
        let mut evaluation = admission.evaluate(request, &mut cluster);
        evaluation.decide();
        let found = (evaluation.verdict, admission.describe().to_string());
        assert_eq!(found, (verdict, told.to_owned()), "{policies:?}: {:?}", evaluation.reasons);
    }

    fn policy(name: &str, spec: Value) -> Value {
        let mut whole = json!({"module": "registry://ghcr.io/headroom-dev/policies/headroom:v0.1.0", "mutating": true,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": name},
            "spec": whole})
    }

    #[test]
    fn only_an_active_policy_that_protects_and_matches_fills_in_values() {
        const FILLS: &str = "in-tree plugins and Headroom (policies: p)";
        const NONE: &str = "in-tree plugins only; no Headroom policy in --cluster-dir";
        check(&[], Verdict::Rejected, NONE);
        check(&[policy("p", json!({}))], Verdict::Changed, FILLS);
        check(&[policy("p", json!({"settings": {"role": "mutate"}}))], Verdict::Changed, FILLS);
        let monitoring = policy("p", json!({"mode": "monitor"}));
        check(&[monitoring], Verdict::Rejected, "in-tree plugins; Headroom only monitors (policies: p)");
        check(&[policy("p", json!({"settings": {"estimates": {"mode": "never"}}}))], Verdict::Rejected, FILLS);
        let both = [policy("p", json!({"mutating": false})), policy("q", json!({}))];
        check(&both[..1], Verdict::Rejected, FILLS);
        check(&both, Verdict::Changed, "in-tree plugins and Headroom (policies: p, q)");
        let other = json!({"module": "registry://ghcr.io/kubewarden/policies/pod-privileged:v1"});
        check(&[policy("p", other)], Verdict::Rejected, NONE);
        let selects = |label: &str, value: &str| {
            let expressions = json!([{"key": label, "operator": "In", "values": [value]}]);
            policy("p", json!({"namespaceSelector": {"matchExpressions": expressions}}))
        };
        check(&[selects("team", "a")], Verdict::Changed, FILLS);
        check(&[selects("kubernetes.io/metadata.name", "shop")], Verdict::Changed, FILLS);
        check(&[selects("team", "b")], Verdict::Rejected, FILLS);
        let labels = json!({"namespaceSelector": {"matchLabels": {"team": "b"}}});
        check(&[policy("p", labels)], Verdict::Changed, FILLS);
        for exempt in [
            json!({"namespaces": ["shop"]}),
            json!({"namespaceLabels": {"matchLabels": {"team": "a"}}}),
            json!({"labels": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}),
            json!({"serviceAccounts": ["shop/default"]}),
        ] {
            check(&[policy("p", json!({"settings": {"exempt": exempt}}))], Verdict::Rejected, FILLS);
        }
        let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["UPDATE"]}]);
        check(&[policy("p", json!({"rules": rules}))], Verdict::Rejected, FILLS);
        let mut pending = policy("p", json!({}));
        pending["status"] = json!({"policyStatus": "pending"});
        check(&[pending], Verdict::Rejected, &format!("{NONE}; policy p does not count: it is pending"));
        let group = |expression: &str| {
            let members = json!({"a": {"module": "headroom:v1"}, "b": {"module": "other:v1"}});
            let spec = json!({"module": null, "mutating": null, "policies": members, "expression": expression});
            let mut group = policy("g", spec);
            group["spec"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
            group["kind"] = json!("ClusterAdmissionPolicyGroup");
            group
        };
        check(&[group("a() && b()")], Verdict::Rejected, "in-tree plugins and Headroom (policies: g)");
        let unknown = "policy group g does not count: whether `a() || b()` rejects is not known here";
        check(&[group("a() || b()")], Verdict::Rejected, &format!("{NONE}; {unknown}"));
        let conditions =
            |expression: &str| policy("p", json!({"matchConditions": [{"name": "c", "expression": expression}]}));
        check(&[conditions("true")], Verdict::Changed, FILLS);
        let never = "policy p does not count: its matchCondition is `false`";
        check(&[conditions("false")], Verdict::Rejected, &format!("{NONE}; {never}"));
        let perhaps = format!("{FILLS}; matchCondition `c` of policy p is taken to be true");
        check(&[conditions("request.userInfo.username != 'ci'")], Verdict::Changed, &perhaps);
        let mut namespaced = policy("p", json!({}));
        namespaced["kind"] = json!("AdmissionPolicy");
        namespaced["metadata"]["namespace"] = json!("other");
        check(&[namespaced.clone()], Verdict::Rejected, "in-tree plugins and Headroom (policies: other/p)");
        namespaced["metadata"]["namespace"] = json!("shop");
        check(&[namespaced], Verdict::Changed, "in-tree plugins and Headroom (policies: shop/p)");
    }

    #[test]
    fn a_policy_of_one_namespace_speaks_for_no_other() {
        let settings = json!({"kubernetesVersion": "1.20", "estimates": {"namespace": "mine"}});
        let mut of_tenant = policy("p", json!({"settings": settings}));
        of_tenant["kind"] = json!("AdmissionPolicy");
        of_tenant["metadata"]["namespace"] = json!("mine");
        let mut cluster = Overlay::new(Folder::with([of_tenant]).unwrap(), None);
        let mut read = |namespaces: &[Option<&str>]| Admission::read(&mut cluster, PolicySource::Files, namespaces);
        let is_of_tenant =
            |admission: &Admission| admission.settings().is_some_and(|found| found["kubernetesVersion"] == "1.20");
        let (all, both, one) = (read(&[None]), read(&[Some("shop"), Some("mine")]), read(&[Some("mine")]));
        assert_eq!([&all, &both, &one].map(is_of_tenant), [false, false, true]);
        let versions = [&all, &both, &one].map(|admission| admission.in_tree.get("kubernetesVersion").cloned());
        assert_eq!(versions, [None, None, None], "about the API server, of which it knows nothing");
        assert_eq!(all.deciding_settings()["estimates"]["mode"], "never");
    }

    #[test]
    fn policies_that_may_not_be_read_are_told() {
        struct Forbidden;
        impl ClusterReader for Forbidden {
            fn list(&mut self, _: List<'_>) -> Result<Vec<Value>, ReadError> {
                let problem = "cannot list clusteradmissionpolicies".to_owned();
                Err(ReadError::Forbidden { resource: "clusteradmissionpolicies".to_owned(), problem })
            }
        }
        let told = Admission::read(&mut Forbidden, PolicySource::Cluster, &[Some("shop")]).describe().to_string();
        assert_eq!(
            told,
            "in-tree plugins only, assumed; pass --settings for Headroom's policy; cannot list \
             clusteradmissionpolicies, so whether Headroom's policy is installed is unknown"
        );
    }
}
