//! Drops histories if a root has too many, always from the namespace that takes most room. So a namespace with a great many
//! images loses its own history and not that of others, whichever images it runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use headroom_admission::cluster::usage::Repository;
use headroom_admission::timestamp::Timestamp;

use super::Images;

/// The weight of one node of a root's tree.
pub const NODE: u64 = 1 << 20;

/// A namespace's histories. The greatest is the one to drop from: the heaviest, of these the one that was not seen for
/// longest, of these the last in the alphabet.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Namespace {
    weight: u64,
    oldest: Reverse<Timestamp>,
    name: String,
    /// The weight of each history.
    each: u64,
    /// The least recently seen last.
    histories: Vec<(Reverse<Timestamp>, Repository)>,
}

/// Drops histories, the least recently seen of the heaviest namespace first, until the sum of weights is less than so
/// many nodes, or than before. Returns how many were dropped.
pub fn drop_from_heaviest(images: &mut Images, weights: BTreeMap<String, u64>, most_nodes: usize) -> usize {
    let mut histories: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (repository, image) in images.iter() {
        for (namespace, own) in &image.own {
            histories.entry(namespace).or_default().push((Reverse(own.all.last_seen), repository.clone()));
        }
    }
    let mut left: u64 = weights.values().sum();
    let namespaces = weights.into_iter().filter_map(|(name, weight)| {
        let mut histories = histories.remove(name.as_str())?;
        histories.sort();
        let each = (weight / histories.len().max(1) as u64).max(1);
        Some(Namespace { weight, oldest: histories.last()?.0, name, each, histories })
    });
    let mut namespaces: BinaryHeap<Namespace> = namespaces.collect();
    let most = left.min(NODE * most_nodes as u64) / 8 * 7;
    let mut dropped = 0;
    while left > most
        && let Some(mut heaviest) = namespaces.pop()
    {
        let Some((_, repository)) = heaviest.histories.pop() else { continue };
        if let Some(image) = images.get_mut(&repository) {
            image.own.remove(&heaviest.name);
        }
        dropped += 1;
        left = left.saturating_sub(heaviest.each);
        heaviest.weight = heaviest.weight.saturating_sub(heaviest.each);
        if let Some((oldest, _)) = heaviest.histories.last() {
            heaviest.oldest = *oldest;
            namespaces.push(heaviest);
        }
    }
    // A pool without any of its namespaces would be dropped from nobody's share.
    images.retain(|_, image| !image.own.is_empty());
    dropped
}
