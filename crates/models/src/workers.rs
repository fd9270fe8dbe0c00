//! Spreading a server over threads, one listener each.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use crate::Config;

/// Runs `work` once for each listener, in a thread of its own on a processor of its own, and returns only when
/// one of them fails.
///
/// # Errors
/// The first that a worker returns, or that starting one causes.
pub(crate) fn spread(
    mut listeners: Vec<TcpListener>,
    config: &'static Config,
    work: impl Fn(TcpListener) -> io::Result<Infallible> + Copy + Send + 'static,
) -> io::Result<Infallible> {
    if listeners.len() == 1 {
        return work(listeners.remove(0));
    }
    let (failed, failures) = mpsc::channel();
    for (index, listener) in listeners.into_iter().enumerate() {
        let failed = failed.clone();
        let cpus = Vec::from_iter(config.cpus.get(index % config.cpus.len().max(1)).copied());
        thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            let Err(error) = sys::cpu::pin(&cpus).and_then(|()| work(listener));
            // The receiver is there for as long as the process lives.
            let _ = failed.send(error);
        })?;
    }
    Err(failures.recv().expect("the channel is open: this function holds a sender"))
}
