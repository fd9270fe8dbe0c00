//! The devices of a path, and the loop that carries packets between them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use contract::{Carried, PathSpec};
use sys::clock::monotonic_ns;
use sys::epoll::{Epoll, Interest};
use sys::netns::{self, Namespace};
use sys::tun::{PACKET_BYTES_MAX, Tun};

use crate::link::Link;

/// Addresses reserved for documentation, so they belong to no real host.
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const LOAD_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// How many packets are read before due ones are delivered, so that a burst does not delay them.
const BATCH: usize = 64;
/// The name of each device in its namespace.
const DEVICE: &str = "path0";
/// The two directions. Each is also the key of the device at its start.
const TO_SERVER: usize = 0;
const TO_LOAD: usize = 1;
/// The key of the input that ends carrying.
const INPUT: u64 = 2;
/// Congestion control inside the namespaces, the best first. Others pace, or probe the path themselves. A machine with
/// another default may forbid the first in namespaces; the second is allowed everywhere.
const CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];
const CONGESTION_CONTROL_FILE: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const SYN_COOKIES_FILE: &str = "/proc/sys/net/ipv4/tcp_syncookies";
/// The field of /proc/net/dev that counts packets dropped before they were sent.
const SENT_DROPPED: usize = 11;

/// One end of a path.
pub struct End {
    /// Its network namespace.
    pub namespace: Namespace,
    /// Its address there.
    pub address: Ipv4Addr,
    device: Tun,
    /// The kernel's counters of the device.
    statistics: File,
    overrun: u64,
    congestion_control: String,
}

/// A path that is ready to carry packets.
pub struct Path {
    /// The load's end and the server's end, each at the index of its direction.
    ends: [End; 2],
    links: [Link; 2],
    epoll: Epoll,
    is_of_own_user: bool,
}

impl Path {
    /// Creates the namespaces and devices of a path. They disappear with the path and the last process in them.
    ///
    /// Afterwards the calling thread, which must be the only one of its process, is in the server's namespace.
    ///
    /// # Errors
    /// What this user may not do or this kernel lacks, by name.
    pub fn open(spec: &PathSpec) -> io::Result<Self> {
        let (namespace, is_of_own_user) =
            first_namespace().map_err(|error| named("network namespaces", &error))?;
        let load = End::open(namespace, (LOAD_ADDRESS, SERVER_ADDRESS), spec.mtu)?;
        let server = End::open(Namespace::enter_new()?, (SERVER_ADDRESS, LOAD_ADDRESS), spec.mtu)?;
        set(SYN_COOKIES_FILE, if spec.syn_cookies { "1" } else { "0" })
            .map_err(|error| named("net.ipv4.tcp_syncookies", &error))?;
        let epoll = Epoll::new()?;
        for (key, end) in [(TO_SERVER, &load), (TO_LOAD, &server)] {
            epoll.add(&end.device, key as u64, Interest::READ)?;
        }
        // Kernels built without timer slack have exact timers.
        let _ = sys::process::exact_timers();
        // Different seeds, so that the directions lose different packets.
        let links = [spec.seed, spec.seed.wrapping_add(1)].map(|seed| Link::new(spec, seed));
        Ok(Self { ends: [load, server], links, epoll, is_of_own_user })
    }

    /// Whether the namespaces belong to a user namespace of this user, without privileges in the machine's.
    pub fn is_of_own_user(&self) -> bool {
        self.is_of_own_user
    }

    /// What the kernel refuses inside the namespaces.
    pub fn lacks(&self) -> Vec<String> {
        let [wanted, _] = CONGESTION_CONTROLS;
        let found = &self.server().congestion_control;
        let lack = || format!("{wanted} as congestion control (this machine allows {found} in a namespace)");
        (found != wanted).then(lack).into_iter().collect()
    }

    /// The end of the load.
    pub fn load(&self) -> &End {
        &self.ends[TO_SERVER]
    }

    /// The end of the server.
    pub fn server(&self) -> &End {
        &self.ends[TO_LOAD]
    }

    /// Makes [`Path::carry`] return when `input` is readable.
    ///
    /// # Errors
    /// If it cannot be watched.
    pub fn watch(&self, input: &impl AsFd) -> io::Result<()> {
        self.epoll.add(input, INPUT, Interest::READ)
    }

    /// Carries packets until the watched input is readable.
    ///
    /// # Errors
    /// Those of the devices.
    pub fn carry(&mut self) -> io::Result<()> {
        let mut packet = vec![0; PACKET_BYTES_MAX];
        loop {
            let ready = self.epoll.wait(self.sleep(monotonic_ns()))?;
            for index in 0..ready {
                match self.epoll.ready(index).key {
                    INPUT => return Ok(()),
                    direction => self.take_in(direction as usize, &mut packet)?,
                }
            }
            self.deliver()?;
        }
    }

    /// Packets carried to the server, and to the load, since the last report.
    ///
    /// # Errors
    /// If the kernel's counters cannot be read.
    pub fn report(&mut self) -> io::Result<[Carried; 2]> {
        let mut overrun = [0; 2];
        for (overrun, end) in overrun.iter_mut().zip(&mut self.ends) {
            *overrun = end.overrun()?;
        }
        Ok([TO_SERVER, TO_LOAD].map(|at| Carried { overrun: overrun[at], ..self.links[at].report() }))
    }

    fn sleep(&self, now_ns: u64) -> Option<Duration> {
        let due_ns = self.links.iter().filter_map(Link::due_ns).min()?;
        Some(Duration::from_nanos(due_ns.saturating_sub(now_ns)))
    }

    fn take_in(&mut self, direction: usize, packet: &mut [u8]) -> io::Result<()> {
        for _ in 0..BATCH {
            let length = match self.ends[direction].device.read(packet) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            // IPv6 packets that the kernel sends by itself would take time on the wire.
            if packet[0] >> 4 == 4 {
                self.links[direction].send(&packet[..length], monotonic_ns());
            }
        }
        Ok(())
    }

    fn deliver(&mut self) -> io::Result<()> {
        let [load, server] = &mut self.ends;
        for (link, to) in self.links.iter_mut().zip([server, load]) {
            link.deliver(monotonic_ns(), |packet| {
                let at_ns = monotonic_ns();
                to.device.write_all(packet).map(|()| at_ns)
            })?;
        }
        Ok(())
    }
}

impl End {
    /// Creates a device in the calling thread's namespace, with these local and remote addresses.
    fn open(namespace: Namespace, (address, peer): (Ipv4Addr, Ipv4Addr), mtu: usize) -> io::Result<Self> {
        let congestion_control = choose_congestion_control()?;
        let device = Tun::open(DEVICE, address, peer, mtu).map_err(|error| named("/dev/net/tun", &error))?;
        // It keeps showing this namespace, even after the thread leaves it.
        let statistics = File::open("/proc/thread-self/net/dev")?;
        Ok(Self { namespace, address, device, statistics, overrun: 0, congestion_control })
    }

    /// How many packets the device has dropped since the last call.
    fn overrun(&mut self) -> io::Result<u64> {
        let mut text = [0; 4096];
        let length = self.statistics.read_at(&mut text, 0)?;
        let before = self.overrun;
        self.overrun = sent_dropped(&String::from_utf8_lossy(&text[..length])).unwrap_or(before);
        Ok(self.overrun - before)
    }
}

/// Sets the best congestion control allowed here, and returns its name.
fn choose_congestion_control() -> io::Result<String> {
    // If none can be set, the machine's own stays.
    let _ = CONGESTION_CONTROLS.iter().any(|name| set(CONGESTION_CONTROL_FILE, name).is_ok());
    Ok(fs::read_to_string(CONGESTION_CONTROL_FILE)?.trim().to_owned())
}

/// Packets that the device dropped, from text in the format of /proc/net/dev.
fn sent_dropped(text: &str) -> Option<u64> {
    let figures = text.lines().find_map(|line| line.trim_start().strip_prefix(DEVICE)?.strip_prefix(':'))?;
    figures.split_whitespace().nth(SENT_DROPPED)?.parse().ok()
}

/// A new namespace, and whether it needed a user namespace because this user may not create one in the machine's.
fn first_namespace() -> io::Result<(Namespace, bool)> {
    match Namespace::enter_new() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            netns::own_user_namespace()?;
            Ok((Namespace::enter_new()?, true))
        }
        result => result.map(|namespace| (namespace, false)),
    }
}

/// Writes a kernel setting, unless it already has that value.
fn set(file: &str, value: &str) -> io::Result<()> {
    if fs::read_to_string(file).is_ok_and(|text| text.trim() == value) {
        Ok(())
    } else {
        fs::write(file, value)
    }
}

fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: &str = "\
face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
   lo:    0       0    0    1    0     0          0         0     0       0    0    2    0     0       0          0
path0:  840      10    0    3    0     0          0         0   840      10    0    4    0     0       0          0
";

    #[test]
    fn packets_that_the_device_dropped_are_found_in_the_kernels_table() {
        for (text, expected) in [(DEVICES, Some(4)), ("", None), ("path0: 1 2\n", None)] {
            assert_eq!(sent_dropped(text), expected, "{text}");
        }
    }
}
