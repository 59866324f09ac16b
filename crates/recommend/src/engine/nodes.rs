//! Finds what no node has room for, whatever runs on it.

use headroom_objects::cluster_reader::ClusterReader;
use headroom_workloads::nodes::LargestNode;

use crate::advice::amounts::CPU_AND_MEMORY;
use crate::advice::flag::Flag;
use crate::advice::workload::Workload;

/// Flags the workloads whose pods would request more than now, and more than the largest node of today. Without such as request
/// more than now, no node is read.
pub fn flag_beyond_nodes(workloads: &mut [Workload], cluster: &mut dyn ClusterReader) {
    let raised = |of: &Workload, resource| {
        let [now, then] = of.requests_of_pod(resource);
        Some(then).filter(|then| *then > now)
    };
    if !workloads.iter().any(|of| CPU_AND_MEMORY.into_iter().any(|resource| raised(of, resource).is_some())) {
        return;
    }
    let mut largest = LargestNode::default();
    let read = cluster.visit(("v1", "Node", None), &mut |node| largest.add(&node));
    // OK because nothing is claimed then: who may read some namespaces mostly may not read nodes.
    if read.is_err() {
        return;
    }
    for workload in workloads {
        let beyond = CPU_AND_MEMORY.into_iter().filter_map(|resource| {
            let (then, most) = (raised(workload, resource)?, largest.0.get(resource.name())?);
            (then > *most).then(|| format!("{} {then}, at most {most}", resource.name()))
        });
        let beyond: Vec<String> = beyond.collect();
        if !beyond.is_empty() {
            workload.shared_flags.push(Flag::BeyondNodes(beyond.join("; ")));
        }
    }
}
