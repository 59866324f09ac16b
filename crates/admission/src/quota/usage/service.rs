//! The usage of a service: one service, and the node ports and load balancers of its type.

use std::borrow::Cow;

use crate::amount::{ByResource, Quantity};
use crate::json::{Malformed, Node};
use crate::quota::QuotaObject;

pub(super) fn usage(service: &QuotaObject<'_, '_>) -> Result<(Quantity, Quantity), Malformed> {
    let (mut node_ports, mut load_balancers) = (0, 0);
    if let Some(spec) = service.source.spec {
        match spec.string("type")?.as_deref() {
            Some("NodePort") => node_ports = spec.list("ports")?.count(),
            Some("LoadBalancer") => {
                load_balancers = 1;
                let allocates = spec.get("allocateLoadBalancerNodePorts")?.map(Node::bool).transpose()?;
                node_ports = if allocates == Some(false) {
                    explicit_node_ports(spec, service.replaces.and_then(|old| old.spec))?
                } else {
                    spec.list("ports")?.count()
                };
            }
            _ => {}
        }
    }
    let count = |count: usize| Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX));
    Ok((count(node_ports), count(load_balancers)))
}

/// The number of ports with a node port. If an update leaves out a node port, the API server restores it from the old
/// port of the same name, unless another port has its number.
fn explicit_node_ports(spec: Node<'_>, old: Option<Node<'_>>) -> Result<usize, Malformed> {
    let mut taken = Vec::new();
    let mut left_out: Vec<Cow<'_, str>> = Vec::new();
    for port in spec.list("ports")? {
        match node_port(port)? {
            Some(number) => taken.push(number),
            None => left_out.push(port.string("name")?.unwrap_or_default()),
        }
    }
    let named = taken.len();
    if let Some(old) = old.filter(|_| !left_out.is_empty())
        && matches!(old.string("type")?.as_deref(), Some("NodePort" | "LoadBalancer"))
    {
        taken.sort_unstable();
        let mut before = Vec::new();
        for port in old.list("ports")? {
            if let Some(number) = node_port(port)? {
                before.push((port.string("name")?.unwrap_or_default(), number));
            }
        }
        let before = ByResource::of_pairs(before, std::mem::swap);
        let is_restored =
            |name: &&Cow<'_, str>| before.get(name).is_some_and(|number| taken.binary_search(number).is_err());
        return Ok(named + left_out.iter().filter(is_restored).count());
    }
    Ok(named)
}

fn node_port(port: Node<'_>) -> Result<Option<i64>, Malformed> {
    Ok(port.get("nodePort")?.map(Node::integer).transpose()?.filter(|port| *port != 0))
}
