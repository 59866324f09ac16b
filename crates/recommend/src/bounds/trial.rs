//! Proposed bounds, evaluated against everything that runs before they are printed.

use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, problems_of_bounds};
use headroom_dry_run::simulate::{EffectKind, Simulation, Subjects, put};
use headroom_objects::kinds::metadata;
use serde::Serialize;
use serde_json::Value;

/// The outcome with the proposed bounds, if all that runs were recreated.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundsTrial {
    pub objects: usize,
    /// Those whose values would be others.
    pub changed: usize,
    pub rejected: Vec<Rejected>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exceeded: Vec<String>,
    /// The kinds that could not be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Rejected {
    pub namespace: String,
    pub object: String,
    pub reasons: Vec<String>,
}

impl BoundsTrial {
    pub fn is_passed(&self) -> bool {
        self.rejected.is_empty() && self.exceeded.is_empty()
    }
}

/// Things as they are, of which the proposals change the bounds. What would be recreated is as it is written.
pub fn begin(namespaces: &[String], admission: &Admission, cluster: &mut Overlay) -> Simulation {
    let subjects = Subjects::find(cluster, Some(namespaces), &|_| true, admission);
    Simulation::begin(subjects, admission, cluster)
}

/// Puts the proposed objects into the cluster, and looks at everything again.
pub fn end<'o>(
    simulation: &Simulation,
    proposed: impl Iterator<Item = &'o Value>,
    admission: &Admission,
    cluster: &mut Overlay,
) -> Result<BoundsTrial, String> {
    for object in proposed {
        if let Some(problem) = problems_of_bounds(object).first() {
            return Err(format!("the proposal for {} is invalid: {problem}", metadata(object, "name")));
        }
        put(object.clone(), cluster)?;
    }
    let effects = simulation.end(admission, cluster);
    let rejected = effects.subjects.iter().filter(|effect| effect.change == EffectKind::NewlyRejected);
    let exceeded = effects.quotas.iter().filter(|quota| quota.is_newly_exceeded);
    Ok(BoundsTrial {
        objects: effects.subjects.len(),
        changed: effects.count(EffectKind::Changed),
        rejected: rejected
            .map(|effect| Rejected {
                namespace: effect.namespace.clone(),
                object: effect.name.clone(),
                reasons: effect.reasons.iter().map(ToString::to_string).collect(),
            })
            .collect(),
        exceeded: exceeded.map(|of| format!("{} {}", of.level.key.quota_name(), of.level.key.name)).collect(),
        missed: effects.missed.clone(),
    })
}
