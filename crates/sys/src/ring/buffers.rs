//! Receive buffers of a ring. The kernel chooses one when bytes arrive, so idle connections hold none. To show what
//! that is worth, each connection can have its own instead.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use io_uring::types::{BufRingEntry, IOU_PBUF_RING_INC};
use io_uring::{Submitter, cqueue};

/// The size of a connection's own buffer.
const OWN_BYTES: usize = 16 * 1024;

/// The most that is received as one message.
const MESSAGE_BYTES: usize = 64 * 1024;
/// Shorter messages count as this long.
const LEAST_BYTES: usize = 1024;
/// The mean covers roughly this many messages.
const MEAN_OF: u32 = 16;

/// The bytes of one completion, in one buffer. Give it back with [`super::Ring::recycle`]: the ring loses one that is
/// dropped instead.
#[derive(Debug)]
pub struct Buffer {
    /// The ring that lent it.
    lender: u32,
    id: u32,
    start: NonNull<u8>,
    len: u32,
}

/// The receive buffers of one ring.
pub(super) struct Buffers {
    lender: u32,
    kind: Kind,
}

enum Kind {
    Chosen(BufferRing),
    Own(OwnBuffers),
}

impl Buffers {
    /// Buffers chosen by the kernel.
    pub(super) fn chosen(ring: BufferRing) -> Self {
        Self::new(Kind::Chosen(ring))
    }

    /// One buffer for each connection.
    pub(super) fn own() -> Self {
        Self::new(Kind::Own(OwnBuffers { all: Vec::new() }))
    }

    fn new(kind: Kind) -> Self {
        static LENDERS: AtomicU32 = AtomicU32::new(0);
        Self { lender: LENDERS.fetch_add(1, Ordering::Relaxed), kind }
    }

    /// Where to receive the next bytes of a connection, and how many at most. None if the kernel chooses.
    pub(super) fn ask(&mut self, slot: u32) -> Option<(*mut u8, u32)> {
        match &mut self.kind {
            Kind::Chosen(_) => None,
            Kind::Own(own) => Some((own.ask(slot), OWN_BYTES as u32)),
        }
    }

    /// Records that a receive has ended without bytes.
    pub(super) fn withdraw(&mut self, slot: u32) {
        if let Kind::Own(own) = &mut self.kind {
            own.all[slot as usize].state = State::Free;
        }
    }

    /// Records where a completion put its bytes. `id` is the buffer that it names, if any.
    pub(super) fn take(&mut self, slot: u32, id: Option<u16>, len: u32, flags: u32) -> Buffer {
        let lender = self.lender;
        match (&mut self.kind, id) {
            (Kind::Chosen(ring), Some(id)) => {
                let start = ring.take(id, len, flags);
                Buffer { lender, id: u32::from(id), start, len }
            }
            (Kind::Own(own), None) => Buffer { lender, id: slot, start: own.take(slot, len), len },
            _ => unreachable!("a completion names a buffer exactly where the kernel chooses them"),
        }
    }

    pub(super) fn bytes(&self, buffer: &Buffer) -> &[u8] {
        assert_eq!(buffer.lender, self.lender, "a buffer is used with the ring that lent it");
        // SAFETY: the range is in memory of this ring that is never freed, as `take` asserted. The kernel has finished
        // writing it, and writes it again only after this slice is recycled.
        unsafe { std::slice::from_raw_parts(buffer.start.as_ptr(), buffer.len as usize) }
    }

    /// Records how many bytes a receive delivered. `more`: the socket has more.
    pub(super) fn fill(&mut self, len: u32, more: bool) {
        if let (Kind::Chosen(ring), 1..) = (&mut self.kind, len) {
            ring.free_bytes -= if ring.incremental { len } else { ring.buffer_bytes } as usize;
            ring.message_bytes += len;
            if !more || ring.message_bytes as usize >= MESSAGE_BYTES {
                ring.mean_bytes -= ring.mean_bytes / MEAN_OF;
                ring.mean_bytes += ring.message_bytes / MEAN_OF;
                ring.message_bytes = 0;
            }
        }
    }

    /// Whether a large message fits into one buffer.
    pub(super) fn are_large(&self) -> bool {
        matches!(&self.kind, Kind::Chosen(ring) if ring.buffer_bytes as usize >= MESSAGE_BYTES)
    }

    /// How many receives the free buffers can take, given the mean message length. `whole`: each receive takes a whole
    /// message, even if it fills several buffers.
    pub(super) fn room(&self, whole: bool) -> usize {
        match &self.kind {
            Kind::Chosen(ring) if whole || self.are_large() => {
                let least_bytes = if ring.incremental { LEAST_BYTES } else { ring.buffer_bytes as usize };
                ring.free_bytes.div_ceil((ring.mean_bytes as usize).clamp(least_bytes, MESSAGE_BYTES))
            }
            Kind::Chosen(ring) => ring.free_bytes / ring.buffer_bytes as usize,
            Kind::Own(_) => usize::MAX,
        }
    }

    /// Gives the kernel the buffers returned since the last call. Not sooner: a receive that waits for bytes would take
    /// them before the connections that wait for a buffer.
    pub(super) fn publish(&self) {
        if let Kind::Chosen(ring) = &self.kind {
            ring.entries.publish();
        }
    }

    /// Returns a slice.
    pub(super) fn recycle(&mut self, buffer: Buffer) {
        assert_eq!(buffer.lender, self.lender, "a buffer goes back to the ring that lent it");
        match &mut self.kind {
            Kind::Chosen(ring) => ring.recycle(buffer.id),
            Kind::Own(own) => own.all[buffer.id as usize].state = State::Free,
        }
    }
}

/// The state of a buffer.
#[derive(Clone, Copy)]
struct Use {
    /// Bytes the kernel has filled, from the front.
    filled_bytes: u32,
    /// Completions whose bytes the caller has not given back.
    slices: u32,
    /// The kernel puts nothing more into it.
    full: bool,
}

/// A ring of buffers shared with the kernel, and their memory.
///
/// The kernel takes buffers in order and so cycles through all of the memory, which must fit into the L2 cache of a
/// core. In an *incremental* ring (Linux 6.12) one buffer takes many messages, one after the other, so a few large
/// buffers serve small and large messages alike. Otherwise each message takes a whole buffer.
pub(super) struct BufferRing {
    entries: Entries,
    memory: NonNull<u8>,
    uses: Vec<Use>,
    buffer_bytes: u32,
    /// Free bytes in all buffers that the kernel has.
    free_bytes: usize,
    /// Bytes received so far of an incomplete message.
    message_bytes: u32,
    /// The mean length of recent messages, each counted as at most [`MESSAGE_BYTES`].
    mean_bytes: u32,
    incremental: bool,
}

impl BufferRing {
    /// Maps `count` buffers (a power of two) of `buffer_bytes` each. The memory is never unmapped: requests in the
    /// kernel may refer to it as long as the ring exists, and a ring lives as long as its process.
    pub(super) fn map(count: u16, buffer_bytes: u32, incremental: bool) -> io::Result<Self> {
        let entries = Entries::map(count)?;
        let memory = map_pages(usize::from(count) * buffer_bytes as usize)?;
        let uses = vec![Use { filled_bytes: 0, slices: 0, full: false }; usize::from(count)];
        let mut ring = Self {
            entries,
            memory,
            uses,
            buffer_bytes,
            free_bytes: 0,
            message_bytes: 0,
            mean_bytes: 0,
            incremental,
        };
        (0..count).for_each(|id| ring.add(id));
        Ok(ring)
    }

    pub(super) fn register(&self, submitter: &Submitter<'_>, group: u16) -> io::Result<()> {
        let flags = if self.incremental { IOU_PBUF_RING_INC as u16 } else { 0 };
        self.entries.register(submitter, group, flags)
    }

    fn take(&mut self, id: u16, len: u32, flags: u32) -> NonNull<u8> {
        let state = &mut self.uses[usize::from(id)];
        let offset = state.filled_bytes;
        assert!(offset + len <= self.buffer_bytes, "the kernel never fills beyond a buffer");
        state.filled_bytes += len;
        state.slices += 1;
        state.full = !(self.incremental && cqueue::buffer_more(flags));
        let start = usize::from(id) * self.buffer_bytes as usize + offset as usize;
        // SAFETY: the offset is inside the mapping: there are as many buffers as uses, and the offset is within one.
        unsafe { self.memory.add(start) }
    }

    /// Returns a slice. A full buffer without slices goes back to the kernel at the next publish.
    fn recycle(&mut self, id: u32) {
        let state = &mut self.uses[id as usize];
        state.slices -= 1;
        if state.full && state.slices == 0 {
            self.add(id as u16);
        }
    }

    fn add(&mut self, id: u16) {
        self.uses[usize::from(id)] = Use { filled_bytes: 0, slices: 0, full: false };
        let address = self.memory.as_ptr() as u64 + u64::from(id) * u64::from(self.buffer_bytes);
        self.entries.push(address, self.buffer_bytes, id);
        self.free_bytes += self.buffer_bytes as usize;
    }
}

/// A queue that hands buffers to the kernel, to fill or to send.
pub(super) struct Entries {
    first: NonNull<BufRingEntry>,
    count: u16,
    tail: u16,
}

impl Entries {
    /// Maps a queue of `count` entries, a power of two. It is never unmapped.
    pub(super) fn map(count: u16) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "the kernel masks indices");
        let first = map_pages(usize::from(count) * size_of::<BufRingEntry>())?.cast();
        Ok(Self { first, count, tail: 0 })
    }

    /// Registers the queue with a ring as this buffer group.
    pub(super) fn register(&self, submitter: &Submitter<'_>, group: u16, flags: u16) -> io::Result<()> {
        let address = self.first.as_ptr() as u64;
        // SAFETY: the mapping is page-aligned and lives as long as the process. Buffers added to it stay in place for
        // as long as the kernel may use them.
        unsafe { submitter.register_buf_ring_with_flags(address, self.count, group, flags) }
    }

    /// Empties the queue, whatever the kernel has left in it. It must not be registered.
    pub(super) fn clear(&mut self) {
        self.tail = 0;
        self.publish();
    }

    /// Hands a buffer to the kernel. The queue must have a free entry, and the memory must stay in place until the
    /// kernel returns it.
    pub(super) fn add(&mut self, address: u64, len: u32, id: u16) {
        self.push(address, len, id);
        self.publish();
    }

    /// The same, but the kernel does not see the entry before [`Self::publish`].
    fn push(&mut self, address: u64, len: u32, id: u16) {
        let index = usize::from(self.tail & (self.count - 1));
        // SAFETY: the masked index is within the mapped entries, and the kernel does not read an entry before the tail
        // has passed it. The fields are set one by one, because the first entry's spare field is the tail.
        unsafe {
            let entry = self.first.add(index).as_mut();
            entry.set_addr(address);
            entry.set_len(len);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the tail is an aligned 16-bit field of the first entry, and both sides access it atomically. The
        // release store makes the entry visible first.
        unsafe {
            let tail = BufRingEntry::tail(self.first.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// A buffer for each connection, by its slot. None is ever freed: later connections reuse it.
struct OwnBuffers {
    all: Vec<Own>,
}

struct Own {
    memory: NonNull<u8>,
    state: State,
}

/// Who may access a connection's own buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// The kernel: a receive refers to it.
    Asked,
    /// The caller: it holds received bytes.
    Lent,
}

impl OwnBuffers {
    fn ask(&mut self, slot: u32) -> *mut u8 {
        let index = slot as usize;
        while self.all.len() <= index {
            let memory = NonNull::from(Box::leak(vec![0_u8; OWN_BYTES].into_boxed_slice())).cast();
            self.all.push(Own { memory, state: State::Free });
        }
        let own = &mut self.all[index];
        assert_eq!(own.state, State::Free, "a connection receives once at a time, and into a free buffer");
        own.state = State::Asked;
        own.memory.as_ptr()
    }

    fn take(&mut self, slot: u32, len: u32) -> NonNull<u8> {
        let own = &mut self.all[slot as usize];
        assert_eq!(own.state, State::Asked, "bytes come only where they were asked for");
        assert!(len as usize <= OWN_BYTES, "the kernel never fills beyond a buffer");
        own.state = State::Lent;
        own.memory
    }
}

fn map_pages(bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: a fresh anonymous mapping touches no memory that is in use.
    let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("the kernel mapped the page at address zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives messages of `message_bytes` until their mean is settled. Expects how many receives all buffers have
    /// room for, with a part of a message each and with a whole one each.
    fn check(incremental: bool, (count, buffer_bytes): (u16, u32), message_bytes: u32, expected: [usize; 2]) {
        let mut buffers = Buffers::chosen(BufferRing::map(count, buffer_bytes, incremental).unwrap());
        let all_bytes = usize::from(count) * buffer_bytes as usize;
        for _ in 0..16 * MEAN_OF {
            let mut left_bytes = message_bytes;
            while left_bytes > 0 {
                let Kind::Chosen(ring) = &mut buffers.kind else { unreachable!("they are chosen") };
                ring.free_bytes = all_bytes;
                let len = left_bytes.min(buffer_bytes);
                left_bytes -= len;
                buffers.fill(len, left_bytes > 0);
            }
        }
        let Kind::Chosen(ring) = &mut buffers.kind else { unreachable!("they are chosen") };
        ring.free_bytes = all_bytes;
        assert_eq!([false, true].map(|whole| buffers.room(whole)), expected, "{message_bytes} bytes");
    }

    #[test]
    fn small_buffers_have_room_for_one_receive_each_or_for_the_messages_that_fill_them() {
        check(false, (512, 2048), 64, [512, 512]);
        check(false, (512, 2048), 2048, [512, 512]);
        check(false, (512, 2048), 16 * 1024, [512, 64]);
        check(false, (512, 2048), 64 * 1024, [512, 16]);
        check(false, (512, 2048), 1024 * 1024, [512, 16]);
    }

    #[test]
    fn large_buffers_have_room_for_many_messages_each() {
        check(true, (8, 64 * 1024), 64, [512, 512]);
        check(true, (8, 64 * 1024), 1024, [512, 512]);
        check(true, (8, 64 * 1024), 16 * 1024, [32, 32]);
        check(true, (8, 64 * 1024), 1024 * 1024, [8, 8]);
    }
}
