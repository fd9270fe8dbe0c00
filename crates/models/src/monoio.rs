//! monoio: a task for each connection on a runtime for io_uring, with one thread for each worker and nothing shared.
//!
//! The kernel fills a buffer while the task waits, so each connection owns a buffer for input and one for replies. It
//! receives one message at a time: unlike the model `io_uring`, it has no provided buffers and no multishot requests.
//! With `driver=legacy` the same tasks wait with epoll.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, UnixListener};
use monoio::time::{sleep, timeout};
use monoio::{Buildable, Driver, IoUringDriver, LegacyDriver, RuntimeBuilder};
use proto::{Next, Output, Protocol, Server, Session};
use sys::net::Address;

use crate::acceptor::{EXHAUSTED_PAUSE, spare_descriptor};
use crate::conversation::{DISCARD_BYTES, DISCARD_TIME};
use crate::runtimes::{Gate, Share, with_scratch};
use crate::workers::{Worker, spread};
use crate::{Config, Model, ModelOption, Values};

pub(crate) const MODEL: Model = Model {
    about: "a task for each connection on monoio's runtime, with io_uring",
    needs: "io_uring, Linux 6.1 (taskrun=interrupting: Linux 5.6; driver=legacy: any)",
    options: &[DRIVER, TASK_RUN],
    missing_features,
    ..Model::DEFAULT
};

const DRIVER: ModelOption = ModelOption {
    name: "driver",
    values: Values::Words(&["io_uring", "legacy"]),
    about: "whether tasks wait with io_uring or with epoll",
    defects: &[],
};
const TASK_RUN: ModelOption = ModelOption {
    name: "taskrun",
    values: Values::Words(&["deferred", "cooperative", "interrupting"]),
    about: "when the kernel completes requests: while the server waits, at any syscall, or at once (monoio's default)",
    defects: &[],
};

/// At most this is received in one call, as in the other models. Untouched pages take no memory.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A driver with timers.
type Timed<D> = monoio::time::TimeDriver<D>;

/// Never falls back to the other driver: a driver that is missing is an error.
fn missing_features(config: &Config) -> io::Result<Vec<String>> {
    let task_run = config.option(&TASK_RUN);
    if is_legacy(config) {
        if task_run != TASK_RUN.values.default() {
            let text = "driver=legacy has no ring to set taskrun of: leave out one of the two";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    } else if !monoio::utils::detect_uring() {
        let text = "io_uring is forbidden here, or older than Linux 5.6: allow it, or take driver=legacy";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    } else if let Err(error) = ring(task_run).build() {
        let text =
            format!("io_uring with taskrun={task_run} cannot be set up ({error}): take taskrun=interrupting");
        return Err(io::Error::new(error.kind(), text));
    }
    Ok(Vec::new())
}

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    spread(workers, config, move |worker| {
        sys::process::own_descriptors()?;
        if is_legacy(config) {
            run::<P, _>(RuntimeBuilder::<LegacyDriver>::new().enable_timer(), worker, config, workload)
        } else {
            run::<P, _>(ring(config.option(&TASK_RUN)), worker, config, workload)
        }
    })
}

fn is_legacy(config: &Config) -> bool {
    config.option(&DRIVER) == "legacy"
}

fn ring(task_run: &str) -> RuntimeBuilder<Timed<IoUringDriver>> {
    let mut flags = monoio_io_uring::IoUring::builder();
    match task_run {
        "deferred" => flags.setup_single_issuer().setup_defer_taskrun(),
        "cooperative" => flags.setup_coop_taskrun(),
        _ => &mut flags,
    };
    RuntimeBuilder::<IoUringDriver>::new().uring_builder(flags).enable_timer()
}

fn run<P: Protocol, D: Driver + Buildable>(
    builder: RuntimeBuilder<D>,
    worker: Worker,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    Buildable::build(builder)?.block_on(async {
        let (open, spare) = (Arc::default(), Arc::new(Mutex::new(spare_descriptor())));
        for listener in worker.listeners.into_vec() {
            let gate = Gate::new(worker.counts, &open, config.connections_max, &spare);
            // A ring does not wait for a non-blocking socket, and epoll needs one.
            listener.set_nonblocking(is_legacy(config))?;
            match listener.address()? {
                Address::Ip(_) => {
                    let listener = TcpListener::from_std(listener.into_socket().into())?;
                    let next = async move || listener.accept().await.map(|(stream, _)| stream);
                    monoio::spawn(accept::<P, _>(next, gate, workload));
                }
                Address::Unix(_) => {
                    let listener = UnixListener::from_std(listener.into_socket().into())?;
                    let next = async move || listener.accept().await.map(|(stream, _)| stream);
                    monoio::spawn(accept::<P, _>(next, gate, workload));
                }
            }
        }
        pending().await
    })
}

async fn accept<P: Protocol, S: Stream>(
    next: impl AsyncFn() -> io::Result<S>,
    gate: Gate,
    workload: &'static P::Workload,
) {
    loop {
        match next().await {
            Ok(stream) => {
                if let Some(permit) = gate.admit() {
                    monoio::spawn(async move {
                        let _permit = permit;
                        converse(stream, Session::new(P::Server::new(workload))).await;
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

/// A connection in monoio, TCP or Unix.
trait Stream: AsyncReadRent + AsyncWriteRent + 'static {}
impl<S: AsyncReadRent + AsyncWriteRent + 'static> Stream for S {}

/// Serves one connection until either side ends it. An error only ends this connection.
async fn converse<W: 'static, T: Server<W>>(mut stream: impl Stream, mut session: Session<T>) {
    let (mut input, mut reply) = (Vec::with_capacity(RECEIVE_BYTES), Vec::new());
    let mut received;
    let mut share = Share::default();
    loop {
        (received, input) = share.spend(stream.read(input)).await;
        let Ok(1..) = received else { return };
        let mut next = compose(&mut reply, |output| session.receive(&input, output));
        loop {
            let sent;
            // With epoll a call on a ready socket returns at once, and monoio never yields by itself.
            if share.is_spent() {
                yield_now().await;
            }
            (sent, reply) = share.spend(stream.write_all(reply)).await;
            if sent.is_err() {
                return;
            }
            match next {
                Next::Receive => break,
                Next::Send => next = compose(&mut reply, |output| session.resume(output)),
                Next::Close => {
                    if session.tail_bytes() > 0 && stream.shutdown().await.is_ok() {
                        // The result does not matter: the connection is over.
                        let _ = timeout(DISCARD_TIME, discard(stream, input)).await;
                    }
                    return;
                }
            }
        }
    }
}

/// Lets all other ready tasks run first.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Composes a reply in the output of the thread, and copies it to the buffer of the connection.
fn compose(reply: &mut Vec<u8>, advance: impl FnOnce(&mut Output) -> Next) -> Next {
    with_scratch(|scratch| {
        scratch.tick();
        scratch.output.clear();
        let next = advance(&mut scratch.output);
        reply.clear();
        reply.extend_from_slice(scratch.output.as_bytes());
        next
    })
}

/// Reads what a refused peer still sends. Closing with unread bytes would reset the connection, and the peer might not
/// see the refusal.
async fn discard(mut stream: impl Stream, mut input: Vec<u8>) {
    let mut left = DISCARD_BYTES;
    let mut received;
    while left > 0 {
        (received, input) = stream.read(input).await;
        let Ok(count @ 1..) = received else { return };
        left = left.saturating_sub(count);
    }
}
