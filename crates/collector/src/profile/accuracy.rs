//! The accuracy of the estimates of each image, from the comparisons in the store.

use std::collections::BTreeMap;

use headroom_core::cluster::usage::{Resource, Root};
use headroom_core::image::Repository;
use headroom_usage::accuracy::Sums;

use crate::store::{Store, StoreError};

/// The accuracy of estimates for the images of a root, by repository and namespace.
pub fn of_root(store: &Store, root: Root) -> Result<BTreeMap<(Repository, String), Sums>, StoreError> {
    let mut all: BTreeMap<_, Sums> = BTreeMap::new();
    store.visit_compared(root, |place, comparison| {
        let sums = all.entry((place.repository, place.namespace)).or_default();
        for (sum, resource) in sums.iter_mut().zip(Resource::ALL) {
            comparison.resources.get(&resource).into_iter().for_each(|compared| sum.add(compared));
        }
    })?;
    Ok(all)
}
