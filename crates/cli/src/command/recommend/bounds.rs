//! `kubectl headroom recommend bounds`: quotas and LimitRanges for what namespaces run, from its usage. They are made by
//! `headroom_recommend::bounds`.

use anyhow::{anyhow, bail};
use headroom_admission::amount::Quantity;
use headroom_admission::cluster::tenant_quota::NEVER_CHARGED;
use headroom_admission::truncate::count_of;
use headroom_dry_run::evaluate::tenant_quotas::charged_together;
use headroom_dry_run::settings::ParsedSettings;
use headroom_dry_run::simulate::listed;
use headroom_output::progress::Progress;
use headroom_output::{Exit, Page, Paint, Table, people};
use headroom_recommend::bounds::consumer::WorkloadConsumer;
use headroom_recommend::bounds::manifest::{self, Reasons};
use headroom_recommend::bounds::trial::{self, BoundsTrial};
use headroom_recommend::bounds::{limits, quota};
use headroom_recommend::report::ReportSource;
use headroom_workloads::inventory::Inventory;
use serde::Serialize;
use serde_json::Value;

use super::arguments::{BoundsArgs, BoundsFormat, PastOfQuotas, UsageArgs};
use super::run::recommend_inventory;
use crate::command::cluster_args::{Scope, TargetArgs, advised, elsewhere};

/// The recommended bounds, as JSON.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundsOutput {
    source: ReportSource,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quotas: Vec<quota::QuotaProposal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limit_ranges: Vec<limits::LimitRangeProposal>,
    trial: BoundsTrial,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(skip)]
    is_partial: bool,
}

/// The bounds as the page shows them.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    found: BoundsOutput,
    /// The source of usage, in words.
    about: String,
    /// The manifest of each quota, and then of each LimitRange.
    yaml: Vec<String>,
}

/// Proposes quotas and LimitRanges, and tries them together.
pub fn for_page(target: &TargetArgs, usage: &UsageArgs) -> anyhow::Result<impl Serialize> {
    let usage = UsageArgs { quotas: PastOfQuotas::All, ..usage.clone() };
    let found = find(target, &usage, &Progress::hidden())?;
    let heading = heading(&found);
    let yaml = found.documents().into_iter().map(|document| Ok(manifest::page(&heading, &[document])?.to_string()));
    Ok(Shown { yaml: yaml.collect::<anyhow::Result<_>>()?, about: found.source.to_string(), found })
}

pub fn run(args: BoundsArgs) -> anyhow::Result<Exit> {
    let BoundsArgs { output, store, target } = args;
    // Bounds are not sized by money.
    let usage = UsageArgs { price: None, quotas: PastOfQuotas::All, settled: None, store };
    let found = find(&target, &usage, &Progress::for_people())?;
    headroom_output::print(&match output {
        BoundsFormat::Table => page(&found, Paint::for_stdout()),
        BoundsFormat::Json => Page::json(&found)?,
        BoundsFormat::Yaml => manifest::page(&heading(&found), &found.documents())?,
    })?;
    Ok(match &found.trial {
        trial if !trial.is_passed() => Exit::Refused,
        trial if found.is_partial || found.source.is_partial || !trial.missed.is_empty() => Exit::Error,
        _ => Exit::Ok,
    })
}

fn find(target: &TargetArgs, usage: &UsageArgs, progress: &Progress) -> anyhow::Result<BoundsOutput> {
    let mut opened = target.open_partly()?;
    let asked = opened.scope.clone();
    if let Scope::In(asked) = &asked {
        let together = charged_together(asked, &mut opened.cluster).map_err(|problem| anyhow!(problem))?;
        opened.scope = Scope::In(together);
    }
    opened.prefetch(&listed(), progress);
    let advised = |problem| advised(problem, target.all_namespaces);
    let inventory = Inventory::read(&mut opened.cluster, &opened.scope.parts(), advised);
    let inventory = inventory.map_err(|problem| anyhow!(problem))?;
    let is_partial = inventory.is_partial;
    let mut namespaces = match &opened.scope {
        Scope::All => inventory.namespaces(),
        Scope::In(namespaces) => namespaces.clone(),
    };
    namespaces.retain(|namespace| !opened.scope.is_all() || !NEVER_CHARGED.contains(&namespace.as_str()));
    if inventory.entries.is_empty() {
        let advice = elsewhere(&opened.scope, &mut opened.cluster);
        bail!(
            "no workloads found in {}: {}",
            opened.scope,
            advice.unwrap_or_else(|| "choose another namespace".to_owned())
        );
    }
    let mut consumers = WorkloadConsumer::all(&inventory);
    consumers.retain(|consumer| namespaces.contains(&consumer.key.namespace));
    let recommended = recommend_inventory(&mut opened, inventory, target, Some(usage), progress)?;
    let (report, past) = (recommended.report, recommended.past);
    WorkloadConsumer::right_size(&mut consumers, &report);
    let now = ParsedSettings::of(&opened.settings).now().ok_or_else(|| anyhow!("this machine's clock is not set"))?;
    let (cluster, admission) = (&mut opened.cluster, &opened.admission);
    let simulation = trial::begin(&namespaces, admission, cluster);
    let (notes, source) = (report.all_notes(), report.source.clone());
    let mut found = BoundsOutput { notes, source, is_partial, ..BoundsOutput::default() };
    let is_asked = |namespace: &&String| matches!(&asked, Scope::All) || asked.parts().contains(&Some(namespace));
    let asked: Vec<String> = namespaces.iter().filter(is_asked).cloned().collect();
    found.limit_ranges = limits::propose(&asked, &consumers, &report, cluster).map_err(|problem| anyhow!(problem))?;
    let evidence = quota::Evidence { namespaces: &namespaces, consumers: &consumers, past: &past, now };
    found.quotas = quota::propose(&evidence, admission, cluster).map_err(|problem| anyhow!(problem))?;
    let is_suspended = |of: &&WorkloadConsumer| of.counts.is_periodic && of.counts.most == 0;
    let suspended: Vec<String> =
        consumers.iter().filter(is_suspended).map(|of| format!("{} {}", of.key.namespace, of.key)).collect();
    if !suspended.is_empty() {
        found.notes.push(format!("no quota has room for what is suspended: {}", suspended.join(", ")));
    }
    if past.is_empty() {
        found
            .notes
            .push("peaks and growth of 30 days are not known: name a metrics store with kube-state-metrics".to_owned());
    }
    let proposed: Vec<Value> = found.documents().into_iter().map(|(object, _)| object.clone()).collect();
    let tried = trial::end(&simulation, proposed.iter(), admission, cluster);
    found.trial = tried.map_err(|problem| anyhow!(problem))?;
    Ok(found)
}

fn page(found: &BoundsOutput, paint: Paint) -> Page {
    let mut page = Page::new();
    found.source.outage().iter().for_each(|outage| writeln!(page, "{}\n", paint.red(outage)));
    writeln!(page, "{}", found.source);
    page.gap();
    for table in [quotas(&found.quotas), ranges(&found.limit_ranges)].into_iter().filter(|table| !table.is_empty()) {
        page.table(table);
        page.gap();
    }
    let BoundsTrial { objects, changed, rejected, exceeded, missed } = &found.trial;
    let outcome = if found.trial.is_passed() {
        paint.green("nothing would be rejected")
    } else if rejected.is_empty() {
        paint.red("they would not fit")
    } else {
        paint.red(&format!("{} would be rejected", rejected.len()))
    };
    let changed = if *changed > 0 { format!(", {changed} would get other values") } else { String::new() };
    writeln!(page, "{} if recreated: {outcome}{changed}", count_of(*objects as u64, "object"));
    for trial::Rejected { namespace, object, reasons } in rejected {
        writeln!(page, "  {namespace} {object}: {}", reasons.join("; "));
    }
    exceeded.iter().for_each(|quota| writeln!(page, "  exceeded: {quota}"));
    missed.iter().for_each(|problem| writeln!(page, "{} {problem}", paint.red("not read:")));
    found.notes.iter().for_each(|note| writeln!(page, "note: {note}"));
    page
}

pub(super) fn or_dash(amount: Option<&Quantity>) -> String {
    amount.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn quotas(proposals: &[quota::QuotaProposal]) -> Table {
    let columns = ["USED", "HARD", "PROPOSED", "UNUSED", "UNUSED THEN"];
    let header = ["QUOTA", "RESOURCE"].into_iter().chain(columns).chain(["FULL", "FULL THEN"]);
    let mut table =
        Table::new(&header.collect::<Vec<_>>()).right(&columns).spare(&["UNUSED", "UNUSED THEN", "FULL THEN"]);
    for proposal in proposals {
        let name = match proposal.namespace.as_str() {
            "" => format!("tenant quota {}", proposal.name),
            namespace => format!("{namespace}/{}", proposal.name),
        };
        for amount in &proposal.amounts {
            let shown = [
                amount.used.to_string(),
                or_dash(amount.hard.as_ref()),
                amount.proposed.to_string(),
                or_dash(amount.unused.as_ref()),
                amount.unused_then.to_string(),
            ];
            let shown = people::row(&amount.resource, shown.each_ref().map(String::as_str));
            let days = [&amount.full, &amount.full_then].map(|day| day.clone().unwrap_or_else(|| "-".to_owned()));
            table.row([name.clone(), amount.resource.clone()].into_iter().chain(shown).chain(days));
            table.detail(&amount.reason);
        }
    }
    table
}

fn ranges(proposals: &[limits::LimitRangeProposal]) -> Table {
    let mut table = Table::new(&["LIMITRANGE", "FIELD", "RESOURCE", "TODAY", "PROPOSED"]).right(&["TODAY", "PROPOSED"]);
    for proposal in proposals {
        for bound in &proposal.bounds {
            let name = format!("{}/{}", proposal.namespace, proposal.name);
            let amounts = [bound.today.as_ref(), bound.proposed.as_ref()].map(or_dash);
            table.row([name, bound.field.to_owned(), bound.resource.to_owned()].into_iter().chain(amounts));
            table.detail(&bound.reason);
        }
        if !proposal.beside.is_empty() {
            table.detail(&format!("LimitRange {} applies to containers as well", proposal.beside.join(", ")));
        }
    }
    table
}

impl BoundsOutput {
    /// The proposed objects with the reasons for their values: quotas, then LimitRanges.
    fn documents(&self) -> Vec<(&Value, Reasons)> {
        let path = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let today = |amount: Option<&Quantity>| amount.map(|today| format!(" (today {today})")).unwrap_or_default();
        let of_quotas = self.quotas.iter().map(|quota| {
            let place: Vec<&str> = quota::hard_of(&quota.kind).split('/').skip(1).collect();
            let reason = |amount: &quota::Proposed| {
                let path = path(&[place.as_slice(), &[amount.resource.as_str()]].concat());
                (path, format!("{}{}, {} used", amount.reason, today(amount.hard.as_ref()), amount.used))
            };
            (&quota.object, quota.amounts.iter().map(reason).collect::<Reasons>())
        });
        let of_ranges = self.limit_ranges.iter().map(|range| {
            let reason = |bound: &limits::ProposedBound| {
                let path = path(&["spec", "limits", bound.field, bound.resource]);
                (path, format!("{}{}", bound.reason, today(bound.today.as_ref())))
            };
            (&range.object, range.bounds.iter().map(reason).collect::<Reasons>())
        });
        of_quotas.chain(of_ranges).collect()
    }
}

fn heading(found: &BoundsOutput) -> String {
    let trial = &found.trial;
    let outcome = match trial.is_passed() {
        true => format!("simulated with {}: nothing is rejected", count_of(trial.objects as u64, "object")),
        false => format!("{} of {} objects would be rejected", trial.rejected.len(), trial.objects),
    };
    let outage = found.source.outage().map(|outage| format!("; {outage}")).unwrap_or_default();
    format!("From kubectl headroom recommend. {}{outage}; {outcome}", found.source)
}
