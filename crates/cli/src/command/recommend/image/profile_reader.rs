//! The usage of images in UsageProfiles over 30 days, by namespace: of each tag, and of all tags together.
//!
//! A profile is read by the core's own functions, so sizes are made of nothing that is not fit for an estimate.

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::read::{self as usage, Histories, HistoryNode, Observed};
use headroom_admission::cluster::usage::{Percentile, ProfileKey, Resource, TagKey, Window};
use headroom_admission::image::ImageName;
use headroom_admission::json::{Malformed, Node};
use headroom_admission::timestamp::Timestamp;
use headroom_recommend::history::distribution::Distribution;

/// Usage in one namespace, or in all together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceUsage {
    /// None for all together.
    pub namespace: Option<String>,
    pub images: Vec<Image>,
    pub problems: Vec<String>,
}

/// One tag of an image, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// As people write it: `nginx:1.27`, `nginx:*` for all tags together.
    pub image: String,
    pub pods: u64,
    pub cpu: Option<Distribution>,
    pub memory: Option<Distribution>,
    pub storage: Option<Distribution>,
    /// The memory of each container that was killed because it ran out.
    pub oom_kills: Vec<Quantity>,
}

/// The rows to read.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'s> {
    /// Only these, and not all together.
    pub namespaces: Option<&'s [String]>,
    /// Only images whose name contains this.
    pub image: Option<&'s str>,
}

/// Reads the content of profiles, by namespace; that of all together is last.
#[derive(Debug)]
pub struct ProfileReader<'s> {
    selection: Selection<'s>,
    now: Timestamp,
    own: BTreeMap<String, NamespaceUsage>,
    together: NamespaceUsage,
}

impl<'s> ProfileReader<'s> {
    pub fn new(selection: Selection<'s>, now: Timestamp) -> Self {
        Self { selection, now, own: BTreeMap::new(), together: NamespaceUsage::default() }
    }

    /// Adds the usage of images in a UsageProfile: by namespace, and together unless namespaces are selected.
    pub fn add(&mut self, object: Node<'_>) -> Result<(), Malformed> {
        let profile = match usage::Profile::read(object) {
            Ok(profile) => profile,
            Err(unusable) => {
                let name = object.at(&["metadata", "name"])?.map(Node::str).transpose()?.unwrap_or_default();
                self.concerned().add_problem(format!("UsageProfile {name}: {unusable}"));
                return Ok(());
            }
        };
        let Some(images) = profile.images else { return Ok(()) };
        for (key, entry) in images.fields()? {
            // Keys have commas for dots, because a dot separates the steps of a field mask.
            let repository = key.str()?.replace(',', ".");
            let Ok(image) = ImageName::parse(&repository) else { continue };
            let place = ProfileKey::of(image.repository());
            let pool = entry.get("pool")?.filter(|_| self.selection.namespaces.is_none());
            if let Some(node) = pool {
                let entry = profile.entry(&place, "");
                let rows = entry.and_then(|entry| self.rows(&image, node, entry.pool));
                self.together.add(rows);
            }
            let Some(own) = entry.get("own")? else { continue };
            for (namespace, node) in own.fields()? {
                let namespace = namespace.str()?;
                if self.selection.namespaces.is_some_and(|wanted| !wanted.iter().any(|wanted| namespace == *wanted)) {
                    continue;
                }
                let entry = profile.entry(&place, &namespace);
                let rows = entry.and_then(|entry| self.rows(&image, node, entry.own));
                self.own.entry(namespace.to_string()).or_default().add(rows);
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Vec<NamespaceUsage> {
        let own = self.own.into_iter().map(|(namespace, usage)| NamespaceUsage { namespace: Some(namespace), ..usage });
        let mut found: Vec<NamespaceUsage> = own.chain([self.together]).collect();
        for usage in &mut found {
            usage.images.sort_by(|one, other| one.image.cmp(&other.image));
            // Each page of an image repeats what is known of all namespaces.
            usage.images.dedup_by(|one, other| one.image == other.image);
        }
        found.retain(|usage| !usage.images.is_empty() || !usage.problems.is_empty());
        found
    }

    /// The part that reports an object that cannot be read.
    fn concerned(&mut self) -> &mut NamespaceUsage {
        match self.selection.namespaces {
            Some([namespace, ..]) => self.own.entry(namespace.clone()).or_default(),
            _ => &mut self.together,
        }
    }

    /// Reads the rows of an image. `histories` was read from `node`.
    fn rows(
        &self,
        image: &ImageName<'_>,
        node: Node<'_>,
        histories: Option<Histories<'_>>,
    ) -> Result<Vec<Image>, Malformed> {
        let Some(histories) = histories else { return Ok(Vec::new()) };
        // However old: it is what there is.
        usage::age(histories.collected_at, self.now, Duration::MAX)?;
        let familiar = familiar(image.repository());
        let same = node.get("all")?.map(|all| all.list("same")).transpose()?.into_iter().flatten();
        let same = same.map(Node::plain_str).collect::<Result<Vec<&str>, _>>()?;
        // Workloads are named there, too.
        let same_tags = same.into_iter().filter(|key| !key.contains('/')).map(|key| Ok(key.to_owned()));
        let other_tags = node.get("tags")?.map(Node::fields).transpose()?.into_iter().flatten();
        let other_tags = other_tags.map(|(key, _)| Ok(key.str()?.into_owned()));
        let tags = same_tags.chain(other_tags).collect::<Result<Vec<String>, Malformed>>()?;
        let mut named = Vec::new();
        for key in tags {
            let reference = key.replace(',', ".");
            let separator = if reference.contains(':') { '@' } else { ':' };
            let full = format!("{}{separator}{reference}", image.repository());
            let Ok(tagged) = ImageName::parse(&full) else { continue };
            let Some(tag) = TagKey::of(&tagged).find(|tag| tag.as_str() == key) else { continue };
            named.push((format!("{familiar}{separator}{reference}"), histories.tag(&tag)?));
        }
        // All tags together are no more than the one.
        if named.len() != 1 {
            named.push((format!("{familiar}:*"), histories.all()?));
        }
        let mut rows = Vec::new();
        for (name, history) in named {
            if let Some(history) = history.filter(|_| self.selection.image.is_none_or(|wanted| name.contains(wanted))) {
                rows.extend(row(name, history, histories.collected_at)?);
            }
        }
        Ok(rows)
    }
}

impl NamespaceUsage {
    fn add(&mut self, rows: Result<Vec<Image>, Malformed>) {
        match rows {
            Ok(rows) => self.images.extend(rows),
            Err(unusable) => self.add_problem(unusable.to_string()),
        }
    }

    fn add_problem(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// The name without what every runtime adds.
fn familiar(repository: &str) -> &str {
    let name = repository.strip_prefix("docker.io/").unwrap_or(repository);
    name.strip_prefix("library/").unwrap_or(name)
}

fn row(image: String, history: HistoryNode<'_>, collected_at: Timestamp) -> Result<Option<Image>, Malformed> {
    // Without figures where namespaces do not agree on any.
    let observed =
        |resource| Ok::<_, Malformed>(history.observed(Window::Month, resource)?.filter(|of| of.has(Percentile::PEAK)));
    let Some(any) = observed(Resource::Cpu)?.or(observed(Resource::Memory)?) else { return Ok(None) };
    let of = |resource| observed(resource)?.map(|observed| distribution(observed, resource)).transpose();
    let kills = history.oom_kills(collected_at)?;
    Ok(Some(Image {
        image,
        pods: any.pods()?,
        cpu: of(Resource::Cpu)?,
        memory: of(Resource::Memory)?,
        storage: of(Resource::EphemeralStorage)?,
        oom_kills: kills.iter().map(|kill| kill.memory.clone()).collect(),
    }))
}

fn distribution(observed: Observed<'_>, resource: Resource) -> Result<Distribution, Malformed> {
    let at = |at| Ok((at, observed.percentile(at)?));
    let known = Percentile::PUBLISHED.into_iter().filter(|at| observed.has(*at));
    let percentiles = known.map(at).collect::<Result<_, Malformed>>()?;
    Ok(Distribution::new(resource, observed.samples, percentiles, observed.peak()?))
}

#[cfg(test)]
mod tests {
    use headroom_admission::json::Document;
    use serde_json::{Value, json};

    use super::*;

    fn history(cpu: &str) -> Value {
        let usage = json!({"samples": 60, "peak": cpu, "percentiles": Percentile::PUBLISHED.map(|_| cpu)});
        json!({"lastSeen": "2026-11-20T00:00:00Z", "oomKills": [{"at": "2026-11-19T00:00:00Z", "memory": "64Mi"}],
            "windows": {"30d": {"pods": 2, "namespaces": 1, "cpu": usage}}})
    }

    fn object(tags: Value) -> Value {
        let histories = json!({"all": history("2"), "tags": tags});
        let entry = json!({"own": {"shop": histories, "lab": histories}, "pool": histories});
        json!({"metadata": {"name": "usage-26", "namespace": "headroom"},
            "spec": {"header": {"format": 3, "collectedAt": "2026-11-20T00:00:00Z"},
                "images": {"docker,io/library/nginx": entry}}})
    }

    /// As read a year later.
    fn read(objects: &[Value], image: Option<&str>, namespace: Option<&str>) -> Vec<NamespaceUsage> {
        let now = "2027-11-20T00:00:00Z".parse().unwrap();
        let namespaces = namespace.map(|namespace| [namespace.to_owned()]);
        let namespaces = namespaces.as_ref().map(<[String; 1]>::as_slice);
        let mut found = ProfileReader::new(Selection { namespaces, image }, now);
        for object in objects {
            let text = object.to_string();
            found.add(Document::read(&text).unwrap().root()).unwrap();
        }
        found.finish()
    }

    fn of_shop(object: &Value, image: Option<&str>) -> NamespaceUsage {
        read(std::slice::from_ref(object), image, Some("shop")).remove(0)
    }

    fn names(usage: &NamespaceUsage) -> Vec<&str> {
        usage.images.iter().map(|image| image.image.as_str()).collect()
    }

    #[test]
    fn tags_and_digests_are_named_as_people_write_them() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let both = of_shop(&object(json!({"1,27": history("1"), (digest.as_str()): history("1")})), None);
        assert_eq!(names(&both), ["nginx:*", "nginx:1.27", &format!("nginx@{digest}")]);
        let one = of_shop(&object(json!({"1,27": history("1")})), None);
        assert_eq!(names(&one), ["nginx:1.27"], "all tags together are no more than the one");
        assert_eq!(names(&of_shop(&object(json!({"1,27": history("1"), "2": history("1")})), Some(":2"))), ["nginx:2"]);
        let mut same = object(json!({}));
        let all = &mut same["spec"]["images"]["docker,io/library/nginx"]["own"]["shop"]["all"];
        all["same"] = json!(["1,27", "web/nginx"]);
        assert_eq!(names(&of_shop(&same, None)), ["nginx:1.27"], "what has a slash is a workload");
    }

    #[test]
    fn each_namespace_is_shown_by_itself_and_what_pages_repeat_once() {
        let page = object(json!({"1,27": history("1")}));
        let found = read(&[page.clone(), page], None, None);
        let rows: Vec<_> = found.iter().map(|usage| (usage.namespace.as_deref(), usage.images.len())).collect();
        assert_eq!(rows, [(Some("lab"), 1), (Some("shop"), 1), (None, 1)]);
    }

    #[test]
    fn kills_are_read_with_usage() {
        let usage = of_shop(&object(json!({"1,27": history("1")})), None);
        assert_eq!((usage.images[0].pods, &usage.images[0].oom_kills[..]), (2, &[Quantity::from_bytes(64 << 20)][..]));
    }

    #[test]
    fn what_no_estimate_would_be_made_from_is_a_problem() {
        let mut other_format = object(json!({}));
        other_format["spec"]["header"]["format"] = json!(1);
        let usage = of_shop(&other_format, None);
        assert_eq!(usage.problems, ["UsageProfile usage-26: spec.header.format: expected 3, found `1`"]);
        assert!(usage.images.is_empty());
    }
}
