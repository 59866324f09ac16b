//! The advice of a scan as changes.

use super::report::{ContainerRow, Report, Row};
use crate::change::{Change, Container};

impl Row {
    /// What would set the advice; none if nothing is different, or nobody here knows where the template is.
    pub fn change(&self) -> Option<Change> {
        let containers: Vec<Container> = self.containers.iter().filter_map(container).collect();
        (self.through.is_none() && !containers.is_empty()).then(|| Change {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            file: None,
            path: self.path.clone(),
            containers,
            autoscalers: self.autoscalers.clone(),
        })
    }
}

impl Report {
    /// Changes of everything but pods, which keep their requests while they run.
    pub fn changes(&self) -> Vec<Change> {
        self.workloads.iter().filter(|row| row.kind != "Pod").filter_map(Row::change).collect()
    }
}

fn container(row: &ContainerRow) -> Option<Container> {
    let requests = row.resources.iter().filter_map(|of| Some((of.resource, of.to_write()?.to_owned())));
    let limits = row.resources.iter().filter_map(|of| Some((of.resource, of.recommended_limit.clone()?)));
    Container::new(&row.name, row.is_init, limits.collect(), requests.collect())
}
