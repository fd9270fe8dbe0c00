//! Servers, one file for each I/O model: how it waits, and how it spreads connections over workers.
//!
//! All models answer through the same parser and response builder, so two of them differ only in how they wait. The
//! protocol is a type parameter of the whole server: each pair of model and protocol is one function, chosen once at
//! start-up.

#![forbid(unsafe_code)]

mod acceptor;
mod conversation;
mod counts;
mod event_loop;
mod readiness;
mod runtimes;
mod scratch;
mod workers;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;

use contract::WorkerKind;
use proto::Protocol;

pub use counts::{Counts, Limit, WorkerStats};
pub use workers::Worker;

/// How a server runs.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Whether workers are threads of this process or child processes.
    pub worker_kind: WorkerKind,
    /// Processors to run on, assigned to workers in turn. Empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
    /// The most connections that one worker serves at the same time. Further ones are accepted and closed.
    pub connections_max: usize,
    /// Options of the model that are not at their default: values by name, checked by [`ModelOption::accepts`].
    pub options: BTreeMap<String, String>,
    /// Where workers count connections. None while nothing is served.
    pub stats: Option<WorkerStats>,
}

impl Config {
    /// The value of one of the model's options.
    fn option(&self, option: &ModelOption) -> &str {
        self.options.get(option.name).map_or_else(|| option.values.default(), String::as_str)
    }

    /// The value of an option that is a number.
    fn number(&self, option: &ModelOption) -> usize {
        self.option(option).parse().expect("options are checked before they are used")
    }

    /// How many connections may wait in the kernel to be accepted.
    pub fn backlog(&self) -> usize {
        self.number(&BACKLOG)
    }

    /// Whether all workers accept from one queue.
    pub fn shares_queue(&self) -> bool {
        self.option(&ACCEPT) == "shared"
    }
}

/// A variant of a model that users choose by name.
#[derive(Clone, Copy, Debug)]
pub struct ModelOption {
    pub name: &'static str,
    pub values: Values,
    pub about: &'static str,
    /// Published values that have a defect, with the defect.
    pub defects: &'static [(&'static str, &'static str)],
}

/// The values that an option may have.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these; the first is the default.
    Words(&'static [&'static str]),
    /// A number in this range.
    Number { default: &'static str, min: usize, max: usize },
}

impl Values {
    /// The default value.
    pub const fn default(&self) -> &'static str {
        match self {
            Self::Words(words) => words[0],
            Self::Number { default, .. } => default,
        }
    }
}

impl ModelOption {
    /// Whether this value is allowed.
    pub fn accepts(&self, value: &str) -> bool {
        match self.values {
            Values::Words(words) => words.contains(&value),
            Values::Number { min, max, .. } => {
                value.parse().is_ok_and(|number| (min..=max).contains(&number))
            }
        }
    }
}

/// The option that every model has.
pub const BACKLOG: ModelOption = ModelOption {
    name: "backlog",
    values: Values::Number { default: "65535", min: 1, max: 65_535 },
    about: "connections that the kernel queues until they are accepted, up to its own limit",
    defects: &[(
        "3",
        "a short burst overflows it, and further clients wait a second or more before they retry",
    )],
};

/// The option of event loops that a published server with several processes may have used either way.
pub(crate) const ACCEPT: ModelOption = ModelOption {
    name: "accept",
    values: Values::Words(&["each", "shared"]),
    about: "whether each worker has its own queue of new connections, filled in turn, or all share one",
    defects: &[],
};

/// What a model is, before it runs. Each model is a file with a constant `MODEL` of this type and a function
/// `serve::<P>`; see `models!`.
pub struct Model {
    /// The name of its file; `models!` fills it in.
    pub name: &'static str,
    /// One line for lists. The only field without a default.
    pub about: &'static str,
    /// What it needs beyond any Linux.
    pub needs: &'static str,
    /// Its own options. Every model also has [`BACKLOG`].
    pub options: &'static [ModelOption],
    /// The one protocol it speaks; None if it speaks all.
    pub only_protocol: Option<&'static str>,
    /// How many connections one worker serves at the same time; None if only the system and
    /// [`Config::connections_max`] limit them.
    pub connections_per_worker: fn(&Config) -> Option<usize>,
    /// Features that it would use and this machine lacks.
    ///
    /// # Errors
    /// If it cannot run here, or if its options contradict each other (`InvalidInput`). The text says why and what to
    /// do.
    pub missing_features: fn(&Config) -> io::Result<Vec<String>>,
    /// What parses requests and builds replies: `iolab`, or the library that it is compared with as a whole.
    pub parser: &'static str,
    /// Whether an open connection may move from one thread to another.
    pub moves_connections: fn(&Config) -> bool,
}

impl Model {
    /// A model that speaks every protocol and runs on every Linux, with no options and no limit of its own.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        about: "",
        needs: "",
        options: &[],
        only_protocol: None,
        connections_per_worker: |_| None,
        missing_features: |_| Ok(Vec::new()),
        parser: "iolab",
        moves_connections: |_| false,
    };

    /// All its options.
    pub fn all_options(&self) -> impl Iterator<Item = &'static ModelOption> + Clone + use<> {
        self.options.iter().chain([&BACKLOG])
    }

    /// Whether it speaks the protocol of this name.
    pub fn speaks(&self, protocol: &str) -> bool {
        self.only_protocol.is_none_or(|only| only == protocol)
    }

    /// The name with the options that are not default, as results show it: `io_uring[recv=oneshot]`.
    pub fn title(&self, config: &Config) -> String {
        let chosen: Vec<String> = (self.all_options())
            .filter(|option| config.option(option) != option.values.default())
            .map(|option| format!("{}={}", option.name, config.option(option)))
            .collect();
        if chosen.is_empty() { self.name.into() } else { format!("{}[{}]", self.name, chosen.join(",")) }
    }

    /// The defects of the chosen options.
    pub fn defects(&self, config: &Config) -> Vec<&'static str> {
        let chosen = |option: &&ModelOption, value: &str| config.option(option) == value;
        (self.all_options())
            .flat_map(|option| option.defects.iter().filter(move |(value, _)| chosen(&option, value)))
            .map(|(_, text)| *text)
            .collect()
    }
}

/// Lists the models. A new one needs its name here and a file of that name with:
///
/// - `pub(crate) const MODEL: Model = Model { about: "…", ..Model::DEFAULT };`
/// - `pub(crate) fn serve<P: Protocol>(…) -> io::Result<Infallible>`, with the parameters of [`serve`].
macro_rules! models {
    ($($name:ident),+ $(,)?) => {
        $(mod $name;)+

        /// Every model, from the simplest to rings and runtimes.
        pub static MODELS: &[Model] = &[$(Model { name: stringify!($name), ..$name::MODEL }),+];

        $(const _: () = assert!(
            !$name::MODEL.about.is_empty(),
            concat!("MODEL in ", stringify!($name), ".rs needs a line `about`"),
        );)+

        /// Serves for ever. Each worker has its own [`sys::net::Listeners`].
        ///
        /// # Errors
        /// `NotFound` if there is no such model. Otherwise the error that ended a worker or kept it from starting.
        pub fn serve<P: Protocol>(
            model: &str,
            workers: Vec<Worker>,
            config: &'static Config,
            workload: &'static P::Workload,
        ) -> io::Result<Infallible> {
            match model {
                $(stringify!($name) => $name::serve::<P>(workers, config, workload),)+
                other => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no model {other}"))),
            }
        }
    };
}

models! {
    blocking, fork, prefork, thread, thread_pool, coroutine, select, poll, epoll, libevent, io_uring,
    tokio, hyper, monoio,
}
