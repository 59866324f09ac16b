//! Reads a source of current usage once: the metrics API.

use headroom_sources::{Source, SourceError};
use headroom_usage::cardinality;
use headroom_usage::observed::Kill;
use headroom_usage::sample::{Batch, Window, is_possible};

use super::{Histories, Part};
use headroom_workloads::owner::PodOwners;

/// Reads the current usage of some namespaces, or of all.
pub async fn read(
    source: &dyn Source,
    namespaces: Option<&[String]>,
    pods: &PodOwners,
) -> Result<Histories, SourceError> {
    let step = i64::from(source.step_seconds());
    let from = source.now().await?.div_euclid(step) * step;
    let window = Window { from, to: from + step };
    let mut part = Part::default();
    let mut take = |batch: Batch| match batch {
        Batch::Usage(all) => all.into_iter().for_each(|series| {
            let place = &series.container;
            let Some(workload) = pods.of_pod(&place.namespace, &place.pod) else { return };
            for sample in series.samples.iter().filter(|sample| is_possible(sample.value, series.resource)) {
                let observed = part.day(workload, &place.name, 0);
                observed.pods.add(cardinality::hash(&place.namespace, &place.pod));
                observed.add(series.resource, sample.time, sample.value, series.step_seconds.into());
            }
        }),
        Batch::OomKills(all) => all.into_iter().for_each(|kill| {
            let place = &kill.container;
            if let Some(workload) = pods.of_pod(&place.namespace, &place.pod) {
                let of = cardinality::hash(&place.pod, &place.name);
                let observed = part.day(workload, &place.name, 0);
                observed.add_kill(Kill { at: kill.at, memory: kill.memory, of });
            }
        }),
    };
    match namespaces {
        Some(namespaces) => {
            for namespace in namespaces {
                source.read(namespace, window, &mut take).await?;
            }
        }
        None => {
            if !source.read_all(window, &mut take).await? {
                return Err(SourceError::Permanent(
                    "not allowed to list the metrics of all namespaces: look at one with -n".to_owned(),
                ));
            }
        }
    }
    let mut histories = Histories::default();
    histories.add(part);
    Ok(histories)
}
