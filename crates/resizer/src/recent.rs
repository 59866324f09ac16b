//! The CPU usage of a quarter of an hour. The metrics API knows only seconds, in which a container may start or collect garbage.

use std::collections::{BTreeMap, VecDeque};

use crate::decision::Time;

use crate::running::Usage;

const MINUTE: Time = 60;
const QUARTER: Time = 15 * MINUTE;
/// The least time, and samples in it, that a mean is made of.
const LEAST: (Time, usize) = (10 * MINUTE, 5);

/// The CPU usage of containers, by namespace, uid of the pod and name: at most one sample a minute, in millicores. It is kept by
/// the process alone, so after a restart no CPU is raised for its use before it is known again.
#[derive(Debug, Default)]
pub struct Recent(BTreeMap<String, BTreeMap<(String, String), Samples>>);

type Samples = VecDeque<(Time, u64)>;

impl Recent {
    /// Remembers the usage of pods in a namespace, and adds the means to it. A new pod of a StatefulSet has the name of the last,
    /// and another uid.
    pub fn add(&mut self, namespace: &str, uids: &BTreeMap<&str, &str>, usage: &mut Usage) {
        let known = self.0.entry(namespace.to_owned()).or_default();
        for ((pod, container), used) in usage {
            let Some((uid, cpu)) = uids.get(pod.as_str()).zip(used.amounts.cpu) else { continue };
            let samples = known.entry(((*uid).to_owned(), container.clone())).or_default();
            if samples.back().is_none_or(|(last, _)| used.at - last >= MINUTE) {
                samples.push_back((used.at, cpu));
            }
            samples.retain(|(at, _)| used.at - at <= QUARTER);
            let is_enough = samples.front().is_some_and(|(first, _)| used.at - first >= LEAST.0);
            if is_enough && samples.len() >= LEAST.1 {
                used.mean_cpu = Some(samples.iter().map(|(_, cpu)| cpu).sum::<u64>() / samples.len() as u64);
            }
        }
    }

    /// Forgets containers that are gone.
    pub fn forget_old(&mut self, now: Time) {
        self.0.retain(|_, known| {
            known.retain(|_, samples| samples.back().is_some_and(|(last, _)| now - last <= QUARTER));
            !known.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::decision::{Amounts, Used};

    use super::*;

    fn place() -> (String, String) {
        ("web".to_owned(), "app".to_owned())
    }

    /// The mean after the last of these samples of CPU, by second.
    fn mean(samples: &[(Time, u64)]) -> Option<u64> {
        mean_of(samples, |_| "a")
    }

    fn mean_of(samples: &[(Time, u64)], uid: fn(Time) -> &'static str) -> Option<u64> {
        let (mut recent, mut mean) = (Recent::default(), None);
        for (at, cpu) in samples.iter().copied() {
            let amounts = Amounts { cpu: Some(cpu), memory: None };
            let mut usage = Usage::from([(place(), Used { at, amounts, ..Used::default() })]);
            recent.add("shop", &BTreeMap::from([("web", uid(at))]), &mut usage);
            mean = usage.into_values().next().and_then(|used| used.mean_cpu);
        }
        mean
    }

    #[test]
    fn cpu_lasts_a_quarter_of_an_hour() {
        let every =
            |step: Time, until: Time| (0..=until).step_by(step as usize).map(|at| (at, 100)).collect::<Vec<_>>();
        assert_eq!(mean(&every(15, 590)), None);
        assert_eq!(mean(&every(15, 600)), Some(100));
        assert_eq!(mean(&every(300, 1200)), None, "too few samples");
        let mut spike = every(60, 840);
        spike.push((900, 1700));
        assert_eq!(mean(&spike), Some(200));
        spike.extend(every(60, 900).into_iter().map(|(at, cpu)| (at + 960, cpu)));
        assert_eq!(mean(&spike), Some(100), "a spike is forgotten");
        assert_eq!(mean_of(&every(60, 1140), |at| if at < 900 { "a" } else { "b" }), None, "a new pod");
        let mut recent =
            Recent(BTreeMap::from([("shop".to_owned(), BTreeMap::from([(place(), VecDeque::from([(0, 1)]))]))]));
        recent.forget_old(900);
        assert_eq!(recent.0.len(), 1);
        recent.forget_old(901);
        assert!(recent.0.is_empty());
    }
}
