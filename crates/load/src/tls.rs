//! TLS over a socket, with rustls: trust, the session of a connection, and messages for its errors.
//!
//! Sessions are not resumed: each connection pays for a full handshake, as a new user's does. With tickets, only the
//! first handshake would be measured.

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, HandshakeType, InvalidMessage,
    RootCertStore, SignatureScheme,
};
use sys::net::Socket;

use crate::drivers::transport::{Transport, is_passing};
use crate::{Failure, failure};

/// The most request bytes buffered in a session, and as many again during the handshake. The rest waits in the request
/// itself.
const BUFFER_BYTES: usize = 64 * 1024;

/// Which certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that this machine trusts.
    Machine,
    /// The certificates of a PEM file.
    File(PathBuf),
    /// Any certificate. Only the server's possession of the key is checked.
    Anyone,
}

/// The TLS settings of all connections of a run.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
}

impl Tls {
    /// Settings for a server with a certificate for `server_name`, a name or an IP address. `protocol` is the ALPN name
    /// to offer. An empty one offers none.
    ///
    /// # Errors
    /// `bad_spec`: an invalid name, or a file without certificates. `unavailable`: a machine without authorities.
    pub fn new(server_name: &str, trust: &Trust, protocol: &[u8]) -> Result<Self, Failure> {
        let name = ServerName::try_from(server_name.to_owned()).map_err(|_| {
            let text = format!("`{server_name}` is not a name that a certificate can be for");
            failure("bad_spec", format!("{text}: write it as in example.org (--server-name)"))
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has suites for the versions of its own defaults");
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Machine => verifier(of_machine()?, provider),
            Trust::File(path) => {
                let (roots, named) = of_file(path)?;
                Arc::new(Named { named, others: verifier(roots, provider) })
            }
            Trust::Anyone => Arc::new(NoCheck(provider)),
        };
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = Vec::from_iter((!protocol.is_empty()).then(|| protocol.to_vec()));
        Ok(Self { config: Arc::new(config), server_name: name })
    }
}

fn verifier(roots: RootCertStore, provider: Arc<CryptoProvider>) -> Arc<WebPkiServerVerifier> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .expect("there are authorities, and no list of what is revoked")
}

fn of_machine() -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some of a machine's certificates may be too old to be parsed. The others suffice.
    let (known, _unreadable) = roots.add_parsable_certificates(found.certs);
    if known == 0 {
        let text = "no certificates of authorities are installed here (ca-certificates)";
        let advice = "install them, pass a file (--cacert FILE), or pass --insecure";
        return Err(failure("unavailable", format!("{text}: {advice}")));
    }
    Ok(roots)
}

/// The certificates of a file: as authorities, and to compare with the server's own.
fn of_file(path: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), Failure> {
    let wrong = |reason: &dyn fmt::Display| {
        failure("bad_spec", format!("--cacert: cannot take certificates from {}: {reason}", path.display()))
    };
    let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
    // Read here, because the library's errors hide those of the system.
    let pem = std::fs::read(path).map_err(|error| wrong(&error))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate.clone()).map_err(|error| wrong(&error))?;
        named.push(certificate);
    }
    if roots.is_empty() {
        return Err(wrong(&"it has none in PEM (-----BEGIN CERTIFICATE-----)"));
    }
    Ok((roots, named))
}

/// Accepts a valid certificate that is in the user's file, and those signed by one in the file. The usual test
/// certificate is its own authority, which chain validation does not accept as a server certificate.
#[derive(Debug)]
struct Named {
    named: Vec<CertificateDer<'static>>,
    others: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_named = self.named.contains(end_entity);
        // A certificate in the file needs no chain, so errors about its issuers are irrelevant.
        let intermediates = if is_named { &[] } else { intermediates };
        match self.others.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(error)) if is_named && !is_out_of_time(&error) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.others.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.others.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}

/// Whether the error concerns the validity period (or the certificate could not be parsed). It is checked first, so no
/// other error hides it.
fn is_out_of_time(error: &CertificateError) -> bool {
    matches!(
        error,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::BadEncoding
    )
}

/// Accepts any certificate. The server must still prove that it owns the key, so the handshake costs the same.
#[derive(Debug)]
struct NoCheck(Arc<CryptoProvider>);

impl ServerCertVerifier for NoCheck {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A TLS connection.
pub(crate) struct Session {
    socket: Socket,
    tls: ClientConnection,
    /// Whether the last receive emptied the socket.
    is_short: bool,
    /// Whether the server has announced the end.
    has_ended: bool,
}

impl Session {
    fn new(socket: Socket, terms: &Tls) -> io::Result<Self> {
        let mut tls = ClientConnection::new(Arc::clone(&terms.config), terms.server_name.clone())
            .map_err(|error| broken(explain(&error)))?;
        tls.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(Self { socket, tls, is_short: false, has_ended: false })
    }

    /// Completes the handshake on a blocking socket, a moment at a time, until `halt` is raised.
    fn shake(&mut self, timeout: Duration, halt: &AtomicBool) -> io::Result<()> {
        let begin = Instant::now();
        while self.tls.is_handshaking() || self.tls.wants_write() {
            if halt.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if begin.elapsed() > timeout {
                let seconds = timeout.as_secs_f64();
                let text = format!("the server did not finish the handshake within {seconds} s");
                return Err(broken(format!("{text}: {NOT_TLS}")));
            }
            if !self.flush()? || !self.tls.is_handshaking() {
                continue;
            }
            match self.receive() {
                Ok(0) => return Err(ended_early()),
                Err(error) if is_passing(&error) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Receives once and processes the records. Returns how many bytes came.
    fn receive(&mut self) -> io::Result<usize> {
        let mut source = Source { socket: &self.socket, is_short: &mut self.is_short };
        let received = self.tls.read_tls(&mut source)?;
        match self.tls.process_new_packets() {
            Ok(state) => self.has_ended = state.peer_has_closed(),
            Err(error) => {
                // Sends the alert to the server, if it still receives.
                let _ = self.flush();
                return Err(broken(explain(&error)));
            }
        }
        self.flush()?;
        Ok(received)
    }

    /// Takes decrypted bytes. An end without a `close_notify` is the error `UnexpectedEof`: a reply that lasts until
    /// the end of the connection may be incomplete.
    fn take(&mut self, input: &mut [u8]) -> io::Result<usize> {
        self.tls.reader().read(input).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof if self.tls.is_handshaking() => ended_early(),
            io::ErrorKind::UnexpectedEof => cut_off(),
            _ => error,
        })
    }

    /// Sends encrypted bytes. Returns whether all were sent.
    fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Transport for Session {
    type Terms = Tls;

    const BUFFERS: bool = true;

    fn open(socket: Socket, terms: &Tls, timeout: Duration, halt: &AtomicBool) -> io::Result<Self> {
        let mut session = Self::new(socket, terms)?;
        let moment = Some(MOMENT.min(timeout));
        session.socket.set_nonblocking(false)?;
        session.socket.set_read_timeout(moment)?;
        session.socket.set_write_timeout(moment)?;
        session.shake(timeout, halt).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ if is_broken(&error) => error,
            _ => broken(format!("the server broke off the handshake ({error}): {NOT_TLS}")),
        })?;
        session.socket.set_read_timeout(None)?;
        session.socket.set_write_timeout(None)?;
        session.socket.set_nonblocking(true)?;
        Ok(session)
    }

    fn begin(socket: Socket, terms: &Tls) -> io::Result<Self> {
        Self::new(socket, terms)
    }

    fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives at most once. A record may arrive slowly, and a blocking caller must check the clock in between.
    fn read(&mut self, input: &mut [u8]) -> io::Result<usize> {
        match self.take(input) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        self.receive()?;
        self.take(input).map_err(|error| match error.kind() {
            // Bytes have arrived, and there may be more.
            io::ErrorKind::WouldBlock => io::ErrorKind::Interrupted.into(),
            _ => error,
        })
    }

    fn is_drained(&self, received: usize, room: usize) -> bool {
        received < room && self.is_short && !self.has_ended
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        // Bytes may only be left if the socket is full: otherwise it would not become writable again.
        while self.flush()? && taken < bytes.len() {
            match self.tls.writer().write(&bytes[taken..])? {
                0 => break,
                length => taken += length,
            }
        }
        Ok(taken)
    }

    fn holds_back(&self) -> bool {
        self.tls.wants_write()
    }

    fn is_shaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn is_open(&mut self) -> bool {
        loop {
            match self.read(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock),
            }
        }
    }

    fn close(mut self) {
        if !self.has_ended && !self.tls.is_handshaking() {
            self.tls.send_close_notify();
            // If this fails, the server still sees the end of the connection.
            let _ = self.flush();
        }
    }
}

/// How long one call of a handshake may wait.
const MOMENT: Duration = Duration::from_millis(20);

/// A socket to receive from. Records whether a receive was short.
struct Source<'a> {
    socket: &'a Socket,
    is_short: &'a mut bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = (&mut &*self.socket).read(buffer)?;
        *self.is_short = received < buffer.len();
        Ok(received)
    }
}

/// The error of a TLS session, as a line that says what to do.
#[derive(Debug)]
struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for Broken {}

fn broken(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Broken(text))
}

/// Whether an error of a transport comes from TLS, not from its socket.
pub(crate) fn is_broken(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Broken>())
}

fn ended_early() -> io::Error {
    broken(format!("the server ended the connection during the handshake: {NOT_TLS}"))
}

fn cut_off() -> io::Error {
    let text = "the server ended the connection without announcing it (close_notify)";
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

const NOT_TLS: &str = "if it does not speak TLS, write http:// (or tcp://)";

/// The message for a TLS error.
fn explain(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => explain_certificate(error),
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::MessageTooShort,
        )
        // The server has echoed our own message.
        | rustls::Error::InappropriateHandshakeMessage { got_type: HandshakeType::ClientHello, .. } => {
            "the server does not answer in TLS: write http:// (or tcp://)".into()
        }
        rustls::Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            "the server does not have this name: pass the right one (--server-name NAME)".into()
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server requires a client certificate, which this generator cannot send".into()
        }
        rustls::Error::AlertReceived(alert) => format!("the server refused TLS ({alert:?}): see its log"),
        rustls::Error::PeerIncompatible(why) => {
            format!("the server offers no supported TLS ({why:?}): it needs version 1.2 or 1.3")
        }
        other => format!("TLS failed: {other}"),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    match error {
        // An authority with the name of a trusted one but another key shows as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "unknown certificate issuer: pass its certificate (--cacert FILE), or --insecure".into()
        }
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            let kind = if matches!(expected, ServerName::IpAddress(_)) { "IP" } else { "DNS" };
            let name = expected.to_str();
            format!(
                "the server's certificate names no host: make one with a subjectAltName (openssl: \
                 -addext subjectAltName={kind}:{name}), or pass --insecure"
            )
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("{error}: pass the name that it is for (--server-name NAME), or --insecure")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: renew it, or pass --insecure".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet: compare the clocks of both machines, or pass --insecure".into()
        }
        // The library has no variant for it.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is self-signed: pass it (--cacert FILE), or --insecure".into()
        }
        _ => format!(
            "the server's certificate is not accepted ({error}): if you trust it, pass it (--cacert FILE), or \
             --insecure"
        ),
    }
}
