//! Reads a whole day for the collector: percentiles, which the store makes, in the place of samples. They are those of each
//! container, or those of all pods of a CronJob, of which there may be hundreds a day.
//!
//! Namespaces in which a container had no image that is known, or several, are left to be read sample by sample.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::cluster::usage::workload;
use headroom_usage::DAY;
use headroom_usage::sample::{Batch, Resource, Sample, Series, Window};

use super::{ContainerRef, Digest, LATER_SECONDS, PodSelection, StoreReader, UsageGroup};
use crate::{Sink, SourceError};

/// Pods that ran for longer may be the busiest of their workload, so each is read by itself.
const BRIEF_SECONDS: u64 = 3_600;

/// The containers that were seen on a day, and what is known of each.
type Seen = BTreeMap<ContainerRef, SeenContainer>;

struct SeenContainer {
    /// For how many steps it was seen.
    steps: u64,
    image: String,
}

/// The pods of each CronJob: of each of its containers, with the CronJob's name in the place of the pod's.
type Jobs<'s> = BTreeMap<ContainerRef, Vec<&'s ContainerRef>>;

/// The usage of containers whose percentiles were read together.
struct Used<'s> {
    containers: Vec<&'s ContainerRef>,
    resource: Resource,
    digest: Digest,
}

impl StoreReader {
    /// Reads the day, and returns the namespaces of which it was not read.
    pub(super) async fn read_day<'n>(
        &self,
        namespaces: &[&'n str],
        day: Window,
        sink: Sink<'_>,
    ) -> Result<Vec<&'n str>, SourceError> {
        let all = namespaces.to_vec();
        let is_day = day.seconds() == DAY && day.from.rem_euclid(DAY) == 0;
        if !is_day || !self.can_digest() || self.away_since(day).is_some() {
            return Ok(all);
        }
        let mut images = self.only_images(namespaces, day).await?;
        let Some(question) = self.queries().lives(namespaces, DAY) else { return Ok(all) };
        let (step, mut seen, mut unknown) = (u64::from(self.step_seconds), Seen::new(), BTreeSet::new());
        let mut note = |of: ContainerRef, _, samples| {
            let seconds = (samples as u64).saturating_mul(self.names.scrape_seconds.into()).clamp(1, DAY as u64);
            match images.remove(&of).flatten() {
                Some(image) => _ = seen.insert(of, SeenContainer { steps: seconds.div_ceil(step), image }),
                None => _ = unknown.insert(of.namespace),
            }
        };
        self.daily(&question, day, &mut note).await?;
        let (others, by_percentiles): (Vec<&str>, Vec<&str>) =
            namespaces.iter().partition(|namespace| unknown.contains(**namespace));
        seen.retain(|of, _| !unknown.contains(&of.namespace));
        let used = match self.read_percentiles(&by_percentiles, &seen, day).await {
            Err(SourceError::Permanent(reason)) => {
                tracing::debug!(reason, "the store makes no percentiles: reading all samples");
                return Ok(all);
            }
            read => read?,
        };
        let time = day.to - i64::from(self.step_seconds);
        for Used { containers, resource, digest } in used {
            let known = || containers.iter().filter_map(|of| Some((*of, seen.get(of)?)));
            let mut amounts = Vec::new();
            digest.spread(known().map(|(_, known)| known.steps).sum(), &mut |amount, steps| {
                amounts.extend((0..steps).map(|_| Sample { time, value: amount }));
            });
            let mut amounts = amounts.into_iter();
            let series = known().map(|(of, known)| Series {
                container: of.with_image(&known.image),
                resource,
                samples: amounts.by_ref().take(known.steps as usize).collect(),
                step_seconds: self.step_seconds,
            });
            sink(Batch::Usage(series.collect()));
        }
        Ok(others)
    }

    /// The percentiles of each CronJob whose pods ran one after the other, and of each container of other pods.
    async fn read_percentiles<'s>(
        &self,
        namespaces: &[&str],
        seen: &'s Seen,
        day: Window,
    ) -> Result<Vec<Used<'s>>, SourceError> {
        let mut several = BTreeSet::new();
        let question = self.queries().several_series(namespaces, DAY).filter(|_| !namespaces.is_empty());
        if let Some(question) = question {
            self.daily(&question, day, &mut |container, _, _| _ = several.insert(container.namespace)).await?;
        }
        let (several, single): (Vec<&str>, Vec<&str>) =
            namespaces.iter().partition(|namespace| several.contains(**namespace));
        let sets = [(several, false), (single, true)];
        let jobs = if self.can_digest_jobs() { jobs(seen) } else { Jobs::new() };
        let others = if jobs.is_empty() { PodSelection::All } else { PodSelection::NotOfJobs };
        let (mut in_one, by_pod): (Jobs, Jobs) =
            jobs.into_iter().partition(|(job, pods)| is_one(&job.pod, pods, seen, self.step_seconds));
        let mut by_pod: BTreeSet<&ContainerRef> = by_pod.into_values().flatten().collect();
        let mut used = Vec::new();
        // Memory tells which pods ran at the same time.
        for resource in [Resource::Memory, Resource::Cpu, Resource::EphemeralStorage] {
            let mut read = BTreeSet::new();
            for (namespaces, has_single_series) in &sets {
                let namespaces = those_with(namespaces, in_one.keys());
                let group = UsageGroup { pods: PodSelection::JobInOne, has_single_series: *has_single_series };
                let mut keep = |job, digest| {
                    if let Some(pods) = in_one.get(&job) {
                        used.push(Used { containers: pods.clone(), resource, digest });
                        read.insert(job);
                    }
                };
                self.digests(&namespaces, resource, day, group, &mut keep).await?;
            }
            if resource == Resource::Memory {
                let overlapping = in_one.extract_if(.., |job, _| !read.contains(job));
                by_pod.extend(overlapping.flat_map(|(_, pods)| pods));
            }
            for (namespaces, has_single_series) in &sets {
                let with_pods = those_with(namespaces, by_pod.iter().copied());
                for (namespaces, pods) in [(namespaces, others), (&with_pods, PodSelection::OfJobs)] {
                    let group = UsageGroup { pods, has_single_series: *has_single_series };
                    let mut keep = |of, digest| {
                        let of = seen.get_key_value(&of).map(|(of, _)| of);
                        let of = of.filter(|of| pods != PodSelection::OfJobs || by_pod.contains(of));
                        used.extend(of.map(|of| Used { containers: vec![of], resource, digest }));
                    };
                    self.digests(namespaces, resource, day, group, &mut keep).await?;
                }
            }
        }
        Ok(used)
    }

    /// The image of each container; none of those that had several.
    async fn only_images(
        &self,
        namespaces: &[&str],
        day: Window,
    ) -> Result<BTreeMap<ContainerRef, Option<String>>, SourceError> {
        let mut images = BTreeMap::new();
        let Some(state) = &self.names.state else { return Ok(images) };
        // As with samples, a little longer.
        let question = self.queries().images_within(namespaces, state, DAY + LATER_SECONDS);
        for row in self.api.moment(&question, Some(day.to + LATER_SECONDS)).await? {
            let image = row.label(&state.image).to_owned();
            let known = images.entry(ContainerRef::of(&row, &state.place)).or_insert_with(|| Some(image.clone()));
            *known = known.take().filter(|known| *known == image);
        }
        Ok(images)
    }
}

/// The namespaces that have one of these containers.
fn those_with<'n, 'c>(namespaces: &[&'n str], containers: impl Iterator<Item = &'c ContainerRef>) -> Vec<&'n str> {
    let with: BTreeSet<&str> = containers.map(|of| &*of.namespace).collect();
    namespaces.iter().copied().filter(|namespace| with.contains(namespace)).collect()
}

/// The pods of CronJobs that were seen.
fn jobs(seen: &Seen) -> Jobs<'_> {
    let mut jobs = Jobs::new();
    for of in seen.keys() {
        let Some(job) = job_of(&of.pod) else { continue };
        jobs.entry(ContainerRef { pod: job.to_owned(), ..of.clone() }).or_default().push(of);
    }
    jobs
}

/// The CronJob in the name of its pod, as the query tells it.
fn job_of(pod: &str) -> Option<&str> {
    let (rest, random) = pod.rsplit_once('-')?;
    let (job, time) = rest.rsplit_once('-')?;
    (random.len() == 5 && time.len() >= 8 && time.bytes().all(|byte| byte.is_ascii_digit())).then_some(job)
}

/// Returns true if the percentiles of all pods of a CronJob say as much as those of each, unless several ran at the same time:
/// they are of one workload and image, and none can be the busiest.
fn is_one(job: &str, pods: &[&ContainerRef], seen: &Seen, step_seconds: u32) -> bool {
    let known = || pods.iter().filter_map(|of| seen.get(of));
    let images: BTreeSet<&str> = known().map(|known| &*known.image).collect();
    let is_brief = known().all(|known| known.steps * u64::from(step_seconds) <= BRIEF_SECONDS);
    let is_workload = pods.iter().all(|of| workload::of_pod(&of.pod) == job);
    is_workload && images.len() == 1 && (is_brief || pods.len() == 1)
}
