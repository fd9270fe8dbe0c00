//! A connection from its first byte to its last in plain blocking calls: what blocking, fork and thread share.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use proto::{Next, Protocol, Server, Session};

use crate::scratch::Scratch;

/// A peer whose request was refused is read to its end, so that it sees the reply, but not beyond this...
pub(crate) const DISCARD_BYTES: usize = 64 * 1024;
/// ...nor for longer than this.
const DISCARD_TIME: Duration = Duration::from_secs(5);
/// How long an acceptor rests when there is no room for another connection.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(10);

/// Serves one connection until either side ends it. What goes wrong with it concerns nobody else.
pub(crate) fn converse<P: Protocol>(
    mut socket: TcpStream,
    workload: &'static P::Workload,
    scratch: &mut Scratch,
) {
    let mut session = Session::new(P::Server::new(workload));
    while let Ok(received @ 1..) = receive(&mut socket, &mut scratch.input) {
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
                        discard(&mut socket, &mut scratch.input);
                    }
                    return;
                }
            }
        }
    }
}

/// Makes sure that a failing accept does not keep a processor busy: where there is no room for a connection, it
/// will fail again at once until one ends.
pub(crate) fn after_failed_accept(error: &io::Error) {
    if sys::net::is_exhausted(error) {
        thread::sleep(EXHAUSTED_PAUSE);
    }
}

/// Ends our side and reads what the peer still sends: closing with unread bytes would reset the connection, and
/// the peer might never see why it was refused.
fn discard(socket: &mut TcpStream, input: &mut [u8]) {
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

fn receive(socket: &mut TcpStream, input: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(input) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
