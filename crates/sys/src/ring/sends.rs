//! Sends whose bytes the ring keeps until the kernel is done with them, one implementation for each way to send.
//!
//! A bundle sends the contents of a buffer queue, and each connection has its own queue. With a shared one, a send that
//! waits for room would be overtaken, and its bytes would go to another connection.

use std::borrow::Cow;
use std::io;

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode, squeue};

use super::buffers::Entries;
use super::{Completion, Kind, POLL_FIRST, Ring, Slot};

/// How [`Ring::submit`] sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The kernel takes what it can during the call, and reports only incomplete sends.
    Silent,
    /// Each send has its completion.
    Plain,
    /// The kernel takes the bytes from the connection's queue of buffers, several in one send (Linux 6.10).
    Bundle,
    /// The kernel sends from the memory itself, and reports a second time when it no longer needs it (Linux 6.0).
    ZeroCopy,
}

/// A send whose bytes the ring keeps until the kernel has taken them all.
pub(super) struct Tracked {
    slot: Slot,
    bytes: Cow<'static, [u8]>,
    sent_bytes: usize,
    how: Sending,
    /// Notifications still to come that the kernel no longer needs the memory.
    notices: u32,
    /// [`Completion::Sent`] has been given out.
    told: bool,
}

/// The most buffers of a bundle.
const BUNDLE_BUFFERS: u16 = 64;
/// The size of such a buffer, or more if a bundle would need too many.
const BUNDLE_BUFFER_BYTES: usize = 16 * 1024;

/// The queues of bundles, by slot. Each is made at its first bundle, and kept.
#[derive(Default)]
pub(super) struct Bundles(Vec<Option<Entries>>);

impl Bundles {
    /// The queue of a connection, and its group: the slot plus one, because group 0 is for receiving. None if there is
    /// no group or memory left.
    fn of(&mut self, slot: Slot, submitter: &io_uring::Submitter<'_>) -> Option<(&mut Entries, u16)> {
        let group = u16::try_from(slot.0 + 1).ok()?;
        if self.0.len() <= slot.index() {
            self.0.resize_with(slot.index() + 1, || None);
        }
        let place = &mut self.0[slot.index()];
        if place.is_none() {
            let entries = Entries::map(BUNDLE_BUFFERS).ok()?;
            entries.register(submitter, group, 0).ok()?;
            *place = Some(entries);
        }
        place.as_mut().map(|entries| (entries, group))
    }

    /// Empties a queue after an incomplete send: the kernel does not report what is left in it, or of which buffer.
    fn reset(&mut self, slot: Slot, submitter: &io_uring::Submitter<'_>) {
        let place = &mut self.0[slot.index()];
        let group = (slot.0 + 1) as u16;
        let again = place.take().and_then(|mut entries| {
            submitter.unregister_buf_ring(group).ok()?;
            entries.clear();
            entries.register(submitter, group, 0).ok()?;
            Some(entries)
        });
        *place = again;
    }
}

impl Ring {
    /// Whether [`Completion::Sent`] follows each send of [`Ring::submit`]. Until then a connection must not get
    /// another.
    pub fn reports_sends(&self) -> bool {
        self.sending != Sending::Silent
    }

    /// Sends bytes however long it takes; [`Completion::Sent`] follows. One at a time for each connection.
    pub fn send_tracked(&mut self, slot: Slot, bytes: Cow<'static, [u8]>) {
        let key = self.track(slot, bytes, Sending::Plain);
        self.push_tracked(key);
    }

    /// Cancels a tracked send that waits for room; [`Completion::Sent`] follows.
    pub fn cancel_send(&mut self, slot: Slot) {
        let waits = |send: &Tracked| send.slot == slot && !send.told;
        let key = self.tracked.iter().find(|(_, send)| waits(send)).map(|(key, _)| key);
        if let Some(key) = key {
            self.cancel(Kind::Tracked.user_data(key as u32));
        }
    }

    /// Copies the bytes and sends them in this ring's way.
    pub(super) fn send_copy(&mut self, slot: Slot, bytes: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(bytes);
        let key = self.track(slot, Cow::Owned(copy), self.sending);
        let pushed = match self.sending {
            Sending::ZeroCopy => self.push_zero_copy(key),
            Sending::Bundle => self.push_bundle(key),
            Sending::Silent | Sending::Plain => None,
        };
        if pushed.is_none() {
            self.tracked[key].how = Sending::Plain;
            self.push_rest(key, 0);
        }
    }

    fn track(&mut self, slot: Slot, bytes: Cow<'static, [u8]>, how: Sending) -> usize {
        self.tracked.insert(Tracked { slot, bytes, sent_bytes: 0, how, notices: 0, told: false })
    }

    /// Sends the rest of a send that found no room, once the socket is writable.
    fn push_tracked(&mut self, key: usize) {
        self.push_rest(key, POLL_FIRST);
    }

    fn push_rest(&mut self, key: usize, ioprio: u16) {
        let send = &self.tracked[key];
        let (slot, rest) = (send.slot, &send.bytes[send.sent_bytes..]);
        let (address, len) = (rest.as_ptr(), rest.len());
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = self.send_entry(slot, address, len, flags, ioprio);
        self.push(entry.user_data(Kind::Tracked.user_data(key as u32)));
    }

    fn push_zero_copy(&mut self, key: usize) -> Option<()> {
        let send = &self.tracked[key];
        let (address, len) = (send.bytes.as_ptr(), send.bytes.len() as u32);
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = if self.direct {
            opcode::SendZc::new(Fixed(send.slot.0), address, len).flags(flags).build()
        } else {
            opcode::SendZc::new(Fd(send.slot.0 as i32), address, len).flags(flags).build()
        };
        self.push(entry.user_data(Kind::Tracked.user_data(key as u32)));
        Some(())
    }

    fn push_bundle(&mut self, key: usize) -> Option<()> {
        let send = &self.tracked[key];
        let (entries, group) = self.bundles.of(send.slot, &self.submitter)?;
        let most = usize::from(BUNDLE_BUFFERS);
        let part_bytes = send.bytes.len().div_ceil(most).max(BUNDLE_BUFFER_BYTES);
        for (id, part) in (0..BUNDLE_BUFFERS).zip(send.bytes.chunks(part_bytes)) {
            entries.add(part.as_ptr() as u64, part.len() as u32, id);
        }
        // As with silent sends, the kernel takes what it can during the call and never waits: some of its versions
        // mishandle a bundle that they resume.
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = if self.direct {
            opcode::SendBundle::new(Fixed(send.slot.0), group).flags(flags).build()
        } else {
            opcode::SendBundle::new(Fd(send.slot.0 as i32), group).flags(flags).build()
        };
        self.push(entry.user_data(Kind::Tracked.user_data(key as u32)));
        Some(())
    }

    pub(super) fn send_entry(
        &self,
        slot: Slot,
        address: *const u8,
        len: usize,
        flags: i32,
        ioprio: u16,
    ) -> squeue::Entry {
        let len = len as u32;
        if self.direct {
            opcode::Send::new(Fixed(slot.0), address, len).flags(flags).ioprio(ioprio).build()
        } else {
            opcode::Send::new(Fd(slot.0 as i32), address, len).flags(flags).ioprio(ioprio).build()
        }
    }

    pub(super) fn tracked_sent(&mut self, entry: &cqueue::Entry, key: usize) -> Option<Completion> {
        // Resetting the queue of an incomplete bundle calls the kernel.
        self.check_thread();
        let send = &mut self.tracked[key];
        let slot = send.slot;
        if cqueue::notif(entry.flags()) {
            send.notices -= 1;
            self.forget_if_done(key);
            return None;
        }
        let more = cqueue::more(entry.flags());
        send.notices += u32::from(more && send.how == Sending::ZeroCopy);
        let result = match (entry.result(), send.how) {
            // Some kinds of sockets do not support it, such as Unix sockets. All sockets of this ring are of one kind.
            (error, Sending::ZeroCopy) if error == -libc::EOPNOTSUPP => {
                self.sending = Sending::Plain;
                Ok(0)
            }
            (error, Sending::Bundle) if error == -libc::EAGAIN => Ok(0),
            (error, _) if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            (sent, _) => Ok(sent as usize),
        };
        let send = &mut self.tracked[key];
        send.sent_bytes += result.as_ref().unwrap_or(&0);
        if send.how == Sending::Bundle && more {
            return None;
        }
        let whole = send.sent_bytes == send.bytes.len();
        if send.how == Sending::Bundle && !whole {
            self.bundles.reset(slot, &self.submitter);
        }
        if result.is_ok() && !whole {
            send.how = Sending::Plain;
            self.push_tracked(key);
            return None;
        }
        send.told = true;
        self.forget_if_done(key);
        Some(Completion::Sent { slot, result: result.map(drop) })
    }

    /// Frees a send once neither the caller nor the kernel needs it.
    fn forget_if_done(&mut self, key: usize) {
        let send = &self.tracked[key];
        if !send.told || send.notices > 0 {
            return;
        }
        if let (Cow::Owned(mut bytes), true) = (self.tracked.remove(key).bytes, self.reports_sends()) {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
