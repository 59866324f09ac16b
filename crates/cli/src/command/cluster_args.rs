//! The arguments that name a cluster and namespaces, shared by all commands that read objects.
//!
//! By default, commands read the live cluster, as kubectl reaches it. `--cluster-dir` gives files instead; with `--context` or
//! `--kubeconfig` beside it they are laid over the cluster. `--offline` is for those who want the settings' rules alone.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use headroom_admission::glob;
use headroom_admission::nearest::nearest;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::cluster_reader::LiveCluster;
use headroom_api_server::kept_lists::KeptLists;
use headroom_api_server::kubeconfig::{self, Chosen};
use headroom_api_server::list_all_namespaces::ListAllNamespaces;
use headroom_api_server::proxy;
use headroom_api_server::shell::ShellCommand;
use headroom_dry_run::evaluate::admission::{Description, PolicySource};
use headroom_dry_run::evaluate::{Admission, Run};
use headroom_dry_run::why::Suffixes;
use headroom_dry_run::{Overlay, settings};
use headroom_objects::cluster_reader::{ClusterReader, Folder, List, ReadError};
use headroom_objects::kinds::{ApiKind, metadata};
use headroom_output::progress::Progress;
use headroom_output::{LONGEST_TEXT, Page, complain};
use headroom_usage::profile::custom_resource::NAMESPACE;
use headroom_workloads::kinds::{self, POD, POD_KINDS};
use serde::Serialize;
use serde_json::{Value, json};

use super::manifests::{self, ManifestError, ReadOptions};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster options")]
pub struct TargetArgs {
    /// Namespace, also for manifests that set none; commands that list objects accept several, separated by commas, and
    /// patterns such as `team-*`
    #[arg(short, long = "namespace", value_name = "NAMESPACE", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespaces")]
    pub all_namespaces: bool,
    #[command(flatten)]
    pub cluster: Chosen,
    /// Read cluster objects from YAML or JSON files instead of a cluster; with --context or --kubeconfig from both, and a file
    /// overrides the live object of the same name
    #[arg(long, value_name = "PATH")]
    pub cluster_dir: Vec<PathBuf>,
    /// The policy's settings: a settings file, or a ClusterAdmissionPolicy or AdmissionPolicy; by default those of the policies that the cluster has
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// True if the command reads something that only a live cluster has.
    #[arg(skip)]
    pub needs_cluster: bool,
    /// `--offline`, where a command has it.
    #[arg(skip)]
    pub offline: Option<bool>,
    /// The lists that outlive a reading, of a command that reads again.
    #[arg(skip)]
    pub kept: Option<KeptLists>,
}

/// For commands to which manifests can be all that there is.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Cluster options")]
pub struct OfflineFlag {
    /// Do not read a cluster; use only the given manifests and settings
    #[arg(long = "offline", conflicts_with_all = ["context", "kubeconfig", "as_user", "cluster_dir"])]
    pub is_given: bool,
}

/// A client of the cluster, whose API server has answered.
pub async fn connect(cluster: &Chosen) -> Result<ApiClient, String> {
    let config = kubeconfig::config(cluster).await?;
    let server = kubeconfig::server(&config);
    let api = ApiClient::new(proxy::client(config)?);
    api.greet(&server).await?;
    Ok(api)
}

/// Words an error; if the API server forbids the read, with the role to bind.
pub fn advised(error: ReadError, all_namespaces: bool) -> String {
    let ReadError::Forbidden { resource, .. } = &error else { return error.to_string() };
    let advice = match all_namespaces {
        _ if resource == "usageprofiles" => {
            "usage history is in the collector's namespace: bind this account to the Role headroom-pool-reader there"
        }
        _ if resource == "tenantquotas" => {
            "bind this account to the ClusterRole headroom-tenants by a ClusterRoleBinding"
        }
        _ if resource == "configmaps" => "the ClusterRole headroom-config-reader allows it, where the chart creates it",
        true => {
            "-A needs permission to list in all namespaces: bind this account to the ClusterRole headroom-reader by a \
             ClusterRoleBinding, or look at one namespace with -n"
        }
        false => "bind this account to the ClusterRole headroom-reader",
    };
    format!("{error}; {advice}")
}

pub fn find(cluster: &mut Overlay, kind: &ApiKind, name: &str, namespace: &str) -> anyhow::Result<Value> {
    let found = cluster.get((&kind.api_version(), &kind.kind, Some(namespace)), name);
    found
        .map_err(|problem| anyhow!(advised(problem, false)))?
        .ok_or_else(|| anyhow!(not_found(kind, name, namespace, cluster)))
}

const MAX_OFFERED: usize = 5;

/// Says that there is no such object, and what may have been meant: another kind, another name, or another namespace.
fn not_found(kind: &ApiKind, name: &str, namespace: &str, cluster: &mut Overlay) -> String {
    let typed = |kind: &str, name: &str| format!("{}/{name}", kind.to_lowercase());
    let problem = format!("{} \"{name}\" not found in namespace \"{namespace}\"", kind.kind.to_lowercase());
    // Errors of these reads would only distract.
    let namesake = kinds::makers()
        .chain([&POD])
        .filter(|other| other.kind != kind.kind)
        .find(|other| matches!(cluster.get(kinds::list(other, Some(namespace)), name), Ok(Some(_))));
    if let Some(other) = namesake {
        return format!("{problem}; did you mean {}?", typed(other.kind, name));
    }
    let listed = cluster.list((&kind.api_version(), &kind.kind, Some(namespace))).unwrap_or_default();
    let names: Vec<&str> = listed.iter().map(|object| metadata(object, "name")).collect();
    if let Some(meant) = nearest(name, names.iter().copied()) {
        return format!("{problem}; did you mean {}?", typed(&kind.kind, meant));
    }
    let offered: Vec<String> = names.iter().take(MAX_OFFERED).map(|name| typed(&kind.kind, name)).collect();
    let problem = match elsewhere(&Scope::In(vec![namespace.to_owned()]), cluster) {
        Some(advice) => return format!("{problem}: {advice}"),
        None if kind.kind == POD.kind => format!("{problem}; if it was rejected, name its manifest with -f"),
        None => problem,
    };
    let more = if offered.len() < names.len() { ", …" } else { "" };
    if offered.is_empty() { problem } else { format!("{problem}; there is {}{more}", offered.join(", ")) }
}

/// Explains an empty result: the namespace does not exist, or the files have nothing in it. Names those that exist.
pub fn elsewhere(scope: &Scope, cluster: &mut Overlay) -> Option<String> {
    let Scope::In(namespaces) = scope else { return None };
    let known = cluster.namespaces();
    let unknown = namespaces.iter().find(|namespace| !known.is_empty() && !known.contains(*namespace))?;
    if let Some(meant) = nearest(unknown, known.iter().map(String::as_str)) {
        return Some(format!("there is no namespace \"{unknown}\"; did you mean -n {meant}?"));
    }
    let mut found: Vec<&str> = known.iter().map(String::as_str).take(MAX_OFFERED).collect();
    if known.len() > MAX_OFFERED {
        found.push("…");
    }
    Some(format!("there is no namespace \"{unknown}\"; pass -n (found: {})", found.join(", ")))
}

/// Warns about namespaces that do not exist if nothing was found.
pub fn warn_if_elsewhere(scope: &Scope, cluster: &mut Overlay) {
    if let Some(advice) = elsewhere(scope, cluster) {
        complain!("warning: {advice}");
    }
}

/// The namespaces in which objects are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    All,
    /// In the order of their names.
    In(Vec<String>),
}

impl Scope {
    /// The lists to read: one of all namespaces, or one of each.
    pub fn parts(&self) -> Vec<Option<&str>> {
        match self {
            Self::All => vec![None],
            Self::In(namespaces) => namespaces.iter().map(|namespace| Some(namespace.as_str())).collect(),
        }
    }

    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// `namespace shop`
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("the cluster"),
            Self::In(namespaces) => match namespaces.as_slice() {
                [one] => write!(f, "namespace {one}"),
                several => write!(f, "namespaces {}", several.join(", ")),
            },
        }
    }
}

pub struct Opened {
    pub cluster: Overlay,
    /// The context of a live cluster, if it has one.
    pub context: Option<String>,
    /// The namespace of objects that set none.
    pub namespace: String,
    pub scope: Scope,
    /// Valid settings of the policy, for what is recommended; the chart's if none are known.
    pub settings: Value,
    pub admission: Admission,
    /// The objects of files that cannot be read.
    pub unread: Vec<String>,
}

/// The output formats of commands that answer for single objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ObjectFormat {
    Text,
    Json,
    Yaml,
}

/// An output with the admission that it is about.
#[derive(Serialize)]
pub struct About<'a, T> {
    pub admission: &'a Description,
    #[serde(flatten)]
    pub output: T,
}

/// Adds the line that says which admission an output is about.
pub fn add_admission(page: &mut Page, admission: &Description) {
    writeln!(page, "admission: {admission}");
}

/// No name of a namespace has an asterisk.
fn is_pattern(namespace: &str) -> bool {
    namespace.contains('*')
}

/// The namespaces with these names, or that these patterns match, in order.
fn matching(names: &[String], cluster: &mut Overlay) -> anyhow::Result<Vec<String>> {
    cluster.list(("v1", "Namespace", None)).map_err(|problem| anyhow!(advised(problem, true)))?;
    let known = cluster.namespaces();
    let mut found = BTreeSet::new();
    for name in names {
        let before = found.len();
        match is_pattern(name) {
            true => found.extend(known.iter().filter(|known| glob::matches(name, known)).cloned()),
            false => found.extend([name.clone()]),
        }
        if found.len() == before && is_pattern(name) {
            bail!("no namespace matches `{name}`, where `*` stands for any characters");
        }
    }
    Ok(found.into_iter().collect())
}

impl TargetArgs {
    /// Connects to the cluster and reads files and settings.
    pub fn open(&self) -> anyhow::Result<Opened> {
        let opened = self.opened(true)?;
        match opened.unread.first() {
            Some(problem) => bail!("{problem}"),
            None => Ok(opened),
        }
    }

    /// The same without the objects of files that cannot be read, for whoever names them: nothing is admitted by what is left.
    pub fn open_partly(&self) -> anyhow::Result<Opened> {
        self.opened(true)
    }

    /// Reports wrong arguments, without asking the cluster.
    pub fn check(&self) -> anyhow::Result<()> {
        self.opened(false).map(|_| ())
    }

    fn opened(&self, greets: bool) -> anyhow::Result<Opened> {
        let given = self.settings.as_deref().map(read_settings).transpose()?;
        let mut cluster = if self.wants_cluster() { Some(self.connect()?) } else { None };
        if let (Some((cluster, _)), true) = (&mut cluster, greets) {
            cluster.greet().map_err(|problem| anyhow!(problem))?;
        }
        let of_cluster = cluster.as_ref().map(|(_, namespace)| namespace.clone());
        let named = self.namespaces.iter().find(|name| !is_pattern(name)).cloned();
        let namespace = named.or(of_cluster).unwrap_or_else(|| "default".to_owned());
        let (mut files, mut unread) = (Vec::new(), Vec::new());
        for read in ReadOptions::cluster_dir().read_all(&self.cluster_dir, &mut std::io::stdin()) {
            match read {
                Err(ManifestError::Malformed(malformed)) => unread.push(malformed.to_string()),
                read => files.push(read?),
            }
        }
        let top = Folder::of(files, &namespace)?;
        let bottom = cluster.map(|(cluster, _)| -> Box<dyn ClusterReader> {
            if self.all_namespaces { Box::new(ListAllNamespaces::new(cluster)) } else { Box::new(cluster) }
        });
        let mut cluster = Overlay::new(top, bottom);
        let scope = match self.namespaces.as_slice() {
            _ if self.all_namespaces => Scope::All,
            [] => Scope::In(vec![namespace.clone()]),
            names if greets && names.iter().any(|name| is_pattern(name)) => Scope::In(matching(names, &mut cluster)?),
            several => Scope::In(several.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()),
        };
        let admission = match &given {
            Some(settings) => Admission::of_settings(settings),
            None if greets => self.admission_of(&mut cluster, &scope),
            None => Admission::assumed(),
        };
        let settings = given.or_else(|| admission.settings().cloned());
        // The chart gives these to the policy if nothing is chosen: with the history of the collector that it installs.
        let settings = settings.unwrap_or_else(|| json!({"estimates": {"namespace": NAMESPACE}}));
        let context = self.wants_cluster().then(|| self.cluster.context_name()).flatten();
        Ok(Opened { cluster, context, namespace, scope, settings, admission, unread })
    }

    /// The admission that follows from the policies of the cluster or of its files.
    pub fn admission_of(&self, cluster: &mut Overlay, scope: &Scope) -> Admission {
        match self.wants_cluster() {
            true => Admission::read(cluster, PolicySource::Cluster, &scope.parts()),
            false if self.is_offline() => Admission::assumed(),
            false => Admission::read(cluster, PolicySource::Files, &[None]),
        }
    }

    /// The ends by which commands ask the same cluster, or the same files.
    pub fn suffixes(&self) -> Suffixes {
        // Beside files, a context would mean the live cluster.
        let kubectl = if self.wants_cluster() { self.cluster.as_words() } else { ShellCommand::default() };
        let paths = |name: &str, path: &Path| [name.to_owned(), path.display().to_string()];
        let folders = self.cluster_dir.iter().flat_map(|path| paths("--cluster-dir", path));
        let settings = self.settings.iter().flat_map(|path| paths("--settings", path));
        let offline = self.is_offline().then_some("--offline");
        let headroom = kubectl.clone().words(folders.chain(settings)).words(offline);
        Suffixes { kubectl, headroom }
    }

    /// Fails unless one namespace at most is given.
    pub fn check_single(&self) -> anyhow::Result<()> {
        match self.namespaces.as_slice() {
            [_, _, ..] => bail!("several namespaces are not supported here; give one with -n"),
            [pattern] if is_pattern(pattern) => {
                bail!("a pattern such as `{pattern}` is not supported here; give one namespace with -n")
            }
            _ => Ok(()),
        }
    }

    fn is_offline(&self) -> bool {
        self.offline == Some(true)
    }

    /// True if a live cluster is read.
    pub fn wants_cluster(&self) -> bool {
        let is_named = self.cluster.context.is_some() || self.cluster.kubeconfig.is_some();
        !self.is_offline() && (self.cluster_dir.is_empty() || is_named)
    }

    fn connect(&self) -> anyhow::Result<(LiveCluster, String)> {
        let connected = LiveCluster::connect(&self.cluster);
        let connected = connected.map(|(cluster, namespace)| (cluster.with_kept(self.kept.clone()), namespace));
        connected.map_err(|problem| {
            let is_named = self.cluster.context.is_some() || self.cluster.kubeconfig.is_some();
            let advice = match () {
                () if is_named || self.needs_cluster => "",
                () if self.offline.is_none() => ", or pass --cluster-dir to use files",
                () => ", pass --cluster-dir to use files, or --offline to use the policy's settings only",
            };
            anyhow!("{problem}{advice}")
        })
    }
}

impl Opened {
    /// Reads kinds ahead that will be listed, several at a time.
    pub fn prefetch(&mut self, kinds: &[(&str, &str)], progress: &Progress) {
        let of = |part| kinds.iter().map(move |(api_version, kind)| (*api_version, *kind, part));
        let lists: Vec<List<'_>> = self.scope.parts().into_iter().flat_map(of).collect();
        progress.begin(lists.len() as u64, "Reading");
        self.cluster.prefetch(&lists, &mut || progress.advance(1));
        progress.end();
    }

    /// Runs something on the cluster and its admission, which are handed back.
    pub fn on_run<T>(&mut self, act: impl FnOnce(&mut Run) -> T) -> T {
        let cluster = std::mem::replace(&mut self.cluster, Overlay::new(Folder::default(), None));
        let admission = std::mem::replace(&mut self.admission, Admission::assumed());
        let mut run = Run::new(cluster, admission, &self.namespace);
        let found = act(&mut run);
        (self.cluster, self.admission) = (run.cluster, run.admission);
        found
    }

    pub fn into_run(self) -> Run {
        Run::new(self.cluster, self.admission, &self.namespace)
    }
}

/// The namespace in which the policy reads usage history.
pub fn profiles_namespace(settings: &Value) -> String {
    let named = settings.pointer("/estimates/namespace").and_then(Value::as_str);
    named.unwrap_or(NAMESPACE).to_owned()
}

/// Reads settings from a file of their own, or from the policy object that has them.
pub fn read_settings(path: &Path) -> anyhow::Result<Value> {
    let text = headroom_output::read_bounded(path, LONGEST_TEXT)
        .map_err(|cause| anyhow!("cannot read the settings: {}", manifests::unreadable(path, &cause)))?;
    let settings = settings::in_text(path, &text).map_err(|problem| anyhow!(problem))?;
    settings::check(&settings).map_err(|problem| anyhow!("`{}`: {problem}", path.display()))?;
    Ok(settings)
}

/// Objects as kubectl takes them: each as `deployment/web`, or a kind and then names, `deployment web api`.
pub fn one_by_one(typed: &[String], is_kind: impl Fn(&str) -> bool) -> Vec<String> {
    match typed {
        [kind, names @ ..] if !names.is_empty() && typed.iter().all(|word| !word.contains('/')) && is_kind(kind) => {
            names.iter().map(|name| format!("{kind}/{name}")).collect()
        }
        typed => typed.to_vec(),
    }
}

pub fn is_kind(word: &str) -> bool {
    kind_of(word).is_some()
}

/// The kinds that can be named beside those with pods, by the words for each.
const OTHERS: [(&str, &str, &[&str]); 3] = [
    ("v1", "PersistentVolumeClaim", &["persistentvolumeclaim", "persistentvolumeclaims", "pvc"]),
    ("v1", "Service", &["service", "services", "svc"]),
    ("argoproj.io/v1alpha1", "Rollout", &["rollout", "rollouts", "ro"]),
];

/// API version and kind for a word, which may have a group behind it.
fn kind_of(word: &str) -> Option<(&'static str, &'static str)> {
    let word = word.split('.').next().unwrap_or_default().to_lowercase();
    let of_pods = kinds::named_by(&word).map(|kind| (kind.api_version, kind.kind));
    of_pods.or_else(|| {
        let (api_version, kind, _) = OTHERS.iter().find(|(_, _, words)| words.contains(&word.as_str()))?;
        Some((*api_version, *kind))
    })
}

/// Parses an object as kubectl names it: `pod/db-0`, `deployment/web`, or a pod's bare name.
pub fn named(text: &str) -> anyhow::Result<(ApiKind, String)> {
    if [".yaml", ".yml", ".json"].iter().any(|ending| text.ends_with(ending)) {
        bail!("`{text}` is the name of a file: pass it with -f");
    }
    let (typed, name) = text.split_once('/').unwrap_or(("pod", text));
    let Some((api_version, kind)) = kind_of(typed) else {
        let names = POD_KINDS.iter().map(|kind| kind.kind).chain(OTHERS.iter().map(|(_, kind, _)| *kind));
        // Almost any word is near to `job` and `pod`.
        let names: Vec<String> = names.map(str::to_lowercase).filter(|name| name.len() > 3).collect();
        match nearest(&typed.to_lowercase(), names.iter().map(String::as_str)) {
            Some(meant) => bail!("`{typed}` is not a supported kind; did you mean {meant}/{name}?"),
            None => bail!("`{typed}` is not a supported kind: expected for example `pod/db-0` or `deployment/web`"),
        }
    };
    if name.is_empty() {
        bail!("`{text}` names no object: expected for example `pod/db-0` or `deployment/web`");
    }
    Ok((ApiKind::new(api_version, kind), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_may_stand_before_its_names() {
        let check = |typed: &[&str], expected: &[&str]| {
            let typed: Vec<String> = typed.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(one_by_one(&typed, is_kind), expected);
        };
        check(&["deployment", "web", "api"], &["deployment/web", "deployment/api"]);
        check(&["sts", "db"], &["sts/db"]);
        check(&["deployment/web", "pod/db-0"], &["deployment/web", "pod/db-0"]);
        check(&["db-0", "db-1"], &["db-0", "db-1"]);
        check(&["deployment"], &["deployment"]);
        check(&[], &[]);
    }

    #[test]
    fn a_refusal_to_read_config_maps_names_the_role_of_their_own() {
        let refused = ReadError::Forbidden { resource: "configmaps".to_owned(), problem: "forbidden".to_owned() };
        assert!(advised(refused, true).contains("; the ClusterRole headroom-config-reader allows it"));
    }
}
