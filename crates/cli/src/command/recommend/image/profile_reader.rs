//! The usage of images in UsageProfiles over 30 days, by namespace: of each tag, and of all tags together.
//!
//! A profile is read by the core's own functions, so sizes are made of nothing that is not fit for an estimate.

use std::time::Duration;

use headroom_admission::cluster::usage::read::{self as usage, Histories, HistoryNode, Observed};
use headroom_admission::cluster::usage::{Percentile, ProfileKey, Resource, TagKey, Window};
use headroom_admission::image::ImageName;
use headroom_admission::json::{Malformed, Node};
use headroom_admission::timestamp::Timestamp;
use headroom_recommend::engine::by_image::{NodeCapacity, SizeByImage, UsageOfImage};
use headroom_recommend::history::distribution::Distribution;

use super::ImageRow;

#[derive(Debug)]
pub struct ProfileReader<'s> {
    /// Only these, and not all together.
    namespaces: Option<&'s [String]>,
    /// Only images whose name contains this.
    image: &'s str,
    /// The node on which pods of each are to fit.
    node: Option<&'s NodeCapacity>,
    now: Timestamp,
    /// For each tag of an image, and for all of them.
    rows: Vec<ImageRow>,
    /// With the namespace that each is about; none for all together.
    problems: Vec<(Option<String>, String)>,
}

impl<'s> ProfileReader<'s> {
    pub fn new(
        namespaces: Option<&'s [String]>,
        image: &'s str,
        node: Option<&'s NodeCapacity>,
        now: Timestamp,
    ) -> Self {
        Self { namespaces, image, node, now, rows: Vec::new(), problems: Vec::new() }
    }

    /// Adds the usage of images in a UsageProfile: by namespace, and together unless namespaces are selected.
    pub fn add(&mut self, object: Node<'_>) -> Result<(), Malformed> {
        let profile = match usage::Profile::read(object) {
            Ok(profile) => profile,
            Err(unusable) => {
                let name = object.at(&["metadata", "name"])?.map(Node::str).transpose()?.unwrap_or_default();
                let concerned = self.namespaces.and_then(|namespaces| namespaces.first().cloned());
                self.add_problem(concerned, format!("UsageProfile {name}: {unusable}"));
                return Ok(());
            }
        };
        let Some(images) = profile.images else { return Ok(()) };
        for (key, entry) in images.fields()? {
            // Keys have commas for dots, because a dot separates the steps of a field mask.
            let repository = key.str()?.replace(',', ".");
            let Ok(image) = ImageName::parse(&repository) else { continue };
            let place = ProfileKey::of(image.repository());
            let pool = entry.get("pool")?.filter(|_| self.namespaces.is_none());
            if let Some(node) = pool {
                let entry = profile.entry(&place, "");
                let rows = entry.and_then(|entry| self.rows(&image, node, entry.pool));
                self.add_rows(None, rows);
            }
            let Some(own) = entry.get("own")? else { continue };
            for (namespace, node) in own.fields()? {
                let namespace = namespace.str()?;
                if self.namespaces.is_some_and(|wanted| !wanted.iter().any(|wanted| namespace == *wanted)) {
                    continue;
                }
                let entry = profile.entry(&place, &namespace);
                let rows = entry.and_then(|entry| self.rows(&image, node, entry.own));
                self.add_rows(Some(namespace.to_string()), rows);
            }
        }
        Ok(())
    }

    fn add_rows(&mut self, namespace: Option<String>, read: Result<Vec<ImageRow>, Malformed>) {
        match read {
            Ok(rows) => self.rows.extend(rows.into_iter().map(|row| ImageRow { namespace: namespace.clone(), ..row })),
            Err(unusable) => self.add_problem(namespace, unusable.to_string()),
        }
    }

    fn add_problem(&mut self, namespace: Option<String>, problem: String) {
        let problem = (namespace, problem);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The rows and the problems by namespace; those of all together are last.
    pub fn finish(mut self) -> (Vec<ImageRow>, Vec<String>) {
        fn place(row: &ImageRow) -> (bool, Option<&str>, &str) {
            (row.namespace.is_none(), row.namespace.as_deref(), &row.image)
        }
        self.rows.sort_by(|one, other| place(one).cmp(&place(other)));
        // Each page of an image repeats what is known of all namespaces.
        self.rows.dedup_by(|one, other| place(one) == place(other));
        self.problems.sort_by(|(one, _), (other, _)| (one.is_none(), one).cmp(&(other.is_none(), other)));
        (self.rows, self.problems.into_iter().map(|(_, problem)| problem).collect())
    }

    /// Reads the rows of an image. `histories` was read from `node`.
    fn rows(
        &self,
        image: &ImageName<'_>,
        node: Node<'_>,
        histories: Option<Histories<'_>>,
    ) -> Result<Vec<ImageRow>, Malformed> {
        let Some(histories) = histories else { return Ok(Vec::new()) };
        // However old: it is what there is.
        usage::age(histories.collected_at, self.now, Duration::MAX)?;
        // The name without what every runtime adds.
        let name = image.repository();
        let name = name.strip_prefix("docker.io/").unwrap_or(name);
        let familiar = name.strip_prefix("library/").unwrap_or(name);
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
            if let Some(history) = history.filter(|_| name.contains(self.image)) {
                rows.extend(self.row(name, history, histories.collected_at)?);
            }
        }
        Ok(rows)
    }

    /// `at` is the time of the collection.
    fn row(&self, image: String, history: HistoryNode<'_>, at: Timestamp) -> Result<Option<ImageRow>, Malformed> {
        // Without figures where namespaces do not agree on any.
        let observed = |resource| {
            Ok::<_, Malformed>(history.observed(Window::Month, resource)?.filter(|of| of.has(Percentile::PEAK)))
        };
        let Some(any) = observed(Resource::Cpu)?.or(observed(Resource::Memory)?) else { return Ok(None) };
        let of = |resource| observed(resource)?.map(|observed| distribution(observed, resource)).transpose();
        let (kills, pods) = (history.oom_kills(at)?, any.pods()?);
        let (cpu, memory, storage) = (of(Resource::Cpu)?, of(Resource::Memory)?, of(Resource::EphemeralStorage)?);
        let usage = UsageOfImage {
            pods,
            cpu: cpu.as_ref(),
            memory: memory.as_ref(),
            storage: storage.as_ref(),
            killed_at: kills.iter().map(|kill| &kill.memory).max(),
        };
        let size = SizeByImage::of(usage, self.node);
        Ok(Some(ImageRow { namespace: None, image, pods, oom_kills: kills.len(), size }))
    }
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
        let [cpu, memory] = [cpu, "8Mi"]
            .map(|amount| json!({"samples": 60, "peak": amount, "percentiles": Percentile::PUBLISHED.map(|_| amount)}));
        json!({"lastSeen": "2026-11-20T00:00:00Z", "oomKills": [{"at": "2026-11-19T00:00:00Z", "memory": "64Mi"}],
            "windows": {"30d": {"pods": 5, "namespaces": 1, "cpu": cpu, "memory": memory}}})
    }

    fn object(tags: Value) -> Value {
        let histories = json!({"all": history("2"), "tags": tags});
        let entry = json!({"own": {"shop": histories, "lab": histories}, "pool": histories});
        json!({"metadata": {"name": "usage-26", "namespace": "headroom"},
            "spec": {"header": {"format": 3, "collectedAt": "2026-11-20T00:00:00Z"},
                "images": {"docker,io/library/nginx": entry}}})
    }

    /// As read a year later.
    fn read(objects: &[Value], image: &str, namespace: Option<&str>) -> (Vec<ImageRow>, Vec<String>) {
        let now = "2027-11-20T00:00:00Z".parse().unwrap();
        let namespaces = namespace.map(|namespace| [namespace.to_owned()]);
        let namespaces = namespaces.as_ref().map(<[String; 1]>::as_slice);
        let mut found = ProfileReader::new(namespaces, image, None, now);
        for object in objects {
            let text = object.to_string();
            found.add(Document::read(&text).unwrap().root()).unwrap();
        }
        found.finish()
    }

    fn of_shop(object: &Value, image: &str) -> Vec<ImageRow> {
        read(std::slice::from_ref(object), image, Some("shop")).0
    }

    fn names(rows: &[ImageRow]) -> Vec<&str> {
        rows.iter().map(|row| row.image.as_str()).collect()
    }

    #[test]
    fn tags_and_digests_are_named_as_people_write_them() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let both = of_shop(&object(json!({"1,27": history("1"), (digest.as_str()): history("1")})), "");
        assert_eq!(names(&both), ["nginx:*", "nginx:1.27", &format!("nginx@{digest}")]);
        let one = of_shop(&object(json!({"1,27": history("1")})), "");
        assert_eq!(names(&one), ["nginx:1.27"], "all tags together are no more than the one");
        assert_eq!(names(&of_shop(&object(json!({"1,27": history("1"), "2": history("1")})), ":2")), ["nginx:2"]);
        let mut same = object(json!({}));
        let all = &mut same["spec"]["images"]["docker,io/library/nginx"]["own"]["shop"]["all"];
        all["same"] = json!(["1,27", "web/nginx"]);
        assert_eq!(names(&of_shop(&same, "")), ["nginx:1.27"], "what has a slash is a workload");
    }

    #[test]
    fn each_namespace_is_shown_by_itself_and_what_pages_repeat_once() {
        let page = object(json!({"1,27": history("1")}));
        let (found, _) = read(&[page.clone(), page], "", None);
        let namespaces: Vec<_> = found.iter().map(|row| row.namespace.as_deref()).collect();
        assert_eq!(namespaces, [Some("lab"), Some("shop"), None]);
    }

    #[test]
    fn kills_are_read_with_usage() {
        let ImageRow { pods, oom_kills, size, .. } = of_shop(&object(json!({"1,27": history("1")})), "").remove(0);
        let limit = size.unwrap().resources.limits.memory.unwrap();
        assert_eq!((pods, oom_kills, limit.to_string().as_str()), (5, 1, "164Mi"), "100Mi above the kill");
    }

    #[test]
    fn what_no_estimate_would_be_made_from_is_a_problem() {
        let mut other_format = object(json!({}));
        other_format["spec"]["header"]["format"] = json!(1);
        let (rows, problems) = read(&[other_format], "", Some("shop"));
        assert_eq!(problems, ["UsageProfile usage-26: spec.header.format: expected 3, found `1`"]);
        assert!(rows.is_empty());
    }
}
