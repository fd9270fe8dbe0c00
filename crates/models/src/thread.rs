//! A thread for each connection: accept and start a thread, which serves the connection.
//!
//! The program is a simple sequence of calls, and the kernel schedules it. It costs a stack and a kernel task for each
//! connection, idle or not, and a context switch for each message. Two options keep mistakes that were published in C:
//! with `pass=shared` a new thread reads its connection from a shared variable, which may already have the next one;
//! with `join=never` the stacks of ended threads are not freed.

use std::convert::Infallible;
use std::io;
use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use proto::Protocol;
use sys::net::Socket;

use crate::acceptor::Acceptor;
use crate::conversation::converse;
use crate::counts::{ConnectionPermit, Limit};
use crate::scratch::Scratch;
use crate::workers::{Worker, spread};
use crate::{Config, Model, ModelOption, Values};

pub(crate) const MODEL: Model = Model {
    about: "a thread for each connection, started when it is accepted",
    options: &[PASS, JOIN],
    ..Model::DEFAULT
};

const PASS: ModelOption = ModelOption {
    name: "pass",
    values: Values::Words(&["own", "shared"]),
    about: "whether a thread gets its connection as an argument, or reads it from a variable that all threads share",
    defects: &[(
        "shared",
        "if two connections arrive close together, one may be served twice and the other never",
    )],
};

const JOIN: ModelOption = ModelOption {
    name: "join",
    values: Values::Words(&["detached", "never"]),
    about: "whether the stack of a finished thread is freed",
    defects: &[(
        "never",
        "every connection leaks a stack, and the server refuses all connections once memory is full",
    )],
};

/// Buffers are on the heap, so a stack has only a few frames. It is reserved, not touched.
const STACK_BYTES: usize = 64 * 1024;

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    let shares = config.option(&PASS) == "shared";
    let detaches = config.option(&JOIN) == "detached";
    spread(workers, config, move |worker| {
        let open = Arc::new(AtomicUsize::new(0));
        let place = Arc::new(Mutex::new(Place::default()));
        let mut acceptor = Acceptor::new(worker)?;
        loop {
            let socket = Arc::new(acceptor.wait());
            let Some(permit) = ConnectionPermit::take(&open, config.connections_max) else {
                drop(socket);
                acceptor.settle(Err(Limit::ConnectionsMax));
                continue;
            };
            let serve = move |socket: Option<Arc<Socket>>| {
                let _permit = permit;
                if let Some(socket) = socket {
                    converse::<P>(&socket, workload, &mut Scratch::new());
                }
            };
            let started = if shares {
                leave(&place, socket);
                let finder = Arc::clone(&place);
                // If no thread was started, the connection is refused.
                start(detaches, move || serve(find(&finder))).inspect_err(|_| take_back(&place))
            } else {
                start(detaches, move || serve(Some(socket)))
            };
            acceptor.settle(started);
        }
    })
}

/// Starts a thread. If that fails, the closure and its connection are dropped.
fn start(detaches: bool, work: impl FnOnce() + Send + 'static) -> Result<(), Limit> {
    let started = thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    let handle = started.map_err(|_| Limit::Threads)?;
    if !detaches {
        // Dropping the handle would detach the thread.
        mem::forget(handle);
    }
    Ok(())
}

/// Where the acceptor leaves a connection for the new thread: the shared variable of `pass=shared`.
#[derive(Default)]
struct Place {
    /// The connection, until a thread takes it.
    left: Option<Arc<Socket>>,
    /// The same connection. Later threads find it as long as it is open.
    last: Weak<Socket>,
}

/// Overwrites the connection left before. If no thread has taken that yet, it stays open and is never served.
fn leave(place: &Mutex<Place>, socket: Arc<Socket>) {
    let mut place = place.lock().expect("no thread panics while it has the lock");
    place.last = Arc::downgrade(&socket);
    mem::forget(place.left.replace(socket));
}

/// Closes the connection if no thread has taken it.
fn take_back(place: &Mutex<Place>) {
    drop(place.lock().expect("no thread panics while it has the lock").left.take());
}

fn find(place: &Mutex<Place>) -> Option<Arc<Socket>> {
    let mut place = place.lock().expect("no thread panics while it has the lock");
    place.left.take().or_else(|| place.last.upgrade())
}
