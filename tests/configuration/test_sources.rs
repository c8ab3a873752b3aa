//! Loads configurations from texts, variables and flags that a test gives, independent of the process environment.

use lease_broker::config::{Config, ConfigError, Flag, Sources};

/// The sources of one configuration. The file is written to a temporary folder as `given.toml`.
#[derive(Default)]
pub(crate) struct TestSources {
    pub(crate) file: &'static str,
    pub(crate) variables: &'static [(&'static str, &'static str)],
    pub(crate) flags: Vec<Flag>,
}

impl TestSources {
    pub(crate) fn load(self) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let file = folder.path().join("given.toml");
        std::fs::write(&file, self.file).expect("the file is written");
        let sources = Sources {
            file: Some(file),
            environment: self
                .variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            flags: self.flags,
            ..Sources::default()
        };
        sources.load()
    }
}

/// Loads a configuration file with this text.
pub(crate) fn from_file(text: &'static str) -> Result<Config, ConfigError> {
    TestSources {
        file: text,
        ..TestSources::default()
    }
    .load()
}

/// Loads a configuration from environment variables and an empty file.
pub(crate) fn from_variables(
    variables: &'static [(&'static str, &'static str)],
) -> Result<Config, ConfigError> {
    TestSources {
        variables,
        ..TestSources::default()
    }
    .load()
}

/// Builds the flag `--listen`.
pub(crate) fn listen_flag(address: &str) -> Flag {
    Flag {
        name: "--listen",
        key: &["server", "listen"],
        value: address.into(),
    }
}

/// Returns the location of an error without its folder: `given.toml:LINE`.
pub(crate) fn location(error: &ConfigError) -> String {
    let location = error.location.rsplit('/').next().unwrap_or_default();
    location.to_owned()
}
