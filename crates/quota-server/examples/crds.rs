//! Prints the CustomResourceDefinitions of TenantQuotas and QuotaLedgers, for `cargo xtask codegen`.

use headroom_quota_server::custom_resources::definitions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("# Users write TenantQuotas; only `headroom-controller enforce-quotas` writes QuotaLedgers.");
    println!("# Made from crates/quota-server/src/custom_resources.rs by `cargo xtask codegen`.");
    let [tenant_quota, quota_ledger] = definitions()?;
    let (tenant_quota, quota_ledger) =
        (serde_saphyr::to_string(&tenant_quota)?, serde_saphyr::to_string(&quota_ledger)?);
    print!("{tenant_quota}---\n{quota_ledger}");
    Ok(())
}
