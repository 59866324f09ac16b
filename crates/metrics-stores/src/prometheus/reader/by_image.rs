//! Adds the images of containers to what is read by pod, for the collector.
//!
//! A whole day is read as percentiles, which the store makes, in the place of samples. They are those of each container, or those
//! of all pods of a CronJob, of which there may be hundreds a day. Namespaces in which a container had no image that is known,
//! or several, are read sample by sample.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::cluster::usage::workload;
use headroom_usage::DAY;
use headroom_usage::sample::{Batch, OomKill, Resource, Series, Window};

use super::kills::Killed;
use super::usage::JOBS;
use super::{ContainerRef, Digest, MAX_NAMED, PodSelection, StoreReader, UsageGroup, unless_too_much};
use crate::prometheus::answer::AnswerSeries;
use crate::prometheus::images::Images;
use crate::prometheus::reader::LISTING_SECONDS;
use crate::prometheus::selector::{Match, Matchers};
use crate::{Sink, SourceError, warn_of_unknown};

/// The time before a window in which an image is searched for that is missing in it.
const BEFORE_SECONDS: i64 = 6 * 3_600;
/// The time after a window in which kube-state-metrics may still report an image of it.
const LATER_SECONDS: i64 = 600;
/// Pods that ran for longer may be the busiest of their workload, so each is read by itself.
const BRIEF_SECONDS: u64 = 3_600;

/// Images by namespace.
pub type ImagesOf = BTreeMap<String, Images>;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Containers whose image is known.
    pub matched: BTreeSet<ContainerRef>,
    /// Containers whose image is unknown.
    pub unmatched: BTreeSet<ContainerRef>,
}

/// The containers that were seen on a day, and what is known of each.
type Seen = BTreeMap<ContainerRef, SeenContainer>;

struct SeenContainer {
    /// For how long it was seen, in whole steps.
    seconds: u64,
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
    /// Reads usage and kills of these namespaces: of a whole day by percentiles, wherever that says as much.
    pub async fn read(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let rest = self.read_day(namespaces, window, &mut *sink).await?;
        let images = self.read_images(&rest, window).await?;
        let has_images = |namespace: &&str| !self.is_of_image() || images.contains_key(*namespace);
        let rest: Vec<&str> = rest.into_iter().filter(has_images).collect();
        let of_pods = self.of_pods(images.values().flat_map(Images::pods));
        let notes = of_pods.read_samples(&rest, window, &images, &mut *sink).await?;
        let unmatched = notes.unmatched.first().filter(|_| !self.is_of_image());
        if let Some(ContainerRef { namespace, pod, container }) = unmatched {
            if let Some(since) = self.away_since(window) {
                return Err(SourceError::Permanent(format!(
                    "kube-state-metrics has not been seen since {since}, so the image of some containers is not known, such \
                     as `{container}` of `{namespace}/{pod}`: their usage waits until it is back"
                )));
            }
            let unknown = notes.unmatched.iter().map(|of| (&*of.namespace, (&*of.pod, &*of.container)));
            warn_of_unknown(unknown);
        }
        let kills = self.read_oom_kills(namespaces, window, images).await?;
        if !kills.is_empty() {
            sink(Batch::OomKills(kills));
        }
        Ok(())
    }

    /// Reads usage sample by sample, and says of how many containers the image is known.
    pub async fn read_samples(
        &self,
        namespaces: &[&str],
        window: Window,
        images: &ImagesOf,
        sink: Sink<'_>,
    ) -> Result<Notes, SourceError> {
        let mut notes = Notes::default();
        // Without kube-state-metrics, images are in a label of the usage series. While it
        // is only away, that would be another name for the same image.
        let may_be_labels = self.away_since(window).is_none();
        let (by_label, by_state): (Vec<&str>, Vec<&str>) =
            namespaces.iter().partition(|namespace| may_be_labels && !images.contains_key(**namespace));
        for (namespaces, by_label) in [(by_label, true), (by_state, false)] {
            for resource in Resource::ALL {
                let mut take = |series: Series| {
                    let of = ContainerRef::from(&series.container);
                    let series = match images.get(&of.namespace) {
                        _ if by_label && !series.container.image.is_empty() => vec![series],
                        Some(images) => images.split(series),
                        None => Vec::new(),
                    };
                    let noted = if series.is_empty() { &mut notes.unmatched } else { &mut notes.matched };
                    noted.insert(of);
                    sink(Batch::Usage(series));
                };
                self.samples(&namespaces, resource, window, by_label, &mut take).await?;
            }
        }
        Ok(notes)
    }

    /// Reads the day, and returns the namespaces of which it was not read.
    async fn read_day<'n>(
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
        let of_pods = self.of_pods(images.keys().map(|of| of.pod.as_str()));
        let Some(question) = of_pods.queries().lives(namespaces, DAY) else { return Ok(all) };
        let (step, mut seen, mut unknown) = (u64::from(self.step_seconds), Seen::new(), BTreeSet::new());
        let mut note = |of: ContainerRef, _, samples| {
            let seconds = (samples as u64).saturating_mul(self.names.scrape_seconds.into()).clamp(1, DAY as u64);
            match images.remove(&of) {
                Some(Some(image)) => {
                    seen.insert(of, SeenContainer { seconds: seconds.div_ceil(step) * step, image });
                }
                None if self.is_of_image() => {}
                Some(None) | None => _ = unknown.insert(of.namespace),
            }
        };
        self.daily(&question, day, &mut note).await?;
        let (others, by_percentiles): (Vec<&str>, Vec<&str>) =
            namespaces.iter().partition(|namespace| unknown.contains(**namespace));
        seen.retain(|of, _| !unknown.contains(&of.namespace));
        let used = match of_pods.read_percentiles(&by_percentiles, &seen, day).await {
            Err(error) if self.makes_no_percentiles(&error) => return Ok(all),
            read => read?,
        };
        let time = day.to - i64::from(self.step_seconds);
        for Used { containers, resource, digest } in used {
            let of_container = |of: &ContainerRef| {
                let SeenContainer { seconds, image } = seen.get(of)?;
                let samples = digest.samples(time, *seconds);
                Some(Series { container: of.with_image(image), resource, samples })
            };
            sink(Batch::Usage(containers.into_iter().filter_map(of_container).collect()));
        }
        Ok(others)
    }

    /// True if kube-state-metrics is asked for one image alone.
    fn is_of_image(&self) -> bool {
        self.image.is_some() && self.names.state.is_some()
    }

    /// The same for the usage of pods whose names begin like these; for that of all if not one image alone is asked for, or if
    /// there are too many to name.
    fn of_pods<'p>(&self, pods: impl Iterator<Item = &'p str>) -> Self {
        let mut reader = self.clone();
        if self.is_of_image() {
            let workloads: BTreeSet<&str> = pods.map(workload::of_pod).collect();
            let workloads: Vec<&str> = workloads.into_iter().take(MAX_NAMED + 1).collect();
            if workloads.len() <= MAX_NAMED {
                reader.pods = Matchers::default().and(&self.names.usage.pod, Match::Begins(&workloads));
            }
        }
        reader
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
        let has_seconds_for_percentiles = self.step_seconds as usize > JOBS.len();
        // Pods of a CronJob may have another image than is asked for.
        let jobs = if has_seconds_for_percentiles && !self.is_of_image() { jobs(seen) } else { Jobs::new() };
        let others = if jobs.is_empty() { PodSelection::All } else { PodSelection::NotOfJobs };
        let (mut in_one, by_pod): (Jobs, Jobs) = jobs.into_iter().partition(|(job, pods)| is_one(&job.pod, pods, seen));
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
        let question = self.queries().images(namespaces, state, Some(DAY + LATER_SECONDS));
        for row in self.api.moment(&question, Some(day.to + LATER_SECONDS)).await? {
            let image = row.label(&state.image).to_owned();
            let known = images.entry(ContainerRef::of(&row, &state.place)).or_insert_with(|| Some(image.clone()));
            *known = known.take().filter(|known| *known == image);
        }
        Ok(images)
    }

    /// Since when kube-state-metrics is away, if that is before the window's end and it may come back.
    fn away_since(&self, window: Window) -> Option<jiff::Timestamp> {
        let since = self.names.state_away_since.filter(|since| *since < window.to)?;
        jiff::Timestamp::from_second(since).ok()
    }

    /// The images of these namespaces, as far as kube-state-metrics knows any.
    pub async fn read_images(&self, namespaces: &[&str], window: Window) -> Result<ImagesOf, SourceError> {
        let mut images = ImagesOf::default();
        let Some(state) = self.names.state.as_ref().filter(|_| !namespaces.is_empty()) else { return Ok(images) };
        let take = |images: &mut ImagesOf, row: AnswerSeries| {
            let namespace = row.label(&state.place.namespace).to_owned();
            images.entry(namespace).or_default().add(&row, state);
        };
        // A little longer, for images that kube-state-metrics reports only when it is back.
        let longer = Window { from: window.from, to: window.to + self.steps_in(LATER_SECONDS) };
        self.range(&self.queries().images(namespaces, state, None), longer, &mut |row| take(&mut images, row)).await?;
        let unknown: Vec<&str> =
            namespaces.iter().copied().filter(|namespace| !images.contains_key(*namespace)).collect();
        if !unknown.is_empty() {
            // It may have been away, and have reported before.
            let before = Window { from: window.from - BEFORE_SECONDS, to: window.from };
            let question = self.queries().images(&unknown, state, None);
            let asked = self.api.range(&question, before, LISTING_SECONDS, &mut |row| take(&mut images, row)).await;
            unless_too_much(asked)?;
        }
        Ok(images)
    }

    async fn read_oom_kills(
        &self,
        namespaces: &[&str],
        window: Window,
        mut images: ImagesOf,
    ) -> Result<Vec<OomKill>, SourceError> {
        let kills = self.kills(namespaces, window).await?;
        // Those that were read by percentiles.
        let others: BTreeSet<&str> = kills.iter().map(|killed| killed.container.namespace.as_str()).collect();
        let others: Vec<&str> = others.into_iter().filter(|namespace| !images.contains_key(*namespace)).collect();
        images.extend(self.read_images(&others, window).await?);
        let with_image = |killed: &Killed| {
            let of = &killed.container;
            let image = images.get(&of.namespace)?.at(&of.pod, &of.container, killed.at)?;
            Some(OomKill { container: of.with_image(image), at: killed.at, memory: killed.memory })
        };
        Ok(kills.iter().filter_map(with_image).collect())
    }
}

/// The namespaces that have one of these containers.
fn those_with<'n, 'c>(namespaces: &[&'n str], containers: impl Iterator<Item = &'c ContainerRef>) -> Vec<&'n str> {
    let with: BTreeSet<&str> = containers.map(|of| &*of.namespace).collect();
    namespaces.iter().copied().filter(|namespace| with.contains(namespace)).collect()
}

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
fn is_one(job: &str, pods: &[&ContainerRef], seen: &Seen) -> bool {
    let known = || pods.iter().filter_map(|of| seen.get(of));
    let images: BTreeSet<&str> = known().map(|known| &*known.image).collect();
    let is_brief = known().all(|known| known.seconds <= BRIEF_SECONDS);
    let is_workload = pods.iter().all(|of| workload::of_pod(&of.pod) == job);
    is_workload && images.len() == 1 && (is_brief || pods.len() == 1)
}
