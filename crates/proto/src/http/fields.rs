//! Header fields that decide where a message ends and whether its connection stays open, for both halves.

use core::net::Ipv6Addr;

use httparse::Header;

/// What is wrong with a message: the status for a server's reply, and the text for a client's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: Status,
    pub(super) text: &'static str,
}

/// A fault without a more specific status than [`Status::BadRequest`].
pub(super) const fn bad(text: &'static str) -> Fault {
    Fault { status: Status::BadRequest, text }
}

/// The statuses that refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    ContentTooLarge,
    UriTooLong,
    ExpectationFailed,
    FieldsTooLarge,
    NotImplemented,
    VersionNotSupported,
}

/// The relevant fields of a head.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) content_length: Option<u64>,
    pub(super) chunked: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) host: Option<&'a [u8]>,
    pub(super) expect: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Parses the fields of a head.
    ///
    /// # Errors
    /// A [`Fault`] if the end of the body or the host of the request is ambiguous.
    pub(super) fn read(headers: &[Header<'a>]) -> Result<Self, Fault> {
        let mut fields = Self::default();
        let mut codings = Codings::default();
        for header in headers {
            // Most names are ruled out by their length alone.
            match header.name.len() {
                4 if is(header, "host") => once(&mut fields.host, header.value, "Host is given twice")?,
                6 if is(header, "expect") => once(&mut fields.expect, header.value, "Expect is given twice")?,
                10 if is(header, "connection") => fields.read_connection(header.value),
                14 if is(header, "content-length") => {
                    let length = parse_length(header.value)?;
                    // Equal values could be merged, but a sender that repeats one is broken or malicious.
                    once(&mut fields.content_length, length, "Content-Length is given twice")?;
                }
                17 if is(header, "transfer-encoding") => codings.read(header.value)?,
                _ => {}
            }
        }
        if codings.given && fields.content_length.is_some() {
            return Err(bad("both Content-Length and Transfer-Encoding are given"));
        }
        fields.chunked = codings.end()?;
        Ok(fields)
    }

    fn read_connection(&mut self, value: &[u8]) {
        for option in elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// Whether a `Host` value, or the authority of a target, is a host with an optional port (RFC 3986, section 3.2). It is
/// never empty, because `http` requires a host (RFC 9110, section 4.2.1).
pub(super) fn is_host(value: &[u8]) -> bool {
    port(value).is_some()
}

/// The port after a host, empty if there is none; None if the value is not a host with an optional port.
pub(super) fn port(value: &[u8]) -> Option<&[u8]> {
    let rest = match value {
        [b'[', rest @ ..] => after_ipv6(rest)?,
        _ => after_name(value)?,
    };
    match rest {
        [] => Some(rest),
        [b':', port @ ..] if port.iter().all(u8::is_ascii_digit) => Some(port),
        _ => None,
    }
}

/// The rest after an IPv6 address and its closing bracket.
fn after_ipv6(value: &[u8]) -> Option<&[u8]> {
    let end = value.iter().position(|byte| *byte == b']')?;
    let address = &value[..end];
    // The usual address of a server under test need not be parsed for each request.
    if address != b"::1" {
        str::from_utf8(address).ok()?.parse::<Ipv6Addr>().ok()?;
    }
    Some(&value[end + 1..])
}

/// The rest after a name or an IPv4 address.
fn after_name(value: &[u8]) -> Option<&[u8]> {
    let mut rest = value;
    loop {
        rest = match rest {
            [byte, rest @ ..] if NAME_BYTES[usize::from(*byte)] => rest,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            _ => break,
        };
    }
    (rest.len() < value.len()).then_some(rest)
}

/// The characters of a name (RFC 3986, section 3.2.2) that need no escape.
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"-._~!$&'()*+,;=";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// The transfer codings of all `Transfer-Encoding` fields, in order.
#[derive(Default)]
struct Codings {
    given: bool,
    chunked: bool,
    unknown: bool,
}

impl Codings {
    fn read(&mut self, value: &[u8]) -> Result<(), Fault> {
        self.given = true;
        for coding in elements(value) {
            if self.chunked {
                return Err(bad("chunked is not the last transfer coding"));
            }
            if coding.is_empty() {
                return Err(bad("a transfer coding is empty"));
            }
            self.chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.unknown |= !self.chunked;
        }
        Ok(())
    }

    /// Whether the body is chunked.
    fn end(&self) -> Result<bool, Fault> {
        if self.unknown {
            let text = "the only transfer coding understood is chunked";
            return Err(Fault { status: Status::NotImplemented, text });
        }
        Ok(self.chunked)
    }
}

/// Digits only: no sign, no list. A length beyond 64 bits is invalid. One beyond 63 bits is too large, so all
/// implementations agree, even with signed numbers.
fn parse_length(value: &[u8]) -> Result<u64, Fault> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(bad("Content-Length is not a number"));
    }
    let length = value
        .iter()
        .try_fold(0_u64, |length, digit| length.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(bad("Content-Length is beyond 2^64-1"))?;
    if length > i64::MAX.cast_unsigned() {
        return Err(Fault { status: Status::ContentTooLarge, text: "Content-Length is beyond 2^63-1" });
    }
    Ok(length)
}

fn once<T>(place: &mut Option<T>, value: T, text: &'static str) -> Result<(), Fault> {
    if place.replace(value).is_some() { Err(bad(text)) } else { Ok(()) }
}

fn is(header: &Header<'_>, name: &str) -> bool {
    header.name.eq_ignore_ascii_case(name)
}

/// The elements of a comma-separated list, without surrounding white space.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
