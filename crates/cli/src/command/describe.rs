//! `kubectl headroom describe`: reads objects and prints the reports of `crate::describe`.

use headroom_admission::cluster::label_selector::LabelSelector;
use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use clap::{Subcommand, ValueEnum};
use headroom_dry_run::evaluate::with_decision;
use headroom_dry_run::overlay::tenants::TENANT_QUOTA;
use headroom_dry_run::settings::ParsedSettings;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{labels_of, metadata};
use headroom_output::draw::Charset;
use headroom_output::progress::Progress;
use headroom_output::{Exit, Page, Paint};
use serde::Serialize;
use serde_json::Value;

use super::cluster_args::{Opened, Scope, TargetArgs, advised, warn_if_elsewhere};
use crate::describe::limits::{self, NamespaceLimits};
use crate::describe::quotas::{kinds_of, quotas_of};
use crate::describe::{not_there, tenant_quotas};

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
    /// Usage and top consumers of ResourceQuotas, whether their status is accurate, and the TenantQuotas above them
    #[command(visible_aliases = ["quotas", "resourcequota", "resourcequotas"], after_help = QUOTA_EXAMPLES)]
    Quota(QuotaArgs),
}

const LIMITS_EXAMPLES: &str = "Examples:
  # Defaults and bounds for a container in this namespace
  kubectl headroom describe limits

  # With the settings of your policy
  kubectl headroom describe limits -n shop --settings policy.yaml

  # From files instead of a cluster
  kubectl headroom describe limits --cluster-dir manifests/";

const QUOTA_EXAMPLES: &str = "Examples:
  # Available amounts and top consumers in this namespace
  kubectl headroom describe quota

  # One quota of another namespace, as JSON
  kubectl headroom describe quota team -n shop -o json

  # All quotas of the cluster
  kubectl headroom describe quota -A";

#[derive(Debug, clap::Args)]
struct LimitsArgs {
    /// Show this LimitRange only; the combined limits are always shown
    name: Option<String>,
    #[command(flatten)]
    output: DescribeOutput,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, clap::Args)]
struct QuotaArgs {
    /// Show this quota only
    name: Option<String>,
    /// Only quotas with these labels, such as `team=a,tier!=free`
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "name")]
    selector: Option<LabelSelector<'static>>,
    #[command(flatten)]
    output: DescribeOutput,
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, clap::Args)]
pub struct DescribeOutput {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DescribeFormat::Table)]
    output: DescribeFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DescribeFormat {
    Table,
    Json,
    Yaml,
}

impl DescribeOutput {
    pub fn print(&self, found: &impl Serialize, table: impl FnOnce() -> anyhow::Result<Page>) -> anyhow::Result<Exit> {
        headroom_output::print(&match self.output {
            DescribeFormat::Table => table()?,
            DescribeFormat::Json => Page::json(found)?,
            DescribeFormat::Yaml => Page::yaml(found)?,
        })?;
        Ok(Exit::Ok)
    }
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    match args.what {
        What::Limits(args) => describe_limits(args),
        What::Quota(args) => describe_quota(args),
    }
}

fn describe_limits(args: LimitsArgs) -> anyhow::Result<Exit> {
    let mut opened = args.target.open()?;
    let mut found: Vec<NamespaceLimits> = Vec::new();
    let ranges = list(&mut opened, "v1", "LimitRange")?;
    if ranges.is_empty() {
        warn_if_elsewhere(&opened.scope, &mut opened.cluster);
    }
    for namespace in namespaces(&ranges, &opened) {
        let request = limits::empty_pod(&namespace);
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
    args.output.print(&Items { items: &found, tenant_quotas: Vec::new() }, || {
        Ok(one_by_one(found.iter().map(NamespaceLimits::page).collect(), "No LimitRanges."))
    })
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
    let tenants = DescribedTenants::read(&args, &mut opened)?;
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
            if opened.scope.parts() != [Some(namespace.as_str())] || !tenants.wanted.is_empty() {
                continue;
            }
            let all = quotas.iter().filter(|quota| metadata(quota, "namespace") == namespace);
            bail!(not_there("ResourceQuota", name, &namespace, all.map(|quota| metadata(quota, "name"))));
        }
        let now = ParsedSettings::of(&opened.settings).now();
        let described = quotas_of(&namespace, now, &wanted, &mut opened.cluster);
        found.push(described.map_err(|malformed| anyhow!("{malformed}"))?);
    }
    let (charset, paint) = (Charset::of_stdout(), Paint::for_stdout());
    args.output.print(&Items { items: &found, tenant_quotas: tenants.objects() }, || {
        let mut pages: Vec<Page> = found.iter().map(|quotas| quotas.page(charset, paint)).collect();
        pages.extend(tenants.pages(charset)?);
        Ok(one_by_one(pages, "No quotas."))
    })
}

/// All TenantQuotas, because each is described with its ancestors and children, and which to describe.
#[derive(Default)]
struct DescribedTenants {
    all: Vec<Value>,
    wanted: BTreeSet<String>,
    /// Set if they could not be read.
    note: Option<String>,
}

impl DescribedTenants {
    /// Those of the name, or those to which the namespaces are charged.
    fn read(args: &QuotaArgs, opened: &mut Opened) -> anyhow::Result<Self> {
        let all = match opened.cluster.list((TENANT_QUOTA.0, TENANT_QUOTA.1, None)) {
            Ok(all) => all,
            Err(problem) if problem.is_unknown_kind() => Vec::new(),
            // Who may read quotas need not be allowed to see other tenants.
            Err(problem) => return Ok(Self { note: Some(problem.to_string()), ..Self::default() }),
        };
        let mut charged = BTreeSet::new();
        if let (Scope::In(namespaces), false) = (&opened.scope, all.is_empty()) {
            for namespace in namespaces {
                let plans = opened.cluster.tenant_plans(namespace).map_err(|problem| anyhow!(problem))?;
                charged.extend(plans.iter().flat_map(|plan| &plan.nodes).map(|node| node.quota.clone()));
            }
        }
        let is_wanted = |object: &&Value| match (&args.name, &args.selector) {
            (Some(name), _) => metadata(object, "name") == name,
            (None, selector) => {
                (opened.scope.is_all() || charged.contains(metadata(object, "name")))
                    && selector.as_ref().is_none_or(|selector| selector.matches(&labels_of(object)))
            }
        };
        let wanted = all.iter().filter(is_wanted).map(|object| metadata(object, "name").to_owned()).collect();
        Ok(Self { all, wanted, note: None })
    }

    /// The objects to describe, as they are stored.
    fn objects(&self) -> Vec<&Value> {
        self.all.iter().filter(|object| self.wanted.contains(metadata(object, "name"))).collect()
    }

    fn pages(&self, charset: Charset) -> anyhow::Result<Vec<Page>> {
        let all = tenant_quotas::DescribedTenantQuotas::read(&self.all).map_err(|problem| anyhow!(problem))?;
        let mut pages: Vec<Page> = self.wanted.iter().filter_map(|name| all.describe(name, charset)).collect();
        if let Some(problem) = &self.note {
            let mut page = Page::new();
            writeln!(page, "Note: TenantQuotas are not described: {problem}");
            pages.push(page);
        }
        Ok(pages)
    }
}

/// All objects of a kind where the target looks; refused with advice on rights.
fn list(opened: &mut Opened, api_version: &str, kind: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for namespace in opened.scope.parts() {
        let listed = opened.cluster.list((api_version, kind, namespace));
        objects.extend(listed.map_err(|problem| anyhow!(advised(problem, opened.scope.is_all())))?);
    }
    Ok(objects)
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
#[serde(rename_all = "camelCase")]
struct Items<'t, T> {
    items: &'t [T],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tenant_quotas: Vec<&'t Value>,
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
