//! The options of the model: each takes away one feature of the ring or adds a rare one. Some exclude each other.

use std::io;

use sys::ring::{Options, Polling, Sending, TaskRun, Variant};

use crate::{Config, ModelOption, Values, WorkerKind};

pub(crate) const ALL: &[ModelOption] =
    &[ACCEPT, RECEIVE, BUFFERS, FILES, TASK_RUN, SEND, SUBMIT, RING, SHARING];

const ACCEPT: ModelOption = ModelOption {
    name: "accept",
    values: Values::Words(&["multishot", "oneshot"]),
    about: "whether one request accepts all connections, or each connection needs its own",
    defects: &[],
};
const RECEIVE: ModelOption = ModelOption {
    name: "recv",
    values: Values::Words(&["multishot", "oneshot"]),
    about: "whether one request receives for the life of a connection, or one message (always so over Unix \
            sockets)",
    defects: &[],
};
const BUFFERS: ModelOption = ModelOption {
    name: "buffers",
    values: Values::Words(&["incremental", "whole", "none"]),
    about: "whether a receive buffer that the kernel chooses takes many messages, or one; with none each connection \
            has a buffer of its own, and a receive is for one message (recv=oneshot)",
    defects: &[],
};
const FILES: ModelOption = ModelOption {
    name: "files",
    values: Values::Words(&["direct", "plain"]),
    about: "whether connections are in the ring's own table, or in the worker's",
    defects: &[],
};
const TASK_RUN: ModelOption = ModelOption {
    name: "taskrun",
    values: Values::Words(&["deferred", "cooperative", "interrupting"]),
    about: "when the kernel completes requests: while the server waits, at any syscall, or at once",
    defects: &[],
};
const SEND: ModelOption = ModelOption {
    name: "send",
    values: Values::Words(&["silent", "plain", "bundle", "zerocopy"]),
    about: "whether a send completes only if something went wrong, or always, one at a time for a connection; or takes \
            its bytes from a queue of buffers; or from the server's memory without a copy, and completes twice (not \
            over Unix sockets)",
    defects: &[],
};
const SUBMIT: ModelOption = ModelOption {
    name: "submit",
    values: Values::Words(&["call", "sqpoll"]),
    about: "whether requests are handed over by a syscall, or found by a thread of the kernel, which keeps a \
            processor busy: the first that the server has beyond one a worker, else one that a worker runs on; it \
            sleeps after 10 ms without requests (with taskrun=interrupting and no silent sends)",
    defects: &[],
};
const RING: ModelOption = ModelOption {
    name: "ring",
    values: Values::Words(&["registered", "plain"]),
    about: "whether the kernel finds the ring by an index of the thread, or as a descriptor of the process",
    defects: &[],
};
const SHARING: ModelOption = ModelOption {
    name: "sharing",
    values: Values::Words(&["own", "shared"]),
    about: "whether each worker has a ring, or all share one under a lock: its holder waits, serves what is complete \
            and passes the lock on (with ring=plain and taskrun=cooperative)",
    defects: &[],
};

/// Pairs of values that exclude each other. The first value changes the second option if that is at its default. If the
/// second was requested, the combination is refused.
const EXCLUSIVE: &[(ModelOption, &str, ModelOption, &str)] = &[
    (BUFFERS, "none", RECEIVE, "multishot"),
    (SUBMIT, "sqpoll", TASK_RUN, "deferred"),
    (SUBMIT, "sqpoll", TASK_RUN, "cooperative"),
    (SUBMIT, "sqpoll", SEND, "silent"),
    (SHARING, "shared", TASK_RUN, "deferred"),
    (SHARING, "shared", RING, "registered"),
];

/// At most this many requests are submitted in one call. Few enough to stay in the cache.
const ENTRIES: u32 = 256;

/// Longer than the pauses of a server under load, and much shorter than a measurement.
const POLLING_IDLE_MS: u32 = 10;

/// # Errors
/// `InvalidInput` if two of the requested values exclude each other.
pub(super) fn check(config: &Config) -> io::Result<()> {
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    for (first, with, second, without) in EXCLUSIVE {
        let asked = config.options.get(second.name).is_some_and(|value| value == without);
        if config.option(first) == *with && asked {
            let (first, second) = (first.name, second.name);
            return refuse(format!(
                "{first}={with} and {second}={without} exclude each other: leave one out"
            ));
        }
    }
    if is_shared(config) && config.worker_kind == WorkerKind::Process {
        return refuse("sharing=shared is for worker threads: processes cannot share a ring".into());
    }
    Ok(())
}

pub(super) fn is_shared(config: &Config) -> bool {
    config.option(&SHARING) == "shared"
}

/// The most connections of one ring. A shared ring with its own table has those of all workers. The table of the
/// process only has room for those of one worker.
pub(super) fn connections_max(config: &Config) -> usize {
    config.connections_max * if is_shared(config) && is_direct(config) { workers(config) } else { 1 }
}

fn is_direct(config: &Config) -> bool {
    config.option(&FILES) == "direct"
}

pub(super) fn variant(config: &Config) -> Variant {
    let options = Options {
        entries: ENTRIES,
        connections_max: connections_max(config).min(sys::process::descriptors_max()) as u32,
        direct: is_direct(config),
        multishot: config.option(&RECEIVE) == "multishot",
        incremental: config.option(&BUFFERS) == "incremental",
        task_run: match config.option(&TASK_RUN) {
            "cooperative" => TaskRun::Cooperative,
            "interrupting" => TaskRun::Interrupting,
            _ => TaskRun::Deferred,
        },
    };
    let spare_cpu = config.cpus.get(workers(config)).map(|&cpu| cpu as u32);
    let polling = Polling { idle_ms: POLLING_IDLE_MS, cpu: spare_cpu };
    Variant {
        accept_multishot: config.option(&ACCEPT) == "multishot",
        own_buffers: config.option(&BUFFERS) == "none",
        sending: match config.option(&SEND) {
            "plain" => Sending::Plain,
            "bundle" => Sending::Bundle,
            "zerocopy" => Sending::ZeroCopy,
            _ => Sending::Silent,
        },
        polling: (config.option(&SUBMIT) == "sqpoll").then_some(polling),
        registered: config.option(&RING) == "registered",
        shared: is_shared(config),
        ..Variant::from(&options)
    }
}

fn workers(config: &Config) -> usize {
    config.stats.map_or(1, |stats| stats.workers().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_options(options: &[(&str, &str)], expected: Result<(), &str>) {
        let options = options.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let config = Config { options, ..Config::default() };
        let outcome = check(&config).map_err(|error| error.to_string());
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_contradiction_is_refused_only_where_both_sides_were_asked_for() {
        check_options(&[], Ok(()));
        check_options(&[("buffers", "none")], Ok(()));
        check_options(&[("buffers", "none"), ("recv", "oneshot")], Ok(()));
        check_options(&[("sharing", "shared"), ("taskrun", "interrupting")], Ok(()));
        check_options(
            &[("buffers", "none"), ("recv", "multishot")],
            Err("buffers=none and recv=multishot exclude each other: leave one out"),
        );
        check_options(
            &[("submit", "sqpoll"), ("taskrun", "deferred")],
            Err("submit=sqpoll and taskrun=deferred exclude each other: leave one out"),
        );
    }

    #[test]
    fn a_ring_for_all_workers_is_not_for_processes() {
        let options = [("sharing".to_owned(), "shared".to_owned())].into();
        let config = Config { options, worker_kind: WorkerKind::Process, ..Config::default() };
        assert_eq!(check(&config).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
