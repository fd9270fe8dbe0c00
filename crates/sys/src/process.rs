//! Processes and signals: reaping children, and ending programs together with their parent.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::checked;

/// Runs `child` in a forked process that has only the calling thread, and exits when it returns.
///
/// What `child` captured is dropped in this process too: each process has its own copy. `child` must not wait for other
/// threads of this process, or for a lock that one of them may hold: they do not exist in the child.
///
/// The child exits with the number that `child` returns, or with 101, as after any Rust panic. SIGTERM ends it even if
/// [`hold_termination`] blocks it in this process. SIGINT does not: the terminal sends it to all processes, and the
/// first of them decides what to do.
///
/// Returns the child's PID.
///
/// # Errors
/// `WouldBlock` at a limit on processes, `OutOfMemory` without memory for the page tables.
pub fn fork(child: impl FnOnce() -> i32) -> io::Result<u32> {
    // SAFETY: the child continues with one thread and what glibc keeps usable after a fork, its allocator included. It
    // never returns into the parent's code.
    let pid = checked(unsafe { libc::fork() })?;
    if pid == 0 {
        // It cannot fail with a valid signal number.
        let _ = mask(libc::SIG_UNBLOCK, &[libc::SIGTERM]);
        // A panic must not unwind into the parent's code.
        exit_now(catch_unwind(AssertUnwindSafe(child)).unwrap_or(PANIC_CODE));
    }
    Ok(pid.cast_unsigned())
}

/// The exit code of a Rust program after a panic.
const PANIC_CODE: i32 = 101;

/// Exits at once, without running destructors or flushing buffers that the parent also holds.
fn exit_now(code: i32) -> ! {
    // SAFETY: the call has no preconditions and does not return.
    unsafe { libc::_exit(code) }
}

/// Waits until a child has ended, reaps it, and returns its PID and exit status.
///
/// # Errors
/// If there is no child.
pub fn wait_child() -> io::Result<(u32, ExitStatus)> {
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    let pid = checked(unsafe { libc::waitpid(-1, &raw mut status, 0) })?;
    Ok((pid.cast_unsigned(), ExitStatus::from_raw(status)))
}

/// Reaps a child that has ended, as [`wait_child`], without waiting. None if no child has ended or there is none.
///
/// # Errors
/// None that can occur here.
pub fn try_wait_child() -> io::Result<Option<(u32, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    match checked(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
        Ok(0) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        other => other.map(|pid| Some((pid.cast_unsigned(), ExitStatus::from_raw(status)))),
    }
}

/// Sets `flag` on SIGINT, SIGTERM, or SIGHUP (unless that is ignored already, as under `nohup`). The second signal ends
/// the process, unless it is SIGHUP: a closing terminal sends several.
///
/// # Errors
/// None with valid signal numbers.
pub fn on_terminate(flag: &'static AtomicBool) -> io::Result<()> {
    TERMINATE.store(ptr::from_ref(flag).cast_mut(), Ordering::Release);
    handle(libc::SIGINT, raise_flag)?;
    handle(libc::SIGTERM, raise_flag)?;
    if is_ignored(libc::SIGHUP)? { Ok(()) } else { handle(libc::SIGHUP, raise_flag) }
}

static TERMINATE: AtomicPtr<AtomicBool> = AtomicPtr::new(ptr::null_mut());

extern "C" fn raise_flag(signal: libc::c_int) {
    // SAFETY: the pointer is null or came from the `'static` reference given to `on_terminate`.
    let Some(flag) = (unsafe { TERMINATE.load(Ordering::Acquire).as_ref() }) else { return };
    if flag.swap(true, Ordering::Relaxed) && signal != libc::SIGHUP {
        exit_now(130);
    }
}

/// Sends SIGINT to a child that has not been reaped yet.
///
/// # Errors
/// If it has ended and its PID is free.
pub fn interrupt(child: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers and touches no memory.
    checked(unsafe { libc::kill(child.cast_signed(), libc::SIGINT) }).map(drop)
}

/// Blocks SIGINT and SIGTERM for this thread and those it starts later: [`wait_for_termination`] takes them.
///
/// # Errors
/// None with valid signal numbers.
pub fn hold_termination() -> io::Result<()> {
    mask(libc::SIG_BLOCK, &TERMINATION)
}

/// Waits for SIGINT or SIGTERM. Call [`hold_termination`] first.
pub fn wait_for_termination() {
    let (signals, mut signal) = (set_of(&TERMINATION), 0);
    // SAFETY: both are valid, one for the read and one for the write. The call fails only for an invalid set.
    unsafe { libc::sigwait(&raw const signals, &raw mut signal) };
}

/// Blocks SIGINT for this thread and those it starts later, so that the command being run decides what to do.
/// [`crate::netns::Namespace::contain`] unblocks it there.
///
/// # Errors
/// None with a valid signal number.
pub fn hold_interrupt() -> io::Result<()> {
    mask(libc::SIG_BLOCK, &[libc::SIGINT])
}

pub(crate) fn release_interrupt() -> io::Result<()> {
    mask(libc::SIG_UNBLOCK, &[libc::SIGINT])
}

const TERMINATION: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Blocks or unblocks signals for the calling thread, depending on `how`.
fn mask(how: libc::c_int, signals: &[libc::c_int]) -> io::Result<()> {
    let signals = set_of(signals);
    // SAFETY: `signals` is valid for the read, and a null pointer skips the former mask.
    match unsafe { libc::pthread_sigmask(how, &raw const signals, ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: all zeroes is a valid set, and the calls write only to it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Makes the kernel kill this process when the thread that started it ends.
///
/// # Errors
/// If that thread has ended already.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: the option takes a signal number and touches no memory.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    if std::os::unix::process::parent_id() == parent {
        Ok(())
    } else {
        Err(io::Error::other("the process that started this one is gone"))
    }
}

/// Gives the calling thread its own descriptor table, a copy of the shared one. The kernel then looks descriptors up
/// without reference counting in every socket syscall, and each such thread may open as many descriptors as the limit
/// allows. Threads started later share the table of the thread that starts them.
///
/// Call it before the thread owns descriptors that other threads should close, and pass none to another thread
/// afterwards: the number means something else there, and a copy here keeps open what is closed there.
///
/// # Errors
/// If there is no memory for the table.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: the call takes flags and touches no memory.
    checked(unsafe { libc::unshare(libc::CLONE_FILES) }).map(drop)
}

/// Turns off the usual 50 µs of timer slack for the calling thread.
///
/// # Errors
/// Kernels built without timer slack refuse it.
pub fn exact_timers() -> io::Result<()> {
    // SAFETY: the option takes a number of nanoseconds and touches no memory.
    checked(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) }).map(drop)
}

/// The peak resident set of this program, in bytes; 0 without /proc.
///
/// Not from `getrusage`: its figure survives an exec and may be the previous program's.
pub fn rss_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

/// Time the calling thread was runnable without a processor, in nanoseconds; 0 if the kernel does not report it.
pub fn thread_run_delay_ns() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

/// How many descriptors this process may have open.
pub fn descriptors_max() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the write and for the read after it.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        // Raising the soft limit to the hard one needs no privilege; if it fails, the old limit is reported.
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Whether the process inherited this signal as ignored.
fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: all zeroes is a valid action, to be overwritten.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` is valid for the write, and no new action is given.
    checked(unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) })?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // SAFETY: all zeroes is an empty mask and no flags; without SA_RESTART a blocking call returns EINTR.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // SAFETY: the handlers only touch atomics or nothing at all, so they may run at any instruction.
    checked(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }).map(drop)
}
