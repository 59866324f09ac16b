//! `estimates`: whether, and from which history, containers without resources get requests.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::SettingsReader;
use crate::amount::{Quantity, read_quantity};
use crate::cluster::usage::{Percentile, Resource, Window};
use crate::find;
use crate::json::{Malformed, Node};
use crate::timestamp::Timestamp;

#[derive(Debug, Clone)]
pub struct EstimateSettings<'d> {
    pub mode: EstimateMode,
    /// `always.namespaces`: patterns of the namespaces in which an estimate replaces what an author set. Others, and pods,
    /// may ask for it themselves.
    pub replaced_in: Vec<Cow<'d, str>>,
    /// Only report estimates, set nothing.
    pub dry_run: bool,
    pub resources: PerResource<bool>,
    /// The largest of these figures is used.
    pub percentile: PerResource<Cow<'static, [PercentileChoice]>>,
    /// The amount that is added to the figure.
    pub margin: PerResource<Margin>,
    pub min: PerResource<Quantity>,
    /// The first step with enough samples decides. Empty without a `namespace`.
    pub history: Cow<'static, [LookupStep]>,
    pub scope: HistoryScope,
    pub well_known_images: bool,
    /// Older profiles are not used.
    pub max_age: Duration,
    /// The namespace in which the collector stores the history. None if there is no collector; then nothing is read,
    /// because a policy host asks the API server every time for an object that does not exist.
    pub namespace: Option<Cow<'d, str>>,
    /// True if an estimate above what a quota has left shrinks to that. Otherwise the quota evaluates it.
    pub shrink_to_quota: bool,
    /// The time to use instead of the clock's, for replays of recorded requests.
    pub replay_time: Option<Timestamp>,
}

/// When estimates are made. Ordered, because a namespace or a pod may ask for fewer than the settings, not for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EstimateMode {
    Never,
    /// If the author set neither request nor limit.
    IfNotSet,
    /// Also if the author set a value: reported beside it, and set in its place where that is asked for.
    Always,
}

impl EstimateMode {
    pub const WORDS: &[(&str, Self)] =
        &[("ifNotSet", Self::IfNotSet), ("always", Self::Always), ("never", Self::Never)];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryScope {
    /// In each step the history of the pod's own namespace, then that of all namespaces.
    NamespaceFirst,
    Namespace,
    Cluster,
}

const SCOPES: &[(&str, HistoryScope)] = &[
    ("namespaceFirst", HistoryScope::NamespaceFirst),
    ("namespace", HistoryScope::Namespace),
    ("cluster", HistoryScope::Cluster),
];

/// The namespaces whose containers were observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryOwner {
    OwnNamespace,
    AllNamespaces,
}

impl HistoryOwner {
    pub fn place(self) -> &'static str {
        match self {
            Self::OwnNamespace => "in this namespace",
            Self::AllNamespaces => "in all namespaces",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentileChoice {
    pub percentile: Percentile,
    /// The window; the step's if not given.
    pub window: Option<Window>,
}

/// `p95 of 30d`, `p95`
impl fmt::Display for PercentileChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.window {
            Some(window) => write!(f, "{} of {window}", self.percentile),
            None => self.percentile.fmt(f),
        }
    }
}

/// `90`, `p99.9 of 7d`, `peak of 30d`
impl FromStr for PercentileChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (percentile, window) = match find::split_once(text, " of ") {
            Some((percentile, window)) => (percentile, Some(window.trim())),
            None => (text, None),
        };
        let percentile = percentile.trim().parse::<Percentile>()?;
        let unknown = "expected `of` one of `recent`, `7d`, `30d`, such as `p90 of recent`";
        let window = window.map(|window| Window::named(window).ok_or(unknown)).transpose()?;
        Ok(Self { percentile, window })
    }
}

const fn figure(percentile: Percentile, window: Window) -> PercentileChoice {
    PercentileChoice { percentile, window: Some(window) }
}

/// A container's recent usual load, and that of a week, so that a weekend does not hide the load of office hours.
const CPU_FIGURES: &[PercentileChoice] =
    &[figure(Percentile::P90, Window::Recent), figure(Percentile::P80, Window::Week)];
/// All but minutes of recent days; and peaks of a month that lasted hours, such as at its beginning.
const MEMORY_FIGURES: &[PercentileChoice] =
    &[figure(Percentile::P99_9, Window::Recent), figure(Percentile::P99, Window::Month)];

/// Logs and scratch files grow until they are rotated, so the peak counts.
const STORAGE_FIGURES: &[PercentileChoice] =
    &[figure(Percentile::PEAK, Window::Week), figure(Percentile::P98, Window::Month)];

/// The addition to a measured amount: a percentage, and a fixed amount, which matters for small amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Margin {
    pub percent: u64,
    pub amount: Quantity,
}

impl Margin {
    pub fn is_zero(&self) -> bool {
        self.percent == 0 && self.amount.is_zero()
    }

    pub fn added_to(&self, amount: &Quantity) -> Quantity {
        amount.scaled(100 + self.percent, 100).plus(&self.amount)
    }
}

/// `10% + 25m`
impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { percent, amount } if amount.is_zero() => write!(f, "{percent}%"),
            Self { percent: 0, amount } => write!(f, "{amount}"),
            Self { percent, amount } => write!(f, "{percent}% + {amount}"),
        }
    }
}

/// `10%`, `25m`, or both: `10% + 25m`. A plain number means percents.
impl FromStr for Margin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected whole percents from 0 to 1000, an amount, or both, such as `10% + 64Mi`";
        let (first, second) = match text.split_once('+') {
            Some((first, second)) => (first.trim(), Some(second.trim())),
            None => (text.trim(), None),
        };
        let (percent, amount) = match (first.strip_suffix('%'), second) {
            (Some(digits), amount) => (percents(digits).ok_or(EXPECTED)?, amount),
            (None, None) => percents(first).map_or((0, Some(first)), |percent| (percent, None)),
            (None, Some(_)) => return Err(EXPECTED),
        };
        let amount = amount.map_or(Ok(Quantity::ZERO), str::parse).map_err(|_| EXPECTED)?;
        if amount.is_negative() { Err(EXPECTED) } else { Ok(Self { percent, amount }) }
    }
}

/// One step of the search for history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupStep {
    pub window: Window,
    pub matching: HistoryMatch,
    pub samples: u64,
    /// The scope of this step, if it differs from the one for all steps.
    pub scope: Option<HistoryScope>,
}

/// The containers that a step takes the history of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryMatch {
    /// The same container of the pod's own workload, with any tag, in its namespace.
    Workload,
    /// Containers with the same digest, then those with the same tag.
    Tag,
    /// Containers with any tag.
    Image,
}

const MATCHINGS: &[(&str, HistoryMatch)] =
    &[("workload", HistoryMatch::Workload), ("tag", HistoryMatch::Tag), ("image", HistoryMatch::Image)];

const DEFAULT_HISTORY: &[LookupStep] = &[
    LookupStep { window: Window::Week, matching: HistoryMatch::Workload, samples: 60, scope: None },
    LookupStep { window: Window::Month, matching: HistoryMatch::Workload, samples: 60, scope: None },
    LookupStep { window: Window::Week, matching: HistoryMatch::Tag, samples: 60, scope: None },
    LookupStep { window: Window::Month, matching: HistoryMatch::Tag, samples: 60, scope: None },
    LookupStep { window: Window::Month, matching: HistoryMatch::Image, samples: 1, scope: None },
];

#[derive(Debug, Clone)]
pub struct PerResource<T> {
    pub cpu: T,
    pub memory: T,
    pub ephemeral_storage: T,
}

impl<T> PerResource<T> {
    pub fn of(&self, resource: Resource) -> &T {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
            Resource::EphemeralStorage => &self.ephemeral_storage,
        }
    }
}

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

impl EstimateSettings<'_> {
    /// True if nobody chose a percentile for this resource.
    pub fn has_default_percentile(&self, resource: Resource) -> bool {
        matches!(self.percentile.of(resource), Cow::Borrowed(_))
    }

    /// True if nobody chose a margin for this resource, either.
    pub fn has_default_rule(&self, resource: Resource) -> bool {
        self.has_default_percentile(resource) && self.margin.of(resource) == DEFAULT_MARGIN.of(resource)
    }
}

const MARGIN_OF_BYTES: Margin = Margin { percent: 10, amount: Quantity::from_bytes(64 << 20) };
const DEFAULT_MARGIN: PerResource<Margin> = PerResource {
    cpu: Margin { percent: 10, amount: Quantity::from_milli(25) },
    memory: MARGIN_OF_BYTES,
    ephemeral_storage: MARGIN_OF_BYTES,
};

impl Default for EstimateSettings<'_> {
    fn default() -> Self {
        Self {
            mode: EstimateMode::IfNotSet,
            replaced_in: Vec::new(),
            dry_run: false,
            // Few sources have the usage of storage.
            resources: PerResource { cpu: true, memory: true, ephemeral_storage: false },
            percentile: PerResource {
                cpu: Cow::Borrowed(CPU_FIGURES),
                memory: Cow::Borrowed(MEMORY_FIGURES),
                ephemeral_storage: Cow::Borrowed(STORAGE_FIGURES),
            },
            margin: DEFAULT_MARGIN,
            min: PerResource {
                cpu: Quantity::from_milli(10),
                memory: Quantity::from_bytes(32 << 20),
                ephemeral_storage: Quantity::from_bytes(32 << 20),
            },
            history: Cow::Borrowed(&[]),
            scope: HistoryScope::NamespaceFirst,
            well_known_images: true,
            max_age: 15 * DAY,
            namespace: None,
            shrink_to_quota: false,
            replay_time: None,
        }
    }
}

impl<'d> EstimateSettings<'d> {
    pub(super) fn read(section: &mut SettingsReader<'_, 'd>) -> Self {
        let default = Self::default();
        // An empty list is a valid choice: then only the table of well-known images is used.
        let has_history = !section.lacks("history");
        let history = section.sections("history", LookupStep::read);
        let replaced_in = section.section("always", |always| always.patterns("namespaces", "-*"));
        let mut read = Self {
            mode: section.choice("mode", EstimateMode::WORDS, default.mode),
            replaced_in: replaced_in.unwrap_or_default(),
            dry_run: section.flag("dryRun", default.dry_run),
            resources: section.field("resources", read_resources).unwrap_or(default.resources),
            percentile: read_figures(section, default.percentile),
            margin: section.per_resource("margin", default.margin, |node| {
                node.scalar()?.parse().map_err(|expected| node.expected_as(&expected))
            }),
            min: section.per_resource("min", default.min, read_amount),
            history: if has_history { Cow::Owned(history) } else { Cow::Borrowed(DEFAULT_HISTORY) },
            scope: section.choice("scope", SCOPES, default.scope),
            well_known_images: section.flag("wellKnownImages", default.well_known_images),
            max_age: section.field("maxAge", read_duration).unwrap_or(default.max_age),
            namespace: section.string("namespace"),
            shrink_to_quota: section.flag("shrinkToQuota", default.shrink_to_quota),
            replay_time: section.field("replayTime", Timestamp::read),
        };
        read.contradictions(section, has_history);
        if read.namespace.is_none() {
            read.history = default.history;
        }
        read
    }

    fn contradictions(&self, section: &mut SettingsReader<'_, '_>, history_is_set: bool) {
        if self.mode == EstimateMode::Never && self.dry_run {
            section.problem("dryRun", "has no effect, because `mode` is `never`: remove one of them");
        }
        if !self.replaced_in.is_empty() && self.mode != EstimateMode::Always {
            section.problem("always.namespaces", "has no effect, because `mode` is not `always`: remove one of them");
        }
        if !Resource::ALL.iter().any(|resource| *self.resources.of(*resource)) {
            section.problem("resources", "is empty, so nothing would be estimated: choose `mode: never` instead");
        }
        if self.history.is_empty() && !self.well_known_images {
            section.problem("history", "is empty and `wellKnownImages` is off: choose `mode: never` instead");
        }
        match self.namespace.as_deref() {
            None if !section.lacks("namespace") => {}
            Some("") => section.problem("namespace", "is empty: name the namespace that the collector runs in"),
            Some(name) => section.expect_name("namespace", name, "-"),
            None if history_is_set && !self.history.is_empty() => {
                section
                    .problem("history", "has no effect without `namespace`, the namespace that the collector runs in");
            }
            None if self.mode != EstimateMode::Never && !self.history.is_empty() && !self.well_known_images => {
                let problem = "is not set and `wellKnownImages` is off, so nothing would be estimated: name the namespace \
                               that the collector runs in, or choose `mode: never`";
                section.problem("namespace", problem);
            }
            _ => {}
        }
        for (index, step) in self.history.iter().enumerate() {
            let is_covered = self.history.iter().take(index).any(|earlier| {
                (earlier.window, earlier.matching, earlier.scope) == (step.window, step.matching, step.scope)
                    && earlier.samples <= step.samples
            });
            if is_covered {
                let problem = "is unreachable: an earlier step already matches with as few samples";
                section.problem(&format!("history[{index}]"), problem);
            }
        }
    }

    /// True if estimates replace what authors set, where that is asked for.
    pub fn replaces(&self) -> bool {
        self.mode == EstimateMode::Always && !self.dry_run
    }

    pub fn scope_of(&self, step: &LookupStep) -> HistoryScope {
        step.scope.unwrap_or(self.scope)
    }

    /// True if any step uses this history.
    pub fn reads(&self, owner: HistoryOwner) -> bool {
        let elsewhere = match owner {
            HistoryOwner::OwnNamespace => HistoryScope::Cluster,
            HistoryOwner::AllNamespaces => HistoryScope::Namespace,
        };
        self.history.iter().any(|step| self.scope_of(step) != elsewhere)
    }
}

impl LookupStep {
    fn read(step: &mut SettingsReader<'_, '_>) -> Self {
        let read = Self {
            window: step.choice("window", &[("7d", Window::Week), ("30d", Window::Month)], Window::Week),
            matching: step.choice("match", MATCHINGS, HistoryMatch::Tag),
            samples: step.field("samples", read_count).unwrap_or(60),
            scope: step.field("scope", Ok).map(|_| step.choice("scope", SCOPES, HistoryScope::Namespace)),
        };
        for name in ["window", "match"] {
            if step.lacks(name) {
                step.problem(name, "is missing");
            }
        }
        read
    }
}

impl<'d> SettingsReader<'_, 'd> {
    fn per_resource<T>(
        &mut self,
        name: &'static str,
        mut values: PerResource<T>,
        read: impl Fn(Node<'d>) -> Result<T, Malformed>,
    ) -> PerResource<T> {
        self.section(name, |section| {
            let PerResource { cpu, memory, ephemeral_storage } = &mut values;
            for (name, value) in [("cpu", cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage)] {
                if let Some(read) = section.field(name, &read) {
                    *value = read;
                }
            }
        });
        values
    }
}

/// Reads the same percentile for all resources, or a separate one for each.
fn read_figures(
    section: &mut SettingsReader<'_, '_>,
    default: PerResource<Cow<'static, [PercentileChoice]>>,
) -> PerResource<Cow<'static, [PercentileChoice]>> {
    let read = |node: Node<'_>| {
        let figure = node.scalar()?.parse().map_err(|error: String| node.expected_as(&error));
        Ok(Cow::Owned(vec![figure?]))
    };
    match section.field("percentile", Ok) {
        Some(node) if node.fields().is_ok() => section.per_resource("percentile", default, read),
        Some(_) => match section.field("percentile", read) {
            Some(all) => PerResource { cpu: all.clone(), memory: all.clone(), ephemeral_storage: all },
            None => default,
        },
        None => default,
    }
}

fn read_resources(list: Node<'_>) -> Result<PerResource<bool>, Malformed> {
    let mut resources = PerResource { cpu: false, memory: false, ephemeral_storage: false };
    for item in list.items()? {
        match item.str()?.as_ref() {
            "cpu" => resources.cpu = true,
            "memory" => resources.memory = true,
            "ephemeral-storage" => resources.ephemeral_storage = true,
            _ => return Err(item.expected("`cpu`, `memory` or `ephemeral-storage`")),
        }
    }
    Ok(resources)
}

fn percents(digits: &str) -> Option<u64> {
    const MAX: u64 = 1_000;
    digits.parse().ok().filter(|percent| *percent <= MAX)
}

fn read_amount(node: Node<'_>) -> Result<Quantity, Malformed> {
    let amount = read_quantity(node)?;
    if amount.is_negative() { Err(node.expected("an amount that is not negative")) } else { Ok(amount) }
}

fn read_count(node: Node<'_>) -> Result<u64, Malformed> {
    let count = node.integer()?;
    u64::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| node.expected("a whole number above 0"))
}

/// `15d` or `36h`
fn read_duration(node: Node<'_>) -> Result<Duration, Malformed> {
    let expected = || node.expected("a number of days or hours above 0, such as `15d` or `36h`");
    let text = node.str()?;
    let (digits, unit) = match (text.strip_suffix('d'), text.strip_suffix('h')) {
        (Some(days), _) => (days, DAY),
        (None, Some(hours)) => (hours, HOUR),
        (None, None) => return Err(expected()),
    };
    let count: u16 = digits.parse().map_err(|_| expected())?;
    if count == 0 { Err(expected()) } else { Ok(unit * u32::from(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_margins_are_read_as_they_are_written() {
        let percentile = |text: &str| text.parse::<PercentileChoice>().ok().map(|choice| choice.to_string());
        let margin = |text: &str| text.parse::<Margin>().ok().map(|margin| margin.to_string());
        let check = |found: Option<String>, expected: Option<&str>| assert_eq!(found.as_deref(), expected);
        check(percentile("p95"), Some("p95"));
        check(percentile("99.9 of recent"), Some("p99.9 of recent"));
        check(percentile("peak of 7d"), Some("peak of 7d"));
        check(percentile("p42"), None);
        check(percentile("p95 of 3d"), None);
        check(margin("15"), Some("15%"));
        check(margin("10%+64Mi"), Some("10% + 64Mi"));
        check(margin("25m"), Some("25m"));
        check(margin("1000%"), Some("1000%"));
        for wrong in ["much", "-5%", "10 + 5m", "-1Mi", "1001%", "5% + -1m", ""] {
            check(margin(wrong), None);
        }
    }
}
