//! `iolab-engine path`: a network path with a delay, a rate, a queue and loss between two ends on this machine.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{self, Command, ExitCode, ExitStatus};
use std::thread;

use contract::{
    Carried, PathEnd, PathReady, PathReport, PathSpec, PathWord, ReadyWord, ReportWord, Role, Version,
};
use netpath::{End, Path};

use crate::failure::Failure;
use crate::flags::PathFlags;
use crate::output;
use crate::process::supervision::{self, Owner};
use crate::spec::check::{self, Names};
use crate::units::{bytes, count, duration_ns};

/// The environment variable with the address of the server's end.
const SERVER_VARIABLE: &str = "IOLAB_PATH_SERVER";

/// Runs the command. If the user gave a command to run, returns its exit code.
pub(crate) fn command(flags: &PathFlags) -> ExitCode {
    if flags.spec.is_some() {
        return supervision::finish(for_a_program(), Owner::Program, Role::Path);
    }
    let spec = flags.to_spec();
    let opened = check::path(&spec, Names::Flags).and_then(|()| open(&spec));
    let ended = opened.and_then(|path| match flags.command.split_first() {
        None => until_signal(path).map(|()| ExitCode::SUCCESS),
        Some((program, arguments)) => until_command_ends(path, Command::new(program).args(arguments)),
    });
    ended.unwrap_or_else(|failure| supervision::finish(Err(failure), Owner::Person, Role::Path))
}

/// Carries packets until standard input ends, and reports after each line of it.
fn for_a_program() -> Result<(), Failure> {
    let spec = supervision::read_spec()?;
    check::path(&spec, Names::Fields)?;
    let mut path = open(&spec)?;
    let (mut asked, ask) = io::pipe()?;
    path.watch(&asked)?;
    // The reading end stays open as long as this process.
    supervision::answer_input(move |_| (&ask).write_all(b"\n").unwrap_or_default(), || ())?;
    let mut account = Account::begin();
    output::line(&contract::line(&ready(&path)));
    loop {
        path.carry()?;
        for _ in 0..asked.read(&mut [0; 64])? {
            output::line(&contract::line(&account.report(&mut path)?));
        }
    }
}

/// Prints how to enter each end, and carries packets until Ctrl-C.
fn until_signal(mut path: Path) -> Result<(), Failure> {
    let (end, stop) = io::pipe()?;
    path.watch(&end)?;
    sys::process::hold_termination()?;
    thread::Builder::new().name("supervision".into()).spawn(move || {
        sys::process::wait_for_termination();
        drop(stop);
    })?;
    let mut account = Account::begin();
    output::line(&greeting(&path));
    path.carry()?;
    output::line(&summary(&account.report(&mut path)?));
    Ok(())
}

/// Runs a command at the client's end, carries packets until it ends, and returns its exit code. Standard output
/// belongs to the command.
fn until_command_ends(mut path: Path, command: &mut Command) -> Result<ExitCode, Failure> {
    let (end, stop) = io::pipe()?;
    path.watch(&end)?;
    // Ctrl-C reaches the command too, which decides what to do.
    sys::process::hold_interrupt()?;
    path.lacks().iter().for_each(|lack| output::say(&format!("without {lack}")));
    command.env(SERVER_VARIABLE, path.server().address.to_string());
    path.load().namespace.contain(command);
    let mut account = Account::begin();
    let mut child = command.spawn().map_err(|error| {
        let program = command.get_program().display();
        Failure::request("cannot_start", format!("{program} cannot be started: {error}"))
    })?;
    let waiting = thread::Builder::new().name("command".into()).spawn(move || {
        let status = child.wait();
        drop(stop);
        status
    })?;
    path.carry()?;
    output::say(&summary(&account.report(&mut path)?));
    let status = waiting.join().expect("it waits and nothing else")?;
    Ok(ExitCode::from(code_of(status)))
}

fn open(spec: &PathSpec) -> Result<Path, Failure> {
    Path::open(spec).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => ": load the kernel's module tun, or give the container /dev/net/tun",
            ErrorKind::PermissionDenied => {
                ": run it as root, or allow this user user namespaces and /dev/net/tun"
            }
            _ => "",
        };
        Failure::machine("unavailable", format!("no path can be made on this machine: {error}{advice}"))
    })
}

/// The clock readings at the last report.
struct Account {
    wall_ns: u64,
    cpu_ns: u64,
}

impl Account {
    /// Reads the clocks of the calling thread, which must be the one that carries.
    fn begin() -> Self {
        Self { wall_ns: sys::clock::monotonic_ns(), cpu_ns: sys::clock::thread_cpu_ns() }
    }

    /// What has been carried since the last report.
    fn report(&mut self, path: &mut Path) -> io::Result<PathReport> {
        let before = std::mem::replace(self, Self::begin());
        let [to_server, to_load] = path.report()?;
        Ok(PathReport {
            schema: Version,
            event: ReportWord::Is,
            role: PathWord::Is,
            to_server,
            to_load,
            wall_ns: self.wall_ns - before.wall_ns,
            cpu_ns: self.cpu_ns - before.cpu_ns,
        })
    }
}

fn ready(path: &Path) -> PathReady {
    let end = |end: &End| PathEnd { address: end.address, netns: file(end) };
    PathReady {
        schema: Version,
        event: ReadyWord::Is,
        role: PathWord::Is,
        server: end(path.server()),
        load: end(path.load()),
        pid: process::id(),
        build: crate::BUILD.to_owned(),
        lacks: path.lacks(),
    }
}

/// The file of an end's network namespace, for other processes.
fn file(end: &End) -> PathBuf {
    format!("/proc/{}/fd/{}", process::id(), end.namespace.descriptor()).into()
}

fn greeting(path: &Path) -> String {
    let user = if path.is_of_own_user() {
        format!("--user=/proc/{}/ns/user --preserve-credentials ", process::id())
    } else {
        String::new()
    };
    let side = |name: &str, end: &End| {
        format!("{name} at {}: nsenter {user}--net={} COMMAND", end.address, file(end).display())
    };
    let mut lines = vec![side("the server", path.server()), side("the client", path.load())];
    lines.extend(path.lacks().iter().map(|lack| format!("without {lack}")));
    lines.push("Ctrl-C ends the path".to_owned());
    lines.join("\n")
}

/// A line for each direction.
fn summary(report: &PathReport) -> String {
    let direction = |name: &str, carried: &Carried| {
        let Carried { dropped, lost, overrun, overflowed, late_ns_p99, late_ns_max, .. } = *carried;
        let more = |packets, why| match packets {
            0 => String::new(),
            _ => format!(", {} dropped because {why}", count(packets)),
        };
        let unplanned =
            more(overrun, "this machine was too slow") + &more(overflowed, "too many were in transit");
        format!(
            "{name}: {} packets ({}), {} dropped at the queue, {} lost{unplanned}; late by {} (p99), {} (max)",
            count(carried.packets),
            bytes(carried.bytes as f64),
            count(dropped),
            count(lost),
            duration_ns(late_ns_p99 as f64),
            duration_ns(late_ns_max as f64)
        )
    };
    [direction("to the server", &report.to_server), direction("to the client", &report.to_load)].join("\n")
}

/// The exit code that a shell reports: 128 plus the signal for a killed command.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(u8::MAX)
}
