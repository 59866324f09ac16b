//! Bounds and usage of quotas, as one list in order: maps of maps would be several types, each of which makes the page's wasm larger.

use std::cmp::Ordering;
use std::fmt::Display;

use headroom_admission::amount::Quantity;
use headroom_admission::sort::{by_text, order};
use serde::{Serialize, Serializer};
use serde_json::Value;

use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::kinds::metadata;

/// The bound and usage of a quota under one name, such as `requests.cpu`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct QuotaLevel {
    #[serde(flatten)]
    pub key: QuotaKey,
    #[serde(serialize_with = "text")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "String"))]
    pub used: Quantity,
    /// None if only usage is known.
    #[serde(serialize_with = "some_text")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "Option<String>"))]
    pub hard: Option<Quantity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct QuotaKey {
    /// Empty for a TenantQuota.
    pub namespace: String,
    pub quota: String,
    #[serde(rename = "resource")]
    pub name: String,
}

impl QuotaLevel {
    /// True if there is room for so much in all.
    pub fn fits(&self, used: &Quantity) -> bool {
        self.hard.as_ref().is_none_or(|hard| used <= hard)
    }
}

pub fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub fn some_text<S: Serializer>(value: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// The part of a whole in hundredths, thousandths or other parts, rounded down; none of nothing.
pub fn share(part: &Quantity, whole: &Quantity, parts: i128) -> Option<u64> {
    let (part, whole) = (i128::from(part.milli_value()), i128::from(whole.milli_value()));
    (whole > 0 && part >= 0).then(|| u64::try_from(part * parts / whole).unwrap_or(u64::MAX))
}

impl QuotaKey {
    /// `shop/team`, or `tenant quota payments`.
    pub fn quota_name(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("tenant quota {}", self.quota),
            namespace => format!("{namespace}/{}", self.quota),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        order(&self.namespace, &other.namespace)
            .then_with(|| order(&self.quota, &other.quota))
            .then_with(|| order(&self.name, &other.name))
    }
}

/// In the order of their keys.
#[derive(Debug, Clone, Default)]
pub struct QuotaLevels(Vec<QuotaLevel>);

impl QuotaLevels {
    /// The levels that the status of each quota tells.
    pub fn of(quotas: &[Value]) -> Self {
        let mut levels = Vec::new();
        for quota in quotas {
            let amounts = |field: &str| quota.pointer(field).and_then(Value::as_object);
            let (hard, used) = (amounts("/status/hard"), amounts("/status/used"));
            let unbounded =
                used.into_iter().flatten().filter(|(name, _)| hard.is_none_or(|hard| hard.get(*name).is_none()));
            let names = hard.into_iter().flatten().chain(unbounded).map(|(name, _)| name);
            levels.extend(names.map(|name| QuotaLevel {
                key: QuotaKey {
                    namespace: metadata(quota, "namespace").to_owned(),
                    quota: metadata(quota, "name").to_owned(),
                    name: name.clone(),
                },
                hard: hard.and_then(|hard| amount_of(hard.get(name)?)),
                used: used.and_then(|used| amount_of(used.get(name)?)).unwrap_or(Quantity::ZERO),
            }));
        }
        sort(&mut levels, |level| &level.key);
        Self(levels)
    }

    pub fn get(&self, key: &QuotaKey) -> Option<&QuotaLevel> {
        let found = self.0.binary_search_by(|level| level.key.order(key)).ok()?;
        self.0.get(found)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, QuotaLevel> {
        self.0.iter()
    }

    /// The keys of both lists in order.
    pub fn keys_with<'l>(&'l self, other: &'l Self) -> Vec<&'l QuotaKey> {
        let mut keys: Vec<&QuotaKey> = self.iter().chain(other.iter()).map(|level| &level.key).collect();
        sort(&mut keys, |key| *key);
        keys.dedup();
        keys
    }
}

fn sort<T>(list: &mut Vec<T>, key: impl Fn(&T) -> &QuotaKey) {
    by_text(list, |item| &key(item).name);
    by_text(list, |item| &key(item).quota);
    by_text(list, |item| &key(item).namespace);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn levels_are_found_by_quota_and_name_in_the_order_of_both() {
        let quota = |namespace: &str, name: &str, hard: Value, used: Value| json!({"metadata": {"namespace": namespace, "name": name}, "status": {"hard": hard, "used": used}});
        let levels = QuotaLevels::of(&[
            quota("shop", "team", json!({"pods": 5, "cpu": "2"}), json!({"cpu": "500m", "memory": "1Gi"})),
            quota("bank", "team", json!({"pods": "wrong"}), json!({})),
        ]);
        let told: Vec<String> = levels
            .iter()
            .map(|QuotaLevel { key: QuotaKey { namespace, quota, name }, hard, used }| {
                let hard = hard.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
                format!("{namespace}/{quota} {name} {used} of {hard}")
            })
            .collect();
        let expected =
            ["bank/team pods 0 of -", "shop/team cpu 500m of 2", "shop/team memory 1Gi of -", "shop/team pods 0 of 5"];
        assert_eq!(told, expected);
        let key =
            |name: &str| QuotaKey { namespace: "shop".to_owned(), quota: "team".to_owned(), name: name.to_owned() };
        assert_eq!(levels.get(&key("cpu")).map(|level| level.used.to_string()).as_deref(), Some("500m"));
        assert_eq!(levels.get(&key("none")), None);
        let other = QuotaLevels::of(&[quota("shop", "team", json!({"cpu": "3", "count/pods": "1"}), json!({}))]);
        let names: Vec<&str> = levels.keys_with(&other).iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["pods", "count/pods", "cpu", "memory", "pods"]);
    }
}
