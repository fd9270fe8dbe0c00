//! Servers, one I/O model a file: how it waits, and how it spreads connections over workers.
//!
//! All models answer the same bytes through the same parser and response builder, so that what differs
//! between two of them is only how they wait. The protocol is a type parameter of the whole server: a pair of
//! model and protocol is one function, chosen once at start-up.

#![forbid(unsafe_code)]

mod conversation;
mod readiness;
mod scratch;
mod workers;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;

use proto::Protocol;

/// How a server is to run. It lives as long as the process.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Event loops, or accepting threads, each with its own listener.
    pub workers: usize,
    /// Processors to run on, one worker each in turn; empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
    /// Connections held at once by one worker; further ones are accepted and closed.
    pub connections_max: usize,
    /// Variants of the model that are not the default: values of its [`Choice`]s by name.
    pub options: BTreeMap<String, String>,
}

impl Config {
    /// The value of one of the model's choices.
    fn choice(&self, choice: &Choice) -> &str {
        self.options.get(choice.name).map_or(choice.values[0], String::as_str)
    }
}

/// A variant of a model that users choose by name.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub name: &'static str,
    /// What it may be; the first is the default.
    pub values: &'static [&'static str],
    pub about: &'static str,
}

/// How many connections a model serves at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// One in each worker: it must end before the next is served.
    One,
    /// As many as [`Config::connections_max`] and the limits of the system allow.
    Many,
}

/// A model as users see it before it runs.
pub struct Model {
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    pub options: &'static [Choice],
    pub holds: Holds,
    /// What it would do without on this machine.
    ///
    /// # Errors
    /// Where it cannot run here; the text says why and what to do.
    pub lacks: fn(&Config) -> io::Result<Vec<String>>,
}

impl Model {
    /// The name with the options that are not default, as results show it: `io_uring[recv=oneshot]`.
    pub fn title(&self, config: &Config) -> String {
        let chosen: Vec<String> = (self.options.iter())
            .filter(|choice| config.choice(choice) != choice.values[0])
            .map(|choice| format!("{}={}", choice.name, config.choice(choice)))
            .collect();
        if chosen.is_empty() { self.name.into() } else { format!("{}[{}]", self.name, chosen.join(",")) }
    }
}

/// Lists the models: a word here and a file of that name are all a new one needs.
macro_rules! models {
    ($($name:ident),+ $(,)?) => {
        $(mod $name;)+

        /// Every model, in the order in which they teach: from one connection at a time to rings.
        pub static MODELS: &[Model] = &[$(Model {
            name: stringify!($name),
            about: $name::ABOUT,
            options: $name::OPTIONS,
            holds: $name::HOLDS,
            lacks: $name::lacks,
        }),+];

        /// Serves for ever. There is one listener for each worker, all on the same address.
        ///
        /// # Errors
        /// `NotFound` if there is no such model; otherwise what kept it from starting, or a worker from going on.
        pub fn serve<P: Protocol>(
            model: &str,
            listeners: Vec<TcpListener>,
            config: &'static Config,
            workload: &'static P::Workload,
        ) -> io::Result<Infallible> {
            match model {
                $(stringify!($name) => $name::serve::<P>(listeners, config, workload),)+
                other => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no model {other}"))),
            }
        }
    };
}

models! { blocking, fork, thread, epoll, io_uring }

/// For models that need nothing but what every Linux has.
fn lacks_nothing(_config: &Config) -> io::Result<Vec<String>> {
    Ok(Vec::new())
}
