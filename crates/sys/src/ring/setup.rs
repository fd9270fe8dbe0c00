//! Making a ring on the kernel at hand: everything that helps, less what it does not have.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use io_uring::IoUring;
use slab::Slab;

use super::buffers::BufferRing;
use super::{Completion, GROUP, Ring, Stop, Wait};

/// When the kernel runs the work that completes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRun {
    /// Only when the thread waits: completions come in batches (Linux 6.1).
    Deferred,
    /// At the thread's next system call, without interrupting it (Linux 5.19).
    Cooperative,
    /// At once: the thread is interrupted wherever it is.
    Interrupting,
}

/// What a ring is to be made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests handed over in one call at most.
    pub entries: u32,
    /// Connections it can hold.
    pub connections_max: u32,
    /// Whether connections live in the ring's own table instead of the process's.
    pub direct: bool,
    /// Whether one receive request delivers for the life of a connection.
    pub multishot: bool,
    /// Whether one receive buffer takes many messages.
    pub incremental: bool,
    pub task_run: TaskRun,
}

/// Receive buffers that take many messages each: large, so that a message of 64 KiB lies in one; few, so that all
/// of them stay in the L2 cache.
const INCREMENTAL_BUFFERS: (u16, u32) = (8, 64 * 1024);
/// Receive buffers that take one message each.
const WHOLE_BUFFERS: (u16, u32) = (512, 2 * 1024);
/// Receive buffers of a ring that is only made to see what the kernel has.
const PROBE_BUFFERS: (u16, u32) = (1, 1024);

impl Ring {
    /// Makes a ring, leaving out what this kernel lacks, one thing after the other.
    ///
    /// # Errors
    /// Where io_uring itself is forbidden or missing, or older than Linux 5.19; the text says which.
    pub fn new(options: &Options) -> io::Result<Self> {
        Self::with_buffers(options, INCREMENTAL_BUFFERS, WHOLE_BUFFERS)
    }

    fn with_buffers(options: &Options, incremental: (u16, u32), whole: (u16, u32)) -> io::Result<Self> {
        let mut lacks = Vec::new();
        let ring: &'static mut IoUring = Box::leak(Box::new(make(options, &mut lacks)?));
        let (mut submitter, submissions, completions) = ring.split();
        if submitter.register_ring_fd().is_err() {
            lacks.push("registered ring (Linux 5.18)");
        }
        let direct = options.direct && {
            let registered = submitter.register_files_sparse(options.connections_max).is_ok();
            if !registered {
                lacks.push("direct descriptors (Linux 5.19)");
            }
            registered
        };
        let incremental = options.incremental.then_some(incremental);
        let buffers = make_buffers(&submitter, incremental, whole, &mut lacks)?;
        let mut ring = Self {
            submitter,
            submissions,
            completions,
            buffers,
            pending: VecDeque::new(),
            unsent: Vec::new(),
            unsent_fixed: Vec::new(),
            tracked: ManuallyDrop::new(Slab::new()),
            listeners: Vec::new(),
            free: (0..options.connections_max).rev().collect(),
            closing: Vec::new(),
            direct,
            multishot: options.multishot,
            lacks,
        };
        if options.multishot && !ring.receives_multishot()? {
            ring.multishot = false;
            ring.lacks.push("multishot receive (Linux 6.0)");
        }
        Ok(ring)
    }

    /// Tries a multishot receive on a pair of sockets: older kernels refuse it.
    fn receives_multishot(&mut self) -> io::Result<bool> {
        let (ours, theirs) = UnixStream::pair()?;
        // The ring does not mind what kind of stream it is; the type only says who owns the descriptor.
        let slot = self.adopt(TcpStream::from(std::os::fd::OwnedFd::from(ours)))?;
        drop(theirs);
        self.receive(slot, false);
        self.turn(&[], &[], Wait::AtMost(Duration::from_secs(1)))?;
        let works = matches!(self.next(), Some(Completion::Stopped { why: Stop::End, .. }));
        self.close(slot);
        self.turn(&[], &[], Wait::Not)?;
        Ok(works)
    }
}

/// Whether this machine can run such a ring, and what it would lack.
///
/// # Errors
/// As [`Ring::new`].
pub fn probe(options: &Options) -> io::Result<Vec<&'static str>> {
    // A ring is never torn down, so what one made only to see is made of stays until the end: as little as can be.
    let options = Options { connections_max: 8, entries: 8, ..options.clone() };
    let ring = Ring::with_buffers(&options, PROBE_BUFFERS, PROBE_BUFFERS)?;
    Ok(ring.lacks().to_vec())
}

fn make(options: &Options, lacks: &mut Vec<&'static str>) -> io::Result<IoUring> {
    let mut task_run = options.task_run;
    let mut without_array = true;
    loop {
        match build(options, task_run, without_array) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && without_array => {
                without_array = false;
                lacks.push("submission without an index array (Linux 6.6)");
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && task_run == TaskRun::Deferred => {
                task_run = TaskRun::Cooperative;
                lacks.push("deferred task work (Linux 6.1)");
            }
            Err(error) => return Err(explain(&error)),
            Ok(ring) => return Ok(ring),
        }
    }
}

fn build(options: &Options, task_run: TaskRun, without_array: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    let completions = options.connections_max.next_power_of_two().clamp(4 * options.entries, 65_536);
    builder.setup_cqsize(completions).setup_clamp().setup_submit_all();
    if without_array {
        builder.setup_no_sqarray();
    }
    match task_run {
        TaskRun::Deferred => builder.setup_single_issuer().setup_defer_taskrun(),
        TaskRun::Cooperative => builder.setup_coop_taskrun(),
        TaskRun::Interrupting => &mut builder,
    };
    builder.build(options.entries)
}

fn make_buffers(
    submitter: &io_uring::Submitter<'_>,
    incremental: Option<(u16, u32)>,
    (count, bytes): (u16, u32),
    lacks: &mut Vec<&'static str>,
) -> io::Result<BufferRing> {
    if let Some((count, bytes)) = incremental {
        let buffers = BufferRing::map(count, bytes, true)?;
        if buffers.register(submitter, GROUP).is_ok() {
            return Ok(buffers);
        }
        lacks.push("incremental receive buffers (Linux 6.12)");
    }
    let buffers = BufferRing::map(count, bytes, false)?;
    buffers.register(submitter, GROUP).map_err(|error| explain(&error))?;
    Ok(buffers)
}

fn explain(error: &io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here (seccomp, or kernel.io_uring_disabled): allow it, or use epoll"
        }
        Some(libc::ENOSYS) => "this kernel has no io_uring: use epoll",
        Some(libc::EINVAL) => "this kernel's io_uring is too old, Linux 5.19 is needed: use epoll",
        Some(libc::ENOMEM) => "no memory for io_uring: raise the limit on locked memory (ulimit -l)",
        Some(libc::EMFILE) => "no descriptor left for io_uring: raise the limit (ulimit -n)",
        _ => return io::Error::new(error.kind(), format!("io_uring cannot be set up: {error}")),
    };
    io::Error::new(error.kind(), text)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Nothing is torn down, see the module's text; listeners are kept open for the requests that name them.
        for listener in self.listeners.drain(..) {
            let _ = listener.into_raw_fd();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Slot;
    use super::*;

    const FULL: Options = Options {
        entries: 64,
        connections_max: 64,
        direct: true,
        multishot: true,
        incremental: true,
        task_run: TaskRun::Deferred,
    };

    /// Sends `message` to a ring in pieces and expects to receive it whole, whatever the ring is made of.
    fn check(options: &Options, message: &[u8]) {
        use std::io::Write;
        let mut ring = Ring::new(options).expect("this machine has io_uring");
        let listener = crate::net::listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = listener.local_addr().unwrap();
        ring.accept(listener);
        let mut client = TcpStream::connect(address).unwrap();
        let message_owned = message.to_vec();
        let sender = std::thread::spawn(move || {
            client.write_all(&message_owned).unwrap();
            client
        });
        let mut got = Vec::new();
        while got.len() < message.len() {
            ring.turn(&[], &[], Wait::AtMost(Duration::from_secs(5))).unwrap();
            while let Some(completion) = ring.next() {
                match completion {
                    Completion::Accepted(slot) => ring.receive(slot, true),
                    Completion::Received { slot, buffer, armed } => {
                        got.extend_from_slice(ring.bytes(&buffer));
                        ring.recycle(buffer);
                        if !armed {
                            ring.receive(slot, false);
                        }
                    }
                    Completion::Stopped { slot, why: Stop::NoBuffer } => ring.receive(slot, false),
                    other => panic!("not expected here: {other:?}"),
                }
            }
        }
        assert_eq!(got, message);
        drop(sender.join().unwrap());
    }

    #[test]
    fn every_kind_of_ring_receives_what_was_sent() {
        let message: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        for direct in [true, false] {
            for multishot in [true, false] {
                for incremental in [true, false] {
                    for task_run in [TaskRun::Deferred, TaskRun::Cooperative, TaskRun::Interrupting] {
                        let options = Options { direct, multishot, incremental, task_run, ..FULL };
                        check(&options, &message[..1]);
                        check(&options, &message);
                    }
                }
            }
        }
    }

    #[test]
    fn a_slot_is_an_index_that_is_used_again_after_a_close() {
        let mut ring = Ring::new(&FULL).expect("this machine has io_uring");
        let pair = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (TcpStream::from(std::os::fd::OwnedFd::from(ours)), theirs)
        };
        let (first, _theirs) = pair();
        let slot: Slot = ring.adopt(first).unwrap();
        ring.close(slot);
        ring.turn(&[], &[], Wait::Not).unwrap();
        let (second, _theirs) = pair();
        assert_eq!(ring.adopt(second).unwrap(), slot);
    }
}
