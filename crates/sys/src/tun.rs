//! TUN devices: network interfaces whose packets a program reads and writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::checked;

/// The longest IP packet.
pub const PACKET_BYTES_MAX: usize = 65_535;
/// How many packets the kernel queues for a late reader.
const QUEUE_PACKETS: libc::c_int = 10_000;

/// An interface in the calling thread's network namespace. Each read and each write is one packet; neither waits.
pub struct Tun(File);

impl Tun {
    /// Creates an interface with these local and remote addresses, and brings it and the loopback up.
    ///
    /// # Errors
    /// `NotFound` if the kernel has no TUN, `PermissionDenied` without the privilege to create interfaces.
    pub fn open(name: &str, address: Ipv4Addr, peer: Ipv4Addr, mtu: usize) -> io::Result<Self> {
        let device =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        request(&device, libc::TUNSETIFF, name, |data| data.ifru_flags = flags)?;
        let socket = control_socket()?;
        request(&socket, libc::SIOCSIFADDR, name, |data| data.ifru_addr = internet(address))?;
        request(&socket, libc::SIOCSIFDSTADDR, name, |data| data.ifru_dstaddr = internet(peer))?;
        request(&socket, libc::SIOCSIFMTU, name, |data| data.ifru_mtu = mtu as libc::c_int)?;
        // Not allowed in a user namespace, which keeps the usual 500 packets.
        let _ = request(&socket, libc::SIOCSIFTXQLEN, name, |data| data.ifru_metric = QUEUE_PACKETS);
        let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        for interface in [name, "lo"] {
            request(&socket, libc::SIOCSIFFLAGS, interface, |data| data.ifru_flags = up)?;
        }
        Ok(Self(device))
    }
}

impl Read for Tun {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Tun {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        self.0.write(packet)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A socket for interface requests.
fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no memory.
    let fd = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Changes an interface through an `ioctl`.
fn request(
    fd: &impl AsFd,
    number: libc::Ioctl,
    name: &str,
    fill: impl FnOnce(&mut libc::__c_anonymous_ifr_ifru),
) -> io::Result<()> {
    // SAFETY: a request of zeros is a valid one.
    let mut asked: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte of the name stays zero.
    for (to, &byte) in asked.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.as_bytes()) {
        *to = byte.cast_signed();
    }
    fill(&mut asked.ifr_ifru);
    // SAFETY: each of the requests above reads an `ifreq`, and TUNSETIFF writes the name into one.
    checked(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), number, &raw mut asked) }).map(drop)
}

fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let mut bytes = [0; 14];
    // Two bytes of port come before the address.
    for (to, byte) in bytes[2..6].iter_mut().zip(address.octets()) {
        *to = byte.cast_signed();
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: bytes }
}
