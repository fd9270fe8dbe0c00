//! Spreading a server over threads or processes, each with its own listeners.

use std::convert::Infallible;
use std::io::{self, Write};
use std::iter;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sys::net::Listeners;
use sys::process;

use crate::counts::Counts;
use crate::{Config, WorkerKind};

/// The listeners of a worker, and where it counts their connections.
pub struct Worker {
    pub listeners: Listeners,
    pub counts: Counts,
}

/// Runs `work` once for each worker, on its own processor. Returns only when one of them fails.
///
/// # Errors
/// The first error of a worker, or of starting one.
pub(crate) fn spread(
    mut workers: Vec<Worker>,
    config: &'static Config,
    work: impl Fn(Worker) -> io::Result<Infallible> + Copy + Send + 'static,
) -> io::Result<Infallible> {
    if config.worker_kind == WorkerKind::Process {
        return supervise(workers, 1, config, work);
    }
    if workers.len() == 1 {
        return work(workers.remove(0));
    }
    let (failed, failures) = mpsc::channel();
    for (index, worker) in workers.into_iter().enumerate() {
        let failed = failed.clone();
        thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            let Err(error) = pin(index, config).and_then(|()| work(worker));
            // The receiver exists as long as the process.
            let _ = failed.send(error);
        })?;
    }
    Err(failures.recv().expect("the channel is open: this function holds a sender"))
}

fn pin(index: usize, config: &Config) -> io::Result<()> {
    let cpu = config.cpus.get(index % config.cpus.len().max(1)).copied();
    sys::cpu::pin(cpu.as_slice())
}

/// The shortest time between two starts of a process. One that fails at once must not keep a processor busy.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The interval between checks for ended processes while one waits to be restarted.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// A process that ends this many times in a row, each time within [`RESTART_PAUSE`], ends the server. Otherwise a
/// server that never runs would be measured as a slow one.
const EARLY_ENDS_MAX: u32 = 5;

/// Runs `each` child processes for each worker. This process keeps the listeners open, so that connections wait and are
/// not lost while a child is restarted. Returns only when it gives up; the children then end with this process.
///
/// # Errors
/// If a process cannot be started at first, or later ends too often.
pub(crate) fn supervise(
    workers: Vec<Worker>,
    each: usize,
    config: &'static Config,
    work: impl Fn(Worker) -> io::Result<Infallible> + Copy,
) -> io::Result<Infallible> {
    let stats = config.stats.expect("a server has statistics");
    let mut workers: Vec<Option<Worker>> = workers.into_iter().map(Some).collect();
    let mut processes = Vec::new();
    for index in (0..workers.len()).flat_map(|worker| iter::repeat_n(worker, each)) {
        processes.push(Process::new(index, start(&mut workers, index, config, work)?));
    }
    loop {
        // Records all ends before any start, so that starts do not lengthen the measured life of another process.
        if let Some((pid, status)) = next_end(&processes)? {
            if let Some(process) = processes.iter_mut().find(|process| process.pid == Some(pid)) {
                process.end(&status.to_string())?;
            }
            continue;
        }
        for process in processes.iter_mut().filter(|process| process.is_due()) {
            let begun = start(&mut workers, process.worker, config, work);
            // Set after the fork, so that it never counts time before the child existed.
            process.started = Instant::now();
            match begun {
                Ok(pid) => {
                    process.pid = Some(pid);
                    stats.restarted();
                }
                // A limit on processes or memory. There may be room again soon.
                Err(error) => process.end(&format!("it cannot be started: {error}"))?,
            }
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// The next process that has ended. None if none has and some wait to be restarted.
fn next_end(processes: &[Process]) -> io::Result<Option<(u32, ExitStatus)>> {
    if processes.iter().all(|process| process.pid.is_some()) {
        process::wait_child().map(Some)
    } else {
        process::try_wait_child()
    }
}

/// A child process of a worker.
struct Process {
    worker: usize,
    /// None while it waits to be restarted.
    pid: Option<u32>,
    started: Instant,
    /// How often in a row it has ended early.
    early_ends: u32,
}

impl Process {
    fn new(worker: usize, pid: u32) -> Self {
        Self { worker, pid: Some(pid), started: Instant::now(), early_ends: 0 }
    }

    /// Whether it has ended and may be restarted.
    fn is_due(&self) -> bool {
        self.pid.is_none() && self.started.elapsed() >= RESTART_PAUSE
    }

    /// Records that it has ended.
    ///
    /// # Errors
    /// If it has ended early too often.
    fn end(&mut self, reason: &str) -> io::Result<()> {
        self.pid = None;
        let early = self.started.elapsed() < RESTART_PAUSE;
        self.early_ends = if early { self.early_ends + 1 } else { 0 };
        if self.early_ends == EARLY_ENDS_MAX {
            let (worker, times) = (self.worker, self.early_ends);
            return Err(io::Error::other(format!(
                "worker {worker} has ended {times} times in a row soon after its start, at last with {reason}"
            )));
        }
        // Standard error may be closed. The count of restarts is kept either way.
        let _ = writeln!(io::stderr(), "worker {} ended ({reason}): starting it again", self.worker);
        Ok(())
    }
}

/// Forks a child for a worker. The child closes the listeners of other workers.
fn start(
    workers: &mut Vec<Option<Worker>>,
    index: usize,
    config: &'static Config,
    work: impl Fn(Worker) -> io::Result<Infallible>,
) -> io::Result<u32> {
    let parent = std::process::id();
    process::fork(|| {
        let alone = workers.len() == 1;
        let worker = workers[index].take().expect("only the child takes it");
        workers.clear();
        let pinned = || if alone { Ok(()) } else { pin(index, config) };
        let prepared = process::die_with_parent(parent).and_then(|()| pinned());
        let Err(error) = prepared.and_then(|()| work(worker));
        let _ = writeln!(io::stderr(), "worker {index}: {error}");
        1
    })
}
