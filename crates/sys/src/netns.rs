//! Network namespaces: networks of their own for some processes, which touch nothing of the machine's.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::checked;

/// Asks a namespace for the user namespace that it belongs to (`linux/nsfs.h`).
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// A network namespace, which lives as long as this handle, a socket or a process in it.
pub struct Namespace(File);

impl Namespace {
    /// Makes a namespace, and moves the calling thread into it.
    ///
    /// # Errors
    /// `PermissionDenied` without the right to; see [`own_user_namespace`].
    pub fn enter_new() -> io::Result<Self> {
        // SAFETY: the call takes no memory; sockets that are open stay where they are.
        checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
        File::open("/proc/thread-self/ns/net").map(Self)
    }

    /// The number of its descriptor. Other processes enter `/proc/PID/fd/NUMBER`, where PID is that of this one.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Has a command run in this namespace, and be asked to end when the calling thread ends. Ctrl-C ends it as usual,
    /// also where this process holds that back.
    pub fn contain(&self, command: &mut Command) {
        let namespace = self.descriptor();
        let begin = move || {
            // SAFETY: the descriptor is open in the copy of this process, too, and no memory is touched.
            checked(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) })?;
            // SAFETY: the option takes a signal number.
            checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) })?;
            crate::process::release_interrupt()
        };
        // SAFETY: the closure makes syscalls alone: it allocates nothing and takes no lock.
        unsafe { command.pre_exec(begin) };
    }
}

/// Moves the calling thread, and what it starts from now on, into a network namespace, given by its file. Where that
/// belongs to a user namespace of this user, the process goes into both: it must have no other threads then.
///
/// # Errors
/// `NotFound` where its process is gone, `PermissionDenied` where it is another user's.
pub fn enter(path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    match set(&namespace, libc::CLONE_NEWNET) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // SAFETY: the request takes no argument, and returns a descriptor.
            let owner = checked(unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) })?;
            // SAFETY: it is new and belongs to nobody else.
            set(&unsafe { File::from_raw_fd(owner) }, libc::CLONE_NEWUSER)?;
            set(&namespace, libc::CLONE_NEWNET)
        }
        result => result,
    }
}

fn set(namespace: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no memory.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), kind) }).map(drop)
}

/// Makes a user namespace for this process, as far as the system lets its user: there it may make network namespaces.
/// It stays the user it is, so what it starts has no more rights than before. Call it before there is a second thread.
///
/// # Errors
/// `PermissionDenied` where the system forbids it, `InvalidInput` if there are other threads.
pub fn own_user_namespace() -> io::Result<()> {
    // SAFETY: the calls take no memory.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: the same.
    checked(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
