//! `auth`: shows what the configuration lets a caller do.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::CommandError;
use super::config_args::ConfigArgs;
use super::output::{OutputFormat, Row};
use super::runtime::block_on;
use crate::config::{Config, Role};
use crate::security::{Access, CertificateNames, Identity, Rpc};

/// Look at identities and roles
#[derive(Debug, Args)]
pub(super) struct Auth {
    #[command(subcommand)]
    command: AuthCommands,
}

#[derive(Debug, Subcommand)]
enum AuthCommands {
    Check(Check),
}

/// Show which identity a caller has, and what it may do with each queue
///
/// The command reads the configuration and its files, as a service that starts would. It calls no service, but fetches the keys of
/// `auth.jwt.jwks_url` for a token in a file. Exit code 1: the
/// caller has no identity.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker auth check --config queues.toml --spiffe spiffe://prod.example/ns/rain/sa/worker
  lease-broker auth check --config queues.toml --token-file loader.token --queue rainfall")]
struct Check {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    caller: CallerArgs,
    /// Show this queue, configured or not [default: every configured queue]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Output format. JSON has one object per line. docs/observability.md lists the fields
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct CallerArgs {
    /// A caller whose certificate has this SPIFFE id
    #[arg(long, value_name = "ID")]
    spiffe: Option<String>,
    /// A caller whose certificate has this DNS name
    #[arg(long, value_name = "NAME")]
    dns: Option<String>,
    /// A caller with the token of this name
    #[arg(long, value_name = "NAME")]
    token_name: Option<String>,
    /// A caller with the token in this file, also a JSON Web Token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A caller without credentials
    #[arg(long)]
    anonymous: bool,
}

impl Auth {
    pub(super) fn run(self) -> Result<(), CommandError> {
        match self.command {
            AuthCommands::Check(command) => command.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<(), CommandError> {
        let config = self.config.load(Vec::new())?;
        let Some(auth) = &config.auth else {
            return Err(CommandError::usage(
                "the configuration has no section [auth]: every caller may do everything",
            ));
        };
        let access = Access::open(auth).map_err(CommandError::usage)?;
        let identity = self.caller.identity(&access)?;
        let rows: Vec<_> = self
            .queues(&config)
            .iter()
            .map(|queue| row(&identity, queue))
            .collect();
        self.output.print(&rows, "no queue is configured");
        Ok(())
    }

    fn queues(&self, config: &Config) -> Vec<String> {
        match &self.queue {
            Some(queue) => vec![queue.clone()],
            None => config
                .queues
                .iter()
                .map(|queue| queue.name.clone())
                .collect(),
        }
    }
}

impl CallerArgs {
    fn identity(&self, access: &Access) -> Result<Arc<Identity>, CommandError> {
        let identity = if let Some(path) = &self.token_file {
            let token = std::fs::read(path).map_err(|error| {
                CommandError::usage(format!("--token-file {}: {error}", path.display()))
            })?;
            let fetched = async { access.fetch_keys().await.map_err(CommandError::io) };
            block_on(fetched)?;
            access
                .of_bearer(token.trim_ascii(), 0)
                .map(|(identity, _)| identity)
        } else if let Some(name) = &self.token_name {
            access.of_token_name(name)
        } else if self.anonymous {
            access.anonymous().ok_or("auth.anonymous has no role")
        } else {
            access.of_certificate(&CertificateNames {
                spiffe_id: self.spiffe.clone(),
                dns_names: self.dns.iter().cloned().collect(),
            })
        };
        identity.map_err(|cause| CommandError::failed(format!("the caller is refused: {cause}")))
    }
}

fn row(identity: &Identity, queue: &str) -> Row {
    let roles: Vec<_> = identity.rights.roles_on(queue).map(Role::name).collect();
    let rpcs = Rpc::ALL.into_iter();
    let rpcs = rpcs.filter(|rpc| identity.rights.allow(*rpc, queue));
    let rpcs: Vec<_> = rpcs.map(Rpc::name).collect();
    Row::default()
        .field("identity", identity.name.clone())
        .field("queue", queue)
        .field("roles", roles)
        .field("rpcs", rpcs)
}
