//! The content of UsageProfiles: one row for each image and tag, and one for each container of a workload, by namespace.
//!
//! A profile is read by the core's own functions, so what is not fit for an estimate is not shown as if it were.

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_core::cluster::usage::read::{self as usage, Age, Histories, HistoryNode, Observed, Unusable};
use headroom_core::cluster::usage::{Percentile, ProfileKey, Resource, TagKey, Window};
use headroom_core::image::ImageName;
use headroom_core::json::{Malformed, Node};
use headroom_core::timestamp::Timestamp;
use headroom_report::draw::Charset;
use headroom_report::{Page, Table};
use headroom_rightsize::distribution::Distribution;
use serde::Serialize;

use super::accuracy::{self, Estimates};
use super::section;

/// Usage in one namespace, or in all together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// None for all together.
    pub namespace: Option<String>,
    /// The age of the oldest profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    pub images: Vec<Image>,
    /// The accuracy of estimates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<Estimates>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// One image, one tag of it, or one container of a workload that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// As people write it: `nginx:1.27`, `nginx:*` for all tags together.
    pub image: String,
    /// And its container: `web/nginx`. Where only one runs the image, its history is that of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    pub window: String,
    pub pods: u64,
    pub namespaces: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Distribution>,
    #[serde(skip)]
    pub storage: Option<Distribution>,
    pub oom_kills: Vec<OomKill>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OomKill {
    pub at: String,
    pub memory: String,
}

/// The rows to show.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'s> {
    /// Only these, and not all together.
    pub namespaces: Option<&'s [String]>,
    /// Only images whose name contains this.
    pub image: Option<&'s str>,
    pub window: Window,
}

/// Reads the content of profiles, by namespace; that of all together is last.
#[derive(Debug)]
pub struct ProfileReader<'s> {
    pub selection: Selection<'s>,
    pub now: Timestamp,
    own: BTreeMap<String, Usage>,
    together: Usage,
}

impl<'s> ProfileReader<'s> {
    pub fn new(selection: Selection<'s>, now: Timestamp) -> Self {
        Self { selection, now, own: BTreeMap::new(), together: Usage::default() }
    }

    /// Adds the content of a profile object.
    pub fn add(&mut self, object: Node<'_>) -> Result<(), Malformed> {
        let profile = match usage::Profile::read(object) {
            Ok(profile) => profile,
            Err(unusable) => {
                let name = object.at(&["metadata", "name"])?.map(Node::str).transpose()?.unwrap_or_default();
                self.concerned().add_problem(format!("UsageProfile {name}: {unusable}"));
                return Ok(());
            }
        };
        let Some(images) = profile.images() else { return Ok(()) };
        for (key, entry) in images.fields()? {
            let repository = key.str()?.replace(',', ".");
            let Ok(image) = ImageName::parse(&repository) else { continue };
            let place = ProfileKey::of(image.repository());
            let pool = entry.get("pool")?.filter(|_| self.selection.namespaces.is_none());
            if let Some(node) = pool {
                let pool = profile.entry(&place, "").map(|entry| entry.pool);
                let (selection, now) = (self.selection, self.now);
                self.together.add(&image, node, pool, selection, now);
            }
            let Some(own) = entry.get("own")? else { continue };
            for (namespace, node) in own.fields()? {
                let namespace = namespace.str()?;
                if self.selection.namespaces.is_some_and(|wanted| !wanted.iter().any(|wanted| namespace == *wanted)) {
                    continue;
                }
                let own = profile.entry(&place, &namespace).map(|entry| entry.own);
                let of = self.own.entry(namespace.to_string()).or_default();
                of.add(&image, node, own, self.selection, self.now);
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Vec<Usage> {
        let mut found = Vec::new();
        for (namespace, usage) in self.own {
            found.push(Usage { namespace: Some(namespace), ..usage });
        }
        // Each page of an image repeats what is known of all namespaces.
        self.together.images.sort_by(|one, other| one.image.cmp(&other.image));
        self.together.images.dedup_by(|one, other| one.image == other.image);
        found.push(self.together);
        for usage in &mut found {
            usage.images.sort_by(|one, other| (&one.image, &one.workload).cmp(&(&other.image, &other.workload)));
            usage.estimates.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
        }
        found.retain(|usage| !usage.images.is_empty() || !usage.problems.is_empty());
        found
    }

    /// The part that reports an object that cannot be read.
    fn concerned(&mut self) -> &mut Usage {
        match self.selection.namespaces {
            Some([namespace, ..]) => self.own.entry(namespace.clone()).or_default(),
            _ => &mut self.together,
        }
    }
}

impl Usage {
    fn add(
        &mut self,
        image: &ImageName<'_>,
        node: Node<'_>,
        histories: Result<Option<Histories<'_>>, Unusable>,
        selection: Selection<'_>,
        now: Timestamp,
    ) {
        let read = histories.and_then(|histories| match histories {
            Some(histories) => read_image(image, node, &histories, selection, now).map(Some),
            None => Ok(None),
        });
        match read {
            Ok(None) => {}
            Ok(Some((age, rows))) => {
                self.age_seconds = self.age_seconds.max(Some(age.as_secs()));
                if !rows.is_empty() {
                    match accuracy::read(familiar(image.repository()), node) {
                        Ok(estimates) => self.estimates.extend(estimates),
                        Err(malformed) => self.add_problem(malformed.to_string()),
                    }
                }
                self.images.extend(rows);
            }
            Err(unusable) => self.add_problem(unusable.to_string()),
        }
    }

    fn add_problem(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// Reads the rows of an image. `histories` was read from `node`.
fn read_image(
    image: &ImageName<'_>,
    node: Node<'_>,
    histories: &Histories<'_>,
    selection: Selection<'_>,
    now: Timestamp,
) -> Result<(Duration, Vec<Image>), Unusable> {
    // However old: a person who looks sees how old it is.
    let age = histories.age(now, Duration::MAX)?;
    let familiar = familiar(image.repository());
    let mut rows = Vec::new();
    let mut add = |image: &str, workload: Option<&str>, history: Option<HistoryNode<'_>>| -> Result<(), Unusable> {
        if let Some(history) = history.filter(|_| selection.image.is_none_or(|wanted| image.contains(wanted))) {
            rows.extend(row(image, workload, history, histories.collected_at, selection.window)?);
        }
        Ok(())
    };
    let same = node.get("all")?.map(|all| all.list("same")).transpose()?.into_iter().flatten();
    let same = same.map(Node::plain_str).collect::<Result<Vec<&str>, _>>()?;
    let (same_workloads, same_tags): (Vec<&str>, Vec<&str>) = same.into_iter().partition(|key| key.contains('/'));
    let names = |parts| -> Result<Vec<String>, Malformed> {
        let parts = node.get(parts)?.map(Node::fields).transpose()?.into_iter().flatten();
        parts.map(|(key, _)| Ok(key.str()?.into_owned())).collect()
    };
    let (tags, workloads) = (names("tags")?, names("workloads")?);
    let mut named = Vec::new();
    for key in same_tags.into_iter().map(str::to_owned).chain(tags) {
        let reference = key.replace(',', ".");
        let separator = if reference.contains(':') { '@' } else { ':' };
        let full = format!("{}{separator}{reference}", image.repository());
        let Ok(tagged) = ImageName::parse(&full) else { continue };
        let Some(tag) = TagKey::of(&tagged).find(|tag| tag.as_str() == key) else { continue };
        named.push((format!("{familiar}{separator}{reference}"), histories.tag(&tag)?));
    }
    // All tags together are no more than the one.
    let all = match named.as_slice() {
        [(one, _)] => one.clone(),
        _ => format!("{familiar}:*"),
    };
    if named.len() != 1 {
        named.push((all.clone(), histories.all()?));
    }
    // Nor are all workloads.
    let (only, others): (Option<&str>, &[&str]) = match same_workloads.as_slice() {
        [one] if workloads.is_empty() => (Some(one), &[]),
        several => (None, several),
    };
    for (name, history) in named {
        add(&name, only.filter(|_| name == all), history)?;
    }
    for key in others.iter().copied().chain(workloads.iter().map(String::as_str)) {
        add(&all, Some(key), histories.workload(key)?)?;
    }
    Ok((age, rows))
}

/// The name without what every runtime adds.
fn familiar(repository: &str) -> &str {
    let name = repository.strip_prefix("docker.io/").unwrap_or(repository);
    name.strip_prefix("library/").unwrap_or(name)
}

fn row(
    image: &str,
    workload: Option<&str>,
    history: HistoryNode<'_>,
    collected_at: Timestamp,
    wanted: Window,
) -> Result<Option<Image>, Unusable> {
    for window in [wanted, Window::MONTH] {
        // Without figures where namespaces do not agree on any.
        let observed =
            |resource| Ok::<_, Unusable>(history.observed(window, resource)?.filter(|of| of.has(Percentile::PEAK)));
        let (cpu, memory) = (observed(Resource::Cpu)?, observed(Resource::Memory)?);
        let storage = observed(Resource::EphemeralStorage)?;
        let Some(any) = cpu.or(memory) else { continue };
        let kills = history.oom_kills(collected_at)?;
        return Ok(Some(Image {
            image: image.to_owned(),
            workload: workload.map(|key| key.replace(',', ".")),
            window: window.to_string(),
            pods: any.pods()?,
            namespaces: any.namespaces()?,
            cpu: cpu.map(|observed| distribution(observed, Resource::Cpu)).transpose()?,
            memory: memory.map(|observed| distribution(observed, Resource::Memory)).transpose()?,
            storage: storage.map(|observed| distribution(observed, Resource::EphemeralStorage)).transpose()?,
            oom_kills: kills
                .iter()
                .map(|kill| OomKill { at: kill.at.to_string(), memory: kill.memory.to_string() })
                .collect(),
        }));
    }
    Ok(None)
}

fn distribution(observed: Observed<'_>, resource: Resource) -> Result<Distribution, Unusable> {
    let at = |at| Ok((at, observed.percentile(at)?));
    let known = Percentile::PUBLISHED.into_iter().filter(|at| observed.has(*at));
    let percentiles = known.map(at).collect::<Result<_, Unusable>>()?;
    Ok(Distribution::new(resource, observed.samples, percentiles, observed.peak()?))
}

/// With so few rows each is drawn at length.
const FEW: usize = 3;

/// The percentile that estimates are made of unless settings choose another.
const SHOWN: &str = "p90";

impl Usage {
    /// A table of all images; the distribution of each is drawn in the last columns, at length where there are few.
    pub fn page(&self, charset: Charset) -> Page {
        let mut page = Page::new();
        let age = match self.age_seconds {
            Some(seconds) => format!(", collected {} ago", Age(Duration::from_secs(seconds))),
            None => String::new(),
        };
        let heading = match &self.namespace {
            Some(namespace) => format!("Usage in namespace {namespace}{age}:"),
            None => format!("Usage in all namespaces{age}:"),
        };
        let mut table = Table::new(&[
            "IMAGE",
            "WORKLOAD",
            "WINDOW",
            "CPU P90",
            "CPU PEAK",
            "MEMORY P90",
            "MEMORY PEAK",
            "SAMPLES",
            "PODS",
            "OOM",
            "CPU P50-PEAK",
            "MEMORY P50-PEAK",
        ])
        .right(&["CPU P90", "CPU PEAK", "MEMORY P90", "MEMORY PEAK", "SAMPLES", "PODS", "OOM"])
        .spare(&["MEMORY P50-PEAK", "CPU P50-PEAK", "SAMPLES", "WORKLOAD", "WINDOW", "MEMORY P90", "CPU P90"]);
        for image in &self.images {
            let cell = |usage: &Option<Distribution>, label| {
                usage.as_ref().map_or_else(|| "-".to_owned(), |usage| usage.shown_at(label))
            };
            let samples = [&image.cpu, &image.memory].into_iter().flatten().map(|usage| usage.samples).max();
            let drawn =
                |usage: &Option<Distribution>| usage.as_ref().map_or("-".to_owned(), |usage| usage.columns(charset));
            table.row([
                image.image.clone(),
                image.workload.as_deref().unwrap_or("-").to_owned(),
                image.window.clone(),
                cell(&image.cpu, SHOWN),
                cell(&image.cpu, "peak"),
                cell(&image.memory, SHOWN),
                cell(&image.memory, "peak"),
                samples.unwrap_or(0).to_string(),
                image.pods.to_string(),
                image.oom_kills.len().to_string(),
                drawn(&image.cpu),
                drawn(&image.memory),
            ]);
        }
        if self.images.is_empty() {
            writeln!(page, "{heading} nothing");
        } else {
            section(&mut page, &heading, table);
        }
        accuracy::describe(&mut page, &self.estimates);
        for problem in &self.problems {
            writeln!(page, "  not usable: {problem}");
        }
        if self.images.len() <= FEW {
            self.images.iter().for_each(|image| image.draw(&mut page, charset));
        }
        page
    }
}

impl Image {
    fn draw(&self, page: &mut Page, charset: Charset) {
        for (resource, usage) in [("cpu", &self.cpu), ("memory", &self.memory)] {
            let Some(usage) = usage else { continue };
            let of = match &self.workload {
                Some(workload) => format!("{} in {workload}", self.image),
                None => self.image.clone(),
            };
            let heading = format!("{resource} of {of}, {}, {} samples:", self.window, usage.samples);
            page.gap();
            writeln!(page, "{heading}");
            page.lines(&usage.plot(charset, "", ""));
        }
        for kill in &self.oom_kills {
            writeln!(page, "  killed out of memory at {} with {}", kill.at, kill.memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_core::json::Document;
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

    fn read(objects: &[Value], image: Option<&str>, namespace: Option<&str>) -> Vec<Usage> {
        let now = "2027-11-20T00:00:00Z".parse().unwrap();
        let namespaces = namespace.map(|namespace| [namespace.to_owned()]);
        let namespaces = namespaces.as_ref().map(<[String; 1]>::as_slice);
        let mut found = ProfileReader::new(Selection { namespaces, image, window: Window::WEEK }, now);
        for object in objects {
            let text = object.to_string();
            found.add(Document::read(&text).unwrap().root()).unwrap();
        }
        found.finish()
    }

    fn of_shop(object: &Value, image: Option<&str>) -> Usage {
        read(std::slice::from_ref(object), image, Some("shop")).remove(0)
    }

    fn names(usage: &Usage) -> Vec<&str> {
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
        same["spec"]["images"]["docker,io/library/nginx"]["own"]["shop"]["all"]["same"] = json!(["1,27"]);
        assert_eq!(names(&of_shop(&same, None)), ["nginx:1.27"]);
    }

    /// nginx in namespace shop, with further fields beside `all` and in it.
    fn of_shop_with(beside: Value, same: &str) -> Usage {
        let mut object = object(json!({"1,27": history("1")}));
        let own = &mut object["spec"]["images"]["docker,io/library/nginx"]["own"]["shop"];
        own["all"]["same"] = json!(same.split(' ').collect::<Vec<_>>());
        own.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
        of_shop(&object, None)
    }

    #[test]
    fn each_container_of_a_workload_has_a_row_unless_it_is_the_only_one() {
        let rows = |workloads: Value, same: &str| -> Vec<(String, Option<String>)> {
            let usage = of_shop_with(json!({"workloads": workloads}), same);
            usage.images.into_iter().map(|image| (image.image, image.workload)).collect()
        };
        let row = |workload: Option<&str>| ("nginx:1.27".to_owned(), workload.map(str::to_owned));
        assert_eq!(rows(json!({}), "web/nginx"), [row(Some("web/nginx"))]);
        assert_eq!(rows(json!({"a,b/nginx": history("1")}), ""), [row(None), row(Some("a.b/nginx"))]);
        let several = rows(json!({"a/nginx": history("1"), "a/sidecar": history("2")}), "b/nginx");
        assert_eq!(several, [row(None), row(Some("a/nginx")), row(Some("a/sidecar")), row(Some("b/nginx"))]);
    }

    #[test]
    fn estimates_are_shown_beside_usage_with_their_slack_and_what_is_off() {
        let usage = of_shop_with(
            json!({"estimates": {
                "cpu": {"containers": 4, "above": 3, "estimated": "400m", "used": "1"},
                "memory": {"containers": 4, "above": 0, "estimated": "2Gi", "used": "100Mi"}
            }}),
            "web/nginx",
        );
        let text = usage.page(Charset::Ascii).to_string();
        let expected = "
Estimates against usage (containers seen in the last 7 days; USED is their average):
IMAGE   RESOURCE   CONTAINERS   ABOVE   ESTIMATED   USED    SLACK
nginx   cpu        4            3       400m        1       -600m
nginx   memory     4            0       2Gi         100Mi   1948Mi
nginx: cpu was estimated too low: 3 of 4 containers used more for over 5% of their time
nginx: memory was estimated too high: less than a tenth was used
";
        assert!(text.contains(expected), "{text}");
        let json = serde_json::to_value(&usage.estimates).unwrap();
        assert_eq!(
            json[0],
            json!({"image": "nginx", "resource": "cpu", "containers": 4, "above": 3, "estimated": "400m", "used": "1", "off": "too low"})
        );
        let wrong = of_shop_with(json!({"estimates": {"cpu": "containers=4"}}), "");
        assert_eq!(wrong.problems.len(), 1, "{:?}", wrong.problems);
        assert_eq!(wrong.images.len(), 1);
    }

    #[test]
    fn each_namespace_is_shown_by_itself_and_what_pages_repeat_once() {
        let page = object(json!({"1,27": history("1")}));
        let found = read(&[page.clone(), page], None, None);
        let rows: Vec<_> = found.iter().map(|usage| (usage.namespace.as_deref(), usage.images.len())).collect();
        assert_eq!(rows, [(Some("lab"), 2), (Some("shop"), 2), (None, 1)]);
    }

    #[test]
    fn the_longer_window_stands_in_for_one_that_is_empty_and_old_profiles_are_shown_with_their_age() {
        let usage = of_shop(&object(json!({"1,27": history("1")})), None);
        assert_eq!((usage.images[0].window.as_str(), usage.age_seconds), ("30d", Some(365 * 86_400)));
        let text = usage.page(Charset::Ascii).to_string();
        assert!(text.starts_with("Usage in namespace shop, collected 365d ago:\n"), "{text}");
        assert!(text.contains("  killed out of memory at 2026-11-19T00:00:00Z with 64Mi\n"), "{text}");
    }

    #[test]
    fn what_no_estimate_would_be_made_from_is_not_shown_as_usage() {
        let mut other_format = object(json!({}));
        other_format["spec"]["header"]["format"] = json!(1);
        let usage = of_shop(&other_format, None);
        let problem = "UsageProfile usage-26: spec.header.format: expected 3, found `1`";
        assert_eq!(usage.problems, [problem]);
        assert!(usage.images.is_empty());
        assert_eq!(
            usage.page(Charset::Ascii).to_string(),
            format!("Usage in namespace shop: nothing\n  not usable: {problem}\n")
        );
    }
}
