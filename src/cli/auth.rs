//! `auth`: shows what the configuration lets a caller do, and takes tokens away.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::CommandError;
use super::config_args::ConfigArgs;
use super::output::{OutputFormat, Row, print_line};
use super::runtime::block_on;
use super::tokens_file::TokensFile;
use crate::config::{Config, Role};
use crate::security::{Access, CertificateNames, Identity, Refusal, Rpc, Tokens};

/// Look at identities and roles, and take tokens away
#[derive(Debug, Args)]
pub(super) struct Auth {
    #[command(subcommand)]
    command: AuthCommands,
}

#[derive(Debug, Subcommand)]
enum AuthCommands {
    Check(Check),
    Revoke(Revoke),
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

/// Take a token away from its callers
///
/// The command removes the lines of the token from the file of the setting `auth.tokens_file`. A service refuses the token and
/// ends the connections that have used it when it reads the file again: at once on SIGHUP, otherwise within 10 s. To take
/// away another kind of right, change the configuration or the files of authorities and keys, and send SIGHUP:
/// docs/security.md. Exit code 1: the file has no such token.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lease-broker auth revoke --config queues.toml --token-name loader
  lease-broker auth revoke --config queues.toml --token-file leaked.token")]
struct Revoke {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    token: TokenArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct TokenArgs {
    /// Every token of this name
    #[arg(long, value_name = "NAME")]
    token_name: Option<String>,
    /// The token in this file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Auth {
    pub(super) fn run(self) -> Result<(), CommandError> {
        match self.command {
            AuthCommands::Check(command) => command.run(),
            AuthCommands::Revoke(command) => command.run(),
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
        let identity = self.caller.identity(&access, &config)?;
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
    fn identity(&self, access: &Access, config: &Config) -> Result<Arc<Identity>, CommandError> {
        let identity = if let Some(path) = &self.token_file {
            let token = read_token(path)?;
            let fetched = async { access.fetch_keys().await.map_err(CommandError::io) };
            block_on(fetched)?;
            access
                .of_bearer(&token, None)
                .map_err(|refusal| match refusal {
                    // They were just fetched.
                    Refusal::Fetching => "the issuer has no key with the token's kid",
                    refusal => refusal.cause(),
                })
        } else if let Some(name) = &self.token_name {
            access.of_token_name(name)
        } else if self.anonymous {
            access.anonymous().ok_or("auth.anonymous has no role")
        } else if let Some(id) = &self.spiffe {
            let names = CertificateNames::of_spiffe_id(id);
            names.and_then(|names| match &config.server.tls {
                Some(tls) if !tls.accepts_trust_domain(names.trust_domain()) => {
                    Err("server.tls.trust_domains has no authority for the trust domain")
                }
                _ => access.of_certificate(&names),
            })
        } else {
            access.of_certificate(&CertificateNames {
                spiffe_id: None,
                dns_names: self.dns.iter().cloned().collect(),
            })
        };
        identity.map_err(|cause| CommandError::failed(format!("the caller is refused: {cause}")))
    }
}

impl Revoke {
    fn run(self) -> Result<(), CommandError> {
        let config = self.config.load(Vec::new())?;
        let path = config.auth.and_then(|auth| auth.tokens_file);
        let path = path.ok_or_else(|| {
            CommandError::usage("the configuration has no auth.tokens_file: there are no tokens")
        })?;
        let with_path = |error: io::Error| {
            CommandError::io(format!("auth.tokens_file {}: {error}", path.display()))
        };
        let TokenArgs {
            token_name,
            token_file,
        } = self.token;
        let token = token_file.as_deref().map(read_token).transpose()?;
        let mut file = TokensFile::open(&path).map_err(with_path)?;
        let text = file.read().map_err(with_path)?;
        let removed = Tokens::remove(&text, |line| {
            token.as_ref().is_some_and(|token| line.is_of(token))
                || token_name.as_ref() == Some(&line.name)
        });
        let (left, removed) = removed.map_err(|reason| with_path(io::Error::other(reason)))?;
        if removed == 0 {
            let path = path.display();
            return Err(CommandError::failed(format!("{path} has no such token")));
        }
        file.replace(&left).map_err(with_path)?;
        print_line!("tokens revoked: {removed}; send SIGHUP to each service, or wait 10 s");
        Ok(())
    }
}

fn read_token(path: &Path) -> Result<Vec<u8>, CommandError> {
    let token = std::fs::read(path);
    let token = token.map_err(|error| {
        CommandError::usage(format!("--token-file {}: {error}", path.display()))
    })?;
    Ok(token.trim_ascii().to_vec())
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
