//! Requests by the documented rules of other recommenders, from the usage before a moment.
//!
//! KRR's strategy `simple` with its defaults: of each container the 95th percentile of CPU and the peak of memory with 15% more, over 14
//! days; of the pods of a workload the largest. At least 10m and 100Mi.

use std::collections::BTreeMap;

use headroom_resizer::decision::ComputeResource;
use headroom_usage::DAY;

use super::requests::{ByMoment, Requests};
use super::traces::{Set, time};
use crate::Result;
use crate::measure::MIB;
use crate::vpa::Recommender;

const KRR_HISTORY: i64 = 14 * DAY;
const KRR_PERCENTILE: f64 = 0.95;
const KRR_MEMORY_MARGIN: f64 = 1.15;
const KRR_LEAST_CPU: f64 = 0.01;
const KRR_LEAST_MEMORY: f64 = 100.0 * MIB;

/// The pods of an image.
struct ImageUsage {
    vpa: Recommender,
    pods: BTreeMap<String, PodUsage>,
}

#[derive(Default)]
struct PodUsage {
    /// In cores, by time.
    cpu: Vec<(i64, f64)>,
    /// The peak of each day in bytes, and when it was.
    memory: BTreeMap<i64, (i64, f64)>,
}

/// The requests of VPA, with which all are compared, and of KRR, at the start of each recording except the first.
pub fn requests(set: &Set) -> Result<[Requests; 2]> {
    let mut images: BTreeMap<String, ImageUsage> = BTreeMap::new();
    let (mut vpa, mut krr) = (ByMoment::new(), ByMoment::new());
    for file in &set.files {
        let at = |of: &dyn Fn(&ImageUsage) -> BTreeMap<String, f64>| {
            images.iter().map(|(image, usage)| (image.clone(), of(usage))).collect()
        };
        if !images.is_empty() {
            vpa.insert(file.moment(), at(&ImageUsage::by_vpa));
            krr.insert(file.moment(), at(&|usage| usage.by_krr(file.begins - KRR_HISTORY)));
        }
        add(&mut images, &file.lines()?)?;
    }
    let named = |name: &str, by_moment| Requests { name: name.to_owned(), by_moment };
    Ok([named("vpa by its rule", vpa), named("krr by its rule", krr)])
}

fn add(images: &mut BTreeMap<String, ImageUsage>, recording: &str) -> Result<()> {
    let mut peaks: BTreeMap<(String, String, i64), (i64, f64)> = BTreeMap::new();
    for line in recording.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, namespace, pod, container, image, cpu, memory] = fields.as_slice() else { continue };
        let (at, pod) = (time(line)?, format!("{namespace}/{pod}/{container}"));
        let usage = images
            .entry((*image).to_owned())
            .or_insert_with(|| ImageUsage { vpa: Recommender::new(at), pods: BTreeMap::new() });
        if let Ok(cpu) = cpu.parse::<f64>() {
            usage.vpa.add_cpu(at, cpu * 1000.0, 0.0);
            usage.pods.entry(pod.clone()).or_default().cpu.push((at, cpu));
        }
        if let Ok(memory) = memory.parse::<f64>() {
            let peak = peaks.entry(((*image).to_owned(), pod, at.div_euclid(DAY))).or_insert((at, memory));
            if memory > peak.1 {
                *peak = (at, memory);
            }
        }
    }
    for ((image, pod, day), peak) in peaks {
        let Some(usage) = images.get_mut(&image) else { continue };
        usage.vpa.add_peak(peak.0, peak.1);
        usage.pods.entry(pod).or_default().memory.insert(day, peak);
    }
    Ok(())
}

impl ImageUsage {
    fn by_vpa(&self) -> BTreeMap<String, f64> {
        let has_memory = self.pods.values().any(|pod| !pod.memory.is_empty());
        let memory = has_memory.then(|| self.vpa.memory().target);
        amounts(Some(self.vpa.cpu().target / 1000.0), memory)
    }

    fn by_krr(&self, from: i64) -> BTreeMap<String, f64> {
        let largest = |of: &dyn Fn(&PodUsage) -> Option<f64>| self.pods.values().filter_map(of).max_by(f64::total_cmp);
        let cpu = largest(&|pod| pod.cpu_percentile(from));
        let memory = largest(&|pod| {
            let peaks = pod.memory.values().filter(|(at, _)| *at >= from);
            peaks.map(|(_, peak)| *peak).max_by(f64::total_cmp)
        });
        let cpu = cpu.map(|cpu| (cpu * 1000.0).ceil() / 1000.0).map(|cpu| cpu.max(KRR_LEAST_CPU));
        let memory = memory.map(|memory| (memory * KRR_MEMORY_MARGIN / MIB).ceil() * MIB);
        amounts(cpu, memory.map(|memory| memory.max(KRR_LEAST_MEMORY)))
    }
}

impl PodUsage {
    /// Between the two nearest samples, as Prometheus does it.
    fn cpu_percentile(&self, from: i64) -> Option<f64> {
        let mut sorted: Vec<f64> = self.cpu.iter().filter(|(at, _)| *at >= from).map(|(_, cpu)| *cpu).collect();
        sorted.sort_by(f64::total_cmp);
        let rank = KRR_PERCENTILE * sorted.len().checked_sub(1)? as f64;
        let (below, above) = (sorted.get(rank as usize)?, sorted.get(rank.ceil() as usize)?);
        Some(below + (above - below) * rank.fract())
    }
}

fn amounts(cpu: Option<f64>, memory: Option<f64>) -> BTreeMap<String, f64> {
    let of = |resource: ComputeResource, amount: Option<f64>| Some((resource.name().to_owned(), amount?));
    [of(ComputeResource::Cpu, cpu), of(ComputeResource::Memory, memory)].into_iter().flatten().collect()
}
