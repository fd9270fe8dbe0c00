//! tokio: a task for each connection, written as if it blocked. The runtime waits for all of them with epoll.
//!
//! By default each worker has a runtime with one thread, and a connection stays with its worker. With `runtime=multi`
//! one runtime has a thread for each worker, and idle threads take tasks from busy ones. Tasks receive into the buffers
//! of their thread, because a reply is composed before the task waits again. So an idle connection has no buffer, as in
//! the other event loops.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use proto::{Next, Output, Protocol, Server, Session};
use tokio::io::{AsyncWriteExt, ReadBuf};
use tokio::task::yield_now;

use crate::runtimes::{self, RUNTIME, Service, Share, Stream, discard, with_scratch};
use crate::workers::Worker;
use crate::{Config, Model};

pub(crate) const MODEL: Model = Model {
    about: "a task for each connection on tokio's runtime",
    options: &[RUNTIME],
    missing_features: runtimes::missing_features,
    moves_connections: runtimes::moves_connections,
    ..Model::DEFAULT
};

pub(crate) fn serve<P: Protocol>(
    workers: Vec<Worker>,
    config: &'static Config,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    runtimes::serve(workers, config, Conversation::<P> { workload })
}

struct Conversation<P: Protocol> {
    workload: &'static P::Workload,
}

// Not derived: the derive would require `P: Clone`.
impl<P: Protocol> Clone for Conversation<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Protocol> Copy for Conversation<P> {}

impl<P: Protocol> Service for Conversation<P> {
    async fn serve<S: Stream>(self, stream: S) {
        // An error only ends this connection.
        let _ = converse(stream, Session::new(P::Server::new(self.workload))).await;
    }
}

/// The result of a send.
struct Reply {
    /// What did not fit into the socket. Empty unless the peer reads slowly.
    unsent: Vec<u8>,
    next: Next,
}

async fn converse<W: 'static, T: Server<W>>(
    mut stream: impl Stream,
    mut session: Session<T>,
) -> io::Result<()> {
    let mut share = Share::default();
    loop {
        let mut reply = share.spend(poll_fn(|context| receive(context, &mut stream, &mut session))).await?;
        loop {
            // The runtime's own limit is eight times as high.
            if share.is_spent() {
                yield_now().await;
            }
            stream.write_all(&reply.unsent).await?;
            match reply.next {
                Next::Receive => break,
                Next::Send => {
                    let mut resume = |context: &mut Context<'_>| resume(context, &mut stream, &mut session);
                    reply = share.spend(poll_fn(|context| Poll::Ready(resume(context)))).await?;
                }
                Next::Close => {
                    if session.tail_bytes() > 0 {
                        discard(stream).await;
                    }
                    return Ok(());
                }
            }
        }
    }
}

/// Waits for bytes, and answers them. It waits for readiness, so it needs no buffer meanwhile. Unlike `readable` with
/// `try_read` it treats a short read as the last, which saves a call that would find nothing.
fn receive<W: 'static, T: Server<W>>(
    context: &mut Context<'_>,
    stream: &mut impl Stream,
    session: &mut Session<T>,
) -> Poll<io::Result<Reply>> {
    with_scratch(|scratch| {
        let mut received = ReadBuf::new(&mut scratch.input);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut received))?;
        if received.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        let output = &mut scratch.output;
        output.clear();
        output.tick(sys::clock::unix_s());
        let next = session.receive(received.filled(), output);
        Poll::Ready(send(context, stream, output, next))
    })
}

/// Answers what was received before.
fn resume<W: 'static, T: Server<W>>(
    context: &mut Context<'_>,
    stream: &mut impl Stream,
    session: &mut Session<T>,
) -> io::Result<Reply> {
    with_scratch(|scratch| {
        scratch.output.clear();
        let next = session.resume(&mut scratch.output);
        send(context, stream, &scratch.output, next)
    })
}

/// Sends what fits at once. Only the rest is copied.
fn send(
    context: &mut Context<'_>,
    stream: &mut impl Stream,
    output: &Output,
    next: Next,
) -> io::Result<Reply> {
    let bytes = output.as_bytes();
    let sent = match bytes {
        [] => 0,
        _ => match Pin::new(stream).poll_write(context, bytes) {
            Poll::Ready(sent) => sent?,
            Poll::Pending => 0,
        },
    };
    Ok(Reply { unsent: bytes[sent..].to_vec(), next })
}
