//! The amount from a history: the largest of the chosen figures, and what is added to it.

use super::explanation::{Adjustment, Basis, Reason};
use super::{history_lookup, in_usual_suffixes, oom, rounding};
use crate::amount::Quantity;
use crate::cluster::Context;
use crate::cluster::usage::read::{Observed, Unusable};
use crate::cluster::usage::{Percentile, Resource, Window};
use crate::plan::{EstimateTarget, Purpose};
use crate::settings::{EstimateSettings, HistoryOwner, Settings};

/// An amount from the history.
pub struct HistoryEstimate {
    pub quantity: Quantity,
    pub basis: Basis,
}

impl HistoryEstimate {
    /// The largest of the figures, with the margins and what out-of-memory kills add.
    pub fn of(
        chosen: &history_lookup::Chosen<'_>,
        target: EstimateTarget,
        context: &Context<'_>,
        settings: &Settings<'_>,
        adjustments: &mut Vec<Adjustment<'_>>,
    ) -> Result<Self, Unusable> {
        let settings = &settings.estimates;
        let resource = target.resource;
        let is_pool = chosen.owner == HistoryOwner::AllNamespaces;
        let (figure, window, amount) = largest_figure(chosen, resource, settings)?;
        let mut quantity = in_usual_suffixes(amount, resource);
        // Texts have amounts that are easy to read.
        let readable = |quantity: Quantity| quantity.rounded_up_to_multiple_of(&rounding(resource));
        let margin = settings.margin.of(resource);
        if !margin.is_zero() {
            let raised = margin.added_to(&quantity);
            adjustments.push(Adjustment { from: readable(quantity), reason: Reason::Margin(margin.clone()) });
            quantity = raised;
        }
        let mut raise = |quantity: &mut Quantity, to: Quantity, reason: Reason<'static>| {
            if to > *quantity {
                adjustments.push(Adjustment { from: readable(std::mem::replace(quantity, to)), reason });
            }
        };
        // Whoever chooses a percentile chooses it for all pods and all the time together.
        if settings.has_default_percentile(resource) {
            let rounded =
                |amount: Quantity| in_usual_suffixes(amount, resource).rounded_up_to_multiple_of(&rounding(resource));
            let used = match resource {
                // All pods of a workload get the same request, and the percentiles of all together hide one hot pod among many.
                Resource::Cpu => {
                    let used = chosen.observed.busiest()?.map(rounded);
                    used.map(|used| (used.clone(), Reason::BusiestPod { used }))
                }
                Resource::Memory => {
                    let (window, most) = peak_to_cover(target.purpose, is_pool);
                    let observed = observed_in(window, Percentile::PEAK, chosen, resource, settings)?;
                    let peak = observed.map(|observed| observed.peak()).transpose()?;
                    let used = peak.filter(|peak| *peak > quantity.scaled(most, 1)).map(rounded);
                    used.map(|used| (used.clone(), Reason::Peak { used, window }))
                }
                Resource::EphemeralStorage => None,
            };
            if let Some((used, reason)) = used.filter(|(used, _)| *used > quantity) {
                quantity = rounded(quantity);
                raise(&mut quantity, used, reason);
            }
        }
        let by_percent = |quantity: &Quantity, percent: u64| {
            if percent == 0 { quantity.clone() } else { quantity.scaled(100 + percent, 100) }
        };
        if let Some(days) = chosen.history.days()? {
            // Few days say less about namespaces that were not seen at all.
            let share = if is_pool { 2 } else { 1 };
            // Whole percents, so that the reported percentage is exact.
            let percent = share * settings.short_history_margin.of(resource) / days.max(1);
            let raised = by_percent(&quantity, percent);
            raise(&mut quantity, raised, Reason::ShortHistory { percent, days });
        }
        if is_pool {
            let pods = chosen.observed.pods()?;
            let percent = settings.pool.small_sample_margin / pods.max(1);
            let raised = by_percent(&quantity, percent);
            raise(&mut quantity, raised, Reason::FewPods { percent, pods });
        }
        if resource == Resource::Memory
            && let Some(now) = settings.replay_time.or(context.now)
        {
            let kills = chosen.history.oom_kills(chosen.collected_at)?;
            if let Some(raised) = oom::raise(&quantity, &kills, &chosen.observed.peak()?, now) {
                let memory = readable(in_usual_suffixes(raised.killed_at, resource));
                let reason = Reason::OomKill { memory, age: raised.age };
                raise(&mut quantity, raised.to, reason);
            }
        }
        let basis = Basis::History {
            percentile: figure,
            window,
            key: chosen.key.clone(),
            owner: chosen.owner,
            samples: chosen.observed.samples,
            age: chosen.age,
        };
        Ok(Self { quantity, basis })
    }
}

/// The window whose peak of memory a request covers, if that is more than so many times the estimate. A peak of minutes is in
/// no percentile, and one far above the request ends in an out-of-memory kill. What is written into a manifest stays there
/// for weeks, so it covers every peak of its history.
const fn peak_to_cover(purpose: Purpose, is_pool: bool) -> (Window, u64) {
    match purpose {
        Purpose::Manifest if !is_pool => (Window::MONTH, 1),
        _ => (Window::WEEK, 2),
    }
}

/// The largest of the figures that the settings choose and whose windows have samples. If no window has, the percentile
/// of the first figure in the window of the step.
fn largest_figure(
    chosen: &history_lookup::Chosen<'_>,
    resource: Resource,
    settings: &EstimateSettings<'_>,
) -> Result<(Percentile, Window, Quantity), Unusable> {
    let figures = settings.percentile.of(resource);
    let mut largest: Option<(Percentile, Window, Quantity)> = None;
    for figure in figures.iter() {
        let window = figure.window.unwrap_or(chosen.window);
        let Some(observed) = observed_in(window, figure.percentile, chosen, resource, settings)? else { continue };
        let amount = observed.percentile(figure.percentile)?;
        if largest.as_ref().is_none_or(|(_, _, known)| amount > *known) {
            largest = Some((figure.percentile, window, amount));
        }
    }
    match (largest, figures.first()) {
        (Some(largest), _) => Ok(largest),
        (None, first) => {
            let percentile = first.map_or(Percentile::P90, |figure| figure.percentile);
            Ok((percentile, chosen.window, chosen.observed.percentile(percentile)?))
        }
    }
}

/// The usage in a window, if this percentile of it may be used.
fn observed_in<'d>(
    window: Window,
    percentile: Percentile,
    chosen: &history_lookup::Chosen<'d>,
    resource: Resource,
    settings: &EstimateSettings<'_>,
) -> Result<Option<Observed<'d>>, Unusable> {
    let observed =
        if window == chosen.window { Some(chosen.observed) } else { chosen.history.observed(window, resource)? };
    let Some(observed) = observed else { return Ok(None) };
    let is_usable = history_lookup::is_usable(&observed, percentile, chosen.owner, settings)?;
    Ok(is_usable.then_some(observed))
}
