//! Compares the estimates of running containers with their later usage.
//!
//! Estimates are read from an annotation, which anybody who may write a pod may write. So only possible values are accepted, and
//! they affect only the figures of their own namespace.

mod sums;

use std::collections::{BTreeMap, HashMap};

use headroom_core::amount::Quantity;
use headroom_core::annotations::headroom_annotation;
use headroom_core::cluster::usage::read::is_possible;
use headroom_core::estimate::is_of_estimate;
use headroom_core::image::Repository;
use headroom_core::request::Requirement;

use crate::sample::{self, Container, Resource, Series, Window};
use crate::varint::{self, Damaged};

pub use self::sums::{Sum, Sums, published};

/// The estimates of running pods.
#[derive(Debug, Default)]
pub struct Estimates {
    /// By namespace and name.
    pods: HashMap<String, HashMap<String, Estimated>>,
}

/// The estimates of one pod.
#[derive(Debug)]
struct Estimated {
    /// Unix seconds of the creation of the pod. Another pod of this name may have run before.
    since: i64,
    amounts: Vec<(String, Resource, u64)>,
}

impl Estimates {
    /// Adds the estimates in a pod's annotation.
    pub fn add(&mut self, namespace: &str, pod: &str, since: i64, annotation: &str) {
        if annotation.len() > headroom_annotation::MAX_LENGTH {
            return;
        }
        let mut amounts = Vec::new();
        headroom_annotation::read(annotation, |claim| {
            if claim.requirement == Requirement::Request && is_of_estimate(claim.reason) {
                let amount = amount(claim.resource, claim.value);
                amounts.extend(amount.map(|(resource, amount)| (claim.container.to_owned(), resource, amount)));
            }
        });
        if !amounts.is_empty() {
            let of_namespace = self.pods.entry(namespace.to_owned()).or_default();
            of_namespace.insert(pod.to_owned(), Estimated { since, amounts });
        }
    }

    /// The number of pods with estimates.
    pub fn pods(&self) -> usize {
        self.pods.values().map(HashMap::len).sum()
    }

    /// The estimate of a container, and the time since which it holds.
    fn of(&self, container: &Container, resource: Resource) -> Option<(u64, i64)> {
        let Estimated { since, amounts } = self.pods.get(&container.namespace)?.get(&container.pod)?;
        let mut amounts = amounts.iter();
        let (.., amount) = amounts.find(|(name, of, _)| *name == container.name && *of == resource)?;
        Some((*amount, *since))
    }

    /// Compares the usage of a container in a window; none if it has no estimate or was not seen since.
    pub fn compare(&self, series: &Series, window: Window) -> Option<Comparison> {
        let (estimate, since) = self.of(&series.container, series.resource)?;
        let mut compared = Compared { estimate, ..Compared::default() };
        let mut last_seen = 0;
        for sample in series.samples.iter().filter(|sample| window.contains(sample.time) && sample.time >= since) {
            if !sample::is_possible(sample.value, series.resource) {
                continue;
            }
            compared.add(sample.value, series.step_seconds.into());
            last_seen = last_seen.max(sample.time);
        }
        let is_seen = compared.seconds > 0;
        is_seen.then(|| Comparison { last_seen, resources: BTreeMap::from([(series.resource, compared)]) })
    }
}

fn amount(resource: &str, value: &str) -> Option<(Resource, u64)> {
    let resource = Resource::ALL.into_iter().find(|of| of.name() == resource)?;
    let quantity: Quantity = value.parse().ok().filter(|quantity| is_possible(quantity, resource))?;
    Some((resource, sample::amount(resource, &quantity)?))
}

/// A compared container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ComparedPlace {
    pub repository: Repository,
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// The estimates of a container, and its usage since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Unix seconds of the newest sample.
    pub last_seen: i64,
    pub resources: BTreeMap<Resource, Compared>,
}

/// The comparison of one resource, in nanocores or bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    pub estimate: u64,
    /// The observed time.
    pub seconds: u64,
    /// The time with usage above the estimate.
    pub seconds_above: u64,
    /// The sum of the usage in each second.
    pub used: u128,
}

impl Compared {
    fn add(&mut self, amount: u64, seconds: u64) {
        self.seconds = self.seconds.saturating_add(seconds);
        if amount > self.estimate {
            self.seconds_above = self.seconds_above.saturating_add(seconds);
        }
        self.used = self.used.saturating_add(u128::from(amount) * u128::from(seconds));
    }

    /// The average usage.
    pub fn mean(&self) -> u64 {
        u64::try_from(self.used.checked_div(self.seconds.into()).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// Adds later usage. With another estimate it is another pod of that name, or a resized one, and replaces the former.
    fn merge(&mut self, later: &Self) {
        if self.estimate != later.estimate {
            *self = later.clone();
            return;
        }
        self.seconds = self.seconds.saturating_add(later.seconds);
        self.seconds_above = self.seconds_above.saturating_add(later.seconds_above);
        self.used = self.used.saturating_add(later.used);
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Self { estimate, seconds, seconds_above, used } = self;
        for number in [*estimate, *seconds, *seconds_above, (used >> 64) as u64, *used as u64] {
            varint::write(out, number);
        }
    }

    fn read(rest: &mut &[u8]) -> Result<Self, Damaged> {
        let (estimate, seconds, seconds_above) = (varint::read(rest)?, varint::read(rest)?, varint::read(rest)?);
        let used = u128::from(varint::read(rest)?) << 64 | u128::from(varint::read(rest)?);
        Ok(Self { estimate, seconds, seconds_above, used })
    }
}

impl Comparison {
    pub fn merge(&mut self, later: &Self) {
        self.last_seen = self.last_seen.max(later.last_seen);
        for (resource, later) in &later.resources {
            match self.resources.get_mut(resource) {
                Some(ours) => ours.merge(later),
                None => drop(self.resources.insert(*resource, later.clone())),
            }
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        varint::write(out, self.last_seen.max(0) as u64);
        for resource in Resource::ALL {
            let compared = self.resources.get(&resource);
            varint::write(out, compared.is_some().into());
            compared.iter().for_each(|compared| compared.write(out));
        }
    }

    pub fn read(mut rest: &[u8]) -> Result<Self, Damaged> {
        let rest = &mut rest;
        let last_seen = i64::try_from(varint::read(rest)?).map_err(|_| Damaged)?;
        let mut resources = BTreeMap::new();
        for resource in Resource::ALL {
            match varint::read(rest)? {
                0 => {}
                1 => drop(resources.insert(resource, Compared::read(rest)?)),
                _ => return Err(Damaged),
            }
        }
        if rest.is_empty() { Ok(Self { last_seen, resources }) } else { Err(Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    const ALL: Window = Window { from: 0, to: 1_000 };

    fn estimates(annotation: &str) -> Estimates {
        let mut estimates = Estimates::default();
        estimates.add("shop", "web-0", 100, annotation);
        estimates
    }

    fn series(resource: Resource, samples: &[(i64, u64)]) -> Series {
        let container =
            Container { namespace: "shop".into(), pod: "web-0".into(), name: "web".into(), image: "nginx".into() };
        let samples = samples.iter().map(|(time, value)| Sample { time: *time, value: *value }).collect();
        Series { container, resource, samples, step_seconds: 60 }
    }

    #[test]
    fn only_requests_that_were_estimated_are_compared() {
        let check = |annotation: &str, expected: Option<u64>| {
            let found = estimates(annotation).compare(&series(Resource::Memory, &[(100, 1)]), ALL);
            let found = found.map(|comparison| comparison.resources[&Resource::Memory].estimate);
            assert_eq!(found, expected, "{annotation}");
        };
        check(
            r#"{"web":{"requests.memory":"1Ki: p90 of 7d nginx in this namespace, 60 samples, 1h old"}}"#,
            Some(1024),
        );
        check(r#"{"web":{"requests.memory":"1Ki: typical for this image: chart"}}"#, Some(1024));
        check(r#"{"web":{"requests.memory":"1Ki: default of LimitRange limits"}}"#, None);
        check(r#"{"web":{"limits.memory":"1Ki: p90 of 7d nginx in this namespace"}}"#, None);
        check(r#"{"web":{"requests.cpu":"1: p90 of 7d nginx in this namespace"}}"#, None);
        check(r#"{"db":{"requests.memory":"1Ki: p90 of 7d nginx in this namespace"}}"#, None);
        check("not JSON", None);
    }

    #[test]
    fn impossible_values_are_no_estimates() {
        for value in ["-1", "1Ei", "1e400", "x", ""] {
            let text = format!(r#"{{"web":{{"requests.memory":"{value}: typical for this image: by hand"}}}}"#);
            assert_eq!(estimates(&text).pods(), 0, "{value}");
        }
        let long = format!(r#"{{{}"web":{{"requests.memory":"1: typical for this image: x"}}}}"#, " ".repeat(1024));
        assert_eq!(estimates(&long).pods(), 0);
    }

    #[test]
    fn samples_outside_the_window_or_before_the_pod_do_not_count() {
        let estimates = estimates(r#"{"web":{"requests.cpu":"100n: peak of 7d nginx in this namespace"}}"#);
        let window = Window { from: 0, to: 300 };
        let samples = [(99, 500), (100, 100), (200, 101), (299, 99), (300, 500)];
        let found = estimates.compare(&series(Resource::Cpu, &samples), window).unwrap();
        let cpu = &found.resources[&Resource::Cpu];
        assert_eq!((found.last_seen, cpu.seconds, cpu.seconds_above, cpu.mean()), (299, 180, 60, 100));
        assert_eq!(estimates.compare(&series(Resource::Cpu, &[(99, 500)]), window), None);
    }

    #[test]
    fn another_estimate_begins_anew() {
        let compared = |estimate, amount| {
            let mut compared = Compared { estimate, ..Compared::default() };
            compared.add(amount, 60);
            Comparison { last_seen: 1, resources: BTreeMap::from([(Resource::Cpu, compared)]) }
        };
        let mut whole = compared(100, 50);
        whole.merge(&compared(100, 150));
        let cpu = &whole.resources[&Resource::Cpu];
        assert_eq!((cpu.seconds, cpu.seconds_above, cpu.mean()), (120, 60, 100));
        whole.merge(&compared(200, 150));
        assert_eq!(whole, compared(200, 150));
    }

    #[test]
    fn what_is_written_is_read_whatever_it_is() {
        let huge = Compared { estimate: u64::MAX, seconds: u64::MAX, seconds_above: 1, used: u128::MAX };
        let one = |resource| BTreeMap::from([(resource, huge.clone())]);
        let mut whole = Comparison { last_seen: i64::MAX, resources: one(Resource::Cpu) };
        let mut out = Vec::new();
        whole.write(&mut out);
        assert_eq!(Comparison::read(&out), Ok(whole.clone()));
        assert_eq!(Comparison::read(&out[..out.len() - 1]), Err(Damaged));
        out.push(0);
        assert_eq!(Comparison::read(&out), Err(Damaged));
        whole.merge(&Comparison { last_seen: 0, resources: one(Resource::Cpu) });
        whole.merge(&Comparison { last_seen: 0, resources: one(Resource::Memory) });
        let means: Vec<u64> = whole.resources.values().map(Compared::mean).collect();
        assert_eq!(means, [u64::MAX; 2]);
    }
}
