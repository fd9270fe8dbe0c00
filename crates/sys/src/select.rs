//! select(2) over bitmaps of any size.
//!
//! The kernel accepts bitmaps of any length; only the C type `fd_set` ends at 1,024. So the bitmaps here are words on
//! the heap, and the old limit is a parameter.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;

use crate::checked;

/// Descriptors that fit into an `fd_set`, numbered from 0.
pub const FD_SETSIZE: usize = libc::FD_SETSIZE;

const WORD_BITS: usize = u64::BITS as usize;

/// Watched descriptors, and those that the last wait found ready.
#[derive(Debug)]
pub struct Select {
    /// Watched descriptors. The kernel overwrites its arguments, so each wait passes a copy.
    receive: Vec<u64>,
    send: Vec<u64>,
    receive_ready: Vec<u64>,
    send_ready: Vec<u64>,
    /// How many descriptors wait for room to send. Without any, the kernel does not get that set.
    sending: usize,
    /// One above the highest watched number: the kernel scans every bit below it.
    top: usize,
    /// Numbers from here on are refused.
    end: usize,
    /// Words of the ready sets that are still unread.
    unseen: usize,
}

impl Select {
    /// Watches descriptors with numbers below `end`.
    pub fn new(end: usize) -> Self {
        let (receive, send, receive_ready, send_ready) = Default::default();
        Self { receive, send, receive_ready, send_ready, sending: 0, top: 0, end, unseen: 0 }
    }

    /// Watches a descriptor for input, until [`Self::remove`], which must come before it is closed.
    ///
    /// # Errors
    /// `InvalidInput` if its number does not fit into the set.
    pub fn add(&mut self, fd: &impl AsFd) -> io::Result<()> {
        let fd = fd.as_fd().as_raw_fd() as usize;
        if fd >= self.end {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the set has no place for this number"));
        }
        let words = fd / WORD_BITS + 1;
        if words > self.receive.len() {
            for set in [&mut self.receive, &mut self.send, &mut self.receive_ready, &mut self.send_ready] {
                set.resize(words, 0);
            }
        }
        self.receive[fd / WORD_BITS] |= bit(fd);
        self.top = self.top.max(fd + 1);
        Ok(())
    }

    /// Watches an added descriptor for room to send instead of input, or for input again.
    pub fn change(&mut self, fd: RawFd, sending: bool) {
        let (word, bit) = (fd as usize / WORD_BITS, bit(fd as usize));
        self.sending -= usize::from(self.send[word] & bit != 0);
        self.sending += usize::from(sending);
        let (set, other) =
            if sending { (&mut self.send, &mut self.receive) } else { (&mut self.receive, &mut self.send) };
        set[word] |= bit;
        other[word] &= !bit;
    }

    /// Stops watching an added descriptor.
    pub fn remove(&mut self, fd: RawFd) {
        self.change(fd, false);
        self.receive[fd as usize / WORD_BITS] &= !bit(fd as usize);
        if fd as usize + 1 == self.top {
            self.lower_top();
        }
    }

    /// Waits until a descriptor is ready; [`Self::next_ready`] returns which.
    ///
    /// # Errors
    /// `EBADF` if a watched descriptor was closed. An interrupted wait finds nothing.
    pub fn wait(&mut self) -> io::Result<()> {
        let words = self.top.div_ceil(WORD_BITS);
        self.unseen = 0;
        self.receive_ready[..words].copy_from_slice(&self.receive[..words]);
        let receive = self.receive_ready.as_mut_ptr().cast();
        let send = if self.sending == 0 {
            self.send_ready[..words].fill(0);
            ptr::null_mut()
        } else {
            self.send_ready[..words].copy_from_slice(&self.send[..words]);
            self.send_ready.as_mut_ptr().cast()
        };
        let (none, for_ever) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the call reads and writes `top` bits of each set, in whole words, and each set has that many. The C
        // library passes the pointers on without using them as `fd_set`.
        let result = unsafe { libc::select(self.top as libc::c_int, receive, send, none, for_ever) };
        match checked(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        };
        self.unseen = words;
        Ok(())
    }

    /// The next descriptor that the last wait found ready, the highest first. Listeners are older than all connections
    /// and so come last, after ended connections have made room. The descriptor may have been removed since, or its
    /// number reused.
    pub fn next_ready(&mut self) -> Option<RawFd> {
        while let Some(word) = self.unseen.checked_sub(1) {
            let bits = self.receive_ready[word] | self.send_ready[word];
            if bits != 0 {
                let place = WORD_BITS - 1 - bits.leading_zeros() as usize;
                self.receive_ready[word] &= !bit(place);
                self.send_ready[word] &= !bit(place);
                return Some((word * WORD_BITS + place) as RawFd);
            }
            self.unseen = word;
        }
        None
    }

    fn lower_top(&mut self) {
        let sets = self.receive.iter().zip(&self.send);
        let highest = sets.enumerate().rev().find(|(_, (receive, send))| *receive | *send != 0);
        self.top = highest.map_or(0, |(word, (receive, send))| {
            (word + 1) * WORD_BITS - (receive | send).leading_zeros() as usize
        });
    }
}

fn bit(fd: usize) -> u64 {
    1 << (fd % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_are_found_ready_in_order_and_only_for_what_they_wait_for() {
        let pairs: Vec<_> = (0..100).map(|_| UnixStream::pair().expect("a pair of sockets")).collect();
        let mut select = Select::new(usize::MAX);
        for (ours, _) in &pairs {
            select.add(ours).expect("any number fits");
        }
        let fd = |index: usize| pairs[index].0.as_raw_fd();
        for index in [7, 3, 90] {
            (&pairs[index].1).write_all(b"x").expect("it fits");
        }
        check(&mut select, &[fd(3), fd(7), fd(90)]);

        select.change(fd(3), true);
        select.change(fd(50), true);
        select.remove(fd(7));
        check(&mut select, &[fd(3), fd(50), fd(90)]);

        select.change(fd(3), false);
        select.change(fd(50), false);
        (&pairs[3].0).read_exact(&mut [0]).expect("a byte is there");
        check(&mut select, &[fd(90)]);
    }

    #[test]
    fn the_top_sinks_to_the_highest_number_that_is_left() {
        let (low, high) = UnixStream::pair().expect("a pair of sockets");
        let mut select = Select::new(usize::MAX);
        select.add(&low).expect("any number fits");
        select.add(&high).expect("any number fits");
        select.remove(low.as_raw_fd().max(high.as_raw_fd()));
        assert_eq!(select.top, low.as_raw_fd().min(high.as_raw_fd()) as usize + 1);
        select.remove(low.as_raw_fd().min(high.as_raw_fd()));
        assert_eq!(select.top, 0);
    }

    #[test]
    fn a_number_beyond_the_end_is_refused() {
        let (one, _other) = UnixStream::pair().expect("a pair of sockets");
        let number = one.as_raw_fd() as usize;
        assert!(Select::new(number).add(&one).is_err());
        assert!(Select::new(number + 1).add(&one).is_ok());
    }

    fn check(select: &mut Select, expected: &[RawFd]) {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        expected.reverse();
        select.wait().expect("all are open");
        let mut found = Vec::new();
        while let Some(fd) = select.next_ready() {
            found.push(fd);
        }
        assert_eq!(found, expected);
    }
}
