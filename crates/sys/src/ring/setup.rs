//! Making a ring with the useful features that this kernel has.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode};
use slab::Slab;

use super::buffers::{BufferRing, Buffers};
use super::{Bundles, Completion, GROUP, Ring, Sending, Starved, Stop, Table, Wait};
use crate::net::Socket;

/// When the kernel runs the work that completes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRun {
    /// Only when the thread waits: completions come in batches (Linux 6.1).
    Deferred,
    /// At the thread's next syscall, without interrupting it (Linux 5.19).
    Cooperative,
    /// At once: the thread is interrupted wherever it is.
    Interrupting,
}

/// What to make a ring of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most requests submitted in one call.
    pub entries: u32,
    /// The most connections.
    pub connections_max: u32,
    /// Whether connections live in the ring's own table instead of the process's.
    pub direct: bool,
    /// Whether one receive request serves a connection for life.
    pub multishot: bool,
    /// Whether one receive buffer takes many messages.
    pub incremental: bool,
    pub task_run: TaskRun,
}

/// A ring without some of the useful features, or with one that seldom helps, to show what each is worth.
#[derive(Clone, Debug)]
pub struct Variant {
    pub options: Options,
    /// Whether one request accepts all connections of a listener.
    pub accept_multishot: bool,
    /// Whether each connection receives into its own buffer, instead of one that the kernel chooses when bytes arrive.
    /// Then each receive is for one message, regardless of the options.
    pub own_buffers: bool,
    pub sending: Sending,
    /// Whether a kernel thread polls for submissions, so that they need no syscall. Then completions come at once,
    /// regardless of the options. No send is silent, because the time at which that thread takes it is unknown.
    pub polling: Option<Polling>,
    /// Whether the kernel finds the ring by an index of the thread instead of a descriptor.
    pub registered: bool,
    /// Whether several threads use it, one at a time. Then it is not registered and task work is not deferred, because
    /// both need a single thread.
    pub shared: bool,
}

/// A kernel thread that polls for submissions.
#[derive(Clone, Copy, Debug)]
pub struct Polling {
    /// How long it polls without finding any before it sleeps and must be woken.
    pub idle_ms: u32,
    /// The processor it keeps busy; None leaves it to those of the thread that makes the ring.
    pub cpu: Option<u32>,
}

impl From<&Options> for Variant {
    /// With all useful features that the options allow.
    fn from(options: &Options) -> Self {
        Self {
            options: options.clone(),
            accept_multishot: true,
            own_buffers: false,
            sending: Sending::Silent,
            polling: None,
            registered: true,
            shared: false,
        }
    }
}

impl From<&Self> for Variant {
    fn from(variant: &Self) -> Self {
        variant.clone()
    }
}

impl Variant {
    /// Resolves contradictions, as the fields describe.
    fn settled(mut self) -> Self {
        if self.own_buffers {
            self.options.multishot = false;
        }
        if self.polling.is_some() {
            self.options.task_run = TaskRun::Interrupting;
            if self.sending == Sending::Silent {
                self.sending = Sending::Plain;
            }
        }
        if self.shared {
            self.registered = false;
            if self.options.task_run == TaskRun::Deferred {
                self.options.task_run = TaskRun::Cooperative;
            }
        }
        self
    }
}

/// Receive buffers that take many messages each: large enough for a message of 64 KiB, and few enough to stay in the L2
/// cache.
const INCREMENTAL_BUFFERS: (u16, u32) = (8, 64 * 1024);
/// Receive buffers that take one message each.
const WHOLE_BUFFERS: (u16, u32) = (512, 2 * 1024);
/// Receive buffers of a ring that only probes the kernel.
const PROBE_BUFFERS: (u16, u32) = (1, 1024);

impl Ring {
    /// Makes a ring without the features that this kernel lacks.
    ///
    /// # Errors
    /// If io_uring is forbidden or missing, or the kernel is older than Linux 5.19. The text says which.
    pub fn new(variant: impl Into<Variant>) -> io::Result<Self> {
        Self::with_buffers(&variant.into().settled(), INCREMENTAL_BUFFERS, WHOLE_BUFFERS)
    }

    fn with_buffers(variant: &Variant, incremental: (u16, u32), whole: (u16, u32)) -> io::Result<Self> {
        let options = &variant.options;
        let mut missing_features = Vec::new();
        let ring: &'static mut IoUring = Box::leak(Box::new(make(variant, &mut missing_features)?));
        let bundles = ring.params().is_feature_recvsend_bundle();
        let (mut submitter, submissions, completions) = ring.split();
        if variant.registered && submitter.register_ring_fd().is_err() {
            missing_features.push("registered ring (Linux 5.18)");
        }
        let direct = options.direct && {
            let registered = submitter.register_files_sparse(options.connections_max).is_ok();
            if !registered {
                missing_features.push("direct descriptors (Linux 5.19)");
            }
            registered
        };
        let sending = find_sending(variant.sending, &submitter, bundles, &mut missing_features);
        let buffers = if variant.own_buffers {
            Buffers::own()
        } else {
            let incremental = options.incremental.then_some(incremental);
            Buffers::chosen(make_buffers(&submitter, incremental, whole, &mut missing_features)?)
        };
        let mut ring = Self {
            submitter,
            submissions,
            completions,
            buffers,
            pending: VecDeque::new(),
            starved: Starved::default(),
            stopping: Vec::new(),
            stopped: Vec::new(),
            unsent: Vec::new(),
            unsent_fixed: Vec::new(),
            tracked: ManuallyDrop::new(Slab::new()),
            spare: Vec::new(),
            bundles: Bundles::default(),
            listeners: Vec::new(),
            free: (0..options.connections_max).rev().collect(),
            closing: Vec::new(),
            maker: (!variant.shared).then(|| thread::current().id()),
            table: Table { slots: options.connections_max as usize, taken: 0, dropped: 0 },
            direct,
            multishot: options.multishot,
            accept_multishot: variant.accept_multishot,
            sending,
            polled: variant.polling.is_some(),
            missing_features,
        };
        if options.multishot && !ring.receives_multishot()? {
            ring.multishot = false;
            ring.missing_features.push("multishot receive (Linux 6.0)");
        }
        Ok(ring)
    }

    /// Tries a multishot receive on a pair of sockets, because older kernels refuse it.
    fn receives_multishot(&mut self) -> io::Result<bool> {
        let (ours, theirs) = UnixStream::pair()?;
        // Any kind of stream works; the type only says who owns the descriptor.
        let slot = self.place(Socket::from(std::os::fd::OwnedFd::from(ours)))?;
        drop(theirs);
        self.receive(slot, false);
        self.submit(&[], &[], Wait::AtMost(Duration::from_secs(1)))?;
        let works = matches!(self.next(), Some(Completion::Stopped { why: Stop::End, .. }));
        self.close(slot);
        self.submit(&[], &[], Wait::Not)?;
        Ok(works)
    }
}

/// Whether this machine can run such a ring, and which features it would lack.
///
/// # Errors
/// As [`Ring::new`].
pub fn probe(variant: impl Into<Variant>) -> io::Result<Vec<&'static str>> {
    let mut variant = variant.into().settled();
    // As small as possible: a ring is never torn down, so its resources stay until the process ends.
    variant.options = Options { connections_max: 8, entries: 8, ..variant.options };
    let ring = Ring::with_buffers(&variant, PROBE_BUFFERS, PROBE_BUFFERS)?;
    Ok(ring.missing_features().to_vec())
}

fn make(variant: &Variant, missing_features: &mut Vec<&'static str>) -> io::Result<IoUring> {
    let mut task_run = variant.options.task_run;
    let mut without_array = true;
    loop {
        match build(variant, task_run, without_array) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && without_array => {
                without_array = false;
                missing_features.push("submission without an index array (Linux 6.6)");
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && task_run == TaskRun::Deferred => {
                task_run = TaskRun::Cooperative;
                missing_features.push("deferred task work (Linux 6.1)");
            }
            Err(error) => return Err(explain(&error)),
            Ok(ring) => return Ok(ring),
        }
    }
}

fn build(variant: &Variant, task_run: TaskRun, without_array: bool) -> io::Result<IoUring> {
    let options = &variant.options;
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
    if let Some(Polling { idle_ms, cpu }) = variant.polling {
        builder.setup_sqpoll(idle_ms);
        if let Some(cpu) = cpu {
            builder.setup_sqpoll_cpu(cpu);
        }
    }
    builder.build(options.entries)
}

/// The requested way to send if the kernel supports it, otherwise a plain one.
fn find_sending(
    wanted: Sending,
    submitter: &io_uring::Submitter<'_>,
    bundles: bool,
    missing_features: &mut Vec<&'static str>,
) -> Sending {
    let mut probe = Probe::new();
    let missing = match wanted {
        Sending::Bundle if !bundles => "bundled sends (Linux 6.10)",
        Sending::ZeroCopy
            if submitter.register_probe(&mut probe).is_err() || !probe.is_supported(opcode::SendZc::CODE) =>
        {
            "zero-copy sends (Linux 6.0)"
        }
        other => return other,
    };
    missing_features.push(missing);
    Sending::Plain
}

fn make_buffers(
    submitter: &io_uring::Submitter<'_>,
    incremental: Option<(u16, u32)>,
    (count, bytes): (u16, u32),
    missing_features: &mut Vec<&'static str>,
) -> io::Result<BufferRing> {
    if let Some((count, bytes)) = incremental {
        let buffers = BufferRing::map(count, bytes, true)?;
        if buffers.register(submitter, GROUP).is_ok() {
            return Ok(buffers);
        }
        missing_features.push("incremental receive buffers (Linux 6.12)");
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
        // Nothing is torn down, see the module's text. Listeners stay open for the requests that refer to them.
        for listener in self.listeners.drain(..) {
            let _ = listener.into_raw_fd();
        }
    }
}

#[cfg(test)]
mod tests;
