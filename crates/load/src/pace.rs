//! When requests are due. Nothing here reads the clock, so a late wake-up cannot shift the schedule.
//!
//! Arrivals are marks at unit rate: evenly spaced, or a Poisson process. A profile of rates maps a mark to the time by
//! which that many requests are due. So rates, ramps and steps share one rule.

use std::time::Duration;

use contract::{Arrivals, Stage};

/// A stage with a duration in nanoseconds, which the warm-up before the stages needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ramp {
    pub(crate) from_per_s: f64,
    pub(crate) to_per_s: f64,
    /// None only for the last one, which stays at `to_per_s` for ever.
    pub(crate) duration: Option<Duration>,
}

impl From<&Stage> for Ramp {
    fn from(stage: &Stage) -> Self {
        let Stage { from_per_s, to_per_s, duration_ms } = *stage;
        Self { from_per_s, to_per_s, duration: duration_ms.map(Duration::from_millis) }
    }
}

impl Ramp {
    fn seconds(&self) -> f64 {
        self.duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64())
    }

    /// The number of requests due within it.
    fn marks(&self) -> f64 {
        match self.duration {
            None if self.to_per_s > 0.0 => f64::INFINITY,
            None => 0.0,
            Some(_) => self.seconds() * (self.from_per_s + self.to_per_s) / 2.0,
        }
    }

    /// The number of requests due within its first `time_s` seconds.
    fn marks_by(&self, time_s: f64) -> f64 {
        let Some(duration) = self.duration else { return self.to_per_s * time_s };
        let slope = (self.to_per_s - self.from_per_s) / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        time_s * (self.from_per_s + slope * time_s / 2.0)
    }

    /// The seconds after which `marks` requests are due.
    fn time_s(&self, marks: f64) -> f64 {
        if marks <= 0.0 {
            // The formula would divide by zero at the start of a ramp from zero.
            return 0.0;
        }
        let Some(duration) = self.duration else { return marks / self.to_per_s };
        let slope = (self.to_per_s - self.from_per_s) / duration.as_secs_f64();
        // The root of `from t + slope t²/2 = marks`, in a form that is also valid without a slope.
        let root = (self.from_per_s * self.from_per_s + 2.0 * slope * marks).max(0.0).sqrt();
        2.0 * marks / (self.from_per_s + root)
    }
}

/// One thread's part of a schedule. With n threads it has every n-th of even arrivals. Of Poisson arrivals it has an
/// independent process at its share of the rate; together they form a Poisson process at the whole rate.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    marks: Marks,
    stages: Vec<Ramp>,
    /// The stage of the next request, and where it begins.
    stage: usize,
    stage_begin_ns: f64,
    stage_begin_mark: f64,
    start_ns: u64,
    due_ns: u64,
}

/// At most this many random requests are counted one by one, which takes less than a tenth of a second. For more, the
/// expected number is nearly always right within 1/2000.
const WALKED_MAX: u64 = 1 << 22;

/// Arrivals at unit rate.
#[derive(Clone, Debug)]
struct Marks {
    next: f64,
    step: f64,
    random: Option<fastrand::Rng>,
}

impl Marks {
    fn new(arrivals: Arrivals, seed: u64, thread: usize, threads: usize) -> Self {
        match arrivals {
            Arrivals::Even => Self { next: thread as f64, step: threads as f64, random: None },
            Arrivals::Poisson => {
                // Random seeds for the threads, because neighbouring seeds would give similar streams.
                let mut seeds = fastrand::Rng::with_seed(seed);
                let seed = (0..=thread).map(|_| seeds.u64(..)).last().unwrap_or(seed);
                let random = fastrand::Rng::with_seed(seed);
                let mut marks = Self { next: 0.0, step: threads as f64, random: Some(random) };
                marks.advance();
                marks
            }
        }
    }

    fn advance(&mut self) {
        self.next += match &mut self.random {
            None => self.step,
            // 1 - u is in (0, 1], so the logarithm is finite.
            Some(random) => -(1.0 - random.f64()).ln() * self.step,
        };
    }
}

impl Schedule {
    /// The schedule of thread `thread` of `threads`. It starts at `start_ns` with the first rate. The stages begin at
    /// `begin_ns`.
    pub(crate) fn new(
        (arrivals, seed): (Arrivals, u64),
        stages: &[Ramp],
        (thread, threads): (usize, usize),
        (start_ns, begin_ns): (u64, u64),
    ) -> Self {
        let first_per_s = stages.first().map_or(0.0, |stage| stage.from_per_s);
        let warmup = Ramp {
            from_per_s: first_per_s,
            to_per_s: first_per_s,
            duration: Some(Duration::from_nanos(begin_ns - start_ns)),
        };
        let mut schedule = Self {
            marks: Marks::new(arrivals, seed, thread, threads),
            stages: [&[warmup], stages].concat(),
            stage: 0,
            stage_begin_ns: 0.0,
            stage_begin_mark: 0.0,
            start_ns,
            due_ns: 0,
        };
        schedule.settle();
        schedule
    }

    /// When the next request is due. `u64::MAX` if there is none.
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Whether all requests have been sent.
    pub(crate) fn is_spent(&self) -> bool {
        self.due_ns == u64::MAX
    }

    /// How many requests are due before `end_ns`, from the next one on. Even arrivals are computed. Random ones are
    /// counted one by one up to [`WALKED_MAX`], and estimated beyond that.
    pub(crate) fn due_before(&self, end_ns: u64) -> u64 {
        let mut rest = self.clone();
        let mut count = if rest.marks.random.is_none() { rest.skip_towards(end_ns) } else { 0 };
        while rest.due_ns < end_ns {
            if count == WALKED_MAX && rest.marks.random.is_some() {
                return count + 1 + rest.steps_to(end_ns) as u64;
            }
            rest.advance();
            count += 1;
        }
        count
    }

    /// Skips even requests due before `end_ns`, except the last few, and returns how many. The last few are compared
    /// with `end_ns` by their exact times.
    fn skip_towards(&mut self, end_ns: u64) -> u64 {
        let steps = (self.steps_to(end_ns) - 1.0).max(0.0).floor();
        self.marks.next += steps * self.marks.step;
        self.settle();
        steps as u64
    }

    /// The number of mean gaps between the next request and `end_ns`.
    fn steps_to(&self, end_ns: u64) -> f64 {
        let seconds = end_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        ((due_in(self.stages.iter().copied(), seconds) - self.marks.next) / self.marks.step).max(0.0)
    }

    /// Advances to the next request.
    pub(crate) fn advance(&mut self) {
        self.marks.advance();
        self.settle();
    }

    /// Finds the time of the next mark.
    fn settle(&mut self) {
        while let Some(stage) = self.stages.get(self.stage) {
            let marks = self.marks.next - self.stage_begin_mark;
            if marks < stage.marks() {
                let time_ns = self.stage_begin_ns + 1e9 * stage.time_s(marks);
                self.due_ns = self.start_ns + time_ns as u64;
                return;
            }
            self.stage_begin_mark += stage.marks();
            self.stage_begin_ns += 1e9 * stage.seconds();
            self.stage += 1;
        }
        self.due_ns = u64::MAX;
    }
}

/// The number of requests due in the first `seconds` of the window.
pub fn expected(stages: &[Stage], seconds: f64) -> f64 {
    due_in(stages.iter().map(Ramp::from), seconds)
}

fn due_in(ramps: impl Iterator<Item = Ramp>, seconds: f64) -> f64 {
    let (mut left_s, mut marks) = (seconds, 0.0);
    for ramp in ramps {
        let time_s = left_s.min(ramp.seconds());
        marks += ramp.marks_by(time_s);
        left_s -= time_s;
        if left_s <= 0.0 {
            break;
        }
    }
    marks
}

#[cfg(test)]
mod tests;
