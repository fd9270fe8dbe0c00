use super::*;

#[test]
fn the_rate_of_a_generator_with_time_to_spare_is_said_to_be_the_servers() {
    check(
        1,
        230_000_000,
        0,
        "127,255/s over 50 connections, busy 23 % (the server was the limit), 1.81 µs of ",
    );
}

#[test]
fn the_rate_of_a_busy_generator_is_its_own() {
    check(1, 970_000_000, 0, "127,255/s over 50 connections, busy 97 %, 7.62 µs of processor a request");
}

#[test]
fn threads_that_wait_for_one_processor_are_busy_with_it_together() {
    check(50, 900_000_000, 20_000_000_000, "127,255/s over 50 connections, busy 90 %, 7.07 µs of ");
}

#[test]
fn the_rate_of_a_generator_without_its_processor_is_nobodys() {
    check(
        1,
        230_000_000,
        400_000_000,
        "127,255/s over 50 connections, busy 23 % (the server or the machine was ",
    );
}

/// A window of one second, in which `threads` threads have used, and waited for, a processor for these times in total.
fn check(threads: u64, cpu_ns: u64, run_delay_ns: u64, line: &str) {
    let mut report = ::load::Report::empty(false);
    (report.begin_ns, report.end_ns) = (1_000_000_000, 2_000_000_000);
    report.requests.correct = 127_255;
    report.generator =
        Generator { cpu_ns, wall_ns: threads * 1_000_000_000, run_delay_ns, ..Generator::default() };
    let shown = highest(&report);
    assert!(shown.starts_with(line), "{shown}");
}
