//! Whose turn it is: which connection carries the next request, and when.

use std::collections::VecDeque;

use crate::pace::Schedule;

/// A request that may go out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) key: usize,
    /// When it was due: in a closed loop, now.
    pub(crate) due_ns: u64,
    /// From when on its connection could have carried it.
    pub(crate) free_ns: u64,
}

/// The connections that can carry a request, longest free first, and the rule by which requests go out.
pub(crate) struct Turns {
    free: VecDeque<(usize, u64)>,
    is_listed: Vec<bool>,
    rule: Rule,
}

enum Rule {
    /// As long as fewer than this many are in flight.
    Closed(u64),
    /// When they are due.
    Open(Schedule),
}

impl Rule {
    /// When the request was due that may go out now, if one may.
    fn due_ns(&self, in_flight: u64, now_ns: u64) -> Option<u64> {
        match self {
            Self::Closed(in_flight_max) if in_flight < *in_flight_max => Some(now_ns),
            Self::Open(schedule) if schedule.due_ns() <= now_ns => Some(schedule.due_ns()),
            _ => None,
        }
    }

    /// It has gone out.
    fn advance(&mut self) {
        if let Self::Open(schedule) = self {
            schedule.advance();
        }
    }
}

impl Turns {
    /// A closed loop that keeps `in_flight` requests under way on `connections` connections, none of them free yet.
    pub(crate) fn closed(connections: usize, in_flight: u64) -> Self {
        Self::by(connections, Rule::Closed(in_flight))
    }

    /// An open loop by a schedule.
    pub(crate) fn open(connections: usize, schedule: Schedule) -> Self {
        Self::by(connections, Rule::Open(schedule))
    }

    fn by(connections: usize, rule: Rule) -> Self {
        Self { free: VecDeque::with_capacity(connections), is_listed: vec![false; connections], rule }
    }

    /// A connection can carry a request from now on.
    #[inline]
    pub(crate) fn free(&mut self, key: usize, now_ns: u64) {
        if !self.is_listed[key] {
            self.is_listed[key] = true;
            self.free.push_back((key, now_ns));
        }
    }

    /// The request that may go out now, if there is one, with `in_flight` under way. Its connection is no longer free.
    #[inline]
    pub(crate) fn next(&mut self, in_flight: u64, now_ns: u64) -> Option<Turn> {
        let due_ns = self.rule.due_ns(in_flight, now_ns)?;
        let (key, free_ns) = self.free.pop_front()?;
        self.is_listed[key] = false;
        self.rule.advance();
        Some(Turn { key, due_ns, free_ns })
    }

    /// The request that may go out with that of the last `turn`, on a connection that can carry more. There is none
    /// while another connection is free, whose turn it would be.
    pub(crate) fn again(&mut self, turn: &Turn, in_flight: u64, now_ns: u64) -> Option<Turn> {
        if self.has_free() {
            return None;
        }
        let due_ns = self.rule.due_ns(in_flight, now_ns)?;
        self.rule.advance();
        Some(Turn { due_ns, ..*turn })
    }

    /// Whether requests go out by their time.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.rule, Rule::Open(_))
    }

    /// Whether a connection is free.
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// When a request will go out by its time alone: `u64::MAX` if that takes a reply first.
    pub(crate) fn due_ns(&self) -> u64 {
        match &self.rule {
            Rule::Open(schedule) if !self.free.is_empty() => schedule.due_ns(),
            _ => u64::MAX,
        }
    }

    /// Whether no request will ever go out again, because the schedule has come to its end.
    pub(crate) fn are_spent(&self) -> bool {
        matches!(&self.rule, Rule::Open(schedule) if schedule.is_spent())
    }

    /// Requests that are due before `end_ns` and have not gone out: how many of them before `begin_ns`, and in all.
    pub(crate) fn unsent(&self, begin_ns: u64, end_ns: u64) -> (u64, u64) {
        let Rule::Open(schedule) = &self.rule else { return (0, 0) };
        (schedule.due_before(begin_ns.min(end_ns)), schedule.due_before(end_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pace::{Arrivals, Stage};

    /// Goes on at each of `nows_ns` with as many requests as may go out, and expects their keys and due times. Replies
    /// never come.
    fn check(mut turns: Turns, nows_ns: &[u64], expected: &[(usize, u64)]) {
        for key in 0..3 {
            turns.free(key, 0);
        }
        let mut seen = Vec::new();
        for &now_ns in nows_ns {
            while let Some(turn) = turns.next(seen.len() as u64, now_ns) {
                seen.push((turn.key, turn.due_ns));
            }
        }
        assert_eq!(seen, expected);
    }

    fn every_100_ns() -> Schedule {
        let stage = Stage { from_per_s: 1e7, to_per_s: 1e7, duration: None };
        Schedule::new(Arrivals::Even, &[stage], (0, 1), (0, 0))
    }

    #[test]
    fn a_closed_loop_keeps_so_many_in_flight_on_the_connections_in_turn() {
        check(Turns::closed(3, 2), &[5, 6], &[(0, 5), (1, 5)]);
        check(Turns::closed(3, 3), &[5], &[(0, 5), (1, 5), (2, 5)]);
    }

    #[test]
    fn an_open_loop_sends_what_is_due_and_keeps_its_time() {
        check(Turns::open(3, every_100_ns()), &[0, 50, 250], &[(0, 0), (1, 100), (2, 200)]);
    }

    #[test]
    fn what_finds_no_connection_is_counted_as_unsent() {
        let mut turns = Turns::open(1, every_100_ns());
        assert_eq!(turns.due_ns(), u64::MAX, "no connection is free");
        turns.free(0, 0);
        assert_eq!(turns.due_ns(), 0);
        assert_eq!(turns.next(0, 450).map(|turn| turn.due_ns), Some(0));
        assert_eq!(turns.next(1, 450), None);
        assert_eq!(turns.unsent(250, 450), (2, 4));
    }

    #[test]
    fn a_schedule_that_has_come_to_its_end_has_no_more_turns() {
        let stage = Stage { from_per_s: 1e7, to_per_s: 1e7, duration: Some(Duration::from_nanos(200)) };
        let mut turns = Turns::open(1, Schedule::new(Arrivals::Even, &[stage], (0, 1), (0, 0)));
        for due_ns in [0, 100] {
            assert!(!turns.are_spent());
            turns.free(0, 0);
            assert_eq!(turns.next(0, 1_000).map(|turn| turn.due_ns), Some(due_ns));
        }
        turns.free(0, 0);
        assert!(turns.are_spent());
        assert_eq!((turns.next(0, 1_000), turns.due_ns(), turns.unsent(0, 1_000)), (None, u64::MAX, (0, 0)));
        assert!(!Turns::closed(1, 1).are_spent(), "a closed loop never is");
    }

    #[test]
    fn requests_go_out_together_only_while_no_other_connection_is_free() {
        let mut turns = Turns::closed(2, 3);
        turns.free(0, 1);
        turns.free(1, 2);
        let first = turns.next(0, 5).expect("two are free");
        assert_eq!(turns.again(&first, 1, 5), None, "the other one is free");
        let second = turns.next(1, 5).expect("one is free");
        assert_eq!(turns.again(&second, 2, 5), Some(Turn { key: 1, due_ns: 5, free_ns: 2 }));
        assert_eq!(turns.again(&second, 3, 5), None, "as many are in flight as may be");
    }

    #[test]
    fn only_what_is_due_goes_out_together() {
        let mut turns = Turns::open(1, every_100_ns());
        turns.free(0, 30);
        let first = turns.next(0, 150).expect("it is due");
        let again = turns.again(&first, 1, 150);
        assert_eq!(again, Some(Turn { key: 0, due_ns: 100, free_ns: 30 }));
        assert_eq!(turns.again(&first, 2, 150), None);
        assert_eq!(turns.unsent(0, 450), (0, 3), "those that have gone out are none of them");
    }

    #[test]
    fn a_connection_is_listed_once_however_often_it_becomes_free() {
        let mut turns = Turns::closed(2, 9);
        turns.free(1, 3);
        turns.free(1, 4);
        assert_eq!(turns.next(0, 5), Some(Turn { key: 1, due_ns: 5, free_ns: 3 }));
        assert_eq!(turns.next(0, 5), None);
    }
}
