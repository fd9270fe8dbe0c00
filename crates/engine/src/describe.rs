//! `iolab-engine describe`: what this engine can do on this machine, for the lab and for the curious.

use std::io;
use std::process::ExitCode;

use models::{Choice, MODELS, Model};
use proto::{Protocol, echo::Echo, http::Http};

use crate::contract::{
    self, BUILD, Description, Driver, DriverDescription, Holds, ModelDescription, OptionDescription, Version,
};
use crate::output;

/// Runs the command.
pub(crate) fn command(schema: bool) -> ExitCode {
    output::line(&if schema { contract::schemas() } else { contract::pretty(&description()) });
    ExitCode::SUCCESS
}

fn description() -> Description {
    Description {
        schema: Version,
        build: BUILD.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        models: MODELS.iter().map(model).collect(),
        drivers: ::load::Driver::ALL.iter().copied().map(driver).collect(),
        protocols: protocols(),
    }
}

/// Every model speaks every protocol: a protocol is a type parameter of the model.
fn protocols() -> Vec<String> {
    vec![Http::NAME.to_owned(), Echo::NAME.to_owned()]
}

fn model(model: &Model) -> ModelDescription {
    let config = models::Config { workers: 1, connections_max: 1024, ..models::Config::default() };
    let (available, why_not, lacks) = availability((model.lacks)(&config));
    ModelDescription {
        name: model.name.to_owned(),
        about: model.about.to_owned(),
        protocols: protocols(),
        options: model.options.iter().map(option).collect(),
        holds: match model.holds {
            models::Holds::One => Holds::One,
            models::Holds::Many => Holds::Many,
        },
        available,
        why_not,
        lacks,
    }
}

fn option(choice: &Choice) -> OptionDescription {
    OptionDescription {
        name: choice.name.to_owned(),
        values: choice.values.iter().map(|&value| value.to_owned()).collect(),
        about: choice.about.to_owned(),
    }
}

fn driver(driver: ::load::Driver) -> DriverDescription {
    let (available, why_not, lacks) = availability(driver.lacks());
    let name = match driver {
        ::load::Driver::Epoll => Driver::Epoll,
        ::load::Driver::IoUring => Driver::IoUring,
    };
    DriverDescription { name, about: driver.about().to_owned(), available, why_not, lacks }
}

fn availability(lacks: io::Result<Vec<String>>) -> (bool, Option<String>, Vec<String>) {
    match lacks {
        Ok(lacks) => (true, None, lacks),
        Err(error) => (false, Some(error.to_string()), Vec::new()),
    }
}
