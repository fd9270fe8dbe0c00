//! How a wrong body differs from the expected one, for a message to the user.
//!
//! Only a few bytes around the first difference of a wrong body are kept: correct ones cost nothing.

use alloc::{format, string::String, vec::Vec};

/// The received part of a body, from shortly before its first wrong byte.
#[derive(Default)]
pub(super) struct Deviation {
    /// Its offset in the body.
    from: usize,
    came: Vec<u8>,
}

impl Deviation {
    /// Records a body that equals `expected` for its first `at` bytes. It continues with `data`, which differs
    /// somewhere, or ends there.
    pub(super) fn begin(&mut self, expected: &[u8], at: usize, data: &[u8]) {
        let right = data.iter().zip(expected.get(at..).unwrap_or_default());
        let right_bytes = at + right.take_while(|(came, expected)| came == expected).count();
        // A difference near the front is shown from the beginning, so that whole words are visible.
        self.from = if right_bytes < SHOWN_BYTES / 2 { 0 } else { right_bytes - SHOWN_BYTES / 4 };
        self.came.clear();
        self.came.extend(expected.iter().take(at).skip(self.from));
        self.go_on(&data[self.from.saturating_sub(at)..]);
    }

    /// Records more of the same body.
    pub(super) fn go_on(&mut self, data: &[u8]) {
        let room = SHOWN_BYTES - self.came.len();
        self.came.extend_from_slice(&data[..data.len().min(room)]);
    }

    /// Both lengths, and what each body has at that place.
    pub(super) fn text(&self, expected: &[u8], expected_is_whole: bool, came_bytes: usize) -> String {
        let place = match self.from {
            0 => String::new(),
            from => format!("; both from byte {from} on"),
        };
        let or_more = if expected_is_whole { "" } else { " or more" };
        let (expected_bytes, shown) = (expected.len(), expected.get(self.from..).unwrap_or_default());
        let shown = &shown[..shown.len().min(SHOWN_BYTES)];
        format!(
            "expected {}{or_more}{}, got {}{}{place}",
            bytes(expected_bytes),
            excerpt(shown, self.from + shown.len() < expected_bytes),
            bytes(came_bytes),
            excerpt(&self.came, self.from + self.came.len() < came_bytes),
        )
    }
}

/// Enough to recognise a text, and short enough to fit a line twice.
const SHOWN_BYTES: usize = 40;

fn bytes(number: usize) -> String {
    format!("{number} byte{}", if number == 1 { "" } else { "s" })
}

/// The bytes as readable text in quotes; empty for no bytes.
fn excerpt(bytes: &[u8], goes_on: bool) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    let shown = |&byte: &u8| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '.' };
    let end = if goes_on { "…" } else { "" };
    format!(" `{}{end}`", bytes.iter().map(shown).collect::<String>())
}
