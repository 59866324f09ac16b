//! Certificates for servers on loopback: one authority per test run, and the certificates that it signs.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, both in PEM.
pub struct ServerCertificate {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "headroom tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// The authority's own certificate in PEM, for clients to trust.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// The same for Rust's clients.
    pub fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// A certificate for a server with these names or addresses.
    pub fn sign_server(&self, names: &[&str]) -> Result<ServerCertificate> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "headroom test server");
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(ServerCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
