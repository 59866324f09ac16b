//! A profile's text: the whole Kubernetes object, as JSON, in a fixed order.
//!
//! Written by hand because the core has no serializer, and because the same pieces tell [`super::bounds`] how much room
//! each history takes. No text needs escaping: names come out of [`ImageName`](headroom_core::image::ImageName) or are the API
//! server's own, and amounts and moments print themselves.

use std::fmt::{self, Display, Write};

use headroom_core::cluster::usage::address::{API_VERSION, KIND, Repository, TagKey, image_key};
use headroom_core::cluster::usage::{FORMAT, OomKill, Window};

use super::{History, ImageHistory, UsageProfile, WindowUsage};

/// The object as one line of JSON.
impl Display for UsageProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, namespace) = (self.scope.object_name(), &self.namespace);
        write!(f, r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","#)?;
        write!(f, r#""metadata":{{"name":"{name}","namespace":"{namespace}"}},"#)?;
        write!(f, r#""spec":{{"format":{FORMAT},"collectedAt":"{}","#, self.collected_at)?;
        if let Some(quorum) = self.quorum {
            write!(f, r#""quorum":{quorum},"#)?;
        }
        f.write_str(r#""summary":"#)?;
        summary(f, self)?;
        f.write_str(r#","images":"#)?;
        object(f, &self.images, |f, (repository, image)| entry(f, repository, image))?;
        f.write_str("}}")
    }
}

/// What `kubectl get usageprofiles` shows; readers of the history have no use for it.
fn summary(out: &mut impl Write, profile: &UsageProfile) -> fmt::Result {
    let images = profile.images.len();
    let tags: usize = profile.images.values().map(|image| image.tags.len()).sum();
    let oom_killed = profile.images.values().filter(|image| !image.all.oom_kills.is_empty()).count();
    write!(out, r#"{{"scope":"{}","images":{images},"tags":{tags},"#, profile.scope.name())?;
    write!(out, r#""oomKilledImages":{oom_killed},"#)?;
    write!(out, r#""droppedImages":{},"droppedTags":{}}}"#, profile.dropped.images, profile.dropped.tags)
}

/// `"nginx-…":{…}`
pub(super) fn entry(out: &mut impl Write, repository: &Repository, image: &ImageHistory) -> fmt::Result {
    let (key, repository) = (image_key(repository.as_str()), repository.as_str());
    write!(out, r#""{key}":{{"repository":"{repository}","all":"#)?;
    history(out, &image.all)?;
    out.write_str(r#","tags":"#)?;
    object(out, &image.tags, |out, (key, history)| tag(out, key, history))?;
    out.write_str("}")
}

/// `"1,27":{…}`
pub(super) fn tag(out: &mut impl Write, key: &TagKey, tag: &History) -> fmt::Result {
    write!(out, r#""{}":"#, key.as_str())?;
    history(out, tag)
}

fn history(out: &mut impl Write, history: &History) -> fmt::Result {
    write!(out, r#"{{"lastSeen":"{}","days":{},"oomKills":["#, history.last_seen, history.days)?;
    separated(out, &history.oom_kills, |out, OomKill { at, memory }| {
        write!(out, r#"{{"at":"{at}","memory":"{memory}"}}"#)
    })?;
    out.write_str(r#"],"windows":"#)?;
    object(out, &history.windows, |out, (window, usage)| window_usage(out, *window, usage))?;
    out.write_str("}")
}

fn window_usage(out: &mut impl Write, window: Window, usage: &WindowUsage) -> fmt::Result {
    write!(out, r#""{window}":{{"pods":{},"namespaces":{}"#, usage.pods, usage.namespaces)?;
    for (resource, usage) in [("cpu", &usage.cpu), ("memory", &usage.memory)] {
        if let Some(usage) = usage {
            write!(out, r#","{resource}":"{usage}""#)?;
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
    fn a_profile_is_written_as_the_format_says() {
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
            r#""metadata":{"name":"pool-26","namespace":"headroom"},"#,
            r#""spec":{"format":1,"collectedAt":"2026-11-21T00:00:00Z","quorum":3,"#,
            r#""summary":{"scope":"pool","images":1,"tags":1,"oomKilledImages":1,"droppedImages":0,"droppedTags":0},"#,
            r#""images":{"nginx-f7b30ec5501512a6":{"repository":"docker.io/library/nginx","#,
            r#""all":{"lastSeen":"2026-11-20T00:00:00Z","days":2,"oomKills":[{"at":"2026-11-19T10:00:00Z","memory":"310Mi"}],"#,
            &format!(r#""windows":{{"7d":{{"pods":2,"namespaces":1,"cpu":{cpu},"memory":{memory}}}}}}},"#),
            r#""tags":{"1,27":{"lastSeen":"2026-11-20T00:00:00Z","days":2,"oomKills":[],"#,
            &format!(r#""windows":{{"7d":{{"pods":2,"namespaces":1,"memory":{memory}}}}}}}}}}}}}}}}}"#),
        ];
        assert_eq!(sample::profile().to_string(), expected.concat());
    }
}
