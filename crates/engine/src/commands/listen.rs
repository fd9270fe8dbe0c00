//! The listening sockets of a server: each worker has one for every address, or a handle of a shared one.

use std::io;

use contract::ServeSpec;
use sys::net::{Address, Listener, Listeners};
use sys::steer;

use crate::failure::Failure;
use crate::process::owner;

/// Opens the sockets, and returns the addresses with their actual ports. If the kernel cannot spread connections evenly
/// over workers, that is added to `lacks`.
///
/// # Errors
/// An address that is in use or not available. The message says what to do.
pub(crate) fn open(
    spec: &ServeSpec,
    config: &models::Config,
    lacks: &mut Vec<String>,
) -> Result<(Vec<Listeners>, Vec<contract::Address>), Failure> {
    let mut workers: Vec<Vec<Listener>> = (0..spec.workers).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for address in &spec.listen {
        // Only one socket can listen on a path, so all workers accept from it, as they do on request.
        let each = spec.workers > 1 && matches!(address.0, Address::Ip(_)) && !config.shares_queue();
        let group = open_group(&address.0, spec.workers, each, config.backlog() as i32)
            .map_err(|error| cannot_listen(&address.0, &error))?;
        addresses.push(contract::Address(group[0].address()?));
        let steered = if each { steer::in_turn(&group[0], spec.workers as u32) } else { Ok(()) };
        if steered.is_err() && lacks.iter().all(|lack| lack != UNEVEN) {
            lacks.push(UNEVEN.to_owned());
        }
        workers.iter_mut().zip(group).for_each(|(worker, listener)| worker.push(listener));
    }
    let workers = workers.into_iter().map(Listeners::new).collect::<io::Result<_>>()?;
    Ok((workers, addresses))
}

/// Removes the socket files of a server that ends.
pub(crate) fn leave(addresses: &[contract::Address]) {
    for address in addresses {
        if let Address::Unix(path) = &address.0 {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

const UNEVEN: &str = "an even spread of connections over workers (it takes CAP_BPF)";

/// One socket for each worker on the same address if `each`, otherwise handles of one socket.
///
/// A process can join a port that another process of the same user shares among its workers. The kernel would then
/// spread connections over both. So a fixed port is first opened exclusively, to check that it is free.
fn open_group(address: &Address, workers: usize, each: bool, backlog: i32) -> io::Result<Vec<Listener>> {
    if let Address::Ip(address) = address
        && each
        && address.port() != 0
    {
        drop(Listener::open(&Address::Ip(*address), false, backlog)?);
    }
    let first = Listener::open(address, each, backlog)?;
    let address = first.address()?;
    let next = |_| if each { Listener::open(&address, true, backlog) } else { first.share() };
    let rest: Vec<Listener> = (1..workers).map(next).collect::<io::Result<_>>()?;
    Ok([first].into_iter().chain(rest).collect())
}

fn cannot_listen(address: &Address, error: &io::Error) -> Failure {
    match (address, error.kind()) {
        (Address::Ip(address), io::ErrorKind::AddrInUse) => {
            let by = owner::of_port(*address)
                .map_or(String::new(), |(name, pid)| format!(" by {name} (pid {pid})"));
            let (host, port) = (address.ip(), address.port());
            let message = format!("port {port} of {host} is in use{by}: end that, or take another port");
            Failure::work("address_in_use", message)
        }
        (Address::Unix(path), io::ErrorKind::AddrInUse) => {
            let message = format!("{} is in use: end its server, or take another path", path.display());
            Failure::work("address_in_use", message)
        }
        (Address::Ip(address), io::ErrorKind::PermissionDenied) => {
            let message = format!("port {} needs privileges: take a port from 1024 on", address.port());
            Failure::work("permission_denied", message)
        }
        (Address::Ip(address), io::ErrorKind::AddrNotAvailable) => {
            let host = address.ip();
            let message =
                format!("{host} is not an address of this machine: take 127.0.0.1, or one of its own");
            Failure::work("address_unavailable", message)
        }
        _ => Failure::work("cannot_listen", format!("cannot listen on {address}: {error}")),
    }
}
