//! Models on an asynchronous runtime: admission of connections, and what tokio and hyper share.
//!
//! A runtime accepts with its own listener, one connection for each call. So each listener has a [`Gate`] instead of an
//! [`crate::acceptor::Acceptor`].

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

/// Selects one of tokio's two runtimes.
pub(crate) const RUNTIME: ModelOption = ModelOption {
    name: "runtime",
    values: Values::Words(&["current", "multi"]),
    about: "whether each worker has a runtime of one thread, or all share one that moves tasks between its threads",
    defects: &[],
};

/// Models on tokio miss no feature, but some of their options exclude each other.
pub(crate) fn missing_features(config: &Config) -> io::Result<Vec<String>> {
    if config.option(&RUNTIME) == "multi" && config.worker_kind == WorkerKind::Process {
        let text = "runtime=multi is one process with many threads: leave out one of the two, or take runtime=current";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(Vec::new())
}

/// Whether tasks, and with them their connections, move between the threads of the runtime.
pub(crate) fn moves_connections(config: &Config) -> bool {
    config.option(&RUNTIME) == "multi"
}

/// How a model on tokio serves a connection from beginning to end.
pub(crate) trait Service: Copy + Send + 'static {
    fn serve<S: Stream>(self, stream: S) -> impl Future<Output = ()> + Send;
}

/// A connection in tokio, TCP or Unix.
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

/// A listener in tokio.
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

/// Ends our side and reads what a refused peer still sends. Closing with unread bytes would reset the connection, and
/// the peer might not see the refusal.
pub(crate) async fn discard<S: Stream>(mut stream: S) {
    if stream.shutdown().await.is_ok() {
        let mut rest = stream.take(DISCARD_BYTES as u64);
        // The result does not matter: the connection is over.
        let _ = timeout(DISCARD_TIME, copy(&mut rest, &mut sink())).await;
    }
}

/// Admits or refuses the connections of one listener.
pub(crate) struct Gate {
    counts: Counts,
    open: Arc<AtomicUsize>,
    connections_max: usize,
    spare: Arc<Spare>,
}

/// A spare descriptor for when all others are used. A connection accepted with it is refused, unless a new spare can be
/// opened by then. All gates on one descriptor table share it.
pub(crate) type Spare = Mutex<Option<File>>;

impl Gate {
    /// `open` counts the connections of all listeners of the worker.
    pub(crate) fn new(
        counts: Counts,
        open: &Arc<AtomicUsize>,
        connections_max: usize,
        spare: &Arc<Spare>,
    ) -> Self {
        Self { counts, open: Arc::clone(open), connections_max, spare: Arc::clone(spare) }
    }

    /// Counts an accepted connection. None if there is no room: the caller drops it.
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

    /// Whether accepting must pause after this error, because the next attempt would fail at once in the same way.
    pub(crate) fn is_shut(&self, error: &io::Error) -> bool {
        is_exhausted(error) && self.spare().take().is_none()
    }

    /// The spare. None only if no descriptor is left.
    fn spare(&self) -> MutexGuard<'_, Option<File>> {
        let mut spare = self.spare.lock().expect("no thread panics while it has the lock");
        *spare = spare.take().or_else(spare_descriptor);
        spare
    }
}

/// Limits how many syscalls in a row a task makes without waiting, so that other tasks run too. A wait resets the
/// count.
#[derive(Default)]
pub(crate) struct Share {
    syscalls: usize,
}

impl Share {
    /// Makes a call and waits for it.
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

    /// Whether the task must yield now. Resets the count if so.
    pub(crate) fn is_spent(&mut self) -> bool {
        let is_spent = self.syscalls >= SYSCALLS_MAX;
        if is_spent {
            self.syscalls = 0;
        }
        is_spent
    }
}

/// Lends the buffers of the thread. A task must not need them after it waits, because other tasks on the thread use
/// them.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local!(static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new()));
    SCRATCH.with_borrow_mut(work)
}
