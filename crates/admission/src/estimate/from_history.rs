//! The amount from a history: the largest of the chosen figures, and what is added to it.

use std::borrow::Cow;

use super::explanation::{Adjustment, AdjustmentReason, Basis};
use super::history_lookup::Chosen;
use super::{history_lookup, in_usual_suffixes, oom, readable, rounding};
use crate::amount::Quantity;
use crate::cluster::Context;
use crate::cluster::usage::read::{EachPod, Observed};
use crate::cluster::usage::{Percentile, Resource, Window};
use crate::json::Malformed;
use crate::settings::{EstimateSettings, HistoryOwner, Margin, Settings};

/// The largest of the figures, with the margins and what out-of-memory kills add.
pub fn estimate(
    chosen: &Chosen<'_>,
    resource: Resource,
    context: &Context<'_>,
    settings: &Settings<'_>,
    adjustments: &mut Vec<Adjustment<'_>>,
) -> Result<(Quantity, Basis), Malformed> {
    let settings = &settings.estimates;
    let is_pool = chosen.owner == HistoryOwner::AllNamespaces;
    let days = chosen.history.days()?;
    let mut windows = Windows::of(chosen, settings);
    let mut figure = windows.largest_figure()?;
    let pods = windows.each_pod()?;
    let needs = pods.map(|pods| pods.needs()).transpose()?.map(|needs| in_usual_suffixes(needs, resource));
    let mut margin = match &needs {
        Some(needs) if settings.has_default_rule(resource) => {
            Cow::Owned(if figure.amount > *needs { MARGIN_OF_RISEN_LOAD } else { NO_MARGIN })
        }
        _ => Cow::Borrowed(settings.margin.of(resource)),
    };
    let mut quantity = margin.added_to(&figure.amount);
    if pods.is_none()
        && let Some((most, smaller)) = windows.bound(days)?
    {
        let bound = smaller.added_to(&most.amount);
        if bound < quantity {
            (figure, margin, quantity) = (most, Cow::Owned(smaller), bound);
        }
    }
    // Texts have amounts that are easy to read.
    let rounded = |quantity: Quantity| quantity.rounded_up_to_multiple_of(&rounding(resource));
    let Figure { percentile, window, amount } = figure;
    if !margin.is_zero() {
        adjustments.push(Adjustment { from: rounded(amount), reason: AdjustmentReason::Margin(margin.into_owned()) });
    }
    let mut raise = |quantity: &mut Quantity, to: Quantity, reason: AdjustmentReason<'static>| {
        if to > *quantity {
            adjustments.push(Adjustment { from: rounded(std::mem::replace(quantity, to)), reason });
        }
    };
    // Whoever chooses a percentile chooses it for all pods and all the time together.
    if settings.has_default_percentile(resource) {
        let used = match resource {
            // All pods of a workload get the same request, and the percentiles of all together hide one hot pod among many.
            Resource::Cpu => {
                let used = if pods.is_some() { needs } else { chosen.observed.busiest()? };
                used.map(|used| readable(used, resource))
                    .map(|used| (used.clone(), AdjustmentReason::BusiestPod { used }))
            }
            Resource::Memory => {
                let (window, most) = peak_to_cover(is_pool);
                let observed = windows.with(window, Percentile::PEAK)?;
                let peak = observed.map(|observed| observed.peak()).transpose()?;
                let used = peak.filter(|peak| *peak > quantity.scaled(most, 1)).map(|peak| readable(peak, resource));
                used.map(|used| (used.clone(), AdjustmentReason::Peak { used, window }))
            }
            Resource::EphemeralStorage => None,
        };
        if let Some((used, reason)) = used.filter(|(used, _)| *used > quantity) {
            quantity = readable(quantity, resource);
            raise(&mut quantity, used, reason);
        }
    }
    if let Some(pods) = pods.filter(|_| settings.has_default_percentile(resource)) {
        if settings.has_default_rule(resource) {
            let raised = MARGIN_OF_EACH_POD.added_to(&quantity);
            raise(&mut quantity, raised, AdjustmentReason::Margin(MARGIN_OF_EACH_POD));
        }
        if let Some(a_day) = pods.growth()? {
            let raised = quantity.plus(&a_day.scaled(DAYS_OF_GROWTH, 1));
            let a_day = readable(a_day, resource);
            raise(&mut quantity, raised, AdjustmentReason::Growth { a_day });
        }
    }
    let by_percent = |quantity: &Quantity, percent: u64| {
        if percent == 0 { quantity.clone() } else { quantity.scaled(100 + percent, 100) }
    };
    // Nothing is added where it is known how much each pod needs.
    if let Some(days) = days.filter(|_| pods.is_none()) {
        // Few days say less about namespaces that were not seen at all.
        let share = if is_pool { 2 } else { 1 };
        // Percents for a history of one day; half of them for two days, and so on.
        let of_one_day = if resource == Resource::Cpu { 5 } else { 10 };
        // Whole percents, so that the reported percentage is exact.
        let percent = share * of_one_day / days.max(1);
        let raised = by_percent(&quantity, percent);
        raise(&mut quantity, raised, AdjustmentReason::ShortHistory { percent, days });
    }
    if is_pool {
        let pods = chosen.observed.pods()?;
        let percent = PERCENT_OF_ONE_POD / pods.max(1);
        let raised = by_percent(&quantity, percent);
        raise(&mut quantity, raised, AdjustmentReason::FewPods { percent, pods });
    }
    if resource == Resource::Memory
        && let Some(now) = settings.replay_time.or(context.now)
    {
        let kills = chosen.history.oom_kills(chosen.collected_at)?;
        if let Some((to, kill)) = oom::raise(&quantity, &kills, &chosen.observed.peak()?, now) {
            let memory = readable(kill.memory.clone(), resource);
            let age = now.since(kill.at).unwrap_or_default();
            raise(&mut quantity, to, AdjustmentReason::OomKill { memory, age });
        }
    }
    let basis = Basis::History {
        percentile,
        window,
        key: chosen.key.clone(),
        owner: chosen.owner,
        samples: chosen.observed.samples,
        age: chosen.age,
    };
    Ok((quantity, basis))
}

/// Percents that are added to figures of one pod of other namespaces; half of them for two pods, and so on.
const PERCENT_OF_ONE_POD: u64 = 100;

/// The window whose peak of memory a request covers, if that is more than so many times the estimate. A peak of minutes is in
/// no percentile, and one far above the request ends in an out-of-memory kill. Of its own history, a request covers every peak.
const fn peak_to_cover(is_pool: bool) -> (Window, u64) {
    if is_pool { (Window::Week, 2) } else { (Window::Month, 1) }
}

const NO_MARGIN: Margin = Margin { percent: 0, amount: Quantity::ZERO };

/// The margin, where each pod is known: small differences are chance.
const MARGIN_OF_EACH_POD: Margin = Margin { percent: 0, amount: Quantity::from_milli(10) };

/// The margin, where each pod is known, on figures of all pods together that are above what each needs: load has risen since.
const MARGIN_OF_RISEN_LOAD: Margin = Margin { percent: 5, amount: Quantity::ZERO };

/// A request covers so many days more of CPU usage that grows steadily.
const DAYS_OF_GROWTH: u64 = 7;

/// After so many days of its own history, it is known what a container uses.
const KNOWN_DAYS: u64 = 7;

/// The figure of such a history, and an addition to it, above which nothing is estimated: margins are for what was not seen.
/// None for storage, of which too little was recorded.
const fn bound(resource: Resource) -> Option<(Percentile, Window, Margin)> {
    match resource {
        // Usage that grows, or that pauses at weekends, is above p99 of what was more often. Only where pods are not known.
        Resource::Cpu => Some((Percentile::P99_9, Window::Recent, NO_MARGIN)),
        Resource::Memory => {
            let some = Margin { percent: 10, amount: Quantity::from_bytes(16 << 20) };
            Some((Percentile::PEAK, Window::Month, some))
        }
        Resource::EphemeralStorage => None,
    }
}

/// The rule for a history of a workload's own, in words. A percentile that somebody chose is one of each pod if all of them are
/// known (`knows_pods`).
pub fn rule_in_words(settings: &EstimateSettings<'_>, resource: Resource, knows_pods: bool) -> String {
    let is_cpu = resource == Resource::Cpu;
    let figures: Vec<String> = settings.percentile.of(resource).iter().map(ToString::to_string).collect();
    let mut text = match figures.as_slice() {
        [one] => one.clone(),
        several => format!("the larger of {},", several.join(" and ")),
    };
    let mut add = |words: &str| text.push_str(words);
    let is_default = settings.has_default_rule(resource);
    if knows_pods && is_cpu && !settings.has_default_percentile(resource) {
        add(" of each pod");
    }
    let margin = settings.margin.of(resource);
    if is_cpu && is_default {
        add(&format!(" + {MARGIN_OF_RISEN_LOAD} where load has risen"));
    } else if !margin.is_zero() {
        add(&format!(" + {margin}"));
    }
    if let Some((percentile, window, margin)) = bound(resource)
        && is_default
        && !is_cpu
    {
        add(&format!(", from {KNOWN_DAYS} days on at most {percentile} of {window} + {margin}"));
    }
    add(&format!("; at least {}", settings.min.of(resource)));
    if settings.has_default_percentile(resource) {
        let (window, _) = peak_to_cover(false);
        match resource {
            Resource::Cpu => {
                add(", and enough for 92.5% of each pod's time");
                if is_default {
                    add(&format!(" + {MARGIN_OF_EACH_POD}"));
                }
                add(", with a week of steady growth");
            }
            Resource::Memory => add(&format!(", and the peak of {window}")),
            Resource::EphemeralStorage => {}
        }
    }
    text
}

/// A percentile of the usage in a window.
struct Figure {
    percentile: Percentile,
    window: Window,
    amount: Quantity,
}

/// The windows of a history. Each is looked up once, because that costs as much as reading two of its figures.
struct Windows<'a, 'd> {
    chosen: &'a Chosen<'d>,
    settings: &'a EstimateSettings<'a>,
    found: Vec<(Window, Option<Observed<'d>>)>,
}

impl<'a, 'd> Windows<'a, 'd> {
    fn of(chosen: &'a Chosen<'d>, settings: &'a EstimateSettings<'a>) -> Self {
        let mut found = Vec::with_capacity(Window::PUBLISHED.len());
        found.push((chosen.window, Some(chosen.observed)));
        Self { chosen, settings, found }
    }

    fn get(&mut self, window: Window) -> Result<Option<Observed<'d>>, Malformed> {
        if let Some((_, found)) = self.found.iter().find(|(known, _)| *known == window) {
            return Ok(*found);
        }
        let found = self.chosen.history.observed(window, self.chosen.observed.resource)?;
        self.found.push((window, found));
        Ok(found)
    }

    /// The usage in a window, if this percentile of it may be used.
    fn with(&mut self, window: Window, percentile: Percentile) -> Result<Option<Observed<'d>>, Malformed> {
        let Some(observed) = self.get(window)? else { return Ok(None) };
        let is_usable = history_lookup::is_usable(&observed, percentile, self.chosen.owner)?;
        Ok(is_usable.then_some(observed))
    }

    /// The needs of each pod, as far as pods are known: in the history of a namespace.
    fn each_pod(&mut self) -> Result<Option<EachPod<'d>>, Malformed> {
        if self.chosen.owner == HistoryOwner::AllNamespaces || self.chosen.observed.resource != Resource::Cpu {
            return Ok(None);
        }
        Ok(self.get(Window::Recent)?.map(|recent| recent.each_pod()).transpose()?.flatten())
    }

    /// The largest of the figures that the settings choose and whose windows have samples. If no window has, the percentile
    /// of the first figure in the window of the step.
    fn largest_figure(&mut self) -> Result<Figure, Malformed> {
        let Chosen { window: of_step, observed, .. } = self.chosen;
        let resource = observed.resource;
        let figures = self.settings.percentile.of(resource);
        let mut largest: Option<Figure> = None;
        for choice in figures.iter() {
            let (percentile, window) = (choice.percentile, choice.window.unwrap_or(*of_step));
            let Some(observed) = self.with(window, percentile)? else { continue };
            // A percentile that somebody chose holds for each pod where pods are known, and the peak is all that was seen.
            let mut amount = observed.percentile(percentile)?;
            if !self.settings.has_default_percentile(resource) {
                let pods = self.each_pod()?;
                let of_each_pod = pods.map(|pods| pods.percentile(percentile)).transpose()?.flatten();
                let not_covered = if percentile == Percentile::PEAK { observed.not_covered()? } else { None };
                amount = of_each_pod.unwrap_or(amount).max(not_covered.unwrap_or(Quantity::ZERO));
            }
            let amount = in_usual_suffixes(amount, resource);
            if largest.as_ref().is_none_or(|known| amount > known.amount) {
                largest = Some(Figure { percentile, window, amount });
            }
        }
        if let Some(largest) = largest {
            return Ok(largest);
        }
        let percentile = figures.first().map_or(Percentile::P90, |choice| choice.percentile);
        let amount = in_usual_suffixes(observed.percentile(percentile)?, resource);
        Ok(Figure { percentile, window: *of_step, amount })
    }

    /// A figure of the container's own history, if that is long enough to bound what is estimated from it.
    fn bound(&mut self, days: Option<u64>) -> Result<Option<(Figure, Margin)>, Malformed> {
        let resource = self.chosen.observed.resource;
        let is_known = self.chosen.owner == HistoryOwner::OwnNamespace && days.is_some_and(|days| days >= KNOWN_DAYS);
        if !is_known || !self.settings.has_default_rule(resource) {
            return Ok(None);
        }
        let Some((percentile, window, margin)) = bound(resource) else { return Ok(None) };
        let Some(observed) = self.get(window)? else { return Ok(None) };
        let amount = observed.percentile_if_any(percentile)?.map(|amount| in_usual_suffixes(amount, resource));
        Ok(amount.map(|amount| (Figure { percentile, window, amount }, margin)))
    }
}
