//! `kubectl headroom recommend image`: sizes for pods that no workload keeps, or that do not run yet, by the history of their image.

mod profile_reader;

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, bail};
use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Root;
use headroom_admission::cluster::usage::profile_layout::{API_VERSION, KIND};
use headroom_admission::image::ImageName;
use headroom_admission::timestamp::Timestamp;
use headroom_admission::truncate::count_of;
use headroom_api_server::{clock, signals};
use headroom_collector::backfill::BackfillRun;
use headroom_collector::collect_loop::unread;
use headroom_collector::metrics::CollectorMetrics;
use headroom_collector::profile::{self, Collected, Pooling};
use headroom_collector::read_limits::Pace;
use headroom_collector::store::Store;
use headroom_dry_run::evaluate::{Topic, request};
use headroom_dry_run::settings::ParsedSettings;
use headroom_metrics_stores::prometheus::Prometheus;
use headroom_objects::cluster_reader::ClusterReader as _;
use headroom_objects::document;
use headroom_objects::kinds::ApiKind;
use headroom_output::progress::Progress;
use headroom_output::{Exit, Page, Table, complain};
use headroom_recommend::bounds::manifest::{self, Reasons};
use headroom_recommend::engine::by_image::{ImageAmounts, NodeCapacity, SizeByImage};
use headroom_usage::profile::custom_resource::NAMESPACE;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::profile_reader::ProfileReader;
use super::arguments::{BoundsFormat, ImageArgs};
use super::bounds::or_dash;
use crate::command::cluster_args::{Opened, Scope, advised, elsewhere, profiles_namespace};
use crate::command::run_program;
use crate::command::source;

/// The query step, in seconds: pods that live for minutes have few samples.
const STEP: i64 = 60;

/// One image in one namespace, or in all together.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// As people write it: `nginx:1.27`, `nginx:*` for all tags together.
    image: String,
    pods: u64,
    oom_kills: usize,
    /// None from too few pods.
    #[serde(flatten)]
    size: Option<SizeByImage>,
}

pub fn run(args: ImageArgs) -> anyhow::Result<Exit> {
    let mut opened = args.bounds.target.open()?;
    let profiles = match args.of_store(&opened.settings)? {
        Some(profiles) => profiles,
        None => published(&mut opened)?,
    };
    let node = node(&mut opened);
    let namespaces = match &opened.scope {
        Scope::All => None,
        Scope::In(namespaces) => Some(namespaces.as_slice()),
    };
    let now = ParsedSettings::of(&opened.settings).now().ok_or_else(|| anyhow!("this machine's clock is not set"))?;
    let read = |namespaces| rows(&profiles, ProfileReader::new(namespaces, &args.image, node.as_ref(), now));
    let mut rows = read(namespaces)?;
    if rows.is_empty() && namespaces.is_some() {
        rows = read(None)?;
        if !rows.is_empty() {
            complain!("note: no pod of such an image was seen in {}: by the pods of other namespaces", opened.scope);
        }
    }
    if rows.is_empty() {
        let advice = elsewhere(&opened.scope, &mut opened.cluster).unwrap_or_else(|| {
            "run `headroom-controller collect`, and `kubectl headroom doctor` if it finds nothing".to_owned()
        });
        bail!("no usage history of such images in {}: {advice}", opened.scope);
    }
    if let Scope::In(namespaces) = opened.scope.clone() {
        let is_here = |row: &&ImageRow| row.namespace.as_ref().is_some_and(|namespace| namespaces.contains(namespace));
        rows.iter().filter(is_here).for_each(|row| warn_of_refusals(row, &mut opened));
    }
    headroom_output::print(&match args.bounds.output {
        BoundsFormat::Table => page(&rows, node.as_ref()),
        BoundsFormat::Json => Page::json(&rows)?,
        BoundsFormat::Yaml => yaml(&rows)?,
    })?;
    Ok(Exit::Ok)
}

fn published(opened: &mut Opened) -> anyhow::Result<Vec<Value>> {
    let profiles = opened.cluster.list((API_VERSION, KIND, Some(&profiles_namespace(&opened.settings))));
    profiles.map_err(|problem| match problem.is_unknown_kind() {
        true => anyhow!(
            "no usage history: `headroom-controller collect` gathers it by image, also of pods that are gone; or name a \
             metrics store with --prometheus, by its URL or as NAMESPACE/SERVICE:PORT"
        ),
        false => anyhow!(advised(problem, opened.scope.is_all())),
    })
}

impl ImageArgs {
    /// The UsageProfiles that the collector would publish of the image from the metrics store that is named, which is asked about
    /// that image alone.
    fn of_store(&self, settings: &Value) -> anyhow::Result<Option<Vec<Value>>> {
        let file = self.bounds.store.named.source.file()?;
        let Some(address) = self.bounds.store.named.address()? else { return Ok(None) };
        let as_of = ParsedSettings::of(settings).replay_time();
        let mut options = source::options(file, &address, file.step()?.unwrap_or(STEP))?;
        options.as_of = as_of.map(Timestamp::unix_seconds);
        // A tag may stand for none, as `latest` does.
        options.image = Some(ImageName::before_reference(&self.image).to_owned());
        let folder = tempfile::tempdir().context("cannot make a folder for what is read")?;
        let usage = Store::open(&folder.path().join("usage.redb"))?;
        run_program(async {
            let http = address.http(&self.bounds.target.cluster, &options.endpoint).await?;
            let stop = CancellationToken::new();
            signals::cancel(stop.clone())?;
            let run = BackfillRun {
                source: &Prometheus::new(http, options),
                store: &usage,
                pace: &Pace { days: u32::from(self.bounds.store.days), ..Pace::default() },
                metrics: &CollectorMetrics::default(),
                progress: &Progress::for_people(),
                stop: &stop,
            };
            anyhow::Ok(unread(run.catch_up().await?)?)
        })?;
        let read_up_to = usage.planned()?.unwrap_or_else(clock::now);
        let at = as_of.or(Timestamp::from_unix_seconds(read_up_to)).unwrap_or(Timestamp::UNIX_EPOCH);
        let collected = Collected { at, behind: &BTreeMap::new(), restricted: None };
        let mut profiles = Vec::new();
        for root in Root::all() {
            let share = profile::build(&usage, NAMESPACE, root, &collected, &Pooling::default())?;
            for object in share.lay_out() {
                profiles.push(serde_json::to_value(object)?);
            }
        }
        Ok(Some(profiles))
    }
}

/// A row for each image in each namespace, and in all together unless namespaces are selected.
fn rows(profiles: &[Value], mut reader: ProfileReader<'_>) -> anyhow::Result<Vec<ImageRow>> {
    for object in profiles {
        let document = document(object).map_err(|problem| anyhow!(problem))?;
        reader.add(document.root()).map_err(|malformed| anyhow!("UsageProfile: {malformed}"))?;
    }
    let (rows, problems) = reader.finish();
    problems.iter().for_each(|problem| complain!("warning: {problem}"));
    Ok(rows)
}

/// Names the bounds of LimitRanges that refuse a pod of such a size in its namespace.
fn warn_of_refusals(row: &ImageRow, opened: &mut Opened) {
    let (Some(namespace), Some(size)) = (&row.namespace, &row.size) else { return };
    let container = json!({"name": "next", "image": row.image, "resources": size.resources});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "next", "namespace": namespace},
        "spec": {"containers": [container]}});
    let asked = request::create(pod, &ApiKind::new("v1", "Pod"), namespace);
    let reasons = opened.admission.evaluate(asked, &mut opened.cluster).reasons;
    let of_limits = reasons.iter().filter(|reason| reason.topic == Topic::Limits);
    of_limits.for_each(|reason| complain!("warning: in {namespace}, a pod of this size is rejected: {reason}"));
}

/// The node in the middle of all by memory. Without one nothing is said of what fits.
fn node(opened: &mut Opened) -> Option<NodeCapacity> {
    let mut nodes: Vec<NodeCapacity> = Vec::new();
    // OK because who may not list Nodes gets the sizes without them.
    let listed = opened.cluster.list(("v1", "Node", None)).unwrap_or_default();
    for node in listed {
        let amount = |name: &str| node.pointer("/status/allocatable")?.get(name)?.as_str()?.parse::<Quantity>().ok();
        if let (Some(cpu), Some(memory)) = (amount("cpu"), amount("memory")) {
            let pods = amount("pods").and_then(|pods| u64::try_from(pods.value()).ok()).unwrap_or(110);
            nodes.push(NodeCapacity { cpu, memory, pods });
        }
    }
    nodes.sort_by(|a, b| (&a.memory, &a.cpu).cmp(&(&b.memory, &b.cpu)));
    let middle = nodes.len() / 2;
    nodes.into_iter().nth(middle)
}

fn page(rows: &[ImageRow], node: Option<&NodeCapacity>) -> Page {
    const RIGHT: [&str; 5] = ["PODS", "CPU REQUEST", "MEMORY REQUEST", "MEMORY LIMIT", "ON A NODE"];
    let header: Vec<&str> = ["NAMESPACE", "IMAGE"].into_iter().chain(RIGHT).collect();
    let mut table = Table::new(&header).right(&RIGHT).spare(&["NAMESPACE"]);
    for row in rows {
        let size = row.size.as_ref();
        let requests = size.map(|size| &size.resources.requests);
        let limits = size.map(|size| &size.resources.limits);
        let fit = size.and_then(|size| size.on_node.as_ref()).map(|fit| fit.by_requests.to_string());
        table.row([
            row.namespace.clone().unwrap_or_else(|| "(all)".to_owned()),
            row.image.clone(),
            row.pods.to_string(),
            or_dash(requests.and_then(|of| of.cpu.as_ref())),
            or_dash(requests.and_then(|of| of.memory.as_ref())),
            or_dash(limits.and_then(|of| of.memory.as_ref())),
            fit.unwrap_or_else(|| "-".to_owned()),
        ]);
        let Some(size) = size else {
            table.detail("too few pods to recommend anything");
            continue;
        };
        let storage = |amounts: &ImageAmounts| amounts.ephemeral_storage.clone();
        if let (Some(request), Some(limit)) = (storage(&size.resources.requests), storage(&size.resources.limits)) {
            table.detail(&format!("ephemeral storage: request {request}, limit {limit}"));
        }
        let killed = if row.oom_kills > 0 { count_of(row.oom_kills as u64, "OOM kill") + "; " } else { String::new() };
        table.detail(&format!("{killed}the next pod exceeds the highest peak with a chance of 1 in {}", size.one_in));
    }
    let mut page = Page::new();
    page.table(table);
    page.gap();
    writeln!(
        page,
        "Requests are a pod's part of what 20 of its image use together; limits are a fifth above the highest peak."
    );
    if let Some(NodeCapacity { cpu, memory, pods }) = node {
        writeln!(page, "A node has {cpu} CPU, {memory} of memory, and room for {pods} pods.");
    }
    page
}

fn yaml(rows: &[ImageRow]) -> anyhow::Result<Page> {
    let mut objects: Vec<(Value, Reasons)> = Vec::new();
    for row in rows {
        let Some(size) = &row.size else { continue };
        let place = row.namespace.as_deref().map_or("all namespaces".to_owned(), |name| format!("namespace {name}"));
        let seen = format!("by {} of {} in {place}", count_of(row.pods, "pod"), row.image);
        let fit = size.on_node.as_ref().map(|fit| format!("; {} fit on a node", fit.by_requests)).unwrap_or_default();
        let killed = match row.oom_kills {
            0 => String::new(),
            kills => format!(", and above {}", count_of(kills as u64, "out-of-memory kill")),
        };
        let reason = |field: &str, reason: String| (vec!["resources".to_owned(), field.to_owned()], reason);
        let above = format!(
            "above the highest peak{killed}; the next pod is above that peak with a chance of 1 in {}",
            size.one_in
        );
        let reasons =
            vec![reason("requests", format!("{seen}: part of what 20 use together{fit}")), reason("limits", above)];
        objects.push((json!({"resources": size.resources}), reasons));
    }
    if objects.is_empty() {
        bail!("nothing is recommended: fewer than five pods of each image were seen");
    }
    let objects: Vec<(&Value, Reasons)> = objects.iter().map(|(object, reasons)| (object, reasons.clone())).collect();
    manifest::page("From kubectl headroom recommend image, for containers of these images", &objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_of_the_chart_has_settings_that_the_policy_takes() {
        let preset = include_str!("../../../../../deploy/charts/headroom/presets/short-lived-pods.yaml");
        let values: Value = serde_saphyr::from_str(preset).unwrap();
        let mut settings = values["policies"]["settings"].clone();
        // The chart adds it.
        settings["estimates"]["namespace"] = json!("headroom");
        headroom_dry_run::settings::check(&settings).unwrap();
    }
}
