//! What the UsageProfiles hold: one row for each image and tag.
//!
//! A profile is read by the core's own functions, so what is not fit for an estimate is not shown as if it were.

use std::time::Duration;

use headroom_core::cluster::usage::address::Place;
use headroom_core::cluster::usage::read::{self as usage, Age, Entry, HistoryNode, Observed, Unusable};
use headroom_core::cluster::usage::{Percentile, Resource, TagKey, Window};
use headroom_core::image::ImageName;
use headroom_core::json::{Malformed, Node};
use headroom_core::timestamp::Timestamp;
use serde::Serialize;

use super::section;
use crate::distribution::Distribution;
use crate::draw::Charset;
use crate::output::Table;

/// What one profile holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    pub namespace: String,
    /// `usage` for the namespace's own, `pool-…` for a share of all.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    pub images: Vec<Image>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// One image, or one tag of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// As people write it: `nginx:1.27`, `nginx:*` for all tags together.
    pub image: String,
    pub window: String,
    pub pods: u64,
    pub namespaces: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Distribution>,
    pub oom_kills: Vec<OomKill>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OomKill {
    pub at: String,
    pub memory: String,
}

/// Which rows are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'s> {
    /// Only images whose name contains this.
    pub image: Option<&'s str>,
    pub window: Window,
}

/// Reads a profile object.
pub fn profile(node: Node<'_>, selection: Selection<'_>, now: Timestamp) -> Result<Profile, Malformed> {
    let metadata = node.get("metadata")?;
    let text = |field| metadata.map(|metadata| metadata.string(field)).transpose().map(Option::flatten);
    let mut profile = Profile {
        namespace: text("namespace")?.unwrap_or_default().into_owned(),
        name: text("name")?.unwrap_or_default().into_owned(),
        age_seconds: None,
        images: Vec::new(),
        problems: Vec::new(),
    };
    let Some(images) = node.at(&["spec", "images"])? else { return Ok(profile) };
    let known = usage::Profile::read(node);
    for (_, entry) in images.fields()? {
        let Some(repository) = entry.string("repository")? else { continue };
        let Ok(image) = ImageName::parse(&repository) else { continue };
        match known.clone().and_then(|known| read_image(known, entry, &image, selection, now)) {
            Ok((age, rows)) => {
                profile.age_seconds = Some(age.as_secs());
                profile.images.extend(rows);
            }
            Err(unusable) => {
                let problem = unusable.to_string();
                if !profile.problems.contains(&problem) {
                    profile.problems.push(problem);
                }
            }
        }
    }
    profile.images.sort_by(|one, other| one.image.cmp(&other.image));
    Ok(profile)
}

fn read_image(
    profile: usage::Profile<'_>,
    node: Node<'_>,
    image: &ImageName<'_>,
    selection: Selection<'_>,
    now: Timestamp,
) -> Result<(Duration, Vec<Image>), Unusable> {
    // However old: a person who looks sees how old it is.
    let entry = profile.entry(&Place::of(image))?;
    let age = entry.age(now, Duration::MAX)?;
    let familiar = familiar(image.repository());
    let mut rows = Vec::new();
    let mut add = |name: String, history: Option<HistoryNode<'_>>| -> Result<(), Unusable> {
        if let Some(history) = history.filter(|_| selection.image.is_none_or(|wanted| name.contains(wanted))) {
            rows.extend(row(name, history, &entry, selection.window)?);
        }
        Ok(())
    };
    let mut tags = 0;
    if let Some(nodes) = node.get("tags")? {
        for (key, _) in nodes.fields()? {
            let key = key.str()?;
            let reference = key.replace(',', ".");
            let separator = if reference.contains(':') { '@' } else { ':' };
            let full = format!("{}{separator}{reference}", image.repository());
            let Ok(tagged) = ImageName::parse(&full) else { continue };
            let Some(tag) = TagKey::of(&tagged).find(|tag| tag.as_str() == key) else { continue };
            tags += 1;
            add(format!("{familiar}{separator}{reference}"), entry.tag(&tag)?)?;
        }
    }
    if tags != 1 {
        add(format!("{familiar}:*"), entry.all()?)?;
    }
    Ok((age, rows))
}

/// The name without what every runtime adds.
fn familiar(repository: &str) -> &str {
    let name = repository.strip_prefix("docker.io/").unwrap_or(repository);
    name.strip_prefix("library/").unwrap_or(name)
}

fn row(image: String, history: HistoryNode<'_>, entry: &Entry<'_>, wanted: Window) -> Result<Option<Image>, Unusable> {
    for window in [wanted, Window::MONTH] {
        // Without figures where namespaces do not agree on any.
        let observed =
            |resource| Ok::<_, Unusable>(history.observed(window, resource)?.filter(|of| of.has(Percentile::PEAK)));
        let (cpu, memory) = (observed(Resource::Cpu)?, observed(Resource::Memory)?);
        let Some(any) = cpu.or(memory) else { continue };
        let kills = history.oom_kills(entry.collected_at)?;
        return Ok(Some(Image {
            image,
            window: window.to_string(),
            pods: any.pods()?,
            namespaces: any.namespaces()?,
            cpu: cpu.map(|observed| distribution(observed, Resource::Cpu)).transpose()?,
            memory: memory.map(|observed| distribution(observed, Resource::Memory)).transpose()?,
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
    Ok(Distribution::new(resource, observed.samples, percentiles, &observed.peak()?))
}

/// With so few rows each is drawn at length.
const FEW: usize = 3;

/// The percentile that estimates are made of unless settings choose another.
const SHOWN: &str = "p90";

impl Profile {
    /// A table of all images; the distribution of each is drawn in the last columns, at length where there are few.
    pub fn text(&self, charset: Charset) -> String {
        let mut text = String::new();
        let age = match self.age_seconds {
            Some(seconds) => format!(", collected {} ago", Age(Duration::from_secs(seconds))),
            None => String::new(),
        };
        let heading = match self.name.as_str() {
            "usage" => format!("Usage in namespace {}{age}:", self.namespace),
            name => format!("Usage in all namespaces ({}/{name}){age}:", self.namespace),
        };
        let mut table = Table::new(&[
            "IMAGE",
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
        ]);
        for image in &self.images {
            let cell = |usage: &Option<Distribution>, label| {
                usage.as_ref().map_or("-", |usage| usage.shown_at(label)).to_owned()
            };
            let samples = [&image.cpu, &image.memory].into_iter().flatten().map(|usage| usage.samples).max();
            let drawn =
                |usage: &Option<Distribution>| usage.as_ref().map_or("-".to_owned(), |usage| usage.columns(charset));
            table.row([
                image.image.clone(),
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
            text.push_str(&format!("{heading} nothing\n"));
        } else {
            section(&mut text, &heading, &table);
        }
        for problem in &self.problems {
            text.push_str(&format!("  not usable: {problem}\n"));
        }
        if self.images.len() <= FEW {
            self.images.iter().for_each(|image| image.draw(&mut text, charset));
        }
        text
    }
}

impl Image {
    fn draw(&self, text: &mut String, charset: Charset) {
        for (resource, usage) in [("cpu", &self.cpu), ("memory", &self.memory)] {
            let Some(usage) = usage else { continue };
            let heading = format!("{resource} of {}, {}, {} samples:", self.image, self.window, usage.samples);
            section(text, &heading, &usage.plot(charset, "", ""));
        }
        for kill in &self.oom_kills {
            text.push_str(&format!("  killed out of memory at {} with {}\n", kill.at, kill.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_core::json::Document;
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = "nginx-f7b30ec5501512a6";

    fn history(cpu: &str) -> Value {
        let percentiles = Percentile::PUBLISHED.map(|at| format!(" {}={cpu}", at.name())).concat();
        let usage = format!("samples=60 peak={cpu}{percentiles}");
        json!({"lastSeen": "2026-11-20T00:00:00Z", "oomKills": [{"at": "2026-11-19T00:00:00Z", "memory": "64Mi"}],
            "windows": {"30d": {"pods": 2, "namespaces": 1, "cpu": usage}}})
    }

    fn object(tags: Value) -> Value {
        let entry = json!({"repository": "docker.io/library/nginx", "all": history("2"), "tags": tags});
        json!({"metadata": {"name": "usage", "namespace": "shop"},
            "spec": {"format": 1, "collectedAt": "2026-11-20T00:00:00Z", "images": {KEY: entry}}})
    }

    fn read(object: &Value, image: Option<&str>) -> Profile {
        let text = object.to_string();
        let document = Document::read(&text).unwrap();
        let now = "2027-11-20T00:00:00Z".parse().unwrap();
        profile(document.root(), Selection { image, window: Window::WEEK }, now).unwrap()
    }

    fn names(profile: &Profile) -> Vec<&str> {
        profile.images.iter().map(|image| image.image.as_str()).collect()
    }

    #[test]
    fn tags_and_digests_are_named_as_people_write_them() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let both = read(&object(json!({"1,27": history("1"), (digest.as_str()): history("1")})), None);
        assert_eq!(names(&both), ["nginx:*", "nginx:1.27", &format!("nginx@{digest}")]);
        let one = read(&object(json!({"1,27": history("1")})), None);
        assert_eq!(names(&one), ["nginx:1.27"], "all tags together are no more than the one");
        assert_eq!(names(&read(&object(json!({"1,27": history("1"), "2": history("1")})), Some(":2"))), ["nginx:2"]);
    }

    #[test]
    fn the_longer_window_stands_in_for_one_that_is_empty_and_old_profiles_are_shown_with_their_age() {
        let profile = read(&object(json!({"1,27": history("1")})), None);
        assert_eq!((profile.images[0].window.as_str(), profile.age_seconds), ("30d", Some(365 * 86_400)));
        let text = profile.text(Charset::Ascii);
        assert!(text.starts_with("Usage in namespace shop, collected 365d ago:\n"), "{text}");
        assert!(text.contains("  killed out of memory at 2026-11-19T00:00:00Z with 64Mi\n"), "{text}");
    }

    #[test]
    fn what_no_estimate_would_be_made_from_is_not_shown_as_usage() {
        let mut other_format = object(json!({}));
        other_format["spec"]["format"] = json!(2);
        let profile = read(&other_format, None);
        assert_eq!(profile.problems, ["spec.format: expected 1, found `2`"]);
        assert!(profile.images.is_empty());
        assert_eq!(
            profile.text(Charset::Ascii),
            "Usage in namespace shop: nothing\n  not usable: spec.format: expected 1, found `2`\n"
        );
    }
}
