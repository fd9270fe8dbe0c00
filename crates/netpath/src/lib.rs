//! A network path with a delay, a rate, a queue and loss, on one machine.
//!
//! Two network namespaces with a TUN device each, and one thread that carries packets between them. Both ends use the
//! kernel's own TCP, so the handshake, the backlog and its retries are real; a proxy would hide them. [`Link`] is one
//! direction without I/O or a clock; [`Path`] is the devices and the thread.
//!
//! Packets are untrusted bytes, but [`Link`] only uses their length, and [`Path`] the version in the first byte, so
//! there is no parser to fuzz.

#![forbid(unsafe_code)]

mod carrier;
mod link;

pub use self::carrier::{End, Path};
pub use self::link::Link;
