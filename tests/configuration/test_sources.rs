//! Configurations out of texts, variables and flags, without a process's environment.

use lease_broker::config::{Config, ConfigError, Flag, Sources};

/// The sources of one configuration.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) file: &'static str,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) flags: Vec<Flag>,
}

impl Given {
    pub(crate) fn load(self) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("given.toml");
        std::fs::write(&file, self.file).expect("a file");
        let sources = Sources {
            file: Some(file),
            environment: self
                .variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            flags: self.flags,
        };
        sources.load()
    }
}

pub(crate) fn file(text: &'static str) -> Result<Config, ConfigError> {
    Given {
        file: text,
        ..Given::default()
    }
    .load()
}

pub(crate) fn variables(
    variables: &'static [(&'static str, &'static str)],
) -> Result<Config, ConfigError> {
    Given {
        variables,
        ..Given::default()
    }
    .load()
}

pub(crate) fn listen(address: &str) -> Flag {
    Flag {
        name: "--listen",
        key: &["server", "listen"],
        value: address.into(),
    }
}

/// Returns the last part of a path, with the line behind it.
pub(crate) fn place(error: &ConfigError) -> String {
    let place = error.location.rsplit('/').next().unwrap_or_default();
    place.to_owned()
}
