//! A raw echo server on tokio: one thread, and for each connection a task with the plain loop of the tokio tutorials.
//! Its only argument is the port.

use std::convert::Infallible;
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn main() -> io::Result<Infallible> {
    tokio_listener::serve(echo)
}

/// Serves one connection until an error or the end of the stream.
async fn echo(mut socket: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = socket.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        socket.write_all(&buffer[..length]).await?;
    }
}

const BUFFER_BYTES: usize = 16 * 1024;
