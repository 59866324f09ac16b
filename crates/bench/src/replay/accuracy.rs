//! Accuracy of requests, compared with later usage, and its table.

use std::collections::{BTreeMap, BTreeSet};

use headroom_resizer::decision::ComputeResource;

use super::requests::Requests;
use super::traces::Used;

const HEADS: [&str; 9] = ["asked", "time>", "pods>", "busiest>", "peak>", "use>", "typical", "as risky", "+use"];

/// The amounts that one pod used, sorted.
struct Pod {
    /// Its image and the time of the request.
    of: (String, String),
    amounts: Vec<f64>,
    /// Prefix sums of the amounts.
    sums: Vec<f64>,
}

/// The pods, with the column's request for each.
struct Column<'a> {
    pods: &'a [Pod],
    requests: Vec<f64>,
}

/// Shares in percent.
struct Risk {
    /// Time with usage above the request.
    time: f64,
    /// Pods above it for more than a twentieth of their time.
    pods: f64,
    /// Usage above the request.
    used: f64,
}

/// The figures of each column of requests, for the pods with a request in every column; empty if there are none. The first of the
/// columns is the yardstick, the last ours.
pub fn table(set: &str, used: &[Used], columns: &[&Requests], resource: ComputeResource) -> String {
    let mut pods = Vec::new();
    let mut requests: Vec<Vec<f64>> = columns.iter().map(|_| Vec::new()).collect();
    for one in used {
        let wanted = columns.iter().map(|column| column.of(&one.moment, &one.image, resource));
        let Some(wanted) = wanted.collect::<Option<Vec<f64>>>() else { continue };
        pods.push(Pod::of(one));
        requests.iter_mut().zip(wanted).for_each(|(requests, wanted)| requests.push(wanted));
    }
    let measured: Vec<Column<'_>> = requests.into_iter().map(|requests| Column { pods: &pods, requests }).collect();
    let Some(yardstick) = measured.first().filter(|_| !pods.is_empty()) else { return String::new() };
    // Each image at each moment counts.
    let images: BTreeSet<(&str, &str)> = used.iter().map(|one| (one.moment.as_str(), one.image.as_str())).collect();
    let is_without =
        |(moment, image): &&(&str, &str)| columns.last().is_some_and(|ours| ours.of(moment, image, resource).is_none());
    let mut text = format!(
        "\n{set} {}: {} of {} pods have a request; headroom has none for {} of {} images\n{:16}",
        resource.name(),
        pods.len(),
        used.len(),
        images.iter().filter(is_without).count(),
        images.len(),
        ""
    );
    HEADS.iter().for_each(|head| text.push_str(&format!("{head:>10}")));
    text.push('\n');
    for (column, requests) in columns.iter().zip(&measured) {
        let Risk { time, pods, used } = requests.risk(1.0);
        text.push_str(&format!("{:16}", column.name));
        let (busiest_above, peaks_above) = (requests.busiest_above(), requests.peaks_above());
        for figure in [requests.asked(), time, pods, busiest_above, peaks_above, used, requests.typical()] {
            text.push_str(&format!("{figure:10.2}"));
        }
        for with_use in [false, true] {
            let percent = requests.as_risky(yardstick, with_use);
            let percent = percent.map_or_else(|| "never".to_owned(), |percent| format!("{percent:.1}"));
            text.push_str(&format!("{percent:>10}"));
        }
        text.push('\n');
    }
    text
}

impl Pod {
    fn of(used: &Used) -> Self {
        let mut amounts = used.amounts.clone();
        amounts.sort_by(f64::total_cmp);
        let mut sum = 0.0;
        let sums = std::iter::once(0.0).chain(amounts.iter().map(|amount| {
            sum += amount;
            sum
        }));
        Self { of: (used.moment.clone(), used.image.clone()), sums: sums.collect(), amounts }
    }

    fn count(&self) -> f64 {
        self.amounts.len() as f64
    }

    fn sum(&self) -> f64 {
        self.sums.last().copied().unwrap_or_default()
    }

    fn peak(&self) -> f64 {
        self.amounts.last().copied().unwrap_or_default()
    }

    /// The number of amounts above a request, and the sum of the excess.
    fn above(&self, request: f64) -> (f64, f64) {
        let within = self.amounts.partition_point(|amount| *amount <= request);
        let above = (self.amounts.len() - within) as f64;
        let by = self.sum() - self.sums.get(within).copied().unwrap_or_default() - above * request;
        (above, by)
    }
}

impl Column<'_> {
    fn each(&self) -> impl Iterator<Item = (&Pod, f64)> {
        self.pods.iter().zip(self.requests.iter().copied())
    }

    /// The share of pods whose peak is more than a fifth above the request, in percent.
    fn peaks_above(&self) -> f64 {
        let above = self.each().filter(|(pod, request)| pod.peak() > 1.2 * request).count();
        100.0 * above as f64 / self.pods.len() as f64
    }

    /// The median of requested over used, by pod.
    fn typical(&self) -> f64 {
        let mut ratios: Vec<f64> =
            self.each().map(|(pod, request)| request * pod.count() / pod.sum().max(1e-9)).collect();
        ratios.sort_by(f64::total_cmp);
        median(&ratios)
    }

    /// The share of images whose busiest pod is above its request for more than a tenth of its time, in percent.
    fn busiest_above(&self) -> f64 {
        let mut is_above: BTreeMap<&(String, String), bool> = BTreeMap::new();
        for (pod, request) in self.each() {
            *is_above.entry(&pod.of).or_default() |= pod.above(request).0 > 0.1 * pod.count();
        }
        100.0 * is_above.values().filter(|is_above| **is_above).count() as f64 / is_above.len() as f64
    }

    /// Requested over used, for all pods and all time.
    fn asked(&self) -> f64 {
        let asked: f64 = self.each().map(|(pod, request)| pod.count() * request).sum();
        asked / self.pods.iter().map(Pod::sum).sum::<f64>()
    }

    fn risk(&self, scale: f64) -> Risk {
        let (mut time, mut pods, mut used) = (0.0, 0.0, 0.0);
        for (pod, request) in self.each() {
            let (above, by) = pod.above(request * scale);
            time += above;
            used += by;
            pods += f64::from(above > 0.05 * pod.count());
        }
        let all_time: f64 = self.pods.iter().map(Pod::count).sum();
        let all_use: f64 = self.pods.iter().map(Pod::sum).sum();
        let percent = |part: f64, whole: f64| 100.0 * part / whole;
        Risk {
            time: percent(time, all_time),
            pods: percent(pods, self.pods.len() as f64),
            used: percent(used, all_use),
        }
    }

    /// The sum of requests in percent of the yardstick's, after multiplying all requests by the factor that makes the risk in time
    /// and pods, and perhaps in usage, no larger than the yardstick's. None if there is no such factor.
    fn as_risky(&self, yardstick: &Self, with_use: bool) -> Option<f64> {
        const HALVINGS: u32 = 14;
        let most = yardstick.risk(1.0);
        let is_safe = |scale: f64| {
            let risk = self.risk(scale);
            let is_no_more = |mine: f64, its: f64| mine <= its + 1e-9;
            is_no_more(risk.time, most.time)
                && is_no_more(risk.pods, most.pods)
                && (!with_use || is_no_more(risk.used, most.used))
        };
        let (mut low, mut high) = (0.2_f64, 5.0_f64);
        if !is_safe(high) {
            return None;
        }
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            if is_safe(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(100.0 * high * self.asked() / yardstick.asked())
    }
}

fn median(sorted: &[f64]) -> f64 {
    let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (at(middle.wrapping_sub(1)) + at(middle)) / 2.0 } else { at(middle) }
}
