//! The result type of this command. Every error ends the bench.

use crate::cli::CommandError;

pub(super) type Result<T> = std::result::Result<T, CommandError>;
