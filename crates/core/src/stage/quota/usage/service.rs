//! A service uses one service, and what its type takes from the nodes or from a cloud.

use std::borrow::Cow;

use crate::amount::{Quantity, ResourceList};
use crate::json::{Malformed, Node};

pub(super) fn usage<'d>(service: Node<'d>) -> Result<ResourceList<'d>, Malformed> {
    let (mut node_ports, mut load_balancers) = (0, 0);
    if let Some(spec) = service.get("spec")? {
        match spec.string("type")?.as_deref() {
            Some("NodePort") => node_ports = ports(spec, false)?,
            Some("LoadBalancer") => {
                let allocates = spec.get("allocateLoadBalancerNodePorts")?.map(Node::bool).transpose()?;
                load_balancers = 1;
                node_ports = ports(spec, allocates == Some(false))?;
            }
            _ => {}
        }
    }
    let counts = [("services", 1), ("services.loadbalancers", load_balancers), ("services.nodeports", node_ports)];
    Ok(counts.into_iter().map(|(name, count)| (Cow::Borrowed(name), Quantity::from_units(count))).collect())
}

/// The number of ports, or of those that name a node port.
fn ports(spec: Node<'_>, only_named: bool) -> Result<i64, Malformed> {
    let mut count = 0;
    for port in spec.list("ports")? {
        let is_named = port.get("nodePort")?.map(Node::integer).transpose()?.is_some_and(|port| port != 0);
        count += i64::from(is_named || !only_named);
    }
    Ok(count)
}
