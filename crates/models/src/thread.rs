//! A thread for each connection: accept, start a thread, and it serves the connection to its end.
//!
//! The program stays a straight line, and the kernel schedules it; the price is a stack and a task for each
//! connection, idle or not, and a switch for each message.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use proto::Protocol;

use crate::conversation::{after_failed_accept, converse};
use crate::scratch::Scratch;
use crate::workers::spread;
use crate::{Choice, Config, Holds};

pub(crate) const ABOUT: &str = "a thread for each connection, started when it is accepted";
pub(crate) const OPTIONS: &[Choice] = &[];
pub(crate) const HOLDS: Holds = Holds::Many;
pub(crate) use crate::lacks_nothing as lacks;

/// Buffers live on the heap, so a stack holds only a few frames; it is reserved, not touched.
const STACK_BYTES: usize = 64 * 1024;

pub(crate) fn serve<P: Protocol>(
    listeners: Vec<TcpListener>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(listeners, config, move |listener| {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let socket = match listener.accept() {
                // Dropping the socket refuses the connection.
                Ok(_) if open.load(Ordering::Relaxed) >= config.connections_max => continue,
                Ok((socket, _)) => socket,
                Err(error) => {
                    after_failed_accept(&error);
                    continue;
                }
            };
            let counted = Counted::new(&open);
            // A failure to start drops the closure, and with it the connection: it is refused.
            let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                let _counted = counted;
                converse::<P>(socket, workload, &mut Scratch::new());
            });
        }
    })
}

/// Counts a connection for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
