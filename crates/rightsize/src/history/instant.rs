//! Reads a source of current usage once: the metrics API.

use headroom_sources::prometheus::reader::ContainerRef;
use headroom_sources::{Source, SourceError};
use headroom_usage::sample::{Batch, Window};
use headroom_workloads::owner::PodOwners;

use super::Histories;
use super::part::{Part, PodsRead};

/// Reads the current usage of some namespaces, or of all.
pub async fn read(
    source: &dyn Source,
    namespaces: Option<&[String]>,
    owners: PodOwners,
) -> Result<Histories, SourceError> {
    let step = i64::from(source.step_seconds());
    let from = source.now().await?.div_euclid(step) * step;
    let window = Window { from, to: from + step };
    let (mut part, pods) = (Part::default(), PodsRead { owners, to: window.to });
    let mut take = |batch: Batch| match batch {
        Batch::Usage(all) => all.iter().for_each(|series| part.add_usage(series, window, &pods)),
        Batch::OomKills(all) => all.iter().for_each(|kill| {
            part.add_kill(&ContainerRef::from(&kill.container), (kill.at, kill.memory), true, &pods);
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
