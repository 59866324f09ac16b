//! Suspends and resumes a TenantQuota.

use serde_json::{Value, json};

use super::objects::TENANT_QUOTAS;
use headroom_kube::api_client::{ApiClient, ApiResult};

/// Sets `spec.suspend`. Returns whether it changed.
pub async fn suspend(api: &ApiClient, quota: &str, is_suspended: bool) -> ApiResult<bool> {
    let path = TENANT_QUOTAS.at(quota);
    let existing = api.get(&path).await?;
    if existing.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default() == is_suspended {
        return Ok(false);
    }
    // A quota that was never suspended has no such field.
    let suspend = is_suspended.then_some(true);
    api.merge(&path, &json!({"spec": {"suspend": suspend}})).await.map(|_| true)
}
