//! The requests in flight of a connection, oldest first.
//!
//! There is nearly always one, stored in the connection itself. With a thousand connections, a queue on the heap would
//! cost another cache miss for each request.

use std::collections::VecDeque;
use std::mem;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    /// How much later it was sent than it could have been.
    pub(crate) late_ns: u64,
    /// Its number among the requests of its thread, from 1.
    pub(crate) number: u64,
    /// Whether it was due before its connection was free.
    pub(crate) waited: bool,
}

/// A queue whose first element needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct InFlightQueue {
    first: Option<InFlight>,
    /// Empty if there is no first.
    rest: VecDeque<InFlight>,
}

impl InFlightQueue {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn first(&self) -> Option<&InFlight> {
        self.first.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.first.iter().chain(&self.rest)
    }

    pub(crate) fn push(&mut self, request: InFlight) {
        match &self.first {
            None => self.first = Some(request),
            Some(_) => self.rest.push_back(request),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<InFlight> {
        if self.rest.is_empty() {
            return self.first.take();
        }
        mem::replace(&mut self.first, self.rest.pop_front())
    }

    pub(crate) fn clear(&mut self) {
        self.first = None;
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_in_the_order_in_which_they_came_however_many_there_are() {
        let mut in_flight = InFlightQueue::default();
        let (mut pushed, mut popped) = (0, 0);
        // All lengths from 0 to 4, growing and shrinking.
        for length in [1, 0, 3, 1, 4, 0, 2, 2, 0] {
            while in_flight.len() < length {
                in_flight.push(InFlight {
                    due_ns: pushed,
                    sent_ns: pushed,
                    late_ns: 0,
                    number: 0,
                    waited: false,
                });
                pushed += 1;
            }
            while in_flight.len() > length {
                assert_eq!(in_flight.first().map(|request| request.due_ns), Some(popped));
                assert_eq!(in_flight.pop().map(|request| request.due_ns), Some(popped));
                popped += 1;
            }
            assert_eq!(in_flight.is_empty(), length == 0);
        }
        assert!(in_flight.pop().is_none());
        in_flight.push(InFlight { due_ns: 0, sent_ns: 0, late_ns: 0, number: 0, waited: false });
        in_flight.push(InFlight { due_ns: 1, sent_ns: 1, late_ns: 0, number: 0, waited: false });
        in_flight.clear();
        assert_eq!(in_flight.len(), 0);
    }
}
