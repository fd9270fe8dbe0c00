//! The chunked transfer coding (RFC 9112, section 7.1), decoded incrementally.

use super::fields::{Fault, bad};
use super::scan::{Scan, is_field_value, is_token};

/// The most bytes of all extensions and trailers of a body together. They mean nothing here, and without a limit a peer
/// could send them for ever.
const OVERHEAD_BYTES_MAX: u16 = 16 * 1024;

/// The hexadecimal digits of a 64-bit number.
const SIZE_DIGITS_MAX: u8 = 16;

/// The position of the decoder in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunked {
    place: Place,
    /// The size of the chunk while it is parsed, then the rest of the chunk.
    left_bytes: u64,
    overhead_bytes: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Size {
        digits: u8,
    },
    /// White space after the size or an extension, which only another extension may follow.
    Space,
    Extension(Extension),
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    Trailers(Scan),
}

/// The position in an extension (RFC 9112, section 7.1.1): after its semicolon a name, which is a token, and optionally
/// an equals sign and a value, which is a token or a quoted string. White space is only allowed around the semicolon
/// and the equals sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    BeforeName,
    Name,
    /// White space after the name, which an equals sign or another extension must follow.
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    /// After the quote that ends a string.
    Unquoted,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { place: Place::Size { digits: 0 }, left_bytes: 0, overhead_bytes: 0 }
    }

    /// Consumes bytes of the body from the front of `input`, and passes the data among them to a callback. Returns how
    /// many bytes were used, and whether the body is complete.
    pub(super) fn advance(
        &mut self,
        input: &[u8],
        mut data: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(usize, bool), Fault> {
        let mut used = 0;
        while used < input.len() {
            if self.place == Place::Data {
                let rest = &input[used..];
                let length = usize::try_from(self.left_bytes).unwrap_or(usize::MAX).min(rest.len());
                data(&rest[..length])?;
                used += length;
                self.left_bytes -= length as u64;
                if self.left_bytes == 0 {
                    self.place = Place::DataReturn;
                }
            } else {
                let whole = self.feed(input[used])?;
                used += 1;
                if whole {
                    return Ok((used, true));
                }
            }
        }
        Ok((used, false))
    }

    /// Parses a byte that is not data.
    fn feed(&mut self, byte: u8) -> Result<bool, Fault> {
        self.place = match self.place {
            Place::Size { digits } => self.size(digits, byte)?,
            Place::Space => match byte {
                b' ' | b'\t' => self.overhead(Place::Space)?,
                b';' => self.overhead(Place::Extension(Extension::BeforeName))?,
                _ => {
                    return Err(bad(
                        "white space in the line of a chunk size is not followed by an extension",
                    ));
                }
            },
            Place::Extension(place) => match place.feed(byte)? {
                Place::SizeLineFeed => Place::SizeLineFeed,
                then => self.overhead(then)?,
            },
            Place::SizeLineFeed => match (byte, self.left_bytes) {
                (b'\n', 0) => Place::Trailers(Scan::trailers()),
                (b'\n', _) => Place::Data,
                _ => return Err(bad("a chunk size is not followed by CRLF")),
            },
            Place::DataReturn if byte == b'\r' => Place::DataLineFeed,
            Place::DataLineFeed if byte == b'\n' => Place::Size { digits: 0 },
            Place::Data | Place::DataReturn | Place::DataLineFeed => {
                return Err(bad("a chunk is not followed by CRLF"));
            }
            Place::Trailers(mut scan) => {
                if scan.feed(byte)? {
                    return Ok(true);
                }
                self.overhead(Place::Trailers(scan))?
            }
        };
        Ok(false)
    }

    fn size(&mut self, digits: u8, byte: u8) -> Result<Place, Fault> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if digits == SIZE_DIGITS_MAX || self.left_bytes >= 1 << 59 {
                return Err(bad("a chunk size is beyond 2^63-1"));
            }
            // The rest of the last chunk is zero here.
            self.left_bytes = self.left_bytes << 4 | u64::from(digit);
            return Ok(Place::Size { digits: digits + 1 });
        }
        match byte {
            _ if digits == 0 => Err(bad("a chunk size is not hexadecimal")),
            b'\r' => Ok(Place::SizeLineFeed),
            b' ' | b'\t' => self.overhead(Place::Space),
            b';' => self.overhead(Place::Extension(Extension::BeforeName)),
            _ => Err(bad("a chunk size is not hexadecimal")),
        }
    }

    fn overhead(&mut self, then: Place) -> Result<Place, Fault> {
        if self.overhead_bytes == OVERHEAD_BYTES_MAX {
            return Err(bad("chunk extensions and trailers are too long"));
        }
        self.overhead_bytes += 1;
        Ok(then)
    }
}

impl Extension {
    /// The next position.
    fn feed(self, byte: u8) -> Result<Place, Fault> {
        use Extension::{AfterName, BeforeName, BeforeValue, Escaped, Name, Quoted, Unquoted, Value};
        let place = match (self, byte) {
            (BeforeName, b' ' | b'\t') => BeforeName,
            (BeforeName | Name, _) if is_token(byte) => Name,
            (BeforeName, _) => return Err(bad("the name of a chunk extension is not a token")),
            (Name | AfterName, b' ' | b'\t') => AfterName,
            (Name | AfterName, b'=') | (BeforeValue, b' ' | b'\t') => BeforeValue,
            (BeforeValue | Value, _) if is_token(byte) => Value,
            (BeforeValue, b'"') => Quoted,
            (BeforeValue, _) => {
                return Err(bad("the value of a chunk extension is neither a token nor quoted"));
            }
            (Quoted, b'"') => Unquoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if is_field_value(byte) => Quoted,
            (Quoted | Escaped, _) => return Err(bad("a chunk extension has a control character")),
            (Name | AfterName | Value | Unquoted, b';') => BeforeName,
            (Value | Unquoted, b' ' | b'\t') => return Ok(Place::Space),
            (Name | Value | Unquoted, b'\r') => return Ok(Place::SizeLineFeed),
            _ => return Err(bad("a chunk extension is followed by neither another nor CRLF")),
        };
        Ok(Place::Extension(place))
    }
}
