//! `iolab-engine describe`: what this engine can do on this machine, for the lab and for people.

use std::io;
use std::process::ExitCode;

use contract::{Description, Driver, DriverDescription, ModelDescription, OptionDescription, Role, Version};
use models::{MODELS, Model, ModelOption, Values};

use crate::commands::serve;
use crate::flags::DescribeFlags;
use crate::output;
use crate::process::supervision::{self, Owner};
use crate::spec::limits::connections_possible;
use crate::spec::workload::PROTOCOLS;

/// Runs the command: prints the schemas, one variant of a model, or everything.
pub(crate) fn command(flags: &DescribeFlags) -> ExitCode {
    let text = match (&flags.model, flags.schema) {
        (_, true) => Ok(contract::schemas()),
        (None, false) => Ok(contract::pretty(&description())),
        (Some(name), false) => flags.options.to_map().and_then(|options| {
            let found = serve::find_model(name)?;
            serve::check_options(found, &options)?;
            let config = models::Config { options, ..plain() };
            match (found.missing_features)(&config) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    Err(serve::unavailable(found, &error))
                }
                _ => Ok(contract::pretty(&model(found, &config))),
            }
        }),
    };
    supervision::finish(text.map(|text| output::line(&text)), Owner::Person, Role::Serve)
}

/// A server with one worker on one address.
fn plain() -> models::Config {
    models::Config { connections_max: connections_possible(1), ..models::Config::default() }
}

fn description() -> Description {
    Description {
        schema: Version,
        build: crate::BUILD.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        models: MODELS.iter().map(|found| model(found, &plain())).collect(),
        drivers: Driver::ALL.map(driver).into(),
        protocols: PROTOCOLS.map(str::to_owned).to_vec(),
    }
}

fn model(model: &Model, config: &models::Config) -> ModelDescription {
    let (available, why_not, lacks) = availability((model.missing_features)(config));
    ModelDescription {
        name: model.name.to_owned(),
        about: model.about.to_owned(),
        needs: model.needs.to_owned(),
        protocols: PROTOCOLS.iter().filter(|name| model.speaks(name)).map(|&name| name.to_owned()).collect(),
        options: model.all_options().map(option).collect(),
        holds: (model.connections_per_worker)(config),
        available,
        why_not,
        lacks,
    }
}

fn option(option: &ModelOption) -> OptionDescription {
    let (values, min, max) = match option.values {
        Values::Words(words) => (words.to_vec(), None, None),
        Values::Number { default, min, max } => (vec![default], Some(min), Some(max)),
    };
    OptionDescription {
        name: option.name.to_owned(),
        values: values.into_iter().map(str::to_owned).collect(),
        min,
        max,
        about: option.about.to_owned(),
        defects: option.defects.iter().map(|&(value, text)| (value.to_owned(), text.to_owned())).collect(),
    }
}

fn driver(name: Driver) -> DriverDescription {
    let (available, why_not, lacks) = availability(::load::missing_features(name));
    DriverDescription { name, about: name.about().to_owned(), available, why_not, lacks }
}

fn availability(lacks: io::Result<Vec<String>>) -> (bool, Option<String>, Vec<String>) {
    match lacks {
        Ok(lacks) => (true, None, lacks),
        Err(error) => (false, Some(error.to_string()), Vec::new()),
    }
}
