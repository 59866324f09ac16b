//! The replay of a set through each rule, and its table.

use std::collections::BTreeMap;

use headroom_admission::timestamp::Timestamp;
use headroom_resizer::decision::{Amounts, ComputeResource, Rules};
use headroom_usage::DAY;

use super::days::{Pod, Sample};
use super::rules::{Done, Loop, Rule, Running, Unchanged, Vpa};
use crate::replay::product::Ours;
use crate::replay::requests::Requests;

/// The name of a row, the settings of the estimates, and the rule that works with them.
type Variant = (&'static str, &'static str, fn() -> Box<dyn Rule>);

fn own(change: impl Fn(&mut Loop)) -> Box<dyn Rule> {
    let mut rule = Loop::default();
    change(&mut rule);
    Box::new(rule)
}

const P95: &str = "percentile: {cpu: p95 of recent}";
const P90_LEAN: &str = "percentile: {cpu: p90 of recent}, margin: {cpu: 10%}";
const P80_LEAN: &str = "percentile: {cpu: p80 of recent}, margin: {cpu: 10%}";

/// The yardstick is the first.
pub const VARIANTS: [Variant; 12] = [
    ("vpa, in place", "", || Box::<Vpa>::default()),
    ("no tool", "", || Box::<Unchanged>::default()),
    ("headroom resize", "", || own(|_| ())),
    ("  limits: scale", "", || own(|of| of.scales_limits = true)),
    ("limit = request", "", || own(|of| of.limit_is_request = true)),
    ("  limits: scale", "", || own(|of| (of.limit_is_request, of.scales_limits) = (true, true))),
    ("  cpu >= its peak", "", || own(|of| of.keeps_cpu = true)),
    ("  cpu up at once", "", || own(|of| of.rules = Rules { cpu_lacks_percent: 100, ..Rules::default() })),
    ("  cpu never at once", "", || own(|of| of.rules = Rules { cpu_lacks_percent: u64::MAX, ..Rules::default() })),
    ("  p95 of recent", P95, || own(|_| ())),
    ("  p90 + 10%", P90_LEAN, || own(|_| ())),
    ("  p80 + 10%", P80_LEAN, || own(|_| ())),
];

/// The figures of one rule.
#[derive(Debug, Default)]
struct Figures {
    /// By resource: requested, used, samples above the request, samples, usage above it.
    by_resource: [Sums; 2],
    pod_days: f64,
    done: Done,
    kills: usize,
    /// Kills that an earlier, higher limit would have prevented.
    kills_by_decrease: usize,
    /// By resource: the longest time until a container got back what it lacked within ten minutes, in seconds.
    slowest_undo: [i64; 2],
}

#[derive(Debug, Default, Clone)]
struct Sums {
    asked: f64,
    used: f64,
    above: f64,
    count: f64,
    use_above: f64,
    /// Samples by the hundredfold logarithm of use over request.
    by_ratio: BTreeMap<i32, f64>,
}

impl Sums {
    fn add(&mut self, request: u64, used: u64) {
        self.asked += request as f64;
        self.used += used as f64;
        self.count += 1.0;
        self.above += f64::from(u8::from(used > request));
        self.use_above += used.saturating_sub(request) as f64;
        let ratio = (used.max(1) as f64 / request.max(1) as f64).ln() * 100.0;
        *self.by_ratio.entry(ratio.floor() as i32).or_default() += 1.0;
    }

    fn risk(&self) -> f64 {
        self.above / self.count
    }

    /// Returns the sum that is asked for once all requests are multiplied by the factor at which they are above as seldom.
    fn asked_at(&self, risk: f64) -> f64 {
        let mut above = 0.0;
        let least = self.by_ratio.iter().rev().find(|(_, count)| {
            above += **count;
            above > risk * self.count
        });
        self.asked * least.map_or(1.0, |(ratio, _)| (f64::from(ratio + 1) / 100.0).exp())
    }
}

/// The least that anybody could ask for at this risk who knows all usage before, and gives a pod another size each day, in
/// multiples of the usage.
fn with_hindsight(pods: &[Pod], from: i64, resource: ComputeResource, risk: f64) -> f64 {
    let mut days: BTreeMap<(usize, i64), Vec<u64>> = BTreeMap::new();
    for (place, pod) in pods.iter().enumerate() {
        for sample in pod.samples.iter().filter(|sample| sample.at >= from) {
            days.entry((place, sample.at.div_euclid(DAY))).or_default().extend(sample.used.of(resource));
        }
    }
    days.values_mut().for_each(|used| used.sort_unstable());
    let count: f64 = days.values().map(|used| used.len() as f64).sum();
    let used: f64 = days.values().flatten().map(|used| *used as f64).sum();
    // Each sample above costs so much that as many as may be are above.
    let (mut asked, mut low, mut high) = (0.0, 0.0_f64, 1e18_f64);
    for _ in 0..80 {
        let price = (low + high) / 2.0;
        let (mut above, mut sum) = (0.0, 0.0);
        for day in days.values() {
            let all = day.len() as f64;
            let costs =
                day.iter().enumerate().map(|(place, request)| (*request as f64 * all, all - place as f64 - 1.0));
            let best = costs.min_by(|one, other| (one.0 + price * one.1).total_cmp(&(other.0 + price * other.1)));
            let (of, is_above) = best.unwrap_or_default();
            sum += of;
            above += is_above;
        }
        if above > risk * count {
            low = price;
        } else {
            (high, asked) = (price, sum);
        }
    }
    asked / used
}

/// A pod with a request that was lowered.
struct Watched {
    since: i64,
    from: u64,
    lacks_since: Option<i64>,
}

/// `estimates` has those with each of the settings.
pub fn table(set: &str, pods: &[Pod], estimates: &BTreeMap<&str, Ours>) -> String {
    let begins = pods.iter().filter_map(|pod| pod.samples.first()).map(|sample| sample.at).min().unwrap_or(0);
    let ends = pods.iter().filter_map(|pod| pod.samples.last()).map(|sample| sample.at).max().unwrap_or(0);
    // Long sets begin when the first week is known, so that the loop may lower; others with the second day.
    let from = if ends - begins > 14 * DAY { begins.div_euclid(DAY) * DAY + 8 * DAY } else { begins };
    let mut by_image: BTreeMap<&str, Vec<(usize, &Pod)>> = BTreeMap::new();
    for (place, pod) in pods.iter().enumerate() {
        by_image.entry(pod.image.as_str()).or_default().push((place, pod));
    }
    let mut all: [Figures; VARIANTS.len()] = Default::default();
    for (image, of_image) in &by_image {
        for ((_, settings, rule), figures) in VARIANTS.iter().zip(&mut all) {
            let Some(estimates) = estimates.get(settings) else { continue };
            replay(rule().as_mut(), image, of_image, &estimates.admission, from, figures);
        }
    }
    let mut text = text(set, &all);
    for (resource, vpa) in ComputeResource::ALL.into_iter().zip(&all[0].by_resource) {
        if vpa.count > 0.0 {
            let least = with_hindsight(pods, from, resource, vpa.risk());
            let of_vpa = 100.0 * least * vpa.used / vpa.asked;
            text.push_str(&format!(
                "with hindsight, a size a day: {resource:?} asks {least:.2}, {of_vpa:.1} % of vpa\n"
            ));
        }
    }
    text
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
    let rules = Rules::default();
    let mut running: BTreeMap<usize, Running> = BTreeMap::new();
    let mut watched: [BTreeMap<usize, Watched>; 2] = Default::default();
    for (at, samples) in ticks {
        let estimate = estimate(estimates, image, at);
        running.retain(|place, _| samples.iter().any(|(of, _)| of == place));
        for (place, sample) in samples {
            if at >= from && estimate != Amounts::default() && !running.contains_key(&place) {
                let requests = rule.start(estimate);
                running.insert(place, Running::new(at, requests, requests.memory.map(|memory| rule.limit(memory))));
            }
            // Nobody sees more than the limit: there the kernel kills.
            let limit = running.get(&place).and_then(|pod| pod.size.limits.memory);
            let mut seen = sample;
            seen.used.memory = sample.used.memory.map(|used| used.min(limit.unwrap_or(u64::MAX)));
            rule.learn(at, seen, running.get(&place));
            let Some(pod) = running.get_mut(&place) else { continue };
            let step = (at - pod.last.at) as f64;
            pod.observe(seen);
            figures.pod_days += step / DAY as f64;
            for (resource, sums) in ComputeResource::ALL.into_iter().zip(&mut figures.by_resource) {
                if let (Some(request), Some(used)) = (pod.size.requests.of(resource), sample.used.of(resource)) {
                    sums.add(request, used);
                }
            }
            let limit = pod.size.limits.memory.unwrap_or(u64::MAX);
            let used = sample.used.memory.unwrap_or(0);
            if used > limit {
                figures.kills += 1;
                figures.kills_by_decrease += usize::from(used <= pod.highest_limit);
                pod.killed = Some(at);
                pod.restarts += 1;
                rule.kill(at, limit);
            }
        }
        let before: BTreeMap<usize, Amounts> = running.iter().map(|(place, pod)| (*place, pod.size.requests)).collect();
        rule.act(at, estimate, &mut running, &mut figures.done);
        for ((resource, watched), slowest) in
            ComputeResource::ALL.into_iter().zip(&mut watched).zip(&mut figures.slowest_undo)
        {
            for (place, pod) in &running {
                let used = pod.last.used.of(resource);
                let was = before.get(place).and_then(|of| of.of(resource));
                let (Some(is), Some(was), Some(used)) = (pod.size.requests.of(resource), was, used) else { continue };
                if is < was {
                    watched.insert(*place, Watched { since: at, from: was, lacks_since: None });
                    continue;
                }
                let Some(of) = watched.get_mut(place) else { continue };
                if rules.is_lacking(resource, used, was) && at - of.since <= rules.watch {
                    of.lacks_since.get_or_insert(at);
                }
                *slowest = (*slowest).max(at - of.lacks_since.unwrap_or(at));
                let is_over = of.lacks_since.is_some() || at - of.since > rules.watch;
                if is_over && (is >= of.from || !rules.is_lacking(resource, used, is)) {
                    watched.remove(place);
                }
            }
        }
    }
}

/// The estimate of that day.
fn estimate(estimates: &Requests, image: &str, at: i64) -> Amounts {
    let Some(midnight) = Timestamp::from_unix_seconds(at.div_euclid(DAY) * DAY) else { return Amounts::default() };
    let moment = midnight.to_string();
    Amounts {
        cpu: estimates.of(&moment, image, ComputeResource::Cpu).map(|cores| (cores * 1000.0) as u64),
        memory: estimates.of(&moment, image, ComputeResource::Memory).map(|bytes| bytes as u64),
    }
}

fn text(set: &str, all: &[Figures; VARIANTS.len()]) -> String {
    let mut text = format!("\n{set}\n{:18}", "");
    for resource in ["cpu", "mem"] {
        for head in [&format!("{resource} asked"), "of vpa %", "as risky", "time> %", "use> %"] {
            text.push_str(&format!("{head:>10}"));
        }
    }
    let [vpa, ..] = all;
    text.push_str("  changes/pod-day  taken back  kills  by decrease  undone after (cpu, memory)\n");
    for (figures, (name, ..)) in all.iter().zip(&VARIANTS) {
        text.push_str(&format!("{name:18}"));
        for (sums, of_vpa) in figures.by_resource.iter().zip(&vpa.by_resource) {
            for figure in [
                sums.asked / sums.used,
                100.0 * sums.asked / of_vpa.asked,
                100.0 * sums.asked_at(of_vpa.risk()) / of_vpa.asked,
                100.0 * sums.risk(),
                100.0 * sums.use_above / sums.used,
            ] {
                text.push_str(&format!("{figure:10.2}"));
            }
        }
        let Figures { done: Done { changes, taken_back }, kills, kills_by_decrease, slowest_undo, .. } = figures;
        let a_day = *changes as f64 / figures.pod_days;
        let [cpu, memory] = slowest_undo.map(|seconds| seconds / 60);
        text.push_str(&format!("{a_day:17.3}{taken_back:12}{kills:7}{kills_by_decrease:13}{cpu:9} and {memory} min\n"));
    }
    text
}
