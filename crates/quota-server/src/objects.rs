//! The ledger's objects as the API server stores them.

use headroom_admission::amount::ResourceList;
use headroom_admission::json::Node;
use headroom_objects::document;
use headroom_objects::kinds::{metadata, set};
use headroom_quota_protocol::encoding::unreadable;
use headroom_quota_protocol::plan::Plan;
use headroom_quota_protocol::state::{self, State};
use serde_json::{Value, json};

use crate::custom_resources::{Amounts, QuotaLedger};

use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{revision_in, text_at};

pub const API_VERSION: &str = "headroom.dev/v1alpha1";
pub const TENANT_QUOTAS: ApiPath = ApiPath::new("/apis/headroom.dev/v1alpha1/tenantquotas");
pub const RESOURCE_QUOTAS: ApiPath = ApiPath::new("/api/v1/resourcequotas");
pub const NAMESPACES: ApiPath = ApiPath::new("/api/v1/namespaces");
pub const KIND: &str = "QuotaLedger";
/// On the object of a state: the number of the active plan.
pub const PLAN_LABEL: &str = "headroom.dev/plan";
/// On the object of a plan: the name of its ledger.
pub const LEDGER_LABEL: &str = "headroom.dev/ledger";

#[derive(Debug)]
pub enum LedgerContent {
    Plan {
        ledger: String,
        plan: Plan,
    },
    State {
        revision: u64,
        state: State,
    },
    /// A state that this replica knows, as it is after its own writes, or a newer one.
    AlreadyRead,
}

pub fn ledgers(namespace: &str) -> ApiPath {
    ApiPath::of_version(API_VERSION).collection(Some(namespace), "quotaledgers")
}

pub fn plan_name(ledger: &str, number: u64) -> String {
    format!("{ledger}.plan-{number}")
}

/// The name of the ledger for a namespace's ResourceQuotas. Those of TenantQuotas begin with something else.
pub fn ledger_of_namespace(namespace: &str) -> String {
    format!("ns.{namespace}")
}

/// The namespace whose ResourceQuotas a ledger has; none if it has TenantQuotas.
pub fn namespace_of(ledger: &str) -> Option<&str> {
    ledger.strip_prefix("ns.")
}

/// An object of a ledger by its name, with what it keeps if that can be read.
pub type Named = (String, Result<LedgerContent, String>);

pub fn read_named(object: Node<'_>) -> Option<Named> {
    Some((text_at(object, &["metadata", "name"])?.into_owned(), read(object)))
}

pub fn read(object: Node<'_>) -> Result<LedgerContent, String> {
    let name = text_at(object, &["metadata", "name"]).unwrap_or_default();
    let broken = |problem| unreadable(&name, problem);
    let ledger: QuotaLedger = serde_json::from_str(object.text()).map_err(|_| broken("expected lists of strings"))?;
    if let Some(of) = text_at(object, &["metadata", "labels", LEDGER_LABEL]) {
        let number = name.rsplit_once(".plan-").and_then(|(_, number)| number.parse().ok());
        let number = number.ok_or_else(|| broken("expected a name that ends with the plan's number"))?;
        let plan = Plan::read(number, &ledger.nodes, &ledger.namespaces)?;
        return Ok(LedgerContent::Plan { ledger: of.into_owned(), plan });
    }
    let QuotaLedger { plan, used, counted_at, shapes, claims, .. } = ledger;
    let plan = plan.unwrap_or_default();
    let state = State::read(&state::StateLines { plan, used, counted_at, footprints: shapes, claims })?;
    let revision = revision_in(object).ok_or_else(|| broken("expected a resourceVersion that is a number"))?;
    Ok(LedgerContent::State { revision, state })
}

pub fn read_value(object: &Value) -> Result<LedgerContent, String> {
    read(document(object).map_err(|_| unreadable(metadata(object, "name"), "expected an object"))?.root())
}

pub fn write_plan(namespace: &str, ledger: &str, plan: &Plan) -> Value {
    let (nodes, namespaces) = plan.write();
    let labels = json!({LEDGER_LABEL: ledger});
    let lines = QuotaLedger { nodes, namespaces, ..QuotaLedger::default() };
    object(namespace, &plan_name(ledger, plan.number), &labels, None, lines)
}

/// The object of a state, to replace the one with `revision`, or to be created if there is none.
pub fn write_state(namespace: &str, ledger: &str, state: &State, revision: Option<u64>) -> Value {
    let state::StateLines { plan, used, counted_at, footprints: shapes, claims } = state.write();
    let labels = json!({PLAN_LABEL: plan.to_string()});
    let lines = QuotaLedger { plan: Some(plan), used, counted_at, shapes, claims, ..QuotaLedger::default() };
    object(namespace, ledger, &labels, revision, lines)
}

fn object(namespace: &str, name: &str, labels: &Value, revision: Option<u64>, ledger: QuotaLedger) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    if let Some(revision) = revision {
        set(&mut metadata, "resourceVersion", json!(revision.to_string()));
        // One empty entry clears the list, and the API server then computes no owners of fields: only we write ledgers,
        // many times a second, and nobody applies them.
        set(&mut metadata, "managedFields", json!([{}]));
    }
    let mut object = serde_json::to_value(ledger).unwrap_or_default();
    set(&mut object, "apiVersion", json!(API_VERSION));
    set(&mut object, "kind", json!(KIND));
    set(&mut object, "metadata", metadata);
    object
}

pub fn to_amounts(amounts: &ResourceList<'static>) -> Amounts {
    amounts.iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_objects_read_back_and_errors_name_the_line() {
        let plan = Plan::read(7, &["acme 4 - pods=10"], &["shop 0"]).unwrap();
        let LedgerContent::Plan { ledger, plan: read_plan } =
            read_value(&write_plan("headroom", "acme", &plan)).unwrap()
        else {
            panic!("a plan was read as a state");
        };
        assert_eq!((ledger.as_str(), read_plan), ("acme", plan));
        let lines = state::StateLines {
            plan: 7,
            used: vec!["pods=1".to_owned()],
            counted_at: vec!["pods 88".to_owned()],
            footprints: vec!["pods=1".to_owned()],
            claims: vec!["pods/shop/web-0 - 3f9a:8c1e:-:0".to_owned()],
        };
        let state = State::read(&lines).unwrap();
        let mut object = write_state("headroom", "acme", &state, Some(12));
        let LedgerContent::State { revision, state: read_state } = read_value(&object).unwrap() else {
            panic!("a state was read as a plan");
        };
        assert_eq!((revision, read_state), (12, state));
        object["claims"] = json!(["pods/shop/web-0 - 3f9a:8c1e:-:5"]);
        assert!(read_value(&object).unwrap_err().ends_with("there is no such shape"));
        object["claims"] = json!("none");
        assert!(read_value(&object).unwrap_err().ends_with("expected lists of strings"));
    }
}
