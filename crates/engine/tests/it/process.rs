//! The engine as its users run it: a process with arguments, pipes and an exit code.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far longer than anything takes here on a busy machine; only a hang takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The exit code and output of a finished process.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the engine to its end, with an empty standard input.
pub(crate) fn engine(arguments: &str) -> Outcome {
    outcome(&mut command(arguments))
}

/// Runs a command to its end, with an empty standard input.
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output().expect("the engine can be started");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("its output is text"),
        stderr: String::from_utf8(output.stderr).expect("its errors are text"),
    }
}

pub(crate) fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolab-engine"));
    command.args(arguments.split_whitespace());
    command
}

/// A supervised engine, killed when this value is dropped.
pub(crate) struct Supervised {
    child: Child,
    stdin: Option<ChildStdin>,
    events: BufReader<ChildStdout>,
}

impl Supervised {
    /// Starts `iolab-engine ROLE --spec -` and sends its spec.
    pub(crate) fn start(role: &str, spec: &str) -> Self {
        let mut child = command(&format!("{role} --spec -"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the engine can be started");
        let mut stdin = child.stdin.take().expect("it is piped");
        writeln!(stdin, "{spec}").expect("the engine reads its spec");
        let events = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, stdin: Some(stdin), events }
    }

    /// A ready server and its address.
    pub(crate) fn server(model: &str, workload: &str) -> (Self, SocketAddr) {
        Self::server_on(Ipv4Addr::LOCALHOST, model, workload)
    }

    /// The same on a port of `host`.
    pub(crate) fn server_on(host: Ipv4Addr, model: &str, workload: &str) -> (Self, SocketAddr) {
        let spec = format!(
            r#"{{"schema":1,"role":"serve","model":"{model}","workload":{workload},"listen":["{host}:0"]}}"#
        );
        let mut server = Self::start("serve", &spec);
        let ready = server.event();
        assert_eq!(ready["event"], "ready", "{ready}");
        let listen = ready["listen"][0].as_str().expect("it says where").parse().expect("it is an address");
        (server, listen)
    }

    /// Waits for the next event.
    pub(crate) fn event(&mut self) -> Value {
        let mut line = String::new();
        self.events.read_line(&mut line).expect("standard output is text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    /// Sends an empty line.
    pub(crate) fn say(&mut self) {
        writeln!(self.stdin.as_mut().expect("its input is open")).expect("the engine reads its input");
    }

    /// Its answer to an empty line.
    pub(crate) fn answer(&mut self) -> Value {
        self.say();
        self.event()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end, and returns the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the engine has not ended after {PATIENCE:?}");
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal, as Ctrl-C and service managers do.
pub(crate) fn signal(name: &str, pid: u32) {
    // The shell's builtin: not every machine has `kill` as a program.
    let status = Command::new("sh").args(["-c", r#"kill -s "$0" "$1""#, name, &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot send {name} to {pid}");
}
