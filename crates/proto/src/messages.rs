//! Shared by clients of small messages: the messages, and the order in which connections use them.

use alloc::{rc::Rc, vec::Vec};
use core::cell::Cell;

/// The messages of a thread, all of one length. They live as long as the process, as requests must.
#[derive(Clone, Copy)]
pub struct Messages {
    bytes: &'static [u8],
    message_bytes: usize,
    /// The number of places; a power of two.
    places: usize,
    /// The distance between neighbouring places.
    place_bytes: usize,
    /// How many places to advance to the next message; odd, so that all are visited.
    stride: usize,
}

impl Messages {
    const WINDOWS: usize = 4096;

    /// Far enough that a message with a few bytes lost or added differs from its neighbour.
    const WINDOW_STRIDE: usize = 1021;

    /// Few, because each may be large.
    const TABLED: usize = 8;

    /// Messages that are windows of one run of pseudo-random bytes. Neighbours differ.
    pub(crate) fn windows(message_bytes: usize) -> Self {
        let mut random = Random::new();
        let bytes: Vec<u8> = (0..Self::WINDOWS + message_bytes).map(|at| random.byte(at)).collect();
        Self {
            bytes: bytes.leak(),
            message_bytes,
            places: Self::WINDOWS,
            place_bytes: 1,
            stride: Self::WINDOW_STRIDE,
        }
    }

    /// Contiguous messages in a table. `write` appends the message of a place; all must have the length of the first.
    pub(crate) fn table(mut write: impl FnMut(&mut Vec<u8>, usize)) -> Self {
        let mut bytes = Vec::new();
        write(&mut bytes, 0);
        let message_bytes = bytes.len();
        bytes.reserve_exact((Self::TABLED - 1) * message_bytes);
        for place in 1..Self::TABLED {
            write(&mut bytes, place);
        }
        assert_eq!(bytes.len(), Self::TABLED * message_bytes, "messages of a table differ in length");
        Self {
            bytes: bytes.leak(),
            message_bytes,
            places: Self::TABLED,
            place_bytes: message_bytes,
            stride: 1,
        }
    }

    pub(crate) fn at(&self, index: usize) -> &'static [u8] {
        let place = index.wrapping_mul(self.stride) % self.places;
        &self.bytes[place * self.place_bytes..][..self.message_bytes]
    }
}

/// Which message a connection sends next, and which one its next reply must match.
///
/// Replies come in the order of requests, so two counters suffice. A clone is for another connection: it starts one
/// message further on, so that replies to the wrong connection are detected.
pub(crate) struct Turns {
    first_of_next: Rc<Cell<usize>>,
    first: usize,
    requested: usize,
    replied: usize,
}

impl Turns {
    /// The turns of the first connection.
    pub(crate) fn new() -> Self {
        Self::fresh(Rc::new(Cell::new(0)))
    }

    fn fresh(first_of_next: Rc<Cell<usize>>) -> Self {
        let first = first_of_next.get();
        first_of_next.set(first.wrapping_add(1));
        Self { first_of_next, first, requested: 0, replied: 0 }
    }

    /// The index of the next request, which is now outstanding.
    pub(crate) fn request(&mut self) -> usize {
        let index = self.first.wrapping_add(self.requested);
        self.requested = self.requested.wrapping_add(1);
        index
    }

    /// The index of the oldest outstanding request, if there is one.
    pub(crate) fn due(&self) -> Option<usize> {
        (self.replied != self.requested).then(|| self.first.wrapping_add(self.replied))
    }

    /// Records that the reply to the oldest outstanding request is complete.
    pub(crate) fn replied(&mut self) {
        self.replied = self.replied.wrapping_add(1);
    }
}

impl Clone for Turns {
    fn clone(&self) -> Self {
        Self::fresh(Rc::clone(&self.first_of_next))
    }
}

/// A source of pseudo-random bytes (xorshift64*), the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// The byte for a position, with the parity of the position. So messages at an odd distance from each other differ
    /// even if they have a single byte.
    pub(crate) fn byte(&mut self, at: usize) -> u8 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_be_bytes()[0];
        (random & !1) | (at as u8 & 1)
    }

    /// The letter, digit, `-` or `_` for a position, with the same property. Neither text nor JSON
    /// needs to escape these characters.
    pub(crate) fn letter(&mut self, at: usize) -> u8 {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        LETTERS[usize::from(self.byte(at)) % LETTERS.len()]
    }
}
