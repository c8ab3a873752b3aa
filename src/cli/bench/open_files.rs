//! The limit of open files, which many connections reach.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::CommandError;

/// What a process opens besides its connections.
const OTHERS: u64 = 256;

/// Raises the limit of this process, and of those that it starts, so far that it has room for `connections`.
pub(super) fn make_room_for(connections: usize) -> Result<(), CommandError> {
    let needed = connections as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        CommandError::usage(format!(
            "--connections {connections}: the limit of open files can't be raised to {needed} ({error})"
        ))
    })
}
