//! Models that leave the waiting to an asynchronous runtime: who is let in, and what tokio and hyper share.
//!
//! A runtime accepts through a listener of its own, one connection a call, and hands out the error where that fails.
//! So a [`Gate`] stands behind each listener instead of the [`crate::acceptor::Acceptor`].

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use sys::net::{Address, is_exhausted};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::acceptor::{EXHAUSTED_PAUSE, spare_descriptor};
use crate::conversation::{DISCARD_BYTES, DISCARD_TIME};
use crate::counts::{ConnectionPermit, Counts, Limit};
use crate::readiness::SYSCALLS_MAX;
use crate::scratch::Scratch;
use crate::workers::{Worker, spread};
use crate::{Config, ModelOption, Values, WorkerKind};

/// Which of tokio's two runtimes.
pub(crate) const RUNTIME: ModelOption = ModelOption {
    name: "runtime",
    values: Values::Words(&["current", "multi"]),
    about: "whether each worker has a runtime of one thread, or all share one that moves tasks between its threads",
    defects: &[],
};

/// Models on tokio need no feature of the kernel; but not all of their options go together.
pub(crate) fn missing_features(config: &Config) -> io::Result<Vec<String>> {
    if config.option(&RUNTIME) == "multi" && config.worker_kind == WorkerKind::Process {
        let text = "runtime=multi is one process with many threads: leave out one of the two, or take runtime=current";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(Vec::new())
}

/// What a model on tokio does with a connection from its first byte to its last.
pub(crate) trait Service: Copy + Send + 'static {
    fn serve<S: Stream>(self, stream: S) -> impl Future<Output = ()> + Send;
}

/// A connection of tokio's, TCP or Unix.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// Serves for ever on tokio: a task for each listener, and one for each connection.
pub(crate) fn serve(
    workers: Vec<Worker>,
    config: &'static Config,
    service: impl Service,
) -> io::Result<Infallible> {
    if config.option(&RUNTIME) == "multi" {
        let runtime = Builder::new_multi_thread().worker_threads(workers.len()).enable_all().build()?;
        return runtime.block_on(accept_all(workers, config, service));
    }
    spread(workers, config, move |worker| {
        sys::process::own_descriptors()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(accept_all(vec![worker], config, service))
    })
}

async fn accept_all(
    workers: Vec<Worker>,
    config: &'static Config,
    service: impl Service,
) -> io::Result<Infallible> {
    let spare = Arc::new(Mutex::new(spare_descriptor()));
    for worker in workers {
        let open = Arc::default();
        for listener in worker.listeners.into_vec() {
            let gate = Gate::new(worker.counts, &open, config.connections_max, &spare);
            listener.set_nonblocking(true)?;
            match listener.address()? {
                Address::Ip(_) => {
                    let listener = TcpListener::from_std(listener.into_socket().into())?;
                    tokio::spawn(accept(listener, gate, service));
                }
                Address::Unix(_) => {
                    let listener = UnixListener::from_std(listener.into_socket().into())?;
                    tokio::spawn(accept(listener, gate, service));
                }
            }
        }
    }
    pending().await
}

async fn accept<L: Listen>(listener: L, gate: Gate, service: impl Service) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                if let Some(permit) = gate.admit() {
                    tokio::spawn(async move {
                        let _permit = permit;
                        service.serve(stream).await;
                    });
                }
            }
            Err(error) => {
                if gate.is_shut(&error) {
                    sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }
}

/// A listener of tokio's.
trait Listen: Send + Sync + 'static {
    type Stream: Stream;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Ends our side and reads what a refused peer still sends: closing with unread bytes would reset the connection,
/// and the peer might never see why it was refused.
pub(crate) async fn discard<S: Stream>(mut stream: S) {
    if stream.shutdown().await.is_ok() {
        let mut rest = stream.take(DISCARD_BYTES as u64);
        // What comes of it concerns nobody: the connection is over.
        let _ = timeout(DISCARD_TIME, copy(&mut rest, &mut sink())).await;
    }
}

/// Decides who is let in by one listener.
pub(crate) struct Gate {
    counts: Counts,
    open: Arc<AtomicUsize>,
    connections_max: usize,
    spare: Arc<Spare>,
}

/// A descriptor kept free for the moment when all others are taken. A connection accepted in its place is refused, by
/// closing it, unless there is a new spare by then. All gates on one table of descriptors share it: whichever of them
/// accepts in its place, the next finds it gone and makes up for it.
pub(crate) type Spare = Mutex<Option<File>>;

impl Gate {
    /// `open` counts the connections of the worker, whichever of its listeners they came by.
    pub(crate) fn new(
        counts: Counts,
        open: &Arc<AtomicUsize>,
        connections_max: usize,
        spare: &Arc<Spare>,
    ) -> Self {
        Self { counts, open: Arc::clone(open), connections_max, spare: Arc::clone(spare) }
    }

    /// Counts a connection that was accepted. `None`: there is no room for it, and it must be dropped.
    pub(crate) fn admit(&self) -> Option<ConnectionPermit> {
        let permit = if self.spare().is_some() {
            ConnectionPermit::take(&self.open, self.connections_max).ok_or(Limit::ConnectionsMax)
        } else {
            Err(Limit::Descriptors)
        };
        match &permit {
            Ok(_) => self.counts.take(),
            Err(limit) => self.counts.refuse(*limit),
        }
        permit.ok()
    }

    /// Whether accepting is to rest after this error, because the next attempt would fail in the same way at once.
    pub(crate) fn is_shut(&self, error: &io::Error) -> bool {
        is_exhausted(error) && self.spare().take().is_none()
    }

    /// The spare, which is there unless there is no room for one.
    fn spare(&self) -> MutexGuard<'_, Option<File>> {
        let mut spare = self.spare.lock().expect("nobody panics with it");
        *spare = spare.take().or_else(spare_descriptor);
        spare
    }
}

/// A task's share of its thread: so many calls that find their socket ready, and then others must have their turn. One
/// that has waited begins anew.
#[derive(Default)]
pub(crate) struct Share {
    syscalls: usize,
}

impl Share {
    /// Makes a call, and whatever waiting it takes.
    pub(crate) async fn spend<T>(&mut self, call: impl Future<Output = T>) -> T {
        self.syscalls += 1;
        let mut call = pin!(call);
        poll_fn(|context| {
            let result = call.as_mut().poll(context);
            if result.is_pending() {
                self.syscalls = 0;
            }
            result
        })
        .await
    }

    /// Whether others must have their turn now. It begins anew then.
    pub(crate) fn is_spent(&mut self) -> bool {
        let is_spent = self.syscalls >= SYSCALLS_MAX;
        if is_spent {
            self.syscalls = 0;
        }
        is_spent
    }
}

/// Lends the buffers of the thread: they must not be wanted any longer when a task waits, for the next task on this
/// thread will want them.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new()));
    SCRATCH.with_borrow_mut(work)
}
