//! A client's request and the expected reply: checked and built once, then sent any number of times.
//!
//! Requests that servers could interpret differently are refused here, as the server half refuses them: a benchmark
//! should not depend on the leniency of its subject.

use alloc::{boxed::Box, format, string::String};

use super::scan::{is_field_value, is_token};
use super::{FIELDS_MAX, HEAD_BYTES_MAX, Verify, fields};

/// A client's request apart from the target, and the expected reply.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, case-sensitive: `get` differs from `GET`.
    pub method: &'a str,
    /// Names and values of fields, in the order of sending. A `Host` among them replaces the workload's.
    pub headers: &'a [(String, String)],
    /// The body. An empty one means none.
    pub body: &'a [u8],
    /// The status that a reply must have, 200 to 599; None for any 2xx.
    pub expect_status: Option<u16>,
    /// The body that a reply must have; None for that of the first reply.
    pub expect_body: Option<&'a [u8]>,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Self { method: "GET", headers: &[], body: &[], expect_status: None, expect_body: None }
    }
}

impl Request<'_> {
    /// The longest body: a generator holds it once, and the server once for each connection.
    pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// A domain name has at most 253 bytes; a port adds six.
    pub const HOST_BYTES_MAX: usize = 259;

    /// As many fields as our own servers accept, less those that are ours.
    pub const HEADERS_MAX: usize = FIELDS_MAX - 3;

    /// Whether replies have no body whatever their head says (RFC 9112, section 6.3).
    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The `Host` among the fields.
    ///
    /// # Errors
    /// One line with the field that cannot be sent.
    pub(super) fn host(&self) -> Result<Option<&str>, String> {
        let mut host = None;
        for (name, value) in self.headers {
            check_header(name, value)?;
            if name.eq_ignore_ascii_case("host") && host.replace(value.as_str()).is_some() {
                return Err("headers give Host twice: give it once".into());
            }
        }
        Ok(host)
    }

    /// The bytes of the request.
    ///
    /// # Errors
    /// One line with the invalid value, and what is valid.
    pub(super) fn compose(&self, target: &str, host: &str, keep_alive: bool) -> Result<Box<[u8]>, String> {
        self.check_method()?;
        check_host(host)?;
        let body_bytes = self.body.len();
        if body_bytes > Self::BODY_BYTES_MAX {
            return Err(format!(
                "body has {body_bytes} bytes, but a request has at most {}",
                Self::BODY_BYTES_MAX
            ));
        }
        let mut head = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", self.method);
        let others = self.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host"));
        for (name, value) in others {
            head += &format!("{name}: {value}\r\n");
        }
        // Methods that usually have content state an empty one too (RFC 9110, section 8.6).
        if body_bytes > 0 || matches!(self.method, "POST" | "PUT" | "PATCH") {
            head += &format!("Content-Length: {body_bytes}\r\n");
        }
        head += if keep_alive { "\r\n" } else { "Connection: close\r\n\r\n" };
        if self.headers.len() > Self::HEADERS_MAX || head.len() > HEAD_BYTES_MAX {
            return Err(format!(
                "the request has {} headers and a head of {} bytes, but servers take {} and \
                 {HEAD_BYTES_MAX} at most: leave some out",
                self.headers.len(),
                head.len(),
                Self::HEADERS_MAX
            ));
        }
        Ok([head.as_bytes(), self.body].concat().into_boxed_slice())
    }

    fn check_method(&self) -> Result<(), String> {
        let method = self.method;
        if method.is_empty() || !method.bytes().all(is_token) {
            return Err(format!("method {method:?} is not a method: give a word such as POST"));
        }
        match method {
            "CONNECT" => {
                Err("method CONNECT opens a tunnel, which is no request to repeat: give another".into())
            }
            "TRACE" if !self.body.is_empty() => {
                Err("method TRACE cannot have a body: give another method, or no body".into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that a reply can match the expectations.
    ///
    /// # Errors
    /// One line with the impossible expectation.
    pub(super) fn check_expectations(&self, verify: Verify) -> Result<(), String> {
        if let Some(status) = self.expect_status.filter(|status| !(200..600).contains(status)) {
            return Err(format!("expect_status is {status}, but the status of a reply is 200 to 599"));
        }
        let Some(body) = self.expect_body else { return Ok(()) };
        let why_bodiless = match self.expect_status {
            _ if self.is_head() => "to HEAD",
            Some(204) => "with status 204",
            Some(304) => "with status 304",
            _ if verify == Verify::Status => {
                return Err("expect_body is given, but only verify bytes looks at bodies".into());
            }
            _ => return Ok(()),
        };
        if body.is_empty() {
            return Ok(());
        }
        Err(format!("expect_body is given, but a reply {why_bodiless} has no body"))
    }
}

/// Fields that decide where a request ends or whether its connection stays open, and what sets them instead.
const OURS: [(&str, &str); 3] = [
    ("content-length", "it is the length of the body"),
    ("transfer-encoding", "a body is sent with its length"),
    ("connection", "keep_alive says it"),
];

/// Error messages omit values, which may be secret.
fn check_header(name: &str, value: &str) -> Result<(), String> {
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("header name {name:?} is not a name: give a word such as Accept"));
    }
    if !value.bytes().all(is_field_value) {
        return Err(format!("header {name} has a control character such as CR, LF or NUL in its value"));
    }
    match OURS.iter().find(|(ours, _)| name.eq_ignore_ascii_case(ours)) {
        Some((_, why)) => Err(format!("header {name} cannot be given: {why}")),
        None => Ok(()),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    if host.len() > Request::HOST_BYTES_MAX || !fields::is_host(host.as_bytes()) {
        return Err(format!(
            "host {host:?} is not a host: give a name or an address, such as 127.0.0.1:8080"
        ));
    }
    Ok(())
}
