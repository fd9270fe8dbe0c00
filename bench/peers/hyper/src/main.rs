//! A web server on hyper and tokio: one thread, a task a connection, HTTP/1.1, a body of one byte, and the header
//! fields that our servers send too. Its only argument is the port.

use std::convert::Infallible;
use std::io;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("the argument is a port");
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(serve(port))
}

async fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(converse(socket));
    }
}

/// Serves one connection to its end. A server of one page has nothing to say about a peer's fault.
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
