//! A connection driven by readiness: for select, poll, epoll and similar models.
//!
//! The model calls [`Connection::step`] when a socket may be ready. It receives, answers and sends as far as the socket
//! allows, and returns what to wait for.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use proto::{Next, Output, Server, Session};
use sys::net::Socket;

use crate::conversation::DISCARD_BYTES;
use crate::scratch::Scratch;

/// The most receives in one step, and the most sends, so that one fast peer cannot keep a worker from the others.
pub(crate) const SYSCALLS_MAX: usize = 16;

/// What a connection waits for after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes to receive.
    Receive,
    /// Room to send. Until then it receives nothing.
    Send,
    /// Nothing: there may be more to receive, but other connections come first.
    ReceiveAgain,
    /// The same, but it has more to send.
    SendAgain,
    /// It is over. Drop it.
    Close,
}

/// What a connection does after all its bytes have been sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Receive,
    Resume,
    Finish,
    /// Read and drop what a refused peer still sends, at most this many bytes.
    Discard(usize),
}

/// The transport of a connection.
pub(crate) trait Transport: Read + Write {
    fn end_sending(&self) -> io::Result<()>;
}

impl Transport for Socket {
    fn end_sending(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A socket with its session.
pub(crate) struct Connection<S, T = Socket> {
    socket: T,
    session: Session<S>,
    /// Replies that did not fit into the socket. Empty unless the peer reads slowly.
    unsent: Vec<u8>,
    then: Then,
}

impl<S, T: Transport> Connection<S, T> {
    pub(crate) fn new(socket: T, server: S) -> Self {
        Self { socket, session: Session::new(server), unsent: Vec::new(), then: Then::Receive }
    }

    /// Receives, answers and sends as far as the socket allows, within a fair share. With `to_the_end` the peer has
    /// ended its side, and receiving goes on until the end. Otherwise a receive that does not fill the buffer counts as
    /// the last, which saves a call that would find nothing.
    pub(crate) fn step<W: 'static>(&mut self, scratch: &mut Scratch, to_the_end: bool) -> Step
    where
        S: Server<W>,
    {
        let step = self.send_unsent();
        if step != Step::Receive {
            return step;
        }
        let mut sends = 0;
        if self.then == Then::Resume {
            let next = self.session.resume(&mut scratch.output);
            let step = self.send(next, &mut scratch.output, &mut sends);
            if step != Step::Receive {
                return step;
            }
        }
        self.receive(scratch, to_the_end, &mut sends)
    }

    fn receive<W: 'static>(&mut self, scratch: &mut Scratch, to_the_end: bool, sends: &mut usize) -> Step
    where
        S: Server<W>,
    {
        for _ in 0..SYSCALLS_MAX {
            let received = match self.socket.read(&mut scratch.input) {
                Ok(0) => return Step::Close,
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Receive,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Step::Close,
            };
            let step = match self.then {
                Then::Discard(left) if received >= left => Step::Close,
                Then::Discard(left) => {
                    self.then = Then::Discard(left - received);
                    Step::Receive
                }
                _ => {
                    let next = self.session.receive(&scratch.input[..received], &mut scratch.output);
                    self.send(next, &mut scratch.output, sends)
                }
            };
            if step != Step::Receive || (received < scratch.input.len() && !to_the_end) {
                return step;
            }
        }
        Step::ReceiveAgain
    }

    /// Sends the replies in `output`, and further replies to bytes that were received before.
    fn send<W: 'static>(&mut self, mut next: Next, output: &mut Output, sends: &mut usize) -> Step
    where
        S: Server<W>,
    {
        loop {
            let sent = send_some(&mut self.socket, output.as_bytes());
            let complete = sent.as_ref().is_ok_and(|&sent| sent == output.len());
            if let Ok(sent) = sent {
                self.unsent.extend_from_slice(&output.as_bytes()[sent..]);
            }
            output.clear();
            *sends += 1;
            self.then = match next {
                Next::Receive => Then::Receive,
                Next::Send => Then::Resume,
                Next::Close => Then::Finish,
            };
            match (complete, next) {
                (true, Next::Receive) => return Step::Receive,
                (true, Next::Send) if *sends >= SYSCALLS_MAX => return Step::SendAgain,
                (true, Next::Send) => next = self.session.resume(output),
                (true, Next::Close) => return self.finish(),
                (false, _) if self.unsent.is_empty() => return Step::Close,
                (false, _) => return Step::Send,
            }
        }
    }

    /// Sends what is left from an earlier step.
    fn send_unsent(&mut self) -> Step {
        if self.unsent.is_empty() {
            return Step::Receive;
        }
        match send_some(&mut self.socket, &self.unsent) {
            Err(_) => return Step::Close,
            Ok(sent) if sent < self.unsent.len() => {
                self.unsent.drain(..sent);
                return Step::Send;
            }
            // Frees the memory: most connections never need it.
            Ok(_) => self.unsent = Vec::new(),
        }
        if self.then == Then::Finish { self.finish() } else { Step::Receive }
    }

    /// Closes. After a refusal it ends only our side and keeps reading: closing with unread bytes would reset the
    /// connection before the peer has seen the reply.
    fn finish(&mut self) -> Step {
        if self.session.tail_bytes() == 0 || self.socket.end_sending().is_err() {
            return Step::Close;
        }
        self.then = Then::Discard(DISCARD_BYTES);
        Step::Receive
    }
}

impl<S> AsFd for Connection<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends what fits: all, some or, if the socket is full, nothing.
pub(crate) fn send_some(socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    loop {
        match socket.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that never stops sending and reads every reply at once.
    #[derive(Default)]
    struct Flood {
        reads: usize,
        writes: usize,
    }

    impl Read for Flood {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            Ok(buffer.len())
        }
    }

    impl Write for Flood {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Transport for Flood {
        fn end_sending(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Answers this many requests of one byte each before the output is full.
    struct Answers(usize);

    impl Server<()> for Answers {
        fn new(_workload: &'static ()) -> Self {
            Self(1)
        }

        fn advance(&mut self, input: &[u8], output: &mut Output) -> (usize, Next) {
            output.push(b"x");
            if input.len() > self.0 { (self.0, Next::Send) } else { (input.len(), Next::Receive) }
        }
    }

    /// Steps a flooded connection twice, and expects the result and the number of reads and writes.
    fn check(answers: usize, expected: [(Step, usize, usize); 2]) {
        let mut connection = Connection::new(Flood::default(), Answers(answers));
        let mut scratch = Scratch::new();
        for expected in expected {
            let step = connection.step(&mut scratch, false);
            let Flood { reads, writes } = std::mem::take(&mut connection.socket);
            assert_eq!((step, reads, writes), expected);
        }
    }

    #[test]
    fn a_connection_that_always_has_more_to_receive_lets_others_have_their_turn() {
        check(usize::MAX, [(Step::ReceiveAgain, SYSCALLS_MAX, SYSCALLS_MAX); 2]);
    }

    #[test]
    fn a_connection_that_always_has_more_to_send_lets_others_have_their_turn() {
        check(1, [(Step::SendAgain, 1, SYSCALLS_MAX), (Step::SendAgain, 0, SYSCALLS_MAX)]);
    }

    #[test]
    fn sends_of_several_receives_count_together() {
        // A receive of 64 KiB is answered in three sends.
        check(30_000, [(Step::SendAgain, 6, SYSCALLS_MAX), (Step::SendAgain, 5, SYSCALLS_MAX)]);
    }
}
