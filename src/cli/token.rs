//! `token`: makes tokens for callers.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use lease_broker_model::key::rfc3339;

use super::CommandError;
use super::output::print_line;
use super::tokens_file::TokensFile;
use crate::security::{Tokens, hash_of_token, new_token};

/// Make tokens for workers, producers and operators
#[derive(Debug, Args)]
pub(super) struct TokenCommand {
    #[command(subcommand)]
    command: TokenCommands,
}

#[derive(Debug, Subcommand)]
enum TokenCommands {
    New(New),
}

/// Make a token, and the line that lets the service know it
///
/// The file of the setting `auth.tokens_file` has one line per token: its name and its hash. The token itself is printed once
/// and stored nowhere. To replace a token, make another with the same name, give it to the callers, and remove the old line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker token new loader
  lease-broker token new loader --valid-for 90days --tokens-file /etc/broker/tokens > loader.token")]
struct New {
    /// Name of the token, as an identity in the configuration has it
    name: String,
    /// Refuse the token after this time [default: it does not end]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    valid_for: Option<Duration>,
    /// Add the line to this file, and print the token alone [default: print both]
    #[arg(long, value_name = "FILE")]
    tokens_file: Option<PathBuf>,
}

impl TokenCommand {
    pub(super) fn run(self) -> Result<(), CommandError> {
        match self.command {
            TokenCommands::New(command) => command.run(),
        }
    }
}

impl New {
    fn run(self) -> Result<(), CommandError> {
        let token = new_token();
        let mut line = format!("{}:{}", self.name, hash_of_token(&token));
        if let Some(time) = self.valid_for {
            line = format!("{line}:{}", end(time)?);
        }
        // The service must be able to read the line.
        let parsed =
            Tokens::parse(&line).map(|tokens| tokens.iter().any(|token| token.name == self.name));
        if parsed != Ok(true) {
            return Err(CommandError::usage(format!(
                "the name {:?} must not be empty, start with #, or have a colon, a space at an end or an end of a line",
                self.name
            )));
        }
        if let Some(path) = &self.tokens_file {
            let added = TokensFile::create(path).and_then(|mut file| file.append(&line));
            added.map_err(|error| {
                CommandError::io(format!("--tokens-file {}: {error}", path.display()))
            })?;
            print_line!("{token}");
        } else {
            print_line!("token, shown only now:  {token}");
            print_line!("line for the file:      {line}");
        }
        Ok(())
    }
}

/// Returns the time at which a token ends, in whole seconds.
fn end(valid_for: Duration) -> Result<String, CommandError> {
    let end = SystemTime::now().checked_add(valid_for);
    let seconds = end.and_then(|end| end.duration_since(SystemTime::UNIX_EPOCH).ok());
    let seconds = seconds.and_then(|time| i64::try_from(time.as_secs()).ok());
    // The last year that RFC 3339 can write is 9999.
    let seconds = seconds.filter(|seconds| *seconds < 253_402_300_800);
    let seconds =
        seconds.ok_or_else(|| CommandError::usage("--valid-for: the time is too long"))?;
    Ok(rfc3339(seconds, 0))
}
