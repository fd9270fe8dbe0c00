//! Children and how they end. A separate program with a single test, because waiting for a child would also reap those
//! of other tests.

use std::panic::resume_unwind;
use std::process::Command;
use std::thread;
use std::time::Duration;

use sys::process::{fork, hold_termination, try_wait_child, wait_child};

#[test]
fn a_child_ends_with_the_code_it_returns_or_by_a_signal_that_its_parent_holds_back() {
    check(|| 0, None, "exit status: 0");
    check(|| 7, None, "exit status: 7");
    check(|| resume_unwind(Box::new(())), None, "exit status: 101");
    check(rest, Some("TERM"), "signal: 15 (SIGTERM)");
    hold_termination().unwrap();
    check(rest, Some("TERM"), "signal: 15 (SIGTERM)");
}

/// Starts a child, sends it the signal if any, and checks how it ends.
fn check(child: impl Fn() -> i32, signal: Option<&str>, expected: &str) {
    for collect in [wait_child, look_for_child] {
        assert!(try_wait_child().unwrap().is_none(), "there is no child yet");
        let pid = fork(&child).unwrap();
        if let Some(signal) = signal {
            // The shell's builtin: not every machine has `kill` as a program.
            let command = ["-c", r#"kill -s "$0" "$1""#, signal, &pid.to_string()];
            let status = Command::new("sh").args(command).status().unwrap();
            assert!(status.success(), "cannot kill {pid}");
        }
        let (ended, status) = collect().unwrap();
        assert_eq!((ended, status.to_string().as_str()), (pid, expected));
    }
}

/// As [`wait_child`], but polling instead of waiting in the kernel.
fn look_for_child() -> std::io::Result<(u32, std::process::ExitStatus)> {
    loop {
        if let Some(found) = try_wait_child()? {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sleeps until it is killed, or for longer than that can take.
fn rest() -> i32 {
    thread::sleep(Duration::from_secs(60));
    0
}
