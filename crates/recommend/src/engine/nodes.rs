//! Finds what no node has room for, whatever runs on it.

use headroom_objects::cluster_reader::ClusterReader;
use headroom_workloads::inventory::WorkloadEntry;
use headroom_workloads::kinds::DAEMON_SET;
use headroom_workloads::nodes::Nodes;
use serde_json::Value;

use crate::advice::amounts::CPU_AND_MEMORY;
use crate::advice::flag::Flag;
use crate::advice::template::in_pod;
use crate::advice::workload::Workload;

/// Flags the workloads whose pods would request more than now, and more than the largest node of today that takes them, or a DaemonSet's
/// more than the smallest. Without such as request more than now, no node is read.
pub fn flag_beyond_nodes(workloads: &mut [Workload], entries: &[WorkloadEntry], cluster: &mut dyn ClusterReader) {
    let raised = |of: &Workload, resource| {
        let [now, then] = of.requests_of_pod(resource);
        Some(then).filter(|then| *then > now)
    };
    if !workloads.iter().any(|of| CPU_AND_MEMORY.into_iter().any(|resource| raised(of, resource).is_some())) {
        return;
    }
    let mut nodes = Nodes::default();
    let read = cluster.visit(("v1", "Node", None), &mut |node| nodes.add(&node));
    // OK because nothing is claimed then: who may read some namespaces mostly may not read nodes.
    if read.is_err() {
        return;
    }
    for workload in workloads {
        let raised = CPU_AND_MEMORY.map(|resource| raised(workload, resource).map(|then| (resource, then)));
        let Some(entry) = entries.get(workload.entry).filter(|_| raised.iter().any(Option::is_some)) else { continue };
        let object = entry.object.value();
        let spec = object.pointer(&in_pod(&workload.path, "spec")).unwrap_or(&Value::Null);
        let runs_on_each = workload.key.kind == DAEMON_SET.kind;
        let (lack, bound) = if runs_on_each { ("not every node has", "one has") } else { ("no node has", "at most") };
        let beyond = raised.into_iter().flatten().filter_map(|(resource, then)| {
            let room = nodes.room(resource.name(), spec, runs_on_each);
            let room = if runs_on_each { room.min() } else { room.max() }?;
            (then > room).then(|| format!("{} {then}, {bound} {room}", resource.name()))
        });
        let beyond: Vec<String> = beyond.collect();
        if !beyond.is_empty() {
            workload.shared_flags.push(Flag::BeyondNodes(format!("{lack} {}", beyond.join("; "))));
        }
    }
}
