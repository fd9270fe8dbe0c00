//! The buffer for replies: one for each worker, warm in its cache, shared by all its connections.

use alloc::vec::Vec;
use core::fmt;

use crate::http::Date;

/// Replies to send, and the date for them.
///
/// A worker lends its output to each connection in turn. It only grows to the largest batch of replies, so a warm
/// worker does not allocate.
pub struct Output {
    bytes: Vec<u8>,
    limit_bytes: usize,
    date: Date,
}

impl Output {
    /// How much a connection may append before [`crate::Next::Send`]: enough for hundreds of small replies in one
    /// syscall, small enough to stay in a core's cache.
    pub const LIMIT_BYTES: usize = 64 * 1024;

    /// An empty output. Its date is second zero until [`Self::tick`] is called.
    pub fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(Self::LIMIT_BYTES),
            limit_bytes: Self::LIMIT_BYTES,
            date: Date::at(0),
        }
    }

    /// Sets the date of replies, in seconds since 1970. Cheap unless the second changed.
    pub fn tick(&mut self, unix_s: u64) {
        self.date.tick(unix_s);
    }

    /// Appends the date.
    pub fn push_date(&mut self) {
        self.bytes.extend_from_slice(self.date.as_bytes());
    }

    /// Appends bytes. A reply is always appended whole, even beyond the limit.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Starts a connection's turn after earlier replies, and returns its offset.
    pub fn begin(&mut self) -> usize {
        self.limit_bytes = self.bytes.len() + Self::LIMIT_BYTES;
        self.bytes.len()
    }

    /// Bytes the connection may still append in this turn; 0 means [`crate::Next::Send`].
    pub fn room_bytes(&self) -> usize {
        self.limit_bytes.saturating_sub(self.bytes.len())
    }

    /// All bytes since the last [`Self::clear`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Drops the bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.limit_bytes = Self::LIMIT_BYTES;
    }
}

/// Appends formatted text, such as numbers. Never fails.
impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}
