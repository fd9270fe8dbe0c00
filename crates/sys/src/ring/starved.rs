//! Receives that found no free buffer. They wait in a queue, and each connection gets its share before any gets
//! another. Otherwise the first in the queue would be served again and again while others starve.

use std::collections::VecDeque;

use super::Slot;

/// How much a connection may receive before it is the others' turn: at most one buffer.
const SHARE_BYTES: usize = 64 * 1024;
/// No receive has this number.
const NO_RECEIVE: u64 = 0;

/// What a connection may still receive before it is the others' turn.
#[derive(Clone, Copy, Default)]
struct Share {
    left_bytes: usize,
    /// The number of the receive that uses this share; [`NO_RECEIVE`] if none is in flight.
    receive: u64,
    /// A receive has ended within its share, and the socket has more bytes: the next receive gets the rest.
    has_rest: bool,
}

/// Connections that wait for a receive buffer.
#[derive(Default)]
pub(super) struct Starved {
    /// In order of service.
    queue: VecDeque<Slot>,
    /// How many at the front of the queue have used part of their share, or tried to receive and found no buffer.
    returned: usize,
    /// By slot.
    shares: Vec<Share>,
    /// How many receives were requested.
    asked: u64,
    /// The number of the latest one that has completed. The kernel starts them in order, so earlier ones that have not
    /// completed found nothing to receive, and have had their turn.
    completed: u64,
    /// How often a socket has more bytes after a whole share, as a running mean: 0 is never, `ALWAYS` is always.
    overflows: u32,
}

/// The scale of this mean, over roughly the last sixteen.
const ALWAYS: u32 = 1024;

impl Starved {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a receive has to wait: behind others, or for the rest of its own share.
    pub(super) fn delays(&self, slot: Slot) -> bool {
        !self.queue.is_empty() || self.shares.get(slot.index()).is_some_and(|share| share.has_rest)
    }

    /// Queues a connection: behind the others, unless it has a rest of its share.
    pub(super) fn push(&mut self, slot: Slot) {
        if self.shares.len() <= slot.index() {
            self.shares.resize(slot.index() + 1, Share::default());
        }
        let share = &mut self.shares[slot.index()];
        if std::mem::take(&mut share.has_rest) {
            self.push_front(slot);
        } else {
            share.left_bytes = SHARE_BYTES;
            self.queue.push_back(slot);
        }
    }

    /// Queues a connection that found no buffer. It keeps its place if others took the free ones.
    pub(super) fn found_none(&mut self, slot: Slot) {
        match self.current(slot) {
            Some(share) => {
                share.receive = NO_RECEIVE;
                self.push_front(slot);
            }
            None => self.push(slot),
        }
    }

    /// Whether connections usually have more than their share.
    pub(super) fn has_much(&self) -> bool {
        self.overflows > ALWAYS / 2
    }

    /// Records how many bytes a connection received. `more`: the socket has more; `last`: the receive has ended.
    pub(super) fn received(&mut self, slot: Slot, bytes: usize, more: bool, last: bool) {
        let Some(share) = self.current(slot) else { return };
        share.left_bytes = share.left_bytes.saturating_sub(bytes);
        let is_used_up = share.left_bytes == 0;
        if is_used_up || last || !more {
            share.receive = NO_RECEIVE;
        }
        share.has_rest = more && last && !is_used_up;
        if is_used_up {
            self.overflows += if more { ALWAYS / 16 } else { 0 };
            self.overflows -= self.overflows / 16;
        }
    }

    /// The share that a receive in flight uses. None if it found nothing before a later one completed.
    fn current(&mut self, slot: Slot) -> Option<&mut Share> {
        let share = self.shares.get_mut(slot.index())?;
        if share.receive == NO_RECEIVE || share.receive < self.completed {
            return None;
        }
        self.completed = share.receive;
        Some(share)
    }

    /// The next connection to receive for.
    pub(super) fn ask(&mut self) -> Option<Slot> {
        let slot = self.queue.pop_front()?;
        self.returned = self.returned.saturating_sub(1);
        self.asked += 1;
        self.shares[slot.index()].receive = self.asked;
        Some(slot)
    }

    /// Removes a connection from the queue, and returns whether it was there.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let place = self.queue.iter().position(|&queued| queued == slot);
        let Some(place) = place else { return false };
        self.returned -= usize::from(place < self.returned);
        self.queue.remove(place).is_some()
    }

    /// Forgets a connection that is closing and not in the queue.
    pub(super) fn forget(&mut self, slot: Slot) {
        if let Some(share) = self.shares.get_mut(slot.index()) {
            *share = Share::default();
        }
    }

    fn push_front(&mut self, slot: Slot) {
        self.queue.insert(self.returned, slot);
        self.returned += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starved(slots: u32) -> Starved {
        let mut starved = Starved::default();
        (0..slots).for_each(|slot| starved.found_none(Slot(slot)));
        starved
    }

    fn check(starved: &mut Starved, count: usize, expected: &[u32]) {
        let next: Vec<u32> = (0..count).map_while(|_| starved.ask()).map(|slot| slot.0).collect();
        assert_eq!(next, expected);
    }

    #[test]
    fn connections_receive_in_the_order_in_which_they_found_no_buffer() {
        let mut starved = starved(5);
        check(&mut starved, 2, &[0, 1]);
        (0..2).for_each(|slot| starved.received(Slot(slot), SHARE_BYTES, true, true));
        (0..2).for_each(|slot| starved.push(Slot(slot)));
        check(&mut starved, 10, &[2, 3, 4, 0, 1]);
    }

    #[test]
    fn a_connection_keeps_its_place_if_another_took_its_buffer() {
        let mut starved = starved(5);
        check(&mut starved, 3, &[0, 1, 2]);
        // The first takes all there is.
        (0..3).for_each(|_| starved.received(Slot(0), SHARE_BYTES, true, false));
        (0..3).for_each(|slot| starved.found_none(Slot(slot)));
        check(&mut starved, 10, &[1, 2, 3, 4, 0]);
    }

    #[test]
    fn a_connection_that_got_a_part_of_its_share_gets_the_rest_before_others() {
        let mut starved = starved(4);
        check(&mut starved, 2, &[0, 1]);
        starved.received(Slot(0), SHARE_BYTES, true, true);
        starved.received(Slot(1), SHARE_BYTES - 1, true, true);
        (0..2).for_each(|slot| starved.push(Slot(slot)));
        check(&mut starved, 1, &[1]);
        starved.received(Slot(1), SHARE_BYTES, true, true);
        starved.push(Slot(1));
        check(&mut starved, 10, &[2, 3, 0, 1]);
    }

    #[test]
    fn a_connection_keeps_its_place_if_others_are_asked_for_before_its_receive_completes() {
        let mut starved = starved(5);
        check(&mut starved, 2, &[0, 1]);
        check(&mut starved, 2, &[2, 3]);
        starved.received(Slot(0), SHARE_BYTES, true, true);
        (1..4).for_each(|slot| starved.found_none(Slot(slot)));
        starved.push(Slot(0));
        check(&mut starved, 10, &[1, 2, 3, 4, 0]);
    }

    #[test]
    fn a_connection_gets_the_rest_of_its_share_if_others_are_asked_for_before_its_receive_completes() {
        let mut starved = starved(4);
        check(&mut starved, 1, &[0]);
        check(&mut starved, 1, &[1]);
        starved.received(Slot(0), SHARE_BYTES - 1, true, true);
        starved.push(Slot(0));
        check(&mut starved, 10, &[0, 2, 3]);
    }

    #[test]
    fn a_connection_that_had_nothing_to_receive_in_its_turn_goes_behind_the_others() {
        let mut starved = starved(4);
        check(&mut starved, 2, &[0, 1]);
        starved.received(Slot(1), SHARE_BYTES, false, true);
        starved.found_none(Slot(0));
        check(&mut starved, 10, &[2, 3, 0]);
    }

    #[test]
    fn connections_have_much_if_more_is_mostly_there_behind_their_share() {
        let mut starved = starved(1);
        let mut serve = |more: bool| {
            for _ in 0..32 {
                check(&mut starved, 1, &[0]);
                starved.received(Slot(0), SHARE_BYTES, more, true);
                starved.push(Slot(0));
            }
            starved.has_much()
        };
        assert_eq!([true, false, true].map(&mut serve), [true, false, true]);
    }

    #[test]
    fn a_connection_that_is_taken_out_leaves_the_order_of_the_others() {
        let mut starved = starved(4);
        check(&mut starved, 2, &[0, 1]);
        (0..2).for_each(|slot| starved.found_none(Slot(slot)));
        assert!(starved.remove(Slot(0)));
        assert!(!starved.remove(Slot(0)));
        starved.push(Slot(4));
        check(&mut starved, 10, &[1, 2, 3, 4]);
        assert!(starved.is_empty());
    }
}
