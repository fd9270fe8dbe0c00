//! Several workers, threads or processes: connections are spread evenly, and a worker process that dies is replaced.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Engine;
use crate::process::{PATIENCE, signal};
use serde_json::{Value, json};

/// The shortest time between two starts of a worker process.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

#[test]
fn connections_are_dealt_out_evenly() {
    for kind in ["thread", "process"] {
        for model in ["blocking", "thread", "thread_pool", "epoll", "io_uring"] {
            check_even(model, kind, 2, 20);
        }
        check_even("epoll", kind, 3, 21);
    }
    check_even("prefork", "process", 2, 20);
}

#[test]
fn workers_accept_from_a_queue_each_or_from_one_between_them() {
    for model in ["select", "poll", "epoll", "libevent"] {
        check_queues(model, "each", 0);
        check_queues(model, "shared", 1);
    }
}

#[test]
fn a_worker_process_that_is_killed_is_started_again_while_the_others_go_on() {
    check_restart(json!({"model": "epoll", "workers": 2}), 20);
    check_restart(json!({"model": "thread_pool", "workers": 2}), 20);
    check_restart(json!({"model": "fork", "workers": 2}), 20);
    check_restart(json!({"model": "prefork", "options": {"processes": "3"}}), 3);
}

#[test]
fn a_worker_process_that_dies_again_and_again_is_started_once_a_second_until_the_server_gives_up() {
    let (mut server, _) = serve(json!({"model": "epoll", "workers": 2}));
    let (mut pid, mut deaths) = (children(server.pid())[0], 0);
    loop {
        let (started, before) = (started(pid), children(server.pid()));
        kill(pid);
        deaths += 1;
        let Some(next) = successor(&mut server, &before) else { break };
        let after = self::started(next) - started;
        assert!(after >= RESTART_PAUSE - TICK, "restart {deaths} came {after:?} after the start before it");
        // On a busy machine it may live long enough to reset the count.
        assert!(deaths < 60, "it is started again for ever");
        pid = next;
    }
    assert!(deaths >= 5, "it gave up after {deaths} deaths");
    let failed = server.event().expect("it says why it gave up");
    let message = failed["message"].as_str().expect("it is text");
    assert!(message.contains("ended 5 times in a row soon after its start"), "{failed}");
}

#[test]
fn a_worker_process_does_not_wait_for_another_that_ends_soon_after_its_start() {
    // A machine that is slower than the restart delay shows nothing.
    assert!((0..20).any(|_| shows_that_none_waits()), "the machine is too slow to see it");
}

/// Ends one worker twice in a row, then the other, and expects the other to be restarted before the first. Returns
/// whether all of this happened during the restart delay of the first.
fn shows_that_none_waits() -> bool {
    let (server, _) = serve(json!({"model": "epoll", "workers": 2}));
    // Both are now old enough to be restarted at once.
    thread::sleep(RESTART_PAUSE);
    let [restless, sound] = children(server.pid())[..] else { panic!("there are two workers") };
    let listener = sockets(restless);
    kill(restless);
    assert!(wait_until(|| matches!(children(server.pid())[..], [first, _] if first == sound)));
    let restless = children(server.pid())[1];
    let put_off_until = started(restless) + RESTART_PAUSE;
    kill(restless);
    assert!(wait_until(|| fs::metadata(format!("/proc/{restless}")).is_err()), "it is not collected");
    kill(sound);
    let mut pair = [0; 2];
    let are_two = wait_until(|| {
        let now = children(server.pid());
        // A worker that has just started still has its parent's descriptors.
        let is_new = now.len() == 2
            && !now.contains(&sound)
            && now.iter().all(|&pid| sockets(pid).len() == listener.len());
        if is_new {
            pair.copy_from_slice(&now);
        }
        is_new
    });
    assert!(are_two, "they are not started again");
    let in_order = sockets(pair[1]) == listener;
    let in_time = started(pair[0]) < put_off_until;
    assert!(in_order || !in_time, "the sound one is not started again before the other");
    in_order
}

#[test]
fn worker_processes_that_all_fail_at_once_are_given_up_as_one_is() {
    let (mut server, _) = serve(json!({"model": "prefork", "options": {"processes": "8"}}));
    let given_up = wait_until(|| {
        children(server.pid()).into_iter().for_each(end);
        server.ended().is_some()
    });
    assert!(given_up, "all are started again for ever");
    let failed = server.event().expect("it says why it gave up");
    let message = failed["message"].as_str().expect("it is text");
    assert!(message.contains("ended 5 times in a row soon after its start"), "{failed}");
}

#[test]
fn worker_processes_die_with_their_server() {
    for model in ["epoll", "prefork", "fork", "thread_pool"] {
        let (server, address) = serve(json!({"model": model, "workers": 2}));
        // A worker's forked child must end too.
        let _client = talk_to(&address);
        let family = descendants(server.pid());
        assert!(family.len() >= 2, "{model} has {} processes below it", family.len());
        kill(server.pid());
        let gone = wait_until(|| family.iter().all(|&pid| !is_alive(pid)));
        assert!(gone, "{model} has left processes");
    }
}

fn check_even(model: &str, kind: &str, workers: usize, connections: usize) {
    let (mut server, ready) = start(json!({"model": model, "workers": workers, "worker_kind": kind}));
    let lacks = ready["lacks"].as_array().expect("it is a list");
    if lacks.iter().flat_map(Value::as_str).any(|lack| lack.starts_with("an even spread")) {
        eprintln!("skipped: {ready}");
        return;
    }
    let address = address_of(&ready);
    let mut clients: Vec<TcpStream> = (0..connections).map(|_| connect(&address)).collect();
    let share = connections / workers;
    // A server for one connection at a time accepts the next when that is closed.
    if model == "blocking" {
        clients.drain(..).for_each(|mut client| assert!(echoes(&mut client)));
    }
    assert!(clients.iter_mut().all(echoes), "{model} does not serve all");
    let taken = taken(&server.served());
    assert_eq!(taken, vec![share as u64; workers], "{model} with workers of kind {kind}");
}

/// Expects two workers to share this many sockets, and to serve all clients between them.
fn check_queues(model: &str, accept: &str, common: usize) {
    let (mut server, address) = serve(json!({"model": model, "workers": 2, "options": {"accept": accept}}));
    // A worker that has just started still has its parent's descriptors.
    let shared = || {
        let [first, second] = children(server.pid())[..] else { panic!("there are two workers") };
        sockets(first).intersection(&sockets(second)).count()
    };
    assert!(wait_until(|| shared() == common), "{model} with accept={accept} shares {} sockets", shared());
    let mut clients: Vec<TcpStream> = (0..20).map(|_| connect(&address)).collect();
    assert!(clients.iter_mut().all(echoes), "{model} with accept={accept} does not serve all");
    assert_eq!(taken(&server.served()).iter().sum::<u64>(), 20, "{model} with accept={accept}");
}

/// Kills one process of a server: only its connections may be lost, and `connections` new ones must be served.
fn check_restart(spec: Value, connections: usize) {
    let (mut server, address) = serve(spec.clone());
    let mut clients: Vec<TcpStream> = (0..connections).map(|_| connect(&address)).collect();
    assert!(clients.iter_mut().all(echoes), "{spec} does not serve all");
    let before = children(server.pid());
    let family = [vec![before[0]], descendants(before[0])].concat();
    kill(before[0]);
    assert!(wait_until(|| family.iter().all(|&pid| !is_alive(pid))), "{spec} has left processes");
    let left = clients.iter_mut().filter_map(|client| echoes(client).then_some(())).count();
    assert!((1..connections).contains(&left), "{spec} serves {left} of {connections} after a death");
    assert!(successor(&mut server, &before).is_some(), "{spec} does not start it again");
    drop(clients);
    let mut clients: Vec<TcpStream> = (0..connections).map(|_| connect(&address)).collect();
    assert!(clients.iter_mut().all(echoes), "{spec} does not serve all after a death");
    assert_eq!(children(server.pid()).len(), before.len(), "{spec}");
    let served = server.served();
    assert_eq!(served["restarts"], 1, "{spec}: {served}");
}

/// An echo server, with worker processes unless the spec says otherwise, and its address.
fn serve(fields: Value) -> (Engine, String) {
    let (server, ready) = start(fields);
    (server, address_of(&ready))
}

/// The same with its `ready` event.
fn start(fields: Value) -> (Engine, Value) {
    let mut spec = json!({
        "schema": 1, "role": "serve", "workload": {"protocol": "echo"}, "listen": ["127.0.0.1:0"],
        "worker_kind": "process",
    });
    spec.as_object_mut().expect("it is").extend(fields.as_object().expect("it is").clone());
    let server = Engine::start(&spec);
    let ready = server.event().expect("it starts");
    let expected = spec["workers"].as_u64().unwrap_or(1) as usize;
    if spec["worker_kind"] == "process" {
        assert!(wait_until(|| children(server.pid()).len() >= expected), "{spec} does not start its workers");
    }
    (server, ready)
}

fn address_of(ready: &Value) -> String {
    ready["listen"][0].as_str().unwrap_or_else(|| panic!("it is not ready: {ready}")).to_owned()
}

/// The process that has replaced one of those before; None if the server has ended.
fn successor(server: &mut Engine, before: &[u32]) -> Option<u32> {
    let mut found = None;
    let decided = wait_until(|| {
        found = children(server.pid()).into_iter().find(|pid| !before.contains(pid));
        found.is_some() || server.ended().is_some()
    });
    assert!(decided, "it neither starts a process again nor gives up");
    found
}

fn taken(served: &Value) -> Vec<u64> {
    let workers = served["workers"].as_array().expect("it tells of each worker");
    workers.iter().map(|worker| worker["connections"].as_u64().expect("it is a number")).collect()
}

fn connect(address: &str) -> TcpStream {
    let client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("it takes a timeout");
    client
}

fn talk_to(address: &str) -> TcpStream {
    let mut client = connect(address);
    assert!(echoes(&mut client));
    client
}

/// Whether a message comes back; false if the connection is lost.
fn echoes(client: &mut TcpStream) -> bool {
    let mut reply = [0; 5];
    client.write_all(b"hello").and_then(|()| client.read_exact(&mut reply)).is_ok() && &reply == b"hello"
}

fn kill(pid: u32) {
    signal("KILL", pid);
}

/// Kills a process that may have ended already.
fn end(pid: u32) {
    let command = r#"kill -s KILL "$0" 2>/dev/null"#;
    let _ = Command::new("sh").args(["-c", command, &pid.to_string()]).status();
}

/// Waits for `condition`. Returns false after PATIENCE.
fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The children of a process, in the order of their start.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

/// The open sockets of a process; for a worker without connections, its listener.
fn sockets(pid: u32) -> BTreeSet<PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).collect()
}

/// The resolution of [`started`].
const TICK: Duration = Duration::from_millis(10);

/// The time of a process's start since boot.
fn started(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it has not been collected");
    // The program's name, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(") ").expect("it has a name");
    let ticks: u32 = fields.split(' ').nth(19).and_then(|ticks| ticks.parse().ok()).expect("it is a number");
    TICK * ticks
}

fn descendants(pid: u32) -> Vec<u32> {
    children(pid).into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
