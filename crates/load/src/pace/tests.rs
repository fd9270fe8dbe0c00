use super::*;

const S: u64 = 1_000_000_000;
/// Even arrivals ignore the seed.
const EVEN: (Arrivals, u64) = (Arrivals::Even, 0);

fn stage(from_per_s: f64, to_per_s: f64, seconds: Option<u64>) -> Ramp {
    Ramp { from_per_s, to_per_s, duration: seconds.map(Duration::from_secs) }
}

/// The times of all threads' requests before `end_ns`, in order.
fn times(
    arrivals: (Arrivals, u64),
    stages: &[Ramp],
    threads: usize,
    warmup_ns: u64,
    end_ns: u64,
) -> Vec<u64> {
    let mut times = Vec::new();
    for thread in 0..threads {
        let mut schedule = Schedule::new(arrivals, stages, (thread, threads), (7, 7 + warmup_ns));
        while schedule.due_ns() < 7 + end_ns {
            times.push(schedule.due_ns() - 7);
            schedule.advance();
        }
    }
    times.sort_unstable();
    times
}

/// Expects this many even arrivals in each second, with any number of threads.
fn check(stages: &[Ramp], warmup_s: u64, a_second: &[usize]) {
    for threads in [1, 2, 3, 8] {
        let end_ns = a_second.len() as u64 * S;
        let times = times(EVEN, stages, threads, warmup_s * S, end_ns);
        // A mark on the edge of a second may be off by a nanosecond.
        let count = |second: u64| {
            times.iter().filter(|&&time_ns| (time_ns + 2) / S == second && time_ns + 2 < end_ns).count()
        };
        let counted: Vec<usize> = (0..a_second.len() as u64).map(count).collect();
        assert_eq!(counted, a_second, "{threads} threads");
    }
}

#[test]
fn a_constant_rate_is_held_from_the_first_nanosecond() {
    check(&[stage(1000.0, 1000.0, None)], 0, &[1000, 1000, 1000]);
    check(&[stage(1.0, 1.0, None)], 1, &[1, 1, 1, 1]);
}

#[test]
fn a_step_begins_when_the_one_before_it_ends() {
    let stages = [stage(100.0, 100.0, Some(1)), stage(300.0, 300.0, Some(1)), stage(50.0, 50.0, None)];
    check(&stages, 1, &[100, 100, 300, 50, 50]);
}

#[test]
fn a_ramp_asks_for_the_area_below_it() {
    // From 0 to 400 in 4 s: 50, 150, 250, 350 requests a second, and the last rate ever after.
    check(&[stage(0.0, 400.0, Some(4)), stage(400.0, 400.0, None)], 0, &[50, 150, 250, 350, 400]);
    check(&[stage(400.0, 0.0, Some(4)), stage(0.0, 0.0, None)], 0, &[350, 250, 150, 50, 0, 0]);
}

#[test]
fn a_ramp_from_nothing_begins_when_what_is_before_it_ends() {
    check(&[stage(100.0, 100.0, Some(1)), stage(0.0, 200.0, Some(1))], 1, &[100, 100, 100]);
}

#[test]
fn a_pause_has_no_requests_and_ends() {
    check(
        &[stage(10.0, 10.0, Some(1)), stage(0.0, 0.0, Some(2)), stage(10.0, 10.0, None)],
        0,
        &[10, 0, 0, 10],
    );
}

#[test]
fn even_arrivals_lie_at_equal_distances_however_many_threads_share_them() {
    let times = times(EVEN, &[stage(8000.0, 8000.0, None)], 3, 0, S);
    assert!(times.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(125_000) <= 1));
}

#[test]
fn poisson_arrivals_have_the_rate_and_the_spread_of_their_law_and_repeat_with_their_seed() {
    let stages = [stage(5000.0, 5000.0, None)];
    for threads in [1, 4] {
        let of = |seed| times((Arrivals::Poisson, seed), &stages, threads, 0, 20 * S);
        let times = of(1);
        // 100,000 are due, with a standard deviation of 316: five of them are beyond chance.
        assert!(times.len().abs_diff(100_000) < 1_600, "{} arrivals", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Exponential gaps have equal mean and standard deviation; here within 2 %.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
        assert_eq!(times, of(1));
        assert_ne!(times, of(2));
    }
}

/// Expects the number due before each of many times to match an actual walk, from each request on.
fn check_due_before(arrivals: (Arrivals, u64), stages: &[Ramp], warmup_s: u64) {
    for (thread, threads) in [(0, 1), (1, 3), (2, 3)] {
        let mut from = Schedule::new(arrivals, stages, (thread, threads), (7, 7 + warmup_s * S));
        let mut dues_ns = Vec::new();
        let mut walked = from.clone();
        while walked.due_ns() < 7 + 6 * S {
            dues_ns.push(walked.due_ns());
            walked.advance();
        }
        for sent in 0..dues_ns.len() {
            let rest = &dues_ns[sent..];
            let edges_ns = rest.iter().step_by(17).flat_map(|due_ns| [due_ns - 1, *due_ns, due_ns + 1]);
            for end_ns in edges_ns.chain([0, 7, 7 + 3 * S, 7 + 6 * S]) {
                let expected = rest.partition_point(|&due_ns| due_ns < end_ns) as u64;
                assert_eq!(from.due_before(end_ns), expected, "{arrivals:?} after {sent}, before {end_ns}");
            }
            from.advance();
        }
    }
}

#[test]
fn what_is_left_of_a_schedule_is_counted_without_a_walk_and_is_the_same() {
    let stages = [stage(40.0, 40.0, Some(1)), stage(0.0, 0.0, Some(1)), stage(0.0, 60.0, Some(2))];
    for arrivals in [EVEN, (Arrivals::Poisson, 3)] {
        check_due_before(arrivals, &stages, 1);
        check_due_before(arrivals, &[stage(70.0, 0.0, Some(3)), stage(30.0, 30.0, None)], 0);
    }
}

#[test]
fn a_day_of_ten_million_a_second_is_counted_without_counting_each() {
    // Counting them one by one would take hours.
    const REQUESTS: u64 = 864_000_000_000;
    let stages = [stage(1e7, 1e7, None)];
    let due = |arrivals| Schedule::new(arrivals, &stages, (0, 1), (0, 0)).due_before(86_400 * S);
    assert_eq!(due(EVEN), REQUESTS);
    let random = due((Arrivals::Poisson, 1));
    // The standard deviation of those counted one by one is 2048.
    assert!(random.abs_diff(REQUESTS) < 5 * 2048, "{random} requests");
}

#[test]
fn what_a_profile_asks_for_is_what_its_schedule_gives() {
    let stages = [stage(100.0, 300.0, Some(2)), stage(50.0, 50.0, None)];
    for (seconds, requests) in [(0.0, 0.0), (1.0, 150.0), (2.0, 400.0), (4.0, 500.0)] {
        assert_eq!(due_in(stages.iter().copied(), seconds), requests);
    }
}
