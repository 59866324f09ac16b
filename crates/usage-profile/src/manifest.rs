//! The text of a profile: the whole Kubernetes object, as JSON, in a fixed order.
//!
//! Written by hand because the core has no serializer, and because [`super::bounds`] measures each history with the
//! same functions. No string needs escaping: names come from [`ImageName`](headroom_core::image::ImageName) or from the
//! API server, and the others are amounts and timestamps.

use std::fmt::{self, Display, Write};

use headroom_core::cluster::usage::profile_layout::{API_VERSION, KIND, Repository, key_of};
use headroom_core::cluster::usage::{FORMAT, OomKill, Resource, Window};

use super::{Content, Histories, History, ImageHistory, Summary, UsageProfile, WindowUsage};

/// The object as one line of JSON.
impl Display for UsageProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, namespace, collected_at, .. } = self;
        write!(f, r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","#)?;
        write!(f, r#""metadata":{{"name":"{name}","namespace":"{namespace}"}},"#)?;
        write!(f, r#""spec":{{"header":{{"format":{FORMAT},"collectedAt":"{collected_at}""#)?;
        if let Some(quorum) = self.quorum {
            write!(f, r#","quorum":{quorum}"#)?;
        }
        if let Content::Pages(pages) = &self.content {
            write!(f, r#","pages":"{pages}""#)?;
        }
        f.write_str(r#"},"summary":"#)?;
        summary(f, &self.summary)?;
        if let Content::Images(images) = &self.content {
            f.write_str(r#","images":"#)?;
            object(f, images, |f, (repository, image)| entry(f, repository, image))?;
        }
        f.write_str("}}")
    }
}

/// For `kubectl get`; the policy does not read it.
fn summary(out: &mut impl Write, summary: &Summary) -> fmt::Result {
    let Summary { images, own, pages, oom_killed, dropped } = summary;
    write!(out, r#"{{"images":{images},"histories":{own},"pages":{pages},"oomKilledImages":{oom_killed},"#)?;
    write!(out, r#""droppedHistories":{},"droppedTags":{}}}"#, dropped.own, dropped.tags)
}

/// `"docker,io/library/nginx":{…}`
fn entry(out: &mut impl Write, repository: &Repository, image: &ImageHistory) -> fmt::Result {
    write!(out, r#""{}":{{"#, key_of(repository.as_str()))?;
    if let Some(pool) = &image.pool {
        out.write_str(r#""pool":"#)?;
        histories(out, pool)?;
        out.write_str(",")?;
    }
    out.write_str(r#""own":"#)?;
    object(out, &image.own, |out, (namespace, own)| {
        write!(out, r#""{namespace}":"#)?;
        histories(out, own)
    })?;
    out.write_str("}")
}

/// A tag or workload whose history equals `all` is only named in `same`, because most images run with one tag.
pub(super) fn histories(out: &mut impl Write, histories: &Histories) -> fmt::Result {
    let Histories { collected_at, all, tags, workloads, estimates } = histories;
    let tags = tags.iter().map(|(key, tag)| (key.as_str(), tag));
    let (same_tags, tags): (Vec<_>, Vec<_>) = tags.partition(|(_, tag)| *tag == all);
    let workloads = workloads.iter().map(|(key, workload)| (key.as_str(), workload));
    let (same_workloads, workloads): (Vec<_>, Vec<_>) = workloads.partition(|(_, workload)| *workload == all);
    out.write_str(r#"{"all":{"#)?;
    if let Some(collected_at) = collected_at {
        write!(out, r#""collectedAt":"{collected_at}","#)?;
    }
    let same: Vec<&str> = same_tags.iter().chain(&same_workloads).map(|(key, _)| *key).collect();
    if !same.is_empty() {
        write!(out, r#""same":"{}","#, same.join(" "))?;
    }
    history(out, all)?;
    out.write_str("}")?;
    for (name, parts) in [("tags", tags), ("workloads", workloads)] {
        if !parts.is_empty() {
            write!(out, r#","{name}":"#)?;
            object(out, parts, |out, (key, part)| {
                write!(out, r#""{key}":{{"#)?;
                history(out, part)?;
                out.write_str("}")
            })?;
        }
    }
    if !estimates.is_empty() {
        out.write_str(r#","estimates":"#)?;
        object(out, estimates, |out, (resource, accuracy)| write!(out, r#""{}":"{accuracy}""#, resource.name()))?;
    }
    out.write_str("}")
}

/// The fields of a history.
fn history(out: &mut impl Write, history: &History) -> fmt::Result {
    write!(out, r#""lastSeen":"{}","days":{},"oomKills":["#, history.last_seen, history.days)?;
    separated(out, &history.oom_kills, |out, OomKill { at, memory }| {
        write!(out, r#"{{"at":"{at}","memory":"{memory}"}}"#)
    })?;
    out.write_str(r#"],"windows":"#)?;
    object(out, &history.windows, |out, (window, usage)| window_usage(out, *window, usage))
}

fn window_usage(out: &mut impl Write, window: Window, usage: &WindowUsage) -> fmt::Result {
    write!(out, r#""{window}":{{"pods":{},"namespaces":{}"#, usage.pods, usage.namespaces)?;
    for resource in Resource::ALL {
        if let Some(usage) = usage.of(resource) {
            write!(out, r#","{}":"{usage}""#, resource.name())?;
        }
    }
    out.write_str("}")
}

fn object<W: Write, T>(
    out: &mut W,
    fields: impl IntoIterator<Item = T>,
    field: impl FnMut(&mut W, T) -> fmt::Result,
) -> fmt::Result {
    out.write_str("{")?;
    separated(out, fields, field)?;
    out.write_str("}")
}

fn separated<W: Write, T>(
    out: &mut W,
    items: impl IntoIterator<Item = T>,
    mut item: impl FnMut(&mut W, T) -> fmt::Result,
) -> fmt::Result {
    for (place, value) in items.into_iter().enumerate() {
        if place > 0 {
            out.write_str(",")?;
        }
        item(out, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn a_profile_is_written_in_the_documented_format() {
        let cpu = concat!(
            r#""samples=120 peak=1 50=500m 60=600m 70=700m 75=750m 80=800m 85=850m 90=900m 95=950m "#,
            r#"98=980m 99=990m 99.9=999m""#,
        );
        let memory = concat!(
            r#""samples=120 peak=1Gi 50=500Mi 60=600Mi 70=700Mi 75=750Mi 80=800Mi 85=850Mi 90=900Mi "#,
            r#"95=950Mi 98=980Mi 99=990Mi 99.9=999Mi""#,
        );
        let expected = [
            r#"{"apiVersion":"headroom.dev/v1alpha1","kind":"UsageProfile","#,
            r#""metadata":{"name":"usage-26","namespace":"headroom"},"#,
            r#""spec":{"header":{"format":2,"collectedAt":"2026-11-21T00:00:00Z","quorum":3},"#,
            r#""summary":{"images":1,"histories":1,"pages":0,"oomKilledImages":1,"droppedHistories":0,"droppedTags":0},"#,
            r#""images":{"docker,io/library/nginx":{"#,
            r#""pool":{"all":{"lastSeen":"2026-11-20T00:00:00Z","days":2,"oomKills":[{"at":"2026-11-19T10:00:00Z","memory":"310Mi"}],"#,
            &format!(r#""windows":{{"7d":{{"pods":2,"namespaces":1,"cpu":{cpu},"memory":{memory}}}}}}},"#),
            r#""tags":{"1,27":{"lastSeen":"2026-11-20T00:00:00Z","days":2,"oomKills":[],"#,
            &format!(r#""windows":{{"7d":{{"pods":2,"namespaces":1,"memory":{memory}}}}}}}}}}},"#),
            r#""own":{"shop":{"all":{"collectedAt":"2026-11-20T12:00:00Z","same":"1,27 web/main","#,
            r#""lastSeen":"2026-11-20T00:00:00Z","days":2,"oomKills":[],"#,
            &format!(r#""windows":{{"7d":{{"pods":2,"namespaces":1,"cpu":{cpu},"memory":{memory}}}}}}},"#),
            r#""estimates":{"cpu":"containers=2 above=1 estimated=1 used=500m"}}}}}}}"#,
        ];
        assert_eq!(sample::profile().to_string(), expected.concat());
    }
}
