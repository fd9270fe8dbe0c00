//! How a wrong body differs from the expected one, so that whoever reads of it sees why.
//!
//! Only of a wrong body is anything kept, and only where it begins to differ: right ones cost nothing.

use alloc::{format, string::String, vec::Vec};

/// What has come of a body, from shortly before its first wrong byte.
#[derive(Default)]
pub(super) struct Deviation {
    /// Where in the body it begins.
    from: usize,
    came: Vec<u8>,
}

impl Deviation {
    /// A body whose first `at` bytes are those of `expected` goes on otherwise: with `data`, or not at all.
    pub(super) fn begin(&mut self, expected: &[u8], at: usize, data: &[u8]) {
        let right = data.iter().zip(expected.get(at..).unwrap_or_default());
        let right_bytes = at + right.take_while(|(came, expected)| came == expected).count();
        // Near the front the whole front is shown, so that the words begin where they should.
        self.from = if right_bytes < SHOWN_BYTES / 2 { 0 } else { right_bytes - SHOWN_BYTES / 4 };
        self.came.clear();
        self.came.extend(expected.iter().take(at).skip(self.from));
        self.go_on(&data[self.from.saturating_sub(at)..]);
    }

    /// More of the same body has come.
    pub(super) fn go_on(&mut self, data: &[u8]) {
        let room = SHOWN_BYTES - self.came.len();
        self.came.extend_from_slice(&data[..data.len().min(room)]);
    }

    /// Both lengths and what each has at that place.
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

/// As much as says where a text comes from, and fits a line twice.
const SHOWN_BYTES: usize = 40;

fn bytes(number: usize) -> String {
    format!("{number} byte{}", if number == 1 { "" } else { "s" })
}

/// The bytes as one can read them, in quotes of their own; nothing of nothing.
fn excerpt(bytes: &[u8], goes_on: bool) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    let shown = |&byte: &u8| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '.' };
    let end = if goes_on { "…" } else { "" };
    format!(" `{}{end}`", bytes.iter().map(shown).collect::<String>())
}
