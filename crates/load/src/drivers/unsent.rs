//! The unsent bytes of a connection.
//!
//! A single request is sent from the protocol's table without a copy, however long it is. The requests of a pipeline
//! are copied into one buffer, so that one syscall sends them all.

/// Requests are copied into one call up to this many bytes. Beyond that, another syscall costs little.
const BATCH_BYTES: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Unsent {
    one: &'static [u8],
    /// If not empty, it holds all unsent bytes and `one` holds none.
    several: Vec<u8>,
}

impl Unsent {
    /// Sets the request when nothing is unsent.
    pub(crate) fn set(&mut self, request: &'static [u8]) {
        debug_assert!(self.is_empty(), "requests go out one after the other");
        self.one = request;
    }

    /// Adds another request.
    pub(crate) fn push(&mut self, request: &'static [u8]) {
        self.several.extend_from_slice(self.one);
        self.several.extend_from_slice(request);
        self.one = &[];
    }

    /// Whether another request is worth copying.
    pub(crate) fn takes_more(&self) -> bool {
        self.bytes().len() < BATCH_BYTES
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.several.is_empty() { self.one } else { &self.several }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Removes bytes that have been sent.
    pub(crate) fn advance(&mut self, sent: usize) {
        if self.several.is_empty() {
            self.one = &self.one[sent..];
        } else {
            self.several.drain(..sent);
        }
    }

    /// Drops all bytes.
    pub(crate) fn clear(&mut self) {
        self.one = &[];
        self.several.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends these requests together, `sent` bytes at a time, and expects the same bytes in order.
    fn check(requests: &[&'static [u8]], sent: usize) {
        let mut unsent = Unsent::default();
        unsent.set(requests[0]);
        requests[1..].iter().for_each(|request| unsent.push(request));
        let mut came = Vec::new();
        while !unsent.is_empty() {
            let part = unsent.bytes().len().min(sent);
            came.extend_from_slice(&unsent.bytes()[..part]);
            unsent.advance(part);
        }
        assert_eq!(came, requests.concat(), "{sent} at a time");
    }

    #[test]
    fn requests_go_out_in_their_order_however_few_bytes_fit() {
        for sent in [1, 3, 4, 5, 100] {
            check(&[b"one"], sent);
            check(&[b"one", b"two"], sent);
            check(&[b"one", b"seven", b"x"], sent);
        }
    }

    #[test]
    fn what_is_large_is_not_copied_further() {
        const LARGE: &[u8] = &[0; BATCH_BYTES];
        let mut unsent = Unsent::default();
        unsent.set(b"small");
        assert!(unsent.takes_more());
        unsent.push(LARGE);
        assert!(!unsent.takes_more());
        unsent.clear();
        assert!(unsent.is_empty());
        unsent.set(LARGE);
        assert!(!unsent.takes_more());
        assert_eq!(unsent.bytes().as_ptr(), LARGE.as_ptr(), "it is sent from where it lies");
    }
}
