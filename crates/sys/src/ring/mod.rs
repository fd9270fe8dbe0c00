//! io_uring(7) for stream sockets: only what a server or a load generator needs of a ring.
//!
//! The interface is safe because the ring owns all memory that the kernel may still access. Received bytes are in
//! buffers that it lends out and takes back. Bytes to send are either borrowed for the one call in which the kernel
//! copies them, or owned by the ring until it has.
//!
//! A ring belongs to the thread that made it, unless it is made to be shared. It is never torn down: it lives as long
//! as the process.

mod buffers;
mod sends;
mod setup;
mod starved;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::thread::{self, ThreadId};
use std::time::Duration;

use io_uring::types::{DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, SubmissionQueue, Submitter, cqueue, opcode, squeue};
use slab::Slab;
use socket2::Domain;

pub use self::buffers::Buffer;
use self::buffers::Buffers;
pub use self::sends::Sending;
use self::sends::{Bundles, Tracked};
pub use self::setup::{Options, Polling, TaskRun, Variant, probe};
use self::starved::Starved;
use crate::net::{Listener, Socket};

/// `IORING_RECVSEND_POLL_FIRST`: wait for readiness before the first attempt, which would find nothing.
const POLL_FIRST: u16 = 1 << 0;
/// `IORING_RECV_MULTISHOT`: one request receives until it is cancelled or fails.
const RECEIVE_MULTISHOT: u16 = 1 << 1;
/// The group of the receive buffers.
const GROUP: u16 = 0;

/// A connection of this ring: the index of a direct descriptor, or a descriptor of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// A small number that no other open connection of this ring has, usable as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bytes to send to one connection, as a range of the bytes given to [`Ring::submit`].
pub struct Send {
    pub slot: Slot,
    pub range: Range<usize>,
}

/// How long [`Ring::submit`] waits for a completion.
#[derive(Clone, Copy)]
pub enum Wait {
    /// Submit and return.
    Not,
    Forever,
    AtMost(Duration),
}

impl Wait {
    /// The same without sleeping.
    fn look(self) -> Self {
        match self {
            Self::Not => Self::Not,
            Self::Forever | Self::AtMost(_) => Self::AtMost(Duration::ZERO),
        }
    }
}

/// An event of the ring.
#[derive(Debug)]
pub enum Completion {
    /// A new connection, with no request in flight.
    Accepted(Slot),
    /// A connection was accepted and closed, because the ring's own table is full.
    Dropped,
    /// A connection could not be accepted. The ring goes on listening.
    Refused(io::Error),
    /// Bytes have arrived. `armed`: more will come without another [`Ring::receive`].
    Received { slot: Slot, buffer: Buffer, armed: bool },
    /// Receiving has stopped; the connection itself may be intact.
    Stopped { slot: Slot, why: Stop },
    /// A tracked send has completed or failed.
    Sent { slot: Slot, result: io::Result<()> },
    /// [`Ring::end_sending`] is done.
    SendingEnded(Slot),
}

/// Why receiving stopped.
#[derive(Debug)]
pub enum Stop {
    /// The peer has ended its side.
    End,
    /// [`Ring::stop_receiving`] was called.
    Asked,
    /// The connection is broken.
    Broken(io::Error),
}

/// An incomplete send: only the first `sent_bytes` of `sends[index]` were sent.
#[derive(Clone, Copy, Debug)]
pub struct Unsent {
    pub index: usize,
    pub sent_bytes: usize,
}

/// The type of a request, in the top byte of its user data; the rest is an index.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Accept,
    Receive,
    Silent,
    Fixed,
    Tracked,
    EndSending,
    Forgotten,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Accept,
        Self::Receive,
        Self::Silent,
        Self::Fixed,
        Self::Tracked,
        Self::EndSending,
        Self::Forgotten,
    ];

    fn user_data(self, index: u32) -> u64 {
        u64::from(self as u8) << 56 | u64::from(index)
    }

    fn of(user_data: u64) -> (Self, u32) {
        (Self::ALL[(user_data >> 56) as usize], user_data as u32)
    }
}

/// A ring with its buffers and its table of connections.
pub struct Ring {
    submitter: Submitter<'static>,
    submissions: SubmissionQueue<'static>,
    completions: CompletionQueue<'static>,
    buffers: Buffers,
    /// Completions taken from the kernel's queue and not yet returned.
    pending: VecDeque<cqueue::Entry>,
    /// Connections that found no free buffer. They receive again when there is one.
    starved: Starved,
    /// Connections with a pending [`Ring::stop_receiving`], whose last completion has not arrived.
    stopping: Vec<Slot>,
    /// Those of them that were starved: they get no completion.
    stopped: Vec<Slot>,
    unsent: Vec<Unsent>,
    unsent_fixed: Vec<(Slot, i32)>,
    tracked: ManuallyDrop<Slab<Tracked>>,
    /// Buffers of completed tracked sends, for reuse.
    spare: Vec<Vec<u8>>,
    bundles: Bundles,
    listeners: Vec<Socket>,
    table: Table,
    /// Free indices of the table of direct descriptors, if this side assigns them and not the kernel.
    free: Vec<u32>,
    /// Indices of this table that become free when the close requests are submitted.
    closing: Vec<u32>,
    direct: bool,
    multishot: bool,
    accept_multishot: bool,
    sending: Sending,
    /// A kernel thread takes submissions at its own pace.
    polled: bool,
    /// The only thread that may use the ring; None if it is shared.
    maker: Option<ThreadId>,
    missing_features: Vec<&'static str>,
}

/// The fill level of a ring's own table, to tell why an accept failed.
struct Table {
    slots: usize,
    /// Connections in the table. One that is being closed counts until its close request is submitted.
    taken: usize,
    /// Unread completions that report a full table.
    dropped: usize,
}

impl Table {
    /// Records the result of an accept. The kernel returns the same error for a full table and for a system-wide limit
    /// on open files. But in the second case the connection has stayed in its queue.
    fn note(&mut self, result: i32) {
        if result >= 0 {
            self.taken += 1;
        } else if result == -libc::ENFILE && self.taken >= self.slots {
            self.dropped += 1;
        }
    }
}

thread_local! {
    /// The calling thread, cached because `thread::current` costs more.
    static HERE: ThreadId = thread::current().id();
}

// SAFETY: the mappings and the memory shared with the kernel live as long as the process, and only the ring itself
// points to them. The kernel may know an unshared ring by an index of the thread that made it. In another thread that
// index names another ring, but `check_thread` keeps the ring from being used there.
unsafe impl std::marker::Send for Ring {}

impl Ring {
    /// Requested features that this kernel lacks; the ring works without them.
    pub fn missing_features(&self) -> &[&'static str] {
        &self.missing_features
    }

    /// Accepts connections of this listener for as long as the ring exists.
    ///
    /// # Errors
    /// None with a listening socket.
    pub fn accept(&mut self, listener: Listener) -> io::Result<()> {
        let listener = listener.into_socket();
        self.suit(&listener)?;
        self.listeners.push(listener);
        self.arm_accept(self.listeners.len() as u32 - 1);
        Ok(())
    }

    /// Adds a connected socket to the ring.
    ///
    /// # Errors
    /// The socket is closed if the table is full.
    ///
    /// # Panics
    /// As [`Self::submit`].
    pub fn adopt(&mut self, socket: Socket) -> io::Result<Slot> {
        self.check_thread();
        self.suit(&socket)?;
        self.place(socket)
    }

    /// Turns off multishot receives for sockets that cannot use them: when the end of a Unix stream arrives together
    /// with its last bytes, a multishot receive waits for a wake-up that has already happened (seen on Linux 6.18).
    fn suit(&mut self, socket: &Socket) -> io::Result<()> {
        if self.multishot && socket.domain()? == Domain::UNIX {
            self.multishot = false;
        }
        Ok(())
    }

    fn place(&mut self, socket: Socket) -> io::Result<Slot> {
        if !self.direct {
            return Ok(Slot(socket.into_raw_fd() as u32));
        }
        let full = || io::Error::other("the ring's table of connections is full");
        let index = self.free.pop().ok_or_else(full)?;
        match self.submitter.register_files_update(index, &[OwnedFd::from(socket).as_raw_fd()]) {
            Ok(_) => {
                self.table.taken += 1;
                Ok(Slot(index))
            }
            Err(error) => {
                self.free.push(index);
                Err(error)
            }
        }
    }

    /// Starts to receive. `fresh`: nothing can have arrived yet, so the first attempt is skipped. A connection that
    /// finds no free buffer queues behind those that wait already.
    pub fn receive(&mut self, slot: Slot, fresh: bool) {
        // If the last receive had ended by itself, the request to stop it found nothing.
        forget(&mut self.stopping, slot);
        if !fresh && self.starved.delays(slot) {
            self.starved.push(slot);
        } else {
            let how = if fresh { POLL_FIRST } else { 0 };
            self.push_receive(slot, how | if self.multishot { RECEIVE_MULTISHOT } else { 0 });
        }
    }

    fn push_receive(&mut self, slot: Slot, how: u16) {
        let own = self.buffers.ask(slot.0);
        let (address, len) = own.unwrap_or((std::ptr::null_mut(), 0));
        let entry = if self.direct {
            opcode::Recv::new(Fixed(slot.0), address, len).buf_group(GROUP).ioprio(how).build()
        } else {
            opcode::Recv::new(Fd(slot.0 as i32), address, len).buf_group(GROUP).ioprio(how).build()
        };
        let entry = if own.is_none() { entry.flags(squeue::Flags::BUFFER_SELECT) } else { entry };
        self.push(entry.user_data(Kind::Receive.user_data(slot.0)));
    }

    /// Stops a receive; [`Completion::Stopped`] follows.
    pub fn stop_receiving(&mut self, slot: Slot) {
        if self.starved.remove(slot) {
            self.stopped.push(slot);
            return;
        }
        if !self.stopping.contains(&slot) {
            self.stopping.push(slot);
        }
        self.cancel(Kind::Receive.user_data(slot.0));
    }

    /// The received bytes.
    pub fn bytes(&self, buffer: &Buffer) -> &[u8] {
        self.buffers.bytes(buffer)
    }

    /// Returns a receive buffer to the ring.
    pub fn recycle(&mut self, buffer: Buffer) {
        self.buffers.recycle(buffer);
    }

    /// Sends static bytes with the next submission. Reports nothing if all are sent at once; otherwise
    /// [`Self::unsent_fixed`] returns how many were.
    pub fn send_fixed(&mut self, slot: Slot, bytes: &'static [u8]) {
        self.push_silent(slot, bytes.as_ptr(), bytes.len(), Kind::Fixed.user_data(slot.0));
    }

    /// Ends our side of the connection; [`Completion::SendingEnded`] follows. The kernel does this in a worker thread
    /// that looks the slot up late, so do not close the connection before.
    pub fn end_sending(&mut self, slot: Slot) {
        let entry = if self.direct {
            opcode::Shutdown::new(Fixed(slot.0), libc::SHUT_WR).build()
        } else {
            opcode::Shutdown::new(Fd(slot.0 as i32), libc::SHUT_WR).build()
        };
        self.push(entry.user_data(Kind::EndSending.user_data(slot.0)));
    }

    /// Closes a connection that has no request in flight: all its completions have arrived.
    pub fn close(&mut self, slot: Slot) {
        let entry = if self.direct {
            opcode::Close::new(Fixed(slot.0)).build()
        } else {
            opcode::Close::new(Fd(slot.0 as i32)).build()
        };
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(Kind::Forgotten.user_data(0)));
        self.starved.forget(slot);
        if self.direct {
            self.closing.push(slot.0);
        }
    }

    /// Submits all queued requests and the `sends`, and waits for a completion.
    ///
    /// The sends neither wait nor report success: on return, the kernel has copied what fits into the sockets, and
    /// [`Self::unsent`] lists incomplete ones. At most one send for each connection. If the ring [reports
    /// sends](Self::reports_sends), it copies the bytes instead.
    ///
    /// # Errors
    /// If the ring itself is broken.
    ///
    /// # Panics
    /// If called in a thread that did not make the ring, unless it is shared.
    pub fn submit(&mut self, bytes: &[u8], sends: &[Send], wait: Wait) -> io::Result<()> {
        // First, so that no borrowed bytes stay in the queue after a panic.
        self.check_thread();
        for (index, send) in sends.iter().enumerate() {
            let part = &bytes[send.range.clone()];
            if self.reports_sends() {
                self.send_copy(send.slot, part);
            } else {
                self.push_silent(send.slot, part.as_ptr(), part.len(), Kind::Silent.user_data(index as u32));
            }
        }
        self.receive_again();
        let waits = self.pending.is_empty() && self.stopped.is_empty() && self.starved.is_empty();
        self.enter(if waits { wait } else { wait.look() })
    }

    /// Receives again for connections that found no buffer, as many as there is room for now.
    fn receive_again(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        // One receive each: that costs less than a multishot receive if there is something to receive already. If it
        // takes several buffers, a multishot receive costs less; it stops when the buffers run out, or at 33.
        let several = !self.buffers.are_large() || self.starved.has_much();
        let how = if self.multishot && several { RECEIVE_MULTISHOT } else { 0 };
        for _ in 0..self.buffers.room(how == RECEIVE_MULTISHOT) {
            let Some(slot) = self.starved.ask() else { break };
            self.push_receive(slot, how);
        }
    }

    /// Completions that [`Self::next`] can return without another submission.
    pub fn ready(&self) -> usize {
        self.pending.len() + self.stopped.len()
    }

    /// The next incomplete send of the last [`Self::submit`]. Call it before the bytes change.
    pub fn unsent(&mut self) -> Option<Unsent> {
        self.unsent.pop()
    }

    /// The next incomplete fixed send: how many of its bytes were sent, or the error.
    pub fn unsent_fixed(&mut self) -> Option<(Slot, io::Result<usize>)> {
        let (slot, result) = self.unsent_fixed.pop()?;
        Some((
            slot,
            if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) },
        ))
    }

    /// The next completion, in order of arrival.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would borrow the ring that its items are used on"
    )]
    pub fn next(&mut self) -> Option<Completion> {
        while let Some(entry) = self.pending.pop_front() {
            let (kind, index) = Kind::of(entry.user_data());
            let completion = match kind {
                Kind::Accept => Some(self.accepted(&entry, index)),
                Kind::Receive => Some(self.received(&entry, Slot(index))),
                Kind::Tracked => self.tracked_sent(&entry, index as usize),
                Kind::EndSending => Some(Completion::SendingEnded(Slot(index))),
                Kind::Silent | Kind::Fixed | Kind::Forgotten => None,
            };
            if completion.is_some() {
                return completion;
            }
        }
        // Last, because earlier bytes may have been pending.
        self.stopped.pop().map(|slot| Completion::Stopped { slot, why: Stop::Asked })
    }

    fn cancel(&mut self, user_data: u64) {
        let entry = opcode::AsyncCancel::new(user_data).build();
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(Kind::Forgotten.user_data(0)));
    }

    fn accepted(&mut self, entry: &cqueue::Entry, listener: u32) -> Completion {
        if !cqueue::more(entry.flags()) {
            self.arm_accept(listener);
        }
        match entry.result() {
            error if error == -libc::ENFILE && self.table.dropped > 0 => {
                self.table.dropped -= 1;
                Completion::Dropped
            }
            error if error < 0 => Completion::Refused(io::Error::from_raw_os_error(-error)),
            index => Completion::Accepted(Slot(index as u32)),
        }
    }

    fn received(&mut self, entry: &cqueue::Entry, slot: Slot) -> Completion {
        let armed = cqueue::more(entry.flags());
        let why = match entry.result() {
            len if len > 0 => {
                let id = cqueue::buffer_select(entry.flags());
                let buffer = self.buffers.take(slot.0, id, len as u32, entry.flags());
                return Completion::Received { slot, buffer, armed };
            }
            0 => Stop::End,
            error if error == -libc::ECANCELED || error == -libc::ENOBUFS => Stop::Asked,
            error => Stop::Broken(io::Error::from_raw_os_error(-error)),
        };
        self.buffers.withdraw(slot.0);
        Completion::Stopped { slot, why }
    }

    fn arm_accept(&mut self, index: u32) {
        let listener = Fd(self.listeners[index as usize].as_raw_fd());
        // A direct descriptor is in no table that an exec could leak, and the kernel rejects the flag for it.
        let flags = if self.direct { 0 } else { libc::SOCK_CLOEXEC };
        let entry = if self.accept_multishot {
            opcode::AcceptMulti::new(listener).allocate_file_index(self.direct).flags(flags).build()
        } else {
            let anywhere = self.direct.then(DestinationSlot::auto_target);
            let nobody = std::ptr::null_mut();
            opcode::Accept::new(listener, nobody, nobody.cast()).file_index(anywhere).flags(flags).build()
        };
        self.push(entry.user_data(Kind::Accept.user_data(index)));
    }

    fn push_silent(&mut self, slot: Slot, address: *const u8, len: usize, user_data: u64) {
        // MSG_DONTWAIT keeps the kernel from parking the send. MSG_WAITALL makes a short send count as failed, so it is
        // reported although success is not.
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = self.send_entry(slot, address, len, flags, 0);
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(user_data));
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: what the entry refers to outlives its use. Buffers of the ring are never unmapped; tracked and
            // fixed bytes live until their completion or for ever; borrowed bytes are only pushed by `submit`, which
            // does not return before the kernel has taken them.
            if unsafe { self.submissions.push(&entry) }.is_ok() {
                return;
            }
            self.check_thread();
            self.enter(Wait::Not).expect("a ring that has worked goes on working");
            if self.polled {
                // If this fails, the next iteration handles it.
                let _ = self.submitter.squeue_wait();
            }
        }
    }

    /// Must precede every call into the kernel.
    fn check_thread(&self) {
        let here = || HERE.with(|here| *here);
        let own = self.maker.is_none_or(|maker| maker == here());
        assert!(own, "a ring that is not shared is for the thread that made it");
    }

    /// Submits the queue, waits, and collects completions.
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let mut wait = wait;
        self.buffers.publish();
        loop {
            // The first makes the submissions visible. The second returns the space of completions already read;
            // otherwise the kernel counts them and does not wait.
            self.submissions.sync();
            self.completions.sync();
            if self.polled && !self.completions.is_empty() {
                wait = Wait::Not;
            }
            let result = match wait {
                Wait::Not => self.submitter.submit(),
                Wait::Forever => self.submitter.submit_and_wait(1),
                Wait::AtMost(Duration::ZERO) if !self.polled => self.submit_and_look(),
                Wait::AtMost(time) => {
                    let time = Timespec::from(time);
                    self.submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
                }
            };
            self.submissions.sync();
            self.collect();
            match result {
                Err(error) if !is_passing(&error) => {
                    // Borrowed bytes must not stay in the queue.
                    assert!(self.submissions.is_empty(), "io_uring takes no more requests: {error}");
                    return Err(error);
                }
                _ if self.submissions.is_empty() && !self.submissions.cq_overflow() => {
                    self.closed();
                    return Ok(());
                }
                // The kernel thread takes them later, and has no borrowed bytes: this kind of ring copies them.
                _ if self.polled && !self.submissions.cq_overflow() => return Ok(()),
                // The queue was full: the kernel keeps further completions until it has room.
                _ => wait = Wait::Not,
            }
        }
    }

    /// Submits the queue and lets the kernel post completions, without waiting. A timeout of zero would still sleep.
    fn submit_and_look(&self) -> io::Result<usize> {
        const GETEVENTS: u32 = 1;
        let count = self.submissions.len() as u32;
        let no_mask = None::<&libc::sigset_t>;
        // SAFETY: there is no signal mask, and whatever the entries name is valid, as for every other submission.
        unsafe { self.submitter.enter(count, 0, GETEVENTS, no_mask) }
    }

    /// Frees the table entries of connections whose close requests have been submitted.
    fn closed(&mut self) {
        self.table.taken -= self.closing.len();
        if self.listeners.is_empty() {
            self.free.append(&mut self.closing);
        } else {
            self.closing.clear();
        }
    }

    fn collect(&mut self) {
        self.completions.sync();
        for entry in &mut self.completions {
            let (kind, index) = Kind::of(entry.user_data());
            // EAGAIN means that the socket is full and took nothing. After another error nothing can be sent at all.
            let result = if entry.result() == -libc::EAGAIN { 0 } else { entry.result() };
            match kind {
                Kind::Silent => {
                    let sent_bytes = result.max(0) as usize;
                    self.unsent.push(Unsent { index: index as usize, sent_bytes });
                }
                Kind::Fixed => self.unsent_fixed.push((Slot(index), result)),
                Kind::Forgotten => {}
                Kind::Accept => {
                    if self.direct {
                        self.table.note(result);
                    }
                    self.pending.push_back(entry);
                }
                Kind::Receive => {
                    let slot = Slot(index);
                    let is_last = !cqueue::more(entry.flags());
                    let is_stopping = is_last && forget(&mut self.stopping, slot);
                    if result == -libc::ENOBUFS && !is_stopping {
                        self.starved.found_none(slot);
                        continue;
                    }
                    let len = result.max(0) as u32;
                    let more = cqueue::sock_nonempty(entry.flags());
                    self.starved.received(slot, len as usize, more, is_last);
                    self.buffers.fill(len, more);
                    self.pending.push_back(entry);
                }
                Kind::Tracked | Kind::EndSending => self.pending.push_back(entry),
            }
        }
    }
}

/// Removes a connection from a list, and returns whether it was there.
fn forget(slots: &mut Vec<Slot>, slot: Slot) -> bool {
    let place = slots.iter().position(|&listed| listed == slot);
    place.is_some_and(|place| slots.swap_remove(place) == slot)
}

/// Errors of `enter` that only mean: read the completions and continue.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN))
}
