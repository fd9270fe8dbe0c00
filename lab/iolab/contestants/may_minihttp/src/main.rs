//! A web server on may_minihttp: one worker thread, a coroutine for each connection, a body of one byte, and the header
//! fields that our servers send too. Its only argument is the port.
//!
//! may_minihttp does not set TCP_NODELAY and does not expose the socket. It writes each reply in one call. Clients wait
//! for a reply before the next request, so Nagle's algorithm has no unacknowledged data to wait for.

use std::io;

use may_minihttp::{HttpServer, HttpService, Request, Response};

fn main() -> io::Result<()> {
    let port: u16 =
        std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("the argument is a port");
    may::config().set_workers(1);
    let server = HttpServer(Page).start(("127.0.0.1", port))?;
    server.join().map_err(|_| io::Error::other("the coroutine that accepts has panicked"))
}

#[derive(Clone)]
struct Page;

impl HttpService for Page {
    fn call(&mut self, _: Request, response: &mut Response) -> io::Result<()> {
        response.header("Content-Type: text/plain").body("x");
        Ok(())
    }
}
