//! Shows the usage of one workload as UsageProfiles over the cluster, as the policy would read them had they been published.
//! So a recommendation is the policy's own estimate; only the source of its amounts differs.

use std::collections::BTreeMap;

use headroom_admission::cluster::lookup::HostCall;
use headroom_admission::cluster::usage::profile_layout::KIND;
use headroom_admission::cluster::usage::{Repository, Root, workload};
use headroom_admission::image::ImageName;
use headroom_admission::timestamp::Timestamp;
use headroom_usage::profile::custom_resource::NAMESPACE;
use headroom_usage::profile::{Histories, History, Images, Share};
use serde_json::Value;

use headroom_objects::cluster_reader::{ClusterReader, List, ReadError, answer};
use headroom_objects::kinds::{ApiKind, metadata};

pub struct ContainerHistory<'c> {
    pub name: &'c str,
    /// As the pod names it.
    pub image: &'c str,
    pub history: History,
    /// True if its history also counts as the image's, for when there is too little of it for a workload's own. At most one
    /// of several containers with one image has this at a time.
    pub is_asked: bool,
}

/// ClusterReader in which a namespace's history is that of one workload's containers.
pub struct HistoryOverlay<'s> {
    below: &'s mut dyn ClusterReader,
    profiles: Vec<Value>,
}

impl<'s> HistoryOverlay<'s> {
    pub fn without(below: &'s mut dyn ClusterReader) -> Self {
        Self { below, profiles: Vec::new() }
    }

    /// With those of a workload's containers. Images that cannot be read have none.
    pub fn with<'c>(
        below: &'s mut dyn ClusterReader,
        namespace: &str,
        now: Timestamp,
        workload: &str,
        containers: impl IntoIterator<Item = ContainerHistory<'c>>,
    ) -> Self {
        let nothing = || History { last_seen: now, days: 0, oom_kills: Vec::new(), windows: BTreeMap::new() };
        let mut shares: BTreeMap<Root, Images> = BTreeMap::new();
        for ContainerHistory { name, image, history, is_asked } in containers {
            let Ok(image) = ImageName::parse(image) else { continue };
            let images = shares.entry(Root::of(image.repository())).or_default();
            let of_image = &mut images.entry(Repository::of(&image)).or_default().own;
            let own = of_image.entry(namespace.to_owned()).or_insert_with(|| Histories::of(nothing()));
            if is_asked {
                own.all = history.clone();
            }
            own.workloads.insert(workload::key(workload, name), history);
        }
        let objects = shares
            .into_iter()
            .flat_map(|(root, images)| Share { images, ..Share::empty(NAMESPACE, root, now, "") }.lay_out());
        Self { below, profiles: objects.map(|object| object.to_value()).collect() }
    }
}

impl ClusterReader for HistoryOverlay<'_> {
    fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
        if list.1 == KIND {
            return Ok(self.profiles.clone());
        }
        self.below.list(list)
    }

    fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
        if list.1 == KIND {
            return Ok(self.profiles.iter().find(|profile| metadata(profile, "name") == name).cloned());
        }
        self.below.get(list, name)
    }

    fn kind(&mut self, api_version: &str, kind: &str) -> ApiKind {
        self.below.kind(api_version, kind)
    }

    /// Other answers than history are those from below, which may be kept there.
    fn read(&mut self, call: &HostCall<'_>) -> Result<Vec<u8>, ReadError> {
        if call.kind == KIND { answer(self, call).map(String::into_bytes) } else { self.below.read(call) }
    }
}
