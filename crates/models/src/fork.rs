//! A process for each connection: accept, fork, and the child serves it to its end in blocking calls.
//!
//! Complete isolation for the price of copying page tables, and of a process the scheduler must know. Children
//! that have ended are reaped as they end; unreaped, they would fill the process table.

use std::convert::Infallible;
use std::io;
use std::net::{TcpListener, TcpStream};

use proto::Protocol;
use sys::process::{self, Fork};

use crate::conversation::{Scratch, after_failed_accept, converse};
use crate::workers::spread;
use crate::{Choice, Config, Holds};

pub(crate) const ABOUT: &str = "a process for each connection, forked when it is accepted";
pub(crate) const OPTIONS: &[Choice] = &[];
pub(crate) const HOLDS: Holds = Holds::Many;
pub(crate) use crate::lacks_nothing as lacks;

pub(crate) fn serve<P: Protocol>(
    listeners: Vec<TcpListener>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    process::interrupt_on_child_exit()?;
    spread(listeners, config, move |listener| {
        let mut children = 0;
        loop {
            let accepted = listener.accept();
            children -= process::reap().min(children);
            match accepted {
                // Dropping the socket refuses the connection.
                Ok(_) if children >= config.connections_max => {}
                Ok((socket, _)) => children += usize::from(start::<P>(socket, workload)),
                Err(error) => after_failed_accept(&error),
            }
        }
    })
}

/// Forks a child for a connection; says whether there is one. Where the system allows no further process the
/// connection is refused by closing it.
fn start<P: Protocol>(socket: TcpStream, workload: &'static P::Workload) -> bool {
    let parent = std::process::id();
    match process::fork() {
        Ok(Fork::Parent { .. }) => true,
        Ok(Fork::Child) => {
            if process::die_with_parent(parent).is_ok() {
                converse::<P>(socket, workload, &mut Scratch::new());
            }
            process::exit_now(0)
        }
        Err(_) => false,
    }
}
