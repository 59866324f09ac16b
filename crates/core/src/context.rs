//! What the decision must know of the cluster: which objects to read, and what was read.
//!
//! The core only says what it needs, as data in a fixed order; a shell reads it, once, before the decision.

pub mod limit_range;
pub mod lookup;
pub mod usage;

use crate::json::{Malformed, Node};
use limit_range::LimitRange;
use lookup::{Lookup, Missing};

/// What was read of the cluster for one request.
#[derive(Debug, Clone, Default)]
pub struct Context<'d> {
    /// In name order; none if they were not asked for or could not be read.
    pub limit_ranges: Option<Vec<LimitRange<'d>>>,
    /// The Namespace object of the request.
    pub namespace: Option<Node<'d>>,
    /// What was asked for and could not be read, in the order of asking.
    pub missing: Vec<Missing<'d>>,
}

impl<'d> Context<'d> {
    /// Takes in the answer to a lookup.
    pub fn add(&mut self, lookup: &Lookup<'d>, answer: Result<Node<'d>, String>) {
        let taken = answer.and_then(|node| self.take(lookup, node).map_err(|malformed| malformed.to_string()));
        if let Err(problem) = taken {
            self.missing.push(Missing { lookup: lookup.clone(), problem });
        }
    }

    fn take(&mut self, lookup: &Lookup<'d>, node: Node<'d>) -> Result<(), Malformed> {
        match lookup {
            Lookup::Namespace { .. } => self.namespace = Some(node),
            Lookup::LimitRanges { .. } => self.limit_ranges = Some(LimitRange::read_list(node)?),
        }
        Ok(())
    }

    pub fn namespace_labels(&self) -> Result<Option<Node<'d>>, Malformed> {
        self.namespace.map_or(Ok(None), |namespace| namespace.at(&["metadata", "labels"]))
    }
}
