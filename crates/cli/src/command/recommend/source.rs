//! The source of usage: the one that is named, or UsageProfiles where the collector has published some, or else a metrics
//! store, which a person chooses among the Services that look like one. Nothing is sent to any that was not chosen, since
//! anybody may give a Service such a name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context as _, bail};
use headroom_admission::cluster::usage::Root;
use headroom_admission::cluster::usage::profile_layout::{API_VERSION, KIND, ProfileName};
use headroom_admission::image::ImageName;
use headroom_api_server::kubeconfig::Chosen;
use headroom_metrics_stores::port_forward::ForwardTarget;
use headroom_objects::cluster_reader::ClusterReader as _;
use headroom_objects::kinds::metadata;
use headroom_output::{ask, complain, terminal};
use headroom_recommend::history::discover::{self, Candidate, USUAL_NAMESPACES};
use headroom_workloads::inventory::{Inventory, WorkloadEntry, images_of};
use headroom_workloads::kinds::{self, POD};
use serde_json::Value;

use super::arguments::{From, PastOfQuotas, Store, UsageArgs};
use crate::command::cluster_args::{Opened, TargetArgs, profiles_namespace};
use crate::command::source::Address;
use crate::command::source_file::SourceFile;

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

const MAX_LISTED: usize = 9;

#[derive(Default)]
pub struct Services {
    candidates: Vec<Candidate>,
    /// The error because of which some may have been missed.
    pub refused: Option<String>,
}

impl Services {
    /// Searches all Services, or those of the namespaces where stores usually are. None where there is no cluster.
    pub fn find(opened: &mut Opened, namespaces: &[String]) -> Self {
        let refused = match opened.cluster.list(("v1", "Service", None)) {
            Ok(services) => return Self { candidates: discover::candidates(&services), refused: None },
            Err(refused) => refused,
        };
        let mut places: Vec<&str> = USUAL_NAMESPACES.to_vec();
        places.extend(namespaces.iter().map(String::as_str));
        let of_place = |place: &str| opened.cluster.list(("v1", "Service", Some(place))).unwrap_or_default();
        let services: Vec<Value> = places.into_iter().flat_map(of_place).collect();
        Self { candidates: discover::candidates(&services), refused: Some(refused.to_string()) }
    }

    /// The one that a person chooses, or has chosen before; none if there are none, or none was wanted.
    pub fn chosen(&self, file: &SourceFile, cluster: &Chosen) -> anyhow::Result<Option<ForwardTarget>> {
        let listed = self.candidates.iter().take(MAX_LISTED);
        let more = self.candidates.len().saturating_sub(MAX_LISTED);
        let found = listed.clone().map(Candidate::to_string).collect::<Vec<_>>().join(", ")
            + &if more > 0 { format!(" and {more} more") } else { String::new() };
        let flag = match self.candidates.as_slice() {
            [] => return Ok(None),
            [only] => format!("--prometheus {}", only.target),
            _ => "--prometheus NAMESPACE/SERVICE:PORT".to_owned(),
        };
        if file.has_credentials() {
            bail!(
                "tokens, passwords and headers are sent only to a store that you name: add {flag} (found: {found}), \
                 or its URL"
            );
        }
        let remembered = Remembered::read(cluster);
        let before = remembered.as_ref().and_then(Remembered::store);
        if let Some(store) = before {
            let known = self.candidates.iter().find(|candidate| candidate.target.to_string() == store);
            if let Some(Candidate { target, .. }) = known.filter(|known| !known.wants_token) {
                complain!("using --prometheus {target}, as chosen before");
                return Ok(Some(target.clone()));
            }
            if store.is_empty() {
                complain!("no metrics store is read, as chosen before: {flag} names one (found: {found})");
                return Ok(None);
            }
        }
        let chosen = one_of(listed)?;
        if let Some(remembered) = remembered.filter(|_| terminal::can_be_asked()) {
            let store = chosen.filter(|chosen| !chosen.wants_token).map(|chosen| chosen.target.to_string());
            match remembered.remember(&store.unwrap_or_default()) {
                Ok(path) => complain!("remembered in `{}`", path.display()),
                Err(problem) => complain!("note: the choice is not remembered: {problem:#}"),
            }
        }
        let Some(Candidate { target, wants_token, .. }) = chosen else {
            bail!(
                "found {found}, but anyone who can create a Service can give it such a name: name the store that you trust \
                 with {flag}"
            );
        };
        if *wants_token {
            bail!(
                "{target} requires a token: write it into a file with `oc whoami -t > token`, name it as `tokenFile: token` in a \
                 file for --source, with `caFile` for the cluster's service CA or `insecureSkipTlsVerify: true`, and add \
                 --prometheus {target}"
            );
        }
        complain!("using --prometheus {target}");
        Ok(Some(target.clone()))
    }
}

fn one_of<'a>(candidates: impl Iterator<Item = &'a Candidate> + Clone) -> anyhow::Result<Option<&'a Candidate>> {
    if !terminal::can_be_asked() {
        return Ok(None);
    }
    complain!("Which of these is your metrics store? Anyone who can create a Service can give it such a name.");
    for (number, candidate) in candidates.clone().enumerate() {
        complain!("  {}  {candidate}", number + 1);
    }
    let Some(answer) = ask("Number, or Enter for none:")?.filter(|answer| !answer.is_empty()) else { return Ok(None) };
    let place = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match place.and_then(|place| candidates.clone().nth(place)) {
        Some(chosen) => Ok(Some(chosen)),
        None => bail!("`{answer}` is none of these numbers"),
    }
}

/// The store that a person chose for a cluster, so that the question comes once: a Service, or empty for none. The file has
/// addresses only, and no secrets; clusters are told apart by their API server, because any kubeconfig may have a context of
/// the same name.
struct Remembered {
    path: PathBuf,
    server: String,
    stores: BTreeMap<String, String>,
}

impl Remembered {
    /// Reads the stores that were chosen before. Returns none if they cannot be remembered, as in a pod. An unreadable file counts as empty.
    fn read(cluster: &Chosen) -> Option<Self> {
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Some(folder("HOME")?.join(".config"));
        let path = folder("XDG_CONFIG_HOME").or_else(home).or_else(|| folder("APPDATA"))?.join("headroom/stores.json");
        let stores = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Some(Self { server: cluster.server()?, path, stores })
    }

    fn store(&self) -> Option<&str> {
        self.stores.get(&self.server).map(String::as_str)
    }

    fn remember(mut self, store: &str) -> anyhow::Result<PathBuf> {
        let cannot = || format!("cannot write `{}`", self.path.display());
        self.stores.insert(self.server, store.to_owned());
        fs::create_dir_all(self.path.parent().unwrap_or(&self.path)).with_context(cannot)?;
        headroom_output::write_file(&self.path, &headroom_output::json(&self.stores)?).with_context(cannot)?;
        Ok(self.path)
    }
}
