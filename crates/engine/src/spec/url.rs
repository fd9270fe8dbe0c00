//! The address of a server as users write it, and the socket address that it resolves to.

use std::net::{Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use contract::Address;

use crate::failure::Failure;

/// The protocol family, from the scheme of the address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scheme {
    Http,
    Tcp,
    /// A path in the file system.
    Unix,
}

/// A parsed address: only the parts that decide what is sent, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// Whether it uses TLS.
    pub(crate) tls: bool,
    /// Host and port as written.
    pub(crate) authority: String,
    /// A name or an address without brackets; or the path of a socket.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query; `/` if there is none.
    pub(crate) target: String,
}

impl Url {
    /// Parses `http://host[:port][/path][?query]`, `tcp://host:port`, the same with TLS (`https://`, `tls://`), or
    /// `unix:/path`.
    ///
    /// # Errors
    /// One line that says what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::of_path(text, path);
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!("{text:?} has a space in it: write %20 for one in a path, and no others"));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Err(incomplete(text)) };
        let (scheme, tls) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, false),
            "https" => (Scheme::Http, true),
            "tcp" => (Scheme::Tcp, false),
            "tls" => (Scheme::Tcp, true),
            _ => {
                return Err(format!("`{scheme}://` is not known: write http://, https://, tcp:// or tls://"));
            }
        };
        let word = if tls { "tls" } else { "tcp" };
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(authority_end);
        let (host, port) = split_authority(text, authority)?;
        let port = match (port, scheme) {
            (Some(port), _) => port,
            (None, Scheme::Http) if tls => 443,
            (None, Scheme::Http) => 80,
            (None, _) => return Err(format!("`{text}` has no port: write {word}://{authority}:PORT")),
        };
        let target = target.split_once('#').map_or(target, |(target, _fragment)| target);
        if scheme == Scheme::Tcp && !matches!(target, "" | "/") {
            return Err(format!("{word}:// has no path: write {word}://{authority}"));
        }
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Self { scheme, tls, authority: authority.to_owned(), host: host.to_owned(), port, target })
    }

    /// The Host header: host and port, without the interface of an address, which only means something on this machine.
    pub(crate) fn host_field(&self) -> String {
        match (self.authority.split_once('%'), self.authority.split_once(']')) {
            (Some((address, _)), Some((_, port))) => format!("{address}]{port}"),
            _ => self.authority.clone(),
        }
    }

    fn of_path(text: &str, path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Err(format!("`{text}` has no path: write it as in unix:/tmp/server.sock"));
        }
        if path.len() > UNIX_PATH_BYTES_MAX {
            let most = format!("more than {UNIX_PATH_BYTES_MAX} bytes, which no socket may have");
            return Err(format!("the path of `{text}` has {most}: take a shorter one"));
        }
        let (authority, host, target) = ("localhost".into(), path.to_owned(), "/".into());
        Ok(Self { scheme: Scheme::Unix, tls: false, authority, host, port: 0, target })
    }
}

/// The most that `sockaddr_un` holds, besides the zero byte at its end.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// What to write instead of an address without `://`.
fn incomplete(text: &str) -> String {
    let typed = |scheme: &&str| {
        let rest = text.strip_prefix(scheme)?;
        let host = rest.trim_start_matches([':', '/']);
        (host.len() < rest.len()).then(|| format!("write {scheme}://{host}"))
    };
    match ["http", "https", "tcp", "tls"].iter().find_map(typed) {
        _ if text.is_empty() => "the address is empty: write it as in http://127.0.0.1:8080/".into(),
        Some(advice) => format!("`{text}` is not complete: {advice}"),
        None => format!("`{text}` is not complete: write http://{text} or tcp://{text}"),
    }
}

/// The socket address of a server. If there are several, the first that accepts a connection, so that `localhost` works
/// whether the server listens on IPv4 or IPv6.
///
/// # Errors
/// If a name cannot be resolved.
pub(crate) fn resolve(url: &Url) -> Result<Address, Failure> {
    let Url { host, port, .. } = url;
    if url.scheme == Scheme::Unix {
        return Ok(Address(sys::net::Address::Unix(host.into())));
    }
    let addresses: Vec<SocketAddr> = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|error| Failure::work("unresolvable", unresolvable(host, &error.to_string())))?
        .collect();
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok();
    match addresses.as_slice() {
        [] => Err(Failure::work("unresolvable", unresolvable(host, "it has no address"))),
        [only] => Ok(Address((*only).into())),
        several => Ok(Address((*several.iter().find(answers).unwrap_or(&several[0])).into())),
    }
}

/// How long to wait for an address to accept before the next is tried.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

fn unresolvable(host: &str, reason: &str) -> String {
    let reason = reason.trim_start_matches("failed to lookup address information: ");
    format!("cannot find `{host}`: {reason}; check the name, or write an address such as 127.0.0.1")
}

/// Host, without the brackets of IPv6, and port.
fn split_authority<'a>(text: &str, authority: &'a str) -> Result<(&'a str, Option<u16>), String> {
    let wrong = || format!("`{text}` has no host: write it as in http://127.0.0.1:8080/");
    if authority.contains('@') {
        return Err("a user name in the address is not supported: leave out what is before the @".into());
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => split_brackets(authority, rest)?,
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if port.is_some_and(|port| port.contains(':')) {
        let advice = "write an IPv6 address in brackets, as in http://[::1]:8080/";
        return Err(format!("`{authority}` has several colons: {advice}"));
    }
    if host.is_empty() {
        return Err(wrong());
    }
    let Some(port) = port else { return Ok((host, None)) };
    match port.parse::<u16>() {
        // Rust would accept a plus sign.
        Ok(number) if number > 0 && !port.starts_with('+') => Ok((host, Some(number))),
        _ => Err(format!("`{authority}` has no valid port: write a number from 1 to 65535 after the colon")),
    }
}

/// The IPv6 address in brackets and the port. `rest` is the text after the opening bracket.
fn split_brackets<'a>(authority: &str, rest: &'a str) -> Result<(&'a str, Option<&'a str>), String> {
    let (host, after) = rest.split_once(']').unwrap_or_default();
    // The interface follows a percent sign.
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    if address.parse::<Ipv6Addr>().is_err() {
        let advice = "write it as in http://[::1]:8080/";
        return Err(format!("`{authority}` has no IPv6 address between [ and ]: {advice}"));
    }
    Ok((host, (!after.is_empty()).then(|| after.strip_prefix(':').unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        check("http://127.0.0.1:8080/", Ok((Scheme::Http, "127.0.0.1:8080", "127.0.0.1", 8080, "/")));
        check("http://localhost", Ok((Scheme::Http, "localhost", "localhost", 80, "/")));
        check("HTTP://localhost/a/b?c=d#e", Ok((Scheme::Http, "localhost", "localhost", 80, "/a/b?c=d")));
        check("http://localhost?c=d", Ok((Scheme::Http, "localhost", "localhost", 80, "/?c=d")));
        check("http://[::1]:8080/x", Ok((Scheme::Http, "[::1]:8080", "::1", 8080, "/x")));
        check("http://[::1]", Ok((Scheme::Http, "[::1]", "::1", 80, "/")));
        check("unix:/tmp/a.sock", Ok((Scheme::Unix, "localhost", "/tmp/a.sock", 0, "/")));
        check("tcp://127.0.0.1:9000", Ok((Scheme::Tcp, "127.0.0.1:9000", "127.0.0.1", 9000, "/")));
        check("http://[fe80::1%lo]:8080", Ok((Scheme::Http, "[fe80::1%lo]:8080", "fe80::1%lo", 8080, "/")));
        check("https://localhost/a", Ok((Scheme::Http, "localhost", "localhost", 443, "/a")));
        check("https://[::1]:8443", Ok((Scheme::Http, "[::1]:8443", "::1", 8443, "/")));
        check("tls://127.0.0.1:9000", Ok((Scheme::Tcp, "127.0.0.1:9000", "127.0.0.1", 9000, "/")));
    }

    #[test]
    fn an_address_that_cannot_be_used_says_what_to_write() {
        check("localhost:80", Err("write http://localhost:80 or tcp://localhost:80"));
        check("ftp://localhost/", Err("write http://, https://, tcp:// or tls://"));
        check("tls://localhost", Err("write tls://localhost:PORT"));
        check("http://", Err("has no host"));
        check("http://:80/", Err("has no host"));
        check("http://[::1/", Err("no IPv6 address between [ and ]"));
        check("http://[localhost]/", Err("no IPv6 address between [ and ]"));
        check("http://::1/", Err("write an IPv6 address in brackets"));
        check("http://127.0.0.1:80:81/", Err("has several colons"));
        check("", Err("the address is empty"));
        check("http:/localhost/", Err("write http://localhost/"));
        check("https//localhost/", Err("write https://localhost/"));
        check("tcp:localhost:9000", Err("write tcp://localhost:9000"));
        check("http://localhost/a b", Err("write %20 for one in a path"));
        check("http://localhost/a\r\nb", Err("\\r\\nb\" has a space in it"));
        check("http://localhost:+80/", Err("a number from 1 to 65535"));
        check("http://user@localhost/", Err("leave out what is before the @"));
        check("http://localhost:0/", Err("a number from 1 to 65535"));
        check("http://localhost:65536/", Err("a number from 1 to 65535"));
        check("http://localhost:/", Err("a number from 1 to 65535"));
        check("http://[::1]x/", Err("a number from 1 to 65535"));
        check("tcp://localhost", Err("write tcp://localhost:PORT"));
        check(&format!("unix:/{}", "x".repeat(107)), Err("take a shorter one"));
        check("unix:", Err("write it as in unix:/tmp/server.sock"));
        check("tcp://localhost:9000/path", Err("tcp:// has no path"));
    }

    #[test]
    fn the_host_field_names_no_interface() {
        for (url, field) in [
            ("http://[fe80::1%lo]:8080/", "[fe80::1]:8080"),
            ("http://[fe80::1%lo]/", "[fe80::1]"),
            ("http://[::1]:8080/", "[::1]:8080"),
            ("http://localhost:8080/", "localhost:8080"),
            ("unix:/tmp/a%b]c", "localhost"),
        ] {
            assert_eq!(Url::parse(url).map(|url| url.host_field()), Ok(field.into()), "{url}");
        }
    }

    type Parts<'a> = (Scheme, &'a str, &'a str, u16, &'a str);

    fn check(text: &str, expected: Result<Parts<'_>, &str>) {
        match (Url::parse(text), expected) {
            (Ok(url), Ok(parts)) => {
                assert_eq!(
                    (url.scheme, &*url.authority, &*url.host, url.port, &*url.target),
                    parts,
                    "{text}"
                );
                assert_eq!(url.tls, text.starts_with("https:") || text.starts_with("tls:"), "{text}");
            }
            (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
            (parsed, expected) => panic!("{text}: {parsed:?}, expected {expected:?}"),
        }
    }
}
