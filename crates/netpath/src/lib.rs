//! A network path with a delay, a rate, a queue and loss, on one machine.
//!
//! Two network namespaces, a TUN device in each, and one thread that carries packets from one to the other. Both ends
//! are the kernel's own TCP, so the handshake, the backlog and its retries are real; a proxy would hide them.
//! [`Link`] is one direction without I/O or a clock; [`Path`] is the devices and the thread.
//!
//! A packet is bytes from outside. [`Link`] looks at its length alone, and [`Path`] at the version in its first byte,
//! so there is no parser here to be fuzzed.

#![forbid(unsafe_code)]

mod carrier;
mod link;

pub use self::carrier::{End, Path};
pub use self::link::Link;
