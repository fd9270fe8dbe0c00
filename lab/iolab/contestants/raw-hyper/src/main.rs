//! A web server on hyper and tokio: one thread, a task for each connection, HTTP/1.1, a body of one byte, and the
//! header fields that our servers send too. Its only argument is the port.

use std::convert::Infallible;
use std::io;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

fn main() -> io::Result<Infallible> {
    tokio_listener::serve(converse)
}

/// Serves one connection to its end. Errors are the peer's and are ignored.
async fn converse(socket: TcpStream) -> hyper::Result<()> {
    http1::Builder::new()
        .keep_alive(true)
        .pipeline_flush(true)
        .serve_connection(TokioIo::new(socket), service_fn(answer))
        .await
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"x")));
    response.headers_mut().insert(SERVER, HeaderValue::from_static("hyper"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}
