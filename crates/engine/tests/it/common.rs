//! The real engine as a child process, used through the contract.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;

pub(crate) const ENGINE: &str = env!("CARGO_BIN_EXE_iolab-engine");

/// An engine that is silent for this long hangs: the longest silence expected here is a run of a few seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A supervised engine, killed when this value is dropped.
pub(crate) struct Engine {
    child: Child,
    /// The engine lives while this is open.
    stdin: ChildStdin,
    events: Receiver<String>,
}

impl Engine {
    /// Starts `serve` or `load`, depending on the spec.
    pub(crate) fn start(spec: &Value) -> Self {
        Self::start_by(&mut Command::new(ENGINE), spec)
    }

    /// The same through another command that runs it or becomes it.
    pub(crate) fn start_by(command: &mut Command, spec: &Value) -> Self {
        let role = spec["role"].as_str().expect("a spec has a role");
        let mut child = command
            .args([role, "--spec", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the engine starts");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        writeln!(stdin, "{spec}").expect("the engine takes its spec");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let (teller, events) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Without a receiver the engine has been dropped.
                let _ = teller.send(line);
            }
        });
        Self { child, stdin, events }
    }

    /// The next event; None if the engine has ended or hangs.
    pub(crate) fn event(&self) -> Option<Value> {
        let line = self.events.recv_timeout(SILENCE_MAX).ok()?;
        Some(serde_json::from_str(&line).expect("an event is a line of JSON"))
    }

    /// Sends it a line.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("the engine reads its input");
    }

    /// The counts of a server so far.
    pub(crate) fn served(&mut self) -> Value {
        self.say("");
        let served = self.event().expect("the engine answers");
        assert_eq!(served["event"], "served", "{served}");
        served
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked after")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
