//! The findings of `doctor` about an InfluxDB.

use std::collections::BTreeSet;

use headroom_usage::batch::Impossible;
use headroom_usage::sample::{Resource, Window};

use super::answer::Point;
use super::query::{CONTAINER, IMAGE, POD};
use super::{Api, Known, NAME_IT, Options, RESOURCES, no_schema};
use crate::SourceError;
use crate::diagnosis::{self, Finding, duration};

/// The findings of `doctor` about an InfluxDB.
pub async fn diagnose(options: &Options, our_clock: i64) -> Result<Vec<Finding>, SourceError> {
    let api = Api::new(options)?;
    let now = api.ping().await?;
    let mut findings = vec![diagnosis::clock(our_clock, now)];
    let known = match api.find().await? {
        Ok(known) => known,
        Err(looked) => {
            findings.push(Finding::bad("schema", no_schema(&looked), NAME_IT));
            return Ok(findings);
        }
    };
    let Known { database, schema, .. } = &known;
    let questions = known.questions();
    let names = RESOURCES.map(|resource| schema.name(resource)).join(" and ");
    findings.push(Finding::good("schema", format!("{}'s, {names} in database `{database}`", schema.writer())));

    if let Some(question) = api.several_clusters(&known).await? {
        findings.push(Finding::bad("cluster", question, "one store of the collector holds one cluster"));
        return Ok(findings);
    }
    let window = Window { from: now - 600, to: now };
    let (mut seen, mut named, mut intervals) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut impossible = Impossible::default();
    api.ask::<Point>(database, &questions.newest(window), &mut |series| {
        let key = [schema.namespace(), POD, CONTAINER].map(|tag| series.tag(tag).to_owned());
        if !series.tag(IMAGE).is_empty() {
            named.insert(key.clone());
        }
        for bytes in series.values.iter().filter_map(|(_, bytes)| *bytes) {
            impossible.check(bytes as u64, Resource::Memory, key.each_ref().map(String::as_str));
        }
        seen.insert(key);
        let distances = series.values.windows(2).filter_map(|pair| pair.last()?.0.checked_sub(pair.first()?.0));
        intervals.extend(distances.filter(|distance| *distance > 0));
    })
    .await?;
    if !schema.has_images_on_usage() {
        named = named_by_inventory(&api, &known, &seen, window).await?;
    }
    findings.push(matched(&known, &seen, &named));
    findings.extend(diagnosis::impossible(&impossible));
    intervals.sort_unstable();
    if let Some(interval) = intervals.get(intervals.len() / 2) {
        findings.push(Finding::good("sample interval", format!("{interval} s")));
    }
    let mut oldest = None;
    api.ask::<Point>(database, &questions.oldest(), &mut |series| oldest = series.values.first().map(|point| point.0))
        .await?;
    findings.extend(oldest.map(|oldest| diagnosis::history(duration(now - oldest), now - oldest >= 30 * 86_400)));
    Ok(findings)
}

/// Namespace, pod and container.
type Names = BTreeSet<[String; 3]>;

/// The containers with an image in the inventory.
async fn named_by_inventory(api: &Api, known: &Known, seen: &Names, window: Window) -> Result<Names, SourceError> {
    let namespaces: BTreeSet<_> = seen.iter().map(|[namespace, ..]| namespace).collect();
    let mut named = Names::new();
    for namespace in namespaces {
        let images = api.images(known, namespace, window).await?;
        let of_namespace = seen.iter().filter(|[of, ..]| of == namespace);
        named
            .extend(of_namespace.filter(|[_, pod, container]| images.at(pod, container, window.to).is_some()).cloned());
    }
    Ok(named)
}

fn matched(known: &Known, seen: &Names, named: &Names) -> Finding {
    let found = format!("{} of {} containers in the last 10 minutes", named.len(), seen.len());
    let writer = known.schema.writer();
    let example = seen
        .difference(named)
        .next()
        .map(|[namespace, pod, container]| format!("`{container}` of `{namespace}/{pod}`"));
    let none = format!("check that {writer} is running and writes to this database");
    let advice = match known.schema.has_images_on_usage() {
        true => format!("their points have no tag `{IMAGE}`, so their usage is left out"),
        false => "let Telegraf's input `kube_inventory` write pods into the same database, since its input \
                  `kubernetes` has no images; for a registry with a port, `kube_inventory` has none either"
            .to_owned(),
    };
    diagnosis::matched(named.len(), found, example, &none, &advice)
}
