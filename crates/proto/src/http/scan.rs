//! A scan of a request's head that can stop at any byte and continue later.
//!
//! The parser proper starts from the beginning each time, so it only gets complete heads. The scan reads heads that
//! arrive in pieces, each byte once, and reports the first thing wrong. What it finds depends only on the bytes so far,
//! so the result is the same however the input was split. Its grammar is that of RFC 9112 without the leniencies: a
//! line ends with CRLF, nothing is folded.

use super::fields::{Fault, Status, bad};
use super::{FIELDS_MAX, TARGET_BYTES_MAX};

/// The position of the scan in a head or a trailer section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    place: Place,
    /// Bytes of the target, or of the version, so far.
    length: u16,
    fields: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    EmptyLineFeed,
    Method,
    Target,
    Version,
    /// In a version that is well-formed so far, but not 1.0 or 1.1.
    OtherVersion,
    LineFeed,
    Line,
    Name,
    Value,
    EndLineFeed,
}

const BARE_LINE_FEED: Fault = bad("a line ends with a bare LF");
const BARE_CARRIAGE_RETURN: Fault = bad("a CR is not followed by LF");
const TARGET_TOO_LONG: Fault = Fault { status: Status::UriTooLong, text: "the target is too long" };
const TOO_MANY_FIELDS: Fault = Fault { status: Status::FieldsTooLarge, text: "there are too many fields" };
const OTHER_VERSION: Fault =
    Fault { status: Status::VersionNotSupported, text: "the version is not 1.0 or 1.1" };

impl Scan {
    /// A scan of a whole head, from the first byte of its request line or the empty lines before it.
    pub(super) const fn head() -> Self {
        Self { place: Place::Start, length: 0, fields: 0 }
    }

    /// A scan of field lines, including the empty line that ends them.
    pub(super) const fn trailers() -> Self {
        Self { place: Place::Line, length: 0, fields: 0 }
    }

    /// Reads the next byte, and returns whether it ends the head.
    pub(super) fn feed(&mut self, byte: u8) -> Result<bool, Fault> {
        self.place = match self.place {
            Place::Start => match byte {
                b'\r' => Place::EmptyLineFeed,
                b'\n' => return Err(BARE_LINE_FEED),
                _ if is_token(byte) => Place::Method,
                _ => return Err(bad("the method is not a token")),
            },
            Place::EmptyLineFeed => line_feed(byte, Place::Start)?,
            Place::Method => match byte {
                b' ' => Place::Target,
                _ if is_token(byte) => Place::Method,
                _ => return Err(bad("the method is not a token")),
            },
            Place::Target => self.target(byte)?,
            Place::Version | Place::OtherVersion => self.version(byte)?,
            Place::LineFeed => line_feed(byte, Place::Line)?,
            Place::Line => self.line(byte)?,
            Place::Name => match byte {
                b':' => Place::Value,
                _ if is_token(byte) => Place::Name,
                _ => return Err(bad("a field name is not a token followed by a colon")),
            },
            Place::Value => match byte {
                b'\r' => Place::LineFeed,
                b'\n' => return Err(BARE_LINE_FEED),
                _ if is_field_value(byte) => Place::Value,
                _ => return Err(bad("a field value has a control character")),
            },
            Place::EndLineFeed => {
                line_feed(byte, Place::Start)?;
                return Ok(true);
            }
        };
        Ok(false)
    }

    /// Whether the input so far is the beginning of a method.
    pub(super) fn is_in_method(&self) -> bool {
        self.place == Place::Method
    }

    fn target(&mut self, byte: u8) -> Result<Place, Fault> {
        match byte {
            b' ' if self.length > 0 => {
                self.length = 0;
                Ok(Place::Version)
            }
            b'#' => Err(bad("the target has a fragment")),
            _ if !byte.is_ascii_graphic() => Err(bad("the target is not followed by a version")),
            _ if usize::from(self.length) == TARGET_BYTES_MAX => Err(TARGET_TOO_LONG),
            _ => {
                self.length += 1;
                Ok(Place::Target)
            }
        }
    }

    fn version(&mut self, byte: u8) -> Result<Place, Fault> {
        const NAME: &[u8] = b"HTTP/";
        const MAJOR: usize = NAME.len();
        const DOT: usize = MAJOR + 1;
        const MINOR: usize = DOT + 1;
        let place = match (usize::from(self.length), byte) {
            (at, _) if at < NAME.len() && byte == NAME[at] => self.place,
            (MAJOR, b'1') | (DOT, b'.') | (MINOR, b'0' | b'1') => self.place,
            (MAJOR | MINOR, b'0'..=b'9') => Place::OtherVersion,
            // Only now the version is known to be one digit, a dot and one digit.
            (at, b'\r') if at > MINOR && self.place == Place::OtherVersion => return Err(OTHER_VERSION),
            (at, b'\r') if at > MINOR => return Ok(Place::LineFeed),
            (at, b'\n') if at > MINOR => return Err(BARE_LINE_FEED),
            _ => return Err(bad("the version is malformed")),
        };
        self.length += 1;
        Ok(place)
    }

    fn line(&mut self, byte: u8) -> Result<Place, Fault> {
        match byte {
            b'\r' => Ok(Place::EndLineFeed),
            b'\n' => Err(BARE_LINE_FEED),
            b' ' | b'\t' => Err(bad("a line is folded, or white space comes before a field name")),
            _ if !is_token(byte) => Err(bad("a field name is not a token")),
            _ if usize::from(self.fields) == FIELDS_MAX => Err(TOO_MANY_FIELDS),
            _ => {
                self.fields += 1;
                Ok(Place::Name)
            }
        }
    }
}

/// Whether every LF of a head that the parser has accepted follows a CR. The parser accepts a bare LF, but neither a
/// bare CR nor a head that ends with anything but LF.
pub(super) fn has_clean_lines(head: &[u8]) -> bool {
    let bare = |pair: (&u8, &u8)| *pair.1 == b'\n' && *pair.0 != b'\r';
    // Without an early exit the compiler can vectorise this.
    head.first() != Some(&b'\n')
        && !head.iter().zip(head.iter().skip(1)).fold(false, |any, pair| any | bare(pair))
}

fn line_feed(byte: u8, then: Place) -> Result<Place, Fault> {
    if byte == b'\n' { Ok(then) } else { Err(BARE_CARRIAGE_RETURN) }
}

/// Whether a byte may be in a method or in the name of a field (RFC 9110, section 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a byte may be in the value of a field: no control character but the tab.
pub(super) fn is_field_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
