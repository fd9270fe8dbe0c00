//! One request at a time: accept a connection, serve it to its end, accept the next.
//!
//! The oldest model and the floor of all others: nothing waits but the system call itself. While one client is
//! served every other waits in the kernel's queue, so a client that keeps its connection open shuts out the rest;
//! HTTP replies therefore end the connection.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;

use proto::Protocol;

use crate::conversation::{after_failed_accept, converse};
use crate::scratch::Scratch;
use crate::workers::spread;
use crate::{Choice, Config, Holds};

pub(crate) const ABOUT: &str = "one connection at a time in blocking calls";
pub(crate) const OPTIONS: &[Choice] = &[];
pub(crate) const HOLDS: Holds = Holds::One;
pub(crate) use crate::lacks_nothing as lacks;

pub(crate) fn serve<P: Protocol>(
    listeners: Vec<TcpListener>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(listeners, config, move |listener| {
        let mut scratch = Scratch::new();
        loop {
            match listener.accept() {
                Ok((socket, _)) => converse::<P>(socket, workload, &mut scratch),
                Err(error) => after_failed_accept(&error),
            }
        }
    })
}
