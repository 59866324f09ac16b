//! Values of the core in serde's formats: the core has no serde, and its values are texts in objects.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use headroom_admission::cluster::usage::profile_layout::key_of;
use headroom_admission::cluster::usage::{Repository, Window};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value as its text.
pub struct Text<T>(pub T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// For fields with a value.
pub mod text {
    use super::*;

    pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        Text::deserialize(deserializer).map(|Text(value)| value)
    }
}

/// For fields that may have a value.
pub mod optional_text {
    use super::*;

    pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Text).serialize(serializer)
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let value = Option::<Text<T>>::deserialize(deserializer)?;
        Ok(value.map(|Text(value)| value))
    }
}

/// A value that names a field.
pub trait Key: Ord + Sized {
    fn name(&self) -> Cow<'_, str>;
    fn of_name(name: &str) -> Option<Self>;
}

impl Key for Window {
    fn name(&self) -> Cow<'_, str> {
        Self::name(*self).into()
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::named(name)
    }
}

/// With a comma in place of each dot.
impl Key for Repository {
    fn name(&self) -> Cow<'_, str> {
        Cow::Owned(key_of(self.as_str()))
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::from_full(&name.replace(',', "."))
    }
}

/// For maps by such values. Fields with other names are ignored.
pub mod keyed {
    use std::collections::BTreeMap;

    use super::*;

    pub fn serialize<K: Key, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(map.iter().map(|(key, value)| (key.name(), value)))
    }

    pub fn deserialize<'de, K: Key, V: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        let map = BTreeMap::<String, V>::deserialize(deserializer)?;
        Ok(map.into_iter().filter_map(|(name, value)| Some((K::of_name(&name)?, value))).collect())
    }
}
