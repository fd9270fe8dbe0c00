//! Finding complete lines in the input: shared by the servers of two protocols.

use crate::Next;

/// How far the incomplete line at the front of the input has been searched for its end.
///
/// These bytes are not searched again: otherwise a long line in small pieces would take quadratic time.
#[derive(Default)]
pub(crate) struct Lines {
    searched_bytes: usize,
}

impl Lines {
    /// The length of the complete lines at the front of `input` for which there is room, and what to do after sending
    /// them back. A line ends with `end`, whose last byte is LF, and has at most `line_bytes_max` bytes including it: a
    /// longer one closes the connection.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        room_bytes: usize,
        end: &[u8],
        line_bytes_max: usize,
    ) -> (usize, Next) {
        let mut used = 0;
        while used < input.len() {
            if used >= room_bytes {
                return (used, Next::Send);
            }
            let line = &input[used..];
            let Some(length) = self.line_bytes(line, end) else {
                return (used, if line.len() < line_bytes_max { Next::Receive } else { Next::Close });
            };
            if length > line_bytes_max {
                return (used, Next::Close);
            }
            used += length;
        }
        (used, Next::Receive)
    }

    /// The length of the line at the front of `input`, including its end, if that has arrived.
    fn line_bytes(&mut self, input: &[u8], end: &[u8]) -> Option<usize> {
        while let Some(found) = memchr::memchr(b'\n', &input[self.searched_bytes..]) {
            let length = self.searched_bytes + found + 1;
            self.searched_bytes = length;
            if input[..length].ends_with(end) {
                self.searched_bytes = 0;
                return Some(length);
            }
        }
        self.searched_bytes = input.len();
        None
    }
}
