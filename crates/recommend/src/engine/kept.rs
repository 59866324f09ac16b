//! Finds the workloads that are kept empty on purpose: room for others, and those that take over from a peer.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::image::ImageName;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{PRIORITY_CLASS, items, text};
use headroom_workloads::inventory::WorkloadEntry;
use headroom_workloads::kinds::runs_once;
use serde_json::{Map, Value};

use crate::advice::flag::{Flag, Kept};
use crate::advice::template::in_pod;
use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Workload};

/// A peer that uses so many times the CPU is busy, and the other one idle.
const BUSIER: i64 = 5;
/// Parts of the image names of databases, of which one leads and others follow.
const DATABASES: [&str; 8] = ["postgres", "spilo", "mysql", "mariadb", "percona", "mongo", "redis", "valkey"];

/// True of a pod of negative priority that uses next to nothing, or whose containers only pause.
pub fn of_pod(
    entry: &WorkloadEntry,
    pod: &Value,
    advice: &[ContainerAdvice],
    cluster: &mut dyn ClusterReader,
) -> Option<Kept> {
    let mut of_class = || {
        let class = pod.get("priorityClassName")?.as_str()?;
        // OK because the pods say it as soon as they run.
        cluster.get((PRIORITY_CLASS.0, PRIORITY_CLASS.1, None), class).ok()??.get("value")?.as_i64()
    };
    let written = pod.get("priority").and_then(Value::as_i64);
    let priority = entry.running.priority.or(written).or_else(&mut of_class);
    // Others of a negative priority work whenever there is room.
    let works = |of: &ResourceAdvice| {
        let most = if of.resource == Resource::Cpu { Quantity::from_milli(50) } else { Quantity::from_bytes(64 << 20) };
        of.mostly_used().or(of.recommended.as_ref()).is_some_and(|used| *used > most)
    };
    let is_idle = !advice.iter().flat_map(|of| &of.resources).any(works);
    if let Some(priority) = priority.filter(|of| *of < 0 && is_idle) {
        return Some(Kept::Reserve(format!("priority {priority}")));
    }
    let pauses = |image: String| image.rsplit('/').next().is_some_and(|of| of.split('-').any(|word| word == "pause"));
    let mut images = items(pod, "/containers").map(repository).peekable();
    (images.peek().is_some() && images.all(pauses)).then(|| Kept::Reserve("pause image".to_owned()))
}

fn repository(container: &Value) -> String {
    let image = text(container, "/image");
    ImageName::parse(image).map_or_else(|_| image.to_owned(), |name| name.repository().to_owned())
}

/// Words of the resources for which a node is there: another device, such as `fuse`, is on any node.
const ACCELERATORS: [&str; 13] =
    ["nvidia", "gpu", "vgpu", "tpu", "npu", "xpu", "mlu", "gcu", "neuron", "gaudi", "fpga", "ascend", "qaic"];

/// The device of a pod's node that others do not use meanwhile: `nvidia.com/gpu`.
pub fn device_of(pod: &Value) -> Option<String> {
    let containers = items(pod, "/containers");
    let lists = containers.flat_map(|of| [of.pointer("/resources/limits"), of.pointer("/resources/requests")]);
    let mut names = lists.flatten().filter_map(Value::as_object).flat_map(Map::keys);
    let is_device = |name: &&String| {
        let name = name.to_lowercase();
        let mut words = name.split(|letter: char| !letter.is_alphanumeric());
        name.contains('/') && words.any(|word| ACCELERATORS.iter().any(|of| word.starts_with(of)))
    };
    let claims = pod.get("resourceClaims").and_then(Value::as_array).filter(|claims| !claims.is_empty());
    names.find(is_device).cloned().or_else(|| claims.map(|_| "resource claim".to_owned()))
}

/// A workload among those beside it.
struct Peer {
    entry: usize,
    name: String,
    labels: Map<String, Value>,
    /// A hash, since a tenant may write long ones, all of which are compared.
    arguments: u64,
    /// A hash of what else decides what it does: variables and files.
    environment: u64,
    /// The installation to which a database belongs, and its name there.
    database_of: Option<(String, Option<String>)>,
    cpu: i64,
}

impl Peer {
    /// With what its containers run. Runs take nothing over, and nothing is known of what was not measured.
    fn of(workload: &Workload, object: &Value, hashes: &RandomState) -> Option<(String, Self)> {
        let pod = object.pointer(&in_pod(&workload.path, "spec"))?;
        let labels = object.pointer(&in_pod(&workload.path, "metadata/labels")).and_then(Value::as_object);
        let labels = labels.cloned().unwrap_or_default();
        let fields = |names: &[&str]| -> Vec<String> {
            let containers = items(pod, "/containers");
            containers.flat_map(|of| names.iter().map(move |name| format!("{:?}", of.get(name)))).collect()
        };
        let images = items(pod, "/containers").map(|of| format!("{:?} {};", of.get("name"), repository(of)));
        let images: String = images.collect();
        let is_database = DATABASES.iter().any(|name| images.contains(name));
        let label = |name: &str| Some(labels.get(&format!("app.kubernetes.io/{name}"))?.to_string());
        let installation = workload.managed_by.clone().or_else(|| label("instance")).filter(|_| is_database);
        let database_of = installation.map(|of| (of, label("name")));
        let containers = workload.containers.iter().filter(|of| !of.is_init);
        let mut used = containers.filter_map(|of| of.resource(Resource::Cpu)?.mostly_used()).peekable();
        used.peek().filter(|_| !runs_once(&workload.key.kind))?;
        let cpu = used.map(Quantity::milli_value).sum();
        let (entry, name) = (workload.entry, workload.key.to_string());
        let arguments = hashes.hash_one(fields(&["command", "args"]));
        let mounts = fields(&["env", "envFrom", "volumeMounts"]);
        let environment = hashes.hash_one((format!("{:?}", pod.get("volumes")), mounts));
        let peer = Self { entry, name, labels, arguments, environment, database_of, cpu };
        Some((images, peer))
    }
}

/// The last words of labels that tell what a pod does, and not which of two that do the same.
const ROLES: [&str; 5] = ["component", "role", "tier", "name", "app"];
/// Such a label counts as so many others.
const ROLE: usize = 1_000;

/// The number of a Service's labels that pods have with another value; none if they lack one, or it has none.
fn differing(service: &Value, labels: &Map<String, Value>) -> Option<usize> {
    let selector = service.pointer("/spec/selector")?.as_object().filter(|selector| !selector.is_empty())?;
    selector.iter().try_fold(0, |differing, (key, value)| {
        let is_role = key.rsplit('/').next().is_some_and(|word| ROLES.contains(&word));
        let counts = if is_role { ROLE } else { 1 };
        Some(differing + if labels.get(key)? == value { 0 } else { counts })
    })
}

/// The Services, each a bit, of whose labels pods have so many with another value.
fn selecting(services: &[Value], labels: &Map<String, Value>, differs: usize) -> Vec<u64> {
    let bit = |(place, of): (usize, &Value)| u64::from(differing(of, labels) == Some(differs)) << place;
    services.chunks(64).map(|chunk| chunk.iter().enumerate().map(bit).sum()).collect()
}

/// The workloads that take over from a busy peer, by their numbers. Notes are what could not be read for it.
pub fn by_peers(
    workloads: &[Workload],
    entries: &[WorkloadEntry],
    cluster: &mut dyn ClusterReader,
    notes: &mut Vec<ReadError>,
) -> BTreeMap<usize, Kept> {
    // One namespace at a time: all the labels and Services of a large cluster are tens of megabytes.
    let mut of_namespaces = BTreeMap::<&str, Vec<&Workload>>::new();
    for workload in workloads.iter().filter(|of| !of.shared_flags.iter().any(|flag| matches!(flag, Flag::Kept(_)))) {
        of_namespaces.entry(&workload.key.namespace).or_default().push(workload);
    }
    let mut found = BTreeMap::new();
    for (namespace, workloads) in of_namespaces {
        find_in(namespace, &workloads, entries, cluster, notes, &mut found);
    }
    found
}

/// The same in a namespace.
fn find_in(
    namespace: &str,
    workloads: &[&Workload],
    entries: &[WorkloadEntry],
    cluster: &mut dyn ClusterReader,
    notes: &mut Vec<ReadError>,
    found: &mut BTreeMap<usize, Kept>,
) {
    let (mut groups, hashes, mut services) = (BTreeMap::<String, Vec<Peer>>::new(), RandomState::new(), None);
    for workload in workloads {
        let peer = entries.get(workload.entry).and_then(|entry| Peer::of(workload, &entry.object.value(), &hashes));
        peer.into_iter().for_each(|(runs, peer)| groups.entry(runs).or_default().push(peer));
    }
    for peers in groups.values() {
        // Not each Service for each pair: a tenant may have thousands of all.
        let mut selected = BTreeMap::<usize, Vec<u64>>::new();
        for idle in peers {
            let is_busier = |peer: &&Peer| peer.cpu > 0 && peer.cpu >= BUSIER.saturating_mul(idle.cpu);
            let busier: Vec<&Peer> = peers.iter().filter(is_busier).collect();
            let leads = |peer: &&&Peer| peer.database_of.is_some() && peer.database_of == idle.database_of;
            if let Some(leader) = busier.iter().find(leads) {
                found.insert(idle.entry, Kept::Standby(leader.name.clone()));
                continue;
            }
            let alike: Vec<&Peer> = busier.into_iter().filter(|peer| peer.arguments == idle.arguments).collect();
            let [first, ..] = alike.as_slice() else { continue };
            let read = || match cluster.list(("v1", "Service", Some(namespace))) {
                Ok(services) => Some(services),
                Err(problem) => {
                    let unknown = format!("not known: does {} take over from {}", idle.name, first.name);
                    notes.push(problem.context(&unknown));
                    None
                }
            };
            let Some(services) = services.get_or_insert_with(read).as_deref() else { continue };
            let [own, switching, of_role] = [0, 1, ROLE].map(|differs| selecting(services, &idle.labels, differs));
            let may_switch = |peer: &&Peer| {
                let of_peer = selected.entry(peer.entry).or_insert_with(|| selecting(services, &peer.labels, 0));
                let is_alike = idle.environment == peer.environment;
                let is_beside = own.iter().zip(&*of_peer).all(|(own, of)| own & !of == 0);
                let has = |services: &[u64]| services.iter().zip(&*of_peer).any(|(one, of)| one & of != 0);
                // Nothing tells them apart, so one leads: by a Lease, a lock, or the share that a mesh gives it.
                is_alike && own == *of_peer || is_beside && (has(&switching) || is_alike && has(&of_role))
            };
            let twin = alike.into_iter().find(may_switch);
            found.extend(twin.map(|twin| (idle.entry, Kept::Twin(twin.name.clone()))));
        }
    }
}
