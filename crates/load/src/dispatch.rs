//! Dispatching requests: which connection carries the next one, and when.

use std::collections::VecDeque;

use crate::pace::Schedule;

/// A request to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dispatch {
    pub(crate) key: usize,
    /// When it was due: in a closed loop, now.
    pub(crate) due_ns: u64,
    /// When its connection became free.
    pub(crate) free_ns: u64,
}

/// The connections that can carry a request, longest free first, and the rule that decides when requests go out.
pub(crate) struct Dispatcher {
    free: VecDeque<(usize, u64)>,
    is_listed: Vec<bool>,
    rule: Rule,
}

enum Rule {
    /// While fewer than this many are in flight.
    Closed(u64),
    /// When they are due.
    Open(Schedule),
}

impl Rule {
    /// The due time of the request that may go out now, if there is one.
    fn due_ns(&self, in_flight: u64, now_ns: u64) -> Option<u64> {
        match self {
            Self::Closed(in_flight_max) if in_flight < *in_flight_max => Some(now_ns),
            Self::Open(schedule) if schedule.due_ns() <= now_ns => Some(schedule.due_ns()),
            _ => None,
        }
    }

    /// Counts that request as sent.
    fn advance(&mut self) {
        if let Self::Open(schedule) = self {
            schedule.advance();
        }
    }
}

impl Dispatcher {
    /// A closed loop that keeps `in_flight` requests in flight on `connections` connections, none of them free yet.
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

    /// Adds a connection that can carry a request, free since `now_ns`.
    #[inline]
    pub(crate) fn free(&mut self, key: usize, now_ns: u64) {
        if !self.is_listed[key] {
            self.is_listed[key] = true;
            self.free.push_back((key, now_ns));
        }
    }

    /// The request to send now, if there is one, while `in_flight` are in flight. Its connection is no longer free.
    #[inline]
    pub(crate) fn next(&mut self, in_flight: u64, now_ns: u64) -> Option<Dispatch> {
        let due_ns = self.rule.due_ns(in_flight, now_ns)?;
        let (key, free_ns) = self.free.pop_front()?;
        self.is_listed[key] = false;
        self.rule.advance();
        Some(Dispatch { key, due_ns, free_ns })
    }

    /// Another request to send on the connection of the last `dispatch`. None while another connection is free, because
    /// that one comes first.
    pub(crate) fn next_with(&mut self, dispatch: &Dispatch, in_flight: u64, now_ns: u64) -> Option<Dispatch> {
        if self.has_free() {
            return None;
        }
        let due_ns = self.rule.due_ns(in_flight, now_ns)?;
        self.rule.advance();
        Some(Dispatch { due_ns, ..*dispatch })
    }

    /// When the first request is due in an open loop; 0 in a closed loop.
    pub(crate) fn first_ns(&self) -> u64 {
        match &self.rule {
            Rule::Closed(_) => 0,
            Rule::Open(schedule) => schedule.due_ns(),
        }
    }

    /// Whether this is an open loop.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.rule, Rule::Open(_))
    }

    /// Whether a connection is free.
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// When the next request is due even without a reply; `u64::MAX` if a reply must come first.
    pub(crate) fn due_ns(&self) -> u64 {
        match &self.rule {
            Rule::Open(schedule) if !self.free.is_empty() => schedule.due_ns(),
            _ => u64::MAX,
        }
    }

    /// Whether the schedule has ended, so no further request is sent.
    pub(crate) fn is_spent(&self) -> bool {
        matches!(&self.rule, Rule::Open(schedule) if schedule.is_spent())
    }

    /// Requests due before `end_ns` and not sent: how many of them were due before `begin_ns`, and all.
    pub(crate) fn unsent(&self, begin_ns: u64, end_ns: u64) -> (u64, u64) {
        let Rule::Open(schedule) = &self.rule else { return (0, 0) };
        (schedule.due_before(begin_ns.min(end_ns)), schedule.due_before(end_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use contract::Arrivals;

    use crate::pace::Ramp;

    /// Sends as many requests as allowed at each of `nows_ns`, and expects their keys and due times. Replies never
    /// come.
    fn check(mut dispatcher: Dispatcher, nows_ns: &[u64], expected: &[(usize, u64)]) {
        for key in 0..3 {
            dispatcher.free(key, 0);
        }
        let mut seen = Vec::new();
        for &now_ns in nows_ns {
            while let Some(dispatch) = dispatcher.next(seen.len() as u64, now_ns) {
                seen.push((dispatch.key, dispatch.due_ns));
            }
        }
        assert_eq!(seen, expected);
    }

    fn every_100_ns() -> Schedule {
        let ramp = Ramp { from_per_s: 1e7, to_per_s: 1e7, duration: None };
        Schedule::new((Arrivals::Even, 0), &[ramp], (0, 1), (0, 0))
    }

    #[test]
    fn a_closed_loop_keeps_so_many_in_flight_on_the_connections_in_turn() {
        check(Dispatcher::closed(3, 2), &[5, 6], &[(0, 5), (1, 5)]);
        check(Dispatcher::closed(3, 3), &[5], &[(0, 5), (1, 5), (2, 5)]);
    }

    #[test]
    fn an_open_loop_sends_what_is_due_and_keeps_its_time() {
        check(Dispatcher::open(3, every_100_ns()), &[0, 50, 250], &[(0, 0), (1, 100), (2, 200)]);
    }

    #[test]
    fn what_finds_no_connection_is_counted_as_unsent() {
        let mut dispatcher = Dispatcher::open(1, every_100_ns());
        assert_eq!(dispatcher.due_ns(), u64::MAX, "no connection is free");
        dispatcher.free(0, 0);
        assert_eq!(dispatcher.due_ns(), 0);
        assert_eq!(dispatcher.next(0, 450).map(|dispatch| dispatch.due_ns), Some(0));
        assert_eq!(dispatcher.next(1, 450), None);
        assert_eq!(dispatcher.unsent(250, 450), (2, 4));
    }

    #[test]
    fn a_schedule_that_has_come_to_its_end_dispatches_nothing_more() {
        let ramp = Ramp { from_per_s: 1e7, to_per_s: 1e7, duration: Some(Duration::from_nanos(200)) };
        let mut dispatcher = Dispatcher::open(1, Schedule::new((Arrivals::Even, 0), &[ramp], (0, 1), (0, 0)));
        for due_ns in [0, 100] {
            assert!(!dispatcher.is_spent());
            dispatcher.free(0, 0);
            assert_eq!(dispatcher.next(0, 1_000).map(|dispatch| dispatch.due_ns), Some(due_ns));
        }
        dispatcher.free(0, 0);
        assert!(dispatcher.is_spent());
        assert_eq!(
            (dispatcher.next(0, 1_000), dispatcher.due_ns(), dispatcher.unsent(0, 1_000)),
            (None, u64::MAX, (0, 0))
        );
        assert!(!Dispatcher::closed(1, 1).is_spent(), "a closed loop never is");
    }

    #[test]
    fn requests_go_out_together_only_while_no_other_connection_is_free() {
        let mut dispatcher = Dispatcher::closed(2, 3);
        dispatcher.free(0, 1);
        dispatcher.free(1, 2);
        let first = dispatcher.next(0, 5).expect("two are free");
        assert_eq!(dispatcher.next_with(&first, 1, 5), None, "the other one is free");
        let second = dispatcher.next(1, 5).expect("one is free");
        assert_eq!(dispatcher.next_with(&second, 2, 5), Some(Dispatch { key: 1, due_ns: 5, free_ns: 2 }));
        assert_eq!(dispatcher.next_with(&second, 3, 5), None, "as many are in flight as may be");
    }

    #[test]
    fn only_what_is_due_goes_out_together() {
        let mut dispatcher = Dispatcher::open(1, every_100_ns());
        dispatcher.free(0, 30);
        let first = dispatcher.next(0, 150).expect("it is due");
        let again = dispatcher.next_with(&first, 1, 150);
        assert_eq!(again, Some(Dispatch { key: 0, due_ns: 100, free_ns: 30 }));
        assert_eq!(dispatcher.next_with(&first, 2, 150), None);
        assert_eq!(dispatcher.unsent(0, 450), (0, 3), "those that have gone out are none of them");
    }

    #[test]
    fn a_connection_is_listed_once_however_often_it_becomes_free() {
        let mut dispatcher = Dispatcher::closed(2, 9);
        dispatcher.free(1, 3);
        dispatcher.free(1, 4);
        assert_eq!(dispatcher.next(0, 5), Some(Dispatch { key: 1, due_ns: 5, free_ns: 3 }));
        assert_eq!(dispatcher.next(0, 5), None);
    }
}
