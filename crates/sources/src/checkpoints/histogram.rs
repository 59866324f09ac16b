//! The histograms in a checkpoint of the Vertical Pod Autoscaler, version `v3`. Pure.
//!
//! A histogram has 176 buckets, each 5 % wider than the one before; the first ends at 10m of CPU or 10 MB of memory. A
//! checkpoint keeps the buckets' weights relative to each other, and how much they are in all. The autoscaler's own
//! percentiles are the *ends* of buckets, so values from here are rounded up by up to 5 %, as its recommendations are.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use headroom_usage::sample::Resource;

/// The only version whose buckets are known.
pub const VERSION: &str = "v3";

/// Where the first bucket ends: 10m of CPU in nanocores, and 10 MB of memory.
const FIRST: f64 = 10_000_000.0;
const RATIO: f64 = 1.05;
const LAST_BUCKET: u32 = 175;

/// Less than this in all counts as empty; the autoscaler's own threshold.
const EPSILON: f64 = 0.0001;

/// The weight of a sample halves each day, so what is older than this has less than 1/256 of its weight left: however
/// long a checkpoint has been kept, it is no evidence for more days.
const DAYS: u64 = 8;

const DAY_SECONDS: i64 = 86_400;
const MINUTE_SECONDS: u64 = 60;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub first_sample_start: Option<Timestamp>,
    #[serde(default)]
    pub last_sample_start: Option<Timestamp>,
    /// Of CPU, one a minute.
    #[serde(default)]
    pub total_samples_count: u64,
    #[serde(default)]
    pub cpu_histogram: Histogram,
    #[serde(default)]
    pub memory_histogram: Histogram,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Histogram {
    #[serde(default)]
    total_weight: f64,
    #[serde(default)]
    bucket_weights: BTreeMap<u32, u32>,
}

impl Status {
    /// For how many seconds each value was observed: nanocores or bytes, by bucket.
    ///
    /// CPU was observed each minute. Of memory only a day's peak is kept, and that is one observation, worth one
    /// minute: a week of peaks must not pass for hours of samples.
    pub fn buckets(&self, resource: Resource) -> Vec<(u64, u64)> {
        match resource {
            Resource::Cpu => {
                let minutes = self.total_samples_count.min(DAYS * 24 * 60);
                self.cpu_histogram.buckets(minutes * MINUTE_SECONDS)
            }
            Resource::Memory => self.memory_histogram.buckets(self.days() * MINUTE_SECONDS),
            // The autoscaler knows nothing of it.
            Resource::EphemeralStorage => Vec::new(),
        }
    }

    /// How many days' peaks there can be.
    fn days(&self) -> u64 {
        let (Some(first), Some(last)) = (self.first_sample_start, self.last_sample_start) else { return 1 };
        let days = last.duration_since(first).as_secs().div_euclid(DAY_SECONDS) + 1;
        u64::try_from(days).unwrap_or(1).clamp(1, DAYS)
    }
}

impl Histogram {
    /// Shares out the seconds by weight. Rounding carries over from bucket to bucket, so the sum is exact and a
    /// percentile is off by less than a second's weight.
    fn buckets(&self, seconds: u64) -> Vec<(u64, u64)> {
        let weights: f64 = self.bucket_weights.values().map(|&weight| f64::from(weight)).sum();
        if self.total_weight < EPSILON || weights <= 0.0 {
            return Vec::new();
        }
        let mut buckets = Vec::new();
        let (mut running, mut given) = (0.0, 0);
        for (&bucket, &weight) in &self.bucket_weights {
            running += f64::from(weight);
            let until_here = (seconds as f64 * running / weights).round() as u64;
            let here = until_here - given;
            given = until_here;
            if here > 0 {
                buckets.push((end_of(bucket), here));
            }
        }
        buckets
    }
}

/// What the autoscaler answers for a bucket: where the next one starts; of the last, where it starts itself.
fn end_of(bucket: u32) -> u64 {
    let next = bucket.saturating_add(1).min(LAST_BUCKET);
    (FIRST * (RATIO.powi(next as i32) - 1.0) / (RATIO - 1.0)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_where_the_autoscalers_do() {
        // Spot values of the autoscaler's own histograms: where bucket n starts, bucket n - 1 ends.
        let check = |bucket: u32, expected: f64| {
            let end = end_of(bucket - 1) as f64;
            assert!((end - expected).abs() <= expected * 1e-5, "{end} is not {expected}");
        };
        for (bucket, cores) in [(1, 0.01), (2, 0.0205), (10, 0.12578), (50, 2.09348), (100, 26.10025), (175, 1021.109)]
        {
            check(bucket, cores * 1e9);
        }
        for (bucket, bytes) in [
            (1, 1e7),
            (2, 2.05e7),
            (10, 125_778_925.0),
            (50, 2_093_479_957.0),
            (100, 26_100_251_569.0),
            (175, 1_021_109_408_905.0),
        ] {
            check(bucket, bytes);
        }
        assert_eq!(end_of(175), end_of(174));
        assert_eq!(end_of(u32::MAX), end_of(174));
    }

    fn status(days: i64, cpu_samples: u64) -> Status {
        let text = format!(
            r#"{{"version":"v3","firstSampleStart":"2026-11-01T00:00:00Z","lastSampleStart":"{}","totalSamplesCount":{cpu_samples},
                "cpuHistogram":{{"referenceTimestamp":"2026-11-02T00:00:00Z","totalWeight":12.5,"bucketWeights":{{"0":10000,"9":5000,"30":1}}}},
                "memoryHistogram":{{"totalWeight":3,"bucketWeights":{{"20":10000,"21":5000}}}}}}"#,
            "2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_hours(24 * days)
        );
        serde_json::from_str(&text).unwrap()
    }

    fn observed(status: &Status, resource: Resource) -> u64 {
        status.buckets(resource).iter().map(|(_, seconds)| seconds).sum()
    }

    #[test]
    fn cpu_counts_by_the_minute_and_memory_by_the_day() {
        let status = status(3, 1500);
        assert_eq!(status.buckets(Resource::Cpu), [(10_000_000, 59_996), (125_778_925, 29_998), (707_607_899, 6)]);
        assert_eq!(observed(&status, Resource::Cpu), 1500 * 60);
        assert_eq!(observed(&status, Resource::Memory), 4 * 60);
    }

    #[test]
    fn a_year_of_peaks_is_no_hour_of_samples() {
        let status = status(365, 525_600);
        assert_eq!(observed(&status, Resource::Memory), 8 * 60);
        assert_eq!(observed(&status, Resource::Cpu), 8 * 86_400);
    }

    #[test]
    fn an_empty_histogram_says_nothing() {
        let mut status = status(3, 1500);
        status.cpu_histogram.total_weight = 0.0;
        status.memory_histogram.bucket_weights.clear();
        assert_eq!(status.buckets(Resource::Cpu), []);
        assert_eq!(status.buckets(Resource::Memory), []);
    }

    /// The autoscaler's own way, as its documentation tells it: walk up until the running weight reaches the share.
    #[test]
    fn percentiles_are_the_autoscalers_own() {
        let status = status(3, 1500);
        let buckets = status.buckets(Resource::Cpu);
        let total: u64 = buckets.iter().map(|(_, seconds)| seconds).sum();
        for percent in [1_u64, 50, 66, 67, 90, 95, 99] {
            let mut running = 0;
            let found = buckets
                .iter()
                .find(|(_, seconds)| {
                    running += seconds;
                    running * 100 >= percent * total
                })
                .unwrap()
                .0;
            let expected = if percent * 15_001 <= 10_000 * 100 { 10_000_000 } else { 125_778_925 };
            assert_eq!(found, expected, "{percent} %");
        }
    }
}
