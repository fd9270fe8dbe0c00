//! What a connection has still to send.
//!
//! One request is sent from where it lies, in the protocol's table, however long it is. Several that go out together,
//! in a pipeline, are copied one behind the other, so that one system call sends them all.

/// Copied for one call at most, but for the last request: beyond that a system call costs less than what it sends.
const BATCH_BYTES: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Unsent {
    one: &'static [u8],
    /// Where it is not empty, it is all there is.
    several: Vec<u8>,
}

impl Unsent {
    /// A request is to be sent, with nothing before it.
    pub(crate) fn set(&mut self, request: &'static [u8]) {
        debug_assert!(self.is_empty(), "requests go out one after the other");
        self.one = request;
    }

    /// Another request is to be sent behind those that there are.
    pub(crate) fn push(&mut self, request: &'static [u8]) {
        self.several.extend_from_slice(self.one);
        self.several.extend_from_slice(request);
        self.one = &[];
    }

    /// Whether another request is worth a copy.
    pub(crate) fn takes_more(&self) -> bool {
        self.bytes().len() < BATCH_BYTES
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.several.is_empty() { self.one } else { &self.several }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// So many bytes have been sent.
    pub(crate) fn advance(&mut self, sent: usize) {
        if self.several.is_empty() {
            self.one = &self.one[sent..];
        } else {
            self.several.drain(..sent);
        }
    }

    /// What there is goes nowhere any more.
    pub(crate) fn clear(&mut self) {
        self.one = &[];
        self.several.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends these requests together, as many bytes at a time, and expects them to come out as they are.
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
