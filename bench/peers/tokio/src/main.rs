//! A raw echo server on tokio: one thread, a task a connection, and in it the plain loop of the tokio tutorials.
//! Its only argument is the port.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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
        tokio::spawn(echo(socket));
    }
}

/// Holds one conversation. An error ends it, as the end of the stream does.
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
