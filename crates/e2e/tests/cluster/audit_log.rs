//! The requests that an API server has answered.

use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use serde_json::Value;
use tempfile::TempDir;

const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, users: [\"system:kube-controller-manager\", \"system:apiserver\"]}
  - {level: Metadata}
";

pub struct AuditLog(TempDir);

/// A request to the API server.
#[derive(Debug)]
pub struct ApiRequest {
    pub verb: String,
    pub uri: String,
}

impl AuditLog {
    /// A new control plane, and the log of its API server.
    pub async fn start(plugins: InTreePlugins, controllers: Controllers) -> (Cluster, Self) {
        let folder = tempfile::tempdir().unwrap();
        let [policy, log] = ["audit.yaml", "audit.log"].map(|name| folder.path().join(name));
        std::fs::write(&policy, POLICY).unwrap();
        let arguments =
            [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
        let arguments = arguments.each_ref().map(String::as_str);
        (Cluster::start_with(plugins, controllers, &arguments).await.unwrap(), Self(folder))
    }

    /// The requests whose events are wanted, in order.
    pub fn requests(&self, is_wanted: impl Fn(&Value) -> bool) -> Vec<ApiRequest> {
        let log = std::fs::read_to_string(self.0.path().join("audit.log")).unwrap();
        let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let request = |event| ApiRequest { verb: text(&event, "verb"), uri: text(&event, "requestURI") };
        events.filter(is_wanted).map(request).collect()
    }
}
