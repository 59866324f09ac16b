//! `kubectl headroom describe`: reads objects and prints the reports of `crate::describe`.

use headroom_core::cluster::label_selector::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use clap::{Subcommand, ValueEnum};
use headroom_core::cluster::resource_quota::ResourceQuota;
use headroom_core::json::{Document, Malformed};
use headroom_core::quota::Kind;
use headroom_core::quota::charged_names::{RESOURCE_CLAIMS, kinds_charged_under};
use headroom_core::quota::stored::Stored;
use headroom_core::timestamp::Timestamp;
use headroom_dryrun::evaluate::with_decision;
use headroom_dryrun::settings::ParsedSettings;
use headroom_kube::api_client::{ApiClient, ApiError, ListOptions, value};
use headroom_kube::kubeconfig::{self, Chosen};
use headroom_kube::{ApiPath, clock, proxy};
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::document;
use headroom_objects::kinds::{ApiKind, labels_of, metadata};
use headroom_report::draw::Charset;
use headroom_report::progress::Progress;
use headroom_report::{Exit, Page, Paint};
use headroom_tenant_quota::cache::Stored as Counted;
use headroom_tenant_quota::devices::{DEVICE_CLASSES, Link};
use headroom_tenant_quota::{Cache, Footprint, Key};
use headroom_workloads::WorkloadRef;
use serde::Serialize;
use serde_json::Value;

use super::cluster_args::{Opened, Scope, Target, warn_if_elsewhere};
use super::rbac_hint;
use crate::describe::limits::{self, Limits};
use crate::describe::not_there;
use crate::describe::quotas::{Inventory, Owned, Quotas};
use crate::describe::resizes::{COMPONENT, Resizes};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Effective limits from LimitRanges and the policy's rules: defaults and bounds for a container
    #[command(visible_aliases = ["limitrange", "limitranges"], after_help = LIMITS_EXAMPLES)]
    Limits(LimitsArgs),
    /// Quota usage, top consumers, and whether the quota's status is accurate
    #[command(visible_aliases = ["quotas", "resourcequota", "resourcequotas"], after_help = QUOTA_EXAMPLES)]
    Quota(QuotaArgs),
    /// Available amounts of TenantQuotas and their ancestors, and top consumers
    #[command(name = "tenantquota", visible_aliases = ["tenantquotas", "tq"], after_help = TENANT_QUOTA_EXAMPLES)]
    TenantQuota(TenantQuotaArgs),
    /// Resizes of running pods: under way, taken back, left alone, and what would be done
    #[command(visible_alias = "resize", after_help = RESIZES_EXAMPLES)]
    Resizes(ResizesArgs),
}

const LIMITS_EXAMPLES: &str = "Examples:
  # Defaults and bounds for a container in this namespace
  kubectl headroom describe limits

  # The same with estimates for an image, with the settings of your policy
  kubectl headroom describe limits -n shop --image nginx:1.27 --settings policy.yaml

  # From files instead of a cluster
  kubectl headroom describe limits --cluster-dir manifests/";

const RESIZES_EXAMPLES: &str = "Examples:
  # In this namespace
  kubectl headroom describe resizes

  # In the whole cluster
  kubectl headroom describe resizes -A";

const QUOTA_EXAMPLES: &str = "Examples:
  # Available amounts and top consumers in this namespace
  kubectl headroom describe quota

  # One quota of another namespace, as JSON
  kubectl headroom describe quota team -n shop -o json

  # All quotas of the cluster
  kubectl headroom describe quota -A";

const TENANT_QUOTA_EXAMPLES: &str = "Examples:
  # One quota, and the ancestor with the least available
  kubectl headroom describe tenantquota payments

  # All quotas, each below its parent
  kubectl headroom describe tenantquota --tree";

#[derive(Debug, clap::Args)]
struct LimitsArgs {
    /// Show this LimitRange only; the combined limits are always shown
    name: Option<String>,
    /// The image that the container has, for estimates and for rules that choose by image
    #[arg(long, value_name = "IMAGE", default_value = "")]
    image: String,
    /// The name that the container has, for rules that choose by it
    #[arg(long, value_name = "NAME", default_value = "any")]
    container: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct QuotaArgs {
    /// Show this quota only
    name: Option<String>,
    /// Only quotas with these labels, such as `team=a,tier!=free`
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "name")]
    selector: Option<LabelSelector<'static>>,
    /// Number of top consumers to show for each resource
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    top: usize,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct TenantQuotaArgs {
    /// Show this quota only
    name: Option<String>,
    /// Only quotas with these labels, such as `team=a,tier!=free`
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "name")]
    selector: Option<LabelSelector<'static>>,
    /// Show all quotas as a tree, one per line
    #[arg(long, conflicts_with_all = ["name", "selector"])]
    tree: bool,
    /// Number of top consumers to show for each resource, at most 10
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    top: usize,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct ResizesArgs {
    /// Namespace of the workloads
    #[arg(short, long)]
    namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    records: Records,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: Chosen,
}

/// The place of what `headroom-controller resize` stores.
#[derive(Debug, Clone, clap::Args)]
pub struct Records {
    /// Namespace of the records, where the controller runs
    #[arg(long, value_name = "NAMESPACE", default_value = "headroom", env = "HEADROOM_NAMESPACE")]
    records: String,
}

#[derive(Debug, clap::Args)]
struct Output {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    match args.what {
        What::Limits(args) => describe_limits(args),
        What::Quota(args) => describe_quota(args),
        What::TenantQuota(args) => describe_tenant_quota(args),
        What::Resizes(args) => describe_resizes(args),
    }
}

fn describe_resizes(args: ResizesArgs) -> anyhow::Result<Exit> {
    let found = args.records.read(&args.cluster, |own| {
        (!args.all_namespaces).then(|| vec![args.namespace.clone().unwrap_or_else(|| own.to_owned())])
    })?;
    headroom_report::print(&match args.output.output {
        Format::Table => found.page(),
        Format::Json => Page::json(&found)?,
        Format::Yaml => Page::yaml(&found)?,
    })?;
    Ok(Exit::Ok)
}

impl Records {
    /// Reads what is known about resizes in the namespaces that are chosen by the context's own; None is all of them.
    pub fn read(
        &self,
        cluster: &Chosen,
        namespaces: impl FnOnce(&str) -> Option<Vec<String>>,
    ) -> anyhow::Result<Resizes> {
        tokio::runtime::Runtime::new()?.block_on(async {
            let config = kubeconfig::config(cluster).await.map_err(|problem| anyhow!(problem))?;
            let namespaces = namespaces(&config.default_namespace);
            let api = ApiClient::new(proxy::client(config).map_err(|problem| anyhow!(problem))?);
            let unread = |error: ApiError| anyhow!("cannot list the records in namespace {}: {error}", self.records);
            let mut records = headroom_resizer::records(&api, &self.records).await.map_err(unread)?;
            let within = |workload: &str, of: &String| workload.split('/').next() == Some(of);
            records
                .retain(|workload, _| namespaces.as_ref().is_none_or(|all| all.iter().any(|of| within(workload, of))));
            let selector = format!("reportingComponent={COMPONENT}");
            let options = ListOptions { field_selector: &selector, most: 5_000, ..ListOptions::WHOLE };
            let mut events = Vec::new();
            for namespace in namespaces.map_or_else(|| vec![None], |all| all.into_iter().map(Some).collect()) {
                let path = ApiPath::of_version("v1").collection(namespace.as_deref(), "events");
                // Without Events, only the records are known.
                events.extend(api.list(&path, options, value).await.map(|(_, found)| found).unwrap_or_default());
            }
            Ok(Resizes::new(&records, &events, clock::now()))
        })
    }
}

fn describe_tenant_quota(args: TenantQuotaArgs) -> anyhow::Result<Exit> {
    let mut opened = args.target.open()?;
    let listed = opened.cluster.list(("headroom.dev/v1alpha1", "TenantQuota", None));
    let mut objects = listed.map_err(|problem| anyhow!(rbac_hint::advised(problem, true)))?;
    let is_wanted = |object: &Value| {
        args.name.as_ref().is_none_or(|name| metadata(object, "name") == name)
            && args.selector.as_ref().is_none_or(|selector| selector.matches(&labels_of(object)))
    };
    let wanted: BTreeSet<String> =
        objects.iter().filter(|object| is_wanted(object)).map(|object| metadata(object, "name").to_owned()).collect();
    if let (Some(name), true) = (&args.name, wanted.is_empty()) {
        bail!("there is no TenantQuota {name}");
    }
    // Descriptions need the other quotas as ancestors and children.
    if args.output.output != Format::Table {
        objects.retain(is_wanted);
    }
    match args.output.output {
        Format::Json => headroom_report::print(&Page::json(&Items { items: &objects })?)?,
        Format::Yaml => headroom_report::print(&Page::yaml(&Items { items: &objects })?)?,
        Format::Table => {
            let quotas = crate::describe::tenant_quotas::Quotas::read(objects).map_err(|problem| anyhow!(problem))?;
            let pages: Vec<Page> = quotas
                .names()
                .filter(|name| wanted.contains(*name))
                .filter_map(|name| quotas.describe(name, args.top, Charset::of_stdout()))
                .collect();
            headroom_report::print(&match args.tree {
                true => quotas.tree(),
                false => one_by_one(pages, "There are no TenantQuotas."),
            })?;
        }
    }
    Ok(Exit::Ok)
}

fn describe_limits(args: LimitsArgs) -> anyhow::Result<Exit> {
    let mut opened = args.target.open()?;
    let mut found: Vec<Limits> = Vec::new();
    let ranges = list(&mut opened, "v1", "LimitRange")?;
    if ranges.is_empty() {
        warn_if_elsewhere(&opened.scope, &mut opened.cluster);
    }
    for namespace in namespaces(&ranges, &opened) {
        let request = limits::empty_pod(&namespace, &args.container, &args.image);
        let (settings, _) = opened.admission.settings_for(&request, &mut opened.cluster);
        let limits = with_decision(&request, settings, &mut opened.cluster, |request, decision, context, settings| {
            let mut limits = limits::limits(request, decision, context, settings)?;
            let missing = context.missing.iter().map(|missing| format!("not taken into account: {}", missing.problem));
            limits.notes.extend(missing);
            Ok(limits)
        });
        let mut limits = limits.map_err(|problem| anyhow!(problem))?;
        if let Some(name) = &args.name {
            limits.show_only(name).map_err(|problem| anyhow!(problem))?;
        }
        found.push(limits);
    }
    print(&found, args.output.output, "No LimitRanges.", Limits::page)
}

fn describe_quota(args: QuotaArgs) -> anyhow::Result<Exit> {
    let mut opened = args.target.open()?;
    let mut quotas = list(&mut opened, "v1", "ResourceQuota")?;
    if quotas.is_empty() {
        warn_if_elsewhere(&opened.scope, &mut opened.cluster);
    }
    if let Some(selector) = &args.selector {
        quotas.retain(|quota| selector.matches(&labels_of(quota)));
    }
    let mut found = Vec::new();
    let (counted, _) = kinds_of(&quotas.iter().collect::<Vec<_>>());
    let counted = counted.into_values().filter(|kind| kind.is_namespaced);
    let counted: Vec<(String, String)> = counted.map(|kind| (kind.api_version(), kind.kind)).collect();
    let counted: Vec<(&str, &str)> = counted.iter().map(|(version, kind)| (version.as_str(), kind.as_str())).collect();
    opened.prefetch(&counted, &Progress::for_people());
    for namespace in namespaces(&quotas, &opened) {
        let is_wanted = |quota: &&Value| {
            metadata(quota, "namespace") == namespace
                && args.name.as_ref().is_none_or(|name| metadata(quota, "name") == name)
        };
        let wanted: Vec<&Value> = quotas.iter().filter(is_wanted).collect();
        if let (Some(name), true) = (&args.name, wanted.is_empty()) {
            // Somewhere else there may be one of the name.
            if opened.scope.parts() != [Some(namespace.as_str())] {
                continue;
            }
            let all = quotas.iter().filter(|quota| metadata(quota, "namespace") == namespace);
            bail!(not_there("ResourceQuota", name, &namespace, all.map(|quota| metadata(quota, "name"))));
        }
        let options =
            QuotaOptions { namespace: &namespace, top: args.top, now: ParsedSettings::of(&opened.settings).now() };
        found.push(quotas_of(&options, &wanted, &mut opened.cluster).map_err(|problem| anyhow!(problem))?);
    }
    let (charset, paint) = (Charset::of_stdout(), Paint::for_stdout());
    print(&found, args.output.output, "No ResourceQuotas.", |quotas| quotas.page(charset, paint))
}

/// The options of a description of quotas.
struct QuotaOptions<'a> {
    namespace: &'a str,
    /// The number of consumers to list for each resource.
    top: usize,
    now: Option<Timestamp>,
}

/// The kinds that are charged to quotas or decide what is charged, pods among them in any case, and names under which
/// nothing can be counted.
fn kinds_of<'q>(quotas: &[&'q Value]) -> (BTreeMap<String, ApiKind>, BTreeSet<&'q str>) {
    let mut kinds: BTreeMap<String, ApiKind> = BTreeMap::new();
    let mut add = |qualified: &str| match ApiKind::counted(qualified) {
        // Their contents would have to be read to count them.
        Some(kind) if kind.kind != "Secret" => _ = kinds.insert(qualified.to_owned(), kind),
        _ => {}
    };
    add("pods");
    let names = quotas.iter().filter_map(|quota| quota.pointer("/spec/hard")?.as_object()).flat_map(|hard| hard.keys());
    let names: BTreeSet<&'q str> = names.map(String::as_str).collect();
    names.iter().flat_map(|name| kinds_charged_under(name)).for_each(&mut add);
    if names.iter().any(|name| kinds_charged_under(name).any(|kind| kind == RESOURCE_CLAIMS)) {
        add(DEVICE_CLASSES);
    }
    let is_counted = |name: &&str| kinds_charged_under(name).next().is_some_and(|kind| kinds.contains_key(kind));
    let uncounted = names.into_iter().filter(|name| !is_counted(name)).collect();
    (kinds, uncounted)
}

/// The quotas of a namespace with what is charged to them.
fn quotas_of(options: &QuotaOptions<'_>, quotas: &[&Value], around: &mut dyn ClusterReader) -> Result<Quotas, String> {
    let mut notes = Vec::new();
    let (kinds, uncounted) = kinds_of(quotas);
    if !uncounted.is_empty() {
        let names: Vec<&str> = uncounted.into_iter().collect();
        notes.push(format!("not recounted: {}", names.join(", ")));
    }
    let mut cache = Cache::default();
    let mut objects = Vec::new();
    for (qualified, kind) in kinds {
        match around.list((&kind.api_version(), &kind.kind, kind.is_namespaced.then_some(options.namespace))) {
            Ok(listed) => {
                cache.advance(&qualified, 1);
                objects.extend(listed.into_iter().map(|object| (qualified.clone(), object)));
            }
            // Before Kubernetes 1.34 devices are charged for pods alone.
            Err(problem) if problem.is_unknown_kind() && is_of_devices(&qualified) => cache.advance(&qualified, 1),
            Err(problem) => notes.push(format!("{qualified} are not recounted: {problem}")),
        }
    }
    let mut found = read_quotas(options, quotas, &objects, cache).map_err(|malformed| malformed.to_string())?;
    found.notes = notes;
    Ok(found)
}

fn is_of_devices(kind: &str) -> bool {
    matches!(kind, RESOURCE_CLAIMS | DEVICE_CLASSES)
}

fn read_quotas(
    options: &QuotaOptions<'_>,
    quotas: &[&Value],
    objects: &[(String, Value)],
    mut cache: Cache,
) -> Result<Quotas, Malformed> {
    let quota_documents = quotas.iter().map(|quota| read(quota)).collect::<Result<Vec<_>, _>>()?;
    let mut quotas =
        quota_documents.iter().map(|document| ResourceQuota::read(document.root())).collect::<Result<Vec<_>, _>>()?;
    quotas.sort_by(|one, other| one.name.cmp(&other.name));
    let documents = objects.iter().map(|(_, object)| read(object)).collect::<Result<Vec<_>, _>>()?;
    let mut read_objects = Vec::new();
    for ((kind, object), document) in objects.iter().zip(&documents) {
        let key = Key::new(kind, options.namespace, metadata(object, "name"));
        let footprint = Footprint::of_stored(kind, document.root(), options.now)?.into();
        let link = Link::read(kind, document.root())?.map(Box::new);
        let uid = metadata(object, "uid").to_owned();
        cache.put(key.clone(), Counted { uid, version: 1, footprint, ends: None, link });
        if kind != DEVICE_CLASSES {
            let stored = Stored::read(Kind::from_qualified(kind), document.root())?;
            read_objects.push((key, owner_of(object), stored));
        }
    }
    let owned = read_objects.iter().map(|(key, owner, stored)| Owned {
        owner: owner.clone(),
        object: stored.object(),
        footprint: cache.counted_of(key, &[]).unwrap_or_default(),
    });
    let owned: Vec<Owned<'_, '_>> = owned.collect();
    let inventory = Inventory {
        namespace: options.namespace,
        quotas: &quotas,
        objects: &owned,
        cache: &cache,
        now: options.now,
        max_consumers: options.top,
    };
    Ok(inventory.quotas())
}

fn read(object: &Value) -> Result<Document<'static>, Malformed> {
    document(object).map_err(|problem| Malformed { path: "object".to_owned(), problem })
}

/// The workload that owns an object: `deployment/web` for the pods of its ReplicaSets.
fn owner_of(object: &Value) -> String {
    let owner = WorkloadRef::owner_of(object).unwrap_or_else(|| WorkloadRef::of(object));
    owner.deployment_of(object).unwrap_or(owner).to_string()
}

/// All objects of a kind where the target looks; refused with advice on rights.
fn list(opened: &mut Opened, api_version: &str, kind: &str) -> anyhow::Result<Vec<Value>> {
    let listed = opened.scope.list(&mut opened.cluster, api_version, kind);
    listed.map_err(|problem| anyhow!(rbac_hint::advised(problem, opened.scope.is_all())))
}

/// The namespaces to describe: those given, or all that have such objects.
fn namespaces(objects: &[Value], opened: &Opened) -> Vec<String> {
    match &opened.scope {
        Scope::In(namespaces) => namespaces.clone(),
        Scope::All => {
            let namespaces: BTreeSet<&str> = objects.iter().map(|object| metadata(object, "namespace")).collect();
            namespaces.into_iter().map(str::to_owned).collect()
        }
    }
}

#[derive(Serialize)]
struct Items<'t, T> {
    items: &'t [T],
}

fn print<T: Serialize>(found: &[T], format: Format, nothing: &str, page: impl Fn(&T) -> Page) -> anyhow::Result<Exit> {
    headroom_report::print(&match format {
        Format::Table => one_by_one(found.iter().map(page).collect(), nothing),
        Format::Json => Page::json(&Items { items: found })?,
        Format::Yaml => Page::yaml(&Items { items: found })?,
    })?;
    Ok(Exit::Ok)
}

/// Pages below each other, or what to say where there are none.
fn one_by_one(pages: Vec<Page>, nothing: &str) -> Page {
    let mut all = Page::new();
    for page in pages {
        all.gap();
        all.append(page);
    }
    if all.is_empty() {
        writeln!(all, "{nothing}");
    }
    all
}
