//! Network namespaces: separate networks for some processes, which leave the machine's own untouched.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::checked;

/// Gets the user namespace that owns a namespace (`linux/nsfs.h`).
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// A network namespace. It lives as long as this handle, a socket or a process in it.
pub struct Namespace(File);

impl Namespace {
    /// Creates a namespace, and moves the calling thread into it.
    ///
    /// # Errors
    /// `PermissionDenied` without the privilege; see [`own_user_namespace`].
    pub fn enter_new() -> io::Result<Self> {
        // SAFETY: the call takes no memory; open sockets stay in their namespace.
        checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
        File::open("/proc/thread-self/ns/net").map(Self)
    }

    /// Its descriptor. Other processes enter `/proc/PID/fd/NUMBER`, with the PID of this one.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Makes a command start in this namespace, and receive SIGTERM when the calling thread ends. Ctrl-C ends the
    /// command as usual, even if this process blocks SIGINT.
    pub fn contain(&self, command: &mut Command) {
        let namespace = self.descriptor();
        let begin = move || {
            // SAFETY: the forked child has the descriptor open too, and no memory is touched.
            checked(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) })?;
            // SAFETY: the option takes a signal number.
            checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) })?;
            crate::process::release_interrupt()
        };
        // SAFETY: the closure only makes syscalls: it allocates nothing and takes no lock.
        unsafe { command.pre_exec(begin) };
    }
}

/// Moves the calling thread, and what it starts from now on, into the network namespace of a file. If that belongs to a
/// user namespace of this user, the process enters both, and must have no other threads.
///
/// # Errors
/// `NotFound` if its process is gone, `PermissionDenied` if it belongs to another user.
pub fn enter(path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    match set(&namespace, libc::CLONE_NEWNET) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // SAFETY: the request takes no argument, and returns a descriptor.
            let owner = checked(unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) })?;
            // SAFETY: the descriptor is new and has no other owner.
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

/// Creates a user namespace for this process, in which it may create network namespaces if the system allows that. The
/// user stays the same, so child processes gain no rights. Call it before there is a second thread.
///
/// # Errors
/// `PermissionDenied` if the system forbids it, `InvalidInput` if there are other threads.
pub fn own_user_namespace() -> io::Result<()> {
    // SAFETY: the calls take no memory.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: as above.
    checked(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
