//! poll(2) over a dense array: descriptor numbers have no limit, and the kernel sees only watched ones.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use crate::checked;

/// Watched descriptors, and those that the last wait found ready.
#[derive(Debug, Default)]
pub struct Poll {
    watched: Vec<libc::pollfd>,
    /// The index of each descriptor in the array, by its number.
    places: Vec<u32>,
    /// Entries below this index are unread since the last wait. It runs downwards: the last entry then takes the place
    /// of a removed one without being skipped.
    unseen: usize,
    /// Ready entries not found yet.
    ready: usize,
}

impl Poll {
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches a descriptor for input, until [`Self::remove`].
    pub fn add(&mut self, fd: &impl AsFd) {
        let fd = fd.as_fd().as_raw_fd();
        if self.places.len() <= fd as usize {
            self.places.resize(fd as usize + 1, 0);
        }
        self.places[fd as usize] = self.watched.len() as u32;
        self.watched.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    }

    /// Watches an added descriptor for room to send instead of input, or for input again.
    pub fn change(&mut self, fd: RawFd, sending: bool) {
        let place = self.places[fd as usize] as usize;
        self.watched[place].events = if sending { libc::POLLOUT } else { libc::POLLIN };
    }

    /// Stops watching an added descriptor.
    pub fn remove(&mut self, fd: RawFd) {
        let place = self.places[fd as usize] as usize;
        self.watched.swap_remove(place);
        if let Some(moved) = self.watched.get(place) {
            self.places[moved.fd as usize] = place as u32;
        }
    }

    /// Waits until a descriptor is ready; [`Self::next_ready`] returns which.
    ///
    /// # Errors
    /// `InvalidInput` if there are more than the process may have open. An interrupted wait finds nothing.
    pub fn wait(&mut self) -> io::Result<()> {
        let count = self.watched.len() as libc::nfds_t;
        // SAFETY: `watched` holds `count` entries.
        let result = unsafe { libc::poll(self.watched.as_mut_ptr(), count, -1) };
        self.ready = match checked(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other? as usize,
        };
        self.unseen = self.watched.len();
        Ok(())
    }

    /// The next descriptor that the last wait found ready, the latest added first.
    pub fn next_ready(&mut self) -> Option<RawFd> {
        // Removals since the wait have shortened the array.
        self.unseen = self.unseen.min(self.watched.len());
        while self.ready > 0 && self.unseen > 0 {
            self.unseen -= 1;
            let entry = self.watched[self.unseen];
            if entry.revents != 0 {
                self.ready -= 1;
                return Some(entry.fd);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_are_found_ready_only_for_what_they_wait_for() {
        let pairs: Vec<_> = (0..20).map(|_| UnixStream::pair().expect("a pair of sockets")).collect();
        let mut poll = Poll::new();
        for (ours, _) in &pairs {
            poll.add(ours);
        }
        let fd = |index: usize| pairs[index].0.as_raw_fd();
        for index in [7, 3, 19] {
            (&pairs[index].1).write_all(b"x").expect("it fits");
        }
        check(&mut poll, &[fd(3), fd(7), fd(19)], |_, _| {});

        poll.change(fd(3), true);
        poll.change(fd(5), true);
        check(&mut poll, &[fd(3), fd(5), fd(7), fd(19)], |_, _| {});

        poll.change(fd(3), false);
        poll.change(fd(5), false);
        (&pairs[3].0).read_exact(&mut [0]).expect("a byte is there");
        check(&mut poll, &[fd(7), fd(19)], |_, _| {});
    }

    #[test]
    fn none_is_passed_over_when_those_before_it_are_removed() {
        let pairs: Vec<_> = (0..20).map(|_| UnixStream::pair().expect("a pair of sockets")).collect();
        let mut poll = Poll::new();
        for (ours, theirs) in &pairs {
            poll.add(ours);
            let mut theirs = theirs;
            theirs.write_all(b"x").expect("it fits");
        }
        let all: Vec<RawFd> = pairs.iter().map(|(ours, _)| ours.as_raw_fd()).collect();
        check(&mut poll, &all, |poll, fd| poll.remove(fd));
        assert!(poll.watched.is_empty());
    }

    /// Waits, calls `then` for each ready descriptor, and compares them with `expected`.
    fn check(poll: &mut Poll, expected: &[RawFd], then: impl Fn(&mut Poll, RawFd)) {
        poll.wait().expect("all are open");
        let mut found = Vec::new();
        while let Some(fd) = poll.next_ready() {
            found.push(fd);
            then(poll, fd);
        }
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}
