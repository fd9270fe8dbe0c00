//! The accept loop of the tokio servers: one thread, and a task for each connection.

use std::convert::Infallible;
use std::future::Future;
use std::io;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

/// Listens on the port that is the only argument, and has `converse` serve each connection. Returns only on an error.
pub fn serve<F: Future<Output: Send> + Send + 'static>(
    converse: fn(TcpStream) -> F,
) -> io::Result<Infallible> {
    let port =
        std::env::args().nth(1).and_then(|port| port.parse::<u16>().ok()).expect("the argument is a port");
    Builder::new_current_thread().enable_io().build()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::spawn(converse(socket));
        }
    })
}
