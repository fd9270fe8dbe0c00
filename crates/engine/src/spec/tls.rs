//! TLS as the contract asks for it.

use contract::{LoadSpec, Workload};

use ::load::{Tls, Trust};

use crate::failure::Failure;

/// The sessions of a load, if it is to have any.
///
/// # Errors
/// A driver that has none; a name that is none; certificates that cannot be read; a machine that trusts nobody.
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
    // What a server is told to expect, where there is a word for it.
    let protocol: &[u8] = if matches!(spec.workload, Workload::Http(_)) { b"http/1.1" } else { b"" };
    Tls::new(&tls.server_name, &trust, protocol).map(Some).map_err(|failure| match failure.kind {
        "unavailable" => Failure::machine(failure.kind, failure.message),
        _ => Failure::request(failure.kind, failure.message),
    })
}
