//! Reads a whole day for the collector: each container's percentiles, which the store makes, in the place of its samples.
//!
//! Namespaces in which a container had no image that is known, or several, are left to be read sample by sample.

use std::collections::{BTreeMap, BTreeSet};

use headroom_usage::DAY;
use headroom_usage::sample::{Batch, Resource, Sample, Series, Window};

use super::{ContainerRef, LATER_SECONDS, Reader};
use crate::{Sink, SourceError};

impl Reader {
    /// Reads the day, and returns the namespaces of which it was not read.
    pub(super) async fn read_day<'n>(
        &self,
        namespaces: &[&'n str],
        day: Window,
        sink: Sink<'_>,
    ) -> Result<Vec<&'n str>, SourceError> {
        let all = namespaces.to_vec();
        let is_day = day.seconds() == DAY && day.from.rem_euclid(DAY) == 0;
        if !is_day || !self.can_digest() || self.away_since(day).is_some() {
            return Ok(all);
        }
        let images = self.only_images(namespaces, day).await?;
        let mut lives = BTreeMap::new();
        let Some(question) = self.queries().lives(namespaces, DAY) else { return Ok(all) };
        let mut keep = |container, _, samples| _ = lives.insert(container, samples);
        self.daily(&question, day, &mut keep).await?;
        let others: BTreeSet<&str> =
            lives.keys().filter(|of| !matches!(images.get(of), Some(Some(_)))).map(|of| &*of.namespace).collect();
        let (others, by_percentiles): (Vec<&str>, Vec<&str>) =
            namespaces.iter().partition(|namespace| others.contains(*namespace));
        let Some(question) = self.queries().several_series(namespaces, DAY) else { return Ok(all) };
        let mut several = BTreeSet::new();
        self.daily(&question, day, &mut |container, _, _| _ = several.insert(container.namespace)).await?;
        let (several, single): (Vec<&str>, Vec<&str>) =
            by_percentiles.into_iter().partition(|namespace| several.contains(*namespace));
        let mut found = Vec::new();
        for resource in Resource::ALL {
            for (namespaces, of_single_series) in [(&several, false), (&single, true)] {
                if namespaces.is_empty() {
                    continue;
                }
                let mut keep = |of, digest| found.push((of, resource, digest));
                match self.digests(namespaces, resource, day, of_single_series, &mut keep).await {
                    Err(SourceError::Permanent(reason)) => {
                        tracing::debug!(reason, "the store makes no percentiles: reading all samples");
                        return Ok(all);
                    }
                    read => read?,
                }
            }
        }
        let step = i64::from(self.step_seconds);
        for (of, resource, digest) in found {
            let (Some(samples), Some(Some(image))) = (lives.get(&of), images.get(&of)) else { continue };
            let seconds = (*samples as i64).saturating_mul(self.names.scrape_seconds.into()).clamp(1, DAY);
            let mut samples = Vec::new();
            digest.spread((seconds + step - 1).div_euclid(step) as u64, &mut |value, steps| {
                samples.extend((0..steps).map(|_| Sample { time: day.to - step, value }));
            });
            let (container, step_seconds) = (of.with_image(image), self.step_seconds);
            sink(Batch::Usage(vec![Series { container, resource, samples, step_seconds }]));
        }
        Ok(others)
    }

    /// The image of each container; none of those that had several.
    async fn only_images(
        &self,
        namespaces: &[&str],
        day: Window,
    ) -> Result<BTreeMap<ContainerRef, Option<String>>, SourceError> {
        let mut images = BTreeMap::new();
        let Some(state) = &self.names.state else { return Ok(images) };
        // As with samples, a little longer.
        let question = self.queries().images_within(namespaces, state, DAY + LATER_SECONDS);
        for row in self.api.moment(&question, Some(day.to + LATER_SECONDS)).await? {
            let image = row.label(&state.image).to_owned();
            let known = images.entry(ContainerRef::of(&row, &state.place)).or_insert_with(|| Some(image.clone()));
            *known = known.take().filter(|known| *known == image);
        }
        Ok(images)
    }
}
