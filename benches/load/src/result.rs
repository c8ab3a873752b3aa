//! The result type of this command. Every error ends the bench.

use lease_broker::cli::CommandError;

pub(crate) type Result<T> = std::result::Result<T, CommandError>;
