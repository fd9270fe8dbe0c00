//! A whole connection in blocking calls: for the models blocking, fork, prefork and thread.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use proto::{Next, Protocol, Server, Session};
use sys::net::Socket;

use crate::acceptor::Acceptor;
use crate::scratch::Scratch;
use crate::workers::Worker;

/// After a refusal the server reads what the peer still sends, so that the peer sees the reply. At most this many
/// bytes,
pub(crate) const DISCARD_BYTES: usize = 64 * 1024;
/// and for at most this long.
pub(crate) const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Serves one connection after another, for ever.
pub(crate) fn one_at_a_time<P: Protocol>(
    worker: Worker,
    workload: &'static P::Workload,
) -> io::Result<Infallible> {
    let (mut acceptor, mut scratch) = (Acceptor::new(worker)?, Scratch::new());
    loop {
        let socket = acceptor.wait();
        acceptor.settle(Ok(()));
        converse::<P>(&socket, workload, &mut scratch);
    }
}

/// Serves one connection until either side ends it. The caller then drops the socket. An error only ends this
/// connection.
pub(crate) fn converse<P: Protocol>(
    mut socket: &Socket,
    workload: &'static P::Workload,
    scratch: &mut Scratch,
) {
    let mut session = Session::new(P::Server::new(workload));
    while let Ok(received @ 1..) = receive(socket, &mut scratch.input) {
        scratch.tick();
        let output = &mut scratch.output;
        output.clear();
        let mut next = session.receive(&scratch.input[..received], output);
        loop {
            if socket.write_all(output.as_bytes()).is_err() {
                return;
            }
            output.clear();
            match next {
                Next::Receive => break,
                Next::Send => next = session.resume(output),
                Next::Close => {
                    if session.tail_bytes() > 0 {
                        discard(socket, &mut scratch.input);
                    }
                    return;
                }
            }
        }
    }
}

/// Ends our side and reads what the peer still sends. Closing with unread bytes would reset the connection, and the
/// peer might not see the refusal.
fn discard(socket: &Socket, input: &mut [u8]) {
    let (mut left, timeout) = (DISCARD_BYTES, Some(DISCARD_TIME));
    if socket.shutdown(Shutdown::Write).is_err() || socket.set_read_timeout(timeout).is_err() {
        return;
    }
    while let Ok(received @ 1..) = receive(socket, input) {
        left = left.saturating_sub(received);
        if left == 0 {
            return;
        }
    }
}

fn receive(mut socket: &Socket, input: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(input) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
