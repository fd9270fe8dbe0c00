//! Receives for which there is no free buffer. They wait in a queue, and each connection gets its share before any
//! gets another: otherwise those that happen to be asked for first are served again and again while others starve.

use std::collections::VecDeque;

use super::Slot;

/// What a connection may receive before others have had their turn: as much as one buffer holds at most.
const SHARE_BYTES: usize = 64 * 1024;

/// A connection that waits for its share, or for what is left of it.
#[derive(Clone, Copy)]
struct Claim {
    slot: Slot,
    left_bytes: usize,
}

/// Connections that wait for a receive buffer.
#[derive(Default)]
pub(super) struct Starved {
    /// In the order in which they receive.
    queue: VecDeque<Claim>,
    /// So many at the front have had a part of their share, or were asked for and found no buffer.
    front: usize,
    /// Those that were asked for with the last submissions.
    asked: VecDeque<Claim>,
    /// Those of them that have got a part of their share, while more was there; they are not asked for yet.
    owed: Vec<Claim>,
    /// How often more was there behind a whole share, in the mean: 0 is never, `ALWAYS` is always.
    more: u32,
}

/// The scale of a mean, over roughly the last sixteen.
const ALWAYS: u32 = 1024;

impl Starved {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a receive has to wait: behind others, or for the rest of its own share.
    pub(super) fn delays(&self, slot: Slot) -> bool {
        !self.queue.is_empty() || self.owed.iter().any(|claim| claim.slot == slot)
    }

    /// Queues a connection that is to receive: behind the others, unless it is owed a part of its share.
    pub(super) fn push(&mut self, slot: Slot) {
        match take(&mut self.owed, slot) {
            Some(claim) => self.push_front(claim),
            None => self.queue.push_back(Claim { slot, left_bytes: SHARE_BYTES }),
        }
    }

    /// Queues a connection that found no buffer. It keeps its place if others have taken what was free for it.
    pub(super) fn found_none(&mut self, slot: Slot) {
        match self.asked.iter().find(|claim| claim.slot == slot && claim.left_bytes > 0) {
            Some(&claim) => self.push_front(claim),
            None => self.push(slot),
        }
    }

    /// Whether connections mostly have more than their share.
    pub(super) fn has_much(&self) -> bool {
        self.more > ALWAYS / 2
    }

    /// Notes that a connection has received so many bytes. `more`: there are more; `last`: it is not asked for them
    /// yet.
    pub(super) fn received(&mut self, slot: Slot, bytes: usize, more: bool, last: bool) {
        let Some(claim) = self.asked.iter_mut().find(|claim| claim.slot == slot) else { return };
        let was_left = claim.left_bytes > 0;
        claim.left_bytes = claim.left_bytes.saturating_sub(bytes);
        if claim.left_bytes > 0 {
            self.owed.extend((more && last).then_some(*claim));
        } else if was_left {
            self.more += if more { ALWAYS / 16 } else { 0 };
            self.more -= self.more / 16;
        }
    }

    /// Begins to ask anew.
    pub(super) fn begin(&mut self) {
        self.asked.clear();
        self.front = 0;
    }

    /// The next that is to be asked for.
    pub(super) fn ask(&mut self) -> Option<Slot> {
        let claim = self.queue.pop_front()?;
        self.front = self.front.saturating_sub(1);
        self.asked.push_back(claim);
        Some(claim.slot)
    }

    /// Takes a connection out of the queue, and says whether it was there.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let place = self.queue.iter().position(|claim| claim.slot == slot);
        let Some(place) = place else { return false };
        self.front -= usize::from(place < self.front);
        self.queue.remove(place).is_some()
    }

    /// Forgets a connection that is not in the queue and ends.
    pub(super) fn forget(&mut self, slot: Slot) {
        take(&mut self.owed, slot);
    }

    fn push_front(&mut self, claim: Claim) {
        self.queue.insert(self.front, claim);
        self.front += 1;
    }
}

fn take(claims: &mut Vec<Claim>, slot: Slot) -> Option<Claim> {
    let place = claims.iter().position(|claim| claim.slot == slot)?;
    Some(claims.swap_remove(place))
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
        starved.begin();
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
