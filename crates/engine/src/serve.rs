//! `iolab-engine serve`: one server with one I/O model, until it is told to end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::process::{self, ExitCode};

use models::{Holds, MODELS, Model};
use proto::{echo, http};

use crate::cli::ServeFlags;
use crate::contract::{self, BUILD, ReadyWord, Role, ServeReady, ServeSpec, ServeWord, Version, Workload};
use crate::failure::Failure;
use crate::limits::{CONNECTIONS_MAX, DESCRIPTORS_RESERVED, THREADS_MAX, pin, within};
use crate::output;
use crate::owner;
use crate::supervision::{self, Owner};
use crate::units::counted;
use crate::workload::{self, forever};

/// Runs the command. It returns only when the server has failed.
pub(crate) fn command(flags: &ServeFlags) -> ExitCode {
    let owner = if flags.spec.is_some() { Owner::Program } else { Owner::Person };
    let spec = match owner {
        Owner::Program => supervision::spec_line().and_then(|line| contract::read(&line)),
        Owner::Person => flags.to_spec(),
    };
    let outcome = spec.and_then(|spec| serve(&spec, owner)).map(|never| match never {});
    supervision::finish(outcome, owner, Role::Serve)
}

fn serve(spec: &ServeSpec, owner: Owner) -> Result<Infallible, Failure> {
    within("workers", spec.workers, 1..=THREADS_MAX)?;
    within("connections_max", spec.connections_max, 1..=CONNECTIONS_MAX)?;
    let model = find_model(&spec.model)?;
    check_options(model, &spec.options)?;
    let config = forever(models::Config {
        workers: spec.workers,
        cpus: spec.cpus.clone(),
        connections_max: spec.connections_max.min(connections_possible()),
        options: spec.options.clone(),
    });
    match &spec.workload {
        Workload::Http(http) => {
            // Where one connection is served at a time, one that stays open would shut out all others.
            let keep_alive = http.keep_alive && model.holds == Holds::Many;
            let workload = workload::http(&contract::Http { keep_alive, ..http.clone() }, spec.listen)?;
            begin(spec, model, config, owner, |listeners| {
                models::serve::<http::Http>(model.name, listeners, config, workload)
            })
        }
        Workload::Echo(echo) => {
            let workload = workload::echo(echo)?;
            begin(spec, model, config, owner, |listeners| {
                models::serve::<echo::Echo>(model.name, listeners, config, workload)
            })
        }
    }
}

/// Listens, says so, and serves. Nothing is opened before all that can be refused has been checked.
fn begin(
    spec: &ServeSpec,
    model: &Model,
    config: &models::Config,
    owner: Owner,
    serve: impl FnOnce(Vec<TcpListener>) -> io::Result<Infallible>,
) -> Result<Infallible, Failure> {
    let lacks = (model.lacks)(config).map_err(|error| {
        Failure::machine("unavailable", format!("{} cannot run here: {error}", model.name))
    })?;
    pin(&config.cpus)?;
    supervision::end_with_input(owner)?;
    let listeners = listen(spec.listen, spec.workers)?;
    let ready = ServeReady {
        schema: Version,
        event: ReadyWord::Is,
        role: ServeWord::Is,
        model: model.title(config),
        listen: listeners[0].local_addr()?,
        pid: process::id(),
        build: BUILD.to_owned(),
        workers: spec.workers,
        lacks,
    };
    warn_if_exposed(ready.listen);
    match owner {
        Owner::Person => output::line(&greeting(&ready, &spec.workload)),
        Owner::Program => output::line(&contract::line(&ready)),
    }
    serve(listeners).map_err(Failure::from)
}

fn greeting(ready: &ServeReady, workload: &Workload) -> String {
    let ServeReady { model, listen, workers, lacks, .. } = ready;
    let address = match workload {
        Workload::Http(_) => format!("http://{listen}/"),
        Workload::Echo(_) => format!("tcp://{listen}"),
    };
    let without = if lacks.is_empty() { String::new() } else { format!(", without {}", lacks.join(", ")) };
    format!("serving {address} with {model}, {}{without}; Ctrl-C ends it", counted(*workers, "worker"))
}

fn find_model(name: &str) -> Result<&'static Model, Failure> {
    let names = MODELS.iter().map(|model| model.name);
    MODELS
        .iter()
        .find(|model| model.name == name)
        .ok_or_else(|| Failure::unknown("unknown_model", "model", name, names))
}

fn check_options(model: &Model, options: &BTreeMap<String, String>) -> Result<(), Failure> {
    for (name, value) in options {
        if model.options.is_empty() {
            let message = format!("model {} has no options: leave out {name}={value}", model.name);
            return Err(Failure::request("unknown_option", message));
        }
        let names = model.options.iter().map(|choice| choice.name);
        let choice = (model.options.iter().find(|choice| choice.name == name)).ok_or_else(|| {
            Failure::unknown("unknown_option", &format!("option of {}", model.name), name, names)
        })?;
        if !choice.values.contains(&value.as_str()) {
            let values = choice.values.iter().copied();
            return Err(Failure::unknown(
                "unknown_value",
                &format!("{name} of {}", model.name),
                value,
                values,
            ));
        }
    }
    Ok(())
}

/// How many connections the descriptors of this process allow, once their soft limit has been raised.
fn connections_possible() -> usize {
    sys::process::descriptors_max().saturating_sub(DESCRIPTORS_RESERVED).max(1)
}

/// One listening socket for each worker, all on the same address.
///
/// The kernel lets a process join a port that another one of the same user shares among its workers, and would
/// then spread connections over both. So a fixed port is first taken alone, to see that it is free.
fn listen(address: SocketAddr, workers: usize) -> Result<Vec<TcpListener>, Failure> {
    let describe = |error| cannot_listen(address, &error);
    if workers == 1 {
        return Ok(vec![sys::net::listen(address, false).map_err(describe)?]);
    }
    if address.port() != 0 {
        drop(sys::net::listen(address, false).map_err(describe)?);
    }
    let first = sys::net::listen(address, true).map_err(describe)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..workers {
        listeners.push(sys::net::listen(address, true).map_err(describe)?);
    }
    Ok(listeners)
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let (host, port) = (address.ip(), address.port());
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let by = owner::of_port(address)
                .map_or(String::new(), |(name, pid)| format!(" by {name} (pid {pid})"));
            let message = format!("port {port} of {host} is in use{by}: end that, or take another port");
            Failure::work("address_in_use", message)
        }
        io::ErrorKind::PermissionDenied => {
            let message = format!("port {port} needs privileges: take a port from 1024 on");
            Failure::work("permission_denied", message)
        }
        io::ErrorKind::AddrNotAvailable => {
            let message =
                format!("{host} is not an address of this machine: take 127.0.0.1, or one of its own");
            Failure::work("address_unavailable", message)
        }
        _ => Failure::work("cannot_listen", format!("cannot listen on {address}: {error}")),
    }
}

fn warn_if_exposed(address: SocketAddr) {
    if !address.ip().is_loopback() {
        output::say(&format!("warning: other machines can reach {address}; 127.0.0.1 keeps it to this one"));
    }
}
