//! Certificates for servers on loopback, each with an authority of its own.

use anyhow::Result;
use headroom_api_server::clock;
use headroom_quota_server::tls::{self, ServingCertificate};

const DAYS: i64 = 3_650;

/// A certificate for a server with these names or addresses.
pub fn for_server(names: &[&str]) -> Result<ServingCertificate> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    tls::make(&names, clock::now(), DAYS)
}
