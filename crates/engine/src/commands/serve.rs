//! `iolab-engine serve`: one server with one I/O model, until it is stopped.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::{self, ExitCode};

use contract::{
    Address, ReadyWord, Role, ServeReady, ServeSpec, ServeWord, Served, ServedWord, ServedWorker, Version,
    Workload,
};
use models::{Limit, MODELS, Model, Values, Worker, WorkerStats};
use proto::Protocol;
use sys::perf::Calls;

use crate::commands::listen;
use crate::failure::Failure;
use crate::flags::ServeFlags;
use crate::output;
use crate::process::supervision::{self, Owner};
use crate::spec::check::{self, Names};
use crate::spec::limits::{connections_possible, enter, pin};
use crate::spec::workload::{self, Visit, forever};
use crate::units::counted;

/// Runs the command. Returns only if the server has failed.
pub(crate) fn command(flags: &ServeFlags) -> ExitCode {
    let (owner, names) =
        if flags.spec.is_some() { (Owner::Program, Names::Fields) } else { (Owner::Person, Names::Flags) };
    let spec = match owner {
        Owner::Program => supervision::read_spec(),
        Owner::Person => flags.to_spec(),
    };
    let outcome = spec.and_then(|spec| {
        check::serve(&spec, names)?;
        enter(spec.netns.as_deref())?;
        serve(&spec, owner).map(|never| match never {})
    });
    supervision::finish(outcome, owner, Role::Serve)
}

/// Serves a checked spec. Anything this machine cannot do is refused before a socket is opened.
fn serve(spec: &ServeSpec, owner: Owner) -> Result<Infallible, Failure> {
    let model = find_model(&spec.model)?;
    check_options(model, &spec.options)?;
    if !model.speaks(spec.workload.protocol()) {
        let message = format!("model {} speaks only {}", model.name, model.only_protocol.unwrap_or_default());
        return Err(Failure::request("unknown_protocol", message));
    }
    let config = forever(models::Config {
        worker_kind: spec.worker_kind,
        cpus: spec.cpus.clone(),
        connections_max: spec.connections_max.min(connections_possible(spec.workers * spec.listen.len())),
        options: spec.options.clone(),
        stats: Some(WorkerStats::new(spec.workers)?),
    });
    let mut workload = spec.workload.clone();
    if let Workload::Http(http) = &mut workload {
        // A model with one connection at a time must not let an open connection block all others.
        http.keep_alive &= (model.connections_per_worker)(config) != Some(1);
    }
    let beginning = Beginning { spec, model, config, owner };
    // First, because the next steps measure the speed of these processors and probe the model's features on them.
    pin(&config.cpus)?;
    workload::dispatch(&workload, &spec.listen[0], Role::Serve, beginning)
}

/// A server that has been checked.
struct Beginning<'a> {
    spec: &'a ServeSpec,
    model: &'static Model,
    config: &'static models::Config,
    owner: Owner,
}

impl Visit for Beginning<'_> {
    type Output = Infallible;

    /// Listens, reports that it is ready, and serves.
    fn visit<P: Protocol>(self, workload: &'static P::Workload) -> Result<Infallible, Failure> {
        let Self { spec, model, config, owner } = self;
        let mut lacks = (model.missing_features)(config).map_err(|error| unavailable(model, &error))?;
        let calls = spec.count_calls.then(Calls::count).transpose().unwrap_or_else(|error| {
            lacks.push(error.to_string());
            None
        });
        let (listeners, addresses) = listen::open(spec, config, &mut lacks)?;
        let stats = config.stats.expect("it was made with the configuration");
        let workers = listeners.into_iter().zip(stats.workers());
        let workers = workers.map(|(listeners, counts)| Worker { listeners, counts }).collect();
        let ready = ServeReady {
            schema: Version,
            event: ReadyWord::Is,
            role: ServeWord::Is,
            model: model.title(config),
            listen: addresses,
            pid: process::id(),
            build: crate::BUILD.to_owned(),
            workers: spec.workers,
            worker_kind: spec.worker_kind,
            holds: (model.connections_per_worker)(config),
            defects: model.defects(config).into_iter().map(str::to_owned).collect(),
            lacks,
            parser: model.parser.to_owned(),
            // One worker has no other thread to move a connection to.
            moves_connections: spec.workers > 1 && (model.moves_connections)(config),
        };
        begin(owner, &ready, spec.workload.protocol(), forever(Account { stats, calls }))?;
        models::serve::<P>(model.name, workers, config, workload).map_err(Failure::from)
    }
}

/// Reports that the server is ready. From then on it reports its counts on request and at its end.
fn begin(owner: Owner, ready: &ServeReady, protocol: &str, account: &'static Account) -> Result<(), Failure> {
    for address in ready.listen.iter().filter(|address| address.0.is_exposed()) {
        output::say(&format!("warning: other machines can reach {address}; 127.0.0.1 keeps it to this one"));
    }
    let tell = move || match owner {
        Owner::Person => output::line(&account.summary()),
        Owner::Program => output::line(&contract::line(&account.document())),
    };
    let listen = ready.listen.clone();
    let last = move || {
        listen::leave(&listen);
        tell();
    };
    match owner {
        Owner::Person => supervision::end_with_signal(last)?,
        Owner::Program => supervision::answer_input(move |_| tell(), last)?,
    }
    output::line(&match owner {
        Owner::Person => greeting(ready, protocol),
        Owner::Program => contract::line(ready),
    });
    Ok(())
}

/// The counts of a server so far.
struct Account {
    stats: WorkerStats,
    calls: Option<Calls>,
}

impl Account {
    fn document(&self) -> Served {
        let worker = |counts: models::Counts| ServedWorker {
            connections: counts.connections(),
            refused: Limit::ALL.map(|limit| (limit.name().to_owned(), counts.refused(limit))).into(),
        };
        Served {
            schema: Version,
            event: ServedWord::Is,
            role: ServeWord::Is,
            workers: self.stats.workers().map(worker).collect(),
            restarts: self.stats.restarts(),
            calls: self.calls.as_ref().and_then(|calls| calls.so_far().ok()),
        }
    }

    /// One line for each worker.
    fn summary(&self) -> String {
        let lines = self.stats.workers().enumerate().map(|(index, counts)| {
            let refused = Limit::ALL.into_iter().map(|limit| (limit, counts.refused(limit)));
            let refused: Vec<String> = refused
                .filter(|(_, count)| *count > 0)
                .map(|(limit, count)| format!(", {count} refused ({})", limit.name()))
                .collect();
            let taken = counted(counts.connections() as usize, "connection");
            format!("worker {index}: {taken}{}", refused.concat())
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn greeting(ready: &ServeReady, protocol: &str) -> String {
    let ServeReady { model, listen, workers, lacks, defects, .. } = ready;
    let url = |address: &Address| match &address.0 {
        sys::net::Address::Unix(_) => address.to_string(),
        sys::net::Address::Ip(address) if protocol == "http" => format!("http://{address}/"),
        sys::net::Address::Ip(address) => format!("tcp://{address}"),
    };
    let urls = listen.iter().map(url).collect::<Vec<_>>().join(" ");
    let without = if lacks.is_empty() { String::new() } else { format!(", without {}", lacks.join(", ")) };
    let flaws = defects.iter().map(|defect| format!("; defective: {defect}")).collect::<String>();
    format!("serving {urls} with {model}, {}{without}{flaws}; Ctrl-C ends it", counted(*workers, "worker"))
}

/// Why a variant cannot run: its options contradict each other, or this machine lacks what it needs.
pub(crate) fn unavailable(model: &Model, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => Failure::request("bad_option", error.to_string()),
        _ => Failure::machine("unavailable", format!("{} cannot run here: {error}", model.name)),
    }
}

/// # Errors
/// `unknown_model`, with the names that are known.
pub(crate) fn find_model(name: &str) -> Result<&'static Model, Failure> {
    let names = MODELS.iter().map(|model| model.name);
    MODELS
        .iter()
        .find(|model| model.name == name)
        .ok_or_else(|| Failure::unknown("unknown_model", "model", name, names))
}

/// Refuses an option or a value that the model does not have. The message lists those that it has.
pub(crate) fn check_options(model: &Model, options: &BTreeMap<String, String>) -> Result<(), Failure> {
    for (name, value) in options {
        let names = model.all_options().map(|option| option.name);
        let option = model.all_options().find(|option| option.name == name).ok_or_else(|| {
            Failure::unknown("unknown_option", &format!("option of {}", model.name), name, names)
        })?;
        if option.accepts(value) {
            continue;
        }
        let noun = format!("{name} of {}", model.name);
        return Err(match option.values {
            Values::Words(words) => Failure::unknown("unknown_value", &noun, value, words.iter().copied()),
            Values::Number { min, max, .. } => Failure::request(
                "unknown_value",
                format!("{noun} is `{value}`; it is a number from {min} to {max}"),
            ),
        });
    }
    Ok(())
}
