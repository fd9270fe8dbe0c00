//! The identity of a server: a certificate for `localhost` and 127.0.0.1, and the authority that signed it, as a file.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, SupportedProtocolVersion};

pub(crate) struct Identity {
    /// The authority in PEM format. Removed when this value is dropped.
    pub(crate) cacert: PathBuf,
    pub(crate) server: Arc<ServerConfig>,
}

impl Identity {
    /// A valid one.
    pub(crate) fn sound() -> Self {
        Self::new(|_| (), rustls::DEFAULT_VERSIONS)
    }

    /// One for the older TLS version only.
    pub(crate) fn old() -> Self {
        Self::new(|_| (), &[&rustls::version::TLS12])
    }

    /// An expired one.
    pub(crate) fn expired() -> Self {
        Self::new(|params| params.not_after = date_time_ymd(2001, 1, 1), rustls::DEFAULT_VERSIONS)
    }

    /// A self-signed one, as is usual for tests.
    pub(crate) fn of_itself() -> Self {
        Self::own(|_| ())
    }

    /// A self-signed and expired one.
    pub(crate) fn of_itself_expired() -> Self {
        Self::own(|params| params.not_after = date_time_ymd(2001, 1, 1))
    }

    /// A self-signed one that is not valid yet.
    pub(crate) fn of_itself_to_come() -> Self {
        Self::own(|params| params.not_before = date_time_ymd(3001, 1, 1))
    }

    /// A self-signed one with its name only in the common name, which clients ignore.
    pub(crate) fn nameless() -> Self {
        Self::own(|params| {
            params.subject_alt_names.clear();
            params.distinguished_name.push(DnType::CommonName, "localhost");
        })
    }

    fn own(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = params();
        change(&mut params);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let signed = params.self_signed(&key).expect("an authority can sign itself");
        let server = Arc::new(config(signed.der().clone(), &key, rustls::DEFAULT_VERSIONS));
        Self { cacert: file(&signed.pem()), server }
    }

    fn new(
        change: impl FnOnce(&mut CertificateParams),
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let (mut authority, key) = (CertificateParams::default(), KeyPair::generate().expect("a key"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let signed = authority.self_signed(&key).expect("an authority can sign itself");
        let cacert = file(&signed.pem());
        let issuer = Issuer::new(authority, key);

        let mut params = params();
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("an authority can sign");
        Self { cacert, server: Arc::new(config(certificate.der().clone(), &key, versions)) }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        // Nobody needs it any more, and any clean-up finds it.
        let _ = fs::remove_file(&self.cacert);
    }
}

fn params() -> CertificateParams {
    CertificateParams::new(["localhost", "127.0.0.1"].map(String::from)).expect("a name and an address")
}

fn config(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key in PKCS #8");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("the provider has these versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is that of the certificate");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// A file with this text that no other test uses.
fn file(text: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("iolab-tls-{}-{}.pem", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::write(&path, text).expect("the folder for temporary files can be written");
    path
}
