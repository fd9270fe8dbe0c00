//! An even spread of connections over the sockets that share a port.
//!
//! By default the kernel picks a socket by a hash of the two addresses, so fifty connections rarely split into
//! twenty-five for each of two workers. Instead, the kernel runs a short program for each new connection, which picks
//! the sockets in turn.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::checked;
use crate::net::Listener;

/// Makes the kernel assign new connections to the sockets of a port in turn, in the order they were opened. `any` is
/// one of the `count` sockets that share it.
///
/// # Errors
/// If this process may not load programs into the kernel (it takes CAP_BPF, or `unprivileged_bpf_disabled` set to 0).
/// The port then keeps the kernel's own choice.
pub fn in_turn(any: &Listener, count: u32) -> io::Result<()> {
    let counter = create_counter()?;
    let program = load(&instructions(&counter, count))?;
    let fd = program.as_raw_fd();
    let (value, length) = ((&raw const fd).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    let socket = any.as_fd().as_raw_fd();
    // SAFETY: the option takes a descriptor, which `value` points to.
    checked(unsafe {
        libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, value, length)
    })
    .map(drop)
}

const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_SOCKET_FILTER: u32 = 1;
const MAP_LOOKUP: i32 = 1;
const PSEUDO_MAP_FD: u8 = 1;
const ATOMIC_FETCH_ADD: i32 = 0x01;

/// An eBPF instruction: opcode, two registers of four bits, an offset and a constant.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

const fn instruction(code: u8, target: u8, source: u8, offset: i16, constant: i32) -> Instruction {
    Instruction { code, registers: source << 4 | target, offset, constant }
}

/// `return counter++ % count`. Registers: r0 results, r1 and r2 arguments, r10 the end of the stack.
fn instructions(counter: &OwnedFd, count: u32) -> [Instruction; 13] {
    [
        instruction(0x62, 10, 0, -4, 0), // *(u32 *)(r10 - 4) = 0, the key
        instruction(0xbf, 2, 10, 0, 0),  // r2 = r10
        instruction(0x07, 2, 0, 0, -4),  // r2 -= 4
        instruction(0x18, 1, PSEUDO_MAP_FD, 0, counter.as_raw_fd()), // r1 = the map,
        instruction(0, 0, 0, 0, 0),      // which takes two places
        instruction(0x85, 0, 0, 0, MAP_LOOKUP), // r0 = address of the counter
        instruction(0x55, 0, 0, 1, 0),   // if r0 != 0, skip one
        instruction(0x95, 0, 0, 0, 0),   // return 0
        instruction(0xb7, 1, 0, 0, 1),   // r1 = 1
        instruction(0xdb, 0, 1, 0, ATOMIC_FETCH_ADD), // r1 = fetch_add(r0, r1)
        instruction(0xbf, 0, 1, 0, 0),   // r0 = r1
        instruction(0x97, 0, 0, 0, count.cast_signed()), // r0 %= count
        instruction(0x95, 0, 0, 0, 0),   // return r0
    ]
}

/// An array with a single number of 64 bits.
fn create_counter() -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
    }
    let attributes = Attributes { kind: MAP_TYPE_ARRAY, key_bytes: 4, value_bytes: 8, entries: 1 };
    bpf(MAP_CREATE, &attributes)
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
    }
    let attributes = Attributes {
        kind: PROG_TYPE_SOCKET_FILTER,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
    };
    bpf(PROG_LOAD, &attributes)
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: `attributes` starts with the fields that this command reads, and the kernel treats those beyond its size
    // as zero. The memory it points to outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    let fd = checked(fd as libc::c_int)?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net;

    #[test]
    fn connections_go_to_the_listeners_in_turn() {
        check(2, 20);
        check(3, 21);
        check(5, 50);
    }

    fn check(listeners: u32, connections: usize) {
        let backlog = 64;
        let first = Listener::open(&"127.0.0.1:0".parse().unwrap(), true, backlog).unwrap();
        let address = first.address().unwrap();
        let mut all = vec![first];
        all.extend((1..listeners).map(|_| Listener::open(&address, true, backlog).unwrap()));
        if let Err(error) = in_turn(&all[0], listeners) {
            eprintln!("skipped: this kernel loads no program for us: {error}");
            return;
        }
        let clients: Vec<_> = (0..connections)
            .map(|_| net::connect((&address).into(), Duration::from_secs(5)).unwrap())
            .collect();
        for listener in &all {
            listener.set_nonblocking(true).unwrap();
            let mut got = 0;
            while listener.accept(true).is_ok() {
                got += 1;
            }
            assert_eq!(got, connections / listeners as usize, "of {connections} on {listeners} listeners");
        }
        drop(clients);
    }
}
