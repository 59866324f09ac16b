//! The source of usage: the one that is named, or UsageProfiles where the collector has published some, or else a metrics
//! store.

use std::collections::BTreeSet;

use headroom_admission::cluster::usage::Root;
use headroom_admission::cluster::usage::profile_layout::{API_VERSION, KIND, ProfileName};
use headroom_admission::image::ImageName;
use headroom_objects::cluster_reader::ClusterReader as _;
use headroom_objects::kinds::metadata;
use headroom_output::complain;
use headroom_workloads::inventory::{Inventory, WorkloadEntry, images_of};
use headroom_workloads::kinds::{self, POD};

use super::arguments::{From, Store, UsageArgs};
use super::past::PastOfQuotas;
use super::services::Services;
use crate::command::cluster_args::{Opened, TargetArgs, profiles_namespace};
use crate::command::source::Address;

impl UsageArgs {
    /// The source that is named, or was chosen before.
    fn named(&self) -> anyhow::Result<Option<From>> {
        let names_store = self.address()?.is_some();
        Ok(self.settled.or(names_store.then_some(From::Store)))
    }

    /// True if a store is named, or was chosen before.
    pub fn names_store(&self) -> anyhow::Result<bool> {
        Ok(self.named()? == Some(From::Store))
    }

    /// The same, of which today and yesterday are read.
    pub fn recent(&self) -> Self {
        let store = Store { days: 2, ..self.store.clone() };
        Self { store, ..self.clone() }
    }

    /// The source that is named, or else UsageProfiles if there are some for these images, or else a metrics store.
    pub(super) fn source(
        &self,
        opened: &mut Opened,
        inventory: &Inventory,
        is_of_cluster: bool,
    ) -> anyhow::Result<From> {
        let of = |entry: &WorkloadEntry| profiles_of(&entry.key.namespace, entry.images());
        let mut has_profiles = || has_one_of(opened, &inventory.entries.iter().flat_map(of).collect());
        Ok(match self.named()? {
            Some(from) => from,
            None if !is_of_cluster || has_profiles() => From::Profiles,
            None => From::Store,
        })
    }

    /// Chooses the source once for a program that takes many snapshots, so that a person is asked once. Without a store,
    /// UsageProfiles are read.
    pub fn settle(&mut self, target: &TargetArgs) -> anyhow::Result<()> {
        self.quotas = PastOfQuotas::Growth;
        if self.named()?.is_some() || !target.wants_cluster() {
            return Ok(());
        }
        let mut opened = target.open()?;
        let (mut namespaces, mut is_read) = (BTreeSet::new(), false);
        // Most workloads are Deployments, the first kind: where they have profiles, nothing else is read.
        for kind in kinds::makers().chain([&POD]) {
            let mut names = BTreeSet::new();
            for namespace in opened.scope.parts() {
                // Kinds that cannot be listed are reported in the snapshot.
                let read = opened.cluster.visit(kinds::list(kind, namespace), &mut |object| {
                    let namespace = metadata(&object, "namespace");
                    names.extend(profiles_of(namespace, images_of(&object)));
                    namespaces.insert(namespace.to_owned());
                });
                is_read |= read.is_ok();
            }
            if has_one_of(&mut opened, &names) {
                self.settled = Some(From::Profiles);
                return Ok(());
            }
        }
        if !is_read {
            return Ok(());
        }
        self.settled = Some(From::Profiles);
        match Services::find(&mut opened, &Vec::from_iter(namespaces)).chosen(self.file()?, &target.cluster) {
            Ok(Some(service)) => {
                self.store.named.prometheus = Some(Address::Service(service));
                self.settled = Some(From::Store);
            }
            Ok(None) => {}
            Err(problem) => complain!("note: {problem:#}"),
        }
        Ok(())
    }
}

/// The names of the UsageProfiles of some images in a namespace.
fn profiles_of(namespace: &str, images: Vec<String>) -> Vec<String> {
    let roots = images.iter().filter_map(|image| Some(Root::of(ImageName::parse(image).ok()?.repository())));
    // The collector of an older version may have written the older layout.
    let names = roots.flat_map(|root| [ProfileName::of(root, namespace), ProfileName::older(root)]);
    names.map(|name| name.to_string()).collect()
}

/// True if one of these UsageProfiles has something, or if they may not be read.
fn has_one_of(opened: &mut Opened, names: &BTreeSet<String>) -> bool {
    let namespace = profiles_namespace(&opened.settings);
    for name in names {
        match opened.cluster.get((API_VERSION, KIND, Some(&namespace)), name) {
            Ok(Some(profile)) if profile.get("spec").is_some() => return true,
            Ok(_) => {}
            Err(error) if error.is_unknown_kind() => return false,
            // For a forbidden object the API server answers 403 even if it does not serve the kind; listing tells the two apart.
            Err(_) => {
                let listed = opened.cluster.list((API_VERSION, KIND, Some(&namespace)));
                return !listed.is_err_and(|error| error.is_unknown_kind());
            }
        }
    }
    false
}
