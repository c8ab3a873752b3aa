//! The command line: one module per command, and the modules that several commands share.
//!
//! `serve` and `demo` run a broker in this process or in a child process. `adopt`, `schema`, `why`, `secret`, `backup` and `restore`
//! open the store directly, so they work while no broker runs. The commands of `operate` can do both. `token` and `auth` need no
//! broker. The other commands call a running broker over gRPC.

mod address_flag;
mod adopt;
mod auth;
mod backup;
mod bearer;
mod claim;
mod client_args;
mod command_error;
mod completions;
mod config_args;
mod confirm;
mod connect;
mod connection;
mod connection_failure;
mod credential_args;
mod demo;
mod doctor;
mod enqueue;
mod environment;
mod health;
pub(crate) mod item_file;
mod item_input;
mod lease_args;
mod operate;
pub mod output;
mod port_protocol;
mod restore;
mod runtime;
mod schema;
mod secret;
mod serve;
mod settle;
mod similar;
mod start;
mod stop_requests;
mod token;
mod tokens_file;
mod why;
mod work;

pub use self::bearer::{AuthorizedChannel, Bearer};
pub use self::command_error::CommandError;
pub use self::config_args::open_store;
pub use self::connect::Addresses;
pub use self::credential_args::CredentialArgs;
pub use self::runtime::block_on;
pub use self::start::start;
pub use self::stop_requests::stop_signal;

use std::io::Write as _;

use clap::{CommandFactory as _, Parser, Subcommand};
use lease_broker_model::text::visible;

use self::environment::{UnknownVariable, unknown_variables};
use crate::broker::LeaseOperations;

/// Leases rows of ordinary SQL tables to workers in any language, over gRPC.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 110, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lease-broker demo                                   run several workers on one table and kill one
  lease-broker serve                                  serve the queue `default` in ./lease-broker.db
  lease-broker adopt --store orders.db                make an existing table a queue
  lease-broker enqueue default --set payload=hello    add an item
  lease-broker claim default                          lease the item
  lease-broker complete default LEASE_ID              complete the item
  lease-broker work default -- ./program              run a program for each item
  lease-broker top                                    watch the queues, leases, failures and brokers
  lease-broker redrive default --error timeout        make dead items ready again

Exit codes:
  0   success
  1   the service refused the call, a lease was lost, or a check failed
  2   no item fits: redrive, cancel and purge had nothing to change
  3   the answer to the question was no, and nothing was changed
  4   an operation on many items ended part-way; the message says how far
  64  the command line, a file of items, the configuration or a table's schema is wrong
  69  the service cannot be reached or does not answer in time
  70  a bug in lease-broker
  74  a file, a port or the database cannot be used";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Demo(demo::Demo),
    #[command(name = "demo-worker", hide = true)]
    DemoWorker(demo::worker::DemoWorker),
    Adopt(adopt::Adopt),
    #[command(subcommand)]
    Schema(schema::Schema),
    Enqueue(enqueue::Enqueue),
    Work(Box<work::Work>),
    Claim(claim::Claim),
    Heartbeat(claim::Heartbeat),
    Complete(settle::Complete),
    Fail(settle::Fail),
    Release(settle::Release),
    Health(health::Health),
    Doctor(Box<doctor::Doctor>),
    Top(operate::Top),
    Stats(operate::Stats),
    List(operate::List),
    Show(operate::Show),
    Why(why::Why),
    Pause(operate::Pause),
    Resume(operate::Resume),
    Limits(operate::Limits),
    #[command(subcommand)]
    Groups(operate::Groups),
    Redrive(operate::Redrive),
    Cancel(operate::Cancel),
    Purge(operate::Purge),
    Operations(operate::Operations),
    Brokers(operate::Brokers),
    Drain(operate::Drain),
    Secret(secret::SecretCommand),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Token(token::TokenCommand),
    Auth(auth::Auth),
    Completions(completions::Completions),
}

impl Cli {
    /// If a shell asks how a command line can continue, prints the candidates and ends the process.
    pub fn answer_shell() {
        operate::complete::answer_shell(Self::command);
    }

    /// Runs the command. Blocks until it ends.
    pub fn run(self) -> Result<(), CommandError> {
        self.run_with(|store| store)
    }

    /// Runs the command. If it serves, `lease_operations` returns the operations on leases of its store. Tests of checkers
    /// replace them, to break a promise.
    #[doc(hidden)]
    pub fn run_with(self, lease_operations: LeaseOperations) -> Result<(), CommandError> {
        let unknown = unknown_variables(&Self::command());
        // `serve` reports them in its log.
        if !matches!(self.command, Command::Serve(_)) {
            warn_of_unknown_variables(&unknown);
        }
        match self.command {
            Command::Completions(command) => command.run(),
            Command::Adopt(command) => command.run(|config| {
                Self::parse_from(["lease-broker", "serve", "--config", config]).run()
            }),
            Command::Schema(command) => command.run(),
            Command::Backup(command) => command.run(),
            Command::Restore(command) => command.run(),
            Command::Token(command) => command.run(),
            Command::Auth(command) => command.run(),
            Command::Serve(command) => command.run(&unknown, lease_operations),
            Command::Demo(command) => block_on(command.run()),
            Command::DemoWorker(command) => block_on(command.run()),
            Command::Secret(command) => block_on(command.run()),
            Command::Enqueue(command) => block_on(command.run()),
            Command::Work(command) => block_on(command.run()),
            Command::Claim(command) => block_on(command.run()),
            Command::Heartbeat(command) => block_on(command.run()),
            Command::Complete(command) => block_on(command.run()),
            Command::Fail(command) => block_on(command.run()),
            Command::Release(command) => block_on(command.run()),
            Command::Health(command) => block_on(command.run()),
            Command::Doctor(command) => block_on(command.run()),
            Command::Cancel(command) => block_on(command.run()),
            Command::Stats(command) => block_on(command.run()),
            Command::List(command) => block_on(command.run()),
            Command::Why(command) => block_on(command.run()),
            Command::Redrive(command) => block_on(command.run()),
            Command::Top(command) => block_on(command.run()),
            Command::Show(command) => block_on(command.run()),
            Command::Pause(command) => block_on(command.run()),
            Command::Resume(command) => block_on(command.run()),
            Command::Limits(command) => block_on(command.run()),
            Command::Groups(command) => block_on(command.run()),
            Command::Operations(command) => block_on(command.run()),
            Command::Brokers(command) => block_on(command.run()),
            Command::Drain(command) => block_on(command.run()),
            Command::Purge(command) => block_on(command.run()),
        }
    }
}

/// Writes a line to standard error for each environment variable that is probably mistyped.
fn warn_of_unknown_variables(unknown: &[UnknownVariable]) {
    for UnknownVariable { name, similar } in unknown {
        let hint = similar
            .as_ref()
            .map(|similar| format!("; did you mean {similar}?"));
        let hint = hint.unwrap_or_default();
        let line = format!("lease-broker: the environment variable {name} has no effect{hint}");
        // The reader of standard error may have ended.
        let _ = writeln!(std::io::stderr(), "{}", visible(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the arguments of a command and its subcommands that take a key or a group, as `COMMAND VALUE`.
    fn find_keys_and_groups(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for argument in command.get_arguments() {
            let names = argument.get_value_names().unwrap_or_default();
            let name = names
                .iter()
                .find(|name| matches!(&***name, "KEY" | "GROUP"));
            let Some(name) = name else {
                continue;
            };
            let is_accepted =
                argument.is_allow_negative_numbers_set() || argument.is_allow_hyphen_values_set();
            assert!(is_accepted, "{path}: {name} refuses a negative number");
            found.push(format!("{path} {name}"));
        }
        for command in command.get_subcommands() {
            let path = format!("{path} {}", command.get_name());
            find_keys_and_groups(command, path.trim_start(), found);
        }
    }

    #[test]
    fn keys_and_groups_can_be_negative_numbers() {
        let mut found = Vec::new();
        find_keys_and_groups(&Cli::command(), "", &mut found);
        found.sort_unstable();
        let expected = [
            "cancel KEY",
            "claim GROUP",
            "groups pause GROUP",
            "groups resume GROUP",
            "purge KEY",
            "redrive KEY",
            "show KEY",
            "why KEY",
            "work GROUP",
        ];
        assert_eq!(found, expected);
        for arguments in [
            "cancel n -5 -6.5 --reason x",
            "claim n --group -7 --limit 2",
            "groups pause n -7 --reason x",
            "groups resume n -abc --reason x",
            "redrive n -5 --yes",
            "work n --group -7 -- true",
        ] {
            let words = ["lease-broker"].into_iter();
            let parsed = Cli::try_parse_from(words.chain(arguments.split(' ')));
            assert!(parsed.is_ok(), "{arguments}: {:?}", parsed.err());
        }
    }
}
