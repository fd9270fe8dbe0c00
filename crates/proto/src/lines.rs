//! Lines that a server finds and sends back: the part of it that two protocols share.

use crate::Next;

/// How far the unfinished line at the front of the input has been searched for its end.
///
/// What has been searched is not searched again, or a long line in small pieces would cost the square of its
/// length.
#[derive(Default)]
pub(crate) struct Lines {
    searched_bytes: usize,
}

impl Lines {
    /// How many bytes at the front of `input` are whole lines, as many as there is room for, and what to do when
    /// they have been sent back. A line ends with `end`, whose last byte is LF, and has at most `line_bytes_max`
    /// bytes with it: at a longer one, it is to close.
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

    /// The length of the line at the front of `input` with its end, if that has come.
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
