//! Sums up usage by image, namespace and day until the store adds it in one transaction. Memory grows with the number of these,
//! not with the number of samples.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use headroom_admission::cluster::usage::workload;
use headroom_admission::image::{ImageName, Reference, Repository};
use headroom_admission::truncate::count_of;

use crate::observed::{Kill, Observed};
use crate::sample::{Batch, OomKill, Resource, SampledContainer, Series, Window, is_possible, quantity};
use crate::{cardinality, day_of};

/// An image in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub repository: Repository,
    pub reference: Reference,
    pub namespace: String,
}

impl Place {
    /// None if the image's name is invalid.
    pub fn of(namespace: &str, image: &str) -> Option<Self> {
        let name = ImageName::parse(image).ok()?;
        let namespace = namespace.to_owned();
        Some(Self { repository: Repository::of(&name), reference: name.reference(), namespace })
    }

    pub fn image(&self) -> String {
        format!("{}{}", self.repository, self.reference)
    }
}

/// An image in a container of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkloadPlace {
    pub repository: Repository,
    pub namespace: String,
    /// By [`workload::key`].
    pub workload: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlaceId(usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowId(usize);

#[derive(Debug)]
pub struct PlaceDay {
    place: PlaceId,
    pub day: u32,
    pub observed: Observed,
}

/// Amounts above what a container can use. They are no samples.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Impossible {
    pub count: u64,
    example: String,
}

impl Impossible {
    /// Counts an impossible amount; true if it is possible.
    pub fn check(&mut self, amount: u64, resource: Resource, [namespace, pod, container]: [&str; 3]) -> bool {
        let is_possible = is_possible(amount, resource);
        if !is_possible {
            if self.count == 0 {
                let (name, amount) = (resource.name(), quantity(amount, resource));
                self.example = format!("{name} {amount} of container {container} in {namespace}/{pod}");
            }
            self.count += 1;
        }
        is_possible
    }

    pub fn check_series(&mut self, series: &Series) {
        let SampledContainer { namespace, pod, name, .. } = &series.container;
        for sample in &series.samples {
            self.check(sample.value, series.resource, [namespace, pod, name]);
        }
    }

    pub fn add(&mut self, other: Self) {
        if self.count == 0 {
            self.example = other.example;
        }
        self.count += other.count;
    }
}

/// `1 impossible sample, such as memory 9223372036854775807 of container web in shop/web-0`
impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, such as {}", count_of(self.count, "impossible sample"), self.example)
    }
}

#[derive(Debug, Default)]
pub struct Gathered {
    places: Vec<Place>,
    ids: HashMap<Place, PlaceId>,
    /// By namespace and the image's text, so that each text is parsed once.
    ids_of_texts: HashMap<String, HashMap<String, Option<PlaceId>>>,
    rows: Vec<PlaceDay>,
    row_of: HashMap<(PlaceId, u32), RowId>,
    /// The same usage again, by workload and day.
    workloads: HashMap<WorkloadPlace, BTreeMap<u32, Observed>>,
    pub samples: u64,
    /// Samples of another window than the one that was read. They are dropped, because that window has its own read.
    pub outside: u64,
    pub impossible: Impossible,
    /// Invalid names of images, which no admission request can have.
    pub unreadable: BTreeSet<String>,
}

impl Gathered {
    /// Adds what a source has read of a window.
    pub fn take(&mut self, batch: Batch, window: Window) {
        match batch {
            Batch::Usage(series) => series.into_iter().for_each(|series| self.take_series(&series, window)),
            Batch::OomKills(kills) => kills.into_iter().for_each(|kill| self.take_kill(&kill, window)),
        }
    }

    pub fn rows(&self) -> impl Iterator<Item = (&Place, &PlaceDay)> {
        self.rows.iter().filter_map(|row| Some((self.places.get(row.place.0)?, row)))
    }

    /// The usage of each workload's containers by day.
    pub fn workloads(&self) -> impl Iterator<Item = (&WorkloadPlace, u32, &Observed)> {
        let days = self.workloads.iter();
        days.flat_map(|(place, days)| days.iter().map(move |(day, observed)| (place, *day, observed)))
    }

    /// The number of images and days, with which memory grows.
    pub fn size(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Memory held, roughly.
    pub fn bytes(&self) -> usize {
        let of_workloads = self.workloads.values().flat_map(BTreeMap::values);
        self.rows.iter().map(|row| &row.observed).chain(of_workloads).map(Observed::bytes).sum()
    }

    pub fn place(&mut self, namespace: &str, image: &str) -> Option<PlaceId> {
        if let Some(id) = self.ids_of_texts.get(namespace).and_then(|images| images.get(image)) {
            return *id;
        }
        let place = Place::of(namespace, image);
        if place.is_none() {
            self.unreadable.insert(image.to_owned());
        }
        let id = place.map(|place| self.id_of(place));
        self.ids_of_texts.entry(namespace.to_owned()).or_default().insert(image.to_owned(), id);
        id
    }

    fn id_of(&mut self, place: Place) -> PlaceId {
        *self.ids.entry(place).or_insert_with_key(|place| {
            self.places.push(place.clone());
            PlaceId(self.places.len() - 1)
        })
    }

    pub fn row(&mut self, place: PlaceId, day: u32) -> RowId {
        *self.row_of.entry((place, day)).or_insert_with(|| {
            self.rows.push(PlaceDay { place, day, observed: Observed::default() });
            RowId(self.rows.len() - 1)
        })
    }

    pub fn observed(&mut self, row: RowId) -> Option<&mut Observed> {
        self.rows.get_mut(row.0).map(|row| &mut row.observed)
    }

    pub fn absorb(&mut self, other: Self) {
        let ids: Vec<PlaceId> = other.places.into_iter().map(|place| self.id_of(place)).collect();
        for row in &other.rows {
            let row_here = ids.get(row.place.0).map(|id| self.row(*id, row.day));
            if let Some(observed) = row_here.and_then(|row| self.observed(row)) {
                observed.merge(&row.observed);
            }
        }
        for (place, days) in other.workloads {
            let ours = self.workloads.entry(place).or_default();
            days.into_iter().for_each(|(day, observed)| ours.entry(day).or_default().merge(&observed));
        }
        self.samples += other.samples;
        self.outside += other.outside;
        self.impossible.add(other.impossible);
        self.unreadable.extend(other.unreadable);
    }

    fn take_series(&mut self, series: &Series, window: Window) {
        let container = &series.container;
        let Some(place) = self.place(&container.namespace, &container.image) else { return };
        let pod = cardinality::hash(&container.namespace, &container.pod);
        let of = [&*container.namespace, &container.pod, &container.name];
        for (day, samples) in series.days() {
            let (mut of_pod, before) = (Observed::default(), self.samples);
            for sample in samples {
                if !window.contains(sample.time) {
                    self.outside += 1;
                } else if self.impossible.check(sample.value, series.resource, of) {
                    self.samples += 1;
                    of_pod.add(series.resource, sample.time, sample.value, sample.seconds);
                }
            }
            if self.samples == before {
                continue;
            }
            of_pod.pods.add(pod);
            of_pod.busy_pods.add(pod, &of_pod.cpu, of_pod.memory.peak());
            self.add(place, container, day, &of_pod);
        }
    }

    /// Adds the usage of a container on a day, to its image and to its workload.
    fn add(&mut self, place: PlaceId, container: &SampledContainer, day: u32, observed: &Observed) {
        let row = self.row(place, day);
        if let Some(of_image) = self.observed(row) {
            of_image.merge(observed);
        }
        let Some(place) = self.places.get(place.0).filter(|_| observed.last_seen > 0) else { return };
        let place = WorkloadPlace {
            repository: place.repository.clone(),
            namespace: place.namespace.clone(),
            workload: workload::key(workload::of_pod(&container.pod), &container.name),
        };
        self.workloads.entry(place).or_default().entry(day).or_default().merge(observed);
    }

    fn take_kill(&mut self, kill: &OomKill, window: Window) {
        if !window.contains(kill.at) {
            self.outside += 1;
            return;
        }
        let container = &kill.container;
        let of = [&*container.namespace, &container.pod, &container.name];
        if !self.impossible.check(kill.memory, Resource::Memory, of) {
            return;
        }
        let Some(place) = self.place(&container.namespace, &container.image) else { return };
        let mut killed = Observed::default();
        let of = cardinality::hash(&container.pod, &container.name);
        killed.add_kill(Kill { at: kill.at, memory: kill.memory, of });
        killed.pods.add(cardinality::hash(&container.namespace, &container.pod));
        self.add(place, container, day_of(kill.at), &killed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DAY;
    use crate::sample::{Resource, Sample, SampledContainer};

    fn container(image: &str) -> SampledContainer {
        SampledContainer::of(["shop", "web-0", "web", image])
    }

    fn series(image: &str, times: &[i64]) -> Batch {
        let samples = times.iter().map(|time| Sample { time: *time, value: 100, seconds: 60 }).collect();
        Batch::Usage(vec![Series { container: container(image), resource: Resource::Cpu, samples }])
    }

    const MONTH: Window = Window { from: 0, to: 30 * DAY };

    fn gathered(batches: impl IntoIterator<Item = Batch>, window: Window) -> Gathered {
        let mut gathered = Gathered::default();
        batches.into_iter().for_each(|batch| gathered.take(batch, window));
        gathered
    }

    /// Image, day and seconds of each row.
    fn rows(gathered: &Gathered) -> Vec<(String, u32, u64)> {
        gathered.rows().map(|(place, row)| (place.image(), row.day, row.observed.cpu.seconds())).collect()
    }

    #[test]
    fn samples_count_for_the_day_of_their_own_time() {
        let gathered = gathered([series("nginx:1.27", &[DAY - 60, DAY, DAY + 60])], MONTH);
        let nginx = "docker.io/library/nginx:1.27".to_owned();
        assert_eq!(rows(&gathered), [(nginx.clone(), 0, 60), (nginx, 1, 120)]);
    }

    #[test]
    fn spellings_of_one_image_are_one_image() {
        let gathered = gathered([series("nginx", &[0]), series("docker.io/library/nginx:latest", &[60])], MONTH);
        assert_eq!(rows(&gathered).iter().map(|(_, _, seconds)| seconds).sum::<u64>(), 120);
        assert_eq!(rows(&gathered)[0].0, "docker.io/library/nginx:latest");
    }

    #[test]
    fn samples_of_another_window_are_dropped_and_counted() {
        let gathered = gathered([series("nginx", &[59, 60, 119, 120])], Window { from: 60, to: 120 });
        assert_eq!((gathered.samples, gathered.outside), (2, 2));
    }

    #[test]
    fn impossible_amounts_are_dropped_and_counted() {
        let Batch::Usage(mut all) = series("nginx", &[0, 60, 120]) else { panic!("no usage") };
        all[0].resource = Resource::Memory;
        for (sample, value) in all[0].samples.iter_mut().zip([1 << 50, (1 << 50) + 1, u64::MAX]) {
            sample.value = value;
        }
        let kill = OomKill { container: all[0].container.clone(), at: 60, memory: u64::MAX };
        let gathered = gathered([Batch::Usage(all), Batch::OomKills(vec![kill])], MONTH);
        assert_eq!((gathered.samples, gathered.impossible.count), (1, 3));
        let said = gathered.impossible.to_string();
        assert_eq!(said, "3 impossible samples, such as memory 1125899906842625 of container web in shop/web-0");
    }

    #[test]
    fn images_with_an_invalid_name_are_reported() {
        let gathered = gathered([series("Not An Image", &[0])], MONTH);
        assert!(gathered.is_empty());
        assert!(gathered.unreadable.contains("Not An Image"));
    }

    #[test]
    fn a_kill_counts_in_its_window() {
        let kill = |at| OomKill { container: container("nginx"), at, memory: 1 << 20 };
        let gathered = gathered([Batch::OomKills(vec![kill(50), kill(70)])], Window { from: 60, to: 120 });
        let (_, row) = gathered.rows().next().unwrap();
        assert_eq!(row.observed.kills().iter().map(|kill| kill.at).collect::<Vec<_>>(), [70]);
    }
}
