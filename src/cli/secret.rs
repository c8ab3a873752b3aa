//! `secret`: replaces the secret that signs lease ids.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::CommandError;
use super::config_args::{ConfigArgs, open_existing_store};
use super::output::{format_duration, print_line};

/// Replace the secret that signs lease ids
#[derive(Debug, Args)]
pub(super) struct SecretCommand {
    #[command(subcommand)]
    command: SecretCommands,
}

#[derive(Debug, Subcommand)]
enum SecretCommands {
    Rotate(Rotate),
}

/// Add a secret that signs lease ids, and let the others end
///
/// Running services read the new secret within 30 s and sign with it after 90 s, without a restart. Leases continue: ids that were
/// signed before are valid for --accept-old-for. With --now every lease in flight is lost within 30 s, and expires. Opens the
/// store directly with the configuration of the service. The service need not run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker secret rotate --config queues.toml
  lease-broker secret rotate --config queues.toml --now       after a secret became known to others")]
struct Rotate {
    /// Accept ids that the present secrets have signed for this time, 2m to 365days. It must be longer than workers keep a lease
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = parse_time)]
    accept_old_for: Duration,
    /// Accept no id that the present secrets have signed
    #[arg(long, conflicts_with = "accept_old_for")]
    now: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Parses a time that is longer than services need to take over a secret.
fn parse_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < Duration::from_secs(120) || time > Duration::from_secs(365 * 86_400) {
        return Err("must be 2m to 365days".to_owned());
    }
    Ok(time)
}

impl SecretCommand {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        match self.command {
            SecretCommands::Rotate(command) => command.run().await,
        }
    }
}

impl Rotate {
    async fn run(self) -> Result<(), CommandError> {
        let config = self.config.load(Vec::new())?;
        let store = open_existing_store(&config, &[]).await?;
        let time = if self.now {
            Duration::ZERO
        } else {
            self.accept_old_for
        };
        let number = store.rotate_secrets(time).await?;
        if self.now {
            print_line!(
                "secret {number} added; ids that older secrets have signed are not valid any more"
            );
        } else {
            let time = format_duration(time);
            print_line!(
                "secret {number} added; ids that older secrets have signed are valid for {time}"
            );
        }
        Ok(())
    }
}
