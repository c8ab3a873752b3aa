//! The program `lease-broker`.

use std::process::ExitCode;

use lease_broker::cli::{Cli, start};

/// Calls and rows cause many short-lived allocations on a few threads, including those of `SQLite`. mimalloc serves
/// this pattern faster than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::answer_shell();
    start("lease-broker", Cli::run)
}
