//! The recommender of the VerticalPodAutoscaler with its defaults: histograms of usage in which weights halve in a day.
//!
//! <https://github.com/kubernetes/autoscaler/tree/master/vertical-pod-autoscaler>

const DAY: f64 = 86_400.0;
const MARGIN: f64 = 1.15;
const GROWTH: f64 = 1.05;

/// A histogram whose bounds grow by a twentieth.
#[derive(Debug, Clone)]
struct Histogram {
    first: f64,
    weights: Vec<f64>,
}

impl Histogram {
    fn new(first: f64) -> Self {
        Self { first, weights: vec![0.0; 180] }
    }

    fn add(&mut self, value: f64, weight: f64) {
        let place =
            if value < self.first { 0.0 } else { (value * (GROWTH - 1.0) / self.first + 1.0).ln() / GROWTH.ln() };
        let last = self.weights.len() - 1;
        if let Some(of) = self.weights.get_mut(last.min(place as usize)) {
            *of += weight;
        }
    }

    /// The upper end of the bucket with the percentile.
    fn percentile(&self, share: f64) -> f64 {
        let least = share * self.weights.iter().sum::<f64>();
        let mut sum = 0.0;
        let place = self.weights.iter().position(|weight| {
            sum += weight;
            sum >= least && *weight > 0.0
        });
        self.first * (GROWTH.powf(place.unwrap_or(0) as f64 + 1.0) - 1.0) / (GROWTH - 1.0)
    }
}

/// The usage of one image, as the recommender keeps it.
#[derive(Debug, Clone)]
pub struct Recommender {
    began: f64,
    cpu: Histogram,
    memory: Histogram,
    /// The day and the peak of memory that is already in the histogram.
    peak: (i64, f64),
    last: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Recommendation {
    lower: f64,
    pub target: f64,
    upper: f64,
}

impl Recommendation {
    /// Returns true if the updater changes this request: it is out of bounds, or a tenth off in a pod older than half a day.
    pub fn changes(&self, request: f64, age: i64) -> bool {
        let is_out = request < self.lower || request > self.upper;
        is_out || age as f64 > DAY / 2.0 && (request - self.target).abs() >= 0.1 * request
    }
}

impl Recommender {
    pub fn new(at: i64) -> Self {
        Self {
            began: at as f64,
            cpu: Histogram::new(10.0),
            memory: Histogram::new(1e7),
            peak: (i64::MIN, 0.0),
            last: at as f64,
        }
    }

    /// A sample weighs as much as its container requests.
    pub fn add_cpu(&mut self, at: i64, used: f64, request: f64) {
        let weight = ((at as f64 - self.began) / DAY).exp2();
        self.cpu.add(used, weight * request.max(100.0));
        self.last = self.last.max(at as f64);
    }

    /// Only the largest amount of a day counts.
    pub fn add_memory(&mut self, at: i64, used: f64) {
        let day = self.day(at);
        if self.peak.0 == day {
            if used <= self.peak.1 {
                return;
            }
            self.memory.add(self.peak.1, -(day as f64).exp2());
        }
        self.add_peak(at, used);
        self.peak = (day, used);
    }

    /// Adds the largest amount of a pod on the day of a moment.
    pub fn add_peak(&mut self, at: i64, used: f64) {
        self.memory.add(used, (self.day(at) as f64).exp2());
        self.last = self.last.max(at as f64);
    }

    fn day(&self, at: i64) -> i64 {
        (at - self.began as i64).div_euclid(DAY as i64)
    }

    pub fn cpu(&self) -> Recommendation {
        self.recommendation(&self.cpu, 25.0)
    }

    pub fn memory(&self) -> Recommendation {
        self.recommendation(&self.memory, 250.0 * 1024.0 * 1024.0)
    }

    fn recommendation(&self, of: &Histogram, least: f64) -> Recommendation {
        let days = ((self.last - self.began) / DAY).max(1e-3);
        let at = |share: f64| of.percentile(share) * MARGIN;
        Recommendation {
            lower: (at(0.5) * (1.0 + 0.001 / days).powi(-2)).max(least),
            target: at(0.9).max(least),
            upper: (at(0.95) * (1.0 + 1.0 / days)).max(least),
        }
    }
}
