//! The buffers a ring receives into: chosen by the kernel when bytes arrive, so that an idle connection holds none.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::cqueue;
use io_uring::types::{BufRingEntry, IOU_PBUF_RING_INC};

/// Bytes that one completion put into one buffer. Give it back with [`super::Ring::recycle`]; one that is dropped
/// instead is lost to the ring, no worse.
#[derive(Debug)]
pub struct Buffer {
    /// The address of the memory it lies in, which only one ring has.
    memory: usize,
    id: u16,
    offset: u32,
    len: u32,
}

/// How a buffer is used up.
#[derive(Clone, Copy)]
struct Use {
    /// Bytes the kernel has filled, from the front.
    filled_bytes: u32,
    /// Completions whose bytes the caller has not given back.
    slices: u32,
    /// The kernel will put nothing more into it.
    full: bool,
}

/// A ring of buffers shared with the kernel, and the memory they lie in.
///
/// The kernel takes buffers in order, so it walks through all of the memory: it must stay within the L2 cache of
/// a core. In an *incremental* ring (Linux 6.12) one buffer takes many messages, one behind the other, so that
/// few large buffers serve small and large messages alike; otherwise each message takes a whole buffer.
pub(super) struct BufferRing {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    uses: Vec<Use>,
    buffer_bytes: u32,
    tail: u16,
    incremental: bool,
}

impl BufferRing {
    /// Maps `count` buffers (a power of two) of `buffer_bytes` each. The memory is never unmapped: the kernel may
    /// hold requests that name it for as long as the ring exists, and a ring lives as long as its process.
    pub(super) fn map(count: u16, buffer_bytes: u32, incremental: bool) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "the kernel masks indices");
        let entries = map_pages(usize::from(count) * size_of::<BufRingEntry>())?.cast();
        let memory = map_pages(usize::from(count) * buffer_bytes as usize)?;
        let uses = vec![Use { filled_bytes: 0, slices: 0, full: false }; usize::from(count)];
        let mut ring = Self { entries, memory, uses, buffer_bytes, tail: 0, incremental };
        (0..count).for_each(|id| ring.add(id));
        Ok(ring)
    }

    pub(super) fn register(&self, submitter: &io_uring::Submitter<'_>, group: u16) -> io::Result<()> {
        let flags = if self.incremental { IOU_PBUF_RING_INC as u16 } else { 0 };
        let address = self.entries.as_ptr() as u64;
        // SAFETY: both mappings live as long as the process, the entries are page-aligned and initialised, and
        // the kernel alone writes into a buffer while it is in the ring.
        unsafe { submitter.register_buf_ring_with_flags(address, self.uses.len() as u16, group, flags) }
    }

    /// Notes what a completion says it put where.
    pub(super) fn take(&mut self, id: u16, len: u32, flags: u32) -> Buffer {
        let state = &mut self.uses[usize::from(id)];
        let offset = state.filled_bytes;
        state.filled_bytes += len;
        state.slices += 1;
        state.full = !(self.incremental && cqueue::buffer_more(flags));
        Buffer { memory: self.memory.as_ptr() as usize, id, offset, len }
    }

    pub(super) fn bytes(&self, buffer: &Buffer) -> &[u8] {
        assert_eq!(
            buffer.memory,
            self.memory.as_ptr() as usize,
            "a buffer is used with the ring that lent it"
        );
        assert!(buffer.offset + buffer.len <= self.buffer_bytes, "the kernel never fills beyond a buffer");
        let start = usize::from(buffer.id) * self.buffer_bytes as usize + buffer.offset as usize;
        // SAFETY: the range lies in the mapping, as asserted. The kernel has finished writing it, and will not
        // write it again before every slice of the buffer is recycled, this one included.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(start), buffer.len as usize) }
    }

    /// Takes a slice back, and hands the buffer to the kernel again once it is full and no slice is left.
    pub(super) fn recycle(&mut self, buffer: Buffer) {
        assert_eq!(
            buffer.memory,
            self.memory.as_ptr() as usize,
            "a buffer goes back to the ring that lent it"
        );
        let state = &mut self.uses[usize::from(buffer.id)];
        state.slices -= 1;
        if state.full && state.slices == 0 {
            self.add(buffer.id);
        }
    }

    fn add(&mut self, id: u16) {
        self.uses[usize::from(id)] = Use { filled_bytes: 0, slices: 0, full: false };
        let index = usize::from(self.tail) & (self.uses.len() - 1);
        // SAFETY: the masked index is within the mapped entries, and the kernel does not read an entry before the
        // tail has passed it. The fields are set one by one: the first entry's spare field is the tail itself.
        unsafe {
            let entry = self.entries.add(index).as_mut();
            entry.set_addr(self.memory.as_ptr() as u64 + u64::from(id) * u64::from(self.buffer_bytes));
            entry.set_len(self.buffer_bytes);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail field is a 16-bit number inside the first entry, aligned, and both sides access it
        // atomically. The release makes the entry visible first.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
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
