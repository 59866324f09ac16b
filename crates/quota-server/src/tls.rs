//! The serving certificate: from files, or from the Secret that the leader manages.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use headroom_api_server::parts::locked;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The current certificate. It may change while connections are open.
#[derive(Debug, Default)]
pub struct Certificate(Mutex<Option<Arc<CertifiedKey>>>);

impl Certificate {
    pub fn is_there(&self) -> bool {
        locked(&self.0).is_some()
    }

    /// Uses a certificate and its key, both in PEM.
    pub fn set(&self, certificate: &[u8], key: &[u8]) -> Result<()> {
        *locked(&self.0) = Some(Arc::new(certified(certificate, key)?));
        Ok(())
    }

    pub fn read_files(&self, certificate: &Path, key: &Path) -> Result<()> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        self.set(&read(certificate)?, &read(key)?)
    }
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.context("cannot read the certificate")?;
    if chain.is_empty() {
        bail!("no PEM certificate found");
    }
    let key = PrivateKeyDer::from_pem_slice(key).context("cannot read the key")?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).context("certificate and key")
}

/// Checks that callers who trust these authorities accept the certificate at this Unix second.
pub fn verify(certificate: &[u8], key: &[u8], authorities: &[u8], now: i64) -> Result<()> {
    let own = certified(certificate, key)?;
    let mut roots = RootCertStore::empty();
    // API servers ignore those that cannot be read, too.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authorities).flatten());
    let certificate = ParsedCertificate::try_from(own.end_entity_cert()?)?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into()?));
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let intermediates = own.cert.get(1..).unwrap_or_default();
    Ok(verify_server_cert_signed_by_trust_anchor(&certificate, &roots, intermediates, now, algorithms)?)
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        locked(&self.0).clone()
    }
}

/// With an authority, only callers with a certificate signed by it are answered.
pub fn acceptor(certificate: Arc<Certificate>, authority: Option<&Path>) -> Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = match authority {
        Some(file) => {
            let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            let mut roots = RootCertStore::empty();
            for authority in CertificateDer::pem_slice_iter(&text) {
                roots.add(authority.with_context(|| format!("cannot read {}", file.display()))?)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.with_context(|| format!("{}", file.display()))?)
        }
        None => config.with_no_client_auth(),
    };
    let mut config = config.with_cert_resolver(certificate);
    // HTTP/2 is not offered: with HTTP/1.1, the API servers' calls are spread over the replicas.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A certificate, its key, and the authority that signed it, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingCertificate {
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

/// Makes a certificate for these names, valid for `days` from this Unix second on, signed by an authority whose key is discarded
/// at once.
pub fn make(names: &[String], now: i64, days: i64) -> Result<ServingCertificate> {
    let now = jiff::Timestamp::from_second(now)?;
    let day = |offset: i64| -> Result<_> {
        let date = now.checked_add(jiff::SignedDuration::from_hours(24 * offset))?.to_zoned(jiff::tz::TimeZone::UTC);
        Ok(rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs()))
    };
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "headroom-ledger authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params.not_before, params.not_after) = (day(-1)?, day(days + 1)?);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "headroom-ledger");
    (params.not_before, params.not_after) = (day(-1)?, day(days + 1)?);
    let certificate = params.signed_by(&key, &authority)?;
    Ok(ServingCertificate { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_was_made_can_be_used() {
        let made = make(&["headroom-ledger.headroom.svc".to_owned(), "127.0.0.1".to_owned()], 0, 90).unwrap();
        let certificate = Certificate::default();
        assert!(!certificate.is_there());
        certificate.set(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
        assert!(certificate.is_there());
        let other = make(&["x".to_owned()], 0, 90).unwrap();
        assert!(certificate.set(made.certificate.as_bytes(), other.key.as_bytes()).is_err());
        assert!(certificate.set(b"", made.key.as_bytes()).is_err());
    }
}
