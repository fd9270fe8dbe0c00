//! An echo server on monoio, one thread, with the best ring settings that monoio allows: SINGLE_ISSUER,
//! DEFER_TASKRUN and COOP_TASKRUN. It never falls back to epoll, because the ring is what it measures. Its only
//! argument is the port.

use std::io;

use io_uring::IoUring;
use monoio::io::{AsyncReadRent as _, AsyncWriteRentExt as _};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, RuntimeBuilder};

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("the argument is a port");
    let mut ring = IoUring::builder();
    ring.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
    RuntimeBuilder::<IoUringDriver>::new().uring_builder(ring).build()?.block_on(serve(port))
}

async fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        monoio::spawn(echo(socket));
    }
}

/// Serves one connection until an error or the end of the stream. The kernel owns the buffer during a call and
/// returns it with the result.
async fn echo(mut socket: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let (received, filled) = socket.read(buffer).await;
        if received? == 0 {
            return Ok(());
        }
        let (sent, returned) = socket.write_all(filled).await;
        sent?;
        buffer = returned;
    }
}

const BUFFER_BYTES: usize = 16 * 1024;
