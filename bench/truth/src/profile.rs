//! What a request gets and when, as a function of when the requests came. No clock and no I/O.

/// How a server keeps its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    /// Each for the same time, side by side.
    Fixed { delay_ns: u64 },
    /// A share of them, drawn at random, for longer.
    Mix { delay_ns: u64, slow_ns: u64, share: f64 },
    /// Each for the same time, in which stalls do not count.
    Stall { delay_ns: u64, stall_ns: u64, period_ns: u64 },
    /// One after the other.
    Queue { service_ns: u64 },
    /// Not at all while there are tokens, else until one comes: one in each interval, and a burst is kept.
    Bucket { interval_ns: u64, burst: u64 },
    /// Each for the same time, and a share of them gets something else than a good reply.
    Faults { delay_ns: u64, share: f64, kind: Kind },
}

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Right = 0,
    Wrong = 1,
    Unavailable = 2,
    Reset = 3,
}

/// What a request gets, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) due_ns: u64,
    pub(crate) kind: Kind,
}

/// A profile at work.
pub(crate) struct Answers {
    profile: Profile,
    random: u64,
    /// When the first request came: stalls are counted from there.
    origin_ns: Option<u64>,
    /// When the one server of a queue is free again, or when a bucket is full again.
    free_ns: u64,
}

impl Answers {
    pub(crate) fn new(profile: Profile, seed: u64) -> Self {
        Self { profile, random: seed, origin_ns: None, free_ns: 0 }
    }

    pub(crate) fn origin_ns(&self) -> Option<u64> {
        self.origin_ns
    }

    /// The answer of the next request. The first one of all is a good one, because generators learn from it what is
    /// right.
    pub(crate) fn next(&mut self, arrival_ns: u64) -> Answer {
        let first = self.origin_ns.is_none();
        let origin_ns = *self.origin_ns.get_or_insert(arrival_ns);
        let right = |kept_ns: u64| Answer { due_ns: arrival_ns + kept_ns, kind: Kind::Right };
        match self.profile {
            Profile::Fixed { delay_ns } => right(delay_ns),
            Profile::Mix { delay_ns, slow_ns, share } => {
                right(if self.drawn(share) { slow_ns } else { delay_ns })
            }
            Profile::Stall { delay_ns, stall_ns, period_ns } => {
                let phase_ns = (arrival_ns - origin_ns + period_ns / 2) % period_ns;
                right(delay_ns + stalled_ns(phase_ns, delay_ns, stall_ns, period_ns))
            }
            Profile::Queue { service_ns } => {
                self.free_ns = self.free_ns.max(arrival_ns) + service_ns;
                Answer { due_ns: self.free_ns, kind: Kind::Right }
            }
            Profile::Bucket { interval_ns, burst } => {
                self.free_ns = self.free_ns.max(arrival_ns) + interval_ns;
                let due_ns = arrival_ns.max(self.free_ns.saturating_sub(burst * interval_ns));
                Answer { due_ns, kind: Kind::Right }
            }
            Profile::Faults { delay_ns, share, kind } => {
                let faulty = self.drawn(share) && !first;
                Answer { kind: if faulty { kind } else { Kind::Right }, ..right(delay_ns) }
            }
        }
    }

    /// Whether the next draw falls within the share. SplitMix64, by Steele, Lea and Flood.
    fn drawn(&mut self, share: f64) -> bool {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // 53 bits, as many as a float takes.
        ((mixed >> 11) as f64) < share * (1_u64 << 53) as f64
    }
}

/// How much longer a request is kept for stalls, which are the first part of each period: what is left of the one it
/// came in, or the whole of the one that begins while it is being kept.
fn stalled_ns(phase_ns: u64, delay_ns: u64, stall_ns: u64, period_ns: u64) -> u64 {
    if phase_ns < stall_ns {
        stall_ns - phase_ns
    } else if phase_ns + delay_ns > period_ns {
        stall_ns
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Requests that come at these times, in tenths of a millisecond, are answered at those.
    fn check(profile: Profile, cases: &[(u64, u64)]) {
        let mut answers = Answers::new(profile, 1);
        for &(arrival, due) in cases {
            let expected = Answer { due_ns: due * MS / 10, kind: Kind::Right };
            assert_eq!(answers.next(arrival * MS / 10), expected, "{profile:?}, came at {arrival}");
        }
    }

    #[test]
    fn delays_run_side_by_side() {
        check(Profile::Fixed { delay_ns: MS }, &[(70, 80), (70, 80), (75, 85)]);
    }

    #[test]
    fn a_queue_serves_one_after_the_other() {
        check(Profile::Queue { service_ns: MS }, &[(0, 10), (1, 20), (25, 35), (50, 60)]);
    }

    #[test]
    fn a_bucket_answers_a_burst_at_once_and_then_one_request_in_each_interval() {
        let profile = Profile::Bucket { interval_ns: MS, burst: 2 };
        check(profile, &[(0, 0), (0, 0), (0, 10), (5, 20), (100, 100), (100, 100), (100, 110)]);
    }

    #[test]
    fn what_comes_in_a_stall_is_answered_a_delay_after_its_end() {
        let profile = Profile::Stall { delay_ns: MS, stall_ns: 10 * MS, period_ns: 100 * MS };
        // The first comes at 7 ms, so that stalls begin at 57 ms, 157 ms and so on.
        check(profile, &[(70, 80), (550, 560), (570, 680), (600, 680), (669, 680), (670, 680), (1580, 1680)]);
    }

    #[test]
    fn what_is_being_kept_when_a_stall_begins_is_kept_longer_by_the_stall() {
        let profile = Profile::Stall { delay_ns: MS, stall_ns: 10 * MS, period_ns: 100 * MS };
        check(profile, &[(0, 10), (490, 500), (495, 605)]);
    }

    /// How many of many requests are not answered well after a delay.
    fn count(profile: Profile, of: u32) -> usize {
        let mut answers = Answers::new(profile, 7);
        let usual = Answer { due_ns: MS, kind: Kind::Right };
        (0..of).filter(|_| answers.next(0) != usual).count()
    }

    #[test]
    fn a_share_is_drawn() {
        let slow = Profile::Mix { delay_ns: MS, slow_ns: 100 * MS, share: 0.01 };
        assert!((900..1100).contains(&count(slow, 100_000)));
        for kind in [Kind::Wrong, Kind::Unavailable, Kind::Reset] {
            let faulty = |share| Profile::Faults { delay_ns: MS, share, kind };
            assert!((900..1100).contains(&count(faulty(0.01), 100_000)));
            assert_eq!(count(faulty(0.0), 1000), 0);
            assert_eq!(count(faulty(1.0), 1000), 999, "the first one is good");
        }
    }
}
