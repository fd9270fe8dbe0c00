//! TLS as the contract specifies it.

use contract::{LoadSpec, Workload};

use ::load::{Tls, Trust};

use crate::failure::Failure;

/// The TLS settings of a load, if it uses TLS.
///
/// # Errors
/// A driver without TLS, an invalid name, unreadable certificates, or a machine without authorities.
pub(crate) fn sessions(spec: &LoadSpec) -> Result<Option<Tls>, Failure> {
    let Some(tls) = &spec.tls else { return Ok(None) };
    if !spec.driver.has_tls() {
        let message = format!("TLS does not go with the driver {}: take --driver epoll", spec.driver.name());
        return Err(Failure::request("bad_spec", message));
    }
    let trust = match (&tls.cacert, tls.insecure) {
        (Some(_), true) => {
            return Err(Failure::request("bad_spec", "cacert and insecure contradict each other: give one"));
        }
        (Some(path), false) => Trust::File(path.clone()),
        (None, true) => Trust::Anyone,
        (None, false) => Trust::Machine,
    };
    // The ALPN name of the protocol, if it has one.
    let protocol: &[u8] = if matches!(spec.workload, Workload::Http(_)) { b"http/1.1" } else { b"" };
    Tls::new(&tls.server_name, &trust, protocol).map(Some).map_err(|failure| match failure.kind {
        "unavailable" => Failure::machine(failure.kind, failure.message),
        _ => Failure::request(failure.kind, failure.message),
    })
}
