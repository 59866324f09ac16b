//! Amounts by resource name: what Kubernetes calls a resource list.

use std::borrow::Cow;

use super::Quantity;
use crate::json::{Malformed, Node};

/// The name of a resource, such as `cpu` or `example.com/gpu`.
pub type ResourceName<'d> = Cow<'d, str>;

/// A resource of Kubernetes' own: a plain name, or one of its domain.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A resource that is not Kubernetes' own, by the name that containers use: an extended resource.
pub fn is_device(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

/// A small map from resource names to values, ordered by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByResource<'d, V>(Vec<(ResourceName<'d>, V)>);

/// A resource list.
pub type ResourceList<'d> = ByResource<'d, Quantity>;

impl<V> Default for ByResource<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'d, V> ByResource<'d, V> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, name: &str) -> Option<&V> {
        // OK because lists are short: a scan beats a search.
        self.0.iter().find(|(have, _)| have == name).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.0.iter_mut().find(|(have, _)| have == name).map(|(_, value)| value)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a value, replacing the one of that name.
    pub fn set(&mut self, name: ResourceName<'d>, value: V) {
        // Tried first because Kubernetes writes its lists in name order.
        if self.0.last().is_none_or(|(last, _)| *last < name) {
            self.0.push((name, value));
            return;
        }
        let after = self.0.iter().position(|(have, _)| *have >= name).unwrap_or(self.0.len());
        match self.0.get_mut(after) {
            Some((have, old)) if *have == name => *old = value,
            _ => self.0.insert(after, (name, value)),
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<V> {
        let at = self.0.iter().position(|(have, _)| have == name)?;
        Some(self.0.remove(at).1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName<'d>, &V)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    pub fn names(&self) -> impl Iterator<Item = &ResourceName<'d>> {
        self.0.iter().map(|(name, _)| name)
    }
}

impl<'d, V> IntoIterator for ByResource<'d, V> {
    type Item = (ResourceName<'d>, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'d, V> FromIterator<(ResourceName<'d>, V)> for ByResource<'d, V> {
    fn from_iter<I: IntoIterator<Item = (ResourceName<'d>, V)>>(pairs: I) -> Self {
        let mut list = Self::default();
        for (name, value) in pairs {
            list.set(name, value);
        }
        list
    }
}

impl<'d> ResourceList<'d> {
    /// Reads a list as Kubernetes writes it: an object of strings or numbers, where `null` is zero.
    pub fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let fields = node.fields()?;
        let mut list = ByResource(Vec::with_capacity(fields.at_most()));
        for (name, value) in fields {
            list.set(name.str()?, read_quantity(value)?);
        }
        Ok(list)
    }

    /// The list in field `name` of an object, empty if absent.
    pub fn in_field(node: Node<'d>, name: &str) -> Result<Self, Malformed> {
        node.get(name)?.map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// Adds to the amount of one resource.
    pub fn add(&mut self, name: &ResourceName<'d>, more: &Quantity) {
        match self.get_mut(name) {
            Some(have) => *have = have.plus(more),
            None => self.set(name.clone(), more.clone()),
        }
    }

    /// Adds another list, name by name.
    pub fn add_all(&mut self, other: &Self) {
        for (name, more) in other.iter() {
            self.add(name, more);
        }
    }

    /// Raises each amount to that of another list.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, least) in other.iter() {
            if self.get(name).is_none_or(|have| have < least) {
                self.set(name.clone(), least.clone());
            }
        }
    }
}

/// Reads one quantity; `null` is zero, as the API server has it.
pub fn read_quantity(node: Node<'_>) -> Result<Quantity, Malformed> {
    if node.is_null() {
        return Ok(Quantity::ZERO);
    }
    let text = node.scalar().map_err(|_| node.malformed("a quantity such as `500m` or `1.5Gi`"))?;
    Quantity::from_json_text(&text).map_err(|error| node.wrong(error.to_string()))
}
