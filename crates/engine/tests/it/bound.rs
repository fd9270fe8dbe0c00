//! What limited a run, on a machine set up for it: with a hog beside the generator, or with a server that computes.

use std::hint::spin_loop;
use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::process::{self, Supervised};
use serde_json::Value;

const WORKERS: &str = r#"{"protocol":"rpc","work_ns":1000000}"#;
const QUICK: &str = r#"{"protocol":"rpc","target":1}"#;

/// Above this share of its time the generator reports that it lacked a processor.
const DELAY_SHARE_MAX: f64 = 0.05;
/// Above this share the generator reports that it was the limit.
const DELAY_SHARE_LIMIT: f64 = 0.15;
/// Above this its sends are late.
const LATENESS_P99_NS_MAX: f64 = 1e6;

/// Loads an rpc server with `flags`, with the generator on a processor that nothing else of this test uses, and expects
/// the limit `by`.
///
/// Other work on the machine may take the generator's processor. Then its own figures show that, and it must report it.
/// The rules themselves are tested on data, in result/validity.
fn check(workload: &str, flags: &str, by: &str) {
    let report = load(workload, flags, false);
    let was_disturbed = delay_share(&report) >= DELAY_SHARE_MAX
        || number(&report, "/views/lateness_ns/p99") > LATENESS_P99_NS_MAX;
    let is_expected = report["bound"]["by"] == by;
    assert!(is_expected || (was_disturbed && !is_sound(&report)), "{flags}: {report}");
}

/// The same with a hog beside the generator, which must report that it was the limit.
///
/// Other work on the machine may slow the server, so that the generator seldom needs the hog's processor. Such a run
/// shows nothing and is repeated.
fn check_hog(flags: &str) {
    let mut runs = iter::repeat_with(|| load(QUICK, flags, true)).take(20);
    let report = runs.find(|report| delay_share(report) >= DELAY_SHARE_LIMIT);
    let report = report.expect("the hog takes its share of the processor in one of the runs");
    assert!(report["bound"]["by"] == "generator" && !is_sound(&report), "{flags}: {report}");
}

/// The report of a run on the last processor, where a hog may run too. Checks that the exit code matches it.
fn load(workload: &str, flags: &str, has_hog: bool) -> Value {
    let cpu = *sys::cpu::allowed().expect("the kernel says").last().expect("this runs on one");
    let (_server, address) = Supervised::server("epoll", workload);
    let line =
        format!("load tcp://{address} --protocol rpc -z 800ms --warmup 100ms --json --strict --cpus {cpu}");
    let outcome = beside_hog(cpu, has_hog, || process::engine(&format!("{line} {flags}")));
    let report: Value = serde_json::from_str(&outcome.stdout).expect("it reports");
    assert_eq!(outcome.code, Some(i32::from(!is_sound(&report))), "{report}");
    assert!(report["bound"]["by"] != "generator" || !is_sound(&report), "{report}");
    report
}

fn is_sound(report: &Value) -> bool {
    report["unsound"].as_array().is_some_and(Vec::is_empty)
}

/// The share of the window in which the generator was runnable without a processor.
fn delay_share(report: &Value) -> f64 {
    number(report, "/generator/run_delay_ns") / number(report, "/generator/wall_ns")
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_default()
}

/// Runs `run` while a thread of this process spins on that processor.
fn beside_hog<T>(cpu: usize, has_hog: bool, run: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(!has_hog);
    thread::scope(|scope| {
        scope.spawn(|| {
            sys::cpu::pin(&[cpu]).expect("it is allowed");
            while !is_over.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
        let result = run();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_generator_that_shares_its_processor_says_that_it_was_the_limit() {
    check_hog("-c 50");
    check_hog("-c 50 --rate 20k");
    check_hog("-c 50 --driver io_uring");
}

#[test]
fn a_server_that_works_for_each_request_is_the_limit() {
    check(WORKERS, "-c 8", "server");
    check(WORKERS, "-c 8 --rate 3000", "server");
    check(WORKERS, "-c 8 --driver io_uring", "server");
}

#[test]
fn a_rate_that_both_hold_is_the_limit_itself() {
    check(QUICK, "-c 8 --rate 500", "rate");
}
