//! Results during the run: counts and latencies of each slice of time.
//!
//! A thread sends each slice when it ends and starts the next, so memory does not grow with the run. The main thread
//! adds up the slices of all threads.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc;

use contract::Latency;

/// What happened in one slice of the measured window.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its number, from 0.
    pub index: u64,
    pub begin_ns: u64,
    /// The last one may be shorter than the others.
    pub end_ns: u64,
    pub correct: u64,
    pub wrong: u64,
    pub failed: u64,
    /// As in the report of the run.
    pub latency: Latency,
}

impl Slice {
    fn new(index: u64, begin_ns: u64, end_ns: u64) -> Self {
        Self { index, begin_ns, end_ns, correct: 0, wrong: 0, failed: 0, latency: Latency::default() }
    }

    /// Adds the same slice of another thread or process.
    pub fn add(&mut self, other: &Self) {
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.correct += other.correct;
        self.wrong += other.wrong;
        self.failed += other.failed;
        self.latency.add(&other.latency);
    }
}

/// The current slice of a thread.
pub(crate) struct Slicer {
    pub(crate) slice: Slice,
    length_ns: u64,
    finished: mpsc::Sender<Slice>,
}

impl Slicer {
    pub(crate) fn new(length_ns: u64, finished: mpsc::Sender<Slice>) -> Self {
        Self { slice: Slice::new(0, 0, u64::MAX), length_ns, finished }
    }

    /// Starts the window.
    pub(crate) fn begin(&mut self, begin_ns: u64) {
        self.slice = Slice::new(0, begin_ns, begin_ns + self.length_ns);
    }

    /// Sends the slices that have ended.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while now_ns >= self.slice.end_ns {
            let Slice { index, end_ns, .. } = self.slice;
            self.hand_over(Slice::new(index + 1, end_ns, end_ns + self.length_ns));
        }
    }

    /// Ends the window: sends the last slice, and an empty one that marks the end.
    pub(crate) fn end(&mut self, end_ns: u64) {
        self.advance(end_ns);
        if end_ns > self.slice.begin_ns {
            self.slice.end_ns = end_ns;
            self.hand_over(Slice::new(self.slice.index + 1, end_ns, end_ns));
        }
        self.slice.end_ns = self.slice.begin_ns;
        self.hand_over(Slice::new(0, 0, u64::MAX));
    }

    fn hand_over(&mut self, next: Slice) {
        // The receiver exists until every thread has ended.
        let _ = self.finished.send(mem::replace(&mut self.slice, next));
    }
}

/// The sums of the slices of all threads.
pub(crate) struct Slices {
    received: mpsc::Receiver<Slice>,
    threads: usize,
    /// Incomplete sums with the number of threads they include, in order.
    pending: VecDeque<(Slice, usize)>,
    /// For each thread that has ended, the first slice without it.
    ends: Vec<u64>,
}

impl Slices {
    pub(crate) fn new(received: mpsc::Receiver<Slice>, threads: usize) -> Self {
        Self { received, threads, pending: VecDeque::new(), ends: Vec::new() }
    }

    /// Passes on the complete slices: those that all running threads have sent. At the end of a run it passes on all.
    pub(crate) fn pass_on(&mut self, is_end: bool, mut emit: impl FnMut(Slice)) {
        while let Ok(part) = self.received.try_recv() {
            if part.end_ns == part.begin_ns {
                self.ends.push(part.index);
                continue;
            }
            match self.pending.iter_mut().find(|(slice, _)| slice.index == part.index) {
                Some((slice, parts)) => {
                    slice.add(&part);
                    *parts += 1;
                }
                None => self.pending.push_back((part, 1)),
            }
        }
        while self.pending.front().is_some_and(|(slice, parts)| is_end || self.is_whole(slice, *parts)) {
            self.pending.pop_front().into_iter().for_each(|(slice, _)| emit(slice));
        }
    }

    fn is_whole(&self, slice: &Slice, parts: usize) -> bool {
        parts + self.ends.iter().filter(|&&end| end <= slice.index).count() == self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, whose windows of `length_ns` end at `ends_ns`, record a reply at each of `times_ns`. Expects the
    /// number of replies in each slice of 100 ns from 1000 ns on, and the end of the last.
    fn check(times_ns: [&[u64]; 2], ends_ns: [u64; 2], expected: &[u64], end_ns: u64) {
        let (sender, receiver) = mpsc::channel();
        for (times_ns, end_ns) in times_ns.iter().zip(ends_ns) {
            let mut slicer = Slicer::new(100, sender.clone());
            slicer.begin(1000);
            for &time_ns in *times_ns {
                slicer.advance(time_ns);
                slicer.slice.correct += 1;
                slicer.slice.latency.saturating_record(7);
            }
            slicer.end(end_ns);
        }
        drop(sender);
        let mut told = Vec::new();
        Slices::new(receiver, 2).pass_on(true, |slice| told.push(slice));
        assert_eq!(told.iter().map(|slice| slice.correct).collect::<Vec<_>>(), expected);
        assert!(told.iter().zip(0..).all(|(slice, index)| slice.index == index));
        assert!(told.iter().all(|slice| slice.latency.len() == slice.correct));
        assert_eq!(told.last().map(|slice| slice.end_ns), Some(end_ns));
    }

    #[test]
    fn slices_of_all_threads_are_added_up_and_an_empty_one_is_no_gap() {
        check([&[1000, 1050, 1250], &[1099, 1399]], [1400, 1400], &[3, 0, 1, 1], 1400);
    }

    #[test]
    fn the_last_slice_may_be_short_and_threads_may_end_apart() {
        check([&[1000], &[1110]], [1100, 1150], &[1, 1], 1150);
    }

    /// The indices of the slices that are passed on before the end.
    fn passed_on(slices: &mut Slices) -> Vec<u64> {
        let mut indices = Vec::new();
        slices.pass_on(false, |slice| indices.push(slice.index));
        indices
    }

    #[test]
    fn a_slice_is_passed_on_only_when_every_thread_has_handed_it_over() {
        let (sender, receiver) = mpsc::channel();
        let mut slices = Slices::new(receiver, 2);
        let mut slicer = Slicer::new(100, sender);
        slicer.begin(0);
        slicer.advance(250);
        assert!(passed_on(&mut slices).is_empty());
        slicer.begin(0);
        slicer.advance(100);
        assert_eq!(passed_on(&mut slices), [0]);
    }

    /// Of three threads one ends at each of `ends_ns`. Expects all slices up to 500 ns while the last one continues.
    fn check_ends(ends_ns: [u64; 2]) {
        let (sender, receiver) = mpsc::channel();
        let mut slices = Slices::new(receiver, 3);
        let mut slicers = [(); 3].map(|()| Slicer::new(100, sender.clone()));
        slicers.iter_mut().for_each(|slicer| slicer.begin(0));
        for (slicer, end_ns) in slicers.iter_mut().zip(ends_ns) {
            slicer.end(end_ns);
            assert!(passed_on(&mut slices).is_empty(), "the last thread has a part in each: {ends_ns:?}");
        }
        for index in 0..5 {
            slicers[2].advance(100 * (index + 1));
            assert_eq!(passed_on(&mut slices), [index], "{ends_ns:?}");
        }
    }

    #[test]
    fn threads_that_have_ended_are_not_waited_for() {
        check_ends([150, 250]);
        check_ends([200, 100]);
        check_ends([0, 400]);
    }
}
