//! Resource lists: amounts by resource name.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::mem;

use super::Quantity;
use crate::find;
use crate::json::{Malformed, Node};
use crate::sort::{self, order};

/// The name of a resource, such as `cpu` or `example.com/gpu`.
pub type ResourceName<'d> = Cow<'d, str>;

/// True if it is one of Kubernetes' own resources: a plain name, or one with its domain.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || find::contains(name, "kubernetes.io/")
}

/// True if it is an extended resource, by the name that containers use.
pub fn is_device(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

/// A map from resource names to values, ordered by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByResource<'d, V>(Vec<(ResourceName<'d>, V)>);

pub type ResourceList<'d> = ByResource<'d, Quantity>;

impl<V> Default for ByResource<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'d, V> ByResource<'d, V> {
    /// From values in name order, each name once.
    pub fn in_order(values: impl Iterator<Item = (ResourceName<'d>, V)>) -> Self {
        Self(values.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.get(place_of(name, &self.0)?).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        let place = place_of(name, &self.0)?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    pub fn contains(&self, name: &str) -> bool {
        place_of(name, &self.0).is_some()
    }

    /// Sets or replaces the value of a name. Inserting moves all later names, so build long lists with `collect`.
    pub fn set(&mut self, name: ResourceName<'d>, value: V) {
        // Tried first because Kubernetes writes its lists in name order.
        if self.ends_before(&name) {
            self.0.push((name, value));
        } else if let Some(old) = self.get_mut(&name) {
            *old = value;
        } else {
            let place = self.0.partition_point(|(have, _)| *have < name);
            self.0.insert(place, (name, value));
        }
    }

    fn ends_before(&self, name: &str) -> bool {
        self.0.last().is_none_or(|(last, _)| last.as_ref() < name)
    }

    pub fn remove(&mut self, name: &str) -> Option<V> {
        Some(self.0.remove(place_of(name, &self.0)?).1)
    }

    /// Each value with the value of the same name in another list, in one pass over both.
    pub fn paired_with<'a, W>(
        &'a self,
        other: &'a ByResource<'d, W>,
    ) -> impl Iterator<Item = (&'a ResourceName<'d>, &'a V, Option<&'a W>)> + use<'a, 'd, V, W> {
        let mut rest = other.0.as_slice();
        self.0.iter().map(move |(name, value)| {
            loop {
                match rest {
                    [(have, found), after @ ..] => match order(have, name) {
                        Ordering::Less => rest = after,
                        Ordering::Equal => return (name, value, Some(found)),
                        Ordering::Greater => return (name, value, None),
                    },
                    [] => return (name, value, None),
                }
            }
        })
    }

    /// Adds values in name order; none of the names may be in the list.
    pub fn add_missing(&mut self, missing: Vec<(ResourceName<'d>, V)>) {
        if self.is_empty() {
            self.0 = missing;
            return;
        }
        let ends_before = missing.first().is_none_or(|(first, _)| self.ends_before(first));
        self.0.extend(missing);
        if !ends_before {
            sort::by_text(&mut self.0, |(name, _)| name);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName<'d>, &V)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    pub fn names(&self) -> impl Iterator<Item = &ResourceName<'d>> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Reads an object, and each of its values with `read`.
    pub fn read_with(node: Node<'d>, read: impl Fn(Node<'d>) -> Result<V, Malformed>) -> Result<Self, Malformed> {
        let fields = node.fields()?;
        let mut list = Self(Vec::with_capacity(fields.room()));
        let mut in_order = true;
        for (name, value) in fields {
            let name = name.str()?;
            in_order &= list.ends_before(&name);
            list.0.push((name, read(value)?));
        }
        Ok(if in_order { list } else { Self::of_pairs(list.0, mem::swap) })
    }

    /// Sorts pairs by name; `join` merges each later value of a name into the first.
    pub fn of_pairs(mut pairs: Vec<(ResourceName<'d>, V)>, join: fn(&mut V, &mut V)) -> Self {
        sort::by_text(&mut pairs, |(name, _)| name);
        pairs.dedup_by(|(name, value), (kept_name, kept)| {
            let same = name == kept_name;
            if same {
                join(kept, value);
            }
            same
        });
        Self(pairs)
    }

    /// Merges another list into this one; `join` merges the value of a name that both have.
    fn merge(&mut self, other: &Self, join: &dyn Fn(&mut V, &V))
    where
        V: Clone,
    {
        let had = self.0.len();
        let mut place = 0;
        for (name, value) in &other.0 {
            let (own, _) = self.0.split_at_mut(had);
            match advance(own, &mut place, name) {
                Some(own) => join(own, value),
                None => self.0.push((name.clone(), value.clone())),
            }
        }
        // The added part is sorted already.
        let (own, added) = self.0.split_at_mut(had);
        if own.last().map(|(name, _)| name) > added.first().map(|(name, _)| name) && !added.is_empty() {
            sort::by_text(&mut self.0, |(name, _)| name);
        }
    }
}

/// Advances from a place in a sorted list to that of `name`; none if the list does not have the name.
fn advance<'l, V>(list: &'l mut [(ResourceName<'_>, V)], place: &mut usize, name: &str) -> Option<&'l mut V> {
    while let Some((have, _)) = list.get(*place) {
        match order(have, name) {
            Ordering::Less => *place += 1,
            Ordering::Equal => break,
            Ordering::Greater => return None,
        }
    }
    list.get_mut(*place).map(|(_, value)| value)
}

#[inline(always)]
fn place_of<V>(name: &str, list: &[(ResourceName<'_>, V)]) -> Option<usize> {
    /// Up to this length a scan is cheaper than a search: most names differ in length.
    const SHORT: usize = 8;
    if list.len() > SHORT {
        return place_in_long(name, list);
    }
    list.iter().position(|(have, _)| have == name)
}

#[cold]
fn place_in_long<V>(name: &str, list: &[(ResourceName<'_>, V)]) -> Option<usize> {
    list.binary_search_by(|(have, _)| order(have, name)).ok()
}

impl<'d, V> IntoIterator for ByResource<'d, V> {
    type Item = (ResourceName<'d>, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// From pairs in any order; the last value of a name counts.
impl<'d, V> FromIterator<(ResourceName<'d>, V)> for ByResource<'d, V> {
    fn from_iter<I: IntoIterator<Item = (ResourceName<'d>, V)>>(pairs: I) -> Self {
        Self::of_pairs(pairs.into_iter().collect(), mem::swap)
    }
}

impl<'d> ResourceList<'d> {
    pub const EMPTY: Self = Self(Vec::new());

    /// Reads a list as Kubernetes writes it: an object of strings or numbers, where `null` is zero.
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        Self::read_amounts(node, false)
    }

    /// The list in field `name` of an object, empty if absent.
    pub fn in_field(node: Node<'d>, name: &str) -> Result<Self, Malformed> {
        node.get(name)?.map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// Reads a list of bounds: one that is too large to be read is one that nothing exceeds.
    pub fn read_bounds(node: Node<'d>) -> Result<Self, Malformed> {
        Self::read_amounts(node, true)
    }

    fn read_amounts(node: Node<'d>, are_bounds: bool) -> Result<Self, Malformed> {
        Self::read_with(node, |node| read_amount(node, are_bounds))
    }

    /// The sum of the amounts of each name; the amounts may come in any order.
    pub fn sum(amounts: impl IntoIterator<Item = (ResourceName<'d>, Quantity)>) -> Self {
        Self::of_pairs(amounts.into_iter().collect(), |sum, more| *sum = sum.plus(more))
    }

    /// Adds to the amount of one resource. Inserting moves all later names, so add long lists with [`Self::add_all`].
    pub fn add(&mut self, name: &ResourceName<'d>, more: &Quantity) {
        match self.get_mut(name) {
            Some(have) => *have = have.plus(more),
            None => self.set(name.clone(), more.clone()),
        }
    }

    /// Adds the amounts of another list whose names are missing here.
    pub fn complete_with(&mut self, other: &Self) {
        self.merge(other, &|_, _| {});
    }

    pub fn add_all(&mut self, other: &Self) {
        self.merge(other, &|have, more| *have = have.plus(more));
    }

    /// Raises each amount to that of another list.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge(other, &|have, least| {
            if *have < *least {
                *have = least.clone();
            }
        });
    }
}

/// Reads one quantity; `null` is zero, as in the API server.
pub fn read_quantity(node: Node<'_>) -> Result<Quantity, Malformed> {
    read_amount(node, false)
}

fn read_amount(node: Node<'_>, is_bound: bool) -> Result<Quantity, Malformed> {
    if node.is_null() {
        return Ok(Quantity::ZERO);
    }
    let text = node.scalar().map_err(|_| node.expected("a quantity such as `500m` or `1.5Gi`"))?;
    let read = if is_bound { Quantity::bound_from_json_text(&text) } else { Quantity::from_json_text(&text) };
    read.map_err(|error| node.error(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::json::Document;

    type Model = BTreeMap<String, i64>;

    fn list<'n>(amounts: impl IntoIterator<Item = (&'n String, &'n i64)>) -> ResourceList<'n> {
        amounts.into_iter().map(|(name, units)| (name.into(), Quantity::from_units(*units))).collect()
    }

    /// From few names, so that lists share some; some lists are long enough for a binary search.
    fn pairs() -> impl Strategy<Value = Vec<(String, i64)>> {
        prop::collection::vec(("[a-e]{1,2}", 0..9_i64), 0..30)
    }

    proptest! {
        #[test]
        fn a_list_is_a_map_in_name_order(pairs in pairs(), name in "[a-e]{1,2}") {
            let fields: Vec<String> = pairs.iter().map(|(name, units)| format!("\"{name}\":{units}")).collect();
            let text = format!("{{{}}}", fields.join(","));
            let document = Document::read(&text).unwrap();
            let mut read = ResourceList::read(document.root()).unwrap();
            let mut model: Model = pairs.iter().cloned().collect();
            prop_assert_eq!(&read, &list(&model));
            prop_assert_eq!(&read, &list(pairs.iter().map(|(name, units)| (name, units))));
            prop_assert_eq!(read.get(&name).map(Quantity::value), model.get(&name).copied());

            read.set(name.clone().into(), Quantity::from_units(7));
            model.insert(name.clone(), 7);
            prop_assert_eq!(&read, &list(&model));
            prop_assert_eq!(read.remove(&name), Some(Quantity::from_units(7)));
            model.remove(&name);
            prop_assert_eq!(&read, &list(&model));
        }

        #[test]
        fn lists_are_added_and_raised_name_by_name(one in pairs(), other in pairs()) {
            let mut sums = Model::new();
            for (name, units) in one.iter().chain(&other) {
                *sums.entry(name.clone()).or_default() += units;
            }
            let amounts = one.iter().chain(&other).map(|(name, units)| (name.into(), Quantity::from_units(*units)));
            prop_assert_eq!(ResourceList::sum(amounts), list(&sums));

            let (one, other): (Model, Model) = (one.into_iter().collect(), other.into_iter().collect());
            let (mut sums, mut most) = (one.clone(), one.clone());
            for (name, units) in &other {
                *sums.entry(name.clone()).or_default() += units;
                most.entry(name.clone()).and_modify(|most| *most = (*most).max(*units)).or_insert(*units);
            }
            let (mut added, mut raised) = (list(&one), list(&one));
            added.add_all(&list(&other));
            raised.raise_to(&list(&other));
            prop_assert_eq!(added, list(&sums));
            prop_assert_eq!(raised, list(&most));
        }
    }
}
