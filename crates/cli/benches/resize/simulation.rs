//! The replay of a set through each rule, and its table.

use std::collections::BTreeMap;

use headroom_core::timestamp::Timestamp;
use headroom_resize::{Amounts, Resource};

use super::days::{Pod, Sample};
use super::replay::requests::Requests;
use super::replay::traces::Resource as Column;
use super::rules::{Krr, Loop, Rule, Running, Static, Vpa};

const DAY: i64 = 86_400;

/// The figures of one rule.
#[derive(Debug, Default)]
struct Figures {
    name: &'static str,
    /// By resource: requested, used, samples above the request, samples, usage above it.
    by_resource: [Sums; 2],
    pod_days: f64,
    changes: usize,
    taken_back: usize,
    kills: usize,
    /// Kills that an earlier, higher limit would have prevented.
    kills_by_decrease: usize,
    /// The longest time with usage above a request that was lowered in the ten minutes before, in seconds.
    slowest_undo: i64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    asked: f64,
    used: f64,
    above: f64,
    count: f64,
    use_above: f64,
}

pub fn table(set: &str, pods: &[Pod], estimates: &Requests) -> String {
    let begins = pods.iter().filter_map(|pod| pod.samples.first()).map(|sample| sample.at).min().unwrap_or(0);
    let ends = pods.iter().filter_map(|pod| pod.samples.last()).map(|sample| sample.at).max().unwrap_or(0);
    // Long sets begin when the first week is known, so that the loop may lower; others with the second day.
    let from = if ends - begins > 14 * DAY { begins.div_euclid(DAY) * DAY + 8 * DAY } else { begins };
    let mut by_image: BTreeMap<&str, Vec<(usize, &Pod)>> = BTreeMap::new();
    for (place, pod) in pods.iter().enumerate() {
        by_image.entry(pod.image.as_str()).or_default().push((place, pod));
    }
    let mut all: [Figures; 4] = Default::default();
    for (image, pods) in &by_image {
        let rules: [Box<dyn Rule>; 4] =
            [Box::<Vpa>::default(), Box::<Krr>::default(), Box::new(Static), Box::<Loop>::default()];
        for (mut rule, figures) in rules.into_iter().zip(&mut all) {
            figures.name = rule.name();
            replay(rule.as_mut(), image, pods, estimates, from, figures);
        }
    }
    text(set, &all)
}

fn replay(
    rule: &mut dyn Rule,
    image: &str,
    pods: &[(usize, &Pod)],
    estimates: &Requests,
    from: i64,
    figures: &mut Figures,
) {
    let mut ticks: BTreeMap<i64, Vec<(usize, Sample)>> = BTreeMap::new();
    for (place, pod) in pods {
        for sample in &pod.samples {
            ticks.entry(sample.at).or_default().push((*place, *sample));
        }
    }
    let mut running: BTreeMap<usize, Running> = BTreeMap::new();
    let mut lowered: BTreeMap<usize, i64> = BTreeMap::new();
    for (at, samples) in ticks {
        let estimate = estimate(estimates, image, at);
        running.retain(|place, _| samples.iter().any(|(of, _)| of == place));
        for (place, sample) in samples {
            if at >= from && estimate != Amounts::default() && !running.contains_key(&place) {
                let Amounts { cpu, memory } = rule.start(at, estimate);
                running.insert(place, Running::new(at, cpu, memory));
            }
            // Nobody sees more than the limit: there the kernel kills.
            let limit = running.get(&place).and_then(|pod| pod.size.limits.memory);
            let seen = Sample { memory: sample.memory.map(|used| used.min(limit.unwrap_or(u64::MAX))), ..sample };
            rule.learn(at, seen, running.get(&place));
            let Some(pod) = running.get_mut(&place) else { continue };
            let step = (at - pod.last.at) as f64;
            pod.observe(seen);
            figures.pod_days += step / DAY as f64;
            let amounts = [(Resource::Cpu, sample.cpu), (Resource::Memory, sample.memory)];
            for ((resource, used), sums) in amounts.into_iter().zip(&mut figures.by_resource) {
                let (Some(request), Some(used)) = (pod.size.requests.of(resource), used) else { continue };
                sums.asked += request as f64;
                sums.used += used as f64;
                sums.count += 1.0;
                sums.above += f64::from(u8::from(used > request));
                sums.use_above += used.saturating_sub(request) as f64;
            }
            let limit = pod.size.limits.memory.unwrap_or(u64::MAX);
            let used = sample.memory.unwrap_or(0);
            if used > limit {
                figures.kills += 1;
                figures.kills_by_decrease += usize::from(used <= pod.highest_limit);
                pod.killed = Some(at);
                pod.restarts += 1;
                rule.kill(at, limit);
            }
        }
        let before: BTreeMap<usize, Amounts> = running.iter().map(|(place, pod)| (*place, pod.size.requests)).collect();
        let done = rule.act(at, estimate, &mut running);
        figures.changes += done.changes;
        figures.taken_back += done.taken_back;
        for (place, pod) in &running {
            let is_less = |resource: Resource| {
                pod.size.requests.of(resource) < before.get(place).and_then(|before| before.of(resource))
            };
            let lacks = pod.last.memory > pod.size.requests.memory.or(Some(u64::MAX));
            if Resource::ALL.into_iter().any(is_less) {
                lowered.insert(*place, at);
            } else if let Some(since) = lowered.get(place).filter(|_| lacks) {
                figures.slowest_undo = figures.slowest_undo.max(at - since);
            } else {
                lowered.remove(place);
            }
        }
    }
}

/// The estimate of that day.
fn estimate(estimates: &Requests, image: &str, at: i64) -> Amounts {
    let Some(midnight) = Timestamp::from_unix_seconds(at.div_euclid(DAY) * DAY) else { return Amounts::default() };
    let moment = midnight.to_string();
    Amounts {
        cpu: estimates.of(&moment, image, Column::Cpu).map(|cores| (cores * 1000.0) as u64),
        memory: estimates.of(&moment, image, Column::Memory).map(|bytes| bytes as u64),
    }
}

fn text(set: &str, all: &[Figures; 4]) -> String {
    let mut text = format!("\n{set}\n{:16}", "");
    for head in ["cpu asked", "of vpa %", "time> %", "use> %", "mem asked", "of vpa %", "time> %", "use> %"] {
        text.push_str(&format!("{head:>10}"));
    }
    let [vpa, ..] = all;
    text.push_str("  changes/pod-day  taken back  kills  by decrease  undone after\n");
    for figures in all {
        text.push_str(&format!("{:16}", figures.name));
        for (sums, of_vpa) in figures.by_resource.iter().zip(vpa.by_resource) {
            for figure in [
                sums.asked / sums.used,
                100.0 * sums.asked / of_vpa.asked,
                100.0 * sums.above / sums.count,
                100.0 * sums.use_above / sums.used,
            ] {
                text.push_str(&format!("{figure:10.2}"));
            }
        }
        let Figures { changes, pod_days, taken_back, kills, kills_by_decrease, slowest_undo, .. } = figures;
        let a_day = *changes as f64 / pod_days;
        let minutes = slowest_undo / 60;
        text.push_str(&format!("{a_day:17.3}{taken_back:12}{kills:7}{kills_by_decrease:13}{minutes:10} min\n"));
    }
    text
}
